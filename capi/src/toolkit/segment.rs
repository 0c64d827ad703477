//! Segments: processing of a part of a typed buffer by leaf functions of the caller.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;
use std::sync::{Mutex, MutexGuard, TryLockError};

use capulet_datatype::{Datatype, Segment};

use crate::abi::{Aint, Count, MPI_Datatype, SUCCESS, export_as};
use crate::convert::store;
use crate::failure::Failure;
use crate::frame::{returning, returning_at_any_time};
use crate::toolkit::arguments::{Part, engine, initialized, not_null, wrong};
use crate::toolkit::leaves::{
    BlockIndexedFunction, ContigFunction, Elements, Ended, IndexedFunction, Leaves, VectorFunction,
};
use crate::toolkit::sizes::{Measure, SizeFunction, Sizes, asking};

/// `MPIT_SEGMENT_ALL`: the end of the range is the end of the stream.
const ALL: Aint = -1;

/// `MPIT_Segment`. The mutex is locked during each call that uses the segment. A leaf function or another
/// thread that uses the same segment meanwhile gets an error.
pub(crate) struct CSegment(Mutex<Option<State>>);

/// The state of a segment after `MPIT_Segment_init`.
struct State {
    base: *mut c_void,
    datatype: Datatype,
    count: u64,
    segment: Segment,
}

export_as! {
    ["MPIT_Segment_alloc"]
    /// Creates a segment without a type. Local.
    fn Segment_alloc() -> *mut CSegment {
        let mut made = ptr::null_mut();
        let outcome = returning_at_any_time("MPIT_Segment_alloc", || {
            made = Box::into_raw(Box::new(CSegment(Mutex::new(None))));
            Ok(())
        });
        if outcome == SUCCESS { made } else { ptr::null_mut() }
    }
}

/// Locks the caller's segment for this call.
///
/// # Errors
/// [`ErrorClass::Arg`](capulet_comm::ErrorClass::Arg) if `segment` is null or in use.
///
/// # Safety
/// `segment` is null, or it comes from `MPIT_Segment_alloc` and is not freed during `'a`.
unsafe fn lock<'a>(segment: *mut CSegment) -> Result<MutexGuard<'a, Option<State>>, Failure> {
    not_null(segment, "the segment")?;
    // SAFETY: `# Safety` of this function: the pointer, which is not null, comes from `MPIT_Segment_alloc`
    // and stays valid during `'a`. Until `Segment_free` this module makes only shared references to the
    // segment.
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
            /// Initializes a segment for a typed buffer. Local.
            fn $name(
                base: *const c_void, count: $count, datatype: MPI_Datatype, segment: *mut CSegment,
                flag: c_int
            ) -> c_int {
                returning($exported, || {
                    // SAFETY: capulet_types.h: the caller passes null or a segment that is not freed during
                    // this call.
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
    let count = u64::try_from(count).map_err(|_| wrong(format!("the count {count} is negative")))?;
    if flag != 0 {
        return Err(wrong(format!("the flag is {flag}, but must be 0")));
    }
    let segment = Segment::new(&datatype, count).map_err(|error| wrong(error.to_string()))?;
    Ok(State { base, datatype, count, segment })
}

export_as! {
    ["MPIT_Segment_free"]
    /// Frees a segment. Local.
    fn Segment_free(segment: *mut CSegment) -> c_int {
        returning_at_any_time("MPIT_Segment_free", || {
            // SAFETY: capulet_types.h: the caller passes null or a segment that no other call frees.
            drop(unsafe { lock(segment) }?);
            // SAFETY: `MPIT_Segment_alloc` made the pointer by Box::into_raw. No other call uses the
            // segment, because the lock was free. capulet_types.h: the caller does not use the segment
            // again.
            drop(unsafe { Box::from_raw(segment) });
            Ok(())
        })
    }
}

export_as! {
    ["MPIT_Segment_manipulate"]
    /// Calls leaf functions for a range of the stream of a segment. Local.
    fn Segment_manipulate(
        segment: *mut CSegment, start: Aint, end: *mut Aint, contig: Option<ContigFunction>,
        vector: Option<VectorFunction>, block_indexed: Option<BlockIndexedFunction>,
        indexed: Option<IndexedFunction>, size: Option<SizeFunction>, parameters: *mut c_void
    ) -> c_int {
        returning("MPIT_Segment_manipulate", || {
            // SAFETY: capulet_types.h: the caller passes null or a segment that is not freed during this
            // call.
            let mut locked = unsafe { lock(segment) }?;
            let state = locked.as_mut().ok_or_else(|| wrong("the segment is not initialized"))?;
            not_null(end, "the end")?;
            let contig = contig.ok_or_else(|| wrong("a null pointer for the contig function"))?;
            // SAFETY: capulet_types.h: `end` points to a number of the caller, because it is not null.
            let wanted = unsafe { *end };
            let mut leaves = Leaves {
                contig, vector, block_indexed, indexed, base: state.base, parameters,
                elements: Elements::default(), lengths: Vec::new(),
            };
            let (reached, outcome) = manipulate(state, start as i64, wanted, size, &mut leaves)?;
            // SAFETY: as for the load of `*end` above; the number is also valid for writes.
            unsafe { store(end, reached as Aint) }?;
            outcome
        })
    }
}

/// Visits the leaves of a range. Returns the position that was reached, in the caller's sizes if there is a
/// `size` function, and the outcome of the visit. Fails as a whole if no leaf could be visited.
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
    // A stop by a leaf function is a success. An end of the stream before the end of the range is a
    // failure.
    let outcome = match nonsense {
        Some(nonsense) => Err(nonsense),
        None if reached == part.range.end => part.finish(),
        None => Ok(()),
    };
    Ok((reached, outcome))
}

/// Visits the leaves until the end of the range, or until a leaf function stops. If a leaf function has
/// processed a part of its leaf, the rest is visited again. Returns a failure if a leaf function reported
/// an impossible number of elements.
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
                return Ok(Some(wrong(format!("a leaf function reported {done} of {of} elements"))));
            }
        }
    }
}
