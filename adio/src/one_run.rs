//! Independent accesses with one run of the file and one run of memory. Most small accesses are of this
//! kind. Their cost is dominated by the general path: building the part of the view and the layout of
//! memory, and choosing how to move the bytes, takes longer than moving them.

use capulet_atomic::Isolation;
use capulet_drivers::{Direction, Segment, Transfer};
use capulet_sieve::independent;

use crate::file::File;
use crate::outcome::Outcome;
use crate::transfer::{Position, UserMemory};

/// An access that is contiguous in the file and in memory.
pub(crate) struct OneRun {
    offset_bytes: u64,
    /// Address and length in bytes.
    memory: (*mut u8, usize),
    /// Whether the access takes the lock of atomic mode.
    locks: bool,
}

impl File {
    /// The access, if it is of this kind and passes all checks; the individual file pointer has then
    /// moved on. `None` changes nothing: the caller then calls [`File::prepare`], which reports any
    /// error.
    pub(crate) fn one_run(
        &self,
        direction: Direction,
        position: Position,
        memory: &UserMemory,
    ) -> Option<OneRun> {
        self.check_direction(direction).ok()?;
        self.refuse_sequential("access at an offset or individual pointer in sequential mode").ok()?;
        let layout = memory.datatype.layout();
        let len_bytes = memory.count.checked_mul(layout.size()).filter(|bytes| *bytes > 0)?;
        // Instances of a dense layout touch, and begin at its lowest byte.
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
            // The pointer moves as in [`File::prepare`], and as the last step, because no check can fail
            // after it.
            state.pointer_bytes = start_bytes + len_bytes;
        }
        Some(OneRun { offset_bytes, memory, locks: state.locks() })
    }

    /// Carries out the access. Blocks for the storage, and in atomic mode for other accesses.
    ///
    /// # Safety
    /// As [`File::access`], for the memory from which [`File::one_run`] made `run`.
    pub(crate) unsafe fn move_one_run(&self, run: &OneRun, direction: Direction) -> Outcome {
        // SAFETY: `# Safety` of `Segment::from_raw`: `one_run` made `run` from a dense layout, so its
        // bytes are consecutive bytes of the buffer of the caller. `# Safety` of this function makes them
        // valid and unused otherwise until the call returns. `independent::run_one` returns only after
        // its batch is complete.
        let memory = unsafe { Segment::from_raw(run.memory.0, run.memory.1) };
        let transfer = Transfer { offset: run.offset_bytes, memory };
        let lock = self.lock.get().filter(|_| run.locks).map(|lock| lock.as_ref() as &dyn Isolation);
        let done = independent::run_one(self.storage.as_ref(), lock, &self.counters, transfer, direction);
        Outcome { bytes: done.bytes, error: done.error.map(Into::into) }
    }
}
