//! Locks carried on by what performs their effects.

use capulet_protocol::{Effect, Event, Lock};

/// Memory that the processes of a lock share.
pub(crate) trait Memory {
    /// Does what a lock wants done; `None` where that must be waited for. Does not wait.
    fn perform(&mut self, effect: &Effect) -> Option<Event<'_>>;
}

/// A lock, and what it wants done next.
#[derive(Debug)]
pub(crate) struct Carried<L> {
    lock: L,
    next: Effect,
}

impl<L: Lock> Carried<L> {
    pub(crate) fn new(lock: L) -> Self {
        Self { lock, next: Effect::Free }
    }

    /// Begins to acquire or to release it. Then [`Carried::go_on`] is to be called until it is true.
    pub(crate) fn begin(&mut self, event: Event<'_>) {
        self.next = self.lock.step(event);
    }

    /// Goes on as far as it can without waiting. True if it is held, or free.
    pub(crate) fn go_on(&mut self, memory: &mut impl Memory) -> bool {
        while !matches!(self.next, Effect::Held | Effect::Free) {
            let Some(event) = memory.perform(&self.next) else { return false };
            self.next = self.lock.step(event);
        }
        true
    }

    /// Its state.
    pub(crate) fn lock(&self) -> &L {
        &self.lock
    }

    /// Whether it is held, once it has gone on to the end.
    pub(crate) fn is_held(&self) -> bool {
        self.next == Effect::Held
    }

    /// Whether it waits to be woken, and not for what another process is about to store.
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self.next, Effect::AwaitWake(_))
    }
}
