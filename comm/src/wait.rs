//! The wait of a rank for something that other ranks or MPI bring about.

use crate::backoff::Backoff;
use crate::work;

/// Calls `test` until it returns true or an error. Sleeps between the calls ([`Backoff`]) and advances the
/// operations in progress, because another rank may reach the awaited event only after this rank has advanced
/// them. `test` must drive MPI.
///
/// # Errors
/// The error of `test`.
pub fn wait_until<E>(mut test: impl FnMut() -> Result<bool, E>) -> Result<(), E> {
    let mut backoff = Backoff::new();
    while !test()? {
        backoff.pause();
        work::advance();
    }
    Ok(())
}
