//! The list and the number of the contiguous regions of a stream range.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

use capulet_datatype::{Cursor, Run, Tiled};

use crate::abi::{Aint, Count, MPI_Datatype, Offset, export_as};
use crate::convert::store;
use crate::failure::Failure;
use crate::frame::returning;
use crate::toolkit::arguments::{Part, elements, engine, incomplete, not_null, wrong};

/// `MPIT_Type_flatten` lists longer regions in parts of this size: the largest power of two that an `int`
/// can hold.
const PART_BYTES: u64 = 1 << 30;

/// The arrays of the caller, and the number of entries that are filled.
struct Lists<L> {
    base: usize,
    displacements: *mut Aint,
    lengths: *mut L,
    room: usize,
    filled: usize,
    /// The maximum number of bytes of one entry.
    part_bytes: u64,
}

impl<L: TryFrom<u64>> Lists<L> {
    /// Appends a region. Breaks if there is no room for the whole region.
    fn add(&mut self, run: Run) -> ControlFlow<()> {
        let mut run = run;
        while run.len > 0 {
            let bytes = run.len.min(self.part_bytes);
            let Ok(length) = L::try_from(bytes) else { return ControlFlow::Break(()) };
            if self.filled == self.room {
                return ControlFlow::Break(());
            }
            // SAFETY: `# Safety` of `flatten`: both arrays are valid for `room` entries, and `filled` is
            // below `room`. `flatten` has checked that neither array is null.
            unsafe {
                let address = self.base.wrapping_add_signed(run.offset as isize);
                self.displacements.add(self.filled).write(address.cast_signed());
                self.lengths.add(self.filled).write(length);
            }
            self.filled += 1;
            run = Run { offset: run.offset.wrapping_add(bytes as i64), len: run.len - bytes };
        }
        ControlFlow::Continue(())
    }
}

/// Lists the regions of a range, as many as fit in the arrays, and stores the number of listed regions in
/// `*length`.
///
/// # Safety
/// Each array is null or valid for writing `lists.room` entries. `length` is null or valid for reading and
/// writing.
unsafe fn flatten<L: TryFrom<u64>, N: Copy + TryFrom<usize>>(
    (elements, start, end): (&Tiled, Offset, Offset),
    mut lists: Lists<L>,
    length: *mut N,
) -> Result<(), Failure> {
    let part = Part::of(elements.size(), start, end)?;
    if lists.room > 0 && part.bytes() > 0 {
        not_null(lists.displacements, "the displacements")?;
        not_null(lists.lengths, "the lengths")?;
    }
    let mut cursor = Cursor::new(elements.clone());
    cursor.seek(part.range.start);
    let flow = cursor.for_each_run(part.bytes(), |run| lists.add(run));
    let filled = N::try_from(lists.filled).map_err(|_| wrong("there are too many regions to count"))?;
    // SAFETY: `# Safety` of this function: `length` is null or valid for writing. `store` refuses null.
    unsafe { store(length, filled) }?;
    match flow {
        ControlFlow::Continue(()) => part.finish(),
        ControlFlow::Break(()) => Err(incomplete("there are more regions than entries in the arrays")),
    }
}

/// The number of entries for which the caller's arrays have room.
///
/// # Safety
/// `length` is null or valid for reading.
unsafe fn room<N: Copy + TryInto<usize>>(length: *mut N) -> Result<usize, Failure> {
    not_null(length, "the number of regions")?;
    // SAFETY: `# Safety` of this function: `length`, which is not null, is valid for reading.
    unsafe { *length }.try_into().map_err(|_| wrong("the number of regions is negative"))
}

/// Defines `flatten` for one type of counts and one maximum size of an entry.
macro_rules! flatten {
    ($name:ident, $exported:literal, $count:ty, $part_bytes:expr) => {
        export_as! {
            [$exported]
            /// Lists the contiguous regions of a stream range. Local.
            fn $name(
                base: *mut c_void, count: $count, datatype: MPI_Datatype, start: Offset, end: Offset,
                displacements: *mut Aint, lengths: *mut $count, length: *mut $count
            ) -> c_int {
                returning($exported, || {
                    let elements = elements(Count::from(count), datatype)?;
                    // SAFETY: capulet_types.h: `length` is null or points to a number of the caller.
                    let room = unsafe { room(length) }?;
                    let (base, part_bytes) = (base.addr(), $part_bytes);
                    let lists = Lists { base, displacements, lengths, room, filled: 0, part_bytes };
                    // SAFETY: capulet_types.h: each array is null or has `*length` entries, and `length`
                    // points to a number of the caller, because `room` has refused null.
                    unsafe { flatten((&elements, start, end), lists, length) }
                })
            }
        }
    };
}

flatten! { Type_flatten, "MPIT_Type_flatten", c_int, PART_BYTES }
flatten! { Type_flatten_c, "MPIT_Type_flatten_c", Count, u64::MAX }

/// Defines `blockct` for one type of counts.
macro_rules! blockct {
    ($name:ident, $exported:literal, $count:ty, $result:ty) => {
        export_as! {
            [$exported]
            /// Counts the contiguous regions of a stream range. Local.
            fn $name(
                count: $count, datatype: MPI_Datatype, start: Offset, end: Offset, blocks: *mut $result
            ) -> c_int {
                returning($exported, || {
                    not_null(blocks, "the number of regions")?;
                    let elements = elements(Count::from(count), datatype)?;
                    let part = Part::of(elements.size(), start, end)?;
                    let number = elements.block_count(part.range.clone()).map_err(engine)?;
                    // The number is at most the size of the stream, so it fits in the type of the result.
                    // SAFETY: capulet_types.h: `blocks` points to a number of the caller, because it is not
                    // null.
                    unsafe { store(blocks, number as $result) }?;
                    part.finish()
                })
            }
        }
    };
}

blockct! { Type_blockct, "MPIT_Type_blockct", c_int, Aint }
blockct! { Type_blockct_c, "MPIT_Type_blockct_c", Count, Count }
