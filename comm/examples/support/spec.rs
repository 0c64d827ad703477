//! Random datatypes in a neutral description, from which both MPI and `capulet-datatype` can build them.

use capulet_datatype::{ArrayOrder, Datatype, Distribution, Named, TypeError};

use crate::support::Random;

/// One constructor with its arguments.
#[derive(Debug, Clone)]
pub(crate) enum Spec {
    Named(Named),
    Dup(Box<Spec>),
    Contiguous(u64, Box<Spec>),
    Vector(u64, u64, i64, Box<Spec>),
    Hvector(u64, u64, i64, Box<Spec>),
    Indexed(Vec<u64>, Vec<i64>, Box<Spec>),
    Hindexed(Vec<u64>, Vec<i64>, Box<Spec>),
    IndexedBlock(u64, Vec<i64>, Box<Spec>),
    HindexedBlock(u64, Vec<i64>, Box<Spec>),
    Struct(Vec<u64>, Vec<i64>, Vec<Spec>),
    Subarray(Vec<u64>, Vec<u64>, Vec<u64>, ArrayOrder, Box<Spec>),
    Darray(Darray, Box<Spec>),
    Resized(i64, i64, Box<Spec>),
}

#[derive(Debug, Clone)]
pub(crate) struct Darray {
    pub(crate) rank: u64,
    pub(crate) gsizes: Vec<u64>,
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) psizes: Vec<u64>,
    pub(crate) order: ArrayOrder,
}

/// Predefined types of every size and shape. `MPI_LONG_DOUBLE` is missing, because MPICH packs ten of its
/// sixteen bytes.
pub(crate) const NAMED: [Named; 15] = [
    Named::Char,
    Named::Byte,
    Named::Short,
    Named::Int,
    Named::Long,
    Named::Float,
    Named::Double,
    Named::Int16,
    Named::Uint64,
    Named::CDoubleComplex,
    Named::DoubleInt,
    Named::ShortInt,
    Named::LongInt,
    Named::FloatInt,
    Named::TwoInt,
];

/// All displacements in bytes are multiples of this number. With 16 every element is aligned.
type Grain = i64;

impl Spec {
    /// A random type of at most `depth` nested constructors.
    pub(crate) fn random(random: &mut Random, depth: u32, grain: Grain) -> Spec {
        if depth == 0 || random.below(12) == 0 {
            return Spec::Named(NAMED[random.below(NAMED.len() as u64) as usize]);
        }
        let kind = random.below(12);
        let bytes = |random: &mut Random, low, high| grain * within(random, low / grain, high / grain);
        if kind == 0 {
            return Self::random_struct(random, depth, grain);
        }
        let old = Box::new(Self::random(random, depth - 1, grain));
        match kind {
            1 => Spec::Dup(old),
            2 => Spec::Contiguous(random.below(5), old),
            3 => Spec::Vector(random.below(5), random.below(4), within(random, -4, 7), old),
            4 => Spec::Hvector(random.below(5), random.below(4), bytes(random, -70, 120), old),
            5 => Spec::Indexed(lengths(random, 4), within_each(random, 4, -5, 9), old),
            6 => Spec::Hindexed(lengths(random, 4), (0..4).map(|_| bytes(random, -70, 150)).collect(), old),
            7 => Spec::IndexedBlock(random.below(4), within_each(random, 3, -5, 9), old),
            8 => Spec::HindexedBlock(random.below(4), (0..3).map(|_| bytes(random, -70, 150)).collect(), old),
            9 => Self::random_subarray(random, old),
            10 => Spec::Darray(Darray::random(random), old),
            _ => Spec::Resized(bytes(random, -20, 20), bytes(random, 0, 100), old),
        }
    }

    fn random_struct(random: &mut Random, depth: u32, grain: Grain) -> Spec {
        let fields = random.below(4) as usize;
        let types = (0..fields).map(|_| Self::random(random, depth - 1, grain)).collect();
        let displacements = (0..fields).map(|_| grain * within(random, -60 / grain, 200 / grain)).collect();
        Spec::Struct((0..fields).map(|_| random.below(3)).collect(), displacements, types)
    }

    fn random_subarray(random: &mut Random, old: Box<Spec>) -> Spec {
        let dims = 1 + random.below(3) as usize;
        let sizes: Vec<u64> = (0..dims).map(|_| 1 + random.below(5)).collect();
        let subsizes: Vec<u64> = sizes.iter().map(|size| 1 + random.below(*size)).collect();
        let starts = sizes.iter().zip(&subsizes).map(|(size, sub)| random.below(size - sub + 1)).collect();
        Spec::Subarray(sizes, subsizes, starts, order(random), old)
    }

    /// The type, built by the constructors of `capulet-datatype`.
    pub(crate) fn native(&self) -> Result<Datatype, TypeError> {
        match self {
            Spec::Named(named) => Ok(Datatype::named(*named)),
            Spec::Dup(old) => Datatype::dup(&old.native()?),
            Spec::Contiguous(count, old) => Datatype::contiguous(*count, &old.native()?),
            Spec::Vector(count, length, stride, old) => {
                Datatype::vector(*count, *length, *stride, &old.native()?)
            }
            Spec::Hvector(count, length, stride, old) => {
                Datatype::hvector(*count, *length, *stride, &old.native()?)
            }
            Spec::Indexed(lengths, at, old) => Datatype::indexed(lengths, at, &old.native()?),
            Spec::Hindexed(lengths, at, old) => Datatype::hindexed(lengths, at, &old.native()?),
            Spec::IndexedBlock(length, at, old) => Datatype::indexed_block(*length, at, &old.native()?),
            Spec::HindexedBlock(length, at, old) => Datatype::hindexed_block(*length, at, &old.native()?),
            Spec::Struct(lengths, at, types) => {
                let types = types.iter().map(Spec::native).collect::<Result<Vec<_>, _>>()?;
                Datatype::structure(lengths, at, &types)
            }
            Spec::Subarray(sizes, subsizes, starts, order, old) => {
                Datatype::subarray(sizes, subsizes, starts, *order, &old.native()?)
            }
            Spec::Darray(array, old) => {
                let Darray { rank, gsizes, distributions, psizes, order } = array;
                Datatype::darray(*rank, gsizes, distributions, psizes, *order, &old.native()?)
            }
            Spec::Resized(lb, extent, old) => Datatype::resized(*lb, *extent, &old.native()?),
        }
    }

    /// Whether the type or any of its parts has no data. MPI libraries report different bounds for such
    /// types, and so for the types that are built from them.
    pub(crate) fn has_part_without_data(&self) -> bool {
        let empty_here = match self.native() {
            Ok(datatype) => datatype.size() == 0,
            Err(_) => true,
        };
        empty_here || self.parts().into_iter().any(Spec::has_part_without_data)
    }

    /// Whether a struct has a part with explicit bounds. MPICH then computes the bounds of the struct from
    /// the other parts, too. MPI-4.0 section 5.1.7 does not.
    pub(crate) fn has_mixed_bounds(&self) -> bool {
        let here = matches!(self, Spec::Struct(..)) && self.has_explicit_bounds();
        here || self.parts().into_iter().any(Spec::has_mixed_bounds)
    }

    /// Whether a struct begins at an address that is not aligned. MPI libraries pad the parts of such a
    /// struct, and then the whole struct. MPI-4.0 section 5.1 pads once.
    pub(crate) fn has_struct_at_odd_address(&self) -> bool {
        let is_odd = |datatype: Datatype| datatype.lb() % 16 != 0;
        let here = matches!(self, Spec::Struct(..)) && self.native().is_ok_and(is_odd);
        here || self.parts().into_iter().any(Spec::has_struct_at_odd_address)
    }

    /// Whether the stride between blocks is minus one byte. Open MPI 4.1 then places the blocks
    /// contiguously at ascending addresses.
    pub(crate) fn has_stride_of_minus_one_byte(&self) -> bool {
        let here = match self {
            Spec::Vector(_, _, -1, old) => old.native().is_ok_and(|old| old.extent() == 1),
            Spec::Hvector(_, _, stride, _) => *stride == -1,
            _ => false,
        };
        here || self.parts().into_iter().any(Spec::has_stride_of_minus_one_byte)
    }

    fn has_explicit_bounds(&self) -> bool {
        matches!(self, Spec::Resized(..) | Spec::Subarray(..) | Spec::Darray(..))
            || self.parts().into_iter().any(Spec::has_explicit_bounds)
    }

    pub(crate) fn has_darray(&self) -> bool {
        matches!(self, Spec::Darray(..)) || self.parts().into_iter().any(Spec::has_darray)
    }

    fn parts(&self) -> Vec<&Spec> {
        match self {
            Spec::Named(_) => Vec::new(),
            Spec::Struct(_, _, types) => types.iter().collect(),
            Spec::Dup(old)
            | Spec::Contiguous(_, old)
            | Spec::Vector(_, _, _, old)
            | Spec::Hvector(_, _, _, old)
            | Spec::Indexed(_, _, old)
            | Spec::Hindexed(_, _, old)
            | Spec::IndexedBlock(_, _, old)
            | Spec::HindexedBlock(_, _, old)
            | Spec::Subarray(_, _, _, _, old)
            | Spec::Darray(_, old)
            | Spec::Resized(_, _, old) => vec![old],
        }
    }
}

impl Darray {
    fn random(random: &mut Random) -> Darray {
        let dims = 1 + random.below(3) as usize;
        let (mut gsizes, mut psizes, mut distributions) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..dims {
            let gsize = 1 + random.below(8);
            let processes = 1 + random.below(3);
            let (distribution, processes) = match random.below(5) {
                0 => (Distribution::None, 1),
                1 => (Distribution::Block(None), processes),
                2 => (Distribution::Block(Some(gsize.div_ceil(processes) + random.below(2))), processes),
                3 => (Distribution::Cyclic(None), processes),
                _ => (Distribution::Cyclic(Some(1 + random.below(3))), processes),
            };
            gsizes.push(gsize);
            psizes.push(processes);
            distributions.push(distribution);
        }
        let rank = random.below(psizes.iter().product());
        Darray { rank, gsizes, distributions, psizes, order: order(random) }
    }
}

fn within(random: &mut Random, low: i64, high: i64) -> i64 {
    low + random.below((high - low) as u64 + 1) as i64
}

fn lengths(random: &mut Random, count: usize) -> Vec<u64> {
    (0..count).map(|_| random.below(4)).collect()
}

fn within_each(random: &mut Random, count: usize, low: i64, high: i64) -> Vec<i64> {
    (0..count).map(|_| within(random, low, high)).collect()
}

fn order(random: &mut Random) -> ArrayOrder {
    if random.below(2) == 0 { ArrayOrder::C } else { ArrayOrder::Fortran }
}
