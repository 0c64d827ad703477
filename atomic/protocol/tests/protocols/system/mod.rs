//! A system of processes that take a lock in turns, as a value. The caller chooses the process that takes
//! the next step.

pub(crate) mod model;

use std::collections::BTreeMap;
use std::hash::Hash;

use capulet_protocol::{Effect, Event, Lock, Place, Rank, Request, Space, Words};

/// A lock whose states can be compared and hashed.
pub(crate) trait Checkable: Lock + Eq + Hash + Send + Sync + 'static {}
impl<L: Lock + Eq + Hash + Send + Sync + 'static> Checkable for L {}

/// The next step of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Todo {
    /// Acquires the lock for the next of its requests.
    Begin,
    /// Performs an effect of the lock.
    Effect(Effect),
    /// Performs the second half of an effect that is not atomic. `fetched` has the words of the first
    /// half, if it has fetched some.
    Half {
        effect: Effect,
        fetched: Option<Vec<u64>>,
    },
    /// Leaves the critical section.
    Inside,
    Over,
}

/// Whether a process tries. A process tries once only: a lock may count its acquisitions, so endless
/// tries would have an unlimited number of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tries {
    No,
    Next,
    Now,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process<L> {
    pub(crate) lock: L,
    pub(crate) todo: Todo,
    /// The number of requests that the process is done with.
    pub(crate) turn: u8,
    pub(crate) was_queued: bool,
    /// How often processes with conflicting requests that came later have entered first.
    pub(crate) overtaken: u8,
    pub(crate) tries: Tries,
    /// Whether the process may give up, once.
    pub(crate) gives_up: bool,
}

/// All processes, their shared words and their wake-ups. A word is zero until it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct System<L> {
    pub(crate) processes: Vec<Process<L>>,
    pub(crate) words: BTreeMap<Place, u64>,
    pub(crate) wakes: BTreeMap<(Space, Rank), u32>,
    /// The processes with a place in the queue that have not entered, in the order of their coming.
    pub(crate) queued: Vec<usize>,
}

/// A possible next step of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// A process performs its next step.
    Go(usize),
    /// A process tries to get the lock. If the try fails, the process acquires the lock.
    Try(usize),
    /// A process gives up its wait, and begins again.
    GiveUp(usize),
}

/// The requests of each process, in order. Process `p` has the list with index `p` modulo the number of
/// lists.
pub(crate) type Requests = Vec<Vec<Request>>;

impl<L: Checkable> System<L> {
    pub(crate) fn new(ranks: u32, make: impl Fn(Rank) -> L) -> Self {
        let process = |rank| Process {
            lock: make(rank),
            todo: Todo::Begin,
            turn: 0,
            was_queued: false,
            overtaken: 0,
            tries: Tries::No,
            gives_up: false,
        };
        Self {
            processes: (0..ranks).map(process).collect(),
            words: BTreeMap::new(),
            wakes: BTreeMap::new(),
            queued: Vec::new(),
        }
    }

    /// The same system, in which the chosen processes may try.
    pub(crate) fn trying(mut self, tries: impl Fn(usize) -> bool) -> Self {
        for (of, process) in self.processes.iter_mut().enumerate() {
            process.tries = if tries(of) { Tries::Next } else { Tries::No };
        }
        self
    }

    /// The same system, in which the chosen processes may give up.
    pub(crate) fn giving_up(mut self, gives_up: impl Fn(usize) -> bool) -> Self {
        for (of, process) in self.processes.iter_mut().enumerate() {
            process.gives_up = gives_up(of);
        }
        self
    }

    pub(crate) fn word(&self, place: Place) -> u64 {
        self.words.get(&place).copied().unwrap_or(0)
    }

    fn put(&mut self, place: Place, value: u64) -> u64 {
        let before = if value == 0 { self.words.remove(&place) } else { self.words.insert(place, value) };
        before.unwrap_or(0)
    }

    fn put_all(&mut self, first: Place, put: &Words) {
        for (word, value) in (first.word..).zip(put) {
            self.put(Place { word, ..first }, *value);
        }
    }

    fn fetch_from(&self, first: Place, words: u32) -> Vec<u64> {
        (first.word..first.word + words).map(|word| self.word(Place { word, ..first })).collect()
    }

    fn fetch_all(&self, first: Place, words: u32) -> Vec<u64> {
        (0..words).map(|word| self.word(Place { word, ..first })).collect()
    }

    /// The steps that a process can take now. None while it waits.
    pub(crate) fn actions(&self, of: usize) -> impl Iterator<Item = Action> {
        let can_go = match &self.processes[of].todo {
            Todo::Over => false,
            Todo::Effect(Effect::AwaitChange(place, value)) => self.word(*place) != *value,
            Todo::Effect(Effect::AwaitWake(space)) => {
                self.wakes.get(&(*space, of as Rank)).is_some_and(|wakes| *wakes > 0)
            }
            _ => true,
        };
        let go = can_go.then_some(Action::Go(of));
        let process = &self.processes[of];
        let may_try = process.tries == Tries::Next && process.todo == Todo::Begin;
        let waits = matches!(process.todo, Todo::Effect(Effect::AwaitWake(_) | Effect::AwaitChange(..)));
        let may_give_up = process.gives_up && waits && process.lock.can_give_up();
        let others = [may_try.then_some(Action::Try(of)), may_give_up.then_some(Action::GiveUp(of))];
        go.into_iter().chain(others.into_iter().flatten())
    }

    /// Performs a step.
    pub(crate) fn go(&mut self, action: Action, requests: &Requests) {
        let (Action::Go(of) | Action::Try(of) | Action::GiveUp(of)) = action;
        let request = |turn: u8| requests[of % requests.len()].get(usize::from(turn));
        if matches!(action, Action::Try(_)) {
            self.processes[of].tries = Tries::Now;
        }
        if matches!(action, Action::GiveUp(_)) {
            self.processes[of].gives_up = false;
        }
        let next = match self.processes[of].todo.clone() {
            Todo::Effect(_) if matches!(action, Action::GiveUp(_)) => self.step(of, Event::GiveUp),
            Todo::Over => return,
            Todo::Begin => match request(self.processes[of].turn) {
                None => Todo::Over,
                Some(request) if matches!(action, Action::Try(_)) => self.step(of, Event::Try(request)),
                Some(request) => {
                    if self.processes[of].tries == Tries::Now {
                        self.processes[of].tries = Tries::No;
                    }
                    self.step(of, Event::Acquire(request))
                }
            },
            Todo::Inside => {
                self.processes[of].turn += 1;
                self.step(of, Event::Release)
            }
            Todo::Effect(effect) => self.perform(of, effect),
            Todo::Half { effect, fetched } => self.complete(of, &effect, fetched),
        };
        self.processes[of].todo = next;
        self.note(of, requests);
    }

    fn step(&mut self, of: usize, event: Event<'_>) -> Todo {
        Todo::Effect(self.processes[of].lock.step(event))
    }

    fn perform(&mut self, of: usize, effect: Effect) -> Todo {
        let event = match effect {
            Effect::Held => return Todo::Inside,
            Effect::Free => return Todo::Begin,
            Effect::Exchange { first, put, words } => {
                self.put_all(first, &put);
                let all = self.fetch_all(first, words);
                return self.step(of, Event::Words(&all));
            }
            Effect::ClaimIfNone { place, value, words } => {
                let before = self.fetch_all(place, words);
                if before.iter().all(|word| *word == 0) {
                    self.put(place, value);
                }
                return self.step(of, Event::Words(&before));
            }
            Effect::Swap(place, value) => Event::Value(self.put(place, value)),
            Effect::CompareSwap(place, expected, value) => {
                let before = self.word(place);
                if before == expected {
                    self.put(place, value);
                }
                Event::Value(before)
            }
            Effect::Load(place) => Event::Value(self.word(place)),
            Effect::Store(place, value) => {
                self.put(place, value);
                Event::Done
            }
            Effect::Wake(space, rank) => {
                *self.wakes.entry((space, rank)).or_insert(0) += 1;
                Event::Done
            }
            Effect::AwaitWake(space) => {
                let count = self.wakes.remove(&(space, of as Rank)).unwrap_or(0);
                if count > 1 {
                    self.wakes.insert((space, of as Rank), count - 1);
                }
                Event::Done
            }
            Effect::AwaitChange(..) => Event::Done,
            Effect::SetBits(place, bits) => {
                let before = self.word(place);
                self.put(place, before | bits);
                Event::Value(before)
            }
            Effect::ClearBits(place, bits) => {
                let before = self.word(place);
                self.put(place, before & !bits);
                Event::Value(before)
            }
            Effect::Put { first, ref put } => {
                self.put_all(first, &put[..put.len() / 2].into());
                return Todo::Half { effect, fetched: None };
            }
            Effect::Fetch { first, words } => {
                let fetched = Some(self.fetch_from(first, words / 2));
                return Todo::Half { effect, fetched };
            }
        };
        self.step(of, event)
    }

    /// Performs the second half of an effect that is not atomic.
    fn complete(&mut self, of: usize, effect: &Effect, fetched: Option<Vec<u64>>) -> Todo {
        let behind = |first: &Place, words: usize| Place { word: first.word + words as u32, ..*first };
        match effect {
            Effect::Put { first, put } => {
                let half = put.len() / 2;
                self.put_all(behind(first, half), &put[half..].into());
                self.step(of, Event::Done)
            }
            Effect::Fetch { first, words } => {
                let mut all = fetched.unwrap_or_default();
                all.extend(self.fetch_from(behind(first, all.len()), words - all.len() as u32));
                self.step(of, Event::Words(&all))
            }
            _ => unreachable!("the effect is one atomic step"),
        }
    }

    /// Keeps the order in which processes came, and counts how often they are passed.
    fn note(&mut self, of: usize, requests: &Requests) {
        let is_queued = self.processes[of].lock.is_queued();
        let was_queued = std::mem::replace(&mut self.processes[of].was_queued, is_queued);
        if is_queued && !was_queued {
            self.queued.push(of);
        }
        if was_queued && !is_queued {
            // A try has failed, or a wait was given up. After a release the process is no longer in the
            // list.
            self.queued.retain(|queued| *queued != of);
            self.processes[of].overtaken = 0;
        }
        if self.processes[of].todo != Todo::Inside {
            return;
        }
        let own = wanted(requests, of, self.processes[of].turn);
        let place = self.queued.iter().position(|queued| *queued == of);
        for &passed in &self.queued[..place.expect("a process that enters has a place in the queue")] {
            if wanted(requests, passed, self.processes[passed].turn).conflicts(own) {
                let overtaken = &mut self.processes[passed].overtaken;
                *overtaken = overtaken.saturating_add(1);
            }
        }
        self.queued.retain(|queued| *queued != of);
        self.processes[of].overtaken = 0;
    }

    /// Whether no two processes hold conflicting requests.
    pub(crate) fn is_exclusive(&self, requests: &Requests) -> bool {
        let inside: Vec<usize> =
            (0..self.processes.len()).filter(|of| self.processes[*of].todo == Todo::Inside).collect();
        let wants = |of: usize| wanted(requests, of, self.processes[of].turn);
        inside.iter().enumerate().all(|(at, a)| inside[..at].iter().all(|b| !wants(*a).conflicts(wants(*b))))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.processes.iter().all(|process| process.todo == Todo::Over)
    }

    /// Whether no process can take a step.
    pub(crate) fn is_stuck(&self) -> bool {
        (0..self.processes.len()).all(|of| self.actions(of).next().is_none())
    }
}

/// The request of a process in a turn.
pub(crate) fn wanted(requests: &Requests, of: usize, turn: u8) -> &Request {
    &requests[of % requests.len()][usize::from(turn)]
}
