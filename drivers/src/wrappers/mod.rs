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

/// Implements methods of [`Driver`](crate::Driver) and [`DriverFile`](crate::DriverFile) by the same method
/// of the field `inner`.
macro_rules! forward_to_inner {
    ($($method:ident),+) => {
        $(forward_to_inner!(@$method);)+
    };
    (@name) => {
        fn name(&self) -> &'static str {
            self.inner.name()
        }
    };
    (@lasting_path) => {
        fn lasting_path(&self, path: &std::path::Path) -> std::path::PathBuf {
            self.inner.lasting_path(path)
        }
    };
    (@path) => {
        fn path(&self) -> &std::path::Path {
            self.inner.path()
        }
    };
    (@caps) => {
        fn caps(&self) -> crate::Caps {
            self.inner.caps()
        }
    };
    (@layout) => {
        fn layout(&self) -> crate::FileLayout {
            self.inner.layout()
        }
    };
    (@identity) => {
        fn identity(&self) -> Option<crate::FileIdentity> {
            self.inner.identity()
        }
    };
    (@would_wait) => {
        fn would_wait(&self, offset: u64) -> Option<bool> {
            self.inner.would_wait(offset)
        }
    };
    (@system_calls) => {
        fn system_calls(&self) -> crate::SystemCalls {
            self.inner.system_calls()
        }
    };
}

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
