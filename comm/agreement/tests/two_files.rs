//! Model check of two threads on each of two ranks, in calls on different files: every order of their
//! steps (stateright). One thread ends file 1, whose last reduction is in progress. The other thread
//! opens a file at the same time and uses it. The new file may get number 1 or number 2. No reduction may
//! see a value of another file. The model must find a failure of each mutant.

use capulet_agreement::Ids;
use stateright::{Checker, Model, Property};

const RANKS: usize = 2;
/// Memory 0 belongs to the opening of files. Memory 1 and memory 2 belong to the files 1 and 2.
const MEMORIES: usize = 3;

/// The protocol that the model checks: the real one or a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Real,
    /// A rank gives the number of a file back before the last reduction of the file.
    GivesBackEarly,
    /// All files use one memory.
    SharesMemory,
}

/// The memory of one channel, as `Meeting` uses it: a set has the name of the reduction and one value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Memory {
    arrived: usize,
    generation: u32,
    sets: [[(u8, u8); 2]; RANKS],
}

/// The next step of a thread in a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    StoreName,
    StoreValue,
    Arrive,
    Wait(u32),
    Read(u32, usize),
}

/// A reduction of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reduction {
    memory: usize,
    name: u8,
    value: u8,
    step: Step,
    seen: Vec<u8>,
}

impl Reduction {
    fn new(memory: usize, name: u8, value: u8) -> Self {
        Self { memory, name, value, step: Step::StoreName, seen: Vec::new() }
    }
}

/// The current task of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    /// Ends file 1.
    Close(Reduction),
    /// Opens a new file. Proposes the smallest free number that is at least the given one.
    Open(u8, Reduction),
    /// Uses the file of the given number.
    Use(u8, Reduction),
    Done,
}

/// The names of the reductions. In the real protocol, the number of the channel and the number of values
/// name a reduction.
const OPENING: u8 = 0;
const CLOSING: u8 = 1;
const USING: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    memories: [Memory; MEMORIES],
    /// The numbers that each rank has taken.
    taken: [Vec<u8>; RANKS],
    /// Thread 0 and thread 1 of each rank.
    tasks: [[Task; 2]; RANKS],
    /// Whether a reduction saw a value of another file.
    is_mixed: bool,
}

fn first_free(taken: &[u8], from: u8) -> u8 {
    let mut ids = Ids::new();
    for id in taken {
        ids.take(u32::from(*id));
    }
    ids.first_free(u32::from(from)) as u8
}

impl Protocol {
    fn memory_of(self, id: u8) -> usize {
        if self == Self::SharesMemory { 1 } else { usize::from(id) }
    }

    /// One step of a reduction. `None` if it must wait. Returns the values of all ranks when the
    /// reduction is over, and no values before that.
    fn reduce(memory: &mut Memory, reduction: &mut Reduction, rank: usize) -> Option<Result<Vec<u8>, ()>> {
        let set = |generation: u32| (generation % 2) as usize;
        match reduction.step {
            Step::StoreName => {
                memory.sets[rank][set(memory.generation)].0 = reduction.name;
                reduction.step = Step::StoreValue;
            }
            Step::StoreValue => {
                memory.sets[rank][set(memory.generation)].1 = reduction.value;
                reduction.step = Step::Arrive;
            }
            Step::Arrive => {
                let generation = memory.generation;
                memory.arrived += 1;
                if memory.arrived == RANKS {
                    (memory.arrived, memory.generation) = (0, generation + 1);
                }
                reduction.step = Step::Wait(generation);
            }
            Step::Wait(generation) if memory.generation == generation => return None,
            Step::Wait(generation) => reduction.step = Step::Read(generation, 0),
            Step::Read(generation, other) => {
                let (name, value) = memory.sets[other][set(generation)];
                if name != reduction.name {
                    return Some(Err(()));
                }
                reduction.seen.push(value);
                if other + 1 == RANKS {
                    return Some(Ok(std::mem::take(&mut reduction.seen)));
                }
                reduction.step = Step::Read(generation, other + 1);
            }
        }
        Some(Ok(Vec::new()))
    }

    fn finish(self, state: &mut State, rank: usize, thread: usize, values: &[u8]) {
        let own = rank as u8;
        match state.tasks[rank][thread].clone() {
            Task::Close(_) => {
                state.is_mixed |= values != [10, 11];
                if self != Self::GivesBackEarly {
                    state.taken[rank].retain(|id| *id != 1);
                }
                state.tasks[rank][thread] = Task::Done;
            }
            Task::Open(..) if values[0] == values[1] => {
                state.taken[rank].push(values[0]);
                let reduction = Reduction::new(self.memory_of(values[0]), USING, 20 + own);
                state.tasks[rank][thread] = Task::Use(values[0], reduction);
            }
            Task::Open(..) => {
                let wanted = values[0].max(values[1]);
                state.tasks[rank][thread] = Task::Open(wanted, Reduction::new(0, OPENING, 0));
            }
            Task::Use(..) => {
                state.is_mixed |= values != [20, 21];
                state.tasks[rank][thread] = Task::Done;
            }
            Task::Done => {}
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = (usize, usize);

    fn init_states(&self) -> Vec<State> {
        let is_early = *self == Self::GivesBackEarly;
        let taken = |_| if is_early { Vec::new() } else { vec![1] };
        let tasks = |rank: usize| {
            let own = rank as u8;
            [
                Task::Close(Reduction::new(self.memory_of(1), CLOSING, 10 + own)),
                Task::Open(0, Reduction::new(0, OPENING, 0)),
            ]
        };
        vec![State {
            memories: Default::default(),
            taken: std::array::from_fn(taken),
            tasks: std::array::from_fn(tasks),
            is_mixed: false,
        }]
    }

    fn actions(&self, _state: &State, actions: &mut Vec<Self::Action>) {
        actions.extend((0..RANKS).flat_map(|rank| [(rank, 0), (rank, 1)]));
    }

    fn next_state(&self, state: &State, (rank, thread): Self::Action) -> Option<State> {
        let mut next = state.clone();
        let State { memories, taken, tasks, .. } = &mut next;
        let task = &mut tasks[rank][thread];
        let reduction = match task {
            Task::Close(reduction) | Task::Use(_, reduction) => reduction,
            Task::Open(wanted, reduction) => {
                if reduction.step == Step::StoreName {
                    reduction.value = first_free(&taken[rank], *wanted);
                }
                reduction
            }
            Task::Done => return None,
        };
        match Self::reduce(&mut memories[reduction.memory], reduction, rank)? {
            Err(()) => next.is_mixed = true,
            Ok(values) if values.is_empty() => {}
            Ok(values) => self.finish(&mut next, rank, thread, &values),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("no reduction sees a value of another file", |_, state| !state.is_mixed),
            Property::<Self>::sometimes("the number of the old file is used again", |_, state| {
                state.tasks.iter().flatten().any(|task| matches!(task, Task::Use(1, _)))
            }),
            Property::<Self>::sometimes("another number is used", |_, state| {
                state.tasks.iter().flatten().any(|task| matches!(task, Task::Use(2, _)))
            }),
            Property::<Self>::always("a rank can make a step until all tasks are done", |model, state| {
                let is_done = state.tasks.iter().flatten().all(|task| *task == Task::Done);
                let can_go_on = |rank, thread| model.next_state(state, (rank, thread)).is_some();
                is_done || state.is_mixed || (0..RANKS).any(|rank| can_go_on(rank, 0) || can_go_on(rank, 1))
            }),
        ]
    }
}

#[test]
fn threads_on_two_files_never_mix_their_values() {
    let checker = Protocol::Real.checker().spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1000);
}

#[test]
fn number_that_is_given_back_too_early_mixes_two_files() {
    let checker = Protocol::GivesBackEarly.checker().spawn_bfs().join();
    assert!(checker.discovery("no reduction sees a value of another file").is_some());
}

#[test]
fn memory_that_two_files_share_mixes_their_values() {
    let checker = Protocol::SharesMemory.checker().spawn_bfs().join();
    assert!(checker.discovery("no reduction sees a value of another file").is_some());
}
