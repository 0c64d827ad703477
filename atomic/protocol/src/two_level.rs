//! A queue on each node, and one of the nodes.

use crate::awaited::Awaited;
use crate::queue::QUEUE_WORDS;
use crate::{Effect, Event, Lock, Place, Queue, Rank, Request, Space, misled};

/// How often in a row the lock passed within the node, plus 1, at the node's leader; 0 while the node does not have it.
const PASSES: u32 = QUEUE_WORDS;

/// A lock for one at a time: the first process of a node's queue gets the lock for the node, and the node keeps it for at most so many
/// of its own in a row. While they wait for each other, nothing is sent between nodes.
///
/// Nodes are served in the order of their coming, and processes in that of their coming on their node: once its node has come, a
/// process waits for at most `passes_max` of each other node, as often as its node must come again before its turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TwoLevel {
    leader: Rank,
    passes_max: u64,
    on_node: Queue,
    of_nodes: Queue,
    state: State,
    /// As the node's word has it, while this process has the node's queue.
    passes: u64,
    /// It is not to wait, on the node or among the nodes.
    is_try: bool,
    awaited: Awaited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// Waiting on the node.
    OnNode,
    /// Asking whether the node has the lock.
    Asking,
    /// Waiting among the nodes.
    OfNodes,
    /// Another node has it, and this was a try: giving the node's queue to the next.
    Refused,
    /// Telling the node that it has it.
    Telling,
    Held,
    /// Looking whether anybody of the node waits.
    Looking,
    /// Counting one who gets it from its own node.
    Passing,
    /// Telling the node that it has it no longer.
    Giving,
    /// Giving it to another node.
    LeavingNodes,
    /// Giving the node's queue to the next.
    LeavingNode,
}

impl TwoLevel {
    /// Words of each process on its node.
    pub const NODE_WORDS: u32 = QUEUE_WORDS + 1;

    /// The lock at rank `home`, for process `me` of the node whose first rank is `leader`. It has the first two words of each process
    /// in the world, and the first [`TwoLevel::NODE_WORDS`] on its node.
    pub fn new(home: Rank, leader: Rank, me: Rank, passes_max: u64) -> Self {
        let on_node = Queue::new(Space::Node, 0, leader, me);
        let of_nodes = Queue::new(Space::World, 0, home, me).with_entry(leader);
        let (state, awaited) = (State::Free, Awaited::default());
        Self { leader, passes_max, on_node, of_nodes, state, passes: 0, is_try: false, awaited }
    }

    fn passes_place(&self) -> Place {
        Place { space: Space::Node, rank: self.leader, word: PASSES }
    }

    /// Lets the node's queue go on.
    fn on_node(&mut self, event: Event<'_>) -> Effect {
        let effect = self.on_node.step(event);
        if self.state == State::OnNode {
            self.awaited.set(self.on_node.awaited().iter().copied());
        }
        match effect {
            Effect::Held => {
                self.state = State::Asking;
                Effect::Load(self.passes_place())
            }
            Effect::Free => {
                self.state = State::Free;
                Effect::Free
            }
            effect => effect,
        }
    }

    /// Lets the nodes' queue go on.
    fn of_nodes(&mut self, event: Event<'_>) -> Effect {
        let effect = self.of_nodes.step(event);
        if self.state == State::OfNodes {
            self.awaited.set_nodes(self.of_nodes.awaited().iter().copied());
        }
        match effect {
            Effect::Held => self.tell(State::Telling, 1),
            Effect::Free => {
                self.state = if self.state == State::OfNodes { State::Refused } else { State::LeavingNode };
                self.on_node(Event::Release)
            }
            effect => effect,
        }
    }

    fn tell(&mut self, state: State, passes: u64) -> Effect {
        (self.state, self.passes) = (state, passes);
        Effect::Store(self.passes_place(), passes)
    }
}

impl Lock for TwoLevel {
    fn step(&mut self, event: Event<'_>) -> Effect {
        match (self.state, event) {
            (State::Free, Event::Acquire(_) | Event::Try(_)) => {
                (self.state, self.is_try) = (State::OnNode, matches!(event, Event::Try(_)));
                self.on_node(event)
            }
            (State::OnNode | State::LeavingNode | State::Refused, event) => self.on_node(event),
            (State::Asking, Event::Value(0)) => {
                self.state = State::OfNodes;
                self.of_nodes.set_held(false);
                // A queue of processes does not look at what is wanted.
                let all = Request::whole();
                self.of_nodes(if self.is_try { Event::Try(&all) } else { Event::Acquire(&all) })
            }
            (State::Asking, Event::Value(passes)) => {
                (self.state, self.passes) = (State::Held, passes);
                Effect::Held
            }
            (State::OfNodes | State::LeavingNodes, event) => self.of_nodes(event),
            (State::Telling, Event::Done) => {
                self.state = State::Held;
                Effect::Held
            }
            (State::Held, Event::Release) => {
                self.state = State::Looking;
                Effect::Load(self.on_node.next_place())
            }
            (State::Looking, Event::Value(next)) if next > 0 && self.passes < self.passes_max => {
                self.tell(State::Passing, self.passes + 1)
            }
            (State::Looking, Event::Value(_)) => self.tell(State::Giving, 0),
            (State::Passing, Event::Done) => {
                self.state = State::LeavingNode;
                self.on_node(Event::Release)
            }
            (State::Giving, Event::Done) => {
                self.state = State::LeavingNodes;
                self.of_nodes.set_held(true);
                self.of_nodes(Event::Release)
            }
            (state, event) => misled(&state, event),
        }
    }

    fn is_queued(&self) -> bool {
        // On the node alone it has no place among the others yet.
        match self.state {
            State::Free | State::OnNode | State::Asking | State::Refused => false,
            State::OfNodes => self.of_nodes.is_queued(),
            _ => true,
        }
    }

    fn waits_for_holders(&self) -> bool {
        match self.state {
            State::OnNode => self.on_node.waits_for_holders(),
            State::OfNodes => self.of_nodes.waits_for_holders(),
            _ => false,
        }
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }

    fn awaits_nodes(&self) -> bool {
        self.awaited.are_nodes()
    }
}
