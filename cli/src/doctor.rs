//! `capulet doctor`: reports what is installed, and what Capulet can serve.

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use capulet_drivers::Caps;
use capulet_drivers::posix::filesystem_kind;

use crate::args::{BAD, GOOD, HEAD};
use crate::error::Error;
use crate::launcher;
use crate::library;
use crate::loader::Loader;
use crate::mpi::Mpi;

/// Names that Debian and the MPIs give to launchers.
const LAUNCHERS: [&str; 5] = ["mpiexec", "mpiexec.openmpi", "mpiexec.mpich", "mpirun", "srun"];

/// Whether the kernel lets this process use `io_uring`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoUring {
    Allowed,
    /// Forbidden by the administrator, or by a container's filter of system calls.
    Forbidden,
    /// The kernel has no `io_uring`.
    Missing,
    /// The system answered with this other error number.
    Unclear(i32),
}

/// Prints the report. Succeeds if at least one MPI is served.
pub(crate) fn report(path: &Path) -> ExitCode {
    let mut output = anstream::stdout().lock();
    match write_report(&mut output, path) {
        Ok(true) => ExitCode::SUCCESS,
        // A report that cannot be written, for example to a closed pipe, counts as a failure.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn write_report(output: &mut impl Write, path: &Path) -> io::Result<bool> {
    let loader = Loader::of_this_process();
    writeln!(output, "{HEAD}MPI{HEAD:#}")?;
    let mut served = 0;
    for mpi in Mpi::ALL {
        served += usize::from(write_mpi(output, mpi, &loader)?);
    }
    writeln!(output, "{HEAD}Launchers{HEAD:#}")?;
    write_launchers(output)?;
    writeln!(output, "{HEAD}System{HEAD:#}")?;
    write_io_uring(output, io_uring())?;
    match filesystem_kind(path) {
        Ok(kind) => {
            writeln!(output, "  {GOOD}file system{GOOD:#}  {kind}, under {}", path.display())?;
            if !kind.caps().contains(Caps::BYTE_WRITES) {
                writeln!(
                    output,
                    "               nodes cache its pages: in a job on several nodes each access locks its pages"
                )?;
            }
        }
        Err(error) => writeln!(output, "  {BAD}file system{BAD:#}  {error}")?,
    }
    write_between_nodes(output)?;
    writeln!(output)?;
    if served == 0 {
        writeln!(
            output,
            "{BAD}No MPI is served.{BAD:#} Build the libraries (`make build`), or set CAPULET_LIBDIR to their \
             folder."
        )?;
    } else {
        writeln!(output, "{GOOD}{served} of {} MPIs served.{GOOD:#}", Mpi::ALL.len())?;
    }
    Ok(served > 0)
}

/// Describes how the ranks of several nodes reach the words of locks and shared file pointers. Only a job can
/// measure which mechanism it gets, so the report names the order of choice and the place where a job states
/// its choice.
fn write_between_nodes(output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "{HEAD}Locks and shared pointers between nodes{HEAD:#}")?;
    writeln!(
        output,
        "  1. an MPI window, if 30 ms show at start that operations need no MPI call of their target"
    )?;
    writeln!(output, "  2. a server thread of each process over TCP: operations never wait for an MPI call")?;
    writeln!(
        output,
        "  3. messages, if no server is reached and the MPI calls Capulet while it waits (Open MPI):"
    )?;
    writeln!(output, "     operations wait until their target waits in MPI or calls Capulet")?;
    writeln!(
        output,
        "  `capulet run --log info` and MPI_File_get_info (capulet_words) state the choice of a job;"
    )?;
    writeln!(output, "  the hint capulet_words=window|server|messages forces one.")
}

/// Describes one MPI: its library on this machine, and Capulet's library for it. Returns true if Capulet
/// serves programs of this MPI.
fn write_mpi(output: &mut impl Write, mpi: Mpi, loader: &Loader) -> io::Result<bool> {
    let installed = match loader.find_any(mpi.soname()) {
        Some(path) => path.display().to_string(),
        None => "not among the system's libraries; programs may have their own".to_owned(),
    };
    let (style, answer, served) = match library::find(mpi) {
        Ok(library) => (GOOD, format!("served by {}", library.path.display()), true),
        Err(Error::NoLibrary { name, .. }) => (BAD, format!("not served: {name} is missing"), false),
        Err(error) => (BAD, format!("not served: {error}"), false),
    };
    writeln!(output, "  {style}{mpi}{style:#}")?;
    writeln!(output, "    {answer}")?;
    writeln!(output, "    MPI library: {installed}")?;
    Ok(served)
}

fn write_launchers(output: &mut impl Write) -> io::Result<()> {
    let mut found = 0;
    for name in LAUNCHERS {
        let Some(path) = env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
        else {
            continue;
        };
        found += 1;
        writeln!(output, "  {GOOD}{}{GOOD:#}  {}", path.display(), version_of(&path))?;
    }
    if found == 0 {
        writeln!(output, "  {BAD}none in PATH{BAD:#}")?;
    }
    Ok(())
}

/// The version that a launcher prints: its first line with a version.
fn version_of(launcher: &Path) -> String {
    let mut command = Command::new(launcher);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    for name in launcher::variables() {
        command.env_remove(name);
    }
    match command.output() {
        Ok(output) => version_line(&String::from_utf8_lossy(&output.stdout)),
        Err(error) => error.to_string(),
    }
}

/// Finds the version in the output of a launcher. Hydra prints `Version:  4.0.2` in a list of build
/// details, Open MPI prints `mpiexec (OpenRTE) 4.1.4`, Slurm prints `slurm 22.05`.
fn version_line(text: &str) -> String {
    let hydra = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    let first = || text.lines().find(|line| line.chars().any(|character| character.is_ascii_digit()));
    match hydra {
        Some(version) => format!("MPICH {}", version.trim()),
        None => first().unwrap_or("unknown version").trim().to_owned(),
    }
}

fn write_io_uring(output: &mut impl Write, io_uring: IoUring) -> io::Result<()> {
    let (style, answer) = match io_uring {
        IoUring::Allowed => (GOOD, "allowed".to_owned()),
        IoUring::Forbidden => (
            HEAD,
            "forbidden by the system (kernel.io_uring_disabled, or a filter of system calls)".to_owned(),
        ),
        IoUring::Missing => (HEAD, "not in this kernel, or filtered".to_owned()),
        IoUring::Unclear(number) => (HEAD, format!("unclear: {}", io::Error::from_raw_os_error(number))),
    };
    writeln!(output, "  {style}io_uring{style:#}     {answer}")
}

/// Asks the kernel for a ring with an invalid argument. The kind of the refusal tells whether `io_uring`
/// is allowed.
fn io_uring() -> IoUring {
    // SAFETY: io_uring_setup(2) accesses user memory only through its second argument. The argument is
    // null, so the kernel's copy from user memory fails with EFAULT before a ring is created, and no
    // memory is accessed.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, std::ptr::null_mut::<libc::c_void>()) };
    match io::Error::last_os_error().raw_os_error() {
        // No known kernel accepts a null pointer.
        _ if result >= 0 => IoUring::Unclear(0),
        Some(libc::EFAULT) => IoUring::Allowed,
        Some(libc::EPERM | libc::EACCES) => IoUring::Forbidden,
        Some(libc::ENOSYS) => IoUring::Missing,
        number => IoUring::Unclear(number.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_the_output_of_launchers() {
        assert_eq!(
            version_line("HYDRA build details:\n    Version:                                 4.0.2\n"),
            "MPICH 4.0.2"
        );
        assert_eq!(version_line("mpiexec (OpenRTE) 4.1.4\n\nReport bugs to\n"), "mpiexec (OpenRTE) 4.1.4");
        assert_eq!(version_line(""), "unknown version");
    }

    #[test]
    fn kernel_gives_a_clear_answer() {
        assert!(!matches!(io_uring(), IoUring::Unclear(_)));
    }

    #[test]
    fn unreadable_path_is_reported_and_not_fatal() {
        let mut output = Vec::new();
        write_report(&mut output, Path::new("nul\0byte")).expect("the file is written");
        let text = String::from_utf8_lossy(&output).into_owned();
        assert!(text.contains("file system"), "{text}");
    }
}
