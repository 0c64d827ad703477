//! The offsets of the bytes of a type that came from an untrusted sender, by the definition of its
//! constructors (MPI 4.1, 5.1) and nothing else.

use capulet_datatype::{ArrayOrder, Combiner, Datatype, Distribution};

/// The offset of every byte of one instance, in stream order. `None` if there are more than `bytes_max`
/// bytes, or if listing them takes too long.
pub(crate) fn places(datatype: &Datatype, bytes_max: usize) -> Option<Vec<i64>> {
    let mut list = List { places: Vec::new(), bytes_max, steps: 0 };
    list.add(datatype, 0)?;
    Some(list.places)
}

struct List {
    places: Vec<i64>,
    bytes_max: usize,
    steps: u64,
}

impl List {
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps < 20_000 && self.places.len() <= self.bytes_max).then_some(())
    }

    /// Lists an instance at `origin`. Intermediate offsets may overflow; the offsets of bytes do not.
    fn add(&mut self, datatype: &Datatype, origin: i64) -> Option<()> {
        self.step()?;
        if datatype.size() == 0 {
            return Some(());
        }
        match datatype.combiner() {
            Combiner::Named(named) => {
                for (at, prim) in named.elements() {
                    let first = origin.wrapping_add(at as i64);
                    self.places.extend((0..i64::from(prim.bytes)).map(|byte| first.wrapping_add(byte)));
                    self.step()?;
                }
                Some(())
            }
            Combiner::Dup { old } | Combiner::Resized { old, .. } => self.add(old, origin),
            Combiner::Contiguous { count, old } => self.block(*count, old, origin),
            Combiner::Vector { count, blocklength, stride, old } => {
                self.row(*count, *blocklength, stride.wrapping_mul(old.extent()), old, origin)
            }
            Combiner::Hvector { count, blocklength, stride_bytes, old } => {
                self.row(*count, *blocklength, *stride_bytes, old, origin)
            }
            Combiner::Indexed { blocklengths, displacements, old } => {
                self.list(blocklengths.iter().zip(displacements.iter().copied()), old.extent(), old, origin)
            }
            Combiner::Hindexed { blocklengths, displacements_bytes, old } => {
                self.list(blocklengths.iter().zip(displacements_bytes.iter().copied()), 1, old, origin)
            }
            Combiner::IndexedBlock { blocklength, displacements, old } => {
                self.list(displacements.iter().map(|at| (*blocklength, *at)), old.extent(), old, origin)
            }
            Combiner::HindexedBlock { blocklength, displacements_bytes, old } => {
                self.list(displacements_bytes.iter().map(|at| (*blocklength, *at)), 1, old, origin)
            }
            Combiner::Struct { blocklengths, displacements_bytes, types } => {
                for ((count, at), old) in blocklengths.iter().zip(displacements_bytes).zip(types) {
                    self.block(*count, old, origin.wrapping_add(*at))?;
                }
                Some(())
            }
            Combiner::Subarray { sizes, subsizes, starts, order, old } => {
                let inside = |dim: usize, at: u64| at >= starts[dim] && at - starts[dim] < subsizes[dim];
                self.array(sizes, *order, old, origin, inside)
            }
            Combiner::Darray { rank, gsizes, distributions, psizes, order, old } => {
                let mut place = vec![0; psizes.len()];
                let mut left = *rank;
                for dim in (0..psizes.len()).rev() {
                    place[dim] = left % psizes[dim];
                    left /= psizes[dim];
                }
                let owner = |dim: usize, at: u64| match distributions[dim] {
                    Distribution::None => 0,
                    Distribution::Block(block) => at / block.unwrap_or(gsizes[dim].div_ceil(psizes[dim])),
                    Distribution::Cyclic(block) => at / block.unwrap_or(1) % psizes[dim],
                };
                self.array(gsizes, *order, old, origin, |dim, at| owner(dim, at) == place[dim])
            }
            other => panic!("the test does not know the combiner {}", other.name()),
        }
    }

    fn block(&mut self, count: u64, old: &Datatype, origin: i64) -> Option<()> {
        self.row(count, 1, old.extent(), old, origin)
    }

    fn row(&mut self, count: u64, blocklength: u64, stride: i64, old: &Datatype, origin: i64) -> Option<()> {
        for i in 0..count {
            self.step()?;
            for j in 0..blocklength {
                let at = stride.wrapping_mul(i as i64).wrapping_add(old.extent().wrapping_mul(j as i64));
                self.add(old, origin.wrapping_add(at))?;
            }
        }
        Some(())
    }

    fn list(
        &mut self,
        blocks: impl Iterator<Item = (u64, i64)>,
        unit: i64,
        old: &Datatype,
        origin: i64,
    ) -> Option<()> {
        for (count, at) in blocks {
            self.step()?;
            self.block(count, old, origin.wrapping_add(at.wrapping_mul(unit)))?;
        }
        Some(())
    }

    /// Lists the chosen elements of a whole array, in the order of its memory.
    fn array(
        &mut self,
        sizes: &[u64],
        order: ArrayOrder,
        old: &Datatype,
        origin: i64,
        chosen: impl Fn(usize, u64) -> bool,
    ) -> Option<()> {
        let elements = sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size))?;
        for element in 0..elements {
            self.step()?;
            let (mut left, mut inside) = (element, true);
            for i in 0..sizes.len() {
                let dim = if order == ArrayOrder::C { sizes.len() - 1 - i } else { i };
                inside &= chosen(dim, left % sizes[dim]);
                left /= sizes[dim];
            }
            if inside {
                self.add(old, origin.wrapping_add(old.extent().wrapping_mul(element as i64)))?;
            }
        }
        Some(())
    }
}
