//! The executors, with ranks as threads, on a file that is an array of cells with owners.
//!
//! Every cell of the file belongs to one rank or to none. The view of a rank has its cells, and its
//! memory is strided. After a write the file must hold each rank's bytes in its cells, and the old bytes
//! in all other cells. A read must return the same bytes.

use std::sync::Arc;

use capulet_comm::local::LocalBuffer;
use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::two_phase::{self, NodeGroup};
use capulet_sieve::{
    Access, Agreed, Counters, Holes, Memory, Sieves, Summary, Target, Transferred, independent,
};
use proptest::prelude::*;

/// A file of cells, and the access of each rank to its cells.
#[derive(Debug, Clone)]
struct Scenario {
    ranks: usize,
    cell_bytes: usize,
    /// The owner of each cell of a tile; `ranks` stands for no rank.
    owners: Vec<usize>,
    /// The number of tiles of the views.
    tiles: usize,
    displacement: u64,
    aggregators: usize,
    collective_buffer_bytes: u64,
    /// Bytes between the elements of user memory.
    gap: i64,
}

const OLD: u8 = 0xEE;

impl Scenario {
    fn file_bytes(&self) -> usize {
        self.displacement as usize + self.tiles * self.owners.len() * self.cell_bytes
    }

    /// The cells of a rank in the first `tiles` tiles, in bytes from the displacement.
    fn cells_in(&self, rank: usize, tiles: usize) -> Vec<i64> {
        let owned = |cell: &usize| self.owners[cell % self.owners.len()] == rank;
        let cells = (0..tiles * self.owners.len()).filter(owned);
        cells.map(|cell| (cell * self.cell_bytes) as i64).collect()
    }

    fn cells_of(&self, rank: usize) -> Vec<i64> {
        self.cells_in(rank, self.tiles)
    }

    /// The view of a rank: its cells, tiled without end.
    fn view(&self, rank: usize) -> Tiled {
        let byte = Datatype::named(Named::Byte);
        let cells = Datatype::hindexed_block(self.cell_bytes as u64, &self.cells_in(rank, 1), &byte)
            .expect("the datatype is valid");
        let cells = Datatype::resized(0, (self.owners.len() * self.cell_bytes) as i64, &cells)
            .expect("the datatype is valid");
        Tiled::until(cells.layout().clone(), 1 << 40)
    }

    fn payload(&self, rank: usize) -> Vec<u8> {
        let bytes = self.cells_of(rank).len() * self.cell_bytes;
        (0..bytes).map(|at| (rank * 37 + at * 11 + 1) as u8).collect()
    }

    /// The layout of memory: bytes with gaps.
    fn memory_layout(&self, bytes: usize) -> Tiled {
        let byte = Datatype::named(Named::Byte);
        let spaced = Datatype::resized(0, 1 + self.gap, &byte).expect("the datatype is valid");
        Tiled::new(spaced.layout().clone(), bytes as u64).expect("the tiling is small")
    }

    fn spread(&self, payload: &[u8]) -> Vec<u8> {
        let step = 1 + self.gap as usize;
        let mut memory = vec![0x55; payload.len() * step];
        for (at, byte) in payload.iter().enumerate() {
            memory[at * step] = *byte;
        }
        memory
    }

    fn expected_file(&self) -> Vec<u8> {
        let mut file = vec![OLD; self.file_bytes()];
        for rank in 0..self.ranks {
            let payload = self.payload(rank);
            for (index, cell) in self.cells_of(rank).into_iter().enumerate() {
                let start = self.displacement as usize + cell as usize;
                let part = &payload[index * self.cell_bytes..(index + 1) * self.cell_bytes];
                file[start..start + self.cell_bytes].copy_from_slice(part);
            }
        }
        file
    }
}

/// One rank's access of its whole payload, from or to `memory`.
fn access(scenario: &Scenario, rank: usize, memory: &mut [u8]) -> Access {
    let bytes = scenario.payload(rank).len();
    // SAFETY: `# Safety` of `Memory::new`: the layout reaches exactly the bytes of `memory`, which
    // outlives the access in every caller.
    let user = unsafe { Memory::new(memory.as_mut_ptr(), scenario.memory_layout(bytes)) };
    Access::new(scenario.displacement, &scenario.view(rank), 0, user, bytes as u64)
        .expect("the offsets are small")
}

/// The combined summary on which the ranks would agree.
fn agreed(scenario: &Scenario) -> Agreed {
    let summary = |rank| Summary::of(&access(scenario, rank, &mut scenario.spread(&scenario.payload(rank))));
    Agreed::of(&(0..scenario.ranks).map(summary).collect::<Vec<_>>())
}

/// Runs all ranks at the same time. Returns the memory, the outcome and the counters of each rank.
fn run_two_phase(
    scenario: &Scenario,
    files: &[Arc<dyn DriverFile>],
    direction: Direction,
    memories: Vec<Vec<u8>>,
) -> Vec<(Vec<u8>, Transferred, Arc<Counters>)> {
    let buffers = LocalBuffer::team(scenario.ranks, 2 * scenario.collective_buffer_bytes as usize);
    let agreed = agreed(scenario);
    std::thread::scope(|scope| {
        let ranks = memories.into_iter().zip(buffers).enumerate().map(|(rank, (mut memory, buffer))| {
            let file = files[rank].clone();
            scope.spawn(move || {
                let counters = Arc::new(Counters::default());
                let access = access(scenario, rank, &mut memory);
                let target = Target {
                    file: file.clone(),
                    isolation: None,
                    counters: counters.clone(),
                    holes: Holes::Untouched,
                    sieves: Sieves::default(),
                };
                let team = NodeGroup::new(
                    Arc::new(buffer),
                    scenario.aggregators,
                    scenario.collective_buffer_bytes,
                    0,
                    agreed.grain,
                )
                .ending_at(agreed.end);
                // SAFETY: all simulated ranks of a call pass the same direction, first byte, and values for
                // their node groups.
                let done = unsafe { two_phase::run(target, team, access, direction, agreed.first) };
                (memory, done, counters)
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("no rank panics")).collect()
    })
}

fn fresh_file(scenario: &Scenario) -> Arc<dyn DriverFile> {
    fresh_file_of(&MemDriver::new(), scenario)
}

fn fresh_file_of(driver: &dyn Driver, scenario: &Scenario) -> Arc<dyn DriverFile> {
    let options = OpenOptions::read_write().create(true);
    let file = driver.open("cells".as_ref(), &options).expect("the file in memory opens");
    file.write_all_at(0, &vec![OLD; scenario.file_bytes()]).expect("the file in memory is written");
    file
}

fn contents(file: &dyn DriverFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().expect("the file in memory has a length") as usize];
    let read = file.read_at(0, &mut bytes).expect("the file in memory is read");
    assert_eq!(read, bytes.len());
    bytes
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (1usize..5, 1usize..9, 0u64..5000, 1usize..6, 1u64..4, 0i64..4, 1usize..5).prop_flat_map(
        |(ranks, cell_bytes, displacement, aggregators, pages, gap, tiles)| {
            prop::collection::vec(0..=ranks, 0..2000).prop_map(move |owners| Scenario {
                ranks,
                cell_bytes,
                owners,
                tiles,
                displacement,
                aggregators,
                collective_buffer_bytes: pages * 4096,
                gap,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn two_phase_moves_exactly_the_requested_bytes(scenario in scenarios()) {
        let file = fresh_file(&scenario);
        let files = vec![file.clone(); scenario.ranks];
        let sources = (0..scenario.ranks).map(|rank| scenario.spread(&scenario.payload(rank))).collect();
        let outcomes = run_two_phase(&scenario, &files, Direction::Write, sources);
        for (rank, (_, done, counters)) in outcomes.iter().enumerate() {
            let bytes = scenario.payload(rank).len() as u64;
            prop_assert!(done.error.is_none());
            prop_assert_eq!(done.bytes, bytes);
            // one copy per byte
            prop_assert_eq!(Counters::get(&counters.copied_bytes), bytes);
        }
        prop_assert!(contents(file.as_ref()) == scenario.expected_file());

        let zeros = |rank| scenario.spread(&vec![0; scenario.payload(rank).len()]);
        let empty = (0..scenario.ranks).map(zeros).collect();
        let outcomes = run_two_phase(&scenario, &files, Direction::Read, empty);
        for (rank, (memory, done, counters)) in outcomes.into_iter().enumerate() {
            prop_assert_eq!(done.bytes, scenario.payload(rank).len() as u64);
            prop_assert_eq!(Counters::get(&counters.copied_bytes), done.bytes);
            prop_assert!(memory == scenario.spread(&scenario.payload(rank)));
        }
    }

    #[test]
    fn independent_moves_exactly_the_requested_bytes_and_copies_none_twice(scenario in scenarios()) {
        let file = fresh_file(&scenario);
        let counters = Arc::new(Counters::default());
        let target = Target {
            file: file.clone(),
            isolation: None,
            counters: counters.clone(),
            holes: Holes::Untouched, sieves: Sieves::default() };
        for rank in 0..scenario.ranks {
            let mut memory = scenario.spread(&scenario.payload(rank));
            let done = independent::run(&target, &access(&scenario, rank, &mut memory), Direction::Write);
            prop_assert_eq!(done.bytes, scenario.payload(rank).len() as u64);
        }
        prop_assert!(contents(file.as_ref()) == scenario.expected_file());
        let payload: u64 = (0..scenario.ranks).map(|rank| scenario.payload(rank).len() as u64).sum();
        prop_assert!(Counters::get(&counters.copied_bytes) <= payload);
        for rank in 0..scenario.ranks {
            let mut memory = scenario.spread(&vec![0; scenario.payload(rank).len()]);
            let done = independent::run(&target, &access(&scenario, rank, &mut memory), Direction::Read);
            prop_assert_eq!(done.bytes, scenario.payload(rank).len() as u64);
            prop_assert!(memory == scenario.spread(&scenario.payload(rank)));
        }
        prop_assert!(Counters::get(&counters.copied_bytes) <= 2 * payload);
    }

    #[test]
    fn short_file_gives_each_rank_the_bytes_before_its_end(scenario in scenarios(), keep in 0usize..30_000) {
        let file = fresh_file(&scenario);
        let keep = keep.min(scenario.file_bytes());
        let mut whole = scenario.expected_file();
        whole.truncate(keep);
        file.set_len(0).expect("the file in memory is truncated");
        file.write_all_at(0, &whole).expect("the file in memory is written");
        let alone = |rank: usize| {
            let counters = Arc::new(Counters::default());
            let target = Target {
                file: file.clone(),
                isolation: None,
                counters: counters.clone(),
                holes: Holes::Untouched, sieves: Sieves::default() };
            let mut memory = scenario.spread(&vec![0; scenario.payload(rank).len()]);
            let done = independent::run(&target, &access(&scenario, rank, &mut memory), Direction::Read);
            (memory, done, counters)
        };
        let files = vec![file.clone(); scenario.ranks];
        let zeros = |rank| scenario.spread(&vec![0; scenario.payload(rank).len()]);
        let empty = (0..scenario.ranks).map(zeros).collect();
        let all = run_two_phase(&scenario, &files, Direction::Read, empty).into_iter().enumerate();
        for (rank, (memory, done, _)) in all.chain((0..scenario.ranks).map(|rank| (rank, alone(rank)))) {
            let inside = |cell: i64| {
                (keep as i64 - scenario.displacement as i64 - cell).clamp(0, scenario.cell_bytes as i64)
            };
            let bytes: i64 = scenario.cells_of(rank).into_iter().map(inside).sum();
            prop_assert!(done.error.is_none());
            prop_assert_eq!(done.bytes, bytes as u64);
            let mut payload = scenario.payload(rank);
            payload[bytes as usize..].fill(0);
            prop_assert!(memory == scenario.spread(&payload));
        }
    }
}

/// The storage of one rank fails at its n-th call, for every n. Every rank returns, only the failing rank
/// has the error, and no byte has changed that no rank asked for.
#[test]
fn every_rank_returns_after_every_fault() {
    let ranks = 3;
    let owners = (0..12_000).map(|cell| cell % (ranks + 1)).collect();
    let scenario = Scenario {
        ranks,
        cell_bytes: 4,
        owners,
        tiles: 1,
        displacement: 100,
        aggregators: 3,
        collective_buffer_bytes: 4096,
        gap: 0,
    };
    let expected = scenario.expected_file();
    for direction in [Direction::Write, Direction::Read] {
        let mut seen = 0;
        for call in 0..1000 {
            let driver = Arc::new(MemDriver::new());
            let file = fresh_file_of(driver.as_ref(), &scenario);
            let name = if direction == Direction::Write { "write" } else { "read" };
            let plan = FaultPlan::parse(&format!("{name}@{call}:nospace")).expect("the fault plan is valid");
            let options = OpenOptions::read_write();
            let faulty = Faulty::new(driver, plan)
                .open("cells".as_ref(), &options)
                .expect("the file opens without a fault");
            let files = vec![file.clone(), faulty, file.clone()];
            let memories = (0..ranks).map(|rank| scenario.spread(&scenario.payload(rank))).collect();
            let outcomes = run_two_phase(&scenario, &files, direction, memories);
            let failed: Vec<_> = outcomes.iter().map(|(_, done, _)| done.error.is_some()).collect();
            let after = contents(file.as_ref());
            for (at, byte) in after.iter().enumerate() {
                assert!(*byte == OLD || *byte == expected[at], "byte {at} changed, but no rank asked for it");
            }
            if failed == [false; 3] {
                break;
            }
            assert_eq!(failed, [false, true, false], "only the rank with the failing storage has an error");
            assert!(outcomes[1].1.bytes < scenario.payload(1).len() as u64);
            seen += 1;
        }
        assert!(seen > 3, "only {seen} calls met a fault");
    }
}
