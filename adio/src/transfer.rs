//! Data access (MPI 4.1, 14.4) at explicit offsets and at file pointers, independent and collective.

use std::sync::Arc;

use capulet_comm::ErrorClass;
use capulet_datatype::{Datatype, Tiled};
use capulet_sieve::{Access, Direction, Memory, independent};

use crate::error::{Error, Result};
use crate::file::File;
use crate::outcome::Outcome;
use crate::view::FileView;

/// Where an access begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// At an offset in etypes (`MPI_File_read_at` and similar functions).
    Explicit(i64),
    /// At the individual file pointer, which moves on (`MPI_File_read` and similar functions).
    Individual,
    /// At the shared file pointer, which moves on. Independent accesses take place one after another, in
    /// any order (`MPI_File_read_shared` and similar functions); collective ones in the order of the
    /// ranks (`MPI_File_read_ordered` and similar functions).
    Shared,
}

/// Whether the ranks act together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordination {
    /// Each rank acts on its own.
    Independent,
    /// All ranks of the file take part (`_all`).
    Collective,
}

/// A buffer of the user: `count` instances of `datatype` at `base`, as in any MPI call.
#[derive(Debug, Clone)]
pub struct UserMemory {
    /// The address of the buffer; null for `MPI_BOTTOM`.
    pub base: *mut u8,
    /// The number of instances.
    pub count: u64,
    /// The type of an instance.
    pub datatype: Datatype,
}

/// An access that passed all checks except those of its place.
pub(crate) struct CheckedAccess {
    view: Arc<FileView>,
    memory: Memory,
    bytes: u64,
}

impl CheckedAccess {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn view(&self) -> &FileView {
        &self.view
    }

    /// The access that begins at byte `start_bytes` of the data stream of the view.
    pub(crate) fn at(self, start_bytes: u64) -> Result<PreparedAccess> {
        let Self { view, memory, bytes } = self;
        let access = Access::new(view.displacement_bytes(), view.tiled(), start_bytes, memory, bytes);
        let access = access.map_err(|error| Error::argument(ErrorClass::Arg, error.to_string()))?;
        Ok(PreparedAccess { access, view, end_bytes: start_bytes + bytes })
    }
}

/// An access that passed all checks.
pub(crate) struct PreparedAccess {
    pub(crate) access: Access,
    pub(crate) view: Arc<FileView>,
    /// The end of the access in the data stream of the view, in bytes.
    pub(crate) end_bytes: u64,
}

impl File {
    /// Reads or writes. A rank whose arguments are wrong passes the error instead of memory, so that a
    /// collective access can report it on all ranks. Blocks until the data is moved; a collective access
    /// also blocks for the other ranks.
    ///
    /// # Errors
    /// The outcome has an error of class `MPI_ERR_READ_ONLY` or `MPI_ERR_ACCESS` if the access mode of
    /// the file does not permit the access, `MPI_ERR_ARG` for a negative offset or bytes that are not
    /// whole etypes, `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode, or an error of the storage. A
    /// collective access fails on all ranks with one class.
    ///
    /// # Safety
    /// Every byte that `memory` reaches must be valid for reads, and for writes if `direction` is `Read`.
    /// It must not be used otherwise until the call returns.
    pub unsafe fn access(
        &self,
        direction: Direction,
        position: Position,
        coordination: Coordination,
        memory: Result<UserMemory>,
    ) -> Outcome {
        let span = tracing::debug_span!("access", ?direction, ?position, ?coordination);
        let _entered = span.enter();
        self.calls.count(direction);
        let is_independent = coordination == Coordination::Independent;
        let one_run = memory.as_ref().ok().filter(|_| is_independent);
        if let Some(run) = one_run.and_then(|memory| self.one_run(direction, position, memory)) {
            // SAFETY: `# Safety` of `move_one_run` is `# Safety` of this function: `one_run` made `run`
            // from `memory`.
            let outcome = unsafe { self.move_one_run(&run, direction) };
            return self.count_outcome(direction, outcome);
        }
        let prepared = match position {
            // SAFETY: `# Safety` of `prepare_ordered` is `# Safety` of this function.
            Position::Shared if !is_independent => unsafe { self.prepare_ordered(direction, memory) },
            // SAFETY: `# Safety` of `prepare` is `# Safety` of this function.
            _ => memory
                .and_then(|memory| unsafe { self.prepare(direction, position, is_independent, &memory) }),
        };
        let outcome = match coordination {
            Coordination::Independent => self.independent(direction, prepared),
            Coordination::Collective => self.collective(direction, position, prepared),
        };
        self.count_outcome(direction, outcome)
    }

    fn count_outcome(&self, direction: Direction, outcome: Outcome) -> Outcome {
        self.calls.moved(direction, outcome.bytes);
        if let Some(error) = &outcome.error {
            tracing::debug!(%error, "access failed");
        }
        outcome
    }

    /// Checks an access. If `moves_on`, an individual file pointer moves on at once; else it moves when
    /// the ranks have agreed.
    ///
    /// # Safety
    /// As [`File::access`].
    pub(crate) unsafe fn prepare(
        &self,
        direction: Direction,
        position: Position,
        moves_on: bool,
        memory: &UserMemory,
    ) -> Result<PreparedAccess> {
        if position != Position::Shared {
            self.refuse_sequential("access at an offset or individual pointer in sequential mode")?;
        }
        let mut state = self.state();
        // SAFETY: `# Safety` of `check` is `# Safety` of this function.
        let checked = unsafe { self.check(direction, state.view.clone(), memory) }?;
        let start_bytes = match position {
            Position::Explicit(offset) => checked.view.position_bytes(offset)?,
            Position::Individual => state.pointer_bytes,
            Position::Shared => self.take_shared(state.shared_word, checked.bytes, &checked.view)?,
        };
        let prepared = checked.at(start_bytes)?;
        if position == Position::Individual && moves_on {
            // The pointer moves before any byte, and under the lock, so two threads that write at the
            // pointer write one after the other in the file. It moves by the bytes requested, even if
            // fewer can be read (MPI 4.1, 14.4.1).
            state.pointer_bytes = prepared.end_bytes;
        }
        Ok(prepared)
    }

    /// Checks the part of an access that does not depend on where it begins.
    ///
    /// # Safety
    /// As [`File::access`].
    pub(crate) unsafe fn check(
        &self,
        direction: Direction,
        view: Arc<FileView>,
        memory: &UserMemory,
    ) -> Result<CheckedAccess> {
        self.check_direction(direction)?;
        let refuse = |what: &str| Error::argument(ErrorClass::Arg, what);
        let bytes =
            memory.count.checked_mul(memory.datatype.size()).filter(|bytes| i64::try_from(*bytes).is_ok());
        let bytes =
            bytes.ok_or_else(|| Error::argument(ErrorClass::Count, "the buffer is larger than any file"))?;
        if bytes % view.etype_bytes() != 0 {
            return Err(refuse("the buffer does not hold whole etypes"));
        }
        if bytes > 0 && view.tiled().size() == 0 {
            return Err(refuse("the view holds no data"));
        }
        let tiled = Tiled::new(memory.datatype.layout().clone(), memory.count);
        let tiled = tiled.map_err(|error| Error::argument(ErrorClass::Count, error.to_string()))?;
        // SAFETY: `# Safety` of `Memory::new`: `# Safety` of this function makes every byte that `memory`
        // reaches valid, and unused otherwise, until the access is over. The access is the only one made
        // from this value.
        let memory = unsafe { Memory::new(memory.base, tiled) };
        Ok(CheckedAccess { view, memory, bytes })
    }

    pub(crate) fn check_direction(&self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Write => self.check_writable("write"),
            Direction::Read if !self.mode.reads() => {
                Err(Error::Denied { class: ErrorClass::Access, path: self.path.clone(), what: "read" })
            }
            Direction::Read => Ok(()),
        }
    }

    fn independent(&self, direction: Direction, prepared: Result<PreparedAccess>) -> Outcome {
        match prepared {
            Err(error) => Outcome::failed(error),
            Ok(prepared) => {
                let done = independent::run(&self.independent_target(), &prepared.access, direction);
                Outcome { bytes: done.bytes, error: done.error.map(Error::from) }
            }
        }
    }
}
