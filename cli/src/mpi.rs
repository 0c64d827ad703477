//! The MPI implementations that Capulet serves, and how a library is recognized as one of them.

use std::fmt;
use std::path::PathBuf;

/// An MPI whose binary interface Capulet has a library for. The SONAME decides: it is what a program was linked to.
/// The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(clippy::enum_variant_names, reason = "the name of Open MPI ends as it does")]
pub(crate) enum Mpi {
    /// Open MPI 4 and 5: libmpi.so.40.
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH as Debian names it: libmpich.so.12.
    Mpich,
    /// MPICH as it names itself, the wheel among others: libmpi.so.12.
    Mpich5,
}

/// MPIs that share a launcher protocol. A program of one family, started by the launcher of the other, runs as many
/// programs of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Open MPI of any version.
    OpenMpi,
    /// MPICH and what descends from it.
    Mpich,
}

/// What a SONAME says about a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// An MPI that Capulet serves.
    Served(Mpi),
    /// A library of the standard ABI of MPI 5.
    StandardAbi,
    /// An MPI that Capulet has no library for.
    Foreign,
}

/// An MPI library in use by a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MpiLibrary {
    /// Its SONAME, or the name that it was asked for by when no file was found.
    pub(crate) soname: String,
    /// The file that the loader takes; `None` if it finds none.
    pub(crate) path: Option<PathBuf>,
}

impl Mpi {
    /// All of them, in the order of preference for display.
    pub(crate) const ALL: [Self; 3] = [Self::OpenMpi, Self::Mpich, Self::Mpich5];

    /// The SONAME of the MPI library.
    pub(crate) const fn soname(self) -> &'static str {
        match self {
            Self::OpenMpi => "libmpi.so.40",
            Self::Mpich => "libmpich.so.12",
            Self::Mpich5 => "libmpi.so.12",
        }
    }

    /// The name used in file names and options.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::Mpich5 => "mpich5",
        }
    }

    /// Which launchers start it.
    pub(crate) const fn family(self) -> Family {
        match self {
            Self::OpenMpi => Family::OpenMpi,
            Self::Mpich | Self::Mpich5 => Family::Mpich,
        }
    }

    /// File name and SONAME of the Capulet library that serves it.
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

/// What the library named `soname` is, or `None` if it is not the core library of an MPI.
pub(crate) fn flavor(soname: &str) -> Option<Flavor> {
    if let Some(mpi) = Mpi::ALL.into_iter().find(|mpi| mpi.soname() == soname) {
        return Some(Flavor::Served(mpi));
    }
    if soname.starts_with("libmpi_abi.so") {
        return Some(Flavor::StandardAbi);
    }
    // Other versions of the same two, and Cray's, Intel's, Fujitsu's, IBM's. Bindings such as libmpi_cxx are no core.
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
    fn bindings_are_not_taken_for_the_library() {
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
