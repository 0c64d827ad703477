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

/// MPI-IO for programs as they are.
///
/// Capulet is a file layer for parallel programs. `capulet run` starts a program so that its MPI_File calls, and those of
/// HDF5, PnetCDF, NetCDF-4 or mpi4py under it, go to Capulet in place of the MPI's own I/O. The program is not changed.
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
/// Started by the program's own mpiexec, once for each rank. Finds out which MPI the program uses, preloads the Capulet
/// library that was built for it, and turns into the program: the process, its input and output, its signals and its
/// exit code are the program's own.
///
/// An ELF program is read, not run: its dependencies tell its MPI. A Python program is asked: a short process with the same
/// interpreter imports mpi4py without initializing MPI. Programs that load their MPI only while they run cannot be seen
/// through; say which MPI it is with --mpi.
///
/// The preload reaches the children of the program too. Such a child runs as it would without it, apart from the time
/// it takes to load the libraries, unless it belongs to another MPI: start that one with LD_PRELOAD unset.
#[derive(Debug, Args)]
#[command(override_usage = "capulet run [OPTIONS] [--] <PROGRAM> [ARGUMENTS]...", after_help = RUN_EXAMPLES, after_long_help = RUN_LONG_HELP)]
pub(crate) struct RunArgs {
    /// Storage driver for files that name none by a prefix such as ufs:
    #[arg(long, value_name = "NAME", value_parser = driver_name)]
    pub(crate) driver: Option<String>,

    /// Hint for every file that the program opens; may be given many times
    ///
    /// An MPI_Info pair, as in --hint cb_buffer_size=16777216. It wins over what the program sets itself.
    #[arg(long = "hint", value_name = "KEY=VALUE")]
    pub(crate) hints: Vec<Hint>,

    /// Print a table of what was done for each file when it is closed
    #[arg(long)]
    pub(crate) stats: bool,

    /// Write messages of this level and above to standard error
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<LogLevel>,

    /// The MPI that the program will load, where it cannot be seen
    #[arg(long, value_name = "MPI")]
    pub(crate) mpi: Option<Mpi>,

    /// Say what would be done, and do not run the program
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}

/// Say what is installed and what Capulet can serve here
///
/// Lists the MPI libraries and launchers of this machine, the Capulet libraries, whether the kernel allows io_uring, and
/// the file system under PATH. The exit code is 0 if at least one MPI is served, and 1 if none is.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A file or folder whose file system is to be named
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
}

/// Measure Capulet against the MPIs
///
/// Runs the measuring program of each MPI, one after the other, as far as `make build` has built them.
///
/// For datatypes these are Open MPI and MPICH, Debian's and those from PyPI. Each is one process, in which ours, that MPI, loops written by hand and memcpy do the same
/// by turns; before that, their results are compared byte by byte. A ratio says how many times faster Capulet is, as the
/// median over samples taken side by side; the best MPI of a row is the one with the lowest ratio. Times are those of the
/// thread, so that other load counts less, but memory and caches are shared: measure on an idle machine.
///
/// For files and locks these are Debian's Open MPI, with its OMPIO and its ROMIO, and Debian's MPICH with its ROMIO; those from PyPI
/// are measured where --mpi names them. One C program is launched on
/// Capulet and on each of them by turns, and every byte of every row is checked. A ratio is the median over runs of the times of one run;
/// the peer of a row is the faster one. The limit of a row is the same payload moved by the same ranks in one pwrite or pread each. A
/// peer that fails in a row is left out there; the command fails where Capulet does.
///
/// For plans no MPI is needed: what one rank of many does before and in the first round is done and measured, with the library's
/// functions; only the counts of messages, and what ROMIO would take, are formulas.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure
    pub(crate) bench: BenchName,

    /// Print the rows as JSON, not as a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write the rows as JSON to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Also draw the rows to a file, for plan
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Samples of each contender in each row
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) runs: u16,

    /// Only rows with this text in their suite, case, element and operation
    #[arg(long, value_name = "PATTERN")]
    pub(crate) case: Option<String>,

    /// Ranks, for files; may be given many times
    #[arg(long, value_name = "N", default_values_t = [4_u32], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Vec<u32>,

    /// Where the files lie, for files
    #[arg(long, value_name = "WHERE", default_value = "both")]
    pub(crate) storage: Storage,

    /// The folder for the files, in place of --storage; a new one is made in it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,

    /// Files that are there are on the disk alone, not in the cache of the system; not for tmpfs, which is nothing but that
    #[arg(long)]
    pub(crate) cold: bool,

    /// Only this MPI; may be given many times
    #[arg(long = "mpi", value_name = "MPI", value_parser = ["openmpi", "openmpi5", "mpich", "mpich5"])]
    pub(crate) mpis: Vec<String>,

    /// Few and short samples, to see that everything works
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Judge whether a file layer keeps what atomic mode promises
///
/// Ranks read and write random parts of one file that overlap, by MPI-IO alone. Every cell of the file names its writer, so
/// that each read tells what it saw; at the end of each round it is searched for an order of all accesses that explains it. If
/// there is none, the circle is printed: which calls, of which ranks, at which cells. What the layer reads and writes is cut into
/// parts with waits between them, as the system may do at any time (--delay-us 0 turns that off).
///
/// The exit code is 0 if every round has an order, 1 if one has none, 2 if it could not be judged, and 3 if the layer refuses atomic
/// mode.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// What to verify
    pub(crate) what: VerifyName,

    /// A folder on the storage to verify on; a new one is made in it
    pub(crate) folder: PathBuf,

    /// Rounds of each mode
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..1_000_000_000))]
    pub(crate) rounds: u32,

    /// The first round, to repeat one
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..1_000_000_000))]
    pub(crate) first: u32,

    /// Ranks
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub(crate) ranks: u32,

    /// What the random numbers begin with
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Capulet only: the lock of atomic mode, as the hint capulet_lock names it
    #[arg(long, value_name = "LOCK", default_value = "auto", value_parser = ["auto", "hybrid", "onesided", "mcs", "shared", "twolevel", "range", "fcntl"])]
    pub(crate) lock: String,

    /// Capulet only: a hint for the file; may be given many times
    #[arg(long = "hint", value_name = "KEY=VALUE")]
    pub(crate) hints: Vec<Hint>,

    /// Capulet only: cut the machine into as many nodes
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub(crate) nodes: u32,

    /// Capulet only: the storage driver; nolock tears every access into parts and has no locks
    #[arg(long, value_name = "NAME", default_value = "posix", value_parser = driver_name)]
    pub(crate) driver: String,

    /// Only this way of making accesses; may be given many times
    #[arg(long = "mode", value_name = "MODE", value_parser = crate::verify::MODES)]
    pub(crate) modes: Vec<String>,

    /// The MPI
    #[arg(long, value_name = "MPI", default_value = "openmpi", value_parser = ["openmpi", "openmpi5", "mpich", "mpich5"])]
    pub(crate) mpi: String,

    /// The file layer: Capulet, or the MPI's own
    #[arg(long, value_name = "LAYER", default_value = "capulet", value_parser = ["capulet", "ompio", "romio"])]
    pub(crate) layer: String,

    /// Longest wait between two parts of a call to the system, microseconds; 0 for calls as they are
    #[arg(long, value_name = "US", default_value_t = 60)]
    pub(crate) delay_us: u32,

    /// Leave atomic mode off, to see that rounds without an order are found
    #[arg(long)]
    pub(crate) nonatomic: bool,
}

/// What `capulet verify` can check. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyName {
    /// Each access is as if it were one step (MPI 4.1, 14.6.1)
    Atomic,
}

/// What `capulet bench` can measure. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchName {
    /// Packing, unpacking and encoding, against MPI_Pack and MPI_Unpack; small calls, seeking, making types
    Datatype,
    /// Copies from one type to another, against MPI_Pack and MPI_Unpack
    Transpack,
    /// Collective reading and writing of files, against OMPIO and ROMIO
    Collective,
    /// Independent reading and writing of files, against OMPIO and ROMIO
    Independent,
    /// Small independent accesses to files in atomic mode, disjoint and not, against OMPIO and ROMIO
    Atomic,
    /// The locks of atomic mode by themselves: free, contended, of other bytes, while their home computes
    Locks,
    /// What one of up to 100,000 ranks does to plan an access of 10^9 pieces, against ROMIO's formulas
    Plan,
}

/// Storage on which files are measured. The comments on the variants are help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Storage {
    /// Memory: /dev/shm
    Tmpfs,
    /// A disk, through the page cache: /var/tmp
    Disk,
    /// One after the other
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
        .ok_or_else(|| "a driver's name is of letters and digits, as in posix".to_owned())
}

const RUN_EXAMPLES: &str = "\
Examples:
  mpiexec -n 4 capulet run ./simulation input.nml
  mpiexec -n 4 capulet run --stats --hint cb_nodes=2 -- python3 analysis.py --fast

More with --help: exit codes and variables.";

const RUN_LONG_HELP: &str = "\
Examples:
  mpiexec -n 4 capulet run ./simulation input.nml
  mpiexec -n 4 capulet run --stats --hint cb_nodes=2 -- python3 analysis.py --fast
  capulet run --dry-run ./simulation

Exit codes, where the program is not started:
    2  the command line is wrong
   64  the program's MPI cannot be told, or Capulet does not serve it
   65  the launcher belongs to another MPI than the program
   66  the Capulet library for that MPI is missing or unfit
  126  the program cannot be executed
  127  the program is not found
Otherwise the exit code is the program's.

Variables:
  CAPULET_LIBDIR  the folder of libcapulet_openmpi.so, libcapulet_mpich.so and libcapulet_mpich5.so; without it they are
                  searched beside this command, in ../lib, and in the folders of a build
  CAPULET_DRIVER, CAPULET_HINTS, CAPULET_STATS, CAPULET_LOG
                  read by the library, set by the options above; hints on the command line come after those of
                  CAPULET_HINTS and override them
  LD_PRELOAD      Capulet's library is put before what is there";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run_args(line: &[&str]) -> Result<RunArgs, clap::Error> {
        let words = ["capulet", "run"].iter().chain(line);
        match Cli::try_parse_from(words)?.command {
            Command::Run(args) => Ok(args),
            _ => panic!("run was asked for"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_after_the_program_belongs_to_it() {
        let args = run_args(&["--stats", "prog", "--hint", "-x", "--", "--stats"]).expect("parsed");
        assert!(args.stats);
        assert_eq!(args.command, ["prog", "--hint", "-x", "--", "--stats"]);
        assert!(args.hints.is_empty());
        let args = run_args(&["--hint", "a=1", "--hint", "b=2", "--", "prog", "--driver"]).expect("parsed");
        assert_eq!(args.hints.len(), 2);
        assert_eq!(args.command, ["prog", "--driver"]);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for line in
            [&[][..], &["--"], &["--bogus", "prog"], &["--hint", "a", "prog"], &["--driver", "a b", "prog"]]
        {
            let error = run_args(line).expect_err("wrong");
            assert_eq!(error.exit_code(), 2, "{line:?}: {error}");
        }
        let error = run_args(&["--log", "loud", "prog"]).expect_err("no such level").to_string();
        assert!(error.contains("debug"), "the levels are listed: {error}");
        let error = run_args(&["--hint", "cb_nodes", "prog"]).expect_err("no value").to_string();
        assert!(error.contains("key=value"), "the form is told: {error}");
    }

    #[test]
    fn driver_names_lose_their_colon() {
        assert_eq!(run_args(&["--driver", "ufs:", "prog"]).expect("parsed").driver.as_deref(), Some("ufs"));
    }
}
