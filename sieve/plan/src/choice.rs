//! The choice of how a collective access is carried out. Pure: no I/O, no MPI, no clock.
//!
//! Each rank summarizes its part ([`Summary`]). One allreduce combines the summaries into [`Agreed`],
//! which is equal on all ranks. [`choose`] depends on the combined summary and on hints that are equal on
//! all ranks, so all ranks choose the same plan.

use capulet_drivers::Direction;

use crate::side::FileSide;
use crate::way::Holes;

/// From this average run length on, in bytes, each rank moves its own runs: a system call then costs less
/// than a copy.
pub const LARGE_RUN_BYTES: u64 = 64 * 1024;
/// A span with less than one requested byte in this many is left to list I/O: collective buffers would be
/// nearly empty.
pub const SPARSE_FACTOR: u64 = 1024;

/// Costs of a read for a rank if the storage is memory, in picoseconds: a byte out of the file, a byte
/// from a collective buffer to user memory, and a system call. Measured on tmpfs. Pieces of 4 KiB that
/// alternate with unrequested gaps of 4 KiB took 1.6 times as long through collective buffers; pieces
/// without gaps took 0.96 times as long.
const READ_BYTE_PS: u64 = 290;
const COPY_BYTE_PS: u64 = 80;
const CALL_PS: u64 = 350_000;

/// Whether collective accesses may be aggregated (hints `romio_cb_read`, `romio_cb_write`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CollectiveMode {
    /// Always aggregate.
    Enable,
    /// Never aggregate.
    Disable,
    /// Aggregate if the estimated cost is lower.
    #[default]
    Automatic,
}

/// The hints that the choice depends on. They must be the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanHints {
    /// For collective reads.
    pub read: CollectiveMode,
    /// For collective writes.
    pub write: CollectiveMode,
    /// Treatment of the holes of a write. For an independent access these are the holes between the runs
    /// of the rank, for a collective one the holes between the runs of all ranks.
    pub holes: Holes,
}

/// Resources for an access: those of one rank, or, for the choice, the resources that all ranks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Whether there is shared memory for collective buffers.
    pub shared_memory: bool,
    /// Whether the storage is memory, so that a read does not wait. Ranks may reach one file through
    /// different file systems, so the value may differ between ranks.
    pub in_memory: bool,
}

/// Summary of one rank's part of an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// First file offset.
    pub first: u64,
    /// The file offset after the last.
    pub end: u64,
    /// Bytes to move.
    pub bytes: u64,
    /// Runs of the file.
    pub runs: u64,
    /// Whether offsets never decrease.
    pub monotone: bool,
    /// The value of [`FileSide::grain`].
    pub grain: u64,
}

impl Summary {
    /// Summarizes an access.
    pub fn of(access: &impl AsRef<FileSide>) -> Self {
        let side = access.as_ref();
        let span = side.span();
        Self {
            first: span.start,
            end: span.end,
            bytes: side.bytes(),
            runs: side.run_count(),
            monotone: side.is_monotone(),
            grain: side.grain(),
        }
    }

    /// The summary of a rank that moves nothing.
    pub fn empty() -> Self {
        Self { first: 0, end: 0, bytes: 0, runs: 0, monotone: true, grain: 0 }
    }
}

/// The summaries of all ranks combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// First file offset of any rank that moves bytes; `u64::MAX` if none does.
    pub first: u64,
    /// The file offset after the last one of any rank.
    pub end: u64,
    /// Bytes of all ranks; saturates.
    pub bytes: u64,
    /// Runs of all ranks; saturates.
    pub runs: u64,
    /// Number of ranks that move bytes.
    pub active_ranks: u64,
    /// Whether the offsets of no rank decrease.
    pub monotone: bool,
    /// The bits of the grains of all ranks, combined by OR.
    pub grain: u64,
}

impl Agreed {
    /// Combines summaries. The result for one summary is the value on which a single rank agrees with
    /// itself.
    pub fn of(summaries: &[Summary]) -> Self {
        let active = || summaries.iter().filter(|summary| summary.bytes > 0);
        Self {
            first: active().map(|summary| summary.first).min().unwrap_or(u64::MAX),
            end: active().map(|summary| summary.end).max().unwrap_or(0),
            bytes: active().fold(0, |sum, summary| sum.saturating_add(summary.bytes)),
            runs: active().fold(0, |sum, summary| sum.saturating_add(summary.runs)),
            active_ranks: active().count() as u64,
            monotone: summaries.iter().all(|summary| summary.monotone),
            grain: active().fold(0, |bits, summary| bits | summary.grain),
        }
    }
}

/// How a collective access is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// No rank moves a byte.
    Nothing,
    /// Each rank moves its own runs.
    Independent(Reason),
    /// The ranks of each node gather their bytes in collective buffers.
    TwoPhase(Reason),
}

/// Why a plan was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A hint demands it.
    Hint,
    /// The offsets of some rank decrease (tiles of its view overlap). Collective buffers need offsets
    /// that do not decrease.
    NotMonotone,
    /// Each rank has one run, so there is nothing to gather.
    OneRunEach,
    /// The runs are large: one system call for each costs less than a copy.
    LargeRuns,
    /// The span is nearly empty.
    Sparse,
    /// A read from memory of much less than the span: moving the unrequested bytes through collective
    /// buffers costs more than the calls.
    InMemory,
    /// There are many small runs.
    SmallRuns,
    /// There is no shared memory for collective buffers.
    NoSharedMemory,
}

/// Chooses the plan of a collective access. Deterministic: equal arguments give the same plan on all
/// ranks.
pub fn choose(direction: Direction, agreed: &Agreed, hints: PlanHints, resources: Resources) -> Plan {
    let mode = match direction {
        Direction::Read => hints.read,
        Direction::Write => hints.write,
    };
    if agreed.bytes == 0 {
        return Plan::Nothing;
    }
    if !agreed.monotone {
        return Plan::Independent(Reason::NotMonotone);
    }
    if !resources.shared_memory {
        return Plan::Independent(Reason::NoSharedMemory);
    }
    match mode {
        CollectiveMode::Enable => return Plan::TwoPhase(Reason::Hint),
        CollectiveMode::Disable => return Plan::Independent(Reason::Hint),
        CollectiveMode::Automatic => {}
    }
    if agreed.runs <= agreed.active_ranks {
        Plan::Independent(Reason::OneRunEach)
    } else if agreed.bytes / agreed.runs >= LARGE_RUN_BYTES {
        Plan::Independent(Reason::LargeRuns)
    } else if (agreed.end - agreed.first) / SPARSE_FACTOR > agreed.bytes {
        Plan::Independent(Reason::Sparse)
    } else if direction == Direction::Read && resources.in_memory && is_independent_read_faster(agreed) {
        Plan::Independent(Reason::InMemory)
    } else {
        Plan::TwoPhase(Reason::SmallRuns)
    }
}

/// Whether a read of its own runs takes a rank at least a fifth less time than a read of its part of the
/// span and a copy.
fn is_independent_read_faster(agreed: &Agreed) -> bool {
    let cost = |bytes: u64, each: u64| u128::from(bytes) * u128::from(each);
    let independent = cost(agreed.bytes, READ_BYTE_PS) + cost(agreed.runs, CALL_PS);
    let two_phase = cost(agreed.end - agreed.first, READ_BYTE_PS) + cost(agreed.bytes, COPY_BYTE_PS);
    independent * 5 < two_phase * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON_ONE_NODE: Resources = Resources { shared_memory: true, in_memory: false };

    fn summary(first: u64, end: u64, bytes: u64, runs: u64) -> Summary {
        Summary { first, end, bytes, runs, monotone: true, grain: 1 }
    }

    fn plan_of(summaries: &[Summary]) -> Plan {
        choose(Direction::Write, &Agreed::of(summaries), PlanHints::default(), ON_ONE_NODE)
    }

    #[test]
    fn each_reason_is_chosen_in_its_case() {
        let strided = summary(0, 4000, 1000, 250);
        assert_eq!(plan_of(&[Summary::empty(), Summary::empty()]), Plan::Nothing);
        assert_eq!(plan_of(&[strided.clone(), strided.clone()]), Plan::TwoPhase(Reason::SmallRuns));
        assert_eq!(
            plan_of(&[summary(0, 100, 100, 1), summary(100, 200, 100, 1)]),
            Plan::Independent(Reason::OneRunEach)
        );
        let large = summary(0, 1 << 30, 1 << 29, 1 << 10);
        assert_eq!(plan_of(&[large.clone(), large]), Plan::Independent(Reason::LargeRuns));
        assert_eq!(plan_of(&[summary(0, 1 << 40, 800, 100)]), Plan::Independent(Reason::Sparse));
        let backward = Summary { monotone: false, ..strided.clone() };
        assert_eq!(plan_of(&[backward, strided.clone()]), Plan::Independent(Reason::NotMonotone));
        let agreed = Agreed::of(&[strided]);
        let disable = PlanHints { write: CollectiveMode::Disable, ..PlanHints::default() };
        assert_eq!(choose(Direction::Write, &agreed, disable, ON_ONE_NODE), Plan::Independent(Reason::Hint));
        assert_eq!(choose(Direction::Read, &agreed, disable, ON_ONE_NODE), Plan::TwoPhase(Reason::SmallRuns));
        let enable = PlanHints { read: CollectiveMode::Enable, ..PlanHints::default() };
        assert_eq!(choose(Direction::Read, &agreed, enable, ON_ONE_NODE), Plan::TwoPhase(Reason::Hint));
        assert_eq!(
            choose(Direction::Read, &agreed, enable, Resources { shared_memory: false, in_memory: true }),
            Plan::Independent(Reason::NoSharedMemory)
        );
    }

    #[test]
    fn sparse_reads_from_memory_are_independent() {
        let memory = Resources { in_memory: true, ..ON_ONE_NODE };
        // Runs of `run` bytes, each followed by a gap of `gaps` times as many bytes that no rank asks
        // for.
        let plan = |direction, run: u64, gaps: u64, resources| {
            let runs = 1000;
            let agreed = Agreed::of(&[summary(0, runs * run * (1 + gaps), runs * run, runs)]);
            let two = Agreed { active_ranks: 2, ..agreed };
            choose(direction, &two, PlanHints::default(), resources)
        };
        assert_eq!(plan(Direction::Read, 4096, 1, memory), Plan::Independent(Reason::InMemory));
        assert_eq!(plan(Direction::Read, 512, 4, memory), Plan::Independent(Reason::InMemory));
        let small = Plan::TwoPhase(Reason::SmallRuns);
        assert_eq!(plan(Direction::Read, 4096, 0, memory), small);
        assert_eq!(plan(Direction::Read, 64, 1, memory), small);
        assert_eq!(plan(Direction::Read, 4096, 1, ON_ONE_NODE), small);
        assert_eq!(plan(Direction::Write, 4096, 1, memory), small);
        let all = Agreed {
            first: 0,
            end: u64::MAX,
            bytes: u64::MAX,
            runs: u64::MAX / 2048,
            active_ranks: 9,
            monotone: true,
            grain: 1,
        };
        assert_eq!(choose(Direction::Read, &all, PlanHints::default(), memory), small);
    }

    #[test]
    fn sums_saturate() {
        let huge = summary(0, u64::MAX, u64::MAX, u64::MAX);
        let agreed = Agreed::of(&[huge.clone(), huge]);
        assert_eq!((agreed.bytes, agreed.runs, agreed.active_ranks), (u64::MAX, u64::MAX, 2));
    }
}
