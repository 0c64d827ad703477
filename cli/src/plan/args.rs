//! Command line of `capulet plan`.
#![expect(clippy::doc_markdown, reason = "the comments on arguments are the help text, read in a terminal")]

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::hint::Hint;

/// The largest number of ranks that a plan can have.
pub(crate) const RANKS_MAX: u32 = 65_536;

/// Show how an access to a file would be carried out, and why
///
/// Takes the bytes that each rank reads or writes and prints the plan: independent access or collective
/// buffers, and the rounds, calls, copies, messages and memory that it takes. No byte is moved, and no
/// MPI is needed. --svg draws the plan.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    pub(crate) source: Source,

    /// Number of ranks, at most 65536
    ///
    /// The default is 4, unless the access tells the number: a grid has one rank for each block, and a
    /// file of runs has as many ranks as it names.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    pub(crate) ranks: Option<u32>,

    /// Number of nodes; each has consecutive ranks
    #[arg(long, global = true, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    pub(crate) nodes: u32,

    /// The ranks write; this is the default
    #[arg(long, global = true, conflicts_with = "read")]
    pub(crate) write: bool,

    /// The ranks read
    #[arg(long, global = true)]
    pub(crate) read: bool,

    /// Each rank accesses the file by itself, as in MPI_File_write_at
    #[arg(long, global = true)]
    pub(crate) independent: bool,

    /// The file lies in memory, as on tmpfs
    #[arg(long, global = true)]
    pub(crate) in_memory: bool,

    /// Each independent read waits for the storage, because the system has none of the file in its cache
    #[arg(long, global = true, conflicts_with = "in_memory")]
    pub(crate) cold: bool,

    /// A hint, as an MPI_Info pair; can be given several times
    ///
    /// Plans depend on these hints: cb_buffer_size, cb_config_list (the same for all nodes), cb_nodes,
    /// romio_cb_read, romio_cb_write, striping_unit, romio_no_indep_rw, capulet_exclusive.
    #[arg(long = "hint", global = true, value_name = "KEY=VALUE")]
    pub(crate) hints: Vec<Hint>,

    /// Print the plan as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Also draw the plan to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// Access of the ranks. The comments on the variants are help text.
#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Blocks at equal distances; rank r begins r shifts into the file
    Strided {
        /// Bytes of a block
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
        block: u64,
        /// Bytes from one block of a rank to its next block
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
        stride: u64,
        /// Blocks of each rank
        #[arg(long, value_name = "N", default_value_t = 1000)]
        count: u64,
        /// Bytes from the first block of a rank to that of the next rank; one block by default
        #[arg(long, value_name = "BYTES")]
        shift: Option<u64>,
    },
    /// An array that is divided into blocks, one for each rank, both in row-major order
    Blocks {
        /// Elements of the array in each dimension, the slowest first
        #[arg(long, value_name = "N,...", value_delimiter = ',', required = true)]
        size: Vec<u64>,
        /// Blocks in each dimension
        #[arg(long, value_name = "N,...", value_delimiter = ',', required = true)]
        grid: Vec<u64>,
        /// Bytes of an element
        #[arg(long, value_name = "BYTES", default_value_t = 8)]
        element_bytes: u64,
    },
    /// The runs that a file lists, one on each line: rank,offset,length; # begins a comment
    Runs {
        /// The file, with at most 5000000 runs; each rank accesses its runs in this order
        file: PathBuf,
    },
}

const EXAMPLES: &str = "\
Examples:
  capulet plan strided --block 64 --stride 256 --ranks 4 --svg plan.svg
  capulet plan blocks --size 256,256,256 --grid 2,2,1 --element-bytes 8 --read
  capulet plan runs pieces.csv --nodes 2 --hint cb_nodes=2 --json";
