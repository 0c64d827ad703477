//! Operations in random order, also with faults of the storage and of the exchange between nodes.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proptest::prelude::*;

use super::*;

/// The channel of a leader, of which one send fails.
#[derive(Debug)]
struct FailingLeaders {
    channel: Arc<dyn Leaders>,
    sends_before: AtomicU32,
}

impl Leaders for FailingLeaders {
    fn node(&self) -> usize {
        self.channel.node()
    }

    fn nodes(&self) -> usize {
        self.channel.nodes()
    }

    fn send(&self, node: usize, message: Vec<u8>) -> capulet_comm::Result<()> {
        match self.sends_before.fetch_sub(1, Relaxed) {
            0 => Err(capulet_comm::Error::Elsewhere { class: ErrorClass::Other }),
            _ => self.channel.send(node, message),
        }
    }

    fn try_receive(&self) -> capulet_comm::Result<Option<(usize, Vec<u8>)>> {
        self.channel.try_receive()
    }

    fn is_sent(&self) -> capulet_comm::Result<bool> {
        self.channel.is_sent()
    }
}

/// A sequence of steps. In each step a rank begins its next operation on a file, and then some ranks
/// poll.
#[derive(Debug, Clone)]
struct Scenario {
    nodes: usize,
    ranks: usize,
    files: usize,
    /// For each file, its operations: true for a read.
    operations: Vec<Vec<bool>>,
    /// Rank, file, and the ranks that poll afterwards.
    begins: Vec<(usize, usize, Vec<usize>)>,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (1usize..6, 1usize..4, 1usize..4).prop_flat_map(|(ranks, nodes, files)| {
        let operations = prop::collection::vec(prop::collection::vec(any::<bool>(), 1..12), files);
        let step = (0..ranks, 0..files, prop::collection::vec(0..ranks, 0..12));
        (operations, prop::collection::vec(step, 0..200)).prop_map(move |(operations, begins)| Scenario {
            nodes: nodes.min(ranks),
            ranks,
            files,
            operations,
            begins,
        })
    })
}

/// The memory of each rank, by file and operation.
type Buffers = Vec<Vec<Vec<Vec<u8>>>>;

impl Scenario {
    fn empty_buffers(&self) -> Buffers {
        let of_file = |all: &Vec<bool>| vec![vec![0; CELLS * CELL]; all.len()];
        (0..self.ranks).map(|_| self.operations.iter().map(of_file).collect()).collect()
    }
}

/// The error class of each operation, by file and place. Fails unless it is the same on all ranks.
fn classes_of(
    requests: Vec<(usize, usize, usize, Request)>,
) -> std::result::Result<BTreeMap<(usize, usize), Option<ErrorClass>>, TestCaseError> {
    let mut classes = BTreeMap::new();
    for (rank, file, place, request) in requests {
        let class = outcome(request).error.map(|error| error.class());
        prop_assert_eq!(*classes.entry((file, place)).or_insert(class), class, "rank {}", rank);
    }
    Ok(classes)
}

/// Runs a scenario: its steps, then all operations that have not begun, then polls of the ranks in cyclic
/// order until all operations are over.
fn run(
    scenario: &Scenario,
    simulation: &mut Simulation,
    buffers: &mut Buffers,
) -> Vec<(usize, usize, usize, Request)> {
    let mut requests = Vec::new();
    let rest = (0..scenario.ranks)
        .flat_map(|rank| (0..scenario.files).map(move |file| (rank, file)))
        .flat_map(|(rank, file)| scenario.operations[file].iter().map(move |_| (rank, file, Vec::new())));
    for (rank, file, polls) in scenario.begins.iter().cloned().chain(rest) {
        let number = simulation.begun[rank][file] as usize;
        if let Some(reads) = scenario.operations[file].get(number) {
            let direction = if *reads { Direction::Read } else { Direction::Write };
            let access = access(scenario.ranks, rank, number, &mut buffers[rank][file][number]);
            requests.push((rank, file, number, simulation.begin(rank, file, direction, Ok(access))));
        }
        for rank in polls {
            simulation.poll(rank);
        }
    }
    let mut step = 0;
    while !requests.iter().all(|(.., request)| ended(request)) {
        simulation.poll(step % scenario.ranks);
        step += 1;
        assert!(step < 1_000_000, "the operations make no progress");
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn operations_in_any_order_move_their_bytes(scenario in scenarios()) {
        let driver = MemDriver::new();
        let files: Vec<_> = (0..scenario.files).map(|at| new_file(&driver, &at.to_string())).collect();
        let bytes_of = |file: usize, place: usize, rank: usize| -> Vec<u8> {
            (0..CELLS * CELL).map(|at| value(file, place, rank, at)).collect()
        };
        let mut buffers: Buffers = Vec::new();
        for rank in 0..scenario.ranks {
            buffers.push(Vec::new());
            for (file, operations) in scenario.operations.iter().enumerate() {
                let of = |(place, reads): (usize, &bool)| {
                    if *reads { vec![0; CELLS * CELL] } else { bytes_of(file, place, rank) }
                };
                buffers[rank].push(operations.iter().enumerate().map(of).collect());
            }
        }
        let cell_of = |file: usize, place: usize, cell: usize, rank: usize| {
            (cell * CELL..(cell + 1) * CELL).map(move |at| value(file, place, rank, at))
        };
        let mut expected = Vec::new();
        for (file, operations) in scenario.operations.iter().enumerate() {
            let cells = (0..operations.len()).flat_map(|place| (0..CELLS).map(move |cell| (place, cell)));
            let whole: Vec<u8> = cells
                .flat_map(|(place, cell)| {
                    (0..scenario.ranks).flat_map(move |rank| cell_of(file, place, cell, rank))
                })
                .collect();
            // Places that are read contain their data before; places that are written do not.
            let place_bytes = CELLS * CELL * scenario.ranks;
            for (place, reads) in operations.iter().enumerate() {
                let span = place * place_bytes..(place + 1) * place_bytes;
                let before = if *reads { whole[span.clone()].to_vec() } else { vec![0xEE; place_bytes] };
                files[file].write_all_at(span.start as u64, &before).expect("a write to memory succeeds");
            }
            expected.push(whole);
        }
        let mut simulation = Simulation::new(scenario.nodes, scenario.ranks, &files);
        let requests = run(&scenario, &mut simulation, &mut buffers);
        let operations: usize = scenario.operations.iter().map(Vec::len).sum();
        prop_assert_eq!(requests.len(), scenario.ranks * operations);
        for (rank, file, place, request) in requests {
            let outcome = outcome(request);
            prop_assert!(outcome.error.is_none());
            prop_assert_eq!(outcome.bytes, (CELLS * CELL) as u64);
            prop_assert!(buffers[rank][file][place] == bytes_of(file, place, rank));
        }
        for (file, expected) in files.iter().zip(expected) {
            let mut found = vec![0; expected.len()];
            prop_assert_eq!(file.read_at(0, &mut found).expect("a read from memory succeeds"), found.len());
            prop_assert!(found == expected);
        }
        prop_assert!(simulation.queues.iter().all(|queue| !queue.is_busy()));
    }

    #[test]
    fn storage_fault_fails_only_operations_of_its_file_on_all_ranks(
        scenario in scenarios(),
        at in 0u32..30,
        which in 0usize..4,
    ) {
        let driver = Arc::new(MemDriver::new());
        let files: Vec<_> =
            (0..scenario.files).map(|at| new_file(driver.as_ref(), &at.to_string())).collect();
        let mut simulation = Simulation::new(scenario.nodes, scenario.ranks, &files);
        let plan = FaultPlan::parse(&format!("write@{at}:nospace;read@{at}:io"));
        let faulty = Faulty::new(driver, plan.expect("the fault plan is valid"));
        let faulty = faulty.open("0".as_ref(), &OpenOptions::read_write()).expect("the file opens");
        let failing = which % scenario.ranks;
        simulation.files[0][failing] = faulty;
        let mut buffers = scenario.empty_buffers();
        let classes = classes_of(run(&scenario, &mut simulation, &mut buffers))?;
        prop_assert!(classes.iter().all(|((file, _), class)| *file == 0 || class.is_none()));
    }

    #[test]
    fn failed_exchange_fails_at_most_one_operation(
        scenario in scenarios(),
        (nodes, each) in (2usize..6, 1usize..3),
        (at, which) in (0u32..60, 0usize..6),
    ) {
        let scenario = Scenario { nodes, ranks: nodes * each, begins: Vec::new(), ..scenario };
        let driver = MemDriver::new();
        let files: Vec<_> = (0..scenario.files).map(|at| new_file(&driver, &at.to_string())).collect();
        let mut simulation = Simulation::new(nodes, scenario.ranks, &files);
        let [data, _] = &mut simulation.leaders[0][which % nodes];
        *data = Arc::new(FailingLeaders { channel: data.clone(), sends_before: at.into() });
        let mut buffers = scenario.empty_buffers();
        let classes = classes_of(run(&scenario, &mut simulation, &mut buffers))?;
        prop_assert!(classes.values().filter(|class| class.is_some()).count() <= 1);
    }
}
