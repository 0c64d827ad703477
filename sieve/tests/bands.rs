//! Variables that alternate in memory and are arrays of their own in the file, like those of FLASH. They
//! are moved in chunks of several variables, with the same bytes and counts as one variable after the
//! other. The tests include short files, and storage that fails.

use std::sync::Arc;

use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::{Access, Counters, Holes, Memory, Sieves, Target, Transferred, independent};
use proptest::prelude::*;

const OLD: u8 = 0xAA;

#[derive(Debug, Clone)]
struct Scenario {
    variables: usize,
    cells: usize,
    /// Bytes of a value, bytes of a cell in memory, and bytes from one array to the next in the file.
    value_bytes: usize,
    cell_bytes: usize,
    array_bytes: usize,
    displacement: usize,
    /// Bytes of the access that are left out at its start, and at its end.
    skipped: usize,
    omitted: usize,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let sizes = (2_usize..80, 1_usize..30_000, prop_oneof![Just(4_usize), Just(8)], 0_usize..8);
    let places = (0_usize..4_000, 0_usize..6_000, 0_usize..50_000, 0_usize..50_000);
    (sizes, places).prop_map(
        |((variables, cells, value_bytes, padding), (gap, displacement, skipped, omitted))| {
            // A few megabytes at most.
            let cells = cells.min(3_000_000 / (variables * value_bytes)).max(1);
            let all = variables * cells * value_bytes;
            Scenario {
                variables,
                cells,
                value_bytes,
                cell_bytes: (variables + padding) * value_bytes,
                // The arrays are often so far apart that a read of the span would cost more.
                array_bytes: match gap % 3 {
                    0 => cells * value_bytes * (1 + gap % 4) + gap / 4,
                    // Arrays that begin at pages, and so have the same place within their pages.
                    _ => (cells * value_bytes).next_multiple_of(4096) * (1 + gap % 4),
                },
                displacement,
                skipped: if skipped % 2 == 0 { 0 } else { skipped % all / 3 / value_bytes * value_bytes },
                omitted: omitted % all / 3,
            }
        },
    )
}

impl Scenario {
    fn all_bytes(&self) -> usize {
        self.variables * self.cells * self.value_bytes
    }

    /// File offset and place in memory of each byte of the access, in the order of the access.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let run = self.cells * self.value_bytes;
        (self.skipped..self.all_bytes() - self.omitted).map(move |at| {
            let (variable, rest) = (at / run, at % run);
            let (cell, byte) = (rest / self.value_bytes, rest % self.value_bytes);
            let place = cell * self.cell_bytes + variable * self.value_bytes + byte;
            (self.displacement + variable * self.array_bytes + rest, place)
        })
    }

    fn memory_bytes(&self) -> usize {
        self.cells * self.cell_bytes
    }

    fn file_bytes(&self) -> usize {
        self.displacement + self.variables * self.array_bytes
    }

    /// The access with `memory`. The bytes that the access skips in the stream of the file are not part
    /// of the memory layout.
    fn access(&self, memory: &mut [u8]) -> Access {
        let byte = Datatype::named(Named::Byte);
        let value = Datatype::contiguous(self.value_bytes as u64, &byte).expect("the datatype is valid");
        let cell = Datatype::resized(0, self.cell_bytes as i64, &value).expect("the datatype is valid");
        let array = Datatype::contiguous(self.cells as u64, &cell).expect("the datatype is valid");
        let mut parts = vec![(
            0,
            Datatype::hvector(self.variables as u64, 1, self.value_bytes as i64, &array)
                .expect("the datatype is valid"),
        )];
        if self.skipped > 0 {
            parts = self.cut(&value, &array);
        }
        let (places, types): (Vec<i64>, Vec<Datatype>) = parts.into_iter().unzip();
        let tree =
            Datatype::structure(&vec![1; types.len()], &places, &types).expect("the datatype is valid");
        let run = (self.cells * self.value_bytes) as u64;
        let file = Datatype::hvector(self.variables as u64, run, self.array_bytes as i64, &byte)
            .expect("the datatype is valid");
        let tiled =
            |datatype: &Datatype| Tiled::new(datatype.layout().clone(), 1).expect("the tiling is small");
        let bytes = (self.all_bytes() - self.omitted - self.skipped) as u64;
        // SAFETY: `# Safety` of `Memory::new`: all places lie in `memory`, which outlives the access in
        // every caller.
        let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled(&tree)) };
        Access::new(self.displacement as u64, &tiled(&file), self.skipped as u64, user, bytes)
            .expect("the offsets are small")
    }

    /// The memory layout without the skipped values: the rest of the variable in which the access begins,
    /// and the variables after it.
    fn cut(&self, value: &Datatype, array: &Datatype) -> Vec<(i64, Datatype)> {
        let first_value = self.skipped / self.value_bytes;
        let (variable, cell) = (first_value / self.cells, first_value % self.cells);
        let rest = Datatype::hvector((self.cells - cell) as u64, 1, self.cell_bytes as i64, value)
            .expect("the datatype is valid");
        let at = |variable: usize| (variable * self.value_bytes) as i64;
        let mut parts = vec![(at(variable) + (cell * self.cell_bytes) as i64, rest)];
        let others = self.variables - variable - 1;
        if others > 0 {
            let others = Datatype::hvector(others as u64, 1, self.value_bytes as i64, array)
                .expect("the datatype is valid");
            parts.push((at(variable + 1), others));
        }
        parts
    }

    fn filled(&self, seed: usize) -> Vec<u8> {
        (0..self.memory_bytes()).map(|at| (at * 7 + at / 251 + seed) as u8 % 100).collect()
    }
}

fn file_of(driver: &dyn Driver, bytes: &[u8]) -> Arc<dyn DriverFile> {
    let file = driver.open("data".as_ref(), &OpenOptions::read_write().create(true)).expect("the file opens");
    file.write_all_at(0, bytes).expect("the file in memory is written");
    file
}

fn contents(file: &dyn DriverFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().expect("the file in memory has a length") as usize];
    assert_eq!(file.read_at(0, &mut bytes).expect("the file in memory is read"), bytes.len());
    bytes
}

fn run(
    scenario: &Scenario,
    file: Arc<dyn DriverFile>,
    memory: &mut [u8],
    direction: Direction,
) -> (Transferred, u64) {
    let counters = Arc::new(Counters::default());
    let target = Target {
        file,
        isolation: None,
        counters: counters.clone(),
        holes: Holes::Untouched,
        sieves: Sieves::default(),
    };
    let done = independent::run(&target, &scenario.access(memory), direction);
    (done, Counters::get(&counters.batches))
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn bytes_and_counts_match_the_access(
        scenario in scenarios(),
        cut in 0_usize..4_000_000,
        call in 0_u32..400,
    ) {
        let places: Vec<(usize, usize)> = scenario.places().collect();
        let old = vec![OLD; scenario.file_bytes()];
        let driver = Arc::new(MemDriver::new());
        let file = file_of(driver.as_ref(), &old);
        let mut memory = scenario.filled(3);
        let mut expected = old.clone();
        for (offset, place) in &places {
            expected[*offset] = memory[*place];
        }
        let (done, _) = run(&scenario, file.clone(), &mut memory, Direction::Write);
        prop_assert!(done.error.is_none());
        prop_assert_eq!(done.bytes, places.len() as u64);
        prop_assert!(contents(file.as_ref()) == expected);

        // The file is cut short. No byte beyond its end is read.
        let kept = cut % (scenario.file_bytes() + 1);
        file.set_len(kept as u64).expect("the file in memory is truncated");
        let mut found = scenario.filled(0);
        let (done, _) = run(&scenario, file.clone(), &mut found, Direction::Read);
        prop_assert!(done.error.is_none());
        let inside = places.iter().take_while(|(offset, _)| *offset < kept).count();
        prop_assert_eq!(done.bytes, inside as u64);
        let mut image = scenario.filled(0);
        for (_, place) in &places[..inside] {
            image[*place] = memory[*place];
        }
        prop_assert!(found == image);

        // A write that fails has written the bytes that it counts, and no byte that was not requested.
        let plan = FaultPlan::parse(&format!("write@{call}:nospace=1000")).expect("the fault plan is valid");
        let inner = Arc::new(MemDriver::new());
        let after = file_of(inner.as_ref(), &old);
        let faulty = Faulty::new(inner.clone(), plan).open("data".as_ref(), &OpenOptions::read_write())
            .expect("the file opens");
        let (done, batches) = run(&scenario, faulty, &mut memory, Direction::Write);
        prop_assert_eq!(done.error.is_some(), u64::from(call) < batches);
        let after = contents(after.as_ref());
        prop_assert!(done.error.is_some() || done.bytes == places.len() as u64);
        for (offset, place) in &places[..done.bytes as usize] {
            prop_assert_eq!(after[*offset], memory[*place]);
        }
        prop_assert!(after.iter().zip(&expected).all(|(byte, new)| *byte == OLD || byte == new));
    }
}

/// An error is reported even if it comes after all bytes of its batch were moved.
#[test]
fn error_after_all_bytes_of_a_batch_is_reported() {
    let scenario = Scenario {
        variables: 80,
        cells: 9218,
        value_bytes: 4,
        cell_bytes: 320,
        array_bytes: 10 * 4096,
        displacement: 0,
        skipped: 0,
        omitted: 0,
    };
    let driver = Arc::new(MemDriver::new());
    let file = file_of(driver.as_ref(), &vec![OLD; scenario.file_bytes()]);
    let (_, batches) = run(&scenario, file, &mut scenario.filled(1), Direction::Write);
    for call in 0..batches {
        let plan =
            FaultPlan::parse(&format!("write@{call}:nospace=100000000")).expect("the fault plan is valid");
        let options = OpenOptions::read_write();
        let faulty =
            Faulty::new(driver.clone(), plan).open("data".as_ref(), &options).expect("the file opens");
        let (done, made) = run(&scenario, faulty, &mut scenario.filled(1), Direction::Write);
        assert!(done.error.is_some() && made == call + 1, "call {call} of {batches}: {done:?}, {made}");
    }
}

#[test]
fn chunks_of_all_variables_are_moved_together() {
    let scenario = Scenario {
        variables: 24,
        cells: 20_480,
        value_bytes: 8,
        cell_bytes: 192,
        array_bytes: 20_480 * 8 * 4,
        displacement: 0,
        skipped: 0,
        omitted: 0,
    };
    let file = file_of(&MemDriver::new(), &vec![OLD; scenario.file_bytes()]);
    let (done, batches) = run(&scenario, file, &mut scenario.filled(1), Direction::Write);
    assert!(done.error.is_none());
    // 24 variables of 160 KiB, 8 KiB of each at a time. Run by run it would be 15 buffers.
    assert_eq!(batches, 20);
}
