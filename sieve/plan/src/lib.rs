//! The planner: which plan carries out an access, and what the plan costs. The crate is pure. It makes no
//! MPI call, opens no file and reads no clock, so the same functions serve the executors of
//! `capulet-sieve` and the command `capulet plan`, which links to no MPI.
//!
//! Two ranks write alternating blocks of 4 bytes. No run is large, so the ranks gather their bytes in
//! collective buffers:
//!
//! ```
//! use capulet_datatype::{Datatype, Named, Tiled};
//! use capulet_plan::{Agreed, Direction, FileSide, Resources, Plan, PlanHints, Reason, Summary, choose};
//!
//! let byte = Datatype::named(Named::Byte);
//! let blocks = Datatype::hvector(1000, 4, 8, &byte)?;
//! let view = Tiled::new(blocks.layout().clone(), 1)?;
//! let sides = [FileSide::of_view(0, &view, 0, 4000)?, FileSide::of_view(4, &view, 0, 4000)?];
//!
//! // On a real machine one allreduce combines the summaries.
//! let agreed = Agreed::of(&sides.map(|side| Summary::of(&side)));
//! assert_eq!((agreed.first, agreed.end, agreed.runs), (0, 8000, 2000));
//! let resources = Resources { shared_memory: true, in_memory: false };
//! let plan = choose(Direction::Write, &agreed, PlanHints::default(), resources);
//! assert_eq!(plan, Plan::TwoPhase(Reason::SmallRuns));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`side`] | [`FileSide`]: where the bytes of one rank lie in the file |
//! | [`choice`] | how ranks summarize their parts, and how a [`Plan`] is chosen from the combined summary |
//! | [`way`] | how one rank carries out its own access: list I/O, packed, or through a sieve buffer |
//! | [`mod@aggregators`] | how many aggregators each node has (`cb_nodes`, `cb_config_list`) |
//! | [`grid`] | [`Grid`]: which bytes of the file the collective buffers of a round cover |
//! | [`marks`] | the map of the units of a collective buffer that ranks ask for |
//! | [`wire`] | how a rank tells another node where its bytes lie |
//! | [`mod@estimate`] | the plan estimate: what an access takes, before it is carried out |

pub mod aggregators;
pub mod choice;
pub mod estimate;
pub mod grid;
pub mod marks;
pub mod side;
pub mod way;
pub mod wire;

pub use capulet_drivers::Direction;
pub use choice::{Agreed, CollectiveMode, Plan, PlanHints, Reason, Resources, Summary, choose};
pub use grid::Grid;
pub use side::{BeyondLargestOffset, FileSide};
pub use way::{CacheState, Holes, Sieve, SieveMode, Way};
