//! The exact constructor tree of a type. The tree is immutable and shared. Each node keeps the facts that
//! follow from its constructor: bounds, alignment, order and signature.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::bounds::{Bounds, Marks};
use crate::layout::Layout;
use crate::lengths::Lengths;
use crate::named::Named;
use crate::order::Order;
use crate::signature::Signature;

/// The deepest nesting of constructors that a type may have. A constructor refuses deeper types with
/// [`TypeError::TooDeep`](crate::TypeError::TooDeep).
pub const DEPTH_MAX: u32 = 512;

/// The order of the dimensions of an array in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArrayOrder {
    /// The last dimension varies fastest: `MPI_ORDER_C`.
    C,
    /// The first dimension varies fastest: `MPI_ORDER_FORTRAN`.
    Fortran,
}

/// How one dimension of an array is distributed over processes (MPI 4.1, section 5.1.4). An argument of
/// `None` is `MPI_DISTRIBUTE_DFLT_DARG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// `MPI_DISTRIBUTE_NONE`: the dimension is not distributed.
    None,
    /// `MPI_DISTRIBUTE_BLOCK`: one block of this many elements for each process. The default is the
    /// smallest block size that covers the dimension.
    Block(Option<u64>),
    /// `MPI_DISTRIBUTE_CYCLIC`: blocks of this many elements (by default 1), dealt to the processes
    /// round-robin.
    Cyclic(Option<u64>),
}

/// The constructor of a type, with the arguments as the caller gave them (MPI 4.1, section 5.1.13).
#[derive(Debug, Clone)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields have the names of the standard's arguments
pub enum Combiner {
    /// A predefined type.
    Named(Named),
    /// `MPI_Type_dup`
    Dup { old: Datatype },
    /// `MPI_Type_contiguous`
    Contiguous { count: u64, old: Datatype },
    /// `MPI_Type_vector`; the stride counts extents of `old`.
    Vector { count: u64, blocklength: u64, stride: i64, old: Datatype },
    /// `MPI_Type_create_hvector`; the stride counts bytes.
    Hvector { count: u64, blocklength: u64, stride_bytes: i64, old: Datatype },
    /// `MPI_Type_indexed`; displacements count extents of `old`.
    Indexed { blocklengths: Lengths, displacements: Box<[i64]>, old: Datatype },
    /// `MPI_Type_create_hindexed`; displacements count bytes.
    Hindexed { blocklengths: Lengths, displacements_bytes: Box<[i64]>, old: Datatype },
    /// `MPI_Type_create_indexed_block`; displacements count extents of `old`.
    IndexedBlock { blocklength: u64, displacements: Box<[i64]>, old: Datatype },
    /// `MPI_Type_create_hindexed_block`; displacements count bytes.
    HindexedBlock { blocklength: u64, displacements_bytes: Box<[i64]>, old: Datatype },
    /// `MPI_Type_create_struct`
    Struct { blocklengths: Box<[u64]>, displacements_bytes: Box<[i64]>, types: Box<[Datatype]> },
    /// `MPI_Type_create_subarray`
    Subarray { sizes: Box<[u64]>, subsizes: Box<[u64]>, starts: Box<[u64]>, order: ArrayOrder, old: Datatype },
    /// `MPI_Type_create_darray`
    Darray {
        rank: u64,
        gsizes: Box<[u64]>,
        distributions: Box<[Distribution]>,
        psizes: Box<[u64]>,
        order: ArrayOrder,
        old: Datatype,
    },
    /// `MPI_Type_create_resized`
    Resized { lb: i64, extent: i64, old: Datatype },
}

/// An MPI datatype. It is immutable. A clone is cheap and shares the tree.
///
/// ```
/// use capulet_datatype::{Datatype, Named};
/// let double = Datatype::named(Named::Double);
/// let column = Datatype::vector(100, 1, 8, &double)?;
/// assert_eq!((column.size(), column.extent()), (800, 99 * 64 + 8));
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Clone)]
pub struct Datatype(pub(crate) Arc<Node>);

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) combiner: Combiner,
    pub(crate) bounds: Bounds,
    /// Whether [`Datatype::with_bounds`] set the bounds.
    pub(crate) bounds_are_forced: bool,
    pub(crate) marks: Marks,
    pub(crate) align: u64,
    pub(crate) depth: u32,
    pub(crate) order: Order,
    pub(crate) signature: Signature,
    pub(crate) layout: OnceLock<Arc<Layout>>,
}

/// Prints the facts of the outermost constructor. The tree itself is not printed, because nodes are
/// shared: the printed tree can be exponentially longer than the description of the type.
impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut datatype = f.debug_struct("Datatype");
        datatype.field("built_by", &format_args!("{}", self.combiner().name())).field("size", &self.size());
        datatype.field("bounds", &self.bounds()).field("depth", &self.0.depth).finish_non_exhaustive()
    }
}

impl Combiner {
    /// The name of the constructor in the standard.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Named(named) => named.name(),
            Self::Dup { .. } => "MPI_Type_dup",
            Self::Contiguous { .. } => "MPI_Type_contiguous",
            Self::Vector { .. } => "MPI_Type_vector",
            Self::Hvector { .. } => "MPI_Type_create_hvector",
            Self::Indexed { .. } => "MPI_Type_indexed",
            Self::Hindexed { .. } => "MPI_Type_create_hindexed",
            Self::IndexedBlock { .. } => "MPI_Type_create_indexed_block",
            Self::HindexedBlock { .. } => "MPI_Type_create_hindexed_block",
            Self::Struct { .. } => "MPI_Type_create_struct",
            Self::Subarray { .. } => "MPI_Type_create_subarray",
            Self::Darray { .. } => "MPI_Type_create_darray",
            Self::Resized { .. } => "MPI_Type_create_resized",
        }
    }
}

impl Datatype {
    /// The outermost constructor of the type, with its arguments.
    pub fn combiner(&self) -> &Combiner {
        &self.0.combiner
    }

    /// Bytes of data in one instance (MPI 4.1, section 5.1.5).
    pub fn size(&self) -> u64 {
        self.0.signature.bytes()
    }

    /// All four bounds, in bytes.
    pub fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// Lower bound, in bytes (MPI 4.1, section 5.1.7).
    pub fn lb(&self) -> i64 {
        self.0.bounds.lb
    }

    /// Upper bound, in bytes.
    pub fn ub(&self) -> i64 {
        self.0.bounds.ub
    }

    /// The distance between two consecutive instances, in bytes. It may be negative.
    pub fn extent(&self) -> i64 {
        self.0.bounds.extent()
    }

    /// Offset of the lowest byte of data, in bytes; 0 for a type without data (MPI 4.1, section 5.1.8).
    pub fn true_lb(&self) -> i64 {
        self.0.bounds.true_lb
    }

    /// Offset of the end of the highest byte of data, in bytes; 0 for a type without data.
    pub fn true_ub(&self) -> i64 {
        self.0.bounds.true_ub
    }

    /// The sequence of basic elements of one instance.
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// Whether the displacements of the basic elements never decrease within one instance. This is the
    /// standard's condition for etypes and filetypes (MPI 4.1, section 14.1.1). Elements may overlap;
    /// [`Layout::is_monotone`] is the stronger condition that no elements overlap. The answer is exact
    /// and takes O(1).
    pub fn has_nondecreasing_displacements(&self) -> bool {
        self.0.order.is_nondecreasing()
    }
}
