//! Lists the runs of a repeated simple leaf. A walker does the same for any piece, but setting up a
//! walker would take longer than listing the few runs of a template.

use crate::lists::{Displacements, Runs};
use crate::piece::{Dim, Leaf, Piece};

/// Pieces of more dimensions are left to walkers.
const DIMS_MAX: usize = 4;

/// An endless list of runs: the outermost dimension repeats without end.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    entries: Entries<'a>,
    /// The entry of the leaf that holds the current run, and the number of entries.
    entry: usize,
    count: usize,
    /// Offset of the current repetition of the leaf.
    origin: i64,
    /// Innermost first.
    dims: &'a [Dim],
    /// Position in each dimension, innermost first.
    places: [u64; DIMS_MAX],
    /// The offset of the rest of the current run, and the number of bytes in it, which is never 0.
    at: i64,
    left: u64,
}

/// The runs of one leaf.
#[derive(Debug, Clone, Copy)]
enum Entries<'a> {
    Block(u64),
    Equal(Displacements<'a>, u64),
    Runs(Runs<'a>),
}

impl<'a> Listing<'a> {
    /// Turns this list, which must be fresh from [`Listing::consecutive`], into the runs of the leaf of
    /// `piece`, repeated by `dims`, of which the last has no end. Returns `false` and changes nothing
    /// for pieces that are left to walkers: nesting leaves, bitmaps, and more than [`DIMS_MAX`]
    /// dimensions. Fills the list in place, because moving it would take as long as filling it.
    pub(super) fn set(&mut self, piece: &'a Piece, dims: &'a [Dim]) -> bool {
        if dims.len() > DIMS_MAX {
            return false;
        }
        (self.entries, self.count) = match &piece.leaf {
            Leaf::Block(bytes) => (Entries::Block(*bytes), 1),
            Leaf::Index(index) => {
                let displacements = index.displacements.as_slice();
                let Some(bytes) = index.body.as_block() else { return false };
                (Entries::Equal(displacements, bytes), displacements.len())
            }
            Leaf::VarIndex(index) => {
                let runs = index.runs.as_slice();
                (Entries::Runs(runs), runs.len())
            }
            Leaf::Bitmap(_) | Leaf::Sequence(_) => return false,
        };
        let (at, left) = self.entries.get(0);
        (self.origin, self.at, self.left) = (piece.base, piece.base.wrapping_add(at), left);
        self.dims = dims;
        true
    }

    /// A single run of consecutive bytes from `base` on, long enough for any range.
    pub(super) fn consecutive(base: i64) -> Self {
        let left = i64::MAX as u64;
        let entries = Entries::Block(left);
        Self { entries, entry: 0, count: 1, origin: base, dims: &[], places: [0; DIMS_MAX], at: base, left }
    }

    /// The offset of the next bytes, and the number of consecutive bytes there.
    #[inline]
    pub(super) fn run(&self) -> (i64, u64) {
        (self.at, self.left)
    }

    /// Consumes `bytes` bytes of the current run, at most all of it.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64) {
        if bytes < self.left {
            self.at = self.at.wrapping_add(bytes as i64);
            self.left -= bytes;
            return;
        }
        self.entry += 1;
        if self.entry == self.count {
            self.entry = 0;
            self.turn();
        }
        let (at, left) = self.entries.get(self.entry);
        (self.at, self.left) = (self.origin.wrapping_add(at), left);
    }

    /// Goes on to the next repetition of the leaf.
    #[inline]
    fn turn(&mut self) {
        let (last, inner) = (self.dims.len().saturating_sub(1), self.dims);
        for (level, (place, dim)) in self.places.iter_mut().zip(inner).enumerate() {
            *place += 1;
            if *place < dim.n || level == last {
                self.origin = self.origin.wrapping_add(dim.stride);
                return;
            }
            *place = 0;
            self.origin = self.origin.wrapping_sub(dim.stride.wrapping_mul(dim.n as i64 - 1));
        }
    }
}

impl Entries<'_> {
    #[inline]
    fn get(&self, entry: usize) -> (i64, u64) {
        match *self {
            Self::Block(bytes) => (0, bytes),
            Self::Equal(displacements, bytes) => (displacements.get(entry), bytes),
            Self::Runs(runs) => runs.get(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::template::Template;
    use super::Listing;
    use crate::error::Result;
    use crate::named::Named;
    use crate::tiled::Tiled;
    use crate::tree::Datatype;

    /// Types whose leaves can be listed, of up to three dimensions with strides of any sign.
    fn types() -> impl Strategy<Value = Tiled> {
        let runs = prop::collection::vec((1..4_u64, 0..3_i64), 1..9);
        let equal = prop::collection::vec(-20..20_i64, 1..9);
        let leaf = prop_oneof![
            (1..5_u64).prop_map(|n| Datatype::contiguous(n, &Datatype::named(Named::Short))),
            runs.prop_map(|runs| {
                let mut end = 0;
                let at = |(length, gap): &(u64, i64)| {
                    let at = end + gap;
                    end = at + *length as i64;
                    at
                };
                let (places, lengths): (Vec<i64>, Vec<u64>) =
                    (runs.iter().map(at).collect(), runs.iter().map(|run| run.0).collect());
                Datatype::indexed(&lengths, &places, &Datatype::named(Named::Short))
            }),
            equal.prop_map(|places| Datatype::hindexed_block(1, &places, &Datatype::named(Named::Short))),
        ];
        let vector = (1..5_u64, 1..3_u64, -9..9_i64);
        (leaf, vector, 1..4_u64).prop_filter_map("an invalid type", |(leaf, (n, block, stride), count)| {
            let tiled = |leaf: Datatype| -> Result<Tiled> {
                Tiled::new(Datatype::vector(n, block, stride, &leaf)?.layout().clone(), count)
            };
            leaf.and_then(tiled).ok()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: if cfg!(miri) { 8 } else { ProptestConfig::default().cases.max(500) }, ..ProptestConfig::default() })]

        #[test]
        fn lists_give_the_same_moves_as_walkers(source in types(), target in types()) {
            let (Some(from), Some(to)) = (source.root(), target.root()) else { return Ok(()) };
            let bytes = from.facts.size.min(to.facts.size);
            let walked = Template::new((from, 0), to, bytes).expect("there are few moves");
            let (mut read, mut write) = (Listing::consecutive(0), Listing::consecutive(0));
            // Pieces with nesting leaves cannot be listed.
            if !read.set(from, &from.dims) || !write.set(to, &to.dims) {
                return Ok(());
            }
            let merged = Template::merged(&mut read, &mut write, bytes).expect("there are few moves");
            prop_assert_eq!(merged.moves(), walked.moves());
        }
    }
}
