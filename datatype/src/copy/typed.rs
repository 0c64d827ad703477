//! The typed copy: two tiled layouts, and the program between them.

use std::ptr;
use std::sync::{Arc, OnceLock};

use super::kernel;
use super::plan::{self, Plan};
use super::program::At;
use super::side::Side;
use super::step;
use crate::piece::Piece;
use crate::tiled::Tiled;

/// Copies between two tiled layouts (the *transpack template* of Mir and Traeff): byte `k` of the one stream is byte `k` of
/// the other. The streams may differ in length; bytes have no type here.
///
/// What is to be done is compiled at the first call, once per pair of layouts and thread, and kept by the copy: later calls
/// allocate nothing and take no lock. Any range takes the same fast path: consecutive calls over parts of a stream cost what
/// one call over all of it does, but for some nanoseconds per call.
///
/// # Overlap
/// The bytes that are read and those that are written must be apart. Bytes of the target may lie at one place
/// ([`Layout::has_overlap`](crate::Layout::has_overlap), or instances closer than they are long): they are written strictly
/// in stream order then, so that the last one stays. Bytes of the source may always lie at one place.
///
/// ```
/// use capulet_datatype::{Datatype, Named, Tiled, TypedCopy};
/// let short = Datatype::named(Named::Short);
/// let row = Datatype::vector(4, 1, 2, &short)?;
/// let source = [1_u16, 0, 2, 0, 3, 0, 4];
/// let mut target = [9_u16; 4];
/// let copy = TypedCopy::new(Tiled::new(row.layout().clone(), 1)?, Tiled::new(short.layout().clone(), 4)?);
/// // SAFETY: the types lie within the arrays, which are apart.
/// let bytes = unsafe { copy.run(source.as_ptr().cast(), 2, target.as_mut_ptr().cast(), 2, 4) };
/// assert_eq!((bytes, target), (4, [9, 2, 3, 9]));
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TypedCopy {
    source: Tiled,
    target: Tiled,
    /// Whether programs of this thread are found, and kept.
    is_kept: bool,
    route: OnceLock<Route>,
}

/// What the first call between two sides of several runs each finds out.
#[derive(Debug, Clone)]
struct Route {
    /// The phase of that call, and the plan for it.
    phase: u64,
    plan: Arc<Plan>,
    /// Whether bytes of the target may lie at one place.
    meets: bool,
}

impl TypedCopy {
    /// A copy from `source` to `target`.
    #[inline]
    pub fn new(source: Tiled, target: Tiled) -> Self {
        Self { source, target, is_kept: true, route: OnceLock::new() }
    }

    /// As [`TypedCopy::new`], with a program that is compiled for this copy at its first call even if the thread keeps one of
    /// the pair, and not kept by the thread: for a pair that is copied once among many, and to measure what a program costs.
    #[inline]
    pub fn fresh(source: Tiled, target: Tiled) -> Self {
        Self { source, target, is_kept: false, route: OnceLock::new() }
    }

    /// The layout that is read.
    pub fn source(&self) -> &Tiled {
        &self.source
    }

    /// The layout that is written.
    pub fn target(&self) -> &Tiled {
        &self.target
    }

    /// Copies `bytes` bytes from stream position `source_start` of the source to stream position `target_start` of the
    /// target, and returns how many that were: fewer only where a stream ends before. Offsets of each layout count from
    /// its base address; a null base with absolute addresses as offsets (`MPI_BOTTOM`) is allowed. Bytes of the target
    /// that lie outside of the range are not touched, not even to write them back.
    ///
    /// # Safety
    /// Every byte of the range must be readable at its place in the source and writable at its place in the target, and no
    /// byte that is read may be among those that are written. With a null base, the memory must have been exposed, as
    /// memory from C has.
    ///
    /// Bytes *between* those of the source may be read too, with vector loads, but only on pages that hold a byte of the
    /// range, so that no access faults which the range itself would not; what they hold is thrown away. Another thread may
    /// write to them meanwhile. Of the target, nothing but the bytes of the range is ever written or read.
    pub unsafe fn run(
        &self,
        source_base: *const u8,
        source_start: u64,
        target_base: *mut u8,
        target_start: u64,
        bytes: u64,
    ) -> u64 {
        let (Some(source), Some(target)) = (self.source.root(), self.target.root()) else { return 0 };
        let source_left = source.facts.size.saturating_sub(source_start);
        let bytes = bytes.min(source_left).min(target.facts.size.saturating_sub(target_start));
        if bytes == 0 {
            return 0;
        }
        // Offsets from null are addresses: take the provenance that their memory was exposed with.
        let at = At {
            source: if source_base.is_null() { ptr::with_exposed_provenance(0) } else { source_base },
            target: if target_base.is_null() { ptr::with_exposed_provenance_mut(0) } else { target_base },
        };
        let read = Part { tiled: &self.source, root: source, start: source_start };
        let write = Part { tiled: &self.target, root: target, start: target_start };
        // SAFETY: the caller's promise, for a range that both streams have. The bytes of a single run follow its base.
        unsafe {
            if target.as_block().is_some() {
                gather(at.by(0, target.base.wrapping_add(target_start as i64)), read, bytes);
            } else if source.as_block().is_some() {
                scatter(at.by(source.base.wrapping_add(source_start as i64), 0), write, bytes);
            } else {
                self.exchange(at, read, write, bytes);
            }
        }
        bytes
    }

    fn plan(&self, phase: u64) -> Arc<Plan> {
        let plan_of = if self.is_kept { plan::of_pair } else { plan::fresh };
        plan_of(&self.source, &self.target, phase)
    }

    /// Between two sides of several runs each.
    ///
    /// # Safety
    /// As [`TypedCopy::run`], for `bytes` that both streams have.
    unsafe fn exchange(&self, at: At, read: Part<'_>, write: Part<'_>, bytes: u64) {
        let meeting = Meeting::of(&read, &write);
        let route = self.route.get_or_init(|| Route {
            phase: meeting.phase,
            plan: self.plan(meeting.phase),
            meets: self.target.layout().kept().is_meeting(&self.target, write.root),
        });
        let other;
        let plan = if route.phase == meeting.phase {
            &route.plan
        } else {
            other = self.plan(meeting.phase);
            &other
        };
        // SAFETY: the caller's promise; the program is that of the phase, and is not used where bytes may meet.
        unsafe {
            match &plan.program {
                Some(program) if !route.meets => {
                    program.run(at.by(meeting.source, meeting.target), meeting.start, meeting.start + bytes);
                }
                _ => walk(at, read, write, bytes, route.meets),
            }
        }
    }
}

/// Between any two sides, without a program.
///
/// # Safety
/// As [`TypedCopy::run`], for `bytes` that both streams have; bytes of the target may lie at one place if it `meets`.
#[inline(never)]
unsafe fn walk(at: At, read: Part<'_>, write: Part<'_>, bytes: u64, meets: bool) {
    let from = (at.source, Side::new(read.root, read.start, bytes));
    let to = (at.target, Side::new(write.root, write.start, bytes));
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { if meets { step::in_order(from, to) } else { step::exchange(from, to) } }
}

/// The bytes of a side from some position of its stream on.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) tiled: &'a Tiled,
    pub(super) root: &'a Piece,
    pub(super) start: u64,
}

/// Where a program of two sides is to run so that the starts of both sides meet.
struct Meeting {
    /// The stream byte of the source that a program must bring to stream byte 0 of the target.
    phase: u64,
    /// How far each side is to be moved, in bytes.
    source: i64,
    target: i64,
    /// The position in the stream of the target, as moved.
    start: u64,
}

impl Meeting {
    #[inline]
    fn of(read: &Part<'_>, write: &Part<'_>) -> Self {
        if read.start == write.start {
            return Self { phase: 0, source: 0, target: 0, start: read.start };
        }
        Self::apart(read, write)
    }

    fn apart(read: &Part<'_>, write: &Part<'_>) -> Self {
        // Both are below i64::MAX.
        let ahead = read.start as i64 - write.start as i64;
        let (source, target) = (Period::of(read.tiled), Period::of(write.tiled));
        if ahead % target.unit == 0 && ahead % source.unit != 0 {
            // Whole periods of the target: as if it had begun later, or earlier.
            let moved = (-(ahead / target.unit)).wrapping_mul(target.stride);
            return Self { phase: 0, source: 0, target: moved, start: read.start };
        }
        let moved = ahead.div_euclid(source.unit).wrapping_mul(source.stride);
        Self { phase: ahead.rem_euclid(source.unit) as u64, source: moved, target: 0, start: write.start }
    }
}

/// After how many stream bytes a side repeats itself, and how far from there.
struct Period {
    unit: i64,
    stride: i64,
}

impl Period {
    fn of(tiled: &Tiled) -> Self {
        let layout = tiled.layout();
        let (unit, stride) = match layout.root().and_then(|root| root.dims.last()) {
            _ if plan::is_many(tiled) => (layout.size(), layout.extent()),
            Some(outermost) => (outermost.unit, outermost.stride),
            None => (layout.size(), 0),
        };
        Self { unit: unit.max(1) as i64, stride }
    }
}

/// Copies `bytes` bytes of a side to consecutive bytes, which begin at the target of `at`.
///
/// # Safety
/// The bytes must be readable at their places from the source of `at`, as many writable at its target, and the two apart.
#[inline]
pub(super) unsafe fn gather(at: At, from: Part<'_>, bytes: u64) {
    let Part { tiled, root, start } = from;
    // SAFETY: the caller's promise. A program counts both sides from byte 0 of the stream.
    unsafe {
        if root.as_block().is_some() {
            run(at.by(root.base.wrapping_add(start as i64), 0), bytes);
        } else if let Some(program) = &tiled.layout().kept().packing(tiled).program {
            program.run(at.by(0, (start as i64).wrapping_neg()), start, start + bytes);
        } else {
            step::gather(at, root, start, bytes);
        }
    }
}

/// Copies one run, by a call of the C library where that is as good.
///
/// # Safety
/// `bytes` bytes must be readable at the source of `at` and writable at its target, apart from each other.
#[inline]
unsafe fn run(at: At, bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes < kernel::LONG_RUN_BYTES {
            at.source.copy_to_nonoverlapping(at.target, bytes as usize);
        } else {
            kernel::run(at.source, at.target, bytes);
        }
    }
}

/// The reverse of [`gather`].
///
/// # Safety
/// As [`gather`], with the sides exchanged.
#[inline]
pub(super) unsafe fn scatter(at: At, to: Part<'_>, bytes: u64) {
    let Part { tiled, root, start } = to;
    // SAFETY: as in `gather`. Where bytes of the target may lie at one place, all go in order.
    unsafe {
        if root.as_block().is_some() {
            run(at.by(0, root.base.wrapping_add(start as i64)), bytes);
        } else if tiled.layout().kept().is_meeting(tiled, root) {
            let dense = Piece::block(0, bytes);
            walk(at, Part { root: &dense, start: 0, ..to }, to, bytes, true);
        } else if let Some(program) = &tiled.layout().kept().unpacking(tiled).program {
            program.run(at.by((start as i64).wrapping_neg(), 0), start, start + bytes);
        } else {
            step::scatter(at, root, start, bytes);
        }
    }
}
