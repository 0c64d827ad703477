//! Whether a filetype consists of whole etypes (MPI 4.1, section 14.1.1).

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::named::PrimKind;
use crate::tiled::Tiled;
use crate::tree::{Combiner, Datatype};

/// A type of at most this many etypes is compared etype by etype if no quicker test decides.
const LISTED_ETYPES: u64 = 4096;

impl Datatype {
    /// Whether this type consists of whole instances of `etype`, as a filetype must. Two conditions hold
    /// then: its signature repeats the signature of the etype, and its bytes lie as whole etypes at
    /// distances that are multiples of the etype's extent, holes and extent included. An etype of bytes
    /// fits every signature.
    ///
    /// The decision takes symbolic time, never time per run. An etype with holes is searched in the
    /// constructors of this type, or compared etype by etype if there are at most 4,096 of them. A larger
    /// type that imitates such an etype from other parts is refused.
    pub fn is_tiling_of(&self, etype: &Self) -> bool {
        self.repeats_signature_of(etype) && self.lies_as_whole(etype)
    }

    /// Whether the basic elements of this type are a whole number of repetitions of the elements of
    /// `etype`. Elements of [`PrimKind::Byte`] match any bytes. O(log n).
    pub fn repeats_signature_of(&self, etype: &Self) -> bool {
        if self.size() == 0 {
            return true;
        }
        let (size, etype_size) = (self.size(), etype.size());
        if etype_size == 0 || size % etype_size != 0 {
            return false;
        }
        is_bytes(etype) || is_bytes(self) || self.signature().repetitions_of(etype.signature()).is_some()
    }

    /// The geometric part of [`Datatype::is_tiling_of`]: whether this type consists of whole etypes at
    /// multiples of the etype's extent.
    pub fn lies_as_whole(&self, etype: &Self) -> bool {
        let extent = etype.extent();
        let (Some(root), Some(unit)) = (self.layout().root(), etype.layout().root()) else {
            return self.size() == 0;
        };
        if extent <= 0 || self.extent() % extent != 0 || self.lb() % extent != 0 {
            return false;
        }
        if etype.layout().is_dense() && unit.base == 0 && root.granule().is_multiple_of(extent as u64) {
            return true;
        }
        self.is_constructed_from(etype, 0, &mut HashSet::new()) || self.holds_etypes(etype)
    }

    /// Searches the constructors of this type for the etype. The arguments of each constructor must be
    /// multiples of the etype's extent. `found` holds the addresses of nodes that consist of etypes: nodes
    /// are shared, and each node is searched once.
    fn is_constructed_from(&self, etype: &Self, nesting: u32, found: &mut HashSet<usize>) -> bool {
        let address = Arc::as_ptr(&self.0).addr();
        if self.size() == 0 || found.contains(&address) {
            return true;
        }
        let constructed = self.is_equivalent(etype) || self.is_over(etype, nesting, found);
        if constructed {
            found.insert(address);
        }
        constructed
    }

    fn is_over(&self, etype: &Self, nesting: u32, found: &mut HashSet<usize>) -> bool {
        let extent = etype.extent();
        let whole = |bytes: i64| bytes % extent == 0;
        let mut inside = |old: &Self| {
            nesting < 16
                && (old.size() == 0 || whole(old.extent()))
                && old.is_constructed_from(etype, nesting + 1, found)
        };
        match self.combiner() {
            Combiner::Named(_) => false,
            Combiner::Dup { old }
            | Combiner::Contiguous { old, .. }
            | Combiner::Vector { old, .. }
            | Combiner::Indexed { old, .. }
            | Combiner::IndexedBlock { old, .. }
            | Combiner::Subarray { old, .. }
            | Combiner::Darray { old, .. } => inside(old),
            // The new extent replaces the extent of `old`, so only the new extent matters, and only to the
            // constructor above.
            Combiner::Resized { old, .. } => {
                nesting < 16 && old.is_constructed_from(etype, nesting + 1, found)
            }
            Combiner::Hvector { stride_bytes, old, .. } => whole(*stride_bytes) && inside(old),
            Combiner::Hindexed { displacements_bytes, old, .. }
            | Combiner::HindexedBlock { displacements_bytes, old, .. } => {
                displacements_bytes.iter().copied().all(whole) && inside(old)
            }
            Combiner::Struct { blocklengths, displacements_bytes, types } => {
                let mut fields = blocklengths.iter().zip(displacements_bytes).zip(types);
                fields.all(|((&n, &at), old)| n == 0 || old.size() == 0 || (whole(at) && inside(old)))
            }
        }
    }

    /// Compares the type with the etype, one etype at a time. False if there are too many of them.
    fn holds_etypes(&self, etype: &Self) -> bool {
        let etypes = self.size() / etype.size().max(1);
        if etypes > LISTED_ETYPES || etype.layout().block_count() > LISTED_ETYPES {
            return false;
        }
        let (Ok(mine), Ok(unit)) =
            (Tiled::new(self.layout().clone(), 1), Tiled::new(etype.layout().clone(), 1))
        else {
            return false;
        };
        let mut cursor = Cursor::new(mine);
        for _ in 0..etypes {
            let Some(first) = cursor.peek() else { return false };
            let origin = i128::from(first.offset) - i128::from(unit.offset_of(0));
            if origin % i128::from(etype.extent()) != 0 {
                return false;
            }
            let flow =
                Cursor::new(unit.clone()).for_each_run(u64::MAX, |run| match cursor.next_run(run.len) {
                    Some(found)
                        if found.len == run.len
                            && i128::from(found.offset) == origin + i128::from(run.offset) =>
                    {
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Break(()),
                });
            if flow.is_break() {
                return false;
            }
        }
        true
    }
}

/// Whether all elements of the type are uninterpreted bytes.
fn is_bytes(datatype: &Datatype) -> bool {
    let mut bytes_only = true;
    let mut runs = 0;
    let _ = datatype.signature().for_each_run(|prim, _| {
        runs += 1;
        bytes_only &= prim.kind == PrimKind::Byte;
        if bytes_only && runs < 64 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    bytes_only
}
