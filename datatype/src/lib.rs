//! MPI datatypes as values: constructors, canonical symbolic layouts, cursors, packing, typed copies,
//! translation to portable formats, and a wire form. The crate is the lowest layer of Capulet: memory, files
//! and messages are all described by its types. It must not know MPI, files or other processes: it does no
//! I/O and reads no clock. The only state outside its values is a cache of copy programs in each thread, and
//! the detected features of the processor.
//!
//! ```
//! use capulet_datatype::{ArrayOrder, Datatype, Named, Tiled, pack};
//! // The inner 2 x 2 of a 4 x 4 array of bytes.
//! let byte = Datatype::named(Named::Byte);
//! let inner = Datatype::subarray(&[4, 4], &[2, 2], &[1, 1], ArrayOrder::C, &byte)?;
//! let array: Vec<u8> = (0..16).collect();
//! let mut packed = [0; 4];
//! pack(&Tiled::new(inner.layout().clone(), 1)?, &array, 0..4, &mut packed)?;
//! assert_eq!(packed, [5, 6, 9, 10]);
//! # Ok::<(), capulet_datatype::TypeError>(())
//! ```
//!
//! The steps from a type to moved bytes, with the public item of each step and its cost:
//!
//! | step | item | cost |
//! |---|---|---|
//! | describe | [`Datatype`]: the exact constructor tree, checked | O(arguments) |
//! | canonicalize | [`Layout`]: strided nests over index lists, in type-map order | O(description), once |
//! | lay end to end | [`Tiled`]: a buffer of `count` elements, or a file view | O(depth) |
//! | walk | [`Cursor`]: runs from any position, seeks both ways | O(depth + log n), then O(1) per run |
//! | visit | [`Segment`], [`visit()`]: leaves of any range for a [`LeafVisitor`] | one call per leaf |
//! | move | [`TypedCopy`], [`pack`], [`unpack`]: any range in one pass, without a buffer | O(bytes + rows) |
//! | translate | [`Translation`]: to and from netCDF's types and `external32` | as move |
//! | send | [`Datatype::to_wire`], [`Datatype::from_wire`]: a type as a message | O(description) |
//!
//! Counts are `u64` and displacements are `i64`. The constructors check that sizes, bounds and true extents
//! fit in `i64`, so later arithmetic cannot overflow. Memory follows the description of a type, never the
//! number of its pieces.
//!
//! # Modules
//! | modules | contents |
//! |---|---|
//! | `named`, `tree`, `build`, `arrays` | predefined types, the constructor tree, the checked constructors |
//! | `bounds`, `order`, `signature`, `elements`, `lengths` | facts about each node of the tree |
//! | `lower`, `canon`, `runs`, `period` | from the tree to the canonical form: rewriting rules |
//! | `layout`, `piece`, `lists`, `bitmap`, `facts` | the canonical form and its leaves |
//! | `tiled`, `locate`, `overlap`, `tiling` | queries: places of bytes, overlap, filetypes over etypes |
//! | `identity` | equivalence of types |
//! | `walk`, `cursor`, `flatten`, `visit` | walks: spans, runs, lists of runs, leaf functions |
//! | `copy` | packing and typed copies: copy programs and kernels |
//! | `translate` | conversion to and from netCDF's types and `external32` |
//! | `wire` | types as messages |
//! | `error` | the errors of constructors and ranges |
//!
//! Only `copy` and `translate` contain `unsafe` code.

#![deny(unsafe_code)]

mod arrays;
mod bitmap;
mod bounds;
mod build;
mod canon;
#[allow(unsafe_code)]
mod copy;
mod cursor;
mod elements;
mod error;
mod facts;
mod flatten;
mod identity;
mod layout;
mod lengths;
mod lists;
mod locate;
mod lower;
mod named;
mod order;
mod overlap;
mod period;
mod piece;
mod runs;
mod signature;
mod tiled;
mod tiling;
#[allow(unsafe_code)]
mod translate;
mod tree;
mod visit;
mod walk;
mod wire;

pub use bounds::Bounds;
pub use copy::{TypedCopy, pack, unpack};
pub use cursor::Cursor;
pub use error::{Result, TypeError};
pub use flatten::{Flattened, flatten};
pub use layout::{Layout, Run};
pub use lengths::Lengths;
pub use named::{Named, Prim, PrimKind};
pub use signature::Signature;
pub use tiled::Tiled;
pub use translate::{NetcdfFormat, NetcdfType, OutOfRange, TranslateError, Translation};
pub use tree::{ArrayOrder, Combiner, DEPTH_MAX, Datatype, Distribution};
pub use visit::{BlockIndexed, Contig, Flow, Indexed, LeafVisitor, Segment, Vector, visit};
pub use wire::WireError;
