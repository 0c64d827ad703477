//! Every program of `tests/mpi` on 1, 2, 3, 4 and 7 ranks. Each checks itself against an oracle or a rule of the standard.

use std::time::Duration;

use capulet_tests::{Job, Mpi, RANKS, Through, compile};

fn job(name: &str, ranks: usize) -> Job {
    let mpi = Mpi::chosen();
    Job::new(mpi, ranks, compile::c(mpi, name))
}

/// One test for each number of ranks, named by it.
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

/// On one node and on several, where holes of a node may be bytes of another.
#[test]
#[cfg_attr(native_io, ignore = "is about a hint of Capulet's")]
fn exclusive() {
    for (ranks, nodes) in [(1, "1"), (2, "1"), (4, "1"), (3, "2"), (4, "3")] {
        let job = job("exclusive", ranks).variable("CAPULET_NODES", nodes);
        job.run().expect_checks(&format!("exclusive on {ranks} ranks on {nodes} nodes"));
    }
}

/// The same views when every transfer is cut into small pieces, which the storage may do at any time.
#[test]
fn views_in_pieces() {
    for ranks in [1, 3] {
        let job = job("views", ranks).variable("CAPULET_FAULTS", "rank=*;read@*:pieces=37;write@*:pieces=11");
        job.run().expect_checks(&format!("views in pieces on {ranks} ranks"));
    }
}

/// Atomic accesses are as if one step also where each is many.
#[test]
fn atomic_in_pieces() {
    for ranks in [1, 2, 4] {
        let job =
            job("atomic", ranks).variable("CAPULET_FAULTS", "rank=*;read@*:pieces=37;write@*:pieces=11");
        job.run().expect_checks(&format!("atomic in pieces on {ranks} ranks"));
    }
}

/// Every promise of the chapter on consistency is kept among nodes too.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn consistency_among_nodes() {
    for nodes in ["2", "3"] {
        let job = job("consistency", 3).variable("CAPULET_NODES", nodes);
        // Debian's MPICH does not reach the memory of a rank that computes.
        let job = if Mpi::chosen().name() == "mpich" { job.arg("active") } else { job };
        job.run().expect_checks(&format!("consistency on {nodes} nodes"));
    }
}

/// Locks that cannot be had are refused on all ranks: shared memory of several nodes, and those of a storage without.
#[test]
fn locks_that_cannot_be_had_are_refused() {
    let wanting =
        |lock: &str| job("unsupported", 4).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
    wanting("shared").variable("CAPULET_NODES", "2").run().expect_checks("shared on 2 nodes");
    wanting("fcntl").variable("CAPULET_DRIVER", "nolock").run().expect_checks("fcntl without locks");
}

/// Each lock, on one node and on several.
const LOCKS: [(&str, &str); 14] = [
    ("auto", "3"),
    ("range", "1"),
    ("range", "2"),
    ("shared", "1"),
    ("mcs", "1"),
    ("mcs", "2"),
    ("hybrid", "1"),
    ("hybrid", "2"),
    ("onesided", "1"),
    ("onesided", "2"),
    ("twolevel", "1"),
    ("twolevel", "2"),
    ("twolevel", "3"),
    ("fcntl", "2"),
];

/// What is asked of atomic mode is asked of every lock.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_with_each_lock() {
    for (lock, nodes) in LOCKS {
        let job = job("atomic", 3).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
        job.variable("CAPULET_NODES", nodes).run().expect_checks(&format!("{lock} on {nodes} nodes"));
    }
}

/// Locks that follow each other in the same memory do not take what is left there for theirs.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn a_lock_begins_anew_where_another_one_was() {
    // The storage tears what is not locked.
    job("lock_series", 3).variable("CAPULET_DRIVER", "nolock").run().expect_checks("locks in a series");
}

/// What waits for a lock is called back by MPI, in ways that are those of the lock.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn nothing_begins_on_top_of_a_lock() {
    for (lock, nodes) in LOCKS {
        let job = job("lock_nested", 2).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
        let job =
            job.variable("CAPULET_NODES", nodes).variable("CAPULET_FAULTS", "rank=*;write@*:delay=120ms");
        job.run().expect_checks(&format!("{lock} on {nodes} nodes"));
    }
}

/// Rank 0's accesses take a second and a half, and the others want to wait for less.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn waits_have_their_limit_and_name_the_holder() {
    // Debian's MPICH does not reach the memory of rank 0 before it is in MPI again, and a queue is asked for there.
    let is_asked = |lock: &str, nodes: &str| match lock {
        "twolevel" => nodes != "1",
        lock => lock == "mcs" || lock == "auto",
    };
    let is_mpich = Mpi::chosen().name() == "mpich";
    for (lock, nodes) in LOCKS.into_iter().filter(|(lock, nodes)| !(is_mpich && is_asked(lock, nodes))) {
        let hints = format!("capulet_lock={lock};capulet_lock_timeout_ms=60");
        let holder = match (lock, nodes) {
            // Which of the locks of a storage is in the way the system does not say.
            ("fcntl", _) => "somebody",
            // Nor does a node which of its ranks has the lock.
            ("twolevel", "3") => "the node of rank 0",
            _ => "rank 0",
        };
        let meeting = if (lock, nodes) == ("range", "1") { "nowhere" } else { "file" };
        let job = job("lock_limits", 3).arg(meeting).variable("CAPULET_HINTS", hints);
        let job = job.variable("CAPULET_LOG", "info").variable("CAPULET_NODES", nodes);
        let outcome = job.variable("CAPULET_FAULTS", "rank=0;write@*:delay=1500ms").run();
        outcome.expect_checks(&format!("{lock} on {nodes} nodes"));
        // Some name those that wait before them, too.
        let told = outcome.text.matches("were locked by").count();
        let names_holder = outcome.text.contains(&format!("were locked by {holder} for"));
        assert!(told == 2 && names_holder, "{lock} on {nodes} nodes: {}", outcome.text);
    }
}

/// Who waits in a call of ours lets MPI go on: in the locks that wait in ways of their own, and for ranks that come late.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn waits_let_mpi_go_on() {
    for (lock, nodes) in
        [("auto", "3"), ("range", "1"), ("shared", "1"), ("mcs", "2"), ("twolevel", "1"), ("twolevel", "2")]
    {
        let job = job("waiting", 3).arg("lock").variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
        let job =
            job.variable("CAPULET_NODES", nodes).variable("CAPULET_FAULTS", "rank=0;write@*:delay=3000ms");
        job.run().expect_checks(&format!("{lock} on {nodes} nodes"));
    }
    for (how, nodes) in [("collective", "1"), ("collective", "3"), ("request", "1"), ("request", "3")] {
        let job = job("waiting", 3).arg(how).variable("CAPULET_NODES", nodes);
        job.run().expect_checks(&format!("{how} with a late rank on {nodes} nodes"));
    }
}

/// The launcher ends a job of which one rank is killed with a lock in its hands, and no rank outlives it, whatever they wait for.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn nobody_outlives_a_rank_that_dies_with_a_lock() {
    for (lock, nodes) in
        [("auto", "1"), ("auto", "3"), ("shared", "1"), ("mcs", "2"), ("onesided", "2"), ("twolevel", "2")]
    {
        let job = job("dying", 3).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
        let job = job.variable("CAPULET_NODES", nodes).variable("CAPULET_FAULTS", "rank=0;write@*:delay=20s");
        let outcome = job.run();
        let what = format!("{lock} on {nodes} nodes: {}", outcome.text);
        assert!(outcome.status.is_some_and(|status| !status.success()), "{what}");
        assert!(!outcome.text.contains("class MPI_SUCCESS") && !outcome.text.contains("FAILED"), "{what}");
        for rank in 0..3 {
            let process = std::fs::read_to_string(job.folder().join(format!("process.{rank}")));
            let process = process.expect("each rank has told its number");
            // A launcher's last word may come before the system has taken its processes away.
            let is_gone = || !std::path::Path::new("/proc").join(&process).exists();
            let gone = (0..500).any(|_| {
                is_gone() || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    false
                }
            });
            assert!(gone, "rank {rank} outlives its launcher; {what}");
        }
    }
}

/// One machine that looks like several nodes, whose leaders exchange what their ranks have for each other. Rank r of P is on
/// node floor(r k / P).
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn several_nodes() {
    for name in ["views", "random_views", "pointers", "disjoint", "overlaps", "isend", "threads"] {
        // MPICH spins: with many more ranks than cores the long ones take a minute.
        let is_long = Mpi::chosen().name() == "mpich" && name.contains("views");
        let ways = [(2, "2"), (4, "2"), (4, "3"), (6, "3"), (7, "2")];
        for (ranks, nodes) in ways.into_iter().filter(|(ranks, _)| !is_long || *ranks <= 4) {
            let job = job(name, ranks).variable("CAPULET_NODES", nodes);
            job.run().expect_checks(&format!("{name} on {ranks} ranks on {nodes} nodes"));
        }
    }
}

/// What ranks of several nodes share they reach by MPI's one-sided operations, in which MPICH spins.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn shared_between_nodes() {
    let ways: &[(usize, &str)] =
        if Mpi::chosen().name() == "mpich" { &[(2, "2")] } else { &[(2, "2"), (4, "3"), (7, "2")] };
    for name in ["atomic", "shared"] {
        for (ranks, nodes) in ways {
            let job = job(name, *ranks).variable("CAPULET_NODES", nodes);
            job.run().expect_checks(&format!("{name} on {ranks} ranks on {nodes} nodes"));
        }
    }
}

/// Fewer aggregators than nodes: the nodes without any send and receive only.
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

/// With the promise that all access is collective, one rank of each node opens the file, and others if they have to move bytes.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn opened_on_demand() {
    for (ranks, nodes, promised, opens) in
        [(4, "1", "true", 1), (4, "1", "false", 4), (4, "2", "true", 2), (3, "3", "true", 3)]
    {
        let job = job("on_demand", ranks).arg("once").variable("CAPULET_NODES", nodes);
        // What is moved is less than a window, which is the first aggregator's.
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
        job.run().expect_checks(&format!("a name that is taken away, on {ranks} ranks"));
    }
}

/// What `cb_config_list` asks for, and what is in force.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn config_lists() {
    for (ranks, nodes) in [(1, "1"), (3, "1"), (4, "2"), (4, "3")] {
        let job = job("info", ranks).variable("CAPULET_NODES", nodes).variable("CHECK_CONFIG_LIST", "1");
        job.run().expect_checks(&format!("config lists on {ranks} ranks on {nodes} nodes"));
    }
}

/// Disjoint bytes written at the same time by two ranks, ten thousand times: the peers put stale bytes back over some of them.
#[test]
#[cfg_attr(native_io, ignore = "fails on the peers, which is why it is here")]
fn disjoint_bytes_ten_thousand_times() {
    let job = job("disjoint", 2).arg("10000").limit(Duration::from_secs(1200));
    job.run().expect_checks("disjoint bytes, ten thousand rounds");
}

/// The standard leaves open whose bytes stay; here they are those of the highest rank.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn overlaps() {
    for ranks in [1, 2, 4, 7] {
        job("overlaps", ranks).run().expect_checks(&format!("overlaps on {ranks} ranks"));
    }
}

/// What the ranks of one node have for the other goes there, and only that: `random_views` has the ranks take turns.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn nodes_exchange() {
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

/// An atomic access that nobody is in the way of costs a lock, and no call, message or agreement more than another; none where views
/// have no byte in common, unless threads of a rank can be in each other's way.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_accesses_cost_a_lock_or_none() {
    const RANKS: usize = 4;
    let counted = |views: &str, mode: &str, accesses: u64| {
        let job = job("locks", RANKS).arg(views).arg(mode).arg(accesses.to_string());
        let outcome = job.variable("CAPULET_STATS", "1").run();
        outcome.expect_checks(&format!("{mode} accesses through {views} views"));
        ["locks=", "lock_waits=", "system_calls=", "messages=", "collectives="].map(|name| -> u64 {
            let words = outcome.text.split_whitespace();
            words.filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
        })
    };
    // Of ten writes and ten reads more on each rank.
    let cost = |views: &str, mode: &str| {
        let (few, many) = (counted(views, mode, 10), counted(views, mode, 20));
        [0, 1, 2, 3, 4].map(|at| many[at] - few[at])
    };
    for (views, locks) in [("overlapping", 20 * RANKS as u64), ("disjoint", 0)] {
        let [none, _, calls, ..] = cost(views, "nonatomic");
        assert_eq!(none, 0, "{views}");
        assert_eq!(cost(views, "atomic"), [locks, 0, calls, 0, 0], "{views}");
    }
}

/// What all ranks of a node do together in an access that goes well: one collective, whatever its size, and a barrier a round and one
/// more; each byte is copied once, and no message carries it. A view costs one collective, and a file that is opened, written and closed
/// a few.
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
        // To open, for the first view, for the two accesses and to close.
        assert!(few[0] <= 8 * ranks, "{} collectives of {ranks} ranks", few[0]);
        // Views and accesses that use no memory of the node for data agree without a message, too.
        let large = counted(11, 10, "large");
        let [collectives, .., messages] = large;
        assert!(collectives >= (22 * 2 + 11) * ranks, "{collectives} collectives");
        assert_eq!((large[2], messages), (0, few[5]), "rounds and messages of large accesses");
    }
}

/// The programs that share least with the thread level, at the level that mpi4py and h5py ask for.
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

/// System calls that a timer of the user's interrupts all the time.
#[test]
fn interrupted() {
    for (name, ranks) in [("views", 1), ("random_views", 3), ("isend", 4)] {
        job(name, ranks)
            .variable("CHECK_ALARM", "1")
            .run()
            .expect_checks(&format!("{name}, interrupted, on {ranks} ranks"));
    }
}

/// `LD_PRELOAD` alone, without the command.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn preloaded() {
    job("lifetimes", 2).through(Through::Preload).run().expect_checks("lifetimes, preloaded");
}

/// 3,000 files at once on one communicator.
#[test]
fn many_files() {
    for ranks in [1, 2, 4] {
        job("many_files", ranks).run().expect_checks(&format!("3,000 files on {ranks} ranks"));
    }
}

/// The legal program that posts a send and receives after a collective, where the sender has to push its message by hand: without the kernel's
/// copy between processes. (With it, it is one of the programs above.)
///
/// Not over TCP: there MPICH 4.0 itself hangs in `MPI_Finalize`, with its own I/O too (ranks wait in the process manager's barrier without
/// progress for those whose connections still close; MPICH pull request 6596).
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

/// Hints of a file that `ROMIO_HINTS` names; the user's info wins over it.
#[test]
fn hint_file() {
    for ranks in [1, 3] {
        let job = job("info", ranks);
        let file = job.folder().join("hints");
        let text = "# hints of this site\ncb_buffer_size 131072\nromio_cb_read enable # for reading\nunknown_key 5\nlonely\n\n";
        std::fs::write(&file, text).expect("a file of ours");
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

/// The table of `CAPULET_STATS=1`, a collective part of every close, changes nothing.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn with_statistics() {
    for ranks in [1, 3] {
        let outcome = job("sizes", ranks).variable("CAPULET_STATS", "1").run();
        outcome.expect_checks(&format!("sizes with statistics on {ranks} ranks"));
        assert!(outcome.text.contains("bytes"), "no table:\n{}", outcome.text);
    }
}
