//! Error handlers of files, on the chosen MPI of Debian and on the newest MPI of its family from `PyPI`.
//! Both are needed: one build of Capulet serves both versions of Open MPI, and only MPICH 5 has handlers
//! with an extra argument that it destroys.

use capulet_tests::{Job, Mpi, compile};

/// Makes every write of rank 0 fail.
const NO_SPACE: (&str, &str) = ("CAPULET_FAULTS", "rank=0;write@*:nospace");

fn both() -> [Mpi; 2] {
    [Mpi::chosen(), Mpi::chosen().wheel()]
}

fn job(mpi: Mpi, name: &str, ranks: usize) -> Job {
    Job::new(mpi, ranks, compile::c(mpi, name))
}

/// Each function that completes requests returns an error of nonblocking access. The error also goes to the
/// handler of the file.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn errors_of_requests_are_returned() {
    for mpi in both() {
        for (ranks, nodes) in [(1, "1"), (2, "1"), (3, "1"), (3, "2")] {
            let job = job(mpi, "request_errors", ranks).arg("returned").variable(NO_SPACE.0, NO_SPACE.1);
            let outcome = job.variable("CAPULET_NODES", nodes).run();
            let what = format!("request_errors on {ranks} ranks on {nodes} nodes of {}", mpi.name());
            outcome.expect_checks(&what);
            // MPI cannot return the error of a request that the program has freed.
            let reported = outcome.text.matches("MPI_File_iwrite_at_all failed on").count();
            let freed = outcome.text.matches("after its request was freed: not enough space").count();
            assert_eq!((reported, freed), (ranks, ranks), "{what}: {}", outcome.text);
        }
    }
}

/// An error of nonblocking access ends the job if the handler of the file aborts.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn errors_of_requests_end_the_job() {
    for mpi in both() {
        let ways = [("fatal", "MPI_ERRORS_ARE_FATAL"), ("abort", "MPI_ERRORS_ABORT")];
        // Open MPI has MPI_ERRORS_ABORT since 5.0.
        for (way, handler) in ways.into_iter().filter(|(way, _)| *way == "fatal" || mpi != Mpi::OpenMpi) {
            let job = job(mpi, "request_errors", 2).arg(way).variable(NO_SPACE.0, NO_SPACE.1);
            ends(&job, handler, "MPI_File_iwrite_at_all failed on ");
        }
    }
}

/// Runs a job that must end with an error status, `message`, the message of the handler, and no failed check.
fn ends(job: &Job, handler: &str, message: &str) {
    let outcome = job.run();
    assert!(outcome.status.is_some_and(|status| !status.success()), "{job:?}: {}", outcome.text);
    for part in [message, &format!("the error handler is {handler}, so the program is aborted")] {
        assert!(outcome.text.contains(part), "{part:?} is missing, {job:?}: {}", outcome.text);
    }
    assert!(!outcome.text.contains("FAILED"), "{job:?}: {}", outcome.text);
}

/// Two threads complete requests at the same time. Each gets the errors of its own requests.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn errors_of_requests_reach_the_thread_that_waits() {
    for mpi in both() {
        for ranks in [1, 2] {
            let job = job(mpi, "request_threads", ranks);
            let outcome = job.variable("CAPULET_FAULTS", "rank=*;write@*:nospace").run();
            outcome.expect_checks(&format!("request_threads on {ranks} ranks of {}", mpi.name()));
        }
    }
}

/// A close that fails calls the handler of the file, which must not be freed before it returns.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn failed_close_calls_its_handler_before_the_free() {
    for mpi in both() {
        for ranks in [1, 2] {
            let job = job(mpi, "handlers", ranks).arg("close");
            let outcome = job.variable("CAPULET_FAULTS", "rank=0;sync@*:io").run();
            outcome.expect_checks(&format!("a failed close on {ranks} ranks of {}", mpi.name()));
        }
    }
}

#[test]
#[cfg_attr(native_io, ignore = "the peers fail it")]
fn handlers_work_on_the_newest_mpi() {
    let mpi = Mpi::chosen().wheel();
    for ranks in [1, 2] {
        job(mpi, "handlers", ranks)
            .run()
            .expect_checks(&format!("handlers on {ranks} ranks of {}", mpi.name()));
    }
}

/// `MPI_ERRORS_ABORT` (new in MPI 4.0) ends the job when one rank fails.
#[test]
#[cfg_attr(native_io, ignore = "MPICH 4.0 has the name alone")]
fn errors_abort_ends_the_job() {
    for mpi in both().into_iter().filter(|mpi| *mpi != Mpi::OpenMpi) {
        for ranks in [1, 2] {
            let job = job(mpi, "handlers", ranks).arg("abort");
            ends(&job, "MPI_ERRORS_ABORT", "MPI_File_seek failed on ");
        }
    }
}

/// Threads set and get handlers at the same time. The allocator overwrites freed memory, so that a use
/// after the free shows.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn threads_set_and_get_handlers() {
    for mpi in both() {
        for ranks in [1, 2, 4] {
            let job = job(mpi, "handler_threads", ranks).variable("MALLOC_PERTURB_", "165");
            job.run().expect_checks(&format!("handler_threads on {ranks} ranks of {}", mpi.name()));
        }
    }
}
