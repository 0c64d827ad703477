//! The caller's leaf functions as a visitor of the datatype engine.
//!
//! The engine counts in bytes, leaf functions in elements of the type that they are told.

use std::ffi::{c_int, c_void};

use capulet_comm::MpiType;
use capulet_datatype::{BlockIndexed, Contig, Flow, Indexed, LeafVisitor, Prim, Vector};

use crate::abi::{Aint, MPI_Datatype};

/// `MPIT_Contig_function`
pub(super) type ContigFunction =
    unsafe extern "C" fn(*mut Aint, MPI_Datatype, Aint, *mut c_void, *mut c_void) -> c_int;
/// `MPIT_Vector_function`
pub(super) type VectorFunction =
    unsafe extern "C" fn(*mut Aint, Aint, Aint, Aint, MPI_Datatype, Aint, *mut c_void, *mut c_void) -> c_int;
/// `MPIT_Blkidx_function`
pub(super) type BlockIndexedFunction = unsafe extern "C" fn(
    *mut Aint,
    Aint,
    Aint,
    *const Aint,
    MPI_Datatype,
    Aint,
    *mut c_void,
    *mut c_void,
) -> c_int;
/// `MPIT_Index_function`
pub(super) type IndexedFunction = unsafe extern "C" fn(
    *mut Aint,
    Aint,
    *const Aint,
    *const Aint,
    MPI_Datatype,
    Aint,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// Why the visit of a segment ended before its range.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A leaf function asked for it.
    Asked,
    /// A leaf function did a part only, and is to be called for the rest.
    Partly,
    /// A leaf function said that it did so many elements of so many.
    Nonsense { done: Aint, of: Aint },
}

/// The functions of one call of `MPIT_Segment_manipulate`.
pub(super) struct Leaves {
    pub(super) contig: ContigFunction,
    pub(super) vector: Option<VectorFunction>,
    pub(super) block_indexed: Option<BlockIndexedFunction>,
    pub(super) indexed: Option<IndexedFunction>,
    /// The buffer of the segment.
    pub(super) base: *mut c_void,
    /// The caller's parameters.
    pub(super) parameters: *mut c_void,
    /// The kinds of elements met so far.
    pub(super) elements: Elements,
    /// Block lengths in elements, for the leaf at hand.
    pub(super) lengths: Vec<Aint>,
}

/// The MPI types of kinds of elements.
#[derive(Default)]
pub(super) struct Elements(Vec<(Prim, Element)>);

/// The type that a leaf function is told, and its bytes.
#[derive(Clone, Copy)]
pub(super) struct Element {
    pub(super) handle: MPI_Datatype,
    pub(super) bytes: Aint,
}

impl Elements {
    pub(super) fn of(&mut self, prim: Prim) -> Element {
        if let Some((_, known)) = self.0.iter().find(|(other, _)| *other == prim) {
            return *known;
        }
        // What this MPI has no type for is bytes.
        let element = match MpiType::of_element(prim) {
            Some(named) => Element { handle: named.handle(), bytes: prim.bytes as Aint },
            None => Element { handle: MpiType::byte().handle(), bytes: 1 },
        };
        self.0.push((prim, element));
        element
    }
}

impl Element {
    /// Elements in so many bytes, which are whole elements.
    fn count(self, bytes: u64) -> Aint {
        bytes as Aint / self.bytes
    }
}

/// A stream has at most `i64::MAX` bytes, and offsets are the caller's addresses or displacements: both fit.
fn place(offset: i64) -> Aint {
    offset as Aint
}

/// Displacements as C knows them.
fn places(displacements: &[i64]) -> *const Aint {
    const { assert!(size_of::<i64>() == size_of::<Aint>() && align_of::<i64>() == align_of::<Aint>()) };
    displacements.as_ptr().cast::<Aint>()
}

/// What a leaf function of `total` elements of `bytes` bytes means that returned `code` and left `done`.
fn flow(code: c_int, done: Aint, total: Aint, bytes: Aint) -> Flow<Ended> {
    if done < 0 || done > total {
        return Flow::Stop { bytes: 0, because: Ended::Nonsense { done, of: total } };
    }
    if code == 0 && done == total {
        return Flow::Continue;
    }
    // Nothing done, and no wish to stop: going on would never end.
    let because = if code != 0 || done == 0 { Ended::Asked } else { Ended::Partly };
    Flow::Stop { bytes: (done * bytes) as u64, because }
}

/// The default of each leaf function: run by run, up to the first that does not go on.
fn run_by_run(leaves: &mut Leaves, runs: impl Iterator<Item = Contig>) -> Flow<Ended> {
    let mut before = 0;
    for run in runs {
        if let Flow::Stop { bytes, because } = leaves.contig(run) {
            return Flow::Stop { bytes: before + bytes, because };
        }
        before += run.bytes;
    }
    Flow::Continue
}

impl LeafVisitor for Leaves {
    type Break = Ended;

    fn contig(&mut self, leaf: Contig) -> Flow<Ended> {
        let element = self.elements.of(leaf.element);
        let total = element.count(leaf.bytes);
        let mut done = total;
        let at = place(leaf.offset);
        // SAFETY: the caller's function, called as the header says.
        let code = unsafe { (self.contig)(&raw mut done, element.handle, at, self.base, self.parameters) };
        flow(code, done, total, element.bytes)
    }

    fn vector(&mut self, leaf: Vector) -> Flow<Ended> {
        let Some(function) = self.vector else { return run_by_run(self, leaf.runs()) };
        let element = self.elements.of(leaf.element);
        let (count, block) = (leaf.count as Aint, element.count(leaf.block_bytes));
        let (total, at, stride) = (count * block, place(leaf.offset), place(leaf.stride_bytes));
        let (mut done, handle) = (total, element.handle);
        // SAFETY: the caller's function, called as the header says.
        let code =
            unsafe { function(&raw mut done, count, block, stride, handle, at, self.base, self.parameters) };
        flow(code, done, total, element.bytes)
    }

    fn block_indexed(&mut self, leaf: BlockIndexed<'_>) -> Flow<Ended> {
        let Some(function) = self.block_indexed else { return run_by_run(self, leaf.runs()) };
        let element = self.elements.of(leaf.element);
        let (count, block) = (leaf.displacements.len() as Aint, element.count(leaf.block_bytes));
        let (total, at, offsets) = (count * block, place(leaf.origin), places(leaf.displacements));
        let (mut done, handle) = (total, element.handle);
        // SAFETY: the caller's function, called as the header says; the list has `count` entries.
        let code =
            unsafe { function(&raw mut done, count, block, offsets, handle, at, self.base, self.parameters) };
        flow(code, done, total, element.bytes)
    }

    fn indexed(&mut self, leaf: Indexed<'_>) -> Flow<Ended> {
        let Some(function) = self.indexed else { return run_by_run(self, leaf.runs()) };
        let element = self.elements.of(leaf.element);
        let count = leaf.displacements.len() as Aint;
        self.lengths.clear();
        self.lengths.extend(leaf.lengths.iter().map(|bytes| element.count(*bytes)));
        let (total, at, offsets) =
            (element.count(leaf.bytes()), place(leaf.origin), places(leaf.displacements));
        let (mut done, handle, lengths) = (total, element.handle, self.lengths.as_ptr());
        // SAFETY: the caller's function, called as the header says; both lists have `count` entries.
        let code = unsafe {
            function(&raw mut done, count, lengths, offsets, handle, at, self.base, self.parameters)
        };
        flow(code, done, total, element.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leaf_function_says_is_checked() {
        assert_eq!(flow(0, 5, 5, 8), Flow::Continue);
        assert_eq!(flow(1, 5, 5, 8), Flow::Stop { bytes: 40, because: Ended::Asked });
        assert_eq!(flow(0, 2, 5, 8), Flow::Stop { bytes: 16, because: Ended::Partly });
        assert_eq!(flow(0, 0, 5, 8), Flow::Stop { bytes: 0, because: Ended::Asked });
        for done in [-1, 6, Aint::MIN, Aint::MAX] {
            let because = Ended::Nonsense { done, of: 5 };
            assert_eq!(flow(0, done, 5, 8), Flow::Stop { bytes: 0, because });
        }
    }
}
