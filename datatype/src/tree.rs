//! The exact constructor tree of a type, immutable and shared, with the facts about each node.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::bounds::{Bounds, Marks};
use crate::layout::Layout;
use crate::lengths::Lengths;
use crate::named::Named;
use crate::order::Order;
use crate::piece::mix;
use crate::signature::Signature;

/// The deepest nesting of constructors that is accepted.
pub const DEPTH_MAX: u32 = 512;

/// The order of the dimensions of an array in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArrayOrder {
    /// The last dimension varies fastest: `MPI_ORDER_C`.
    C,
    /// The first dimension varies fastest: `MPI_ORDER_FORTRAN`.
    Fortran,
}

/// How one dimension of an array is dealt out to processes (MPI 4.1, 5.1.4). `None` as argument is
/// `MPI_DISTRIBUTE_DFLT_DARG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// `MPI_DISTRIBUTE_NONE`: not dealt out.
    None,
    /// `MPI_DISTRIBUTE_BLOCK`: one block of that many elements each, by default the smallest that suffices.
    Block(Option<u64>),
    /// `MPI_DISTRIBUTE_CYCLIC`: blocks of that many elements, by default 1, in turn.
    Cyclic(Option<u64>),
}

/// What built a type, with the arguments as given (MPI 4.1, 5.1.13).
#[derive(Debug, Clone)]
#[non_exhaustive]
#[allow(missing_docs)] // the fields bear the names of the standard's arguments
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

/// An MPI datatype. Immutable; cloning is cheap and shares the tree.
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
    /// Whether the bounds are those of [`Datatype::with_bounds`].
    pub(crate) bounds_are_forced: bool,
    pub(crate) marks: Marks,
    pub(crate) align: u64,
    pub(crate) depth: u32,
    pub(crate) order: Order,
    pub(crate) signature: Signature,
    pub(crate) layout: OnceLock<Arc<Layout>>,
}

/// The facts of the outermost constructor. The tree is not written out: nodes are shared, so there may be no end to it.
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
    /// What built the type.
    pub fn combiner(&self) -> &Combiner {
        &self.0.combiner
    }

    /// Bytes of data in one instance (MPI 4.1, 5.1.5).
    pub fn size(&self) -> u64 {
        self.0.signature.bytes()
    }

    /// All four bounds, in bytes.
    pub fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// Lower bound, in bytes (MPI 4.1, 5.1.7).
    pub fn lb(&self) -> i64 {
        self.0.bounds.lb
    }

    /// Upper bound, in bytes.
    pub fn ub(&self) -> i64 {
        self.0.bounds.ub
    }

    /// The distance between two consecutive instances, in bytes; may be negative.
    pub fn extent(&self) -> i64 {
        self.0.bounds.extent()
    }

    /// Lowest byte of data; 0 for a type without data (MPI 4.1, 5.1.8).
    pub fn true_lb(&self) -> i64 {
        self.0.bounds.true_lb
    }

    /// End of the highest byte of data; 0 for a type without data.
    pub fn true_ub(&self) -> i64 {
        self.0.bounds.true_ub
    }

    /// The sequence of basic elements.
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// Whether the displacements of the basic elements never decrease within one instance: the standard's condition
    /// for etypes and filetypes (MPI 4.1, 14.1.1). Elements may overlap; see [`Layout::is_monotone`] for the stronger
    /// condition that none does. Exact; O(1).
    pub fn has_nondecreasing_displacements(&self) -> bool {
        self.0.order.is_nondecreasing()
    }

    /// The canonical layout; made at the first call, in time linear in the description, and kept.
    pub fn layout(&self) -> &Arc<Layout> {
        self.0.layout.get_or_init(|| Arc::new(Layout::of(self)))
    }

    /// A name for what the type means to a file or a buffer: types that are equivalent (as [`Datatype::is_equivalent`] says)
    /// have the same hash, on every machine that runs this version, and others a different one but for a chance of about
    /// 2^-100. No protection from somebody who seeks two types with one hash. O(1) once the layout is made.
    pub fn content_hash(&self) -> u128 {
        let Bounds { lb, ub, true_lb, true_ub } = self.bounds();
        let bounds = [lb, ub, true_lb, true_ub].map(|bound| bound as u64);
        let layout = self.layout().fingerprint();
        let numbers = bounds.into_iter().chain(layout).chain(self.signature().fingerprint());
        numbers.fold(0xca, mix)
    }

    /// Whether both types have the same bounds, signature and canonical layout. For types of up to 32 runs this is
    /// equality of type maps; larger types that differ in description may count as different.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.bounds() == other.bounds()
                && self.signature() == other.signature()
                && self.layout() == other.layout())
    }
}
