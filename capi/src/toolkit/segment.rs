//! Segments: partial processing of a type by the caller's leaf functions.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;
use std::sync::{Mutex, MutexGuard, TryLockError};

use capulet_datatype::{Datatype, Segment};

use crate::abi::{Aint, Count, MPI_Datatype, SUCCESS, export_as};
use crate::convert::store;
use crate::guard::{Failure, returning, returning_at_any_time};
use crate::toolkit::arguments::{Part, engine, initialized, not_null, wrong};
use crate::toolkit::leaves::{
    BlockIndexedFunction, ContigFunction, Elements, Ended, IndexedFunction, Leaves, VectorFunction,
};
use crate::toolkit::sizes::{Measure, SizeFunction, Sizes, asking};

/// `MPIT_SEGMENT_ALL`: an end that stands for that of the stream.
const ALL: Aint = -1;

/// `MPIT_Segment`. It is locked while it is used, so that a leaf function, or another thread, which uses the same
/// segment is refused.
pub(crate) struct CSegment(Mutex<Option<State>>);

/// What `MPIT_Segment_init` made.
struct State {
    base: *mut c_void,
    datatype: Datatype,
    count: u64,
    segment: Segment,
}

export_as! {
    ["MPIT_Segment_alloc"]
    /// A segment without a type. Local.
    fn Segment_alloc() -> *mut CSegment {
        let mut made = ptr::null_mut();
        let outcome = returning_at_any_time("MPIT_Segment_alloc", || {
            made = Box::into_raw(Box::new(CSegment(Mutex::new(None))));
            Ok(())
        });
        if outcome == SUCCESS { made } else { ptr::null_mut() }
    }
}

/// The caller's segment, to be used by this call alone.
///
/// # Safety
/// `segment` is null, or comes from `MPIT_Segment_alloc` and is not freed during `'a`.
unsafe fn lock<'a>(segment: *mut CSegment) -> Result<MutexGuard<'a, Option<State>>, Failure> {
    not_null(segment, "the segment")?;
    // SAFETY: by the caller's promise. Only shared references are ever made.
    match unsafe { &*segment }.0.try_lock() {
        Ok(state) => Ok(state),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(wrong("the segment is in use")),
    }
}

/// `Segment_init` for one type of count.
macro_rules! init {
    ($name:ident, $exported:literal, $count:ty) => {
        export_as! {
            [$exported]
            /// Puts a segment at the start of a typed buffer. Local.
            fn $name(
                base: *const c_void, count: $count, datatype: MPI_Datatype, segment: *mut CSegment, flag: c_int
            ) -> c_int {
                returning($exported, || {
                    // SAFETY: the caller's segment.
                    let mut state = unsafe { lock(segment) }?;
                    *state = Some(begin(base.cast_mut(), Count::from(count), datatype, flag)?);
                    Ok(())
                })
            }
        }
    };
}

init! { Segment_init, "MPIT_Segment_init", c_int }
init! { Segment_init_c, "MPIT_Segment_init_c", Count }

fn begin(base: *mut c_void, count: Count, datatype: MPI_Datatype, flag: c_int) -> Result<State, Failure> {
    let datatype = initialized(datatype)?;
    let count = u64::try_from(count).map_err(|_| wrong(format!("a negative count, {count}")))?;
    if flag != 0 {
        return Err(wrong(format!("the flag is {flag} and not 0")));
    }
    let segment = Segment::new(&datatype, count).map_err(|error| wrong(error.to_string()))?;
    Ok(State { base, datatype, count, segment })
}

export_as! {
    ["MPIT_Segment_free"]
    /// Frees a segment. Local.
    fn Segment_free(segment: *mut CSegment) -> c_int {
        returning_at_any_time("MPIT_Segment_free", || {
            // SAFETY: the caller's segment.
            drop(unsafe { lock(segment) }?);
            // SAFETY: it comes from `MPIT_Segment_alloc`, is not in use, and the caller will not use it again.
            drop(unsafe { Box::from_raw(segment) });
            Ok(())
        })
    }
}

export_as! {
    ["MPIT_Segment_manipulate"]
    /// Calls leaf functions for a range of a segment's stream. Local.
    fn Segment_manipulate(
        segment: *mut CSegment, start: Aint, end: *mut Aint, contig: Option<ContigFunction>,
        vector: Option<VectorFunction>, block_indexed: Option<BlockIndexedFunction>,
        indexed: Option<IndexedFunction>, size: Option<SizeFunction>, parameters: *mut c_void
    ) -> c_int {
        returning("MPIT_Segment_manipulate", || {
            // SAFETY: the caller's segment.
            let mut locked = unsafe { lock(segment) }?;
            let state = locked.as_mut().ok_or_else(|| wrong("the segment is not initialized"))?;
            not_null(end, "the end")?;
            let contig = contig.ok_or_else(|| wrong("a null pointer for the contig function"))?;
            // SAFETY: not null, so the caller's number.
            let wanted = unsafe { *end };
            let mut leaves = Leaves {
                contig, vector, block_indexed, indexed, base: state.base, parameters,
                elements: Elements::default(), lengths: Vec::new(),
            };
            let (reached, outcome) = manipulate(state, start as i64, wanted, size, &mut leaves)?;
            // SAFETY: as above.
            unsafe { store(end, reached as Aint) }?;
            outcome
        })
    }
}

/// Visits the leaves of a range. The position reached, and whether that is all that was asked for. Fails if nothing was
/// visited.
fn manipulate(
    state: &mut State,
    start: i64,
    end: Aint,
    size: Option<SizeFunction>,
    leaves: &mut Leaves,
) -> Result<(u64, Result<(), Failure>), Failure> {
    let sizes = match size {
        None => None,
        Some(function) => {
            Some(Sizes::ask(&state.datatype, state.count, asking(function, &mut leaves.elements))?)
        }
    };
    let length = sizes.as_ref().map_or(state.segment.tiled().size(), Sizes::size);
    let part = Part::of(length, start, if end == ALL { length as i64 } else { end as i64 })?;
    let range = match &sizes {
        None => part.range.clone(),
        Some(sizes) => {
            let position = |own| sizes.convert(own, Measure::Own);
            position(part.range.start)?..position(part.range.end)?
        }
    };
    let nonsense = drive(&mut state.segment, range, leaves)?;
    let reached = match &sizes {
        None => state.segment.position(),
        Some(sizes) => sizes.convert(state.segment.position(), Measure::Stream)?,
    };
    // A stop that was asked for is no failure, but the end of the stream is.
    let outcome = match nonsense {
        Some(nonsense) => Err(nonsense),
        None if reached == part.range.end => part.finish(),
        None => Ok(()),
    };
    Ok((reached, outcome))
}

/// Visits until the end of the range, or until a leaf function stops; leaves what it has not done are visited again. A
/// failure of a leaf function is the answer.
fn drive(
    segment: &mut Segment,
    range: std::ops::Range<u64>,
    leaves: &mut Leaves,
) -> Result<Option<Failure>, Failure> {
    let mut from = range.start;
    loop {
        match segment.manipulate(from..range.end, leaves).map_err(engine)? {
            ControlFlow::Continue(()) | ControlFlow::Break(Ended::Asked) => return Ok(None),
            ControlFlow::Break(Ended::Partly) => from = segment.position(),
            ControlFlow::Break(Ended::Nonsense { done, of }) => {
                return Ok(Some(wrong(format!("a leaf function did {done} of {of} elements"))));
            }
        }
    }
}
