//! Drivers that go around another driver and pass its conformance suite like it: [`Traced`] tells, [`Counting`] counts,
//! [`Throttled`] slows, [`Faulty`] fails on purpose, [`Torn`] tears. They stack in any order.
// A method that a trait gains must not be lost in a wrapper.
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
