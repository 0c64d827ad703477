//! A process has one MPI library only, as `/proc/self/maps` of every rank shows. The programs are C on
//! Debian's MPIs, and Python on Debian's Open MPI and on the `PyPI` wheels. On a wheel of MPICH, the wrong
//! build of Capulet would load Debian's MPICH silently.

use std::path::Path;

use capulet_tests::{Job, Mpi, Through, compile};

fn library_or_none(mpi: Mpi) -> String {
    if Through::chosen() == Through::Native { "none".to_owned() } else { mpi.library_name() }
}

#[test]
fn c_programs_have_one_mpi() {
    let mpi = Mpi::chosen();
    let library = if mpi.is_open_mpi() { "libmpi.so.40" } else { "libmpich.so.12" };
    for ranks in [1, 3] {
        let job = Job::new(mpi, ranks, compile::c(mpi, "maps")).arg(library).arg(library_or_none(mpi));
        job.run().expect_checks(&format!("maps on {ranks} ranks"));
    }
}

fn in_python(mpi: Mpi) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("libraries/mapped.py");
    for ranks in [1, 2] {
        let job = Job::script(mpi, ranks, mpi.python()).arg(&script);
        let folder = job.folder().to_path_buf();
        let job = job.arg(folder).arg(mpi.library_folder()).arg(library_or_none(mpi));
        let outcome = job.run();
        let what = format!("{} on {ranks} ranks", mpi.python().display());
        outcome.expect_success(&what);
        assert!(outcome.text.contains("1 MPI library is mapped"), "{what}: {}", outcome.text);
    }
}

#[test]
#[cfg_attr(mpich, ignore = "Debian's mpi4py is built for Open MPI")]
fn debian_python_has_one_mpi() {
    in_python(Mpi::OpenMpi);
}

#[test]
fn wheel_python_has_one_mpi() {
    in_python(Mpi::chosen().wheel());
}
