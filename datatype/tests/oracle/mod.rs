//! The naive oracle: type maps written out element by element, as the standard defines them (MPI 4.1, 5.1),
//! and random constructor trees, which become both a type map and a `Datatype`. It shares only names with
//! the library.
#![allow(dead_code)] // each test program uses a part

use capulet_datatype::{ArrayOrder, Datatype, Distribution, Named, Prim, Result};
use proptest::prelude::*;

/// A type map: elements with their displacements, and the explicit bounds if there are any.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypeMap {
    pub(crate) elements: Vec<(Prim, i64)>,
    pub(crate) explicit: Option<(i64, i64)>,
}

impl TypeMap {
    pub(crate) fn lb(&self) -> i64 {
        let natural = self.elements.iter().map(|element| element.1).min().unwrap_or(0);
        self.explicit.map_or(natural, |bounds| bounds.0)
    }

    pub(crate) fn ub(&self) -> i64 {
        if let Some((_, ub)) = self.explicit {
            return ub;
        }
        let align = self.elements.iter().map(|(prim, _)| prim.align() as i64).max().unwrap_or(1);
        let mut ub = self.true_ub();
        while (ub - self.lb()) % align != 0 {
            ub += 1;
        }
        ub
    }

    pub(crate) fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    pub(crate) fn true_lb(&self) -> i64 {
        self.elements.iter().map(|element| element.1).min().unwrap_or(0)
    }

    pub(crate) fn true_ub(&self) -> i64 {
        self.elements.iter().map(|(prim, at)| at + i64::from(prim.bytes)).max().unwrap_or(0)
    }

    /// The offset of every byte of `count` instances, in stream order.
    pub(crate) fn bytes(&self, count: u64) -> Vec<i64> {
        let one = |origin: i64| {
            self.elements
                .iter()
                .flat_map(move |(prim, at)| (0..i64::from(prim.bytes)).map(move |i| origin + at + i))
        };
        (0..count as i64).flat_map(|i| one(i * self.extent())).collect()
    }

    fn add(&mut self, other: &Self, at: i64) {
        self.elements.extend(other.elements.iter().map(|(prim, displacement)| (*prim, displacement + at)));
        if let Some((lb, ub)) = other.explicit {
            let old = self.explicit.unwrap_or((i64::MAX, i64::MIN));
            self.explicit = Some((old.0.min(lb + at), old.1.max(ub + at)));
        }
    }
}

/// The maximal runs of a list of byte offsets.
pub(crate) fn runs_of(bytes: &[i64]) -> Vec<(i64, u64)> {
    let mut runs: Vec<(i64, u64)> = Vec::new();
    for &byte in bytes {
        match runs.last_mut() {
            Some((offset, len)) if *offset + *len as i64 == byte => *len += 1,
            _ => runs.push((byte, 1)),
        }
    }
    runs
}

/// A tree of constructors.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Named(Named),
    Dup(Box<Tree>),
    Contiguous(u64, Box<Tree>),
    Vector(u64, u64, i64, Box<Tree>),
    Hvector(u64, u64, i64, Box<Tree>),
    Indexed(Vec<(u64, i64)>, Box<Tree>),
    Hindexed(Vec<(u64, i64)>, Box<Tree>),
    IndexedBlock(u64, Vec<i64>, Box<Tree>),
    HindexedBlock(u64, Vec<i64>, Box<Tree>),
    Struct(Vec<(u64, i64, Tree)>),
    Subarray(Vec<(u64, u64, u64)>, ArrayOrder, Box<Tree>),
    Darray(u64, Vec<(u64, Distribution, u64)>, ArrayOrder, Box<Tree>),
    Resized(i64, i64, Box<Tree>),
}

impl Tree {
    /// The type that the library builds from the tree.
    pub(crate) fn datatype(&self) -> Result<Datatype> {
        let split = |blocks: &[(u64, i64)]| -> (Vec<u64>, Vec<i64>) { blocks.iter().copied().unzip() };
        match self {
            Self::Named(named) => Ok(Datatype::named(*named)),
            Self::Dup(old) => Datatype::dup(&old.datatype()?),
            Self::Contiguous(n, old) => Datatype::contiguous(*n, &old.datatype()?),
            Self::Vector(n, block, stride, old) => Datatype::vector(*n, *block, *stride, &old.datatype()?),
            Self::Hvector(n, block, stride, old) => Datatype::hvector(*n, *block, *stride, &old.datatype()?),
            Self::Indexed(blocks, old) => {
                let (lengths, displacements) = split(blocks);
                Datatype::indexed(&lengths, &displacements, &old.datatype()?)
            }
            Self::Hindexed(blocks, old) => {
                let (lengths, displacements) = split(blocks);
                Datatype::hindexed(&lengths, &displacements, &old.datatype()?)
            }
            Self::IndexedBlock(block, at, old) => Datatype::indexed_block(*block, at, &old.datatype()?),
            Self::HindexedBlock(block, at, old) => Datatype::hindexed_block(*block, at, &old.datatype()?),
            Self::Struct(fields) => {
                let lengths: Vec<u64> = fields.iter().map(|field| field.0).collect();
                let displacements: Vec<i64> = fields.iter().map(|field| field.1).collect();
                let types: Result<Vec<Datatype>> = fields.iter().map(|field| field.2.datatype()).collect();
                Datatype::structure(&lengths, &displacements, &types?)
            }
            Self::Subarray(dims, order, old) => {
                let sizes: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
                let subsizes: Vec<u64> = dims.iter().map(|dim| dim.1).collect();
                let starts: Vec<u64> = dims.iter().map(|dim| dim.2).collect();
                Datatype::subarray(&sizes, &subsizes, &starts, *order, &old.datatype()?)
            }
            Self::Darray(rank, dims, order, old) => {
                let gsizes: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
                let distributions: Vec<Distribution> = dims.iter().map(|dim| dim.1).collect();
                let psizes: Vec<u64> = dims.iter().map(|dim| dim.2).collect();
                Datatype::darray(*rank, &gsizes, &distributions, &psizes, *order, &old.datatype()?)
            }
            Self::Resized(lb, extent, old) => Datatype::resized(*lb, *extent, &old.datatype()?),
        }
    }

    /// The type map according to the definition.
    pub(crate) fn type_map(&self) -> TypeMap {
        let place = |old: &Tree, blocks: &mut dyn Iterator<Item = (u64, i64)>, in_extents: bool| {
            let old = old.type_map();
            let unit = if in_extents { old.extent() } else { 1 };
            let mut map = TypeMap::default();
            for (n, displacement) in blocks {
                for i in 0..n as i64 {
                    map.add(&old, displacement * unit + i * old.extent());
                }
            }
            map
        };
        match self {
            Self::Named(named) => {
                let elements = named.elements().filter(|element| element.1.bytes > 0);
                let elements = elements.map(|(at, prim)| (prim, at as i64)).collect();
                TypeMap { elements, explicit: None }
            }
            Self::Dup(old) => old.type_map(),
            Self::Contiguous(n, old) => place(old, &mut std::iter::once((*n, 0)), false),
            Self::Vector(n, block, stride, old) => {
                place(old, &mut (0..*n as i64).map(|i| (*block, i * stride)), true)
            }
            Self::Hvector(n, block, stride, old) => {
                place(old, &mut (0..*n as i64).map(|i| (*block, i * stride)), false)
            }
            Self::Indexed(blocks, old) => place(old, &mut blocks.iter().copied(), true),
            Self::Hindexed(blocks, old) => place(old, &mut blocks.iter().copied(), false),
            Self::IndexedBlock(block, at, old) => place(old, &mut at.iter().map(|at| (*block, *at)), true),
            Self::HindexedBlock(block, at, old) => place(old, &mut at.iter().map(|at| (*block, *at)), false),
            Self::Struct(fields) => {
                let mut map = TypeMap::default();
                for (n, at, old) in fields {
                    let old = old.type_map();
                    for i in 0..*n as i64 {
                        map.add(&old, at + i * old.extent());
                    }
                }
                map
            }
            Self::Subarray(dims, order, old) => {
                let sizes: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
                array_map(&sizes, *order, &old.type_map(), |dim, index| {
                    (dims[dim].2..dims[dim].2 + dims[dim].1).contains(&index)
                })
            }
            Self::Darray(rank, dims, order, old) => {
                let sizes: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
                let place = grid_place(*rank, dims);
                array_map(&sizes, *order, &old.type_map(), |dim, index| owner(index, dims[dim]) == place[dim])
            }
            Self::Resized(lb, extent, old) => {
                TypeMap { explicit: Some((*lb, lb + extent)), ..old.type_map() }
            }
        }
    }
}

/// The coordinates of a rank in the row-major process grid.
fn grid_place(rank: u64, dims: &[(u64, Distribution, u64)]) -> Vec<u64> {
    let mut volume: u64 = dims.iter().map(|dim| dim.2).product();
    let mut left = rank;
    dims.iter()
        .map(|dim| {
            volume /= dim.2;
            let place = left / volume;
            left %= volume;
            place
        })
        .collect()
}

/// The process that owns an index of a dimension.
fn owner(index: u64, (gsize, distribution, processes): (u64, Distribution, u64)) -> u64 {
    match distribution {
        Distribution::None => 0,
        Distribution::Block(block) => index / block.unwrap_or(gsize.div_ceil(processes)),
        Distribution::Cyclic(block) => index / block.unwrap_or(1) % processes,
    }
}

/// The chosen elements of a whole array, in the order of its memory.
fn array_map(
    sizes: &[u64],
    order: ArrayOrder,
    old: &TypeMap,
    chosen: impl Fn(usize, u64) -> bool,
) -> TypeMap {
    let elements: u64 = sizes.iter().product();
    let mut map = TypeMap::default();
    for element in 0..elements {
        let mut left = element;
        let mut inside = true;
        for i in 0..sizes.len() {
            let dim = if order == ArrayOrder::C { sizes.len() - 1 - i } else { i };
            inside &= chosen(dim, left % sizes[dim]);
            left /= sizes[dim];
        }
        if inside {
            map.add(old, element as i64 * old.extent());
        }
    }
    map.explicit = Some((0, elements as i64 * old.extent()));
    map
}

fn named() -> impl Strategy<Value = Named> {
    prop::sample::select(vec![
        Named::Byte,
        Named::Char,
        Named::Short,
        Named::Int,
        Named::Double,
        Named::CDoubleComplex,
        Named::ShortInt,
        Named::DoubleInt,
        Named::Opaque { bytes: 3 },
        Named::Opaque { bytes: 0 },
    ])
}

fn array_order() -> impl Strategy<Value = ArrayOrder> {
    prop_oneof![Just(ArrayOrder::C), Just(ArrayOrder::Fortran)]
}

fn part() -> impl Strategy<Value = (u64, u64, u64)> {
    (1..5_u64).prop_flat_map(|size| {
        (1..=size).prop_flat_map(move |subsize| (Just(size), Just(subsize), 0..=size - subsize))
    })
}

fn share() -> impl Strategy<Value = (u64, Distribution, u64)> {
    (1..6_u64, 1..4_u64, 0..5_u64).prop_map(|(gsize, processes, kind)| match kind {
        0 => (gsize, Distribution::None, 1),
        1 => (gsize, Distribution::Block(None), processes),
        2 => (gsize, Distribution::Block(Some(gsize.div_ceil(processes) + 1)), processes),
        3 => (gsize, Distribution::Cyclic(None), processes),
        _ => (gsize, Distribution::Cyclic(Some(2)), processes),
    })
}

/// Random trees of up to five levels of constructors.
pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    named().prop_map(Tree::Named).prop_recursive(4, 24, 3, |inner| {
        let old = || inner.clone().prop_map(Box::new);
        let blocks = |at: std::ops::Range<i64>| prop::collection::vec((0..4_u64, at), 0..5);
        let places = |at: std::ops::Range<i64>| prop::collection::vec(at, 0..5);
        prop_oneof![
            old().prop_map(Tree::Dup),
            (0..5_u64, old()).prop_map(|(n, old)| Tree::Contiguous(n, old)),
            (0..5_u64, 0..4_u64, -4..6_i64, old()).prop_map(|(n, b, s, old)| Tree::Vector(n, b, s, old)),
            (0..5_u64, 0..4_u64, -20..40_i64, old()).prop_map(|(n, b, s, old)| Tree::Hvector(n, b, s, old)),
            (blocks(-3..8), old()).prop_map(|(blocks, old)| Tree::Indexed(blocks, old)),
            (blocks(-20..60), old()).prop_map(|(blocks, old)| Tree::Hindexed(blocks, old)),
            (0..3_u64, places(-3..8), old()).prop_map(|(b, at, old)| Tree::IndexedBlock(b, at, old)),
            (0..3_u64, places(-20..60), old()).prop_map(|(b, at, old)| Tree::HindexedBlock(b, at, old)),
            prop::collection::vec((0..3_u64, -20..60_i64, inner.clone()), 0..4).prop_map(Tree::Struct),
            (prop::collection::vec(part(), 1..4), array_order(), old())
                .prop_map(|(dims, order, old)| Tree::Subarray(dims, order, old)),
            (prop::collection::vec(share(), 1..3), array_order(), old(), 0..100_u64).prop_map(
                |(dims, order, old, rank)| {
                    let processes: u64 = dims.iter().map(|dim| dim.2).product();
                    Tree::Darray(rank % processes, dims, order, old)
                }
            ),
            (-8..8_i64, -16..48_i64, old()).prop_map(|(lb, extent, old)| Tree::Resized(lb, extent, old)),
        ]
    })
}

/// Fast-growing trees without empty parts.
fn growing_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop::sample::select(vec![Named::Byte, Named::Short, Named::Int, Named::ShortInt]);
    leaf.prop_map(Tree::Named).prop_recursive(4, 12, 2, |inner| {
        let old = || inner.clone().prop_map(Box::new);
        let equal = |n: u64, at: Vec<i64>| at.into_iter().map(|at| (n, at)).collect::<Vec<_>>();
        let places = |at: std::ops::Range<i64>| prop::collection::vec(at, 2..8);
        prop_oneof![
            (2..4_u64, old()).prop_map(|(n, old)| Tree::Contiguous(n, old)),
            (2..9_u64, 1..3_u64, -3..5_i64, old()).prop_map(|(n, b, s, old)| Tree::Vector(n, b, s, old)),
            (2..9_u64, 1..3_u64, -9..90_i64, old()).prop_map(|(n, b, s, old)| Tree::Hvector(n, b, s, old)),
            (1..3_u64, places(0..30), old()).prop_map(move |(n, at, old)| Tree::Indexed(equal(n, at), old)),
            (prop::collection::vec((1..3_u64, 0..200_i64), 2..8), old())
                .prop_map(|(b, old)| Tree::Hindexed(b, old)),
            (places(0..400), old()).prop_map(|(mut at, old)| {
                at.sort_unstable();
                Tree::HindexedBlock(1, at, old)
            }),
            prop::collection::vec((1..3_u64, 0..300_i64, inner.clone()), 2..4).prop_map(Tree::Struct),
            (prop::collection::vec(part(), 1..3), array_order(), old())
                .prop_map(|(dims, order, old)| Tree::Subarray(dims, order, old)),
            (prop::collection::vec(share(), 1..3), array_order(), old())
                .prop_map(|(dims, order, old)| Tree::Darray(0, dims, order, old)),
            (0..4_i64, 1..60_i64, old()).prop_map(|(lb, extent, old)| Tree::Resized(lb, extent, old)),
        ]
    })
}

/// Long lists of elements: random dense lists, with runs of equal and of different lengths, and recurring
/// lists, with or without a rest that does not fill a period.
fn list_tree() -> impl Strategy<Value = Tree> {
    let element =
        || prop::sample::select(vec![Named::Short, Named::Int, Named::Double, Named::Opaque { bytes: 12 }]);
    let old = move || element().prop_map(|named| Box::new(Tree::Named(named)));
    let sums = |gaps: Vec<i64>| -> Vec<i64> {
        gaps.into_iter()
            .scan(0, |at, gap| {
                *at += gap;
                Some(*at)
            })
            .collect()
    };
    let dense = prop::collection::vec(2..5_i64, 66..150);
    let mixed = prop::collection::vec((1..3_u64, 1..4_i64), 66..150);
    let word = prop::collection::vec((1..3_u64, -3..9_i64), 2..9);
    let placed = |list: Vec<(u64, i64)>| -> Vec<(u64, i64)> {
        let mut at = 0;
        list.into_iter()
            .map(|(n, gap)| {
                at += gap;
                let here = (n, at);
                at += n as i64;
                here
            })
            .collect()
    };
    prop_oneof![
        (dense, old()).prop_map(move |(gaps, old)| Tree::IndexedBlock(1, sums(gaps), old)),
        (mixed, old()).prop_map(move |(list, old)| Tree::Indexed(placed(list), old)),
        (word, 40..90_usize, old()).prop_map(move |(word, n, old)| {
            Tree::Indexed(placed(word.into_iter().cycle().take(n).collect()), old)
        }),
    ]
}

/// The largest number of bytes that the oracle writes out, and the largest number of runs of trees with many
/// runs. Under Miri everything takes a thousand times as long, so the trees are smaller there, but lists
/// keep their usual length.
const BYTES_MAX: u64 = if cfg!(miri) { 2_500 } else { 20_000 };
const RUNS_MAX: usize = if cfg!(miri) { 200 } else { 1_500 };

/// Trees with more runs than the library writes out as a list.
pub(crate) fn tree_of_many_runs() -> impl Strategy<Value = Tree> {
    let trees = prop_oneof![
        4 => growing_tree(),
        2 => list_tree(),
        1 => (2..4_u64, 1500..3000_i64, list_tree()).prop_map(|(n, stride, old)| Tree::Hvector(n, 1, stride, Box::new(old))),
        1 => (list_tree(), 0..5000_i64, list_tree()).prop_map(|(one, at, other)| Tree::Struct(vec![(1, 0, one), (1, at, other)])),
    ];
    trees.prop_filter("the number of runs", |tree| {
        let many = bytes_at_most(tree) <= BYTES_MAX;
        many && (33..=RUNS_MAX).contains(&runs_of(&tree.type_map().bytes(1)).len())
    })
}

/// Trees of up to `bytes_max` bytes, or trees of many runs.
pub(crate) fn any_tree(bytes_max: usize) -> impl Strategy<Value = Tree> {
    prop_oneof![3 => tree_of_bytes(1, bytes_max), 2 => tree_of_many_runs()]
}

/// Trees whose stream has between `low` and `high` bytes.
pub(crate) fn tree_of_bytes(low: usize, high: usize) -> impl Strategy<Value = Tree> {
    tree().prop_filter("the size of the stream", move |tree| {
        bytes_at_most(tree) <= BYTES_MAX && (low..=high).contains(&tree.type_map().bytes(1).len())
    })
}

/// An upper bound of the bytes of a type map. It keeps the oracle from writing out a huge one.
fn bytes_at_most(tree: &Tree) -> u64 {
    match tree {
        Tree::Named(named) => named.size() + 1,
        Tree::Dup(old) | Tree::Resized(_, _, old) => bytes_at_most(old),
        Tree::Contiguous(n, old) => n * bytes_at_most(old),
        Tree::Vector(n, block, _, old) | Tree::Hvector(n, block, _, old) => n * block * bytes_at_most(old),
        Tree::Indexed(blocks, old) | Tree::Hindexed(blocks, old) => {
            blocks.iter().map(|block| block.0).sum::<u64>() * bytes_at_most(old)
        }
        Tree::IndexedBlock(block, at, old) | Tree::HindexedBlock(block, at, old) => {
            block * at.len() as u64 * bytes_at_most(old)
        }
        Tree::Struct(fields) => fields.iter().map(|(n, _, old)| n * bytes_at_most(old)).sum(),
        Tree::Subarray(dims, _, old) => dims.iter().map(|dim| dim.0).product::<u64>() * bytes_at_most(old),
        Tree::Darray(_, dims, _, old) => dims.iter().map(|dim| dim.0).product::<u64>() * bytes_at_most(old),
    }
}
