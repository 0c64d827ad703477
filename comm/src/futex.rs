//! Sleeping on a word of shared memory (futex(2)).

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until woken, at most for `timeout`, if the word still has this value. Any process that maps the word may wake.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: FUTEX_WAIT reads the word and the timeout, both valid during the call (futex(2)). Whatever the call returns, the caller
    // looks at the word again.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout);
    }
}

/// Wakes every process that sleeps on the word.
pub(crate) fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE only uses the address of the word as a name (futex(2)).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
            ptr::null::<libc::timespec>(),
        );
    }
}
