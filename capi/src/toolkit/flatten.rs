//! The contiguous regions of a stream range: their list, and their number.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

use capulet_datatype::{Cursor, Run, Tiled};

use crate::abi::{Aint, Count, MPI_Datatype, Offset, export_as};
use crate::convert::store;
use crate::guard::{Failure, returning};
use crate::toolkit::arguments::{Part, elements, engine, incomplete, not_null, wrong};

/// Longer regions are listed in parts by `MPIT_Type_flatten`: the largest power of two that an `int` holds.
const PART_BYTES: u64 = 1 << 30;

/// The caller's arrays, being filled.
struct Lists<L> {
    base: usize,
    displacements: *mut Aint,
    lengths: *mut L,
    room: usize,
    filled: usize,
    /// No region is listed with more bytes than this.
    part_bytes: u64,
}

impl<L: TryFrom<u64>> Lists<L> {
    /// Lists a region; breaks if there is no room for all of it.
    fn add(&mut self, run: Run) -> ControlFlow<()> {
        let mut run = run;
        while run.len > 0 {
            let bytes = run.len.min(self.part_bytes);
            let Ok(length) = L::try_from(bytes) else { return ControlFlow::Break(()) };
            if self.filled == self.room {
                return ControlFlow::Break(());
            }
            // SAFETY: `filled` is below `room`, which is the length that the caller gave for both arrays.
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

/// Lists the regions of a range, as many as there is room for, and then says how many those are.
///
/// # Safety
/// The arrays are valid for as many entries as `length` says, and `length` for reading and writing, unless null.
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
    let filled = N::try_from(lists.filled).map_err(|_| wrong("more regions than can be counted"))?;
    // SAFETY: the caller's promise.
    unsafe { store(length, filled) }?;
    match flow {
        ControlFlow::Continue(()) => part.finish(),
        ControlFlow::Break(()) => Err(incomplete("there are more regions than room for them")),
    }
}

/// The room in the caller's arrays.
///
/// # Safety
/// `length` is null or valid for reading.
unsafe fn room<N: Copy + TryInto<usize>>(length: *mut N) -> Result<usize, Failure> {
    not_null(length, "the number of regions")?;
    // SAFETY: not null, so valid by the caller's promise.
    unsafe { *length }.try_into().map_err(|_| wrong("a negative number of regions"))
}

/// flatten for one type of count, and one bound on the regions.
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
                    // SAFETY: the caller's number.
                    let room = unsafe { room(length) }?;
                    let (base, part_bytes) = (base.addr(), $part_bytes);
                    let lists = Lists { base, displacements, lengths, room, filled: 0, part_bytes };
                    // SAFETY: the caller's arrays and number.
                    unsafe { flatten((&elements, start, end), lists, length) }
                })
            }
        }
    };
}

flatten! { Type_flatten, "MPIT_Type_flatten", c_int, PART_BYTES }
flatten! { Type_flatten_c, "MPIT_Type_flatten_c", Count, u64::MAX }

/// blockct for one type of count.
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
                    // At most the size of the stream, which fits.
                    // SAFETY: the caller's number.
                    unsafe { store(blocks, number as $result) }?;
                    part.finish()
                })
            }
        }
    };
}

blockct! { Type_blockct, "MPIT_Type_blockct", c_int, Aint }
blockct! { Type_blockct_c, "MPIT_Type_blockct_c", Count, Count }
