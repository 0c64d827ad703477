//! Atomic mode with every lock: its promises, refusals, limits and costs, and waits that make MPI progress.

use capulet_tests::{Job, Mpi, compile, is_long};

fn job(name: &str, ranks: usize) -> Job {
    let mpi = Mpi::chosen();
    Job::new(mpi, ranks, compile::c(mpi, name))
}

/// All ranks refuse a lock that cannot work: a lock in shared memory on several nodes, and a file lock on a
/// storage without locks.
#[test]
fn impossible_locks_are_refused() {
    let with_lock =
        |lock: &str| job("unsupported", 4).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
    with_lock("shared").variable("CAPULET_NODES", "2").run().expect_checks("shared on 2 nodes");
    with_lock("fcntl").variable("CAPULET_DRIVER", "nolock").run().expect_checks("fcntl without locks");
}

/// Each lock with numbers of nodes to test it on.
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

/// Ranks of a test on `nodes` nodes. MPICH spins, so three ranks on two cores take several times as long as
/// two ranks. Three nodes need three ranks.
fn ranks_on(nodes: &str) -> usize {
    if Mpi::chosen().name() == "mpich" && nodes != "3" && !is_long() { 2 } else { 3 }
}

/// Every lock passes the tests of atomic mode.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_with_each_lock() {
    for (lock, nodes) in LOCKS {
        let job = job("atomic", ranks_on(nodes)).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
        job.variable("CAPULET_NODES", nodes).run().expect_checks(&format!("{lock} on {nodes} nodes"));
    }
}

/// Every lock whose words all ranks reach passes the same tests on word servers. A word server needs no help
/// of the rank that holds the words, with any MPI.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_with_each_lock_on_word_servers() {
    let is_of_world = |(lock, nodes): &(&str, &str)| *nodes != "1" && *lock != "fcntl";
    for (lock, nodes) in LOCKS.into_iter().filter(is_of_world) {
        let hints = format!("capulet_lock={lock};capulet_words=server");
        let job = job("atomic", ranks_on(nodes)).variable("CAPULET_HINTS", hints);
        job.variable("CAPULET_NODES", nodes)
            .run()
            .expect_checks(&format!("{lock} on servers of {nodes} nodes"));
    }
}

/// As above, by messages that the rank that holds the words answers. MPICH spins, so it gets few ranks.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_with_each_lock_by_messages() {
    for lock in ["auto", "mcs", "hybrid", "onesided", "twolevel"] {
        let job = by_messages(job("atomic", ranks_on("2")), &format!("capulet_lock={lock};"));
        job.variable("CAPULET_NODES", "2").run().expect_checks(&format!("{lock} by messages"));
    }
}

/// A job whose words are reached by messages. A rank of MPICH answers only in calls on files, so the
/// waits of the program make such calls.
fn by_messages(job: Job, hints: &str) -> Job {
    job.variable("CHECK_ENTERS", "1").variable("CAPULET_HINTS", format!("{hints}capulet_words=messages"))
}

/// A rank that is blocked in `MPI_Recv` or `MPI_Barrier` answers for its words.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
#[cfg_attr(mpich, ignore = "MPICH does not call Capulet while it waits")]
fn blocked_ranks_answer_for_their_words() {
    for (ranks, nodes) in [(2, "2"), (4, "3")] {
        let job = job("blocked", ranks).variable("CAPULET_NODES", nodes);
        let outcome = job.variable("CAPULET_HINTS", "capulet_words=messages").run();
        outcome.expect_checks(&format!("blocked on {ranks} ranks on {nodes} nodes"));
    }
}

/// Locks use the same memory one after another. None mistakes the leftovers of its predecessor for its own
/// state.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn lock_starts_afresh_in_used_memory() {
    // This driver tears accesses that are not locked.
    job("lock_series", 3).variable("CAPULET_DRIVER", "nolock").run().expect_checks("locks in a series");
}

/// MPI calls the library back while an access waits for a lock. Each lock waits in its own way.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn no_access_begins_on_top_of_another() {
    for (lock, nodes) in LOCKS {
        let job = job("lock_nested", 2).variable("CAPULET_HINTS", format!("capulet_lock={lock}"));
        let job =
            job.variable("CAPULET_NODES", nodes).variable("CAPULET_FAULTS", "rank=*;write@*:delay=120ms");
        job.run().expect_checks(&format!("{lock} on {nodes} nodes"));
    }
}

/// An access of rank 0 takes 1.5 s. The other ranks wait at most 60 ms.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn wait_ends_at_its_limit_and_names_the_holder() {
    // Left out on Debian's MPICH: these locks have a queue in the memory of rank 0, and that MPICH cannot
    // access the queue before rank 0 is in an MPI call again.
    let has_queue_on_rank_0 = |lock: &str, nodes: &str| match lock {
        "twolevel" => nodes != "1",
        lock => lock == "mcs" || lock == "auto",
    };
    let is_mpich = Mpi::chosen().name() == "mpich";
    for (lock, nodes) in
        LOCKS.into_iter().filter(|(lock, nodes)| !(is_mpich && has_queue_on_rank_0(lock, nodes)))
    {
        let hints = format!("capulet_lock={lock};capulet_lock_timeout_ms=60");
        let holder = match (lock, nodes) {
            // The system does not tell which process holds the lock of a file.
            ("fcntl", _) => "an unknown process",
            // The node does not record which of its ranks holds the lock.
            ("twolevel", "3") => "the node of rank 0",
            _ => "rank 0",
        };
        let meeting = if (lock, nodes) == ("range", "1") { "nowhere" } else { "file" };
        let job = job("lock_limits", 3).arg(meeting).variable("CAPULET_HINTS", hints);
        let job = job.variable("CAPULET_LOG", "info").variable("CAPULET_NODES", nodes);
        let outcome = job.variable("CAPULET_FAULTS", "rank=0;write@*:delay=1500ms").run();
        outcome.expect_checks(&format!("{lock} on {nodes} nodes"));
        // Messages of some locks also name the ranks that wait in front.
        let reports = outcome.text.matches("were locked by").count();
        let names_holder = outcome.text.contains(&format!("were locked by {holder} for"));
        assert!(reports == 2 && names_holder, "{lock} on {nodes} nodes: {}", outcome.text);
    }
}

/// A rank that waits in a call of Capulet makes MPI progress, while it waits for a lock or for a late rank.
/// The locks listed here wait in different ways.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn waiting_rank_makes_mpi_progress() {
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

/// A rank is killed while it holds a lock. The launcher ends the job, and no rank outlives the launcher,
/// whatever the rank waits for.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn no_rank_outlives_a_killed_lock_holder() {
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
            let process = process.expect("each rank has written its process number");
            // The launcher may end before the system has removed its processes.
            let is_gone = || !std::path::Path::new("/proc").join(&process).exists();
            let gone = (0..500).any(|_| {
                is_gone() || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    false
                }
            });
            assert!(gone, "rank {rank} outlived its launcher; {what}");
        }
    }
}

/// An atomic access without conflict costs one lock, and no system call, message or collective more than a
/// nonatomic access. It costs no lock if the views share no byte, unless threads of one rank can conflict.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_access_costs_one_lock_or_none() {
    const RANKS: usize = 4;
    for (views, locks) in [("overlapping", 20 * RANKS as u64), ("disjoint", 0)] {
        let cost = |mode: &str| cost_of_ten_writes_and_reads(RANKS, views, mode, |job| job);
        let [none, _, calls, ..] = cost("nonatomic");
        assert_eq!(none, 0, "{views}");
        assert_eq!(cost("atomic"), [locks, 0, calls, 0, 0, 0], "{views}");
    }
}

/// Between nodes, an atomic access without conflict costs two round trips to the word server of the home
/// rank, or two requests and replies by messages, and none on the home rank itself. It costs no other
/// message.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn atomic_access_between_nodes_costs_two_round_trips() {
    const RANKS: usize = 4;
    for words in ["server", "messages"] {
        let cost = |mode: &str| {
            cost_of_ten_writes_and_reads(RANKS, "overlapping", mode, |job| {
                let job = job.variable("CAPULET_NODES", "2").variable("CHECK_ENTERS", "1");
                job.variable("CAPULET_HINTS", format!("capulet_words={words}"))
            })
        };
        let [none, _, calls, ..] = cost("nonatomic");
        assert_eq!(none, 0, "{words}");
        let (locks, round_trips) = (20 * RANKS as u64, 2 * 20 * (RANKS as u64 - 1));
        assert_eq!(cost("atomic"), [locks, 0, calls, 0, 0, round_trips], "{words}");
    }
}

/// The cost of ten writes and ten reads of each rank, which access the file one after another: locks, waits
/// for locks, system calls, messages, collectives, and operations on words of other ranks.
fn cost_of_ten_writes_and_reads(
    ranks: usize,
    views: &str,
    mode: &str,
    with: impl Fn(Job) -> Job,
) -> [u64; 6] {
    let counted = |accesses: u64| {
        let job = with(job("locks", ranks)).arg(views).arg(mode).arg(accesses.to_string());
        let outcome = job.variable("CAPULET_STATS", "1").run();
        outcome.expect_checks(&format!("{mode} accesses through {views} views"));
        let names =
            ["locks=", "lock_waits=", "system_calls=", "messages=", "collectives=", "word_operations="];
        names.map(|name| -> u64 {
            let words = outcome.text.split_whitespace();
            words.filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
        })
    };
    let (few, many) = (counted(10), counted(20));
    [0, 1, 2, 3, 4, 5].map(|at| many[at] - few[at])
}
