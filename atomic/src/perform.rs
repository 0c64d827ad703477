//! Performs the effects of lock protocols, and steps the protocols.

use std::fmt::Debug;

use capulet_comm::NodeWords;
use capulet_protocol::{Effect, Event, Lock, Space};

use crate::Error;

/// Memory that the processes of a lock share.
pub trait Memory: Debug + Send + 'static {
    /// Performs an effect, and returns the event that follows. `None` if the effect has to wait. Does not
    /// wait for other processes.
    ///
    /// # Errors
    /// If MPI fails. Then it is not known what was done, and the lock must not be used any more.
    fn perform(&mut self, effect: &Effect) -> Result<Option<Event<'_>>, Error>;

    /// The words on which a process sleeps that waits for a wake-up in this space. `None` if a wake-up
    /// does not end a sleep there.
    fn bed(&self, _: Space) -> Option<NodeWords> {
        None
    }

    /// A process that has ended, by its number among the processes that share the lock, as far as this is
    /// known.
    fn dead(&self) -> Option<usize> {
        None
    }

    /// Prepares the end of a lock that holds nothing. True when nothing of the lock is under way any
    /// more; otherwise the caller calls again.
    ///
    /// # Errors
    /// If MPI fails.
    fn leave(&mut self) -> Result<bool, Error> {
        Ok(true)
    }
}

/// A lock, and its next effect.
#[derive(Debug)]
pub(crate) struct Carried<L> {
    lock: L,
    next: Effect,
}

impl<L: Lock> Carried<L> {
    pub(crate) fn new(lock: L) -> Self {
        Self { lock, next: Effect::Free }
    }

    /// Begins to acquire, to release or to give up. The caller then calls [`Carried::go_on`] until it
    /// returns true.
    pub(crate) fn begin(&mut self, event: Event<'_>) {
        self.next = self.lock.step(event);
    }

    /// Goes on as far as possible without waiting. True if the lock is held or free.
    ///
    /// # Errors
    /// As [`Memory::perform`].
    pub(crate) fn go_on(&mut self, memory: &mut impl Memory) -> Result<bool, Error> {
        self.run(None, memory)
    }

    /// Begins to acquire or to release, and goes on as far as possible without waiting. True if the lock
    /// is held or free.
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
            // The effect is stored only if it has to wait: to move an effect takes longer than to perform
            // it.
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

    /// The state of the protocol.
    pub(crate) fn lock(&self) -> &L {
        &self.lock
    }

    /// Whether the lock is held. For use after [`Carried::go_on`] has returned true.
    pub(crate) fn is_held(&self) -> bool {
        self.next == Effect::Held
    }

    /// The space of the wake-up that the lock waits for. `None` if it waits for a store that another
    /// process is about to make.
    pub(crate) fn sleeps_in(&self) -> Option<Space> {
        if let Effect::AwaitWake(space) = self.next { Some(space) } else { None }
    }
}
