//! The lock of a node as an [`Isolation`].

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use capulet_comm::work::{self, UnderWay, Work};
use capulet_comm::{Backoff, NodeWords, Rank};
use capulet_protocol::{Bakery, Event, Request, Space};

use crate::node::{LOCK_WORD, NodeMemory};
use crate::perform::Carried;
use crate::process::Identity;
use crate::{Error, Guard, Isolation, Waiting};

/// How often it is looked whether those that are waited for live.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a lock did. Exact on any machine.
#[derive(Debug, Default)]
pub struct LockCounters {
    acquired: AtomicU64,
    waited: AtomicU64,
}

impl LockCounters {
    /// How often it was acquired.
    pub fn acquired(&self) -> u64 {
        self.acquired.load(Ordering::Relaxed)
    }

    /// How often that had to wait, for another process or for another thread of this one.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

/// Bytes of a file, locked among the ranks of a node: first come, first served where they conflict, and at once where they do not.
/// One access at a time of each rank. Who tries has no place among those who wait: it is for accesses that are polled, which must
/// not keep others waiting while nobody polls them.
#[derive(Debug)]
pub struct NodeLock {
    /// Whether a thread of this process has it or wants it.
    is_busy: AtomicBool,
    inner: Mutex<Inner>,
    /// The ranks of the node.
    ranks: Vec<Rank>,
    identity: Option<Identity>,
    time_limit: Option<Duration>,
    progress: fn(),
    counters: Arc<LockCounters>,
}

/// Whom a thread waits for: only one of each rank is woken by other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    Thread,
    Process,
}

#[derive(Debug)]
struct Inner {
    carried: Carried<Bakery>,
    memory: NodeMemory,
    /// A wait was given up: what it waited for is to be let go of when it comes. Work is under way until then.
    owed: Option<UnderWay>,
}

impl NodeLock {
    /// The lock that these words are of, among `ranks`. A wait that lasts longer than `time_limit` is given up. `progress` is called
    /// while it waits, at least once a millisecond.
    pub fn new(
        words: NodeWords,
        ranks: Vec<Rank>,
        time_limit: Option<Duration>,
        progress: fn(),
    ) -> Arc<Self> {
        let (me, count) = (words.place() as u32, ranks.len() as u32);
        let lock = Bakery::new(Space::Node, LOCK_WORD, me, count);
        let memory = NodeMemory::new(words, count);
        let identity = Identity::own();
        memory.introduce(identity);
        let inner = Inner { carried: Carried::new(lock), memory, owed: None };
        let lock = Arc::new(Self {
            is_busy: AtomicBool::new(false),
            inner: Mutex::new(inner),
            ranks,
            identity,
            time_limit,
            progress,
            counters: Arc::default(),
        });
        work::register(Arc::downgrade(&lock) as Weak<dyn Work>);
        lock
    }

    /// What it did.
    pub fn counters(&self) -> &Arc<LockCounters> {
        &self.counters
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of what a wait that was given up has got, as far as that is possible without waiting. True if nothing is left of it.
    /// Every wait of this process does so; who takes the lock's words away must have seen it true.
    pub fn settle(&self) -> bool {
        self.inner().settle()
    }

    /// Waits until nothing is left of what was given up: before the lock ends, when no rank will lock anything more.
    ///
    /// # Errors
    /// [`Error::Died`] where that would be for ever.
    pub fn finish(&self) -> Result<(), Error> {
        let (mut backoff, mut waiting) = (Backoff::new(), Waiting::new());
        while !self.settle() {
            let slept = self.pause(WaitsFor::Process, &mut backoff);
            self.progress(WaitsFor::Process, slept);
            self.look_for_the_dead(&mut waiting)?;
        }
        // It may end now, and has nothing.
        self.inner().memory.introduce(None);
        Ok(())
    }

    /// Waits until `is_done`, for no longer than the limit. `whom` is what this thread waits for. True if it had to wait.
    fn wait(
        &self,
        whom: WaitsFor,
        request: &Request,
        mut is_done: impl FnMut() -> bool,
    ) -> Result<bool, Error> {
        if is_done() {
            return Ok(false);
        }
        let (mut backoff, mut waiting) = (Backoff::new(), Waiting::new());
        loop {
            let slept = self.pause(whom, &mut backoff);
            if is_done() {
                return Ok(true);
            }
            self.progress(whom, slept);
            self.look_for_the_dead(&mut waiting)?;
            self.look_at_the_clock(&waiting, request)?;
        }
    }

    /// True if it slept.
    fn pause(&self, whom: WaitsFor, backoff: &mut Backoff) -> bool {
        let Some(timeout) = backoff.next_sleep() else {
            std::thread::yield_now();
            return false;
        };
        // Another thread may want to go on meanwhile: the words alone are kept.
        let words = (whom == WaitsFor::Process).then(|| self.inner()).and_then(|inner| {
            // What is about to be stored comes without a wake-up.
            inner.carried.is_asleep().then(|| inner.memory.words().clone())
        });
        match words {
            Some(words) => words.sleep(timeout),
            None => std::thread::sleep(timeout),
        }
        true
    }

    /// Lets other work go on, if this is a long wait. Not while another rank draws its number: that is no long wait.
    fn progress(&self, whom: WaitsFor, slept: bool) {
        if slept && (whom == WaitsFor::Thread || self.inner().carried.lock().waits_for_bytes()) {
            (self.progress)();
        }
    }

    fn look_at_the_clock(&self, waiting: &Waiting, request: &Request) -> Result<(), Error> {
        let waited = waiting.since.elapsed();
        if self.time_limit.is_none_or(|limit| waited <= limit) {
            return Ok(());
        }
        let holders = self.inner().memory.holders(request);
        Err(Error::TimedOut { waited, holders: holders.into_iter().map(|place| self.ranks[place]).collect() })
    }

    /// Every now and then.
    fn look_for_the_dead(&self, waiting: &mut Waiting) -> Result<(), Error> {
        if waiting.looked.elapsed() <= LOOK_EVERY {
            return Ok(());
        }
        waiting.looked = Instant::now();
        let Some(own) = self.identity else { return Ok(()) };
        let inner = self.inner();
        let dead = (0..self.ranks.len()).find(|place| inner.memory.identity(*place).is_dead(own));
        dead.map_or(Ok(()), |place| Err(Error::Died { rank: self.ranks[place] }))
    }

    fn acquire(&self, request: &Request) -> Result<(), Error> {
        let mut waited = self.wait(WaitsFor::Thread, request, || {
            self.is_busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        let part = Part(self);
        waited |= self.wait(WaitsFor::Process, request, || self.settle())?;
        self.inner().carried.begin(Event::Acquire(request));
        waited |= self.wait(WaitsFor::Process, request, || self.inner().go_on())?;
        mem::forget(part);
        self.counters.acquired.fetch_add(1, Ordering::Relaxed);
        self.counters.waited.fetch_add(waited.into(), Ordering::Relaxed);
        Ok(())
    }

    /// True if it was to be had. Waits for nobody but those that are about to draw a number.
    fn try_acquire(&self, request: &Request) -> Result<bool, Error> {
        if self.is_busy.swap(true, Ordering::Acquire) {
            return Ok(false);
        }
        let part = Part(self);
        if !self.settle() {
            return Ok(false);
        }
        self.inner().carried.begin(Event::Try(request));
        self.wait(WaitsFor::Process, request, || self.inner().go_on())?;
        mem::forget(part);
        if !self.inner().carried.is_held() {
            self.is_busy.store(false, Ordering::Release);
            return Ok(false);
        }
        self.counters.acquired.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn release(&self) {
        let part = Part(self);
        self.inner().carried.begin(Event::Release);
        // There is nothing to wait for; but a lock may be one that waits.
        match self.wait(WaitsFor::Process, &Request::whole(), || self.inner().go_on()) {
            Ok(_) => {
                mem::forget(part);
                self.is_busy.store(false, Ordering::Release);
            }
            Err(error) => tracing::error!(%error, "a lock cannot be released yet"),
        }
    }
}

/// The right to use this rank's part of a lock. Dropped, on error and panic, it gives up what was begun.
#[derive(Debug)]
struct Part<'a>(&'a NodeLock);

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.0.inner().owed.get_or_insert_with(UnderWay::new);
        self.0.is_busy.store(false, Ordering::Release);
    }
}

impl Work for NodeLock {
    fn advance(&self) {
        // If somebody is at it, it goes on there.
        if let Ok(mut inner) = self.inner.try_lock() {
            inner.settle();
        }
    }
}

impl Drop for NodeLock {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !inner.settle() {
            tracing::error!("a lock ends while this process has a part in it that it gave up");
        }
    }
}

impl Inner {
    fn go_on(&mut self) -> bool {
        self.carried.go_on(&mut self.memory)
    }

    fn settle(&mut self) -> bool {
        if self.owed.is_some() && self.go_on() {
            if self.carried.is_held() {
                self.carried.begin(Event::Release);
            }
            if self.go_on() && !self.carried.is_held() {
                self.owed = None;
            }
        }
        self.owed.is_none()
    }
}

impl Isolation for NodeLock {
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error> {
        self.acquire(request)?;
        Ok(Guard::holding(Held(self)))
    }

    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error> {
        if self.try_acquire(request)? {
            return Ok(Some(Guard::holding(Held(self))));
        }
        self.look_for_the_dead(waiting)?;
        self.look_at_the_clock(waiting, request)?;
        Ok(None)
    }
}

/// Releases it.
#[derive(Debug)]
struct Held<'a>(&'a NodeLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
