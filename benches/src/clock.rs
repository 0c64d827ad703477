//! The clock: CPU time of this thread, so that other load on the machine does not count.

use nix::time::{ClockId, clock_gettime};

/// CPU time of this thread, in seconds.
///
/// # Panics
/// Never on Linux, which has the clock.
pub(crate) fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9
}
