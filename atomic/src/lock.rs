//! [`ByteLock`]: a lock of any protocol, on memory of any kind, as an [`Isolation`].

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use capulet_comm::work::{self, UnderWay, Work};
use capulet_comm::{Backoff, Rank};
use capulet_protocol::{Event, Lock, Request};

use crate::perform::{Carried, Memory};
use crate::{Error, FileLock, Guard, Isolation, Release, Waiting};

/// The time between two checks whether the awaited processes are alive.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts of what a lock did. Exact on any machine.
#[derive(Debug, Default)]
pub struct LockCounters {
    acquired: AtomicU64,
    waited: AtomicU64,
}

impl LockCounters {
    /// How often the lock was acquired.
    pub fn acquired(&self) -> u64 {
        self.acquired.load(Ordering::Relaxed)
    }

    pub(crate) fn count_acquired(&self) {
        self.acquired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_waited(&self, has_waited: bool) {
        if has_waited {
            self.waited.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many acquisitions had to wait, for another process or for another thread of this process.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

/// One rank's part of a lock of the bytes of a file. Ranks are served in the order of the protocol `L`. A
/// rank has one access in the lock at a time. A try has no place in the order of the waiting accesses:
/// tries are for accesses that are polled, and such an access must not delay others while no thread polls
/// it.
#[derive(Debug)]
pub struct ByteLock<L: Lock, M> {
    /// Whether a thread of this process holds this rank's part of the lock, or acquires it.
    is_busy: AtomicBool,
    inner: Mutex<Inner<L, M>>,
    /// The ranks that share the lock.
    ranks: Vec<Rank>,
    time_limit: Option<Duration>,
    progress: fn(),
    counters: Arc<LockCounters>,
}

/// What a thread waits for. Other ranks wake only the one thread of a rank that waits for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// For another thread of this process, which has this rank's part of the lock.
    Thread,
    /// For another process.
    Process,
}

#[derive(Debug)]
struct Inner<L: Lock, M> {
    carried: Carried<L>,
    memory: M,
    /// MPI has failed, or a panic has interrupted a step. It is not known what is locked.
    is_broken: bool,
    /// A wait was given up. What it acquires later must be released at once. Until then work is under
    /// way.
    owed: Option<UnderWay>,
}

impl<L: Lock, M: Memory> ByteLock<L, M> {
    /// One process's part of a lock among `ranks`. A wait that lasts longer than `time_limit` is given
    /// up. `progress` is called during a wait, at least once a millisecond.
    pub(crate) fn of(
        lock: L,
        memory: M,
        ranks: Vec<Rank>,
        time_limit: Option<Duration>,
        progress: fn(),
    ) -> Arc<Self> {
        let inner = Inner { carried: Carried::new(lock), memory, is_broken: false, owed: None };
        let lock = Arc::new(Self {
            is_busy: AtomicBool::new(false),
            inner: Mutex::new(inner),
            ranks,
            time_limit,
            progress,
            counters: Arc::default(),
        });
        work::register(Arc::downgrade(&lock) as Weak<dyn Work>);
        lock
    }
}

impl<L: Lock, M: Memory> ByteLock<L, M> {
    fn inner(&self) -> MutexGuard<'_, Inner<L, M>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_done`, for at most the time limit. True if it had to wait.
    fn wait(&self, whom: WaitsFor, mut is_done: impl FnMut() -> Result<bool, Error>) -> Result<bool, Error> {
        if is_done()? {
            return Ok(false);
        }
        let (mut backoff, mut waiting) = (Backoff::brisk(), Waiting::new());
        loop {
            let slept = self.pause(whom, &mut backoff);
            if is_done()? {
                return Ok(true);
            }
            self.progress(whom, slept);
            self.look_for_the_dead(&mut waiting)?;
            self.look_at_the_clock(whom, &waiting)?;
        }
    }

    /// One turn of a wait: yields or sleeps. True if it slept.
    fn pause(&self, whom: WaitsFor, backoff: &mut Backoff) -> bool {
        let Some(timeout) = backoff.next_sleep() else {
            std::thread::yield_now();
            return false;
        };
        // The mutex is not held during the sleep, because another thread may settle the lock. Only the
        // words are kept.
        let bed = (whom == WaitsFor::Process).then(|| self.inner()).and_then(|inner| {
            // A store that is about to come sends no wake-up.
            inner.carried.sleeps_in().and_then(|space| inner.memory.bed(space))
        });
        match bed {
            Some(words) => words.sleep(timeout),
            None => std::thread::sleep(timeout),
        }
        true
    }

    /// Lets other work make progress, if this wait may be long. A wait for a process that draws its
    /// number is short, and no other work must run in it: that work could wait for another file's number,
    /// from a rank that does the same the other way round.
    fn progress(&self, whom: WaitsFor, slept: bool) {
        if slept && (whom == WaitsFor::Thread || self.inner().carried.lock().waits_for_holders()) {
            (self.progress)();
        }
    }

    fn look_at_the_clock(&self, whom: WaitsFor, waiting: &Waiting) -> Result<(), Error> {
        let waited = waiting.since.elapsed();
        if self.time_limit.is_none_or(|limit| waited <= limit) {
            return Ok(());
        }
        let (holders, are_nodes) = match whom {
            WaitsFor::Thread => (Vec::new(), false),
            WaitsFor::Process => {
                let inner = self.inner();
                let lock = inner.carried.lock();
                let holders = lock.awaited().iter().map(|place| self.ranks[*place as usize]).collect();
                (holders, lock.awaits_nodes())
            }
        };
        Err(Error::TimedOut { waited, holders, are_nodes })
    }

    /// Checks whether a process of this lock has died, at most once in [`LOOK_EVERY`].
    fn look_for_the_dead(&self, waiting: &mut Waiting) -> Result<(), Error> {
        if waiting.looked.elapsed() <= LOOK_EVERY {
            return Ok(());
        }
        waiting.looked = Instant::now();
        let dead = self.inner().memory.dead();
        dead.map_or(Ok(()), |place| Err(Error::Died { rank: self.ranks[place] }))
    }

    fn acquire(&self, request: &Request) -> Result<(), Error> {
        let mut waited = self.wait(WaitsFor::Thread, || {
            Ok(self.is_busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok())
        })?;
        let part = Part(self);
        let mut inner = self.inner();
        if !inner.settle() {
            drop(inner);
            waited |= self.wait(WaitsFor::Process, || Ok(self.settle()))?;
            inner = self.inner();
        }
        let is_held = inner.start(Event::Acquire(request))?;
        drop(inner);
        if !is_held {
            waited |= self.wait(WaitsFor::Process, || self.inner().go_on())?;
        }
        mem::forget(part);
        self.counters.count_acquired();
        self.counters.count_waited(waited);
        Ok(())
    }

    /// True if the bytes were free and are held now. Waits for no holder ([`Event::Try`]).
    fn try_acquire(&self, request: &Request) -> Result<bool, Error> {
        if self.is_busy.swap(true, Ordering::Acquire) {
            return Ok(false);
        }
        let part = Part(self);
        if !self.settle() {
            return Ok(false);
        }
        let mut is_begun = false;
        self.wait(WaitsFor::Process, || {
            let mut inner = self.inner();
            if mem::replace(&mut is_begun, true) { inner.go_on() } else { inner.start(Event::Try(request)) }
        })?;
        mem::forget(part);
        if !self.inner().carried.is_held() {
            self.is_busy.store(false, Ordering::Release);
            return Ok(false);
        }
        self.counters.count_acquired();
        Ok(true)
    }
}

impl<L: Lock, M: Memory> Release for ByteLock<L, M> {
    fn release(&self) {
        let part = Part(self);
        let started = self.inner().start(Event::Release);
        // Some protocols wait here, for a step that another process is about to make.
        let ended = match started {
            Ok(false) => self.wait(WaitsFor::Process, || self.inner().go_on()).map(drop),
            started => started.map(drop),
        };
        match ended {
            Ok(()) => {
                mem::forget(part);
                self.is_busy.store(false, Ordering::Release);
            }
            Err(error) => tracing::error!(%error, "a lock cannot be released yet"),
        }
    }
}

/// The right to use this rank's part of a lock. If it is dropped, on error or panic, it gives up what was
/// begun.
#[derive(Debug)]
struct Part<'a, L: Lock, M: Memory>(&'a ByteLock<L, M>);

impl<L: Lock, M: Memory> Drop for Part<'_, L, M> {
    fn drop(&mut self) {
        let mut inner = self.0.inner();
        inner.owed.get_or_insert_with(UnderWay::new);
        if !inner.is_broken && inner.carried.lock().can_give_up() {
            // Ranks that come later need not wait until this process calls the lock again.
            inner.carried.begin(Event::GiveUp);
        }
        inner.settle();
        drop(inner);
        self.0.is_busy.store(false, Ordering::Release);
    }
}

impl<L: Lock, M: Memory> Work for ByteLock<L, M> {
    fn advance(&self) {
        // If the mutex is held, its holder makes the progress.
        if let Ok(mut inner) = self.inner.try_lock() {
            inner.settle();
        }
    }
}

impl<L: Lock, M: Memory> Inner<L, M> {
    /// Begins an acquisition or a release, and goes on as far as it can without waiting. True if it is
    /// complete.
    fn start(&mut self, event: Event<'_>) -> Result<bool, Error> {
        if self.is_broken {
            return Err(Error::Broken);
        }
        // Set during the step, so that a panic in it leaves the lock broken.
        self.is_broken = true;
        let done = self.carried.start(event, &mut self.memory);
        self.is_broken = done.is_err();
        done
    }

    fn go_on(&mut self) -> Result<bool, Error> {
        if self.is_broken {
            return Err(Error::Broken);
        }
        self.is_broken = true;
        let done = self.carried.go_on(&mut self.memory);
        self.is_broken = done.is_err();
        done
    }

    fn settle(&mut self) -> bool {
        match self.try_settle() {
            Ok(is_settled) => is_settled,
            Err(error) => {
                // No later call could do better.
                tracing::error!(%error, "a lock whose wait was given up cannot be released");
                self.owed = None;
                true
            }
        }
    }

    fn try_settle(&mut self) -> Result<bool, Error> {
        if self.owed.is_some() && self.go_on()? {
            if self.carried.is_held() {
                self.carried.begin(Event::Release);
            }
            if self.go_on()? && !self.carried.is_held() {
                self.owed = None;
            }
        }
        Ok(self.owed.is_none())
    }
}

impl<L: Lock, M: Memory> FileLock for ByteLock<L, M> {
    fn counters(&self) -> &Arc<LockCounters> {
        &self.counters
    }

    fn settle(&self) -> bool {
        self.inner().settle()
    }

    fn finish(&self) -> Result<(), Error> {
        let (mut backoff, mut waiting) = (Backoff::brisk(), Waiting::new());
        while !self.settle() {
            let slept = self.pause(WaitsFor::Process, &mut backoff);
            self.progress(WaitsFor::Process, slept);
            self.look_for_the_dead(&mut waiting)?;
        }
        while !self.inner().memory.leave()? {
            backoff.pause();
        }
        Ok(())
    }
}

impl<L: Lock, M: Memory> Isolation for ByteLock<L, M> {
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error> {
        self.acquire(request)?;
        Ok(Guard::of(self))
    }

    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error> {
        if self.try_acquire(request)? {
            return Ok(Some(Guard::of(self)));
        }
        self.look_for_the_dead(waiting)?;
        self.look_at_the_clock(WaitsFor::Process, waiting)?;
        Ok(None)
    }
}
