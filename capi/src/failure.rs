//! Why a function of the C ABI fails.

use capulet_comm::ErrorClass;

/// Why a function of the C ABI failed. It is the error type of `capulet_adio`, so that a collective call
/// can pass it down for the ranks to agree on.
pub(crate) use capulet_adio::Error as Failure;

/// A failure that this crate detects.
pub(crate) fn failure(class: ErrorClass, what: impl Into<String>) -> Failure {
    Failure::argument(class, what)
}
