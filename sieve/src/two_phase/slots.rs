//! What the ranks of a node tell each other at every barrier.
//!
//! Values told at one barrier lie in other slots than those told at the next: a rank that is ahead cannot change what
//! another has not read yet, for it cannot be ahead by two.

use std::sync::atomic::Ordering;

use capulet_comm::{Barriers, NodeShared, Result};

/// The slot of the first rank of a node that says whose turn on the window it is, for those who have several operations under
/// way. Nothing in here touches it.
pub const TURN_SLOT: usize = 15;

/// Slots of one barrier.
const STRIDE: usize = 4;
const NEXT: usize = 0;
const GOOD_END: usize = 1;
const OVERLAP: usize = 2;

/// What one rank tells at a barrier, or what all of them told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// The file offset of the next byte that is needed, `u64::MAX` if there is none.
    pub(super) next: u64,
    /// The file offset up to which all windows were good, `u64::MAX` for all.
    pub(super) good_end: u64,
    /// Whether bytes were found that another rank writes too.
    pub(super) overlap: bool,
}

impl Told {
    pub(super) const NOTHING: Self = Self { next: u64::MAX, good_end: u64::MAX, overlap: false };
}

/// Tells the others and comes to the next barrier.
pub(super) fn tell(shared: &dyn NodeShared, told: Told) -> Result<Barriers> {
    let slots = &shared.slots(shared.place())[shared.barriers().parity() * STRIDE..];
    slots[NEXT].store(told.next, Ordering::Relaxed);
    slots[GOOD_END].store(told.good_end, Ordering::Relaxed);
    slots[OVERLAP].store(told.overlap.into(), Ordering::Relaxed);
    shared.arrive()
}

/// What all ranks told at a barrier that is over. To be called before the next.
pub(super) fn heard(shared: &dyn NodeShared, barrier: Barriers) -> Told {
    let slots = |rank| &shared.slots(rank)[barrier.parity() * STRIDE..];
    let all = (0..shared.ranks()).map(|rank| Told {
        next: slots(rank)[NEXT].load(Ordering::Relaxed),
        good_end: slots(rank)[GOOD_END].load(Ordering::Relaxed),
        overlap: slots(rank)[OVERLAP].load(Ordering::Relaxed) != 0,
    });
    all.fold(Told::NOTHING, |all, one| Told {
        next: all.next.min(one.next),
        good_end: all.good_end.min(one.good_end),
        overlap: all.overlap || one.overlap,
    })
}
