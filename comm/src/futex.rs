//! Sleeping on a word of shared memory (futex(2)).

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until a wake-up, at most for `timeout`, if the word still has the value `value`. Any process
/// that maps the word may wake the sleeper. The caller must check the word again after the call: the call
/// may also return without a wake-up.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: futex(2): FUTEX_WAIT reads the word and the timeout, which are both valid during the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout);
    }
}

/// Wakes every process that sleeps on the word.
pub(crate) fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: futex(2): FUTEX_WAKE uses only the address of the word, and does not access the word.
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
