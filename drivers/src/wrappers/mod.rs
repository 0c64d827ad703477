//! Drivers that wrap another driver and keep its contract. They stack in any order.
//!
//! | wrapper | effect |
//! |---|---|
//! | [`Traced`] | reports each call as a `tracing` event |
//! | [`Counting`] | counts calls, transfers and bytes |
//! | [`Throttled`] | adds latency and limits the bandwidth |
//! | [`Faulty`] | fails by a plan |
//! | [`Torn`] | has no locks, and splits each access into parts |
// The lint reports a new trait method that a wrapper does not forward.
#![deny(clippy::missing_trait_methods)]

mod counting;
mod fault_plan;
mod faulty;
mod throttled;
mod torn;
mod traced;

pub use counting::{Counters, Counting, Counts};
pub use fault_plan::{Effect, FaultPlan, FaultPlanError, Target, When};
pub use faulty::Faulty;
pub use throttled::{Throttle, Throttled};
pub use torn::Torn;
pub use traced::Traced;
