//! Locks carried on by what performs their effects.

use std::fmt::Debug;

use capulet_comm::NodeWords;
use capulet_protocol::{Effect, Event, Lock, Space};

use crate::Error;

/// Memory that the processes of a lock share.
pub trait Memory: Debug + Send + 'static {
    /// Does what a lock wants done; `None` where that must be waited for. Does not wait for what other processes do.
    ///
    /// # Errors
    /// If MPI fails. Nobody knows then what was done, and the lock is of no use any more.
    fn perform(&mut self, effect: &Effect) -> Result<Option<Event<'_>>, Error>;

    /// Where a process sleeps that waits for a wake-up of this kind; nowhere if those who leave it do not end its sleep.
    fn bed(&self, _: Space) -> Option<NodeWords> {
        None
    }

    /// A process that has ended, by its number among those that share the lock, as far as that can be known.
    fn dead(&self) -> Option<usize> {
        None
    }

    /// Before the lock ends, and holds nothing: true when nothing of it is under way.
    ///
    /// # Errors
    /// If MPI fails.
    fn leave(&mut self) -> Result<bool, Error> {
        Ok(true)
    }
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
    ///
    /// # Errors
    /// As [`Memory::perform`].
    pub(crate) fn go_on(&mut self, memory: &mut impl Memory) -> Result<bool, Error> {
        self.run(None, memory)
    }

    /// Begins to acquire or to release it, and goes on as far as it can without waiting. True if it is held, or free.
    ///
    /// # Errors
    /// As [`Memory::perform`].
    pub(crate) fn start(&mut self, event: Event<'_>, memory: &mut impl Memory) -> Result<bool, Error> {
        self.run(Some(event), memory)
    }

    fn run(&mut self, event: Option<Event<'_>>, memory: &mut impl Memory) -> Result<bool, Error> {
        let mut event = match event {
            Some(event) => event,
            None if matches!(self.next, Effect::Held | Effect::Free) => return Ok(true),
            None => match memory.perform(&self.next)? {
                Some(event) => event,
                None => return Ok(false),
            },
        };
        loop {
            // Kept only where it is waited for: to move an effect takes longer than to perform it.
            let effect = self.lock.step(event);
            if matches!(effect, Effect::Held | Effect::Free) {
                self.next = effect;
                return Ok(true);
            }
            match memory.perform(&effect) {
                Ok(Some(then)) => event = then,
                outcome => {
                    let waits = outcome.map(|_| false);
                    self.next = effect;
                    return waits;
                }
            }
        }
    }

    /// Its state.
    pub(crate) fn lock(&self) -> &L {
        &self.lock
    }

    /// Whether it is held, once it has gone on to the end.
    pub(crate) fn is_held(&self) -> bool {
        self.next == Effect::Held
    }

    /// Which wake-up it waits for, if it does not wait for what another process is about to store.
    pub(crate) fn sleeps_in(&self) -> Option<Space> {
        if let Effect::AwaitWake(space) = self.next { Some(space) } else { None }
    }
}
