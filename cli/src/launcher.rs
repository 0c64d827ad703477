//! Finds the launcher that started this process by the variables that launchers set.
//!
//! The variables are hints only: a launcher can start a program of any MPI. If the launcher belongs to
//! another MPI, every rank runs alone.

use std::env;
use std::ffi::{OsStr, OsString};

use crate::mpi::Family;

/// Prefixes of the variables of launchers. A process without such variables does not join the job.
const PREFIXES: [&str; 6] = ["OMPI_", "PMI_", "PMIX_", "PRTE_", "HYDI_", "MPI_LOCAL"];

/// The family of the launcher, if the variables leave no doubt.
///
/// Slurm and other launchers speak the protocols of both families, and one launcher may run inside a job
/// of the other. Both cases give `None`.
pub(crate) fn family(variable: impl Fn(&str) -> Option<OsString>) -> Option<Family> {
    let has = |name| variable(name).is_some();
    let open_mpi = has("OMPI_COMM_WORLD_SIZE");
    let hydra = has("HYDI_CONTROL_FD");
    let other_pmi = has("PMI_RANK") && has("PMI_SIZE") && !has("SLURM_STEP_ID") && !has("PALS_RANKID");
    match (open_mpi, hydra || other_pmi) {
        (true, false) => Some(Family::OpenMpi),
        (false, true) => Some(Family::Mpich),
        _ => None,
    }
}

/// The rank of this process in its launcher's numbering, if there is a launcher.
pub(crate) fn rank(variable: impl Fn(&str) -> Option<OsString>) -> Option<u64> {
    ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"]
        .iter()
        .find_map(|name| variable(name)?.to_str()?.parse().ok())
}

/// The variables of this process that would make a child join the job.
pub(crate) fn variables() -> impl Iterator<Item = OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| is_launcher_variable(name))
}

fn is_launcher_variable(name: &OsStr) -> bool {
    PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family_of(names: &[&str]) -> Option<Family> {
        family(|name| names.contains(&name).then(|| OsString::from("1")))
    }

    #[test]
    fn each_launcher_is_recognized() {
        assert_eq!(family_of(&[]), None);
        assert_eq!(family_of(&["OMPI_COMM_WORLD_SIZE", "PMIX_RANK"]), Some(Family::OpenMpi));
        assert_eq!(family_of(&["PMI_RANK", "PMI_SIZE", "HYDI_CONTROL_FD"]), Some(Family::Mpich));
        assert_eq!(family_of(&["PMI_RANK", "PMI_SIZE"]), Some(Family::Mpich));
        // Hydra starts its proxies with srun in a Slurm job.
        assert_eq!(
            family_of(&["PMI_RANK", "PMI_SIZE", "HYDI_CONTROL_FD", "SLURM_STEP_ID"]),
            Some(Family::Mpich)
        );
    }

    #[test]
    fn doubtful_cases_have_no_family() {
        // srun --mpi=pmi2 and --mpi=pmix serve both families.
        assert_eq!(family_of(&["PMI_RANK", "PMI_SIZE", "SLURM_STEP_ID"]), None);
        assert_eq!(family_of(&["PMIX_RANK"]), None);
        // One launcher runs inside a job of the other. The variables do not tell which one is the inner.
        assert_eq!(family_of(&["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "HYDI_CONTROL_FD"]), None);
    }

    #[test]
    fn rank_is_read_from_any_launcher() {
        let one = |wanted: &'static str| rank(move |name| (name == wanted).then(|| OsString::from("3")));
        assert_eq!(one("OMPI_COMM_WORLD_RANK"), Some(3));
        assert_eq!(one("PMI_RANK"), Some(3));
        assert_eq!(one("PMIX_RANK"), Some(3));
        assert_eq!(one("HOME"), None);
        assert_eq!(rank(|_| Some(OsString::from("many"))), None);
    }

    #[test]
    fn only_variables_of_launchers_are_recognized() {
        assert!(is_launcher_variable(OsStr::new("PMI_FD")));
        assert!(is_launcher_variable(OsStr::new("OMPI_COMM_WORLD_RANK")));
        assert!(!is_launcher_variable(OsStr::new("OPAL_PREFIX")));
        assert!(!is_launcher_variable(OsStr::new("LD_LIBRARY_PATH")));
    }
}
