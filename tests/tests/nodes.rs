//! The programs of `tests/mpi` between real nodes on one machine: no shared memory between the nodes,
//! messages by TCP. (`CAPULET_NODES` in the other rings simulates nodes that share memory.)

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use capulet_tests::mpi::root;
use capulet_tests::nodes::shared;
use capulet_tests::{Job, Mpi, Nodes, Through, compile};

/// A job takes a few seconds on idle cores.
const LIMIT: Duration = Duration::from_secs(150);

/// Two nodes.
fn two() -> Option<&'static Arc<Nodes>> {
    shared(2, 0)
}

/// Three nodes.
fn three() -> Option<&'static Arc<Nodes>> {
    shared(3, 0)
}

/// Two nodes whose frames take 0.2 ms longer.
fn distant() -> Option<&'static Arc<Nodes>> {
    shared(2, 200)
}

fn job(name: &str, nodes: &Arc<Nodes>, ranks: &[usize]) -> Job {
    let mpi = Mpi::chosen();
    Job::new(mpi, 1, compile::c(mpi, name)).on_nodes(nodes, ranks).limit(LIMIT)
}

fn check(name: &str, nodes: Option<&Arc<Nodes>>, ranks: &[usize]) {
    let Some(nodes) = nodes else { return };
    job(name, nodes, ranks).run().expect_checks(&format!("{name} on nodes with {ranks:?} ranks"));
}

/// Defines one test for each program on two nodes.
macro_rules! on_two_nodes {
    ($($name:ident)*) => {
        mod on_two_nodes { $(
            #[test]
            #[cfg_attr(native_io, ignore = "is about Capulet alone")]
            fn $name() {
                super::check(stringify!($name), super::two(), &[2, 2]);
            }
        )* }
    };
}

on_two_nodes! {
    views random_views pointers disjoint overlaps isend errors not_same info sizes view_classes lifetimes
}

/// Capulet keeps every promise of the standard's chapter on consistency among real nodes.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn consistency() {
    let Some(nodes) = two() else { return };
    // Word servers need no call of MPI by the rank that holds the words, so the program is not told to stay
    // in MPI.
    job("consistency", nodes, &[2, 2]).run().expect_checks("consistency on two nodes");
}

/// Nodes with different numbers of ranks.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn three_nodes_with_different_numbers_of_ranks() {
    for name in ["pointers", "disjoint", "overlaps", "errors", "not_same", "sizes"] {
        check(name, three(), &[1, 2, 1]);
    }
    // MPICH spins, and this program is long.
    let ranks = if Mpi::chosen().is_open_mpi() { [1, 2, 1] } else { [1, 1, 1] };
    check("random_views", three(), &ranks);
}

/// Fewer aggregators than nodes. A node without an aggregator only sends and receives.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn node_without_an_aggregator() {
    let Some(nodes) = three() else { return };
    let mut job = job("overlaps", nodes, &[1, 2, 1]);
    for hint in ["cb_nodes=1", "romio_cb_write=enable", "romio_cb_read=enable"] {
        job = job.run_option("--hint").run_option(hint);
    }
    job.run().expect_checks("overlaps with one aggregator on three nodes");
}

/// A program without `capulet run`, whose ranks get their environment from the launcher.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn preload_without_the_command() {
    let Some(nodes) = two() else { return };
    let job = job("pointers", nodes, &[1, 2]).through(Through::Preload);
    job.run().expect_checks("pointers with LD_PRELOAD on two nodes");
}

/// Frames take 0.2 ms, as in a network with several switches.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn delay_on_the_wire() {
    for (name, ranks) in [
        ("pointers", [1, 2]),
        ("disjoint", [1, 1]),
        ("overlaps", [2, 2]),
        ("isend", [2, 1]),
        ("errors", [1, 1]),
        ("not_same", [1, 2]),
    ] {
        check(name, distant(), &ranks);
    }
}

/// Atomic mode, shared file pointers and ordered access, by word servers with every MPI: Debian's Open MPI
/// has no windows over TCP, and the windows of MPICH wait for their target. MPICH spins, so it gets few
/// ranks.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn shared_state() {
    let Some(nodes) = two() else { return };
    let ranks = if Mpi::chosen().is_open_mpi() { [2, 2] } else { [1, 1] };
    for name in ["atomic", "shared"] {
        let outcome = job(name, nodes, &ranks).variable("CAPULET_LOG", "info").run();
        outcome.expect_checks(&format!("{name} on two nodes"));
        let words = "words of locks and shared file pointers mechanism=\"server\"";
        assert!(outcome.text.contains(words), "the mechanism is not stated: {outcome:?}");
    }
}

/// As above, by messages of MPI.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn shared_state_by_messages() {
    let Some(nodes) = two() else { return };
    let ranks = if Mpi::chosen().is_open_mpi() { [2, 2] } else { [1, 1] };
    for name in ["atomic", "shared"] {
        let job = job(name, nodes, &ranks).variable("CAPULET_LOG", "info").variable("CHECK_ENTERS", "1");
        let outcome = job.variable("CAPULET_HINTS", "capulet_words=messages").run();
        outcome.expect_checks(&format!("{name} by messages on two nodes"));
        let words = "words of locks and shared file pointers mechanism=\"messages\"";
        assert!(outcome.text.contains(words), "the mechanism is not stated: {outcome:?}");
    }
}

/// `capulet verify` finds an order for the atomic accesses of two nodes, in every mode.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn verify() {
    let Some(nodes) = two() else { return };
    let (mpi, folder) = (Mpi::chosen(), tempfile::tempdir_in("/var/tmp").expect("a temporary folder"));
    let _nodes = nodes.take();
    let mut command = nodes.command(&[1, 1]);
    command.arg(mpi.command()).args(["verify", "atomic"]).arg(folder.path());
    command.args(["--mpi", mpi.name(), "--ranks", "2", "--rounds", "5"]).stdin(Stdio::null());
    let output = command.output().expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert_eq!(text.matches(" 0 without an order").count(), 10, "{text}");
}

/// An atomic access of a rank on another node than the lock makes two operations at the node of the lock. The
/// bench finds a way over the network to measure a raw round trip beside the access.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
#[cfg_attr(mpich, ignore = "MPI_Finalize of Debian's MPICH hangs over TCP")]
fn bench_counts_in_round_trips() {
    let Some(nodes) = two() else { return };
    let rows = bench_rows(nodes, "far ");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let accesses = row["operations"].as_u64().expect("the row has accesses");
        let counts = ["locks", "word_operations"].map(|name| row["counts"][name].as_u64());
        assert_eq!(counts, [Some(accesses), Some(2 * accesses)], "{row}");
        assert!(row["round_trips"].is_f64() && row["round_trip_seconds"].is_f64(), "{row}");
    }
    // A rank that is not the home rank takes one operation for each access at the shared pointer, and one more
    // for its first.
    for row in bench_rows(nodes, "shared pointer") {
        let of_rank = row["operations"].as_u64().expect("the row has accesses");
        assert_eq!(row["counts"]["word_operations"].as_u64(), Some(3 * (of_rank + 1)), "{row}");
    }
}

/// The rows of `capulet bench atomic` with `case`, on two nodes of two ranks.
fn bench_rows(nodes: &Nodes, case: &str) -> Vec<serde_json::Value> {
    let (mpi, folder) = (Mpi::chosen(), tempfile::tempdir_in("/var/tmp").expect("a temporary folder"));
    let _nodes = nodes.take();
    let mut command = nodes.command(&[2, 2]);
    command.arg(mpi.command()).args(["bench", "atomic", "--case", case, "--quick", "--json", "--dir"]);
    command.arg(folder.path()).args(["--mpi", mpi.name(), "--ranks", "4"]).stdin(Stdio::null());
    let output = command.output().expect("python3 starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn hdf5() {
    let (mpi, Some(nodes)) = (Mpi::chosen(), two()) else { return };
    let job = Job::new(mpi, 1, compile::hdf5(mpi, "hyperslabs")).on_nodes(nodes, &[2, 2]).limit(LIMIT);
    job.run().expect_checks("HDF5 on two nodes");
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
#[cfg_attr(mpich, ignore = "Debian has PnetCDF for Open MPI alone")]
fn pnetcdf() {
    let (mpi, Some(nodes)) = (Mpi::chosen(), two()) else { return };
    let job = Job::new(mpi, 1, compile::pnetcdf(mpi, "pnetcdf_views")).on_nodes(nodes, &[2, 2]).limit(LIMIT);
    job.run().expect_checks("PnetCDF on two nodes");
}

/// mpi4py's own tests of files: on Debian's Open MPI, and on MPICH 5 from `PyPI`. The ring `mpi4py` has the
/// other modules.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn mpi4py() {
    // User-defined data representations are not built; 3.1.4 does not test them.
    let (mpi, version, expected) = if Mpi::chosen().is_open_mpi() {
        (Mpi::OpenMpi, "3.1.4", &[][..])
    } else {
        (Mpi::chosen().wheel(), "4.1.2", &["test_io.TestDatarep.testRegister"][..])
    };
    let Some(nodes) = two() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi4py/run_modules.py");
    let tests = root().join(format!("target/env/src/mpi4py-{version}/test"));
    let job = Job::script(mpi, 1, mpi.python()).on_nodes(nodes, &[1, 1]).limit(LIMIT);
    let folder = job.folder().to_owned();
    let job = job.arg(script).arg(tests).arg(&folder).arg("test_io").arg("test_file");
    let job = job.variable("PYTHONDONTWRITEBYTECODE", "1");
    job.run().expect_success("mpi4py on two nodes");
    for rank in 0..2 {
        let text = fs::read(folder.join(format!("rank-{rank}.json"))).expect("the rank wrote its outcomes");
        let outcomes: BTreeMap<String, (String, String)> =
            serde_json::from_slice(&text).expect("a test has an outcome and a detail");
        let (passed, others): (Vec<_>, Vec<_>) = outcomes.iter().partition(|(_, (name, _))| name == "ok");
        let names: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
        assert!(passed.len() > 30, "rank {rank} passed {passed:?}");
        assert_eq!(names, expected, "rank {rank}: {others:?}");
    }
}

/// One node does not see the content of a folder: all ranks get one error class, and go on.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn folder_that_one_node_does_not_see() {
    for (nodes, ranks) in [(two(), &[2, 2][..]), (three(), &[1, 1, 1])] {
        let Some(nodes) = nodes else { return };
        for hidden in [2, 1] {
            let job = job("unseen", nodes, ranks);
            let folder = job.folder().join("empty");
            fs::create_dir_all(folder.join("folder")).expect("the folder is created");
            fs::write(folder.join("there"), "content").expect("the file is written");
            let _hidden = nodes.hide(hidden, &folder);
            let job = job.arg(&folder);
            job.run().expect_checks(&format!("a folder that n{hidden} of {ranks:?} does not see"));
        }
    }
}

/// How a node fails in [`killed_node_ends_the_job`].
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// All processes of the node are killed, including the processes of the launcher.
    Node,
    /// The ranks of the node are killed.
    Ranks,
}

/// Ranks of a node are killed while all ranks write collectively. The launcher ends the job with an error.
/// Open MPI takes 4 s for killed ranks on idle cores, and 1 s for a node. MPICH takes less than 1 s.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn killed_node_ends_the_job() {
    let Some(nodes) = two() else { return };
    for (node, failure) in [(2, Failure::Node), (2, Failure::Ranks), (1, Failure::Ranks)] {
        let job = job("endless", nodes, &[2, 2]);
        let (begun, program) = (job.folder().join("begun"), compile::c(Mpi::chosen(), "endless"));
        let outcome = thread::scope(|scope| {
            let outcome = scope.spawn(|| job.run());
            while !begun.exists() && !outcome.is_finished() {
                thread::sleep(Duration::from_millis(20));
            }
            match failure {
                Failure::Node => nodes.end(node),
                Failure::Ranks => end_ranks(nodes, node, &program),
            }
            outcome.join().expect("the job was started")
        });
        assert!(begun.exists(), "the job did not write: {outcome:?}");
        assert!(outcome.status.is_some(), "n{node}, {failure:?}: the job hangs: {outcome:?}");
        assert!(!outcome.succeeded(), "n{node}, {failure:?}: the job succeeded: {outcome:?}");
    }
}

/// Kills the processes of `program` on a node.
fn end_ranks(nodes: &Nodes, node: usize, program: &Path) {
    let script =
        "for p in /proc/[0-9]*; do [ \"$(readlink $p/exe)\" != \"$0\" ] || kill -9 ${p#/proc/}; done";
    let words = ["sh", "-c", script].map(OsStr::new);
    let done = nodes.on(node, &[&words[..], &[program.as_os_str()]].concat());
    assert!(done.status.success(), "n{node}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Number of processes with `text` in an argument. The processes of all nodes have numbers here too.
fn running(text: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc");
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[track_caller]
fn expect_gone(text: &str) {
    let gone = (0..500).any(|_| {
        running(text) == 0 || {
            thread::sleep(Duration::from_millis(20));
            false
        }
    });
    assert!(gone, "{} processes of {text} still run", running(text));
}

#[test]
fn hang_on_nodes_is_ended_with_all_its_processes() {
    let Some(nodes) = two() else { return };
    // No other process sleeps for this duration, so the argument identifies the job.
    let seconds = format!("{}.75", 100_000 + std::process::id());
    let job = Job::script(Mpi::chosen(), 1, "sleep").arg(&seconds).through(Through::Native);
    let job = job.on_nodes(nodes, &[1, 2]).limit(Duration::from_secs(4));
    let outcome = thread::scope(|scope| {
        let outcome = scope.spawn(|| job.run());
        let mut most = 0;
        while !outcome.is_finished() {
            most = most.max(running(&seconds));
            thread::sleep(Duration::from_millis(50));
        }
        assert!(most >= 3, "only {most} processes of the job were running");
        outcome.join().expect("the job was started")
    });
    assert!(outcome.status.is_none(), "{outcome:?}");
    expect_gone(&seconds);
}

/// A set of nodes ends when its owner drops it, and when its owner or its holder is killed. Another set
/// stays.
#[test]
fn nodes_end_with_their_owner() {
    let Some(other) = two() else { return };
    let start = || Nodes::start(2, Duration::ZERO).expect("this machine has nodes");
    let (dropped, killed) = (start(), start());
    for nodes in [&dropped, &killed] {
        let state = nodes.state().to_string_lossy().into_owned();
        assert!(nodes.on(1, &["true"]).status.success() && running(&state) >= 3, "{nodes:?}");
    }
    let states = [&dropped, &killed].map(|nodes| nodes.state().to_owned());
    drop(dropped);
    expect_gone(&states[0].to_string_lossy());
    assert!(!states[0].exists(), "the folder of the nodes is left");
    let holder = killed.holder().to_string();
    assert!(Command::new("kill").args(["-9", &holder]).status().expect("kill(1)").success());
    expect_gone(&states[1].to_string_lossy());
    // The next set removes the folder that a killed holder leaves. The drop ends the zombie.
    drop(killed);
    drop(start());
    assert!(!states[1].exists(), "the folder of the killed holder is left");
    assert!(other.on(2, &["true"]).status.success(), "another set of nodes has ended too");
}

/// The owner of this set is a shell with a pipe to the holder. The kernel closes the pipe of a killed owner.
#[test]
fn nodes_end_with_a_killed_owner() {
    if two().is_none() {
        return;
    }
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("nodes/nodes.py");
    // `exec` makes the process that this test kills the only one that can write to the pipe.
    let mut owner = Command::new("sh");
    owner.args(["-c", "exec sleep 1000"]).stdout(Stdio::piped());
    let mut owner = owner.spawn().expect("sh starts");
    let mut holder = Command::new("/usr/bin/python3");
    holder.arg(tool).args(["hold", "2"]).stdin(owner.stdout.take().expect("the output is a pipe"));
    let mut holder = holder.stdout(Stdio::piped()).spawn().expect("python3 starts");
    let mut line = String::new();
    let output = holder.stdout.take().expect("the output is a pipe");
    BufReader::new(output).read_line(&mut line).expect("the pipe can be read");
    let state = line.trim_end().strip_prefix("ready ").expect("the nodes start").to_owned();
    assert!(running(&state) >= 3, "the nodes do not run");
    owner.kill().expect("the owner is a child of this process");
    owner.wait().expect("the owner is a child of this process");
    expect_gone(&state);
    assert!(!Path::new(&state).exists(), "the folder of the nodes is left");
    holder.wait().expect("the holder is a child of this process");
}
