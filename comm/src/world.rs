//! Words of 64 bits that all ranks of a group reach, also those of other nodes, by MPI's one-sided operations (MPI-4.0 chapter 12).
//!
//! ```text
//! part of a rank:  | own words of each lot | a table of each lot whose home it is | how many ranks are done with it |
//! ```
//! The homes of lots are the ranks by turns. Memory of a rank: 8 bytes x (L 8 + ceil(L / N) N 20 + 1), for L lots and N ranks.
//!
//! Words that are compared have 32 bits: Open MPI 4.1 ends with a signal where 64 are compared between ranks of one machine in a window
//! that its component `osc/rdma` serves (open-mpi/ompi#7967), which is what it takes for windows that are not shared ones.
//!
//! Every operation is over at its target when it returns, and waits for that inside of MPI: how long that takes where the
//! target computes is up to the MPI ([`WorldWords::is_passive`]). The windows are MPI's own memory, for which all MPIs
//! are at their best.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::agree::{Agree, ReduceOp};
use crate::backoff::Backoff;
use crate::collective;
use crate::error::{Error, Result, check};
use crate::message::Wire;
use crate::pool::{LOTS, PoolLot, Pools};
use crate::work::Still;
use crate::{consts, ffi};

/// How operations on a window are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epochs {
    /// One epoch for ever, on all ranks: single words change atomically.
    Standing,
    /// One for each operation, which excludes all others at its target.
    Exclusive,
}

/// A window of all ranks of a group.
#[derive(Debug)]
pub(crate) struct WorldMemory {
    win: ffi::MPI_Win,
    rank: u32,
    ranks: u32,
    epochs: Epochs,
    /// Held in exclusive epochs: a process has one at a time, whatever its threads.
    alone: Mutex<()>,
    /// Set in `MPI_Finalize`.
    closed: AtomicBool,
}

// SAFETY: the handle is a name that any thread may use which the thread level allows to call MPI at all (MPI-4.0 section 11.6).
unsafe impl Send for WorldMemory {}
// SAFETY: as above; nothing in here is written after it has been made.
unsafe impl Sync for WorldMemory {}

/// Those with standing epochs, and those with exclusive ones.
static POOLS: [Pools<WorldMemory>; 2] = [Pools::new(), Pools::new()];

/// Those of the windows of one kind.
pub(crate) fn pools(epochs: Epochs) -> &'static Pools<WorldMemory> {
    &POOLS[usize::from(epochs == Epochs::Exclusive)]
}

/// In `MPI_Finalize`: frees the windows, also where a file is still open, each as soon as all its ranks have come here. If they do not
/// come for a long time it is leaked on all.
pub(crate) fn close() {
    for memory in POOLS.iter().flat_map(Pools::take_all) {
        memory.closed.store(true, Ordering::Release);
        match memory.depart() {
            Ok(true) => memory.free(),
            Ok(false) => tracing::warn!("a window is leaked: not all ranks let go of it"),
            Err(error) => {
                tracing::warn!(%error, "a window is leaked: the ranks do not know of each other's end");
            }
        }
    }
}

impl WorldMemory {
    /// Makes a window. Collective over the communicator; `None` if it could not be had on some rank.
    pub(crate) fn allocate(wire: Wire<'_>, epochs: Epochs, is_one_machine: bool) -> Result<Option<Self>> {
        let made = Self::make(wire, epochs, is_one_machine);
        if let Err(error) = &made {
            tracing::warn!(%error, "no window among nodes");
        }
        let mut lanes = [u64::from(made.is_ok())];
        collective::allreduce(wire, &mut lanes, &[ReduceOp::Min])?;
        // Where one rank failed the others leak theirs: to free it they would have to wait for that one.
        Ok(made.ok().filter(|_| lanes == [1]))
    }

    fn make(wire: Wire<'_>, epochs: Epochs, is_one_machine: bool) -> Result<Self> {
        let words = table_word(wire.size, LOTS as usize) + 1;
        let mut win = consts::win_null();
        let mut base: *mut c_void = ptr::null_mut();
        // Memory that is shared is reached without the help of its rank, also where an MPI would ask for it.
        let allocate = if is_one_machine { ffi::MPI_Win_allocate_shared } else { ffi::MPI_Win_allocate };
        let (bytes, target) = ((words * WORD_BYTES) as ffi::MPI_Aint, (&raw mut base).cast::<c_void>());
        // SAFETY: every rank of the communicator calls the same of the two, which have the same parameters, and the first only where
        // all share memory; it writes the address of the rank's own part and a handle (MPI-4.0 sections 12.2.2 and 12.2.3).
        let status = unsafe { allocate(bytes, 1, consts::info_null(), wire.comm, target, &raw mut win) };
        check("MPI_Win_allocate", status)?;
        // SAFETY: the window is ours; the handler is predefined.
        let status = unsafe { ffi::MPI_Win_set_errhandler(win, consts::errors_return()) };
        check("MPI_Win_set_errhandler", status)?;
        // SAFETY: the rank's own part has so many words, and nobody uses it before the agreement that follows.
        unsafe { ptr::write_bytes(base.cast::<u8>(), 0, words * WORD_BYTES) };
        let memory = Self {
            win,
            rank: wire.rank,
            ranks: wire.size,
            epochs,
            alone: Mutex::new(()),
            closed: AtomicBool::new(false),
        };
        if epochs == Epochs::Standing {
            // SAFETY: the window is ours and no epoch is open. This one stays open until the window is freed.
            check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(consts::mode_nocheck(), win) })?;
            // SAFETY: as above. What was stored is seen by the operations of others after the agreement.
            check("MPI_Win_sync", unsafe { ffi::MPI_Win_sync(win) })?;
        } else {
            // What was stored above is seen by epochs that begin later (MPI-4.0 section 12.7).
            memory.in_epoch(memory.rank, || Ok(()))?;
        }
        Ok(memory)
    }

    /// At its end: it is closed.
    fn free(&self) {
        let mut win = self.win;
        // SAFETY: the window is ours; its epoch is open since it was made, if it has a standing one; nobody uses it any more, for it
        // is closed, and it is freed once, for it was taken out of its pool.
        let status = unsafe {
            if self.epochs == Epochs::Standing {
                ffi::MPI_Win_unlock_all(win);
            }
            ffi::MPI_Win_free(&raw mut win)
        };
        if let Err(error) = check("MPI_Win_free", status) {
            tracing::warn!(%error, "a window is leaked");
        }
    }

    /// Says that this rank will not use the window again. True on all ranks if all have said so.
    fn depart(&self) -> Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(3);
        const ABANDONED: u32 = 1 << 31;
        let (at, all) = (byte_of(table_word(self.ranks, LOTS as usize)), self.ranks);
        self.fetch_and(consts::sum(), 1_u32, 0, at)?;
        let (start, mut backoff) = (Instant::now(), Backoff::new());
        loop {
            let state = self.fetch_and(consts::no_op(), 0_u32, 0, at)?;
            if state == all || state & ABANDONED != 0 {
                return Ok(state == all);
            }
            if start.elapsed() < PATIENCE {
                backoff.pause();
            } else {
                // Unless something has changed since.
                self.compare_swap([state, state | ABANDONED], 0, at)?;
            }
        }
    }

    fn fetch_and<W: Word>(&self, op: ffi::MPI_Op, value: W, rank: u32, at: ffi::MPI_Aint) -> Result<W> {
        let [_, before] = with_buffer([value; 2], |buffer| {
            self.in_epoch(rank, || {
                let (given, fetched) = (buffer.cast::<c_void>(), buffer.wrapping_add(1).cast::<c_void>());
                // SAFETY: both words are valid until the epoch or flush that ends the operation, and leaked if that fails; the
                // displacement is inside of the rank's part (MPI-4.0 section 12.3.4).
                let status = unsafe {
                    ffi::MPI_Fetch_and_op(given, fetched, W::datatype(), rank as c_int, at, op, self.win)
                };
                check("MPI_Fetch_and_op", status)
            })
        })?;
        Ok(before)
    }

    fn compare_swap(&self, [expected, value]: [u32; 2], rank: u32, at: ffi::MPI_Aint) -> Result<u32> {
        let [.., before] = with_buffer([value, expected, 0], |buffer| {
            self.in_epoch(rank, || {
                let part = |at| buffer.wrapping_add(at).cast::<c_void>();
                let (target, uint32) = (rank as c_int, consts::uint32());
                // SAFETY: as in `fetch_and`.
                let status = unsafe {
                    ffi::MPI_Compare_and_swap(part(0), part(1), part(2), uint32, target, at, self.win)
                };
                check("MPI_Compare_and_swap", status)
            })
        })?;
        Ok(before)
    }

    /// Does something at a rank, and waits until it is done there.
    fn in_epoch(&self, rank: u32, operate: impl FnOnce() -> Result<()>) -> Result<()> {
        let target = rank as c_int;
        // MPI may call us back inside, and what goes on then may want another epoch.
        let _still = Still::new();
        if self.epochs == Epochs::Standing {
            operate()?;
            // SAFETY: the window is ours, in its standing epoch, and the rank is one of it.
            return check("MPI_Win_flush", unsafe { ffi::MPI_Win_flush(target, self.win) });
        }
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the window is ours, no other epoch of this process is open there, and the rank is one of it.
        let status = unsafe { ffi::MPI_Win_lock(consts::lock_exclusive(), target, 0, self.win) };
        check("MPI_Win_lock", status)?;
        let done = operate();
        // SAFETY: the epoch was opened above.
        let status = unsafe { ffi::MPI_Win_unlock(target, self.win) };
        done.and(check("MPI_Win_unlock", status))
    }
}

/// A file's words: some at each rank, and a table at its home rank with an entry for each.
#[derive(Debug, Clone)]
pub struct WorldWords {
    lot: Arc<PoolLot<WorldMemory>>,
}

impl WorldWords {
    /// Words of each rank, of 32 bits or of 64.
    pub const OWN_WORDS: usize = 8;
    /// Words of each rank's entry in the table, of 64 bits.
    pub const ENTRY_WORDS: usize = 20;

    pub(crate) fn new(lot: Arc<PoolLot<WorldMemory>>) -> Self {
        Self { lot }
    }

    fn memory(&self) -> Result<&WorldMemory> {
        let memory = &self.lot.memory;
        if memory.closed.load(Ordering::Acquire) { Err(Error::Finalized) } else { Ok(memory) }
    }

    /// How many ranks reach them.
    pub fn ranks(&self) -> u32 {
        self.lot.memory.ranks
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.lot.memory.rank
    }

    /// The rank that has the table. Not the same for all files.
    pub fn home(&self) -> u32 {
        self.lot.number as u32 % self.ranks()
    }

    /// Where a word of a rank's own is.
    fn own_byte(&self, word: usize) -> ffi::MPI_Aint {
        assert!(word < Self::OWN_WORDS, "there is no such word");
        byte_of(self.lot.number * Self::OWN_WORDS + word)
    }

    /// Fetches a word, of 32 bits or of 64: one word is always used as the same of the two.
    ///
    /// # Errors
    /// If MPI fails.
    ///
    /// # Panics
    /// If there is no such word. The same holds for those below.
    pub fn load<W: Word>(&self, rank: u32, word: usize) -> Result<W> {
        self.memory()?.fetch_and(consts::no_op(), W::default(), rank, self.own_byte(word))
    }

    /// Stores a word and fetches the one before, in one step.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn swap<W: Word>(&self, rank: u32, word: usize, value: W) -> Result<W> {
        self.memory()?.fetch_and(consts::replace(), value, rank, self.own_byte(word))
    }

    /// Adds to a word, which wraps, and fetches the one before, in one step.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn add<W: Word>(&self, rank: u32, word: usize, value: W) -> Result<W> {
        self.memory()?.fetch_and(consts::sum(), value, rank, self.own_byte(word))
    }

    /// Stores a word if it has the value that is expected, and fetches the one before, in one step.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn compare_swap(&self, rank: u32, word: usize, expected: u32, value: u32) -> Result<u32> {
        self.memory()?.compare_swap([expected, value], rank, self.own_byte(word))
    }

    /// Stores `put` in the table, from word `first` of it on, and fetches its first `words` words, with what was put among them. With
    /// [`Epochs::Exclusive`] that is one step for all; else nobody else may change those words meanwhile.
    ///
    /// # Errors
    /// If MPI fails.
    ///
    /// # Panics
    /// If the table has no such words.
    pub fn exchange(&self, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        assert!(first + put.len() <= words, "what is put is among what is fetched");
        let (memory, home) = (self.memory()?, self.home());
        assert!(words <= self.ranks() as usize * Self::ENTRY_WORDS, "the table has no such words");
        let table = table_word(self.ranks(), self.lot.number);
        let mut all = vec![0_u64; words];
        all[first..first + put.len()].copy_from_slice(put);
        let buffer = Box::into_raw(all.into_boxed_slice());
        let start = buffer.cast::<u64>();
        let part = |put: bool, at: usize, count: usize| {
            let (at_home, count) = (byte_of(table + at), count as c_int);
            let (uint64, own) = (consts::uint64(), start.wrapping_add(at).cast::<c_void>());
            let (target, win) = (home as c_int, memory.win);
            // SAFETY: the words are inside of the buffer and of the home rank's part; those put and those fetched are not the same;
            // the buffer lives until the operations are over (MPI-4.0 section 12.3).
            unsafe {
                if put {
                    check("MPI_Put", ffi::MPI_Put(own, count, uint64, target, at_home, count, uint64, win))
                } else {
                    check("MPI_Get", ffi::MPI_Get(own, count, uint64, target, at_home, count, uint64, win))
                }
            }
        };
        let end = first + put.len();
        let done = memory.in_epoch(home, || {
            let around = [(true, first, end), (false, 0, first), (false, end, words)];
            around
                .into_iter()
                .filter(|(_, from, to)| from < to)
                .try_for_each(|(put, from, to)| part(put, from, to - from))
        });
        // Else MPI may still write to it.
        done?;
        // SAFETY: the operations are over, and the address came from Box::into_raw.
        Ok(unsafe { Box::from_raw(buffer) }.into_vec())
    }

    /// Fetches the table's first `words` words, and stores `value` in word `at` of them if all are zero, in one step. For
    /// [`Epochs::Exclusive`].
    ///
    /// # Errors
    /// If MPI fails.
    ///
    /// # Panics
    /// If the table has no such words, or the epochs are others.
    pub fn claim_if_none(&self, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        let (memory, home) = (self.memory()?, self.home());
        assert!(memory.epochs == Epochs::Exclusive && at < words, "nothing holds it together");
        assert!(words <= self.ranks() as usize * Self::ENTRY_WORDS, "the table has no such words");
        let table = table_word(self.ranks(), self.lot.number);
        // The last one is what is put.
        let mut all = vec![0_u64; words + 1];
        all[words] = value;
        let buffer = Box::into_raw(all.into_boxed_slice());
        let start = buffer.cast::<u64>();
        let (uint64, target, win) = (consts::uint64(), home as c_int, memory.win);
        memory.in_epoch(home, || {
            let (count, from) = (words as c_int, byte_of(table));
            // SAFETY: the words are inside of the buffer and of the home rank's part; the buffer lives until the epoch is over, and is
            // leaked if it fails; the flush ends the operation before the buffer is read (MPI-4.0 sections 12.3 and 12.5.4).
            let is_none = unsafe {
                let fetched = start.cast::<c_void>();
                check("MPI_Get", ffi::MPI_Get(fetched, count, uint64, target, from, count, uint64, win))?;
                check("MPI_Win_flush", ffi::MPI_Win_flush(target, win))?;
                std::slice::from_raw_parts(start, words).iter().all(|word| *word == 0)
            };
            if !is_none {
                return Ok(());
            }
            let put = start.wrapping_add(words).cast::<c_void>();
            // SAFETY: as above.
            let status = unsafe { ffi::MPI_Put(put, 1, uint64, target, byte_of(table + at), 1, uint64, win) };
            check("MPI_Put", status)
        })?;
        // SAFETY: the operations are over, and the address came from Box::into_raw.
        let mut all = unsafe { Box::from_raw(buffer) }.into_vec();
        all.truncate(words);
        Ok(all)
    }

    /// Whether the home rank's words are reached while it computes, without its making a call of MPI. Collective; takes some 30 ms.
    /// The same on all ranks, and true for a single one.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn is_passive(&self, agree: &dyn Agree) -> Result<bool> {
        const AWAY: Duration = Duration::from_millis(30);
        const WAITED: Duration = Duration::from_millis(2);
        agree.barrier()?;
        let asks = (self.home() + 1) % self.ranks();
        let mut took = Duration::ZERO;
        if self.rank() == self.home() {
            thread::sleep(AWAY);
        } else if self.rank() == asks {
            thread::sleep(WAITED);
            let start = Instant::now();
            self.load::<u32>(self.home(), 0)?;
            took = start.elapsed();
        }
        let mut lanes = [took.as_micros() as u64];
        agree.allreduce(&mut lanes, &[ReduceOp::Max])?;
        Ok(lanes[0] < (AWAY / 3).as_micros() as u64)
    }
}

const WORD_BYTES: usize = size_of::<u64>();

fn byte_of(word: usize) -> ffi::MPI_Aint {
    (word * WORD_BYTES) as ffi::MPI_Aint
}

mod word {
    use crate::{consts, ffi};

    /// What a word of a rank's own can be.
    pub trait Word: Copy + Default {
        #[doc(hidden)]
        fn datatype() -> ffi::MPI_Datatype;
    }

    impl Word for u32 {
        fn datatype() -> ffi::MPI_Datatype {
            consts::uint32()
        }
    }

    impl Word for u64 {
        fn datatype() -> ffi::MPI_Datatype {
            consts::uint64()
        }
    }
}
use word::Word;

/// Where the table of a lot is at its home rank; for the lot after the last, where all tables end.
fn table_word(ranks: u32, lot: usize) -> usize {
    let (lots, ranks) = (LOTS as usize, ranks as usize);
    let tables = if lot < lots { lot / ranks } else { lots.div_ceil(ranks) };
    lots * WorldWords::OWN_WORDS + tables * ranks * WorldWords::ENTRY_WORDS
}

/// Lets MPI use words until an operation is over; if it fails, for ever.
fn with_buffer<W, const N: usize>(
    words: [W; N],
    operate: impl FnOnce(*mut W) -> Result<()>,
) -> Result<[W; N]> {
    let buffer = Box::into_raw(Box::new(words));
    operate(buffer.cast())?;
    // SAFETY: the operation is over, so MPI no longer knows the address, which came from Box::into_raw.
    Ok(*unsafe { Box::from_raw(buffer) })
}
