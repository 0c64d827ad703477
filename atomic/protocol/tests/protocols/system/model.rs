//! Exhaustive exploration of the states of a system by stateright.

use capulet_protocol::Place;
use stateright::{Checker, Model, Property};

use super::{Action, Checkable, Process, Requests, System, Tries};

/// A system, and the bounds that must hold in each of its states.
#[derive(Clone)]
pub(crate) struct Checked<L> {
    pub(crate) start: System<L>,
    pub(crate) requests: Requests,
    /// How often a process may be passed by processes that came later.
    pub(crate) bypass_max: u8,
    /// Whether a word must be zero when all processes are done.
    pub(crate) is_counted: fn(Place) -> bool,
}

const EXCLUSIVE: &str = "no two processes hold conflicting requests";
const LIVE: &str = "some process can take a step until all are done";
const FAIR: &str = "no process is passed more often than promised";
const BRIEF: &str = "no try waits for a holder";
const CLEAN: &str = "no value and no wake-up is left at the end";
const ENDS: &str = "all processes come to an end";

impl<L: Checkable> Model for Checked<L> {
    type State = System<L>;
    type Action = Action;

    fn init_states(&self) -> Vec<System<L>> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &System<L>, actions: &mut Vec<Action>) {
        actions.extend((0..state.processes.len()).flat_map(|of| state.actions(of)));
    }

    fn next_state(&self, last: &System<L>, action: Action) -> Option<System<L>> {
        let mut next = last.clone();
        next.go(action, &self.requests);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |model: &Self, state: &System<L>| {
                state.is_exclusive(&model.requests)
            }),
            Property::always(LIVE, |_, state: &System<L>| state.is_over() || !state.is_stuck()),
            Property::always(FAIR, |model: &Self, state: &System<L>| {
                state.processes.iter().all(|process| process.overtaken <= model.bypass_max)
            }),
            Property::always(BRIEF, |_, state: &System<L>| {
                let tries = |process: &Process<L>| process.tries == Tries::Now;
                state.processes.iter().all(|process| !tries(process) || !process.lock.waits_for_holders())
            }),
            Property::always(CLEAN, |model: &Self, state: &System<L>| {
                let is_clean = || state.words.keys().all(|place| !(model.is_counted)(*place));
                !state.is_over() || state.wakes.is_empty() && is_clean()
            }),
            Property::sometimes(ENDS, |_, state: &System<L>| state.is_over()),
        ]
    }
}

impl<L: Checkable> Checked<L> {
    /// Explores all states. Returns their number, and the names of the properties that do not hold.
    pub(crate) fn check(self) -> (usize, Vec<&'static str>) {
        let checker = self.checker().threads(2).spawn_bfs().join();
        let found = checker.discoveries();
        let broken =
            [EXCLUSIVE, LIVE, FAIR, BRIEF, CLEAN].into_iter().filter(|name| found.contains_key(name));
        let missing = [ENDS].into_iter().filter(|name| !found.contains_key(name));
        (checker.unique_state_count(), broken.chain(missing).collect())
    }
}
