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
const FLAGS: usize = 2;
const PACKED_BYTES: usize = 3;
/// Behind those of both barriers: the turn that the next access of this rank begins with.
const TURN: usize = 2 * STRIDE;

/// What one rank tells at a barrier, or what all of them told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// The file offset of the next byte that is needed, `u64::MAX` if there is none.
    pub(super) next: u64,
    /// The file offset up to which all windows were good, `u64::MAX` for all.
    pub(super) good_end: u64,
    /// Whether bytes were found that another rank writes too.
    pub(super) overlap: bool,
    /// Whether a rank has more of the round for other nodes than it could pack.
    pub(super) more: bool,
    /// Whether a node could not make sense of what another one sent.
    pub(super) is_refused: bool,
}

const OVERLAP: u64 = 1;
const MORE: u64 = 2;
const REFUSED: u64 = 4;

impl Told {
    pub(super) const NOTHING: Self =
        Self { next: u64::MAX, good_end: u64::MAX, overlap: false, more: false, is_refused: false };

    /// All that is yes or no, as bits: what several told is the bits of any.
    pub(super) fn flags(self) -> u64 {
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        flag(self.overlap, OVERLAP) | flag(self.more, MORE) | flag(self.is_refused, REFUSED)
    }

    pub(super) fn new(next: u64, good_end: u64, flags: u64) -> Self {
        let is_set = |bit: u64| flags & bit != 0;
        Self { next, good_end, overlap: is_set(OVERLAP), more: is_set(MORE), is_refused: is_set(REFUSED) }
    }

    /// What two told.
    pub(super) fn and(self, other: Self) -> Self {
        let flags = self.flags() | other.flags();
        Self::new(self.next.min(other.next), self.good_end.min(other.good_end), flags)
    }
}

/// Tells the others, with how much of this rank's area is in use, and comes to the next barrier.
pub(super) fn tell(shared: &dyn NodeShared, told: Told, packed_bytes: usize) -> Result<Barriers> {
    let slots = &shared.slots(shared.place())[shared.barriers().parity() * STRIDE..];
    slots[NEXT].store(told.next, Ordering::Relaxed);
    slots[GOOD_END].store(told.good_end, Ordering::Relaxed);
    slots[FLAGS].store(told.flags(), Ordering::Relaxed);
    slots[PACKED_BYTES].store(packed_bytes as u64, Ordering::Relaxed);
    shared.arrive()
}

/// What one rank told at a barrier that is over. To be called before the next.
pub(super) fn heard_from(shared: &dyn NodeShared, barrier: Barriers, rank: usize) -> Told {
    let slots = &shared.slots(rank)[barrier.parity() * STRIDE..];
    let load = |slot: usize| slots[slot].load(Ordering::Relaxed);
    Told::new(load(NEXT), load(GOOD_END), load(FLAGS))
}

/// What all ranks told at a barrier that is over. To be called before the next.
pub(super) fn heard(shared: &dyn NodeShared, barrier: Barriers) -> Told {
    let all = (0..shared.ranks()).map(|rank| heard_from(shared, barrier, rank));
    all.fold(Told::NOTHING, Told::and)
}

/// How much of its area a rank said that it uses, at the barrier that is over.
pub(super) fn packed_bytes_of(shared: &dyn NodeShared, rank: usize, parity: usize) -> u64 {
    shared.slots(rank)[parity * STRIDE + PACKED_BYTES].load(Ordering::Relaxed)
}

/// The turn of windows that an access of this rank begins with: the same on all ranks of the node.
pub(super) fn first_turn(shared: &dyn NodeShared) -> usize {
    shared.slots(shared.place())[TURN].load(Ordering::Relaxed) as usize % 2
}

/// Notes the turn that the next access begins with.
pub(super) fn note_turn(shared: &dyn NodeShared, turn: usize) {
    shared.slots(shared.place())[TURN].store(turn as u64, Ordering::Relaxed);
}
