//! One rank's part of a collective data access as a value that is advanced: it agrees, moves bytes, and agrees on what came of
//! it. Nothing here waits for another rank.

use std::fmt;
use std::mem;
use std::sync::Arc;

use capulet_comm::{Agree, Leaders, NodeShared, ReduceOp, Track};
use capulet_sieve::{
    Access, Agreed, Direction, Means, Plan, PlanHints, Summary, Target, Transferred, choose, independent,
    two_phase,
};

use crate::agree::{Ballot, Count, Vote};
use crate::error::{Error, Result};
use crate::stats::Calls;
use crate::transfer::Outcome;

/// What an operation works with: the open file, and what was in force when the operation began.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) agree: Arc<dyn Agree>,
    /// The number of the file among those whose operations use the same window.
    pub(crate) line: u32,
    /// The window of the node as it is now.
    pub(crate) window: Arc<dyn Fn() -> Option<Arc<dyn NodeShared>> + Send + Sync>,
    pub(crate) target: Target,
    pub(crate) hints: PlanHints,
    /// Whether storage is memory, as this rank sees it.
    pub(crate) in_memory: bool,
    pub(crate) window_bytes: u64,
    pub(crate) stripe_bytes: u64,
    pub(crate) aggregators: usize,
    /// How to reach the ranks of other nodes, if there are any.
    pub(crate) between: Option<two_phase::Between>,
    /// The line on which leaders of nodes tell each other whose turn it is: at a leader, if there are several nodes.
    pub(crate) turns: Option<Arc<dyn Leaders>>,
}

impl fmt::Debug for Tools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tools").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Tools {
    /// The ranks of the node on a window, among several nodes if there are several.
    pub(crate) fn team(&self, window: Arc<dyn NodeShared>, agreed: &Agreed) -> two_phase::NodeTeam {
        let (window_bytes, stripe_bytes) = (self.window_bytes, self.stripe_bytes);
        let team = match &self.between {
            None => {
                two_phase::NodeTeam::new(window, self.aggregators, window_bytes, stripe_bytes, agreed.grain)
            }
            Some(between) => {
                two_phase::NodeTeam::among(between.clone(), window, window_bytes, stripe_bytes, agreed.grain)
            }
        };
        team.ending_at(agreed.end)
    }
}

/// The first ballot of a data access: extremes, amounts, what all nodes have, and errors so far.
pub(crate) fn ballot(direction: Direction, access: Option<&Access>, own: Means) -> Ballot {
    let mine = Agreed::of(&[access.map_or_else(Summary::empty, Summary::of)]);
    // a rank that reads where the others write would take part in another kind of rounds
    Ballot::new()
        .same("direction of the access", direction as u64)
        .reduce(mine.first, ReduceOp::Min)
        .reduce(mine.end, ReduceOp::Max)
        .reduce(mine.bytes, ReduceOp::Sum)
        .reduce(mine.runs, ReduceOp::Sum)
        .reduce(mine.active_ranks, ReduceOp::Sum)
        .reduce(u64::from(mine.monotone), ReduceOp::Min)
        .reduce(mine.grain, ReduceOp::BitOr)
        .reduce(u64::from(own.window), ReduceOp::Min)
        .reduce(u64::from(own.in_memory), ReduceOp::Min)
}

/// What came of [`ballot`]: the access of all ranks, and what all nodes have.
pub(crate) fn agreed(count: &mut Count) -> (Agreed, Means) {
    let agreed = Agreed {
        first: count.take(),
        end: count.take(),
        bytes: count.take(),
        runs: count.take(),
        active_ranks: count.take(),
        monotone: count.take() == 1,
        grain: count.take(),
    };
    (agreed, Means { window: count.take() == 1, in_memory: count.take() == 1 })
}

/// Where an operation stands.
enum Stage {
    /// An earlier operation of the file still uses its track.
    Waiting(Result<Access>),
    /// The ranks agree on what is to be done.
    Agreeing(Vote, Result<Access>),
    /// All ranks have begun it; it waits for its turn on the window.
    Queued(Access, Agreed),
    /// In atomic mode: it waits for other accesses to bytes of it, without a place among those that wait.
    Entering(Access, Box<independent::Entry>),
    Moving(Box<two_phase::Operation>),
    /// The ranks agree on what came of it.
    Settling(Vote, u64, Result<()>),
    Done(Outcome),
}

pub(crate) struct Operation {
    tools: Tools,
    number: u64,
    /// Of its ballots.
    track: Track,
    direction: Direction,
    /// Where its bytes are counted, if it does so itself.
    calls: Option<Arc<Calls>>,
    stage: Stage,
}

impl fmt::Debug for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Operation").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl Operation {
    /// Operation `number` of its file. Nothing is sent yet.
    pub(crate) fn new(tools: Tools, number: u64, direction: Direction, access: Result<Access>) -> Self {
        let track = Track::of(number);
        Self { tools, number, track, direction, calls: None, stage: Stage::Waiting(access) }
    }

    /// An operation on which the ranks have agreed already, in a call that waits for its end. Operations under way may use any of
    /// their tracks then, and it may end before them on one rank and after them on another: so it uses the track of that call.
    pub(crate) fn agreed(
        tools: Tools,
        number: u64,
        direction: Direction,
        access: Access,
        (agreed, means): (Agreed, Means),
    ) -> Self {
        let (track, stage) = (Track::WAITING, Stage::Done(Outcome::default()));
        let mut operation = Self { tools, number, track, direction, calls: None, stage };
        operation.stage = operation.plan(access, agreed, means);
        operation
    }

    /// The same, and its bytes are counted when it is over.
    pub(crate) fn counted(self, calls: Arc<Calls>) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// What the ranks of the node know it by: never 0, and no two that are under way have the same.
    pub(crate) fn key(&self) -> u64 {
        u64::from(self.tools.line) << 32 | u64::from(self.number as u32)
    }

    /// The file and the track of its ballots. Operations that have both in common follow each other.
    pub(crate) fn track(&self) -> (u32, Track) {
        (self.tools.line, self.track)
    }

    pub(crate) fn window(&self) -> Option<Arc<dyn NodeShared>> {
        (self.tools.window)()
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(..))
    }

    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Moving(_))
    }

    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling(..))
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// The line on which leaders of nodes tell each other whose turn it is.
    pub(crate) fn turns(&self) -> Option<&Arc<dyn Leaders>> {
        self.tools.turns.as_ref()
    }

    /// Whether it is done and nothing of it is under way any more.
    pub(crate) fn is_over(&self) -> bool {
        // What cannot be sent any more is not waited for.
        self.is_done() && self.turns().is_none_or(|turns| turns.is_sent().unwrap_or(true))
    }

    /// What came of it, once it is done.
    pub(crate) fn outcome(self) -> Outcome {
        match self.stage {
            Stage::Done(outcome) => {
                if let Some(calls) = self.calls {
                    calls.moved(self.direction, outcome.bytes);
                }
                if let Some(error) = &outcome.error {
                    tracing::debug!(%error, number = self.number, "access failed");
                }
                outcome
            }
            _ => Outcome::failed(Error::Unsupported { what: "the outcome of an operation under way" }),
        }
    }

    /// Goes on if it can. True if something happened. `has_track`: no earlier operation uses its track.
    pub(crate) fn advance(&mut self, has_track: bool) -> bool {
        let next = match &mut self.stage {
            Stage::Waiting(access) if has_track => {
                let access = mem::replace(access, Err(Error::Unsupported { what: "an access that is gone" }));
                self.agree(access)
            }
            Stage::Agreeing(vote, access) => match vote.poll() {
                Ok(None) => return false,
                Ok(Some(count)) => {
                    let access =
                        mem::replace(access, Err(Error::Unsupported { what: "an access that is gone" }));
                    match count.settle(access) {
                        Ok((access, mut count)) => {
                            let (agreed, means) = agreed(&mut count);
                            self.plan(access, agreed, means)
                        }
                        Err(error) => Stage::Done(Outcome::failed(error)),
                    }
                }
                Err(error) => Stage::Done(Outcome::failed(error)),
            },
            Stage::Entering(access, entry) => {
                match independent::try_run(&self.tools.target, access, self.direction, entry) {
                    None => return false,
                    Some(done) => self.settle(done),
                }
            }
            Stage::Moving(operation) => {
                if !operation.poll() {
                    return false;
                }
                let done = operation.take_outcome();
                self.settle(done)
            }
            Stage::Settling(vote, bytes, own) => match vote.poll() {
                Ok(None) => return false,
                Ok(Some(count)) => {
                    let error = count.settle(mem::replace(own, Ok(()))).err();
                    Stage::Done(Outcome { bytes: *bytes, error })
                }
                Err(error) => Stage::Done(Outcome { bytes: *bytes, error: Some(error) }),
            },
            Stage::Waiting(_) | Stage::Queued(..) | Stage::Done(_) => return false,
        };
        self.stage = next;
        true
    }

    /// Its turn on the window.
    pub(crate) fn admit(&mut self, window: Arc<dyn NodeShared>) {
        let stage = mem::replace(&mut self.stage, Stage::Done(Outcome::default()));
        self.stage = match stage {
            Stage::Queued(access, agreed) => {
                let team = self.tools.team(window, &agreed);
                let target = Target { holes: self.tools.hints.holes, ..self.tools.target.clone() };
                let (direction, first) = (self.direction, agreed.first);
                // SAFETY: of `start`: all ranks have agreed on direction and first byte in the first reduction of this operation, and on
                // hints at open, from which the teams are made. The queue lets one operation at a time use the memory, the same on all
                // ranks of the node.
                let moving = unsafe { two_phase::Operation::start(target, team, access, direction, first) };
                Stage::Moving(Box::new(moving))
            }
            other => other,
        };
    }

    fn agree(&self, access: Result<Access>) -> Stage {
        let own = Means { window: self.window().is_some(), in_memory: self.tools.in_memory };
        let ballot = ballot(self.direction, access.as_ref().ok(), own);
        match ballot.begin(self.tools.agree.as_ref(), self.track, access.as_ref().err()) {
            Ok(vote) => Stage::Agreeing(vote, access),
            Err(error) => Stage::Done(Outcome::failed(error)),
        }
    }

    fn plan(&self, access: Access, agreed: Agreed, means: Means) -> Stage {
        // No node can wait here for one that has no window. One is made only when nothing is under way.
        let plan = choose(self.direction, &agreed, self.tools.hints, means);
        tracing::debug!(?plan, ?agreed, number = self.number, "planned");
        match plan {
            Plan::Nothing => self.settle(Transferred::default()),
            // A lock of all of them would be held while a rank is not in MPI, and the others could not go on.
            _ if self.tools.target.isolation.is_some() => {
                let entry = Box::new(independent::Entry::new(&access, self.direction));
                Stage::Entering(access, entry)
            }
            Plan::TwoPhase(_) => Stage::Queued(access, agreed),
            Plan::Independent(_) => {
                self.settle(independent::run(&self.tools.target, &access, self.direction))
            }
        }
    }

    fn settle(&self, done: Transferred) -> Stage {
        let own = done.error.map_or(Ok(()), |failure| Err(Error::from(failure)));
        match Ballot::new().begin(self.tools.agree.as_ref(), self.track, own.as_ref().err()) {
            Ok(vote) => Stage::Settling(vote, done.bytes, own),
            Err(error) => Stage::Done(Outcome { bytes: done.bytes, error: Some(error) }),
        }
    }
}
