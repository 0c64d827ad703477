//! Words in an MPI window (MPI-4.0 chapter 12).
//!
//! Words for compare-and-swap have 32 bits: Open MPI 4.1 ends with a signal at a compare-and-swap of 64
//! bits between ranks of one machine in a window of its component `osc/rdma` (open-mpi/ompi#7967). Open MPI
//! selects this component for windows that are not shared.
//!
//! Every function waits inside MPI until its operation is complete at the target. How long it waits while the
//! target computes depends on the MPI library. MPI allocates the memory of the windows, because all MPI
//! libraries are fastest with such memory.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::Epochs;
use super::medium::{At, FetchOp, Medium, Width};
use crate::error::{Result, check};
use crate::message::Wire;
use crate::still::Still;
use crate::{consts, ffi};

const WORD_BYTES: usize = size_of::<u64>();

fn byte_of(word: usize) -> ffi::MPI_Aint {
    (word * WORD_BYTES) as ffi::MPI_Aint
}

/// An MPI window of all ranks of a group.
#[derive(Debug)]
pub(super) struct Window {
    win: ffi::MPI_Win,
    epochs: Epochs,
    /// Locked during an exclusive epoch: a process may have one such epoch at a time, whatever the number
    /// of its threads.
    exclusive: Mutex<()>,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it.
unsafe impl Send for Window {}
// SAFETY: as for `Send` above. After construction only the mutex changes.
unsafe impl Sync for Window {}

impl Window {
    /// Creates a window with `words` words of each rank. Collective over the communicator. The caller must
    /// tell the other ranks about an error, and must leak the window if another rank has an error:
    /// `MPI_Win_free` would wait for that rank.
    pub(super) fn make(wire: Wire<'_>, words: usize, epochs: Epochs, is_one_machine: bool) -> Result<Self> {
        let mut win = consts::win_null();
        let mut base: *mut c_void = ptr::null_mut();
        // In shared memory an operation can complete without a call of MPI by the target, also with an MPI
        // library that needs such a call for a window of MPI_Win_allocate.
        let allocate = if is_one_machine { ffi::MPI_Win_allocate_shared } else { ffi::MPI_Win_allocate };
        let (bytes, target) = ((words * WORD_BYTES) as ffi::MPI_Aint, (&raw mut base).cast::<c_void>());
        // All ranks of the communicator call the same function, because `is_one_machine` is the same on all
        // ranks. They call MPI_Win_allocate_shared only if all ranks share memory.
        // SAFETY: MPI-4.0 sections 12.2.2 and 12.2.3: both functions have the same parameters, are
        // collective, and write the address of the part of this rank and a handle.
        let status = unsafe { allocate(bytes, 1, consts::info_null(), wire.comm, target, &raw mut win) };
        check("MPI_Win_allocate", status)?;
        // SAFETY: the call above has created the window. The error handler is predefined.
        let status = unsafe { ffi::MPI_Win_set_errhandler(win, consts::errors_return()) };
        check("MPI_Win_set_errhandler", status)?;
        // SAFETY: MPI has allocated `words * WORD_BYTES` bytes at `base` for this rank. No other rank
        // accesses them before the ranks have agreed that all of them have a window.
        unsafe { ptr::write_bytes(base.cast::<u8>(), 0, words * WORD_BYTES) };
        let window = Self { win, epochs, exclusive: Mutex::new(()) };
        if epochs == Epochs::Standing {
            // SAFETY: this function has created the window, and no epoch is open. No rank uses MPI_Win_lock
            // on this window, as MPI_MODE_NOCHECK requires. The epoch stays open until the window is freed.
            check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(consts::mode_nocheck(), win) })?;
            // SAFETY: the window is valid, and its epoch is open. After the agreement on the window the
            // operations of other ranks read the zeros that this rank has stored.
            check("MPI_Win_sync", unsafe { ffi::MPI_Win_sync(win) })?;
        } else {
            // Later epochs read the zeros that this rank has stored (MPI-4.0 section 12.7).
            window.in_epoch(wire.rank, || Ok(()))?;
        }
        Ok(window)
    }

    /// Frees the window. Collective over the ranks of the window.
    ///
    /// # Safety
    /// No thread uses the window any more, and this is the only call.
    unsafe fn free(&self) {
        let mut win = self.win;
        // SAFETY: `make` has created the window and, for standing epochs, opened its epoch. By `# Safety` of
        // this function no thread uses the window, and it is freed once.
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

    /// [`Medium::fetch_and`] with words of type `W`, which is the type of `datatype`.
    fn fetch_typed<W: Copy>(&self, op: FetchOp, value: W, datatype: ffi::MPI_Datatype, at: At) -> Result<W> {
        let op = match op {
            FetchOp::Load => consts::no_op(),
            FetchOp::Swap => consts::replace(),
            FetchOp::Add => consts::sum(),
        };
        let [_, before] = with_buffer([value; 2], |buffer| {
            self.in_epoch(at.rank, || {
                let (given, fetched) = (buffer.cast::<c_void>(), buffer.wrapping_add(1).cast::<c_void>());
                let (target, byte) = (at.rank as c_int, byte_of(at.word));
                // SAFETY: MPI-4.0 section 12.3.4: `with_buffer` keeps both words until the operation is complete.
                // The displacement lies inside of the part of the target rank.
                let status =
                    unsafe { ffi::MPI_Fetch_and_op(given, fetched, datatype, target, byte, op, self.win) };
                check("MPI_Fetch_and_op", status)
            })
        })?;
        Ok(before)
    }
}

impl Medium for Window {
    fn fetch_and(&self, op: FetchOp, value: u64, width: Width, at: At) -> Result<u64> {
        match width {
            Width::W32 => self.fetch_typed(op, value as u32, consts::uint32(), at).map(u64::from),
            Width::W64 => self.fetch_typed(op, value, consts::uint64(), at),
        }
    }

    fn compare_swap(&self, expected: u32, value: u32, at: At) -> Result<u32> {
        let [.., before] = with_buffer([value, expected, 0], |buffer| {
            self.in_epoch(at.rank, || {
                let part = |at| buffer.wrapping_add(at).cast::<c_void>();
                let (target, byte, uint32) = (at.rank as c_int, byte_of(at.word), consts::uint32());
                // SAFETY: as in `fetch_typed`, for the three words of `buffer`.
                let status = unsafe {
                    ffi::MPI_Compare_and_swap(part(0), part(1), part(2), uint32, target, byte, self.win)
                };
                check("MPI_Compare_and_swap", status)
            })
        })?;
        Ok(before)
    }

    fn exchange(&self, table: At, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        assert!(self.is_exclusive(), "the operation is atomic only in exclusive epochs");
        let mut all = vec![0_u64; words];
        all[first..first + put.len()].copy_from_slice(put);
        let buffer = Box::into_raw(all.into_boxed_slice());
        let start = buffer.cast::<u64>();
        let part = |put: bool, at: usize, count: usize| {
            let (at_home, count) = (byte_of(table.word + at), count as c_int);
            let (uint64, own) = (consts::uint64(), start.wrapping_add(at).cast::<c_void>());
            let (target, win) = (table.rank as c_int, self.win);
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
        // An error leaks the buffer, because MPI may still write to it.
        self.in_epoch(table.rank, || {
            let around = [(true, first, end), (false, 0, first), (false, end, words)];
            around
                .into_iter()
                .filter(|(_, from, to)| from < to)
                .try_for_each(|(put, from, to)| part(put, from, to - from))
        })?;
        // SAFETY: the operations are complete, and the address came from Box::into_raw.
        Ok(unsafe { Box::from_raw(buffer) }.into_vec())
    }

    fn claim_if_none(&self, table: At, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        assert!(self.is_exclusive(), "the operation is atomic only in exclusive epochs");
        // The last word is the value to store.
        let mut all = vec![0_u64; words + 1];
        all[words] = value;
        let buffer = Box::into_raw(all.into_boxed_slice());
        let start = buffer.cast::<u64>();
        let (uint64, target, win) = (consts::uint64(), table.rank as c_int, self.win);
        self.in_epoch(table.rank, || {
            let (count, from) = (words as c_int, byte_of(table.word));
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
            let to = byte_of(table.word + at);
            // SAFETY: as for MPI_Get above: word `words` lies inside of the buffer, and word `at` inside of
            // the table.
            let status = unsafe { ffi::MPI_Put(put, 1, uint64, target, to, 1, uint64, win) };
            check("MPI_Put", status)
        })?;
        // SAFETY: the operations are complete, and the address came from Box::into_raw.
        let mut all = unsafe { Box::from_raw(buffer) }.into_vec();
        all.truncate(words);
        Ok(all)
    }

    fn is_exclusive(&self) -> bool {
        self.epochs == Epochs::Exclusive
    }

    fn is_passive(&self) -> Option<bool> {
        None
    }

    fn guarantee(&self) -> &'static str {
        "an operation may wait until its target calls MPI"
    }

    fn close(&self, all_departed: bool) {
        if all_departed {
            // SAFETY: `# Safety` of `free`: the pool has given out this medium for the last time, all ranks
            // are here, and `close` is called once.
            unsafe { self.free() };
        } else {
            tracing::warn!("a window is leaked: not all ranks have released it");
        }
    }
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
