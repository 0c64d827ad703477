//! A queue on each node, and one queue of nodes.

use crate::awaited::Awaited;
use crate::queue::QUEUE_WORDS;
use crate::{Effect, Event, Lock, Place, Queue, Rank, Request, Space, misled};

/// A word of the node's leader: how often in a row the lock has passed within the node, plus 1; 0 while
/// the node does not have the lock.
const PASSES: u32 = QUEUE_WORDS;

/// A mutex. The first process in a node's queue gets the lock for the node, and the node keeps the lock
/// for at most `passes_max` of its own processes in a row. While these hand the lock on, nothing is sent
/// between nodes.
///
/// Nodes are served in the order in which they join the queue of nodes, and processes in the order in
/// which they join the queue of their node. Once the node of a process has joined, the process waits for
/// at most `passes_max` processes of each other node. The same number is added each time the node must
/// join again before the turn of the process comes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TwoLevel {
    leader: Rank,
    passes_max: u64,
    on_node: Queue,
    of_nodes: Queue,
    state: State,
    /// The value of the node's word, while this process holds the node's queue.
    passes: u64,
    /// Whether the request must not wait, neither on the node nor among the nodes.
    is_try: bool,
    awaited: Awaited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// Acquires the node's queue.
    OnNode,
    /// Reads whether the node has the lock.
    Asking,
    /// Acquires the queue of nodes.
    OfNodes,
    /// The request is a try and another node has the lock. Releases the node's queue.
    Refused,
    /// Stores that the node has the lock.
    Telling,
    Held,
    /// Reads whether a process of the node waits.
    Looking,
    /// Counts one more pass within the node.
    Passing,
    /// Stores that the node no longer has the lock.
    Giving,
    /// Releases the queue of nodes.
    LeavingNodes,
    /// Releases the node's queue.
    LeavingNode,
}

impl TwoLevel {
    /// The number of words of each process in the memory of its node.
    pub const NODE_WORDS: u32 = QUEUE_WORDS + 1;

    /// The part of process `me` in the lock at rank `home`. `leader` is the first rank of its node. The
    /// node keeps the lock for at most `passes_max` of its processes in a row. The lock has the first two
    /// words of each process in [`Space::World`], and the first [`TwoLevel::NODE_WORDS`] words of each
    /// process in [`Space::Node`].
    pub fn new(home: Rank, leader: Rank, me: Rank, passes_max: u64) -> Self {
        let on_node = Queue::new(Space::Node, 0, leader, me);
        let of_nodes = Queue::new(Space::World, 0, home, me).with_entry(leader);
        let (state, awaited) = (State::Free, Awaited::default());
        Self { leader, passes_max, on_node, of_nodes, state, passes: 0, is_try: false, awaited }
    }

    fn passes_place(&self) -> Place {
        Place { space: Space::Node, rank: self.leader, word: PASSES }
    }

    /// Steps the node's queue.
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

    /// Steps the queue of nodes.
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
                // A queue does not read the request.
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
        // A place in the node's queue alone is no place among all processes yet.
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
