//! The choice of how an access is carried out. Pure: no I/O, no MPI, no clock.
//!
//! Each rank sums its part up ([`Summary`]); one allreduce makes it [`Agreed`], the same on all ranks; [`choose`] is a
//! function of what was agreed and of hints that are the same on all ranks, so all ranks choose alike.

use capulet_drivers::Direction;

use crate::side::FileSide;
use crate::way::Holes;

/// The average run, in bytes, from which on each rank moves its own runs: a system call costs less than a copy then.
pub const LARGE_RUN_BYTES: u64 = 64 * 1024;
/// Spans with less than one asked byte in this many are left to list I/O: windows would be nearly empty.
pub const SPARSE_FACTOR: u64 = 1024;

/// What a read costs a rank where storage is memory, in picoseconds: a byte out of the file, a byte from a window to user memory,
/// and a system call. Measured on tmpfs; pieces of 4 KiB by turns with as many that nobody asks for took 1.6 times as long through
/// windows, and without these 0.96 times.
const READ_BYTE_PS: u64 = 290;
const COPY_BYTE_PS: u64 = 80;
const CALL_PS: u64 = 350_000;

/// Whether collectives may be aggregated (`romio_cb_read`, `romio_cb_write`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CollectiveMode {
    /// Always aggregate.
    Enable,
    /// Never.
    Disable,
    /// Where it pays.
    #[default]
    Automatic,
}

/// What the user wants. Must be the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanHints {
    /// For collective reads.
    pub read: CollectiveMode,
    /// For collective writes.
    pub write: CollectiveMode,
    /// What may become of the holes of a write: of one rank alone those of its own, of a collective one those of all ranks.
    pub holes: Holes,
}

/// What there is to carry an access out with: at one rank, or at all of them, which is what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// A shared window.
    pub window: bool,
    /// Storage in memory: a read waits for nothing. Ranks may see one file through different file systems.
    pub in_memory: bool,
}

/// One rank's part, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// First file offset.
    pub first: u64,
    /// One past the last file offset.
    pub end: u64,
    /// Bytes to move.
    pub bytes: u64,
    /// Runs of the file.
    pub runs: u64,
    /// Whether offsets never decrease.
    pub monotone: bool,
    /// What [`FileSide::grain`] says.
    pub grain: u64,
}

impl Summary {
    /// Sums an access up.
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

/// All ranks' parts together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// First file offset of any rank that moves bytes; `u64::MAX` if none does.
    pub first: u64,
    /// One past the last.
    pub end: u64,
    /// Bytes of all ranks.
    pub bytes: u64,
    /// Runs of all ranks.
    pub runs: u64,
    /// Ranks that move bytes.
    pub active_ranks: u64,
    /// Whether every rank's offsets never decrease.
    pub monotone: bool,
    /// The bits of all ranks' grains.
    pub grain: u64,
}

impl Agreed {
    /// What a single rank agrees on with itself; also the way in which summaries combine.
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
    /// The ranks of each node gather in windows.
    TwoPhase(Reason),
}

/// Why a plan was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A hint says so.
    Hint,
    /// Some rank's offsets decrease (tiles of its view overlap), and windows need order.
    NotMonotone,
    /// Each rank has one run: nothing to gather.
    OneRunEach,
    /// Runs are large: one system call each costs less than a copy.
    LargeRuns,
    /// The span is nearly empty.
    Sparse,
    /// Reads of much less than the span, from memory: what windows would read besides costs more than the calls.
    InMemory,
    /// Many small runs.
    SmallRuns,
    /// No shared window could be had.
    NoWindow,
}

/// Chooses. Deterministic: the same on all ranks for the same arguments.
pub fn choose(direction: Direction, agreed: &Agreed, hints: PlanHints, means: Means) -> Plan {
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
    if !means.window {
        return Plan::Independent(Reason::NoWindow);
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
    } else if direction == Direction::Read && means.in_memory && is_read_faster_alone(agreed) {
        Plan::Independent(Reason::InMemory)
    } else {
        Plan::TwoPhase(Reason::SmallRuns)
    }
}

/// Whether to read its own runs takes a rank less time, by a fifth at least, than to read its part of the span and copy.
fn is_read_faster_alone(agreed: &Agreed) -> bool {
    let cost = |bytes: u64, each: u64| u128::from(bytes) * u128::from(each);
    let alone = cost(agreed.bytes, READ_BYTE_PS) + cost(agreed.runs, CALL_PS);
    let together = cost(agreed.end - agreed.first, READ_BYTE_PS) + cost(agreed.bytes, COPY_BYTE_PS);
    alone * 5 < together * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Means = Means { window: true, in_memory: false };

    fn summary(first: u64, end: u64, bytes: u64, runs: u64) -> Summary {
        Summary { first, end, bytes, runs, monotone: true, grain: 1 }
    }

    fn plan_of(summaries: &[Summary]) -> Plan {
        choose(Direction::Write, &Agreed::of(summaries), PlanHints::default(), WINDOW)
    }

    #[test]
    fn every_reason_has_its_case() {
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
        assert_eq!(choose(Direction::Write, &agreed, disable, WINDOW), Plan::Independent(Reason::Hint));
        assert_eq!(choose(Direction::Read, &agreed, disable, WINDOW), Plan::TwoPhase(Reason::SmallRuns));
        let enable = PlanHints { read: CollectiveMode::Enable, ..PlanHints::default() };
        assert_eq!(choose(Direction::Read, &agreed, enable, WINDOW), Plan::TwoPhase(Reason::Hint));
        assert_eq!(
            choose(Direction::Read, &agreed, enable, Means { window: false, in_memory: true }),
            Plan::Independent(Reason::NoWindow)
        );
    }

    #[test]
    fn sparse_reads_from_memory_are_each_ranks_own() {
        let memory = Means { in_memory: true, ..WINDOW };
        // Runs of so many bytes, by turns with as many times as many that nobody asks for.
        let plan = |direction, run: u64, gaps: u64, means| {
            let runs = 1000;
            let agreed = Agreed::of(&[summary(0, runs * run * (1 + gaps), runs * run, runs)]);
            let two = Agreed { active_ranks: 2, ..agreed };
            choose(direction, &two, PlanHints::default(), means)
        };
        assert_eq!(plan(Direction::Read, 4096, 1, memory), Plan::Independent(Reason::InMemory));
        assert_eq!(plan(Direction::Read, 512, 4, memory), Plan::Independent(Reason::InMemory));
        let small = Plan::TwoPhase(Reason::SmallRuns);
        assert_eq!(plan(Direction::Read, 4096, 0, memory), small);
        assert_eq!(plan(Direction::Read, 64, 1, memory), small);
        assert_eq!(plan(Direction::Read, 4096, 1, WINDOW), small);
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
