//! Libraries above MPI-IO: both Fortran bindings, parallel HDF5 and `PnetCDF`. Serial tools also read back
//! the files of HDF5 and `PnetCDF`.

use std::path::Path;
use std::process::Command;

use capulet_tests::{Job, Mpi, RANKS, compile};

#[test]
fn fortran_module_mpi() {
    fortran("io_mpi");
}

#[test]
fn fortran_module_mpi_f08() {
    fortran("io_mpi_f08");
}

fn fortran(name: &str) {
    let mpi = Mpi::chosen();
    for ranks in RANKS {
        Job::new(mpi, ranks, compile::fortran(mpi, name))
            .run()
            .expect_checks(&format!("{name} on {ranks} ranks"));
    }
}

/// Runs a script of `tests/libraries` with Debian's Python on the folder of a finished job.
fn verify(script: &str, job: &Job, ranks: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("libraries").join(script);
    let mut command = Command::new("/usr/bin/python3");
    let done = command.arg(&script).arg(job.folder()).arg(ranks.to_string()).output().expect("python3");
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{command:?}: {output}{}", String::from_utf8_lossy(&done.stderr));
    assert!(output.contains("values compared"), "{command:?} compared no values: {output}");
}

#[test]
fn hdf5() {
    let mpi = Mpi::chosen();
    for ranks in RANKS {
        let job = Job::new(mpi, ranks, compile::hdf5(mpi, "hyperslabs"));
        job.run().expect_checks(&format!("HDF5 on {ranks} ranks"));
        verify("verify_hdf5.py", &job, ranks);
    }
}

#[test]
#[cfg_attr(mpich, ignore = "Debian has PnetCDF for Open MPI alone")]
fn pnetcdf() {
    let mpi = Mpi::chosen();
    for ranks in RANKS {
        let job = Job::new(mpi, ranks, compile::pnetcdf(mpi, "pnetcdf_views"));
        job.run().expect_checks(&format!("PnetCDF on {ranks} ranks"));
        verify("verify_netcdf.py", &job, ranks);
    }
}
