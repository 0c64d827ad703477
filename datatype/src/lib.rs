//! MPI datatypes as canonical symbolic layouts: bounds, cursors, packing and typed copies. Knows no MPI, no files.
//!
//! | step | type | cost |
//! |---|---|---|
//! | describe | [`Datatype`]: the exact constructor tree, checked | O(arguments) |
//! | canonicalize | [`Layout`]: strided nests over index lists, in type-map order | O(description), once |
//! | lay end to end | [`Tiled`]: a buffer of `count` elements, or a file view | O(depth) |
//! | walk | [`Cursor`]: runs of bytes, from any position, seeking both ways | O(depth + log n), then O(1) per run |
//! | visit | [`Segment`], [`visit()`]: the leaves of any range, for a [`LeafVisitor`] | as walking, one call per leaf |
//! | move | [`TypedCopy`], [`pack`], [`unpack`]: any range, one pass, no buffer | O(bytes + rows) |
//! | translate | [`Translation`]: to and from netCDF's types and `external32`, as part of the copy | as moving |
//!
//! Counts are `u64`, displacements `i64`; sizes, bounds and true extents are checked to fit in `i64` when a type is
//! built, so what follows cannot overflow. Memory follows the description of a type, never the number of its pieces.
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
