//! Ranks as threads of one process. Code that uses [`Agree`] and [`NodeShared`] runs on them without MPI.
//!
//! A rank whose endpoint is dropped has left. Calls of other ranks that would wait for it return an
//! error, so that a failing test ends instead of hanging.

mod leaders;

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::agree::{Agree, Pending, ReduceOp, Track};
use crate::class::ErrorClass;
use crate::error::{Error, Result};
use crate::lanes::{bytes_of, check_lanes, words_of};
use crate::memory::SLOTS;
use crate::node_shared::{Barriers, NodeShared};
use crate::rank::Rank;

pub use leaders::LocalLeaders;

const PAGE_BYTES: usize = 4096;

/// The place where the ranks meet. Every collective operation is one exchange: each rank contributes
/// bytes, and each rank gets the bytes of all ranks.
#[derive(Debug)]
struct Meeting {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    brought: Vec<Vec<u8>>,
    arrived: usize,
    /// The number of completed exchanges.
    generation: u64,
    /// The contributions to the latest completed exchange. They stay until the next exchange completes,
    /// at which every rank must arrive first.
    result: Arc<Vec<Vec<u8>>>,
    gone: bool,
}

impl Meeting {
    fn new(size: usize) -> Arc<Self> {
        let state = State { brought: vec![Vec::new(); size], ..State::default() };
        Arc::new(Meeting { size, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self, rank: usize, bytes: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        let generation = self.arrive(rank, bytes);
        Ok(Arc::clone(&self.await_end(generation as u32)?.result))
    }

    /// Waits until the exchange completes.
    fn await_end(&self, generation: u32) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        while state.generation as u32 == generation {
            if state.gone {
                return Err(Error::Elsewhere { class: ErrorClass::Other });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    /// Contributes bytes without waiting for the other ranks. Returns the number of the exchange.
    fn arrive(&self, rank: usize, bytes: Vec<u8>) -> u64 {
        let mut state = self.lock();
        let generation = state.generation;
        state.brought[rank] = bytes;
        state.arrived += 1;
        if state.arrived == self.size {
            let brought = std::mem::replace(&mut state.brought, vec![Vec::new(); self.size]);
            state.result = Arc::new(brought);
            state.arrived = 0;
            state.generation += 1;
            self.changed.notify_all();
        }
        generation
    }

    /// Whether the exchange is complete.
    fn is_over(&self, generation: u32) -> Result<bool> {
        let state = self.lock();
        let over = state.generation as u32 != generation;
        if state.gone && !over { Err(Error::Elsewhere { class: ErrorClass::Other }) } else { Ok(over) }
    }

    fn leave(&self) {
        self.lock().gone = true;
        self.changed.notify_all();
    }
}

/// A [`Channel`](crate::Channel) between threads.
#[derive(Debug)]
pub struct LocalChannel {
    meeting: Arc<Meeting>,
    /// One meeting per spare track, for the reductions of that track.
    spare: Vec<Arc<Meeting>>,
    rank: Rank,
}

impl LocalChannel {
    /// One endpoint per rank.
    pub fn team(ranks: usize) -> Vec<LocalChannel> {
        let meeting = Meeting::new(ranks);
        let spare: Vec<_> = (0..Track::SPARE).map(|_| Meeting::new(ranks)).collect();
        let channel = |rank| LocalChannel {
            meeting: Arc::clone(&meeting),
            spare: spare.clone(),
            rank: Rank(rank as u32),
        };
        (0..ranks).map(channel).collect()
    }

    fn exchange(&self, bytes: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        self.meeting.exchange(self.rank.index(), bytes)
    }
}

impl Agree for LocalChannel {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.meeting.size as u32
    }

    fn barrier(&self) -> Result<()> {
        self.exchange(Vec::new()).map(|_| ())
    }

    fn allreduce(&self, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()> {
        check_lanes(lanes, ops)?;
        let all = self.exchange(bytes_of(lanes))?;
        lanes.copy_from_slice(&reduce(&all, ops)?);
        Ok(())
    }

    fn start_allreduce(&self, track: Track, lanes: &[u64], ops: &[ReduceOp]) -> Result<Box<dyn Pending>> {
        check_lanes(lanes, ops)?;
        let meeting = if track == Track::WAITING { &self.meeting } else { &self.spare[track.0 as usize - 1] };
        let generation = meeting.arrive(self.rank.index(), bytes_of(lanes)) as u32;
        Ok(Box::new(LocalReduction {
            meeting: Arc::clone(meeting),
            generation,
            ops: ops.to_vec(),
            over: false,
        }))
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        if root.0 >= self.size() {
            return Err(Error::invalid(ErrorClass::Root, format!("root {root} of {} ranks", self.size())));
        }
        let mine = if root == self.rank { std::mem::take(data) } else { Vec::new() };
        data.clone_from(&self.exchange(mine)?[root.index()]);
        Ok(())
    }

    fn allgather(&self, value: u64) -> Result<Vec<u64>> {
        let all = self.exchange(value.to_ne_bytes().to_vec())?;
        let word = |bytes: &Vec<u8>| bytes.as_slice().try_into().map(u64::from_ne_bytes);
        all.iter()
            .map(word)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| Error::Disagreement { what: "the kind of a collective operation" })
    }

    fn gather(&self, data: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let all = self.exchange(data.to_vec())?;
        Ok((self.rank == Rank(0)).then(|| all.to_vec()))
    }
}

impl Drop for LocalChannel {
    fn drop(&mut self) {
        self.meeting.leave();
        self.spare.iter().for_each(|meeting| meeting.leave());
    }
}

/// A reduction between threads.
#[derive(Debug)]
struct LocalReduction {
    meeting: Arc<Meeting>,
    generation: u32,
    ops: Vec<ReduceOp>,
    over: bool,
}

impl Pending for LocalReduction {
    fn poll(&mut self) -> Result<Option<Vec<u64>>> {
        if self.over || !self.meeting.is_over(self.generation)? {
            return Ok(None);
        }
        self.over = true;
        let all = Arc::clone(&self.meeting.lock().result);
        reduce(&all, &self.ops).map(Some)
    }
}

/// Reduces the contributed lanes of all ranks.
fn reduce(all: &[Vec<u8>], ops: &[ReduceOp]) -> Result<Vec<u64>> {
    let mut lanes = words_of(&all[0], ops.len())?;
    for theirs in &all[1..] {
        for ((lane, op), value) in lanes.iter_mut().zip(ops).zip(words_of(theirs, ops.len())?) {
            *lane = op.apply(*lane, value);
        }
    }
    Ok(lanes)
}

/// A [`NodeBuffer`](crate::NodeBuffer) between threads.
#[derive(Debug)]
pub struct LocalBuffer {
    shared: Arc<Shared>,
    place: usize,
}

#[derive(Debug)]
struct Shared {
    meeting: Arc<Meeting>,
    bytes: usize,
    parts: Vec<Part>,
}

/// The part of one rank. In contrast to a real buffer, each part is an allocation of its own.
#[derive(Debug)]
struct Part {
    data: Pages,
    map: Vec<AtomicU64>,
    slots: [AtomicU64; SLOTS],
}

/// Zeroed, page-aligned memory that threads share as raw bytes.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation is not bound to a thread. The value gives out only its address, as a raw
// pointer; code that dereferences the pointer must justify the access.
unsafe impl Send for Pages {}
// SAFETY: as for `Send` above. No method changes the value.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("the size fits in memory");
        // SAFETY: `alloc_zeroed` requires a size that is not zero. The size is a power of two of at least
        // one page.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        Pages { start, layout }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated the memory with this layout. It is freed once, because this is the
        // drop of its owner.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl LocalBuffer {
    /// One endpoint per rank of a buffer with at least `bytes` bytes of data per rank. As in real
    /// buffers, the size is a power of two.
    ///
    /// # Panics
    /// If the size does not fit in memory.
    pub fn team(ranks: usize, bytes: usize) -> Vec<LocalBuffer> {
        let bytes = bytes.max(PAGE_BYTES).checked_next_power_of_two().expect("the size fits in memory");
        let part = |_| Part {
            data: Pages::new(bytes),
            map: (0..bytes / 64).map(|_| AtomicU64::new(0)).collect(),
            slots: Default::default(),
        };
        let parts = (0..ranks).map(part).collect();
        let shared = Arc::new(Shared { meeting: Meeting::new(ranks), bytes, parts });
        (0..ranks).map(|place| LocalBuffer { shared: Arc::clone(&shared), place }).collect()
    }
}

// No field changes after `team`. The barrier is a mutex and a condition variable, which order memory. It is
// over when all ranks have arrived.
// SAFETY: `# Safety` of `NodeShared`: each part is a page-aligned allocation of `bytes` bytes, freed with the
// last endpoint of the buffer. The map has `bytes / 64` words.
unsafe impl NodeShared for LocalBuffer {
    fn place(&self) -> usize {
        self.place
    }

    fn ranks(&self) -> usize {
        self.shared.parts.len()
    }

    fn bytes(&self) -> usize {
        self.shared.bytes
    }

    fn data(&self, rank: usize) -> *mut u8 {
        self.shared.parts[rank].data.start.as_ptr()
    }

    fn map(&self, rank: usize) -> &[AtomicU64] {
        &self.shared.parts[rank].map
    }

    fn published(&self, rank: usize) -> &[AtomicU64] {
        &self.shared.parts[rank].slots
    }

    fn barriers(&self) -> Barriers {
        Barriers(self.shared.meeting.lock().generation as u32)
    }

    fn arrive(&self) -> Result<Barriers> {
        Ok(Barriers(self.shared.meeting.arrive(self.place, Vec::new()) as u32))
    }

    fn is_over(&self, barrier: Barriers) -> Result<bool> {
        self.shared.meeting.is_over(barrier.0)
    }

    fn wait(&self, barrier: Barriers) -> Result<()> {
        self.shared.meeting.await_end(barrier.0).map(|_| ())
    }
}

impl Drop for LocalBuffer {
    fn drop(&mut self) {
        self.shared.meeting.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;

    /// Runs `rank_main` on each endpoint, each in a thread of its own.
    fn on_each<T: Send, R: Send>(ends: Vec<T>, rank_main: impl Fn(T) -> R + Sync) -> Vec<R> {
        thread::scope(|scope| {
            let main = &rank_main;
            let threads: Vec<_> = ends.into_iter().map(|end| scope.spawn(move || main(end))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
        })
    }

    #[test]
    fn collectives_match_their_definition() {
        for ranks in [1, 2, 3, 7] {
            let sums = on_each(LocalChannel::team(ranks), |channel| {
                let me = u64::from(channel.rank().0);
                let mut lanes = [me, me, me + 1, 1 << me];
                let ops = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::BitOr];
                channel.allreduce(&mut lanes, &ops).expect("a reduction");
                let mut data = vec![me as u8; 3];
                channel.broadcast(Rank(ranks as u32 - 1), &mut data).expect("a broadcast");
                assert_eq!(data, [ranks as u8 - 1; 3]);
                assert_eq!(
                    channel.allgather(me).expect("an allgather"),
                    (0..ranks as u64).collect::<Vec<_>>()
                );
                let parts = channel.gather(&[me as u8]).expect("a gather");
                assert_eq!(parts.map(|parts| parts.len()), (me == 0).then_some(ranks));
                let outcome =
                    channel.agree_on_outcome((me == 0).then_some(ErrorClass::Io)).expect("an agreement");
                assert_eq!(outcome, Some(ErrorClass::Io));
                channel.barrier().expect("a barrier");
                lanes
            });
            let n = ranks as u64;
            assert!(sums.iter().all(|lanes| *lanes == [n * (n - 1) / 2, n - 1, 1, (1 << n) - 1]));
        }
    }

    #[test]
    fn dropped_rank_is_an_error_on_the_other_ranks() {
        let outcomes = on_each(LocalChannel::team(3), |channel| {
            if channel.rank() == Rank(1) { Ok(()) } else { channel.barrier() }
        });
        assert!(outcomes[0].is_err() && outcomes[2].is_err());
    }

    #[test]
    fn buffer_is_shared_and_its_barrier_orders_memory() {
        let buffers = LocalBuffer::team(4, 5000);
        assert_eq!((buffers[0].bytes(), buffers[0].map(3).len()), (8192, 128));
        on_each(buffers, |buffer| {
            let me = buffer.place();
            assert_eq!(buffer.data(me).addr() % PAGE_BYTES, 0);
            for round in 0..200_u64 {
                // SAFETY: between two barriers only this rank writes to its own part, and no rank reads
                // the part.
                unsafe { buffer.data(me).add(5).write(round as u8 + me as u8) };
                buffer.map(me)[7].store(round, Ordering::Relaxed);
                buffer.published(me)[SLOTS - 1].store(round, Ordering::Relaxed);
                buffer.barrier().expect("a barrier");
                for rank in 0..buffer.ranks() {
                    // SAFETY: between these two barriers no rank writes.
                    let seen = unsafe { buffer.data(rank).add(5).read() };
                    assert_eq!(seen, round as u8 + rank as u8);
                    assert_eq!(buffer.map(rank)[7].load(Ordering::Relaxed), round);
                    assert_eq!(buffer.published(rank)[SLOTS - 1].load(Ordering::Relaxed), round);
                }
                buffer.barrier().expect("a barrier");
            }
        });
    }
}
