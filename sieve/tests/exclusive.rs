//! Writes of one rank with the promise that no other operation writes to the holes: holes are read and
//! written back with their old bytes. Without the promise no byte is read. The tests include short files,
//! and storage that fails at any call.

use std::sync::Arc;

use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_plan::CacheState;
use capulet_sieve::{Access, Counters, Holes, Memory, Sieves, Target, Transferred, independent};
use proptest::prelude::*;

const OLD: u8 = 0xAA;

/// `count` runs of `bytes` bytes, `stride` bytes apart, from `displacement` on. The access leaves out the
/// first `start` bytes.
#[derive(Debug, Clone)]
struct Scenario {
    count: usize,
    bytes: usize,
    stride: usize,
    displacement: usize,
    start: usize,
    file_bytes: usize,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let runs = (1_usize..3_000, 1_usize..200, 0_usize..600);
    let places = (0_usize..5_000, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (runs, places).prop_map(|((count, bytes, gap), (displacement, start, file_end))| {
        let stride = bytes + gap;
        let end = displacement + count * stride;
        Scenario {
            count,
            bytes,
            stride,
            displacement,
            start: start.index(2 * count * bytes).saturating_sub(count * bytes),
            file_bytes: file_end.index(2 * end).min(end),
        }
    })
}

impl Scenario {
    fn written_bytes(&self) -> usize {
        self.count * self.bytes - self.start
    }

    /// File offset of each byte of the access.
    fn offsets(&self) -> impl Iterator<Item = usize> + '_ {
        let offset = |at: usize| self.displacement + at / self.bytes * self.stride + at % self.bytes;
        (self.start..self.count * self.bytes).map(offset)
    }

    fn access(&self, memory: &mut [u8]) -> Access {
        let byte = Datatype::named(Named::Byte);
        let (bytes, stride) = (self.bytes as u64, self.stride as i64);
        let runs = Datatype::hvector(self.count as u64, bytes, stride, &byte).expect("the datatype is valid");
        let view = Tiled::new(runs.layout().clone(), 1).expect("the tiling is small");
        let flat = Tiled::new(byte.layout().clone(), memory.len() as u64).expect("the tiling is small");
        // SAFETY: `# Safety` of `Memory::new`: the layout has as many bytes as `memory`, which outlives
        // the access.
        let memory_side = unsafe { Memory::new(memory.as_mut_ptr(), flat) };
        Access::new(self.displacement as u64, &view, self.start as u64, memory_side, memory.len() as u64)
            .expect("the offsets are small")
    }

    /// The file after the first `moved` bytes of the access.
    fn after(&self, moved: usize) -> Vec<u8> {
        let mut file = vec![OLD; self.file_bytes];
        for (at, offset) in self.offsets().take(moved).enumerate() {
            if file.len() <= offset {
                file.resize(offset + 1, 0);
            }
            file[offset] = value(at);
        }
        file
    }
}

fn value(at: usize) -> u8 {
    (at % 251) as u8
}

/// Writes to a new file, with the faults of `plan` in its driver. Returns the outcome, the file after it,
/// and the counters.
fn run(scenario: &Scenario, holes: Holes, plan: &str) -> (Transferred, Vec<u8>, Arc<Counters>) {
    let driver: Arc<dyn Driver> = Arc::new(MemDriver::new());
    let options = OpenOptions::read_write().create(true);
    let inner = driver.open("data".as_ref(), &options).expect("the file in memory opens");
    inner.write_all_at(0, &vec![OLD; scenario.file_bytes]).expect("the file in memory is written");
    let faulty = Faulty::new(driver, FaultPlan::parse(plan).expect("the fault plan is valid"));
    let file: Arc<dyn DriverFile> = faulty.open("data".as_ref(), &options).expect("the file opens");
    let counters = Arc::new(Counters::default());
    let target =
        Target { file, isolation: None, counters: counters.clone(), holes, sieves: Sieves::default() };
    let mut memory: Vec<u8> = (0..scenario.written_bytes()).map(value).collect();
    let done = independent::run(&target, &scenario.access(&mut memory), Direction::Write);
    let mut after = vec![0; inner.len().expect("the file in memory has a length") as usize];
    assert_eq!(inner.read_at(0, &mut after).expect("the file in memory is read"), after.len());
    (done, after, counters)
}

fn way(scenario: &Scenario, holes: Holes) -> independent::Way {
    let mut memory = vec![0; scenario.written_bytes()];
    independent::choose(&scenario.access(&mut memory), Direction::Write, CacheState::Cached, holes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn holes_keep_their_bytes(scenario in scenarios()) {
        for holes in [Holes::Untouched, Holes::Rewritten] {
            // Without the promise any read would make the access fail.
            let plan = if holes == Holes::Untouched { "read@*:io" } else { "" };
            let (done, after, _) = run(&scenario, holes, plan);
            prop_assert!(done.error.is_none() && done.bytes == scenario.written_bytes() as u64);
            prop_assert!(after == scenario.after(scenario.written_bytes()), "{holes:?}");
        }
    }
}

const SMALL: Scenario =
    Scenario { count: 20_000, bytes: 16, stride: 64, displacement: 5, start: 3, file_bytes: 700_000 };

#[test]
fn promise_saves_system_calls() {
    assert_ne!(way(&SMALL, Holes::Untouched), independent::Way::SieveBuffer);
    assert_eq!(way(&SMALL, Holes::Rewritten), independent::Way::SieveBuffer);
    let pieces = |holes| Counters::get(&run(&SMALL, holes, "").2.pieces);
    // 1.28 MB through a sieve buffer of 256 KiB; each of the 5 parts is read and written.
    assert_eq!((pieces(Holes::Untouched), pieces(Holes::Rewritten)), (20_000, 10));
}

#[test]
fn failed_read_of_holes_falls_back_to_runs() {
    for call in 0..4 {
        let (done, after, counters) = run(&SMALL, Holes::Rewritten, &format!("read@{call}:io"));
        assert!(done.error.is_none() && done.bytes == SMALL.written_bytes() as u64, "{:?}", done.error);
        assert!(after == SMALL.after(SMALL.written_bytes()));
        assert!(Counters::get(&counters.pieces) > 20_000, "each run is written by itself");
    }
}

/// The storage behaves like a full disk that has room for the runs, but not for the holes.
#[test]
fn failed_write_back_falls_back_to_runs() {
    for call in 0..5 {
        for moved in ["", "=1000", "=100000000"] {
            let (done, after, _) = run(&SMALL, Holes::Rewritten, &format!("write@{call}:nospace{moved}"));
            assert!(done.error.is_none() && done.bytes == SMALL.written_bytes() as u64, "{call}");
            assert!(after == SMALL.after(SMALL.written_bytes()));
        }
    }
    let (done, after, _) = run(&SMALL, Holes::Rewritten, "write@*:nospace");
    assert!(done.error.is_some() && done.bytes == 0 && after == SMALL.after(0));
}
