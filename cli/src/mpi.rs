//! The MPI implementations that Capulet serves, and how the command recognizes a library as one of them.

use std::fmt;
use std::path::PathBuf;

/// An MPI with whose binary interface Capulet has a library. The SONAME decides, because a program is
/// linked to it. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(clippy::enum_variant_names, reason = "the name of Open MPI ends as it does")]
pub(crate) enum Mpi {
    /// Open MPI 4 and 5: libmpi.so.40
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH as named by Debian: libmpich.so.12
    Mpich,
    /// MPICH as named by itself and by its wheel: libmpi.so.12
    Mpich5,
}

/// MPIs that share a launcher protocol. A program of one family that is started by the launcher of the
/// other runs as many programs of one rank each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Open MPI of any version.
    OpenMpi,
    /// MPICH and the MPIs that descend from it.
    Mpich,
}

/// What the SONAME of a library tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// An MPI that Capulet serves.
    Served(Mpi),
    /// A library with the standard ABI of MPI 5.
    StandardAbi,
    /// An MPI for which Capulet has no library.
    Foreign,
}

/// An MPI library in use by a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MpiLibrary {
    /// The SONAME, or the requested name if no file was found.
    pub(crate) soname: String,
    /// The file that the loader takes, or `None` if the loader finds none.
    pub(crate) path: Option<PathBuf>,
}

impl Mpi {
    /// All MPIs, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::OpenMpi, Self::Mpich, Self::Mpich5];

    /// The SONAME of the MPI library.
    pub(crate) const fn soname(self) -> &'static str {
        match self {
            Self::OpenMpi => "libmpi.so.40",
            Self::Mpich => "libmpich.so.12",
            Self::Mpich5 => "libmpi.so.12",
        }
    }

    /// The name in file names and options.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::Mpich5 => "mpich5",
        }
    }

    /// The family whose launchers start programs of this MPI.
    pub(crate) const fn family(self) -> Family {
        match self {
            Self::OpenMpi => Family::OpenMpi,
            Self::Mpich | Self::Mpich5 => Family::Mpich,
        }
    }

    /// File name and SONAME of the Capulet library for this MPI.
    pub(crate) fn capulet_library(self) -> String {
        format!("libcapulet_{}.so", self.name())
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.family(), self.soname())
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        })
    }
}

/// Classifies the library named `soname`. `None` if it is not the core library of an MPI.
pub(crate) fn flavor(soname: &str) -> Option<Flavor> {
    if let Some(mpi) = Mpi::ALL.into_iter().find(|mpi| mpi.soname() == soname) {
        return Some(Flavor::Served(mpi));
    }
    if soname.starts_with("libmpi_abi.so") {
        return Some(Flavor::StandardAbi);
    }
    // Other versions of Open MPI and MPICH, and the MPIs of Cray, Intel, Fujitsu and IBM. Bindings such
    // as libmpi_cxx are not core libraries.
    let foreign = [
        "libmpi.so",
        "libmpich.so",
        "libmpi_cray.so",
        "libmpi_gnu",
        "libmpi_intel",
        "libmpi_ibm.so",
        "libmpi_nvidia",
    ];
    foreign.iter().any(|prefix| soname.starts_with(prefix)).then_some(Flavor::Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sonames_are_recognized() {
        assert_eq!(flavor("libmpi.so.40"), Some(Flavor::Served(Mpi::OpenMpi)));
        assert_eq!(flavor("libmpich.so.12"), Some(Flavor::Served(Mpi::Mpich)));
        assert_eq!(flavor("libmpi.so.12"), Some(Flavor::Served(Mpi::Mpich5)));
        assert_eq!(flavor("libmpi_abi.so.1"), Some(Flavor::StandardAbi));
        assert_eq!(flavor("libmpi.so.20"), Some(Flavor::Foreign));
        assert_eq!(flavor("libmpi_gnu_91.so.12"), Some(Flavor::Foreign));
    }

    #[test]
    fn bindings_are_not_mpi_libraries() {
        for soname in [
            "libmpi_cxx.so.40",
            "libmpi_mpifh.so.40",
            "libmpichfort.so.12",
            "libmpi_usempif08.so.40",
            "libc.so.6",
        ] {
            assert_eq!(flavor(soname), None, "{soname}");
        }
    }

    #[test]
    fn each_mpi_is_found_by_its_own_soname() {
        for mpi in Mpi::ALL {
            assert_eq!(flavor(mpi.soname()), Some(Flavor::Served(mpi)));
        }
    }
}
