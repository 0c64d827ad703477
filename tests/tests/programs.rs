//! The programs of `tests/mpi` on 1, 2, 3, 4 and 7 ranks, or as a test says. Each program checks itself
//! against an oracle or a rule of the standard.

use std::time::Duration;

use capulet_tests::{Job, Mpi, RANKS, Through, compile, is_long};

fn job(name: &str, ranks: usize) -> Job {
    let mpi = Mpi::chosen();
    Job::new(mpi, ranks, compile::c(mpi, name))
}

/// Defines one test for each number of ranks.
macro_rules! on_all_ranks {
    ($($name:ident)*) => { $(
        mod $name {
            #[test]
            fn on_1() {
                super::check(stringify!($name), 1);
            }
            #[test]
            fn on_2() {
                super::check(stringify!($name), 2);
            }
            #[test]
            fn on_3() {
                super::check(stringify!($name), 3);
            }
            #[test]
            fn on_4() {
                super::check(stringify!($name), 4);
            }
            #[test]
            #[cfg_attr(mpich, ignore = "7 ranks spin on MPICH: run by make test-long")]
            fn on_7() {
                super::check(stringify!($name), 7);
            }
        }
    )* };
}

fn check(name: &str, ranks: usize) {
    assert!(RANKS.contains(&ranks));
    job(name, ranks).run().expect_checks(&format!("{name} on {ranks} ranks"));
}

on_all_ranks! {
    views random_views pointers sizes info errors not_same handlers disjoint large large_count large_transfer
    memory lifetimes manners isend unsupported threads full_disk atomic shared consistency view_classes hint_keys
}

/// On several nodes, a hole in the bytes of one node may be bytes of another node.
#[test]
#[cfg_attr(native_io, ignore = "is about a hint of Capulet's")]
fn exclusive() {
    for (ranks, nodes) in [(1, "1"), (2, "1"), (4, "1"), (3, "2"), (4, "3")] {
        let job = job("exclusive", ranks).variable("CAPULET_NODES", nodes);
        job.run().expect_checks(&format!("exclusive on {ranks} ranks on {nodes} nodes"));
    }
}

/// The storage may cut a transfer at any time. Here it cuts every transfer into small pieces.
#[test]
fn views_with_cut_transfers() {
    for ranks in [1, 3] {
        let job = job("views", ranks).variable("CAPULET_FAULTS", "rank=*;read@*:pieces=37;write@*:pieces=11");
        job.run().expect_checks(&format!("views with cut transfers on {ranks} ranks"));
    }
}

/// Atomic accesses stay atomic when the storage cuts each into pieces.
#[test]
fn atomic_with_cut_transfers() {
    for ranks in [1, 2, 4] {
        let job =
            job("atomic", ranks).variable("CAPULET_FAULTS", "rank=*;read@*:pieces=37;write@*:pieces=11");
        job.run().expect_checks(&format!("atomic with cut transfers on {ranks} ranks"));
    }
}

/// Capulet keeps every promise of the standard's chapter on consistency among nodes too.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn consistency_among_nodes() {
    for nodes in ["2", "3"] {
        let job = job("consistency", 3).variable("CAPULET_NODES", nodes);
        // Debian's MPICH cannot access the memory of a rank that is not in an MPI call.
        let job = if Mpi::chosen().name() == "mpich" { job.arg("active") } else { job };
        job.run().expect_checks(&format!("consistency on {nodes} nodes"));
    }
}

/// One machine simulates several nodes. Their leaders exchange the bytes of their ranks. Rank r of P is on
/// node floor(r k / P) of k.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn several_nodes() {
    for name in ["views", "random_views", "pointers", "disjoint", "overlaps", "isend", "threads"] {
        // MPICH spins: with many more ranks than cores, a program takes up to a minute.
        let ranks_max = if Mpi::chosen().name() == "mpich" && !is_long() { 4 } else { 7 };
        let ways = [(2, "2"), (4, "2"), (4, "3"), (6, "3"), (7, "2")];
        for (ranks, nodes) in ways.into_iter().filter(|(ranks, _)| *ranks <= ranks_max) {
            let job = job(name, ranks).variable("CAPULET_NODES", nodes);
            job.run().expect_checks(&format!("{name} on {ranks} ranks on {nodes} nodes"));
        }
    }
}

/// Ranks of several nodes access shared state by one-sided operations of MPI. MPICH spins in them, so it
/// gets few ranks.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn shared_state_on_several_nodes() {
    let ways: &[(usize, &str)] =
        if Mpi::chosen().name() == "mpich" { &[(2, "2")] } else { &[(2, "2"), (4, "3"), (7, "2")] };
    for name in ["atomic", "shared"] {
        for (ranks, nodes) in ways {
            let job = job(name, *ranks).variable("CAPULET_NODES", nodes);
            job.run().expect_checks(&format!("{name} on {ranks} ranks on {nodes} nodes"));
        }
    }
}

/// As above, by word servers. They need no call of MPI by the rank that holds the words, with any MPI: so
/// `consistency` is not told to stay in MPI.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn shared_state_by_word_servers() {
    for name in ["atomic", "shared", "consistency"] {
        for (ranks, nodes) in [(2, "2"), (4, "3")] {
            let job = job(name, ranks).variable("CAPULET_NODES", nodes);
            let job = job.variable("CAPULET_HINTS", "capulet_words=server");
            job.run().expect_checks(&format!("{name} on {ranks} ranks on servers of {nodes} nodes"));
        }
    }
}

/// As above, by messages that the rank that holds the words answers: in the waits of Open MPI, and in calls
/// on files, which the waits of these programs make too for MPICH. MPICH spins, so it gets few ranks.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn shared_state_by_messages() {
    let ways: &[(usize, &str)] =
        if Mpi::chosen().name() == "mpich" { &[(2, "2")] } else { &[(2, "2"), (4, "3")] };
    for name in ["atomic", "shared", "consistency"] {
        for (ranks, nodes) in ways {
            let job = job(name, *ranks).variable("CAPULET_NODES", nodes).variable("CHECK_ENTERS", "1");
            let job = job.variable("CAPULET_HINTS", "capulet_words=messages");
            job.run().expect_checks(&format!("{name} on {ranks} ranks by messages of {nodes} nodes"));
        }
    }
}

/// Fewer aggregators than nodes. A node without an aggregator only sends and receives.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn nodes_without_aggregators() {
    for (ranks, nodes, hint) in [(2, "2", "cb_nodes=1"), (4, "3", "cb_nodes=1"), (6, "3", "cb_nodes=2")] {
        for name in ["views", "random_views", "overlaps"] {
            let mut job = job(name, ranks).variable("CAPULET_NODES", nodes);
            for hint in [hint, "romio_cb_write=enable", "romio_cb_read=enable"] {
                job = job.run_option("--hint").run_option(hint);
            }
            job.run().expect_checks(&format!("{name} on {ranks} ranks on {nodes} nodes with {hint}"));
        }
    }
}

/// With the promise that all access is collective, one rank of each node opens the file. Another rank opens
/// it if the rank has to move bytes.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn opened_on_demand() {
    for (ranks, nodes, promised, opens) in
        [(4, "1", "true", 1), (4, "1", "false", 4), (4, "2", "true", 2), (3, "3", "true", 3)]
    {
        let job = job("on_demand", ranks).arg("once").variable("CAPULET_NODES", nodes);
        // The access is smaller than one collective buffer, so only the first aggregator moves bytes.
        let promise = format!("romio_no_indep_rw={promised}");
        let job = job.variable("CAPULET_STATS", "1").run_option("--hint").run_option(&promise);
        let outcome = job.run();
        outcome.expect_checks(&format!("{ranks} ranks on {nodes} nodes, {promise}"));
        let words = outcome.text.split_whitespace();
        let counts: Vec<u64> = words.filter_map(|word| word.strip_prefix("opens=")?.parse().ok()).collect();
        assert_eq!(counts, [opens; 2], "{ranks} ranks on {nodes} nodes, {promise}");
    }
    for ranks in [1, 2, 4] {
        let job = job("on_demand", ranks).arg("gone");
        job.run().expect_checks(&format!("a removed file name on {ranks} ranks"));
    }
}

/// `cb_config_list` selects aggregators, and the info of the file reports the value in force.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn config_lists() {
    for (ranks, nodes) in [(1, "1"), (3, "1"), (4, "2"), (4, "3")] {
        let job = job("info", ranks).variable("CAPULET_NODES", nodes).variable("CHECK_CONFIG_LIST", "1");
        job.run().expect_checks(&format!("config lists on {ranks} ranks on {nodes} nodes"));
    }
}

/// Two ranks write disjoint bytes at the same time, ten thousand times. The peers write stale bytes over
/// some of them.
#[test]
#[cfg_attr(native_io, ignore = "fails on the peers, which is why it is here")]
fn disjoint_bytes_ten_thousand_times() {
    let job = job("disjoint", 2).arg("10000").limit(Duration::from_secs(1200));
    job.run().expect_checks("disjoint bytes, ten thousand rounds");
}

/// Several ranks write the same bytes. The standard leaves the result open. In Capulet the bytes of the
/// highest rank stay.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn overlaps() {
    for ranks in [1, 2, 4, 7] {
        job("overlaps", ranks).run().expect_checks(&format!("overlaps on {ranks} ranks"));
    }
}

/// Two nodes exchange messages, and one node exchanges none. In `random_views` the ranks take turns in the
/// file, so that each node has bytes for the other.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn only_several_nodes_exchange_messages() {
    let exchanged = |nodes: &str| -> u64 {
        let job = job("random_views", 4).variable("CAPULET_NODES", nodes).variable("CAPULET_STATS", "1");
        let outcome = job.run();
        outcome.expect_checks(&format!("random_views with statistics on {nodes} nodes"));
        let words = outcome.text.split_whitespace();
        words.filter_map(|word| word.strip_prefix("exchange_messages=")?.parse::<u64>().ok()).sum()
    };
    assert_eq!(exchanged("1"), 0);
    assert!(exchanged("2") > 0);
}

/// Counts what a collective access costs that succeeds on one node: one collective whatever its size, one
/// barrier per round and one more, one copy of each byte, and no message. A view costs one collective. The
/// open, the first write and the close of a file cost a few.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn meetings() {
    const RANKS: usize = 4;
    for level in ["single", "multiple"] {
        let counted = |accesses: u64, views: u64, shape: &str| {
            let job = job("meetings", RANKS).arg(accesses.to_string()).arg(views.to_string()).arg(shape);
            let job = job.variable("CAPULET_STATS", "1").variable("CHECK_THREADS", level);
            let outcome = job.run();
            outcome.expect_checks(&format!("meetings with {accesses} accesses, thread level {level}"));
            let names =
                ["collectives=", "barriers=", "rounds=", "copied_bytes=", "exchange_messages=", "messages="];
            names.map(|name| -> u64 {
                let words = outcome.text.split_whitespace();
                words.filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
            })
        };
        let (few, many) = (counted(1, 0, "rounds"), counted(11, 0, "rounds"));
        // Ten more writes and ten more reads on each rank.
        let accesses = 20 * RANKS as u64;
        let [collectives, barriers, rounds, copied_bytes, exchanged, messages] =
            std::array::from_fn(|at| many[at] - few[at]);
        assert!(rounds > accesses, "{rounds} rounds in {accesses} accesses");
        assert_eq!(collectives, accesses, "collectives");
        assert_eq!(barriers, rounds + accesses, "barriers in {rounds} rounds");
        assert_eq!((copied_bytes, exchanged, messages), (accesses * 4096 * 64, 0, 0), "copies and messages");
        let ranks = RANKS as u64;
        let viewed = counted(1, 10, "rounds");
        assert_eq!(viewed[0] - few[0], 10 * ranks, "collectives of ten views");
        // The open, the first view, the two accesses and the close.
        assert!(few[0] <= 8 * ranks, "{} collectives of {ranks} ranks", few[0]);
        // Views and accesses without collective buffers agree without a message too.
        let large = counted(11, 10, "large");
        let [collectives, .., messages] = large;
        assert!(collectives >= (22 * 2 + 11) * ranks, "{collectives} collectives");
        assert_eq!((large[2], messages), (0, few[5]), "rounds and messages of large accesses");
    }
}

/// The programs whose code paths depend most on the thread level, at the level of mpi4py and h5py.
#[test]
fn at_thread_multiple() {
    for name in
        ["views", "pointers", "atomic", "shared", "consistency", "overlaps", "isend", "errors", "lifetimes"]
    {
        for ranks in [1, 4] {
            let job = job(name, ranks).variable("CHECK_THREADS", "multiple");
            job.run().expect_checks(&format!("{name} on {ranks} ranks at MPI_THREAD_MULTIPLE"));
        }
    }
    let job = job("random_views", 3).variable("CHECK_THREADS", "multiple").variable("CAPULET_NODES", "2");
    job.run().expect_checks("random_views on 2 nodes at MPI_THREAD_MULTIPLE");
}

/// A timer of the program interrupts system calls all the time.
#[test]
fn interrupted_system_calls() {
    for (name, ranks) in [("views", 1), ("random_views", 3), ("isend", 4)] {
        job(name, ranks)
            .variable("CHECK_ALARM", "1")
            .run()
            .expect_checks(&format!("{name} with interrupted system calls on {ranks} ranks"));
    }
}

/// `LD_PRELOAD` alone, without the command.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn preload_without_the_command() {
    job("lifetimes", 2).through(Through::Preload).run().expect_checks("lifetimes with LD_PRELOAD");
}

/// 3,000 files at once on one communicator.
#[test]
fn many_files() {
    for ranks in [1, 2, 4] {
        job("many_files", ranks).run().expect_checks(&format!("3,000 files on {ranks} ranks"));
    }
}

/// `isend` without the kernel's copy between processes: the sender has to push its message itself, so the
/// message needs MPI progress on the sender. (`on_all_ranks` has the program with that copy.)
///
/// Not over TCP: there MPICH 4.0 hangs in `MPI_Finalize`, with its own I/O too. Ranks wait in the barrier of
/// the process manager and make no progress for the connections that still close (MPICH pull request 6596).
#[test]
fn isend_without_kernel_copy() {
    for ranks in [2, 4] {
        let job = job("isend", ranks)
            .variable("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
            .variable("UCX_TLS", "self,posix");
        job.run().expect_checks(&format!("isend without the kernel's copy on {ranks} ranks"));
    }
}

/// A view of 10^8 pieces in less than 50 MiB.
#[test]
fn huge_view() {
    for ranks in [1, 2, 3] {
        job("huge_view", ranks).run().expect_checks(&format!("a view of 10^8 pieces on {ranks} ranks"));
    }
}

/// `ROMIO_HINTS` names a file of hints. The info of the program wins over the file.
#[test]
fn hint_file() {
    for ranks in [1, 3] {
        let job = job("info", ranks);
        let file = job.folder().join("hints");
        let lines = [
            "# hints of this site",
            "cb_buffer_size 131072",
            "romio_cb_read enable # for reading",
            "unknown_key 5",
            "no_value",
            "",
            "",
        ];
        std::fs::write(&file, lines.join("\n")).expect("the hint file is written");
        job.variable("ROMIO_HINTS", &file).run().expect_checks(&format!("a hint file on {ranks} ranks"));
    }
}

/// Hints of the command line win over the program's.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn command_hints() {
    let job = job("info", 2).variable("CHECK_COMMAND_HINTS", "1");
    let job = job
        .run_option("--hint")
        .run_option("cb_buffer_size=262144")
        .run_option("--hint")
        .run_option("romio_cb_read=enable");
    job.run().expect_checks("hints of the command line");
}

/// `CAPULET_STATS=1` makes every close gather a table collectively. The program works as without it.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn with_statistics() {
    for ranks in [1, 3] {
        let outcome = job("sizes", ranks).variable("CAPULET_STATS", "1").run();
        outcome.expect_checks(&format!("sizes with statistics on {ranks} ranks"));
        assert!(outcome.text.contains("bytes"), "there is no table of statistics:\n{}", outcome.text);
    }
}
