//! Memory that is made once for a set of processes, and shared out among the files that come and go among them.
//!
//! To make a window takes as long as to open a file, and an MPI has room for a few thousand. So one serves many files, also where
//! every file is opened on a communicator of its own. Below `MPI_THREAD_MULTIPLE` a file's lot is its channel's number, on which its ranks
//! have agreed, and which no other open file of any of them has. With it several groups of the same processes live side by side, whose
//! files threads may open in any order, so there the first rank gives out the lots, one at a time, and tells them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capulet_agreement::Ids;

use crate::collective;
use crate::error::{Error, Result};
use crate::ffi;
use crate::members::Members;
use crate::message::Wire;
use crate::registry::Stamp;

/// Files that share one piece of memory.
pub(crate) const LOTS: u32 = 32;

/// The memory of one set of processes, in one order.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    members: Members,
    /// In the order of lots; none where it could not be had. Held while one is made.
    pieces: Mutex<BTreeMap<u32, Piece<M>>>,
    /// The lots that the first rank has given out. A file may end while a piece is made, on the same thread even.
    taken: Mutex<Ids>,
}

/// What was made, and which group made it.
#[derive(Debug)]
struct Piece<M> {
    memory: Option<Arc<M>>,
    stamp: Stamp,
}

/// A file's part of a piece of memory, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct PoolLot<M> {
    pub(crate) memory: Arc<M>,
    /// Which of the [`LOTS`] of this memory.
    pub(crate) number: usize,
    /// Where it is given back.
    given_out: Option<(Arc<Pool<M>>, u32)>,
}

impl<M> Drop for PoolLot<M> {
    fn drop(&mut self) {
        if let Some((pool, lot)) = &self.given_out {
            pool.taken().give_back(*lot);
        }
    }
}

/// Who chooses a file's lot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// It has this number, on all ranks, and no other file that is open on any of them has it.
    Known(u32),
    /// The first rank.
    First,
}

/// All pools of one kind.
#[derive(Debug)]
pub(crate) struct Pools<M>(Mutex<Vec<Arc<Pool<M>>>>);

impl<M> Pools<M> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// That of the processes of a communicator. Local.
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

    /// In `MPI_Finalize`: all pieces, in an order that is the same on all their ranks.
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

    /// The smallest lot that no file has, which has one then.
    fn take_next(&self) -> u32 {
        let mut taken = self.taken();
        let lot = taken.first_free(0);
        taken.take(lot);
        lot
    }

    /// A lot for a file. Collective over these processes, on a tag that only this call uses meanwhile; `make` is too, and makes a piece
    /// for a group with this stamp. `None` if there is no memory for it.
    ///
    /// # Errors
    /// If MPI fails.
    pub(crate) fn take(
        self: &Arc<Self>,
        wire: Wire<'_>,
        stamp: Stamp,
        choice: Choice,
        make: impl FnOnce() -> Result<Option<M>>,
    ) -> Result<Option<PoolLot<M>>> {
        let (mut pieces, lot) = match choice {
            Choice::Known(lot) => (self.pieces(), lot),
            // While it holds the lock and calls the others nobody can make another piece: whoever is called holds the lock until it
            // is through, so threads make them in one order on all ranks.
            Choice::First if wire.rank == 0 => {
                let (pieces, lot) = (self.pieces(), self.take_next());
                collective::broadcast(wire, 0, &mut lot.to_ne_bytes().to_vec())?;
                (pieces, lot)
            }
            Choice::First => {
                let mut told = Vec::new();
                collective::broadcast(wire, 0, &mut told)?;
                let lot = told.as_slice().try_into().map(u32::from_ne_bytes);
                (self.pieces(), lot.map_err(|_| Error::Disagreement { what: "a lot of shared memory" })?)
            }
        };
        let number = lot / LOTS;
        let piece = match pieces.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Piece { memory: make()?.map(Arc::new), stamp }),
        };
        let given_out = matches!(choice, Choice::First).then(|| (Arc::clone(self), lot));
        let Some(memory) = piece.memory.clone() else {
            self.taken().give_back(lot);
            return Ok(None);
        };
        Ok(Some(PoolLot { memory, number: (lot % LOTS) as usize, given_out }))
    }
}
