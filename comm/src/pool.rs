//! Memory that is created once for a set of processes, and divided among the files that these processes
//! open and close.
//!
//! The creation of a window takes as long as the open of a file, and an MPI library has room for a few
//! thousand windows. So one window serves many files, even if every file is opened on a communicator of
//! its own. Each file has one slot (`PoolSlot`) of the memory.
//!
//! Below `MPI_THREAD_MULTIPLE` the slot of a file has the id of its channel. The ranks have agreed on
//! this id, and no other open file of any of the ranks has it. With `MPI_THREAD_MULTIPLE` several groups
//! of the same processes exist at the same time, and threads may open their files in any order. So there
//! rank 0 gives out the slots, one at a time, and broadcasts them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capulet_agreement::Ids;

use crate::collective;
use crate::error::{Error, Result};
use crate::ffi;
use crate::members::{Members, Stamp};
use crate::message::Wire;

/// The number of files that share one piece of memory.
pub(crate) const SLOTS: u32 = 32;

/// The memory of one set of processes, in one order.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    members: Members,
    /// The pieces by number. A piece without memory could not be created. The mutex is locked during the
    /// creation of a piece.
    pieces: Mutex<BTreeMap<u32, Piece<M>>>,
    /// The slots that rank 0 has given out. They have a mutex of their own, because a file may be closed
    /// during the creation of a piece, even by the same thread.
    taken: Mutex<Ids>,
}

/// A piece of memory, and the stamp of the group that created it.
#[derive(Debug)]
struct Piece<M> {
    memory: Option<Arc<M>>,
    stamp: Stamp,
}

/// The slot of a file in a piece of memory. Dropping the value frees the slot.
#[derive(Debug)]
pub(crate) struct PoolSlot<M> {
    pub(crate) memory: Arc<M>,
    /// The number of the slot in this memory, below [`SLOTS`].
    pub(crate) number: usize,
    /// The pool and the number to free, if rank 0 has given out the slot.
    given_out: Option<(Arc<Pool<M>>, u32)>,
}

impl<M> Drop for PoolSlot<M> {
    fn drop(&mut self) {
        if let Some((pool, slot)) = &self.given_out {
            pool.taken().give_back(*slot);
        }
    }
}

/// The way in which the slot of a file is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// The slot has this number on all ranks. No other file that is open on any of the ranks has the same
    /// number.
    Known(u32),
    /// Rank 0 chooses the slot and broadcasts its number.
    First,
}

/// All pools of one kind.
#[derive(Debug)]
pub(crate) struct Pools<M>(Mutex<Vec<Arc<Pool<M>>>>);

impl<M> Pools<M> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The pool of the processes of a communicator. Creates it if there is none. Local.
    pub(crate) fn of(&self, comm: ffi::MPI_Comm) -> Result<Arc<Pool<M>>> {
        let members = Members::of(comm)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for pool in &*all {
            if pool.members.are(&members)? {
                members.free();
                return Ok(Arc::clone(pool));
            }
        }
        let pool = Arc::new(Pool { members, pieces: Mutex::default(), taken: Mutex::new(Ids::new()) });
        all.push(Arc::clone(&pool));
        Ok(pool)
    }

    /// Takes all pieces, in `MPI_Finalize`. Their order is the same on all ranks of a piece.
    pub(crate) fn take_all(&self) -> Vec<Arc<M>> {
        let pools = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut pieces = Vec::new();
        for pool in pools {
            let taken = std::mem::take(&mut *pool.pieces());
            pieces.extend(taken.into_iter().map(|(number, piece)| ((piece.stamp, number), piece.memory)));
        }
        pieces.sort_by_key(|(order, _)| *order);
        pieces.into_iter().filter_map(|(_, memory)| memory).collect()
    }
}

impl<M> Pool<M> {
    fn pieces(&self) -> MutexGuard<'_, BTreeMap<u32, Piece<M>>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, Ids> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the smallest free slot.
    fn take_next(&self) -> u32 {
        let mut taken = self.taken();
        let slot = taken.first_free(0);
        taken.take(slot);
        slot
    }

    /// Takes a slot for a file. Collective over the processes of the pool. No other call may use the tag
    /// of `wire` at the same time. `make` creates a piece for the group with the given stamp; it is
    /// collective too. `None` if there is no memory for the piece.
    ///
    /// # Errors
    /// If MPI fails.
    pub(crate) fn take(
        self: &Arc<Self>,
        wire: Wire<'_>,
        stamp: Stamp,
        choice: Choice,
        make: impl FnOnce() -> Result<Option<M>>,
    ) -> Result<Option<PoolSlot<M>>> {
        let (mut pieces, slot) = match choice {
            Choice::Known(slot) => (self.pieces(), slot),
            // Rank 0 holds the lock during the broadcast and the creation, so it creates one piece at a
            // time. Each other rank holds its lock from the end of the broadcast until the piece is
            // created. So all ranks create the pieces in the same order.
            Choice::First if wire.rank == 0 => {
                let (pieces, slot) = (self.pieces(), self.take_next());
                collective::broadcast(wire, 0, &mut slot.to_ne_bytes().to_vec())?;
                (pieces, slot)
            }
            Choice::First => {
                let mut received = Vec::new();
                collective::broadcast(wire, 0, &mut received)?;
                let slot = received.as_slice().try_into().map(u32::from_ne_bytes);
                (self.pieces(), slot.map_err(|_| Error::Disagreement { what: "a slot of shared memory" })?)
            }
        };
        let number = slot / SLOTS;
        let piece = match pieces.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Piece { memory: make()?.map(Arc::new), stamp }),
        };
        let given_out = matches!(choice, Choice::First).then(|| (Arc::clone(self), slot));
        let Some(memory) = piece.memory.clone() else {
            self.taken().give_back(slot);
            return Ok(None);
        };
        Ok(Some(PoolSlot { memory, number: (slot % SLOTS) as usize, given_out }))
    }
}
