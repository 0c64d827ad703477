//! The typed copy: two tiled layouts and the program between them.

use std::ptr;
use std::sync::{Arc, OnceLock};

use super::address::At;
use super::kept::Plan;
use super::kernel;
use super::plan;
use super::side::Side;
use super::step;
use crate::piece::Piece;
use crate::tiled::Tiled;

/// Copies between two tiled layouts (the *transpack template* of Mir and Traeff): byte `k` of one stream
/// is copied to byte `k` of the other. The streams may differ in length. Bytes have no type here.
///
/// The first call compiles a program, once per pair of layouts and thread, and the copy keeps it. Later
/// calls allocate nothing and take no lock. (Exception: if the distance between the two start positions
/// of a later call needs another phase, that is another alignment of the source to the period of the
/// target, the call looks up or compiles a program for that phase.) All ranges take the same fast path:
/// consecutive calls over parts of a stream cost as much as one call over the whole stream, plus some
/// nanoseconds per call.
///
/// # Overlap
/// The bytes that are read and the bytes that are written must not overlap. Several bytes of the target
/// may lie at one place ([`Layout::has_overlap`](crate::Layout::has_overlap), or an extent smaller than
/// the span of one instance). In this case the bytes are written strictly in stream order, so that the
/// last one remains. Several bytes of the source may always lie at one place.
///
/// ```
/// use capulet_datatype::{Datatype, Named, Tiled, TypedCopy};
/// let short = Datatype::named(Named::Short);
/// let row = Datatype::vector(4, 1, 2, &short)?;
/// let source = [1_u16, 0, 2, 0, 3, 0, 4];
/// let mut target = [9_u16; 4];
/// let copy = TypedCopy::new(Tiled::new(row.layout().clone(), 1)?, Tiled::new(short.layout().clone(), 4)?);
/// // SAFETY: both types lie within their arrays, and the arrays do not overlap.
/// let bytes = unsafe { copy.run(source.as_ptr().cast(), 2, target.as_mut_ptr().cast(), 2, 4) };
/// assert_eq!((bytes, target), (4, [9, 2, 3, 9]));
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TypedCopy {
    source: Tiled,
    target: Tiled,
    /// Whether this copy uses and fills the program cache of the thread.
    is_kept: bool,
    route: OnceLock<Route>,
}

/// Results that the first call computes for two sides of which each has several runs.
#[derive(Debug, Clone)]
struct Route {
    /// The phase of the first call. `plan` is the plan for this phase.
    phase: u64,
    plan: Arc<Plan>,
    /// Whether two bytes of the target may lie at one place.
    meets: bool,
}

impl TypedCopy {
    /// A copy from `source` to `target`. Compiles nothing yet.
    #[inline]
    pub fn new(source: Tiled, target: Tiled) -> Self {
        Self { source, target, is_kept: true, route: OnceLock::new() }
    }

    /// Like [`TypedCopy::new`], but the first call always compiles a new program: it neither looks in
    /// the cache of the thread nor adds to it. Use it for a pair that is copied only once among many
    /// other pairs, and to measure the cost of compiling.
    #[inline]
    pub fn fresh(source: Tiled, target: Tiled) -> Self {
        Self { source, target, is_kept: false, route: OnceLock::new() }
    }

    /// The layout from which bytes are read.
    pub fn source(&self) -> &Tiled {
        &self.source
    }

    /// The layout to which bytes are written.
    pub fn target(&self) -> &Tiled {
        &self.target
    }

    /// Copies `bytes` bytes from stream position `source_start` of the source to stream position
    /// `target_start` of the target. Returns the number of bytes copied, which is less than `bytes` only
    /// if a stream ends earlier. The offsets of each layout count from the base address of its side. A
    /// null base with absolute addresses as offsets (`MPI_BOTTOM`) is allowed. Bytes of the target
    /// outside of the range are not touched, not even by writing back their old value.
    ///
    /// # Safety
    /// Every byte of the range must be readable at its place in the source and writable at its place in
    /// the target, and no byte that is read may be among the bytes that are written. If a base is null,
    /// the provenance of the memory on that side must have been exposed; memory that C code allocated is
    /// exposed.
    ///
    /// Vector loads may also read bytes *between* the source bytes of the range, but only on pages that
    /// hold a byte of the range, so such a load faults only if an access to the range itself would
    /// fault. The values of these bytes are discarded. Another thread may write to them at the same
    /// time. In the target, only bytes of the range are written or read.
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
        // Offsets from null are absolute addresses. The pointers take the provenance with which their
        // memory was exposed.
        let at = At {
            source: if source_base.is_null() { ptr::with_exposed_provenance(0) } else { source_base },
            target: if target_base.is_null() { ptr::with_exposed_provenance_mut(0) } else { target_base },
        };
        let read = Part { tiled: &self.source, root: source, start: source_start };
        let write = Part { tiled: &self.target, root: target, start: target_start };
        // SAFETY: `bytes` is at most the rest of both streams, so `# Safety` of this function holds for
        // all bytes of the range. If a side is a single run, its stream byte `k` lies at `base + k`, so
        // the addressed bytes are consecutive.
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

    /// Copies between two sides of which each has several runs.
    ///
    /// # Safety
    /// As for [`TypedCopy::run`]; both streams must contain their range of `bytes` bytes.
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
        // SAFETY: `# Safety` of this function. `plan` belongs to the phase of this call, so the program
        // pairs the same bytes. The program runs only if `meets` is false, so no two bytes of the target
        // lie at one place.
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

/// Copies between any two sides without a program.
///
/// # Safety
/// As for [`TypedCopy::run`]; both streams must contain their range of `bytes` bytes. If `meets` is
/// false, no two bytes of the target may lie at one place.
#[inline(never)]
unsafe fn walk(at: At, read: Part<'_>, write: Part<'_>, bytes: u64, meets: bool) {
    let from = (at.source, Side::new(read.root, read.start, bytes));
    let to = (at.target, Side::new(write.root, write.start, bytes));
    // SAFETY: `# Safety` of this function, which implies `# Safety` of both callees: two sides of the
    // same length, and `exchange` only if no two bytes of the target lie at one place.
    unsafe { if meets { step::in_order(from, to) } else { step::exchange(from, to) } }
}

/// The bytes of a side from stream position `start` on.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) tiled: &'a Tiled,
    pub(super) root: &'a Piece,
    pub(super) start: u64,
}

/// How to move the two sides and the range so that a program pairs the two start positions of a call.
struct Meeting {
    /// The stream byte of the source that the program copies to stream byte 0 of the target.
    phase: u64,
    /// The distance by which each side is moved, in bytes.
    source: i64,
    target: i64,
    /// The first stream position of the range, counted in the moved target.
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
        // Both starts are below `i64::MAX`, because they lie in their streams.
        let ahead = read.start as i64 - write.start as i64;
        let (source, target) = (Period::of(read.tiled), Period::of(write.tiled));
        if ahead % target.unit == 0 && ahead % source.unit != 0 {
            // The difference is a whole number of target periods: move the target, as if its stream had
            // begun that many periods later or earlier.
            let moved = (-(ahead / target.unit)).wrapping_mul(target.stride);
            return Self { phase: 0, source: 0, target: moved, start: read.start };
        }
        let moved = ahead.div_euclid(source.unit).wrapping_mul(source.stride);
        Self { phase: ahead.rem_euclid(source.unit) as u64, source: moved, target: 0, start: write.start }
    }
}

/// The period of a side: the stream bytes of one repetition, and the distance to the next one in memory.
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
/// The bytes must be readable at their offsets from the source of `at`, `bytes` bytes must be writable
/// at the target of `at`, and the two must not overlap.
#[inline]
pub(super) unsafe fn gather(at: At, from: Part<'_>, bytes: u64) {
    let Part { tiled, root, start } = from;
    // SAFETY: `# Safety` of this function. The program counts both sides from stream byte 0, so the
    // target is moved back by `start` bytes. Consecutive bytes of the target never lie at one place.
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

/// Copies one run. A short one is copied by the C library, which is as fast for it.
///
/// # Safety
/// `bytes` bytes must be readable at the source of `at` and writable at its target, and the two must not
/// overlap.
#[inline]
unsafe fn run(at: At, bytes: u64) {
    // SAFETY: `# Safety` of this function is that of both callees.
    unsafe {
        if bytes < kernel::LONG_RUN_BYTES {
            at.source.copy_to_nonoverlapping(at.target, bytes as usize);
        } else {
            kernel::run(at.source, at.target, bytes);
        }
    }
}

/// The reverse of [`gather`]: copies consecutive bytes, which begin at the source of `at`, to a side.
///
/// # Safety
/// As for [`gather`], with the sides exchanged. Several bytes of the target may lie at one place.
#[inline]
pub(super) unsafe fn scatter(at: At, to: Part<'_>, bytes: u64) {
    let Part { tiled, root, start } = to;
    // SAFETY: `# Safety` of this function, with the source moved back by `start` bytes for the program
    // (see `gather`). The program and `step::scatter` run only if `is_meeting` has excluded that two
    // bytes of the target lie at one place; else `walk` copies in stream order.
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
