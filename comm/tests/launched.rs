//! Runs the programs of `examples/` under the `mpiexec` of the MPI library that this crate is built for,
//! at several numbers of ranks. `CAPULET_MPIEXEC` names another launcher.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use capulet_comm::NODES_VARIABLE;
use capulet_comm::build::LAUNCHER;

/// Locked on MPICH while a program runs: its ranks spin, so several programs at the same time would reach
/// their time limits. The ranks of Open MPI yield their core while they wait.
static RUNNING: Mutex<()> = Mutex::new(());
const SECONDS_MAX: &str = "600";
/// The numbers of ranks of most programs. 7 ranks spin for long on MPICH, so they are left to `make
/// test-long`.
fn ranks() -> impl Iterator<Item = usize> {
    let ranks_max = if IS_ACTIVE && env::var_os("CAPULET_TEST_LONG").is_none() { 4 } else { 7 };
    [1, 2, 3, 4, 7].into_iter().filter(move |ranks| *ranks <= ranks_max)
}

/// The settings with which Open MPI runs as root and with more ranks than cores.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    // Without its hardware, this component of Open MPI 5 writes a warning for every window.
    ("OMPI_MCA_osc", "^ucx"),
];

/// The path of an example. Cargo builds the examples into the folder above the folder of the tests.
fn program(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps/<test>");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path
}

fn run(name: &str, arguments: &[&str], ranks: usize, variables: &[(&str, &str)]) -> Output {
    let launcher = env::var("CAPULET_MPIEXEC").unwrap_or_else(|_| LAUNCHER.to_owned());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", SECONDS_MAX, &launcher, "-n", &ranks.to_string()]);
    command.arg(program(name)).args(arguments);
    command.envs(ENVIRONMENT).env_remove(NODES_VARIABLE).envs(variables.iter().copied());
    command.output().unwrap_or_else(|error| panic!("cannot start {launcher}: {error}"))
}

/// Runs a program and checks that every rank has passed. Returns the standard error of the program.
fn pass_with(name: &str, arguments: &[&str], ranks: usize, variables: &[(&str, &str)]) -> String {
    let output = {
        let _running = IS_ACTIVE.then(|| RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
        run(name, arguments, ranks, variables)
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let passed = text.lines().filter(|line| *line == format!("{name} passed")).count();
    assert!(
        output.status.success() && passed == ranks,
        "{name} {arguments:?} {variables:?} at {ranks} ranks: {}, {passed} passed\n{text}\n{complaints}",
        output.status
    );
    complaints
}

fn pass(name: &str, ranks: impl IntoIterator<Item = usize>) {
    for ranks in ranks {
        pass_with(name, &[], ranks, &[]);
    }
}

#[test]
fn channels_agree_at_the_stated_cost() {
    pass("channels", ranks());
    pass_with("channels", &[], 4, &[(NODES_VARIABLE, "2")]);
}

#[test]
fn broadcast_can_exceed_the_range_of_an_int() {
    pass_with("channels", &["huge"], 2, &[]);
}

#[test]
fn groups_are_found_again_and_released() {
    pass("groups", ranks());
}

#[test]
fn one_machine_can_simulate_several_nodes() {
    for (ranks, nodes) in [(1, "3"), (4, "2"), (4, "4"), (7, "3")] {
        pass_with("groups", &[], ranks, &[(NODES_VARIABLE, nodes)]);
    }
    for wrong in ["0", "-1", "two"] {
        pass_with("groups", &["wrong-nodes"], 2, &[(NODES_VARIABLE, wrong)]);
    }
}

#[test]
fn buffers_are_shared_and_their_barrier_drives_messages() {
    pass("node_buffers", ranks());
    pass_with("node_buffers", &[], 4, &[(NODES_VARIABLE, "2")]);
}

/// With this MPI, other ranks cannot access the words of a rank that computes, and a rank that waits spins.
const IS_ACTIVE: bool = cfg!(mpi_family = "mpich");

#[test]
fn words_are_accessible_from_other_nodes() {
    let passive = if IS_ACTIVE { "active" } else { "passive" };
    for ranks in [1, 2, 4] {
        pass_with("world", &[passive], ranks, &[]);
    }
    pass_with("world", &[passive], 4, &[(NODES_VARIABLE, "2")]);
    // A word server needs no help of the rank that computes, with any MPI.
    for (ranks, nodes) in [(1, "1"), (3, "1"), (4, "2")] {
        pass_with("world", &["server", "passive"], ranks, &[(NODES_VARIABLE, nodes)]);
        pass_with("world", &["server", "passive", "multiple"], ranks, &[(NODES_VARIABLE, nodes)]);
    }
    for (ranks, nodes) in [(1, "1"), (3, "1"), (4, "2")] {
        for thread_level in ["single", "multiple"] {
            let arguments = ["messages", thread_level];
            let complaints = pass_with("world", &arguments, ranks, &[(NODES_VARIABLE, nodes)]);
            assert!(!complaints.contains("leaked"), "{complaints}");
        }
    }
    for (ranks, nodes) in [(2, "1"), (2, "2"), (4, "3")] {
        let complaints = pass_with("world", &["multiple", passive], ranks, &[(NODES_VARIABLE, nodes)]);
        assert!(!complaints.contains("leaked"), "{complaints}");
    }
}

/// Words that their home rank answers for in its waits. Only Open MPI calls the crate in waits of MPI.
#[test]
fn words_are_answered_for_by_messages() {
    let in_mpi = if IS_ACTIVE { "not-in-mpi" } else { "in-mpi" };
    for (ranks, nodes) in [(2, "1"), (4, "2")] {
        pass_with("messages", &[in_mpi], ranks, &[(NODES_VARIABLE, nodes)]);
    }
}

#[test]
fn threads_never_get_messages_of_other_threads() {
    pass("threads", [1, 2, 4]);
}

#[test]
fn group_with_a_spawned_process_is_a_new_group() {
    if cfg!(mpi_family = "mpich") {
        // The message goes directly to the standard error, because the output of a passing test is not
        // shown.
        let reason =
            "skipped: group_with_a_spawned_process_is_a_new_group: MPICH over UCX cannot spawn processes";
        writeln!(std::io::stderr(), "{reason}").expect("standard error is open");
        return;
    }
    pass("spawned", [1]);
}

#[test]
fn objects_may_end_in_any_order() {
    for way in ["plain", "hook-before", "hook-after", "open", "lopsided"] {
        for ranks in [1, 2, 4] {
            for mechanism in ["auto", "messages"] {
                let complaints = pass_with("ends", &[way, mechanism], ranks, &[]);
                let tidy = !matches!(way, "open" | "lopsided");
                assert!(!(tidy && complaints.contains("leaked")), "{way}: {complaints}");
            }
        }
    }
}

#[test]
fn random_datatypes_match_mpi() {
    // The types are the same at every number of ranks. Each rank checks its share of them.
    for (ranks, cases) in [(1, "6000"), (2, "100000"), (3, "6000"), (4, "6000"), (7, "6000")] {
        let complaints = pass_with("types", &[cases], ranks, &[]);
        assert!(!complaints.contains("leaked"), "{complaints}");
    }
}

#[test]
fn distributed_arrays_match_mpi() {
    let complaints = pass_with("darrays", &[], 2, &[]);
    assert!(!complaints.contains("leaked"), "{complaints}");
}

#[test]
fn difficult_datatypes_and_other_objects_convert() {
    for ranks in [1, 2] {
        let complaints = pass_with("objects", &[], ranks, &[]);
        assert!(!complaints.contains("leaked"), "{complaints}");
    }
}
