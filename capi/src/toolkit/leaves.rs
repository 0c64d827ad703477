//! The leaf functions of the caller as a visitor of the datatype engine.
//!
//! The engine counts bytes. A leaf function counts elements of the type that it gets as an argument.

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

/// The reason why a visit ended before the end of its range.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A leaf function requested the end.
    Asked,
    /// A leaf function processed a part of its leaf, and must be called for the rest.
    Partly,
    /// A leaf function reported that it processed `done` of `of` elements, which is impossible.
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
    /// The kinds of elements that occurred so far.
    pub(super) elements: Elements,
    /// The block lengths of the current leaf, in elements.
    pub(super) lengths: Vec<Aint>,
}

/// The MPI type of each kind of element that occurred so far.
#[derive(Default)]
pub(super) struct Elements(Vec<(Prim, Element)>);

/// The type that a leaf function gets as an argument, and its size in bytes.
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
        // If this MPI has no type for the kind of element, the leaf function gets bytes.
        let element = match MpiType::of_element(prim) {
            Some(named) => Element { handle: named.handle(), bytes: prim.bytes as Aint },
            None => Element { handle: MpiType::byte().handle(), bytes: 1 },
        };
        self.0.push((prim, element));
        element
    }
}

impl Element {
    /// The number of elements in `bytes` bytes. The caller passes a multiple of the size of an element.
    fn count(self, bytes: u64) -> Aint {
        bytes as Aint / self.bytes
    }
}

/// The offset in the type of C. It fits: a stream has at most `i64::MAX` bytes, and the offsets are
/// addresses or displacements of the caller.
fn place(offset: i64) -> Aint {
    offset as Aint
}

/// The displacements in the type of C.
fn places(displacements: &[i64]) -> *const Aint {
    const { assert!(size_of::<i64>() == size_of::<Aint>() && align_of::<i64>() == align_of::<Aint>()) };
    displacements.as_ptr().cast::<Aint>()
}

/// The meaning of a return of a leaf function. The leaf has `total` elements of `bytes` bytes each. The
/// function has returned `code` and reported `done` elements.
fn flow(code: c_int, done: Aint, total: Aint, bytes: Aint) -> Flow<Ended> {
    if done < 0 || done > total {
        return Flow::Stop { bytes: 0, because: Ended::Nonsense { done, of: total } };
    }
    if code == 0 && done == total {
        return Flow::Continue;
    }
    // A function that processes nothing and does not stop ends the visit, because another call would not
    // end either.
    let because = if code != 0 || done == 0 { Ended::Asked } else { Ended::Partly };
    Flow::Stop { bytes: (done * bytes) as u64, because }
}

/// The default for a missing leaf function: calls the contig function for each run, until a call does not
/// continue.
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
        // SAFETY: capulet_types.h: `contig` is an MPIT_Contig_function of the caller. `done` lives during
        // the call.
        let code = unsafe { (self.contig)(&raw mut done, element.handle, at, self.base, self.parameters) };
        flow(code, done, total, element.bytes)
    }

    fn vector(&mut self, leaf: Vector) -> Flow<Ended> {
        let Some(function) = self.vector else { return run_by_run(self, leaf.runs()) };
        let element = self.elements.of(leaf.element);
        let (count, block) = (leaf.count as Aint, element.count(leaf.block_bytes));
        let (total, at, stride) = (count * block, place(leaf.offset), place(leaf.stride_bytes));
        let (mut done, handle) = (total, element.handle);
        // SAFETY: capulet_types.h: `function` is an MPIT_Vector_function of the caller. `done` lives during
        // the call.
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
        // SAFETY: capulet_types.h: `function` is an MPIT_Blkidx_function of the caller. `done` and the list
        // of `count` entries live during the call.
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
        // SAFETY: capulet_types.h: `function` is an MPIT_Index_function of the caller. `done` and both
        // lists of `count` entries live during the call.
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
    fn results_of_leaf_functions_are_checked() {
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
