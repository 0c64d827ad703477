//! The functions of the shared file pointer (MPI 4.1, 14.4.4). `shared_pointer.rs` has the pointer itself.

use capulet_comm::{ErrorClass, Rank};
use capulet_sieve::Direction;

use crate::agree::{Agreement, agree_on_outcome};
use crate::error::{Error, Result};
use crate::file::{File, State};
use crate::pointer::Whence;
use crate::shared_pointer::{PointerWord, SharedPointer};
use crate::transfer::{CheckedAccess, PreparedAccess, UserMemory};
use crate::view::FileView;

/// As a number of bytes: the arguments of this rank are wrong. As a place: the arguments of some rank are
/// wrong.
const FAILED: u64 = u64::MAX;
/// As a place: the view has no bytes there.
const BEYOND: u64 = u64::MAX - 1;

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.as_chunks::<8>().0.get(at).map(|word| u64::from_le_bytes(*word))
}

impl File {
    pub(crate) fn shared(&self) -> Result<&SharedPointer> {
        let without = "a shared file pointer without memory that all ranks can access";
        self.shared.as_ref().ok_or(Error::Unsupported { what: without })
    }

    /// Takes the next `bytes` bytes at the pointer for an access of this rank, and returns where they
    /// begin.
    pub(crate) fn take_shared(&self, active: PointerWord, bytes: u64, view: &FileView) -> Result<u64> {
        self.shared()?.advance(active, bytes, view)?.ok_or_else(beyond)
    }

    /// Moves the shared file pointer to `offset` etypes from `whence`; all ranks pass the same values
    /// (`MPI_File_seek_shared`). Collective; blocks until all ranks have called it.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if the arguments differ between ranks; `MPI_ERR_ARG` if the target is negative
    /// or beyond the largest offset; `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode, and if the ranks
    /// share no pointer. After an error the pointer has not moved.
    pub fn seek_shared(&self, offset: i64, whence: Result<Whence>) -> Result<()> {
        let own = self
            .refuse_sequential("seeking the shared file pointer in sequential mode")
            .and_then(|()| self.shared())
            .and(whence);
        let which = own.as_ref().map_or(0, |whence| *whence as u64);
        let agreement = Agreement::new().same("offset", offset as u64).same("whence", which);
        let (whence, _) = agreement.agree(self.agree(), own)?;
        let is_first = self.group.rank().0 == 0;
        agree_on_outcome(self.agree(), if is_first { self.prepare_seek(offset, whence) } else { Ok(()) })?;
        self.switch_shared_word();
        Ok(())
    }

    fn prepare_seek(&self, offset: i64, whence: Whence) -> Result<()> {
        let end_bytes = if whence == Whence::End { self.size()? } else { 0 };
        let (view, active) = {
            let state = self.state();
            (state.view.clone(), state.shared_word)
        };
        let pointer = self.shared()?;
        let target = view.seek_bytes(offset, whence, pointer.load(active)?, end_bytes)?;
        pointer.store_other(active, target)
    }

    /// The shared file pointer, in etypes of the view (`MPI_File_get_position_shared`). Local.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode, and if the ranks share no pointer.
    pub fn position_shared(&self) -> Result<i64> {
        self.refuse_sequential("the position of the shared file pointer in sequential mode")?;
        let state = self.state();
        Ok((self.shared()?.load(state.shared_word)? / state.view.etype_bytes()) as i64)
    }

    /// The position of the pointer in the file, in bytes.
    pub(crate) fn shared_byte(&self) -> Result<u64> {
        let (view, active) = {
            let state = self.state();
            (state.view.clone(), state.shared_word)
        };
        view.file_offset(self.shared()?.load(active)?)
    }

    /// Prepares the pointer for the start of a new view, before the ranks agree on the view.
    pub(crate) fn prepare_shared_start(&self) -> Result<()> {
        let active = self.state().shared_word;
        let shared = self.shared.as_ref().filter(|shared| shared.sets_words());
        shared.map_or(Ok(()), |shared| shared.store_other(active, 0))
    }

    fn switch_shared_word(&self) {
        self.switch_shared_word_in(&mut self.state());
    }

    /// Makes the other word the pointer. Called on all ranks.
    pub(crate) fn switch_shared_word_in(&self, state: &mut State) {
        state.shared_word = state.shared_word.other();
        if let Some(pointer) = &self.shared {
            pointer.forget_position();
        }
    }

    /// Checks an ordered access, and gives each rank the place after those of the lower ranks.
    /// Collective; blocks for the other ranks. All ranks must call it: a rank whose arguments are wrong
    /// passes the error. Then no place is taken, and the access must fail on all ranks.
    ///
    /// # Safety
    /// As [`File::access`].
    pub(crate) unsafe fn prepare_ordered(
        &self,
        direction: Direction,
        memory: Result<UserMemory>,
    ) -> Result<PreparedAccess> {
        // SAFETY: `# Safety` of `check_shared` is `# Safety` of this function.
        let checked = memory.and_then(|memory| unsafe { self.check_shared(direction, &memory) });
        let bytes = checked.as_ref().map_or(FAILED, CheckedAccess::bytes);
        let gathered = self.agree().gather(&bytes.to_le_bytes())?;
        let mut places = gathered.map_or_else(Vec::new, |all| self.places(&all, checked.as_ref().ok()));
        self.agree().broadcast(Rank(0), &mut places)?;
        let checked = checked?;
        match word_at(&places, self.group.rank().0 as usize) {
            Some(BEYOND) => Err(beyond()),
            // Any place will do: the access fails on all ranks, because the ranks with wrong arguments
            // pass their error to its agreement.
            None | Some(FAILED) => checked.at(0),
            Some(start) => checked.at(start),
        }
    }

    /// Takes the places of all ranks. Called on the first rank. Returns where each rank begins, or why
    /// there are no places.
    fn places(&self, all: &[Vec<u8>], own: Option<&CheckedAccess>) -> Vec<u8> {
        let bytes: Vec<u64> = all.iter().map(|bytes| word_at(bytes, 0).unwrap_or(FAILED)).collect();
        let active = self.state().shared_word;
        let starts = match own {
            Some(own) if !bytes.contains(&FAILED) => {
                let total = bytes.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
                let first = total.and_then(|total| self.take_shared(active, total, own.view()).ok());
                let start = |at: usize, first: u64| first + bytes[..at].iter().sum::<u64>();
                (0..bytes.len()).map(|at| first.map_or(BEYOND, |first| start(at, first))).collect()
            }
            _ => vec![FAILED; bytes.len()],
        };
        starts.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Checks an access at the shared file pointer, apart from its place.
    ///
    /// # Safety
    /// As [`File::access`].
    unsafe fn check_shared(&self, direction: Direction, memory: &UserMemory) -> Result<CheckedAccess> {
        self.shared()?;
        let view = self.state().view.clone();
        // SAFETY: `# Safety` of `check` is `# Safety` of this function.
        unsafe { self.check(direction, view, memory) }
    }
}

fn beyond() -> Error {
    Error::argument(
        ErrorClass::Arg,
        "the access at the shared file pointer exceeds the view or the largest offset",
    )
}
