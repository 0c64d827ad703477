//! The cases that are measured: those of the two papers on datatype processing, and those of
//! applications.

mod applications;
mod case;
mod flash;
mod table1;
pub(crate) mod transpack;

pub(crate) use case::{Body, Case, Ops};

/// All cases that are packed and unpacked.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = table1::cases();
    cases.extend(flash::cases());
    cases.extend(applications::cases());
    cases
}
