//! Where the processes of this job run, as far as one process can tell on its own.

use std::env;

use mpi::ffi;

use crate::consts;
use crate::node::simulated_nodes;

/// Variables in which launchers tell the number of processes of `MPI_COMM_WORLD` on this machine: Open MPI,
/// MPICH (Hydra), MVAPICH.
const LOCAL_SIZES: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"];

/// Whether all processes of `MPI_COMM_WORLD` run on this machine. False if the launcher does not tell. The
/// same on all processes of one machine. Local. MPI must be initialized.
pub fn is_on_one_machine() -> bool {
    if (2..u64::MAX).contains(&simulated_nodes()) {
        return false;
    }
    let mut size = 0;
    // SAFETY: MPI 4.1, section 7.4.1: the communicator is valid while MPI is initialized, and `size` is written.
    let status = unsafe { ffi::MPI_Comm_size(consts::comm_world(), &raw mut size) };
    let told = LOCAL_SIZES.iter().find_map(|name| env::var(name).ok()?.parse::<i32>().ok());
    status == 0 && (size == 1 || told == Some(size))
}
