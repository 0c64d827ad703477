//! One rank fails at each of its storage calls in turn. All ranks return, a collective call has one error
//! class on all ranks, and no rank hangs. The same holds for failures of system calls. `errors.c` tests bad
//! arguments and failures of open and of `set_view`.

use std::path::Path;
use std::time::Duration;

use capulet_tests::{Job, Mpi, compile};

/// Runs `faults.c` on one node with the faults of `plan`. `seen` says whether the program must see a fault.
fn strike(ranks: usize, plan: &str, class: &str, seen: bool) -> capulet_tests::Outcome {
    struck((ranks, 1), plan, class, seen).run()
}

/// As [`strike`], but with simulated nodes, and without running the job.
fn struck((ranks, nodes): (usize, usize), plan: &str, class: &str, seen: bool) -> Job {
    let mpi = Mpi::chosen();
    let job = Job::new(mpi, ranks, compile::c(mpi, "faults")).arg(class).arg(if seen { "1" } else { "0" });
    let job = if nodes > 1 { job.variable("CAPULET_NODES", nodes.to_string()) } else { job };
    job.variable("CAPULET_FAULTS", plan).limit(Duration::from_secs(240))
}

/// Fails one storage call of rank `struck` in each run, from the first call on, until the program sees no
/// fault, because the rank makes no such call.
fn strike_every_call(ranks: usize, struck: usize) {
    strike_every_call_on((ranks, 1), struck);
}

fn strike_every_call_on(on: (usize, usize), struck: usize) {
    strike_every_call_with(on, struck, &[]);
}

fn strike_every_call_with(on: (usize, usize), rank: usize, hints: &[&str]) {
    let ranks = on.0;
    let strike = |plan: &str, seen: bool| {
        let job = struck(on, plan, "MPI_ERR_IO", seen);
        hints.iter().fold(job, |job, hint| job.run_option("--hint").run_option(hint)).run()
    };
    let mut call = 0;
    loop {
        let plan = format!("rank={rank};any@{call}:io");
        let outcome = strike(&plan, true);
        if !outcome.succeeded()
            && outcome.text.contains("whether the fault was seen is 0, not 1")
            && !outcome.text.contains("hung")
        {
            break;
        }
        outcome.expect_checks(&format!("{plan} on {ranks} ranks"));
        call += 1;
        assert!(call < 500, "a program with about 20 MPI calls makes {call} storage calls");
    }
    assert!(call >= 8, "only {call} storage calls failed on {ranks} ranks");
    // The last fault was not seen because the rank makes fewer calls. If Capulet had swallowed the fault
    // instead, the program would see one of the next.
    for beyond in call..call + 4 {
        let plan = format!("rank={rank};any@{beyond}:io");
        strike(&plan, false).expect_checks(&format!(
            "call {beyond} of rank {rank} on {ranks} ranks, which makes {call} calls"
        ));
    }
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_every_call_of_one_rank() {
    strike_every_call(1, 0);
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_every_call_of_the_first_of_three() {
    strike_every_call(3, 0);
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_every_call_of_the_last_of_three() {
    strike_every_call(3, 2);
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_every_call_of_one_of_two_nodes() {
    strike_every_call_on((4, 2), 2);
}

/// One node has the collective buffers of the whole file. The other node only sends and receives.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_every_call_of_the_only_aggregator() {
    strike_every_call_with((4, 2), 0, &["cb_nodes=1", "romio_cb_write=enable", "romio_cb_read=enable"]);
}

/// Every kind of storage error becomes the class that the standard names for it, on all ranks.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn every_kind_of_error_has_its_class() {
    let kinds = [
        ("notfound", "MPI_ERR_NO_SUCH_FILE"),
        ("exists", "MPI_ERR_FILE_EXISTS"),
        ("permission", "MPI_ERR_ACCESS"),
        ("readonly", "MPI_ERR_READ_ONLY"),
        ("nospace", "MPI_ERR_NO_SPACE"),
        ("quota", "MPI_ERR_QUOTA"),
        ("badname", "MPI_ERR_BAD_FILE"),
        ("busy", "MPI_ERR_FILE_IN_USE"),
        ("unsupported", "MPI_ERR_UNSUPPORTED_OPERATION"),
        ("io", "MPI_ERR_IO"),
    ];
    for (kind, class) in kinds {
        // One rank of a node, rank 0, syncs for all.
        for target in ["rank=1;open@0", "rank=1;write@*", "rank=0;sync@0", "rank=1;close@0"] {
            let plan = format!("{target}:{kind}");
            strike(4, &plan, class, true).expect_checks(&plan);
        }
    }
}

/// A rank cannot open the file when it first needs it, after `MPI_File_open` has succeeded.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_in_an_open_on_demand() {
    for (rank, kind, class) in [(1, "permission", "MPI_ERR_ACCESS"), (2, "notfound", "MPI_ERR_NO_SUCH_FILE")]
    {
        let plan = format!("rank={rank};open@0+:{kind}");
        let job =
            struck((3, 1), &plan, class, true).run_option("--hint").run_option("romio_no_indep_rw=true");
        job.run().expect_checks(&plan);
    }
}

/// A write that the storage breaks off is an error on all ranks, whatever part was written.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn broken_off_write_is_an_error() {
    for plan in ["rank=0;write@*:short=10", "rank=1;write@0+:io=1000", "rank=1;write@1:short=0"] {
        strike(2, plan, "MPI_ERR_IO", true).expect_checks(plan);
    }
}

/// A slow rank makes no rank fail.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn slow_rank_makes_no_rank_fail() {
    strike(3, "rank=1;any@*:delay=20ms", "MPI_ERR_IO", false).expect_checks("a slow rank");
}

/// Each kind of system call on a file fails at its first, second, middle and last time. Each failure has an
/// open, accesses and a close of its own.
fn strike_system_calls(nodes: &str, folder: Option<&Path>) {
    let mpi = Mpi::chosen();
    let job = Job::new(mpi, 2, compile::c(mpi, "system_calls"));
    let job = folder.into_iter().fold(job, Job::arg);
    let job = job.variable("CAPULET_NODES", nodes).limit(Duration::from_secs(240));
    // MPICH runs on UCX, which replaces mmap and related functions. The hooks would hide calls from the
    // preloaded library.
    let job = job.variable("UCX_MEM_MMAP_HOOK_MODE", "none");
    let outcome = job.variable("LD_PRELOAD", compile::preload(mpi, "strike")).run();
    outcome.expect_checks(&format!("failed system calls on {nodes} nodes in {folder:?}"));
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_system_calls() {
    strike_system_calls("1", None);
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_system_calls_of_two_nodes() {
    strike_system_calls("2", None);
}

/// The folder of temporary files may lie on a disk. The jobs above use a file system in memory if they can.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn fault_at_system_calls_on_a_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    strike_system_calls("1", Some(folder.path()));
}
