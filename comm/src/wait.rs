//! The wait of a rank for something that other ranks or MPI bring about.

use crate::backoff::Backoff;
use crate::work;

/// Calls `test` until it returns true or an error. Sleeps between the calls ([`Backoff`]) and advances the
/// operations in progress, because another rank may reach the awaited event only after this rank has advanced
/// them. `test` must drive MPI.
///
/// # Errors
/// The error of `test`.
pub fn wait_until<E>(test: impl FnMut() -> Result<bool, E>) -> Result<(), E> {
    wait_with(Backoff::new(), test)
}

/// As [`wait_until`], with the sleeps of `backoff`.
pub(crate) fn wait_with<E>(mut backoff: Backoff, mut test: impl FnMut() -> Result<bool, E>) -> Result<(), E> {
    while !test()? {
        backoff.pause();
        work::advance();
    }
    Ok(())
}
