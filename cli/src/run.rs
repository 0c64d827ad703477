//! `capulet run`: finds the program's MPI, chooses the Capulet library, and turns this process into the
//! program.

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::{HEAD, RunArgs};
use crate::elf::Object;
use crate::error::Error;
use crate::hint::{self, HINTS_VARIABLE};
use crate::launcher;
use crate::library::{self, CapuletLibrary};
use crate::loader::{self, Loader};
use crate::mpi::{self, Flavor, Mpi, MpiLibrary};
use crate::program::{Kind, Program};

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// All decisions about a start. Nothing has been changed yet.
#[derive(Debug)]
pub(crate) struct Start {
    program: Program,
    mpi: Mpi,
    mpi_path: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Start {
    /// Decides how to start the program of `args`.
    ///
    /// # Errors
    /// The reason why the program cannot be started. Nothing has been changed then.
    pub(crate) fn prepare(args: &RunArgs) -> Result<Self, Error> {
        let program = Program::find(&args.command)?;
        let name = program.name.to_string_lossy().into_owned();
        let loader = Loader::of_this_process();
        let seen = seen_library(&program.kind()?, &loader, &name)?;
        let mpi = chosen_mpi(seen.as_ref(), args.mpi, &name)?;
        check_launcher(mpi, &name)?;
        let library = library::find(mpi)?;
        let mpi_path = match seen {
            Some(MpiLibrary { path: Some(path), .. }) => Some(path),
            Some(MpiLibrary { path: None, .. }) => None,
            None => loader.find_for(mpi.soname(), library.object.machine),
        };
        let mpi_path =
            mpi_path.ok_or_else(|| Error::MpiNotFound { program: name, soname: mpi.soname().to_owned() })?;
        let variables = variables(args, &library, &mpi_path)?;
        Ok(Self { program, mpi, mpi_path, variables })
    }

    /// Turns this process into the program.
    ///
    /// # Errors
    /// Returns only if the system refuses, with [`Error::NotFound`] or [`Error::NotExecutable`].
    pub(crate) fn exec(self) -> Result<Infallible, Error> {
        let mut command = Command::new(&self.program.path);
        // Programs read their own name: Python finds its virtual environment by it.
        command.arg0(&self.program.name).args(&self.program.arguments).envs(self.variables);
        let cause = command.exec();
        let program = self.program.name.to_string_lossy().into_owned();
        Err(match cause.kind() {
            io::ErrorKind::NotFound => Error::NotFound { program },
            _ => Error::NotExecutable { program, cause },
        })
    }

    /// Prints what [`exec`](Self::exec) would do, for people and for scripts: a name, a tab, a value.
    pub(crate) fn print(&self) -> io::Result<()> {
        use std::io::Write;
        let mut output = anstream::stdout().lock();
        let mut line =
            |name: &str, value: &dyn std::fmt::Display| writeln!(output, "{HEAD}{name}{HEAD:#}\t{value}");
        line("program", &self.program.path.display())?;
        line("mpi", &self.mpi.name())?;
        line("library", &self.mpi_path.display())?;
        for (name, value) in &self.variables {
            line(name, &value.display())?;
        }
        Ok(())
    }
}

/// The MPI library that is loaded with the program, or `None` if there is none.
fn seen_library(kind: &Kind, loader: &Loader, program: &str) -> Result<Option<MpiLibrary>, Error> {
    let libraries = match kind {
        Kind::Python(python) => python.mpi_libraries()?,
        Kind::Elf(path) => {
            let unreadable = |cause| Error::Unreadable { path: path.clone(), cause };
            if !Object::read(path).map_err(unreadable)?.has_loader {
                return Err(Error::Static { path: path.clone() });
            }
            loader.mpi_libraries(path).map_err(unreadable)?
        }
    };
    if libraries.len() > 1 {
        let name = |library: &MpiLibrary| match &library.path {
            Some(path) => path.display().to_string(),
            None => library.soname.clone(),
        };
        let libraries = libraries.iter().map(name).collect::<Vec<_>>().join(", ");
        return Err(Error::SeveralMpis { program: program.to_owned(), libraries });
    }
    Ok(libraries.into_iter().next())
}

/// The MPI to serve: the detected one, or the one that the user names if none is detected.
fn chosen_mpi(seen: Option<&MpiLibrary>, given: Option<Mpi>, program: &str) -> Result<Mpi, Error> {
    let program = program.to_owned();
    let Some(library) = seen else { return given.ok_or(Error::NoMpi { program }) };
    let soname = library.soname.clone();
    match mpi::flavor(&soname) {
        // A process with two MPI libraries is never right, so the user cannot overrule the detected one.
        Some(Flavor::Served(seen)) => match given {
            Some(given) if given != seen => Err(Error::OtherMpi { program, seen, given }),
            _ => Ok(seen),
        },
        Some(Flavor::StandardAbi) => Err(Error::StandardAbi { program, soname }),
        Some(Flavor::Foreign) | None => Err(Error::ForeignMpi { program, soname }),
    }
}

fn check_launcher(mpi: Mpi, program: &str) -> Result<(), Error> {
    match launcher::family(|name| env::var_os(name)) {
        Some(launcher) if launcher != mpi.family() => {
            Err(Error::Launcher { program: program.to_owned(), library: mpi, launcher })
        }
        _ => Ok(()),
    }
}

/// The variables whose values differ from this process's own.
fn variables(
    args: &RunArgs,
    library: &CapuletLibrary,
    mpi_path: &Path,
) -> Result<Vec<(&'static str, OsString)>, Error> {
    let existing = env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
    let mut variables = vec![(PRELOAD_VARIABLE, preload(&library.path, &existing, mpi_path)?)];
    if let Some(driver) = &args.driver {
        variables.push(("CAPULET_DRIVER", driver.into()));
    }
    if !args.hints.is_empty() {
        let mut hints = env::var_os(HINTS_VARIABLE).unwrap_or_default();
        if !hints.is_empty() {
            hints.push(";");
        }
        hints.push(hint::encode(&args.hints));
        variables.push((HINTS_VARIABLE, hints));
    }
    if args.stats {
        variables.push(("CAPULET_STATS", "1".into()));
    }
    if let Some(level) = args.log {
        variables.push(("CAPULET_LOG", level.name().into()));
    }
    Ok(variables)
}

/// The value of `LD_PRELOAD`: Capulet's library, the old entries, and last the program's own MPI library.
///
/// Capulet's library comes first, so that the loader finds its `MPI_File` functions. It needs an MPI
/// library by SONAME, and two files may have this name: the system's and that of a Python wheel. The
/// loader maps all preloaded files before it searches for their dependencies, so both Capulet and the
/// program get the file that is named here. The file comes last, because tools that were preloaded
/// already must stay before MPI too.
fn preload(library: &Path, existing: &OsStr, mpi_path: &Path) -> Result<OsString, Error> {
    let mpi_path = std::path::absolute(mpi_path).unwrap_or_else(|_| mpi_path.to_owned());
    let same_file = |entry: &OsStr, path: &Path| {
        entry == path.as_os_str()
            || matches!((fs::canonicalize(entry), fs::canonicalize(path)), (Ok(a), Ok(b)) if a == b)
    };
    let kept = loader::split_preload(existing)
        .into_iter()
        .filter(|entry| !same_file(entry, library) && !same_file(entry, &mpi_path));
    let mut value = OsString::new();
    for path in [library, &mpi_path] {
        if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
            return Err(Error::UnpreloadablePath { path: path.to_owned() });
        }
    }
    value.push(library);
    for entry in kept {
        value.push(":");
        value.push(entry);
    }
    value.push(":");
    value.push(&mpi_path);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(existing: &str) -> String {
        let value = preload(
            Path::new("/x/libcapulet_mpich.so"),
            OsStr::new(existing),
            Path::new("/y/libmpich.so.12"),
        );
        value.expect("the value is valid").into_string().expect("valid UTF-8")
    }

    #[test]
    fn capulet_is_first_and_the_mpi_is_last() {
        assert_eq!(value(""), "/x/libcapulet_mpich.so:/y/libmpich.so.12");
        assert_eq!(
            value("/z/tool.so other.so"),
            "/x/libcapulet_mpich.so:/z/tool.so:other.so:/y/libmpich.so.12"
        );
    }

    #[test]
    fn nested_run_adds_no_entry() {
        let once = value("/z/tool.so");
        assert_eq!(value(&once), once);
    }

    #[test]
    fn path_with_space_or_colon_is_refused() {
        for path in ["/a b/libcapulet_mpich.so", "/a:b/libcapulet_mpich.so"] {
            let refused = preload(Path::new(path), OsStr::new(""), Path::new("/y/libmpich.so.12"));
            assert!(matches!(refused, Err(Error::UnpreloadablePath { .. })), "{path}");
        }
    }

    #[test]
    fn detected_mpi_cannot_be_overruled() {
        let library = |soname: &str| MpiLibrary { soname: soname.to_owned(), path: None };
        assert_eq!(chosen_mpi(Some(&library("libmpi.so.40")), None, "p").ok(), Some(Mpi::OpenMpi));
        assert_eq!(chosen_mpi(None, Some(Mpi::Mpich5), "p").ok(), Some(Mpi::Mpich5));
        assert!(matches!(chosen_mpi(None, None, "p"), Err(Error::NoMpi { .. })));
        let mpi = chosen_mpi(Some(&library("libmpi.so.40")), Some(Mpi::Mpich), "p");
        assert!(matches!(mpi, Err(Error::OtherMpi { .. })));
        assert!(matches!(
            chosen_mpi(Some(&library("libmpi_abi.so.1")), None, "p"),
            Err(Error::StandardAbi { .. })
        ));
        assert!(matches!(
            chosen_mpi(Some(&library("libmpi.so.20")), None, "p"),
            Err(Error::ForeignMpi { .. })
        ));
    }
}
