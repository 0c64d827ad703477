//! Definition of the command line.
#![expect(clippy::doc_markdown, reason = "the comments on arguments are the help text, read in a terminal")]

use std::ffi::OsString;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::hint::Hint;
use crate::mpi::Mpi;
use crate::plan::args::PlanArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Style of error labels.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of labels that report success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of headings and of warnings.
pub(crate) const HEAD: Style = AnsiColor::Yellow.on_default().bold();

/// The modes in which the program of `capulet verify` makes accesses, by the program's names.
pub(crate) const MODES: [&str; 10] = [
    "independent",
    "mixed",
    "block",
    "pointers",
    "collective",
    "once",
    "nonblocking",
    "toggled",
    "shared",
    "ordered",
];

/// Parallel file I/O for unmodified MPI programs
///
/// Capulet is a file layer for parallel programs. `capulet run` starts a program so that its MPI_File
/// calls, and those of the libraries below it (HDF5, PnetCDF, NetCDF-4, mpi4py), use Capulet instead of
/// the MPI's own I/O. The program is not changed.
#[derive(Debug, Parser)]
#[command(name = "capulet", version, styles = STYLES, arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Doctor(DoctorArgs),
    Bench(BenchArgs),
    Plan(PlanArgs),
    Verify(VerifyArgs),
}

/// Run a program with its MPI-IO on Capulet
///
/// The program's own mpiexec starts this command once for each rank. The command finds out which MPI the
/// program uses, preloads the Capulet library for this MPI, and turns into the program. The process, its
/// input and output, its signals and its exit code are the program's own.
///
/// An ELF program is read, not run: its dependencies show its MPI. For a Python program, a short process
/// with the same interpreter imports mpi4py without initializing MPI. If a program loads its MPI only
/// while it runs, the command cannot see the MPI; name it with --mpi.
///
/// The children of the program get the preload too. A child runs as it does without the preload, apart
/// from the time to load the libraries, unless it belongs to another MPI. Start such a child with
/// LD_PRELOAD unset.
#[derive(Debug, Args)]
#[command(override_usage = "capulet run [OPTIONS] [--] <PROGRAM> [ARGUMENTS]...", after_help = RUN_EXAMPLES, after_long_help = RUN_LONG_HELP)]
pub(crate) struct RunArgs {
    /// Storage driver for files whose names have no prefix such as ufs:
    #[arg(long, value_name = "NAME", value_parser = driver_name)]
    pub(crate) driver: Option<String>,

    /// Hint for every file that the program opens; can be given several times
    ///
    /// An MPI_Info pair, for example --hint cb_buffer_size=16777216. It overrides a hint that the program
    /// sets itself.
    #[arg(long = "hint", value_name = "KEY=VALUE")]
    pub(crate) hints: Vec<Hint>,

    /// Print a table of the operations on each file when the file is closed
    #[arg(long)]
    pub(crate) stats: bool,

    /// Write messages of this level and above to standard error
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<LogLevel>,

    /// The MPI that the program will load, if the command cannot see it
    #[arg(long, value_name = "MPI")]
    pub(crate) mpi: Option<Mpi>,

    /// Print what would be done, but do not run the program
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}

/// Report what is installed and what Capulet can serve here
///
/// Lists the MPI libraries and launchers of this machine, the Capulet libraries, whether the kernel
/// allows io_uring, and the file system under PATH. The exit code is 0 if at least one MPI is served, and
/// 1 if none is.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// File or folder whose file system is reported
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
}

/// Measure Capulet against the MPIs
///
/// Runs the measuring program of each MPI, one after the other, if `make build` has built it.
///
/// Datatypes are measured on Open MPI and MPICH, both Debian's and those from PyPI. Each MPI runs in one
/// process, in which Capulet, the MPI, hand-written loops and memcpy do the same work in turn. Before
/// that, their results are compared byte by byte. A ratio tells how many times faster Capulet is: the
/// median over samples taken side by side. The best MPI of a row is the one with the lowest ratio. Times
/// are those of the thread, so other load counts less, but memory and caches are shared: measure on an
/// idle machine.
///
/// Files and locks are measured on Debian's Open MPI, with its OMPIO and its ROMIO, and on Debian's MPICH
/// with its ROMIO. The MPIs from PyPI are measured if --mpi names them. One C program is launched in turn
/// on Capulet and on each of the other file layers, and every byte of every row is checked. A ratio
/// compares times of one run; the median over the runs is shown. The peer of a row is the faster one. The
/// limit of a row is the time in which the same ranks move the same payload with one pwrite or pread
/// each. A peer that fails in a row is left out of this row. The command fails if Capulet fails in a row.
///
/// Plans need no MPI. The work of one of many ranks before and in the first round is carried out and
/// measured with the library's functions. Only the numbers of messages and the costs of ROMIO are
/// formulas.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The bench to run
    pub(crate) bench: BenchName,

    /// Print the rows as JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the rows as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Also draw the rows to this file, for plan
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Number of samples of each contender in each row
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) runs: u16,

    /// Only rows with this text in their suite, case, element and operation
    #[arg(long, value_name = "PATTERN")]
    pub(crate) case: Option<String>,

    /// Number of ranks, for files and locks; can be given several times
    #[arg(long, value_name = "N", default_values_t = [4_u32], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Vec<u32>,

    /// Storage of the files, for files
    #[arg(long, value_name = "WHERE", default_value = "both")]
    pub(crate) storage: Storage,

    /// Folder for the files, instead of --storage; the command makes a new folder in it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,

    /// Existing files lie on the disk only, not in the system's cache; not for tmpfs, which is only cache
    #[arg(long)]
    pub(crate) cold: bool,

    /// Only this MPI; can be given several times
    #[arg(long = "mpi", value_name = "MPI", value_parser = ["openmpi", "openmpi5", "mpich", "mpich5"])]
    pub(crate) mpis: Vec<String>,

    /// Measure against another build of Capulet's library instead of the MPI's own layers, for collective,
    /// independent and atomic; needs one --mpi, which the library must serve
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) against: Option<PathBuf>,

    /// Few and short samples, to check that everything works
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Check whether a file layer keeps the promise of atomic mode
///
/// Ranks read and write random, overlapping parts of one file by MPI-IO alone. Every cell of the file
/// names its writer, so each read shows what it saw. At the end of each round the command searches for an
/// order of all accesses that explains every read. If there is none, it prints a cycle of accesses:
/// their calls, their ranks and their cells. The reads and writes of the layer are split into parts with
/// waits between them, as the system may do at any time (--delay-us 0 turns this off).
///
/// The exit code is 0 if every round has an order, 1 if a round has none, 2 if a round could not be
/// judged, and 3 if the layer refuses atomic mode.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The promise to check
    pub(crate) what: VerifyName,

    /// Folder on the storage to verify; the command makes a new folder in it
    pub(crate) folder: PathBuf,

    /// Number of rounds of each mode
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..1_000_000_000))]
    pub(crate) rounds: u32,

    /// Number of the first round, to repeat a round
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..1_000_000_000))]
    pub(crate) first: u32,

    /// Number of ranks
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub(crate) ranks: u32,

    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Capulet only: the lock of atomic mode, as in the hint capulet_lock
    #[arg(long, value_name = "LOCK", default_value = "auto", value_parser = ["auto", "hybrid", "onesided", "mcs", "shared", "twolevel", "range", "fcntl"])]
    pub(crate) lock: String,

    /// Capulet only: a hint for the file; can be given several times
    #[arg(long = "hint", value_name = "KEY=VALUE")]
    pub(crate) hints: Vec<Hint>,

    /// Capulet only: treat the machine as this number of nodes
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub(crate) nodes: u32,

    /// Capulet only: the storage driver; nolock tears every access into parts and has no locks
    #[arg(long, value_name = "NAME", default_value = "posix", value_parser = driver_name)]
    pub(crate) driver: String,

    /// Only this mode of access; can be given several times
    #[arg(long = "mode", value_name = "MODE", value_parser = MODES)]
    pub(crate) modes: Vec<String>,

    /// The MPI to run on
    #[arg(long, value_name = "MPI", default_value = "openmpi", value_parser = ["openmpi", "openmpi5", "mpich", "mpich5"])]
    pub(crate) mpi: String,

    /// The file layer: Capulet, or one of the MPI's own
    #[arg(long, value_name = "LAYER", default_value = "capulet", value_parser = ["capulet", "ompio", "romio"])]
    pub(crate) layer: String,

    /// Longest wait between two parts of a system call, in microseconds; 0 leaves system calls whole
    #[arg(long, value_name = "US", default_value_t = 60)]
    pub(crate) delay_us: u32,

    /// Leave atomic mode off, to show that rounds without an order are found
    #[arg(long)]
    pub(crate) nonatomic: bool,
}

/// What `capulet verify` can check. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyName {
    /// Each access appears as one step (MPI 4.1, section 14.6.1)
    Atomic,
}

/// What `capulet bench` can measure. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchName {
    /// Packing, unpacking and encoding, against MPI_Pack and MPI_Unpack; also small calls, seeking and
    /// making types
    Datatype,
    /// Copies from one type to another, against MPI_Pack and MPI_Unpack
    Transpack,
    /// Collective reads and writes of files, against OMPIO and ROMIO
    Collective,
    /// Independent reads and writes of files, against OMPIO and ROMIO
    Independent,
    /// Small independent accesses to files in atomic mode, disjoint and overlapping, and writes through the
    /// shared file pointer, against OMPIO and ROMIO; between nodes also the raw round trips of an access
    Atomic,
    /// The locks of atomic mode by themselves: free, contended, on different bytes, and while the home
    /// rank computes
    Locks,
    /// The work of one of up to 100,000 ranks to plan an access of 10^9 pieces, against ROMIO's formulas
    Plan,
}

/// Storage on which files are measured. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Storage {
    /// Memory: /dev/shm
    Tmpfs,
    /// A disk, through the page cache: /var/tmp
    Disk,
    /// Both, one after the other
    Both,
}

/// Verbosity of the library's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// Name of the level, as the library reads it from `CAPULET_LOG`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Checks the form of a driver's name and takes a colon off its end. Only the library knows which drivers
/// exist, so the name of an unknown driver passes.
fn driver_name(text: &str) -> Result<String, String> {
    let name = text.strip_suffix(':').unwrap_or(text);
    let is_name = !name.is_empty()
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    is_name
        .then(|| name.to_owned())
        .ok_or_else(|| "the name of a driver has only letters, digits and _, for example posix".to_owned())
}

const RUN_EXAMPLES: &str = "\
Examples:
  mpiexec -n 4 capulet run ./simulation input.nml
  mpiexec -n 4 capulet run --stats --hint cb_nodes=2 -- python3 analysis.py --fast

Use --help to see the exit codes and the variables.";

const RUN_LONG_HELP: &str = "\
Examples:
  mpiexec -n 4 capulet run ./simulation input.nml
  mpiexec -n 4 capulet run --stats --hint cb_nodes=2 -- python3 analysis.py --fast
  capulet run --dry-run ./simulation

Exit codes if the program is not started:
    2  the command line is wrong
   64  the program's MPI cannot be found out, or Capulet does not serve it
   65  the launcher belongs to another MPI than the program
   66  the Capulet library for that MPI is missing or unfit
  126  the program cannot be executed
  127  the program is not found
Otherwise the exit code is the program's.

Variables:
  CAPULET_LIBDIR  the folder of libcapulet_openmpi.so, libcapulet_mpich.so and libcapulet_mpich5.so;
                  without it the command searches its own folder, ../lib, and the build folders
  CAPULET_DRIVER, CAPULET_HINTS, CAPULET_STATS, CAPULET_LOG
                  read by the library and set by the options above; hints on the command line come after those
                  of CAPULET_HINTS and override them
  LD_PRELOAD      Capulet's library is put before the other entries";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run_args(line: &[&str]) -> Result<RunArgs, clap::Error> {
        let words = ["capulet", "run"].iter().chain(line);
        match Cli::try_parse_from(words)?.command {
            Command::Run(args) => Ok(args),
            _ => panic!("the command is not run"),
        }
    }

    #[test]
    fn definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn words_after_the_program_are_its_arguments() {
        let args = run_args(&["--stats", "prog", "--hint", "-x", "--", "--stats"])
            .expect("the command line is valid");
        assert!(args.stats);
        assert_eq!(args.command, ["prog", "--hint", "-x", "--", "--stats"]);
        assert!(args.hints.is_empty());
        let args = run_args(&["--hint", "a=1", "--hint", "b=2", "--", "prog", "--driver"])
            .expect("the command line is valid");
        assert_eq!(args.hints.len(), 2);
        assert_eq!(args.command, ["prog", "--driver"]);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for line in
            [&[][..], &["--"], &["--bogus", "prog"], &["--hint", "a", "prog"], &["--driver", "a b", "prog"]]
        {
            let error = run_args(line).expect_err("the command line is wrong");
            assert_eq!(error.exit_code(), 2, "{line:?}: {error}");
        }
        let error = run_args(&["--log", "loud", "prog"]).expect_err("the level does not exist").to_string();
        assert!(error.contains("debug"), "the message lists the levels: {error}");
        let error = run_args(&["--hint", "cb_nodes", "prog"]).expect_err("the hint has no value").to_string();
        assert!(error.contains("key=value"), "the message tells the form: {error}");
    }

    #[test]
    fn driver_names_lose_their_colon() {
        assert_eq!(
            run_args(&["--driver", "ufs:", "prog"]).expect("the command line is valid").driver.as_deref(),
            Some("ufs")
        );
    }
}
