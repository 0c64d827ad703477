//! Independent accesses of one run of the file and one of memory, as most small ones are: to build a view's part and memory's layout, and
//! to choose how they are moved, takes longer than to move them.

use capulet_atomic::Isolation;
use capulet_drivers::{Direction, Segment, Transfer};
use capulet_sieve::independent;

use crate::file::File;
use crate::transfer::{Outcome, Position, UserMemory};

/// Bytes that touch, in the file and in memory.
pub(crate) struct OneRun {
    offset_bytes: u64,
    /// Its address and how many bytes.
    memory: (*mut u8, usize),
    /// In atomic mode.
    locks: bool,
}

impl File {
    /// The access, if it is one of these and nothing speaks against it; the individual pointer has moved on then. `None` leaves all as it
    /// is, for [`File::prepare`] to say why.
    pub(crate) fn one_run(
        &self,
        direction: Direction,
        position: Position,
        memory: &UserMemory,
    ) -> Option<OneRun> {
        self.check_direction(direction).ok()?;
        self.refuse_sequential("an access of one run").ok()?;
        let layout = memory.datatype.layout();
        let len_bytes = memory.count.checked_mul(layout.size()).filter(|bytes| *bytes > 0)?;
        // Instances of a dense layout touch, and reach from its lowest byte on.
        let memory_end = layout.true_lb().checked_add(i64::try_from(len_bytes).ok()?);
        memory_end.filter(|_| layout.is_dense())?;
        let memory =
            (memory.base.wrapping_offset(layout.true_lb() as isize), usize::try_from(len_bytes).ok()?);
        let mut state = self.state();
        let start_bytes = match position {
            Position::Explicit(offset) => state.view.position_bytes(offset).ok()?,
            Position::Individual => state.pointer_bytes,
            Position::Shared => return None,
        };
        let offset_bytes = state.view.run_at(start_bytes, len_bytes)?;
        if position == Position::Individual {
            // As in `File::prepare`, and last: nothing speaks against it any more.
            state.pointer_bytes = start_bytes + len_bytes;
        }
        Some(OneRun { offset_bytes, memory, locks: state.locks() })
    }

    /// Carries it out. Blocks for the storage, and in atomic mode for others.
    ///
    /// # Safety
    /// As [`File::access`], whose memory it is of.
    pub(crate) unsafe fn move_one_run(&self, run: &OneRun, direction: Direction) -> Outcome {
        // SAFETY: the bytes of the user's memory, valid until the call is over, and the transfer is over before.
        let memory = unsafe { Segment::from_raw(run.memory.0, run.memory.1) };
        let transfer = Transfer { offset: run.offset_bytes, memory };
        let lock = self.lock.get().filter(|_| run.locks).map(|lock| lock.as_ref() as &dyn Isolation);
        let done = independent::run_one(self.storage.as_ref(), lock, &self.counters, transfer, direction);
        Outcome { bytes: done.bytes, error: done.error.map(Into::into) }
    }
}
