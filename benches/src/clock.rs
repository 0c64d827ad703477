//! The clock: time that this thread has run, so that other load on the machine is not counted.

use nix::time::{ClockId, clock_gettime};

/// Seconds that this thread has been running.
///
/// # Panics
/// Never on Linux, which has the clock.
pub(crate) fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9
}
