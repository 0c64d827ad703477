//! An access and its plan, and the names of the reasons and ways in the output.

use capulet_plan::estimate::{Estimate, RankPart, Setup};
use capulet_plan::{Plan, Reason, Way};

/// An access and its plan.
pub(super) struct Planned {
    pub(super) parts: Vec<RankPart>,
    pub(super) setup: Setup,
    pub(super) estimate: Estimate,
}

/// The reason for a plan.
pub(super) fn reason(plan: Plan) -> Option<Reason> {
    match plan {
        Plan::Nothing => None,
        Plan::Independent(reason) | Plan::TwoPhase(reason) => Some(reason),
    }
}

pub(super) fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Hint => "hint",
        Reason::NotMonotone => "not_monotone",
        Reason::OneRunEach => "one_run_each",
        Reason::LargeRuns => "large_runs",
        Reason::Sparse => "sparse",
        Reason::InMemory => "in_memory",
        Reason::SmallRuns => "small_runs",
        Reason::NoSharedMemory => "no_shared_memory",
    }
}

pub(super) fn way_name(way: Way) -> &'static str {
    match way {
        Way::List => "list",
        Way::Packed => "packed",
        Way::SieveBuffer => "buffer",
    }
}
