//! Words of 64 bits that all ranks of a group reach, also ranks of other nodes, by one-sided operations
//! (MPI-4.0 chapter 12).
//!
//! ```text
//! part of a rank:  | own words, per slot | table of each slot whose home is this rank | departed ranks |
//! ```
//! A window has L slots (`SLOTS`), one per file. The home of slot i is rank i mod N, for N ranks. Memory per
//! rank: 8 bytes x (L 8 + ceil(L / N) N 20 + 1).
//!
//! Words for compare-and-swap have 32 bits: Open MPI 4.1 ends with a signal at a compare-and-swap of 64
//! bits between ranks of one machine in a window of its component `osc/rdma` (open-mpi/ompi#7967). Open MPI
//! selects this component for windows that are not shared.
//!
//! Every operation is complete at its target when the function returns. The function waits for this inside
//! MPI. How long it waits while the target computes depends on the MPI library
//! ([`WorldWords::is_passive`]). MPI allocates the memory of the windows, because all MPI libraries are
//! fastest with such memory.

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
use crate::pool::{PoolSlot, Pools, SLOTS};
use crate::work::Still;
use crate::{consts, ffi};

/// The kind of epochs in which the operations on a window run (MPI-4.0 section 12.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epochs {
    /// One epoch for the life of the window, on all ranks. Each operation on a single word is atomic.
    Standing,
    /// One epoch with an exclusive lock per operation. It excludes all other operations at the same target.
    Exclusive,
}

/// An MPI window of all ranks of a group.
#[derive(Debug)]
pub(crate) struct WorldMemory {
    win: ffi::MPI_Win,
    rank: u32,
    ranks: u32,
    epochs: Epochs,
    /// Locked during an exclusive epoch: a process may have one such epoch at a time, whatever the number
    /// of its threads.
    exclusive: Mutex<()>,
    /// Set in `MPI_Finalize`. No operation starts after that.
    closed: AtomicBool,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it.
unsafe impl Send for WorldMemory {}
// SAFETY: as for `Send` above. After construction only the atomic and the mutex change.
unsafe impl Sync for WorldMemory {}

/// The pools of windows with standing epochs, and of windows with exclusive epochs.
static POOLS: [Pools<WorldMemory>; 2] = [Pools::new(), Pools::new()];

/// The pools of the windows with one kind of epochs.
pub(crate) fn pools(epochs: Epochs) -> &'static Pools<WorldMemory> {
    &POOLS[usize::from(epochs == Epochs::Exclusive)]
}

/// Frees the windows in `MPI_Finalize`, also if a file is still open. A window is freed when all its ranks
/// have reached this function. If some ranks do not reach it for a long time, the window is leaked on all
/// ranks.
pub(crate) fn close() {
    for memory in POOLS.iter().flat_map(Pools::take_all) {
        memory.closed.store(true, Ordering::Release);
        match memory.depart() {
            Ok(true) => memory.free(),
            Ok(false) => tracing::warn!("a window is leaked: not all ranks have released it"),
            Err(error) => {
                tracing::warn!(%error, "a window is leaked: the ranks cannot agree on its end");
            }
        }
    }
}

impl WorldMemory {
    /// Creates a window. Collective over the communicator. `None` on all ranks if the creation failed on
    /// some rank.
    pub(crate) fn allocate(wire: Wire<'_>, epochs: Epochs, is_one_machine: bool) -> Result<Option<Self>> {
        let made = Self::make(wire, epochs, is_one_machine);
        if let Err(error) = &made {
            tracing::warn!(%error, "cannot create a window of all ranks");
        }
        let mut lanes = [u64::from(made.is_ok())];
        collective::allreduce(wire, &mut lanes, &[ReduceOp::Min])?;
        // If the creation failed on one rank, the others leak their window: MPI_Win_free would wait for
        // that rank.
        Ok(made.ok().filter(|_| lanes == [1]))
    }

    fn make(wire: Wire<'_>, epochs: Epochs, is_one_machine: bool) -> Result<Self> {
        let words = table_word(wire.size, SLOTS as usize) + 1;
        let mut win = consts::win_null();
        let mut base: *mut c_void = ptr::null_mut();
        // In shared memory an operation can complete without a call of MPI by the target, also with an MPI
        // library that needs such a call for a window of MPI_Win_allocate.
        let allocate = if is_one_machine { ffi::MPI_Win_allocate_shared } else { ffi::MPI_Win_allocate };
        let (bytes, target) = ((words * WORD_BYTES) as ffi::MPI_Aint, (&raw mut base).cast::<c_void>());
        // SAFETY: MPI-4.0 sections 12.2.2 and 12.2.3: both functions have the same parameters, are
        // collective, and write the address of the part of this rank and a handle. All ranks of the
        // communicator call the same function, because `is_one_machine` is the same on all ranks. They call
        // MPI_Win_allocate_shared only if all ranks share memory.
        let status = unsafe { allocate(bytes, 1, consts::info_null(), wire.comm, target, &raw mut win) };
        check("MPI_Win_allocate", status)?;
        // SAFETY: the call above has created the window. The error handler is predefined.
        let status = unsafe { ffi::MPI_Win_set_errhandler(win, consts::errors_return()) };
        check("MPI_Win_set_errhandler", status)?;
        // SAFETY: MPI has allocated `words * WORD_BYTES` bytes at `base` for this rank. No other rank
        // accesses them before the allreduce of `allocate`.
        unsafe { ptr::write_bytes(base.cast::<u8>(), 0, words * WORD_BYTES) };
        let memory = Self {
            win,
            rank: wire.rank,
            ranks: wire.size,
            epochs,
            exclusive: Mutex::new(()),
            closed: AtomicBool::new(false),
        };
        if epochs == Epochs::Standing {
            // SAFETY: this function has created the window, and no epoch is open. No rank uses MPI_Win_lock
            // on this window, as MPI_MODE_NOCHECK requires. The epoch stays open until the window is freed.
            check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(consts::mode_nocheck(), win) })?;
            // SAFETY: the window is valid, and its epoch is open. After the allreduce of `allocate` the
            // operations of other ranks read the zeros that this rank has stored.
            check("MPI_Win_sync", unsafe { ffi::MPI_Win_sync(win) })?;
        } else {
            // Later epochs read the zeros that this rank has stored (MPI-4.0 section 12.7).
            memory.in_epoch(memory.rank, || Ok(()))?;
        }
        Ok(memory)
    }

    /// Frees the window, which [`close`] has closed.
    fn free(&self) {
        let mut win = self.win;
        // SAFETY: `make` has created the window and, for standing epochs, opened its epoch. No thread uses
        // the window any more, because `closed` is set. It is freed once, because `close` has taken it out
        // of its pool.
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

    /// Counts this rank as departed: it does not use the window again. Waits for the other ranks, at most
    /// about 3 s. True on all ranks if all ranks have departed. False on all ranks if one of them gave up
    /// waiting.
    fn depart(&self) -> Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(3);
        const ABANDONED: u32 = 1 << 31;
        let (at, all) = (byte_of(table_word(self.ranks, SLOTS as usize)), self.ranks);
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
                // Has no effect if another rank has departed or given up since `state` was read.
                self.compare_swap([state, state | ABANDONED], 0, at)?;
            }
        }
    }

    fn fetch_and<W: Word>(&self, op: ffi::MPI_Op, value: W, rank: u32, at: ffi::MPI_Aint) -> Result<W> {
        let [_, before] = with_buffer([value; 2], |buffer| {
            self.in_epoch(rank, || {
                let (given, fetched) = (buffer.cast::<c_void>(), buffer.wrapping_add(1).cast::<c_void>());
                // SAFETY: MPI-4.0 section 12.3.4: both words must stay valid until the flush or unlock of
                // `in_epoch` completes the operation. `with_buffer` keeps them until then, and leaks them
                // if `in_epoch` fails. The displacement `at` lies inside of the part of the target rank.
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
                // SAFETY: as in `fetch_and`, for the three words of `buffer`.
                let status = unsafe {
                    ffi::MPI_Compare_and_swap(part(0), part(1), part(2), uint32, target, at, self.win)
                };
                check("MPI_Compare_and_swap", status)
            })
        })?;
        Ok(before)
    }

    /// Runs `operate`, which starts operations at `rank`, in an epoch, and waits until they are complete at
    /// that rank.
    fn in_epoch(&self, rank: u32, operate: impl FnOnce() -> Result<()>) -> Result<()> {
        let target = rank as c_int;
        // MPI may call back into this crate during these calls. The callback must not advance work, because
        // the work may need another epoch.
        let _still = Still::new();
        if self.epochs == Epochs::Standing {
            operate()?;
            // SAFETY: the window is valid, its standing epoch is open, and `rank` is a rank of the window.
            return check("MPI_Win_flush", unsafe { ffi::MPI_Win_flush(target, self.win) });
        }
        let _exclusive = self.exclusive.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the window is valid, `rank` is a rank of the window, and this process has no other epoch
        // open on the window, because `exclusive` is locked.
        let status = unsafe { ffi::MPI_Win_lock(consts::lock_exclusive(), target, 0, self.win) };
        check("MPI_Win_lock", status)?;
        let done = operate();
        // SAFETY: MPI_Win_lock has opened the epoch above.
        let status = unsafe { ffi::MPI_Win_unlock(target, self.win) };
        done.and(check("MPI_Win_unlock", status))
    }
}

/// The words of one file in the window: the own words of each rank, and a table at the home rank with one
/// entry per rank. A rank in an argument must be below [`WorldWords::ranks`].
#[derive(Debug, Clone)]
pub struct WorldWords {
    slot: Arc<PoolSlot<WorldMemory>>,
}

impl WorldWords {
    /// The number of own words of each rank. Each is used with 32 or with 64 bits.
    pub const OWN_WORDS: usize = 8;
    /// The number of words in each entry of the table. Each has 64 bits.
    pub const ENTRY_WORDS: usize = 20;

    pub(crate) fn new(slot: Arc<PoolSlot<WorldMemory>>) -> Self {
        Self { slot }
    }

    fn memory(&self) -> Result<&WorldMemory> {
        let memory = &self.slot.memory;
        if memory.closed.load(Ordering::Acquire) { Err(Error::Finalized) } else { Ok(memory) }
    }

    /// The number of ranks of the window.
    pub fn ranks(&self) -> u32 {
        self.slot.memory.ranks
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.slot.memory.rank
    }

    /// The rank that holds the table. Files have different home ranks.
    pub fn home(&self) -> u32 {
        self.slot.number as u32 % self.ranks()
    }

    /// The offset in bytes of an own word in the part of its rank.
    fn own_byte(&self, word: usize) -> ffi::MPI_Aint {
        assert!(word < Self::OWN_WORDS, "the word does not exist");
        byte_of(self.slot.number * Self::OWN_WORDS + word)
    }

    /// Fetches the own word `word` of `rank`. A word is always used with the same width, 32 or 64 bits.
    /// Waits until MPI has completed the operation.
    ///
    /// # Errors
    /// If MPI fails or is finalized.
    ///
    /// # Panics
    /// If `word` is not below [`WorldWords::OWN_WORDS`].
    pub fn load<W: Word>(&self, rank: u32, word: usize) -> Result<W> {
        self.memory()?.fetch_and(consts::no_op(), W::default(), rank, self.own_byte(word))
    }

    /// Stores a word and returns its previous value, atomically. Otherwise as [`WorldWords::load`].
    ///
    /// # Errors
    /// As [`WorldWords::load`].
    ///
    /// # Panics
    /// As [`WorldWords::load`].
    pub fn swap<W: Word>(&self, rank: u32, word: usize, value: W) -> Result<W> {
        self.memory()?.fetch_and(consts::replace(), value, rank, self.own_byte(word))
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
        self.memory()?.fetch_and(consts::sum(), value, rank, self.own_byte(word))
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
        self.memory()?.compare_swap([expected, value], rank, self.own_byte(word))
    }

    /// Stores `put` in the table from word `first` on, and returns the first `words` words of the table,
    /// including the stored ones. Atomic for all ranks with [`Epochs::Exclusive`]. With
    /// [`Epochs::Standing`] the caller ensures that no other rank changes these words meanwhile. Waits
    /// until MPI has completed the operation.
    ///
    /// # Errors
    /// If MPI fails or is finalized.
    ///
    /// # Panics
    /// If the table has fewer than `words` words, or if `put` does not lie inside of the first `words`
    /// words.
    pub fn exchange(&self, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        assert!(first + put.len() <= words, "the stored words must lie inside of the fetched words");
        let (memory, home) = (self.memory()?, self.home());
        assert!(words <= self.ranks() as usize * Self::ENTRY_WORDS, "the table has too few words");
        let table = table_word(self.ranks(), self.slot.number);
        let mut all = vec![0_u64; words];
        all[first..first + put.len()].copy_from_slice(put);
        let buffer = Box::into_raw(all.into_boxed_slice());
        let start = buffer.cast::<u64>();
        let part = |put: bool, at: usize, count: usize| {
            let (at_home, count) = (byte_of(table + at), count as c_int);
            let (uint64, own) = (consts::uint64(), start.wrapping_add(at).cast::<c_void>());
            let (target, win) = (home as c_int, memory.win);
            // SAFETY: MPI-4.0 section 12.3: the words lie inside of the buffer and of the part of the home
            // rank. The words that are put and the words that are fetched are disjoint. The buffer lives
            // until `in_epoch` has completed the operations, and is leaked if it fails.
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
        // An error leaks the buffer, because MPI may still write to it.
        done?;
        // SAFETY: the operations are complete, and the address came from Box::into_raw.
        Ok(unsafe { Box::from_raw(buffer) }.into_vec())
    }

    /// Fetches the first `words` words of the table and, if all of them are zero, stores `value` in word
    /// `at`. Atomic. Returns the words before the store. Only for [`Epochs::Exclusive`]. Waits until MPI
    /// has completed the operation.
    ///
    /// # Errors
    /// If MPI fails or is finalized.
    ///
    /// # Panics
    /// If the table has fewer than `words` words, if `at` is not below `words`, or if the epochs are not
    /// [`Epochs::Exclusive`].
    pub fn claim_if_none(&self, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        let (memory, home) = (self.memory()?, self.home());
        assert!(memory.epochs == Epochs::Exclusive && at < words, "invalid epochs or word");
        assert!(words <= self.ranks() as usize * Self::ENTRY_WORDS, "the table has too few words");
        let table = table_word(self.ranks(), self.slot.number);
        // The last word is the value to store.
        let mut all = vec![0_u64; words + 1];
        all[words] = value;
        let buffer = Box::into_raw(all.into_boxed_slice());
        let start = buffer.cast::<u64>();
        let (uint64, target, win) = (consts::uint64(), home as c_int, memory.win);
        memory.in_epoch(home, || {
            let (count, from) = (words as c_int, byte_of(table));
            // SAFETY: MPI-4.0 sections 12.3 and 12.5.4: the words lie inside of the buffer and of the part
            // of the home rank. The buffer lives until the epoch ends, and is leaked if an operation fails.
            // The flush completes the fetch before the slice of `words` initialized words is read.
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
            // SAFETY: as for MPI_Get above: word `words` lies inside of the buffer, and word `at` inside of
            // the table.
            let status = unsafe { ffi::MPI_Put(put, 1, uint64, target, byte_of(table + at), 1, uint64, win) };
            check("MPI_Put", status)
        })?;
        // SAFETY: the operations are complete, and the address came from Box::into_raw.
        let mut all = unsafe { Box::from_raw(buffer) }.into_vec();
        all.truncate(words);
        Ok(all)
    }

    /// Whether operations at the home rank complete while that rank computes and makes no MPI call.
    /// Collective. Measures this, which takes about 30 ms. The result is the same on all ranks. It is true
    /// for a single rank.
    ///
    /// # Errors
    /// If MPI fails or is finalized.
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

    /// The integer types of an own word.
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

/// The offset in words of the table of a slot in the part of its home rank. For the slot after the last
/// one: the end of all tables.
fn table_word(ranks: u32, slot: usize) -> usize {
    let (slots, ranks) = (SLOTS as usize, ranks as usize);
    let tables = if slot < slots { slot / ranks } else { slots.div_ceil(ranks) };
    slots * WorldWords::OWN_WORDS + tables * ranks * WorldWords::ENTRY_WORDS
}

/// Runs `operate` with a buffer that MPI may use until `operate` returns, and returns the contents of the
/// buffer. An error leaks the buffer, because MPI may still use it.
fn with_buffer<W, const N: usize>(
    words: [W; N],
    operate: impl FnOnce(*mut W) -> Result<()>,
) -> Result<[W; N]> {
    let buffer = Box::into_raw(Box::new(words));
    operate(buffer.cast())?;
    // SAFETY: the operation is complete, so MPI no longer uses the address, which came from Box::into_raw.
    Ok(*unsafe { Box::from_raw(buffer) })
}
