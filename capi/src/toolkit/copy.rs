//! Copies between a typed buffer and contiguous memory, and between two typed buffers.

use std::ffi::{c_int, c_void};

use capulet_datatype::{Tiled, TypedCopy};

use crate::abi::{Count, MPI_Datatype, Offset, export_as};
use crate::failure::{Failure, failure};
use crate::frame::returning;
use crate::toolkit::arguments::{Part, buffer, bytes, elements, not_null, wrong};
use capulet_comm::ErrorClass;

/// `MPIT_MEMCPY_TO_USERBUF`
pub(super) const TO_USERBUF: c_int = 0;
/// `MPIT_MEMCPY_FROM_USERBUF`
pub(super) const FROM_USERBUF: c_int = 1;

/// Copies a range of a stream to or from contiguous memory.
///
/// # Safety
/// Each byte of the range, cut to the stream, is valid in the typed buffer `base` and in `stream`: for
/// reads in the source, and for writes in the target. A pointer may be null, which is an error if the range
/// has bytes. The buffers do not overlap.
unsafe fn memcpy(
    (base, elements): (*mut c_void, Tiled),
    stream: *mut c_void,
    direction: c_int,
    (start, end): (Offset, Offset),
) -> Result<(), Failure> {
    if direction != TO_USERBUF && direction != FROM_USERBUF {
        return Err(wrong(format!("{direction} is not a direction")));
    }
    let part = Part::of(elements.size(), start, end)?;
    let count = part.bytes();
    buffer(base, &elements, count)?;
    if count > 0 {
        not_null(stream, "the stream")?;
    }
    let (base, stream, from) = (base.cast::<u8>(), stream.cast::<u8>(), part.range.start);
    // SAFETY: `# Safety` of this function: `base` contains the typed bytes of the range, because `Part` has
    // cut the range to the stream. `stream` has at least `count` bytes. Neither pointer is null if `count`
    // is positive.
    let moved = unsafe {
        if direction == TO_USERBUF {
            TypedCopy::new(bytes(count)?, elements).run(stream, 0, base, from, count)
        } else {
            TypedCopy::new(elements, bytes(count)?).run(base, from, stream, 0, count)
        }
    };
    check_moved(moved, count)?;
    part.finish()
}

fn check_moved(moved: u64, wanted: u64) -> Result<(), Failure> {
    if moved == wanted {
        return Ok(());
    }
    Err(failure(ErrorClass::Intern, format!("a bug in Capulet: {moved} of {wanted} bytes are copied")))
}

/// Defines `memcpy` for one type of counts.
macro_rules! memcpy {
    ($name:ident, $exported:literal, $count:ty) => {
        export_as! {
            [$exported]
            /// Copies a range of a stream to or from contiguous memory. Local.
            fn $name(
                base: *mut c_void, count: $count, datatype: MPI_Datatype, stream: *mut c_void,
                direction: c_int, start: Offset, end: Offset
            ) -> c_int {
                returning($exported, || {
                    let elements = elements(Count::from(count), datatype)?;
                    // SAFETY: capulet_types.h: `base` is a typed buffer and `stream` a contiguous buffer of
                    // the caller for the range. They do not overlap.
                    unsafe { memcpy((base, elements), stream, direction, (start, end)) }
                })
            }
        }
    };
}

memcpy! { Type_memcpy, "MPIT_Type_memcpy", c_int }
memcpy! { Type_memcpy_c, "MPIT_Type_memcpy_c", Count }

export_as! {
    ["MPIT_Type_transpack"]
    /// Copies all data of one typed buffer to another. Local.
    fn Type_transpack(
        source: *const c_void, source_count: Count, source_type: MPI_Datatype, target: *mut c_void,
        target_count: Count, target_type: MPI_Datatype
    ) -> c_int {
        returning("MPIT_Type_transpack", || {
            let from = elements(source_count, source_type)?;
            let to = elements(target_count, target_type)?;
            if from.size() != to.size() {
                return Err(wrong(format!("the source has {} bytes, the target {}", from.size(), to.size())));
            }
            let bytes = from.size();
            // SAFETY: capulet_types.h: both are typed buffers of the caller, which do not overlap. Both
            // streams have `bytes` bytes.
            unsafe { transpack((source, from, 0), (target, to, 0), bytes) }
        })
    }
}

export_as! {
    ["MPIT_Type_transpack_range"]
    /// Copies a range of the stream of one typed buffer to a place in the stream of another. Local.
    fn Type_transpack_range(
        source: *const c_void, source_count: Count, source_type: MPI_Datatype, source_start: Offset,
        target: *mut c_void, target_count: Count, target_type: MPI_Datatype, target_start: Offset,
        bytes: Offset
    ) -> c_int {
        returning("MPIT_Type_transpack_range", || {
            let from = elements(source_count, source_type)?;
            let to = elements(target_count, target_type)?;
            let end_of = |start: Offset| {
                start.checked_add(bytes).ok_or_else(|| wrong("the range is too large"))
            };
            let read = Part::of(from.size(), source_start, end_of(source_start)?)?;
            let written = Part::of(to.size(), target_start, end_of(target_start)?)?;
            let count = read.bytes().min(written.bytes());
            let (source_start, target_start) = (read.range.start, written.range.start);
            // SAFETY: capulet_types.h: both are typed buffers of the caller, which do not overlap. `Part`
            // has cut both ranges to their streams, so both streams have `count` bytes from their starts
            // on.
            unsafe { transpack((source, from, source_start), (target, to, target_start), count) }?;
            read.finish().and(written.finish())
        })
    }
}

/// Copies `bytes` bytes from one stream to another. Both streams contain their range.
///
/// # Safety
/// The bytes of the ranges are valid for reads in the source buffer and for writes in the target buffer. No
/// byte is both read and written.
unsafe fn transpack(
    (source, from, source_start): (*const c_void, Tiled, u64),
    (target, to, target_start): (*mut c_void, Tiled, u64),
    bytes: u64,
) -> Result<(), Failure> {
    buffer(source, &from, bytes)?;
    buffer(target, &to, bytes)?;
    let copy = TypedCopy::new(from, to);
    // SAFETY: `# Safety` of this function is that of `TypedCopy::run`.
    let moved = unsafe { copy.run(source.cast(), source_start, target.cast(), target_start, bytes) };
    check_moved(moved, bytes)
}
