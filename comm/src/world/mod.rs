//! Words of 64 bits that all ranks of a group reach, also ranks of other nodes.
//!
//! ```text
//! part of a rank:  | own words, per slot | table of each slot whose home is this rank | departed ranks |
//! ```
//! The memory has L slots (`SLOTS`), one per file. The home of slot i is rank i mod N, for N ranks. Memory
//! per rank: 8 bytes x (L 8 + ceil(L / N) N 20 + 1).
//!
//! There are three mechanisms ([`Mechanism`]): an MPI window (`window`), a server thread in each process that
//! speaks TCP (`served`), and messages that the target answers in its waits (`messaged`). Every operation is
//! complete at its target when the function returns.

mod medium;
mod messaged;
mod served;
mod window;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use self::medium::{At, FetchOp, Medium, Width};
use self::messaged::Messaged;
use self::served::Served;
use self::window::Window;
use crate::agree::{Agree, ReduceOp};
use crate::backoff::Backoff;
use crate::collective;
use crate::error::{Error, Result};
use crate::message::{Counters, Wire};
use crate::pool::{PoolSlot, Pools, SLOTS};

/// The kind of epochs in which the operations on a window run (MPI-4.0 section 12.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epochs {
    /// One epoch for the life of the window, on all ranks. Each operation on a single word is atomic.
    Standing,
    /// One epoch with an exclusive lock per operation. It excludes all other operations at the same target.
    Exclusive,
}

/// How ranks reach the words of other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mechanism {
    /// A window if all ranks are on one machine, or if a measurement shows that operations complete while
    /// their target computes. Otherwise a server. If no server can be reached, messages, but only if the MPI
    /// of every rank calls this crate while it waits.
    #[default]
    Auto,
    /// An MPI window. Whether an operation waits for a call of MPI by its target depends on the MPI.
    Window,
    /// A thread of each process that answers requests over TCP. It makes no MPI call, so an operation never
    /// waits for the rank that holds the words.
    Server,
    /// Messages of MPI, answered by the rank that holds the words: in a wait or a call of this crate, and in
    /// a wait of MPI if the MPI always calls this crate there (Open MPI).
    Messages,
}

impl Mechanism {
    const ALL: [Self; 4] = [Self::Auto, Self::Window, Self::Server, Self::Messages];

    /// The name of the mechanism, as in the hint.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Window => "window",
            Self::Server => "server",
            Self::Messages => "messages",
        }
    }
}

impl FromStr for Mechanism {
    type Err = ();

    fn from_str(name: &str) -> std::result::Result<Self, ()> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name).ok_or(())
    }
}

/// Words of all ranks of a group.
#[derive(Debug)]
pub(crate) struct WorldMemory {
    medium: Box<dyn Medium>,
    mechanism: Mechanism,
    rank: u32,
    ranks: u32,
    /// Set in `MPI_Finalize`. No operation starts after that.
    closed: AtomicBool,
}

/// The pools of words: by mechanism, with standing and with exclusive epochs.
static POOLS: [[Pools<WorldMemory>; 2]; Mechanism::ALL.len()] = [
    const { [Pools::new(), Pools::new()] },
    const { [Pools::new(), Pools::new()] },
    const { [Pools::new(), Pools::new()] },
    const { [Pools::new(), Pools::new()] },
];

/// The pools of the words of one mechanism with one kind of epochs.
pub(crate) fn pools(mechanism: Mechanism, epochs: Epochs) -> &'static Pools<WorldMemory> {
    &POOLS[mechanism as usize][usize::from(epochs == Epochs::Exclusive)]
}

/// Frees the words in `MPI_Finalize`, also if a file is still open. They are freed when all their ranks
/// have reached this function. If some ranks do not reach it for a long time, a window is leaked on all
/// ranks.
pub(crate) fn close() {
    for memory in POOLS.iter().flatten().flat_map(Pools::take_all) {
        memory.closed.store(true, Ordering::Release);
        let departed = if memory.medium.waits_at_close() { Ok(true) } else { memory.depart() };
        let all_departed = departed.unwrap_or_else(|error| {
            tracing::warn!(%error, "the ranks cannot agree on the end of their words");
            false
        });
        memory.medium.close(all_departed);
    }
}

impl WorldMemory {
    /// Creates words. Collective over the communicator. `None` on all ranks if the creation failed on some
    /// rank.
    pub(crate) fn allocate(
        wire: Wire<'_>,
        mechanism: Mechanism,
        epochs: Epochs,
        is_one_machine: bool,
    ) -> Result<Option<Self>> {
        if matches!(mechanism, Mechanism::Auto | Mechanism::Window)
            && let Some(memory) = Self::in_window(wire, epochs, is_one_machine)?
        {
            if mechanism == Mechanism::Window || is_one_machine || memory.is_passive(wire)? {
                return Ok(Some(memory.reported()));
            }
            // Collective: all ranks have the window and the same measurement.
            memory.medium.close(true);
        }
        if mechanism == Mechanism::Window || (mechanism == Mechanism::Auto && is_one_machine) {
            return Ok(None);
        }
        if mechanism != Mechanism::Messages {
            let served = agreed(wire, Served::make(wire, part_words(wire.size)), false)?;
            if mechanism == Mechanism::Server || served.is_some() {
                return Ok(served.map(|made| Self::of(wire, Box::new(made), Mechanism::Server).reported()));
            }
        }
        let is_answered_in_mpi = messaged::is_answered_in_mpi(wire)?;
        // A program may block in MPI without an end until another rank has changed a file. With an MPI that
        // does not call this crate then, only the user can know that the program does not.
        if mechanism == Mechanism::Auto && !is_answered_in_mpi {
            return Ok(None);
        }
        let made = Messaged::make(wire, part_words(wire.size), is_answered_in_mpi);
        let messaged = agreed(wire, made, false)?;
        Ok(messaged.map(|made| Self::of(wire, Box::new(made), Mechanism::Messages).reported()))
    }

    /// Tells the user how the words are reached. One rank tells it for all.
    fn reported(self) -> Self {
        if self.rank == 0 {
            let (mechanism, ranks) = (self.mechanism.name(), self.ranks);
            let guarantee = self.medium.guarantee();
            tracing::info!(mechanism, ranks, guarantee, "words of locks and shared file pointers");
        }
        self
    }

    /// Words in a window.
    fn in_window(wire: Wire<'_>, epochs: Epochs, is_one_machine: bool) -> Result<Option<Self>> {
        // If the creation failed on one rank, the others leak their window.
        let made = agreed(wire, Window::make(wire, part_words(wire.size), epochs, is_one_machine), true)?;
        Ok(made.map(|window| Self::of(wire, Box::new(window), Mechanism::Window)))
    }

    fn of(wire: Wire<'_>, medium: Box<dyn Medium>, mechanism: Mechanism) -> Self {
        Self { medium, mechanism, rank: wire.rank, ranks: wire.size, closed: AtomicBool::new(false) }
    }

    /// Whether operations at rank 0 complete while this rank computes and makes no MPI call. Collective over
    /// the communicator. Takes about 30 ms. The result is the same on all ranks.
    fn is_passive(&self, wire: Wire<'_>) -> Result<bool> {
        collective::allreduce(wire, &mut [0], &[ReduceOp::Max])?;
        let mut lanes = [self.wait_us_at(0)];
        collective::allreduce(wire, &mut lanes, &[ReduceOp::Max])?;
        Ok(lanes[0] < PASSIVE_BELOW.as_micros() as u64)
    }

    /// [`WorldMemory::wait_at`] in microseconds. An error counts as an endless wait, so that this rank reaches
    /// the agreement for which the other ranks wait.
    fn wait_us_at(&self, home: u32) -> u64 {
        self.wait_at(home).map_or_else(
            |error| {
                tracing::warn!(%error, "an operation on the words of another rank failed");
                u64::MAX
            },
            |waited| waited.as_micros() as u64,
        )
    }

    /// How long rank `home + 1` waits for an operation at `home` while this rank sleeps outside of MPI. Zero
    /// on all other ranks. Called on all ranks at the same time.
    fn wait_at(&self, home: u32) -> Result<Duration> {
        const WAITED: Duration = Duration::from_millis(2);
        if self.rank == home {
            thread::sleep(AWAY);
        } else if self.rank == (home + 1) % self.ranks {
            thread::sleep(WAITED);
            let start = Instant::now();
            let departed = At { rank: home, word: table_word(self.ranks, SLOTS as usize) };
            self.medium.fetch_and(FetchOp::Load, 0, Width::W32, departed)?;
            return Ok(start.elapsed());
        }
        Ok(Duration::ZERO)
    }

    /// Counts this rank as departed: it does not use the words again. Waits for the other ranks, at most
    /// about 3 s. True on all ranks if all ranks have departed. False on all ranks if one of them gave up
    /// waiting.
    fn depart(&self) -> Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(3);
        const ABANDONED: u32 = 1 << 31;
        let (at, all) = (At { rank: 0, word: table_word(self.ranks, SLOTS as usize) }, u64::from(self.ranks));
        self.medium.fetch_and(FetchOp::Add, 1, Width::W32, at)?;
        let (start, mut backoff) = (Instant::now(), Backoff::new());
        loop {
            let state = match self.medium.fetch_and(FetchOp::Load, 0, Width::W32, at) {
                // The server of rank 0 ends after this rank has found that all ranks have departed.
                Err(Error::Words(_)) if self.rank != 0 => return Ok(true),
                state => state?,
            };
            if state == all || state & u64::from(ABANDONED) != 0 {
                return Ok(state == all);
            }
            if start.elapsed() < PATIENCE {
                backoff.pause();
            } else {
                // Has no effect if another rank has departed or given up since `state` was read.
                self.medium.compare_swap(state as u32, state as u32 | ABANDONED, at)?;
            }
        }
    }
}

/// How long a rank stays outside of MPI in a measurement of passive progress.
const AWAY: Duration = Duration::from_millis(30);
/// An operation that takes less than this did not wait for its target.
const PASSIVE_BELOW: Duration = Duration::from_millis(10);

/// The value of this rank if all ranks have one. Reports an error: as a warning, unless the error is
/// expected. Collective.
fn agreed<T>(wire: Wire<'_>, made: Result<T>, is_expected: bool) -> Result<Option<T>> {
    match &made {
        // Debian's Open MPI makes no window over TCP.
        Err(error) if is_expected => tracing::info!(%error, "MPI makes no window for the words of all ranks"),
        Err(error) => tracing::warn!(%error, "cannot create words of all ranks"),
        Ok(_) => {}
    }
    let mut lanes = [u64::from(made.is_ok())];
    collective::allreduce(wire, &mut lanes, &[ReduceOp::Min])?;
    // Dropping a window does not free it: MPI_Win_free would wait for the rank that has none.
    if lanes == [1] { made.map(Some) } else { Ok(None) }
}

/// The words of one file: the own words of each rank, and a table at the home rank with one
/// entry per rank. A rank in an argument must be below [`WorldWords::ranks`].
#[derive(Debug, Clone)]
pub struct WorldWords {
    slot: Arc<PoolSlot<WorldMemory>>,
    counters: Arc<Counters>,
}

impl WorldWords {
    /// The number of own words of each rank. Each is used with 32 or with 64 bits.
    pub const OWN_WORDS: usize = 8;
    /// The number of words in each entry of the table. Each has 64 bits.
    pub const ENTRY_WORDS: usize = 20;

    pub(crate) fn new(slot: Arc<PoolSlot<WorldMemory>>, counters: Arc<Counters>) -> Self {
        Self { slot, counters }
    }

    /// The memory, for an operation on words of `rank`.
    fn medium(&self, rank: u32) -> Result<&dyn Medium> {
        let memory = &self.slot.memory;
        if memory.closed.load(Ordering::Acquire) {
            return Err(Error::Finalized);
        }
        if rank != memory.rank {
            self.counters.count_word_operation();
        }
        Ok(&*memory.medium)
    }

    /// The counters of the channel of these words.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of ranks that reach the words.
    pub fn ranks(&self) -> u32 {
        self.slot.memory.ranks
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.slot.memory.rank
    }

    /// The mechanism in use, never [`Mechanism::Auto`].
    pub fn mechanism(&self) -> Mechanism {
        self.slot.memory.mechanism
    }

    /// Whether a change of several words of the table is one atomic step: in a window with
    /// [`Epochs::Exclusive`], and always on a server or by messages.
    pub fn is_exclusive(&self) -> bool {
        self.slot.memory.medium.is_exclusive()
    }

    /// The numbers of messages that this rank has sent and received for operations on the words of all
    /// channels that share their memory. `None` unless the mechanism is [`Mechanism::Messages`]. For tests.
    #[doc(hidden)]
    pub fn messages(&self) -> Option<[u64; 2]> {
        self.slot.memory.medium.messages()
    }

    /// The rank that holds the table. Files have different home ranks.
    pub fn home(&self) -> u32 {
        self.slot.number as u32 % self.ranks()
    }

    /// The place of an own word of a rank.
    fn own(&self, rank: u32, word: usize) -> At {
        assert!(word < Self::OWN_WORDS, "the word does not exist");
        At { rank, word: self.slot.number * Self::OWN_WORDS + word }
    }

    /// The place of the table.
    fn table(&self, words: usize) -> At {
        assert!(words <= self.ranks() as usize * Self::ENTRY_WORDS, "the table has too few words");
        At { rank: self.home(), word: table_word(self.ranks(), self.slot.number) }
    }

    /// Fetches the own word `word` of `rank`. A word is always used with the same width, 32 or 64 bits.
    /// Waits until the operation is complete.
    ///
    /// # Errors
    /// If MPI or the connection to the rank fails, or if MPI is finalized.
    ///
    /// # Panics
    /// If `word` is not below [`WorldWords::OWN_WORDS`].
    pub fn load<W: Word>(&self, rank: u32, word: usize) -> Result<W> {
        self.fetch_and(FetchOp::Load, W::default(), rank, word)
    }

    /// Stores a word and returns its previous value, atomically. Otherwise as [`WorldWords::load`].
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    ///
    /// # Panics
    /// As [`WorldWords::load`].
    pub fn swap<W: Word>(&self, rank: u32, word: usize, value: W) -> Result<W> {
        self.fetch_and(FetchOp::Swap, value, rank, word)
    }

    /// Adds to a word and returns its previous value, atomically. The sum wraps. Otherwise as
    /// [`WorldWords::load`].
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    ///
    /// # Panics
    /// As [`WorldWords::load`].
    pub fn add<W: Word>(&self, rank: u32, word: usize, value: W) -> Result<W> {
        self.fetch_and(FetchOp::Add, value, rank, word)
    }

    fn fetch_and<W: Word>(&self, op: FetchOp, value: W, rank: u32, word: usize) -> Result<W> {
        let width = if W::IS_WIDE { Width::W64 } else { Width::W32 };
        let before = self.medium(rank)?.fetch_and(op, value.wide(), width, self.own(rank, word))?;
        Ok(W::narrow(before))
    }

    /// Stores `value` in a word of 32 bits if the word has the value `expected`, and returns its previous
    /// value, atomically. Otherwise as [`WorldWords::load`].
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    ///
    /// # Panics
    /// As [`WorldWords::load`].
    pub fn compare_swap(&self, rank: u32, word: usize, expected: u32, value: u32) -> Result<u32> {
        self.medium(rank)?.compare_swap(expected, value, self.own(rank, word))
    }

    /// Stores `put` in the table from word `first` on, and returns the first `words` words of the table,
    /// including the stored ones, in one atomic step. `put` may be empty. Waits until the operation is
    /// complete.
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    ///
    /// # Panics
    /// If the table has fewer than `words` words, or if the words are not [`WorldWords::is_exclusive`]. Also if
    /// `put` has more words than an entry, or does not lie inside of the first `words` words.
    pub fn exchange(&self, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        assert!(put.len() <= Self::ENTRY_WORDS, "an exchange stores at most one entry");
        assert!(first + put.len() <= words, "the stored words must lie inside of the fetched words");
        self.medium(self.home())?.exchange(self.table(words), first, put, words)
    }

    /// Fetches the first `words` words of the table and, if all of them are zero, stores `value` in word
    /// `at`, in one atomic step. Returns the words before the store. Waits until the operation is complete.
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    ///
    /// # Panics
    /// If the table has fewer than `words` words, if `at` is not below `words`, or if the words are not
    /// [`WorldWords::is_exclusive`].
    pub fn claim_if_none(&self, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        assert!(at < words, "the stored word must lie inside of the fetched words");
        self.medium(self.home())?.claim_if_none(self.table(words), at, value, words)
    }

    /// Whether operations at the home rank complete while that rank computes and makes no MPI call.
    /// Collective. Measures this for a window, which takes about 30 ms. The result is the same on all ranks.
    /// It is true for a single rank and for a server, and false for messages.
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    pub fn is_passive(&self, agree: &dyn Agree) -> Result<bool> {
        if let Some(is_passive) = self.slot.memory.medium.is_passive() {
            return Ok(is_passive);
        }
        agree.barrier()?;
        let mut lanes = [self.slot.memory.wait_us_at(self.home())];
        agree.allreduce(&mut lanes, &[ReduceOp::Max])?;
        Ok(lanes[0] < PASSIVE_BELOW.as_micros() as u64)
    }
}

mod word {
    /// The integer types of an own word.
    pub trait Word: Copy + Default {
        #[doc(hidden)]
        const IS_WIDE: bool;
        #[doc(hidden)]
        fn wide(self) -> u64;
        #[doc(hidden)]
        fn narrow(value: u64) -> Self;
    }

    impl Word for u32 {
        const IS_WIDE: bool = false;

        fn wide(self) -> u64 {
            self.into()
        }

        fn narrow(value: u64) -> Self {
            value as u32
        }
    }

    impl Word for u64 {
        const IS_WIDE: bool = true;

        fn wide(self) -> u64 {
            self
        }

        fn narrow(value: u64) -> Self {
            value
        }
    }
}
use word::Word;

/// The offset in words of the table of a slot in the part of its home rank. For the slot after the last
/// one: the end of all tables.
fn table_word(ranks: u32, slot: usize) -> usize {
    let (slots, ranks) = (SLOTS as usize, ranks as usize);
    let tables = if slot < slots { slot / ranks } else { slots.div_ceil(ranks) };
    slots * WorldWords::OWN_WORDS + tables * ranks * WorldWords::ENTRY_WORDS
}

/// The number of words in the part of each rank: all tables, and the word of the departed ranks.
fn part_words(ranks: u32) -> usize {
    table_word(ranks, SLOTS as usize) + 1
}
