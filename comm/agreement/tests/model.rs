//! Model check of a reduction with `loom`: every order of the memory operations of two ranks, and every
//! value that the memory model lets a load return. The model must find a failure of each mutant: one has
//! only one set of lanes, the other has a barrier that does not order memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capulet_agreement::{Barrier, LANES, Lanes, Meeting, Word};

const RANKS: usize = 2;

/// The words of `loom` under the trait of this crate.
#[derive(Debug, Default)]
struct Word32(loom::sync::atomic::AtomicU32);
/// The mutant whose barrier does not order memory.
#[derive(Debug, Default)]
struct Relaxed32(loom::sync::atomic::AtomicU32);
#[derive(Debug, Default)]
struct Word64(loom::sync::atomic::AtomicU64);

macro_rules! word {
    ($word:ty, $value:ty, $ordered:expr) => {
        impl Word<$value> for $word {
            fn load(&self, order: Ordering) -> $value {
                self.0.load($ordered(order))
            }
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, $ordered(order));
            }
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, $ordered(order))
            }
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, $ordered(order))
            }
        }
    };
}
word!(Word32, u32, |order| order);
word!(Relaxed32, u32, |_| Ordering::Relaxed);
word!(Word64, u64, |order| order);

/// The memory of one channel.
#[derive(Debug, Default)]
struct Memory<W> {
    barrier: Barrier<W>,
    lanes: [Lanes<Word64>; RANKS],
    /// The mutant with one set of lanes.
    has_one_set: bool,
}

impl<W: Word<u32>> Meeting for Memory<W> {
    type W32 = W;
    type W64 = Word64;

    fn ranks(&self) -> usize {
        RANKS
    }

    fn barrier(&self) -> &Barrier<W> {
        &self.barrier
    }

    fn lanes(&self, rank: usize) -> &Lanes<Word64> {
        &self.lanes[rank]
    }

    fn set(&self, rank: usize, generation: u32) -> &[Word64; LANES] {
        let set = if self.has_one_set { 0 } else { generation % 2 };
        &self.lanes[rank].0[set as usize].0
    }
}

/// The smallest and the largest of the values of all ranks.
fn extremes<W: Word<u32>>(memory: &Memory<W>, rank: usize, which: u64, value: u64) -> [u64; 2] {
    let mut lanes = [value; 2];
    let combine =
        |lane: usize, left: u64, right: u64| if lane == 0 { left.min(right) } else { left.max(right) };
    let met = memory.reduce(rank, which, &mut lanes, combine, |_| (), |_| loom::thread::yield_now());
    met.expect("the ranks are in the same reduction");
    lanes
}

/// Explores a model and returns the number of its executions. Fails if one of them fails.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    count.load(Ordering::Relaxed)
}

/// Whether a model has an execution that fails.
fn is_refused(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(preemptions, model))).is_err()
}

/// Consecutive reductions by two ranks. Each rank must see exactly the values of its current reduction.
fn in_a_row<W: Word<u32> + Send + Sync + 'static>(has_one_set: bool) {
    let memory = loom::sync::Arc::new(Memory::<W> { has_one_set, ..Memory::default() });
    let rank = |rank: usize, memory: &Memory<W>| {
        for round in 0..3 {
            let value = round * 10 + rank as u64;
            assert_eq!(extremes(memory, rank, round, value), [round * 10, round * 10 + 1]);
        }
    };
    let other = loom::sync::Arc::clone(&memory);
    let thread = loom::thread::spawn(move || rank(1, &other));
    rank(0, &memory);
    thread.join().expect("the other rank does not fail");
}

#[test]
fn reductions_in_a_row_see_their_own_values() {
    let executions = explore(3, || in_a_row::<Word32>(false));
    println!("{executions} executions");
    assert!(executions > 100);
}

#[test]
fn one_set_of_lanes_is_not_enough() {
    assert!(is_refused(3, || in_a_row::<Word32>(true)));
}

#[test]
fn barrier_must_order_memory() {
    assert!(is_refused(3, || in_a_row::<Relaxed32>(false)));
}
