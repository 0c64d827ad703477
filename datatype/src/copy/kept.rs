//! The copy programs that a layout keeps. The module [`super::plan`] fills and reads them.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use super::program::Program;

/// How the bytes of a pair are copied.
#[derive(Debug)]
pub(super) struct Plan {
    /// `None`: the copy is done by walkers.
    pub(super) program: Option<Program>,
}

/// The cache of a layout: its plans to and from consecutive bytes, and the counts for which its
/// instances overlap.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(super) packing: [OnceLock<Box<Plan>>; 2],
    pub(super) unpacking: [OnceLock<Box<Plan>>; 2],
    /// The largest count whose instances are known not to overlap.
    pub(super) apart: AtomicU64,
    /// The bitwise complement of the least count whose instances are known to overlap. The initial value
    /// 0 stands for `u64::MAX`, a count that no tiled layout has, so it means "none known".
    pub(super) meeting: AtomicU64,
}
