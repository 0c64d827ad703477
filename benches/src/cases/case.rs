//! The parts of a case: its ops, its type with the loops that do the same, and its elements.

use bytemuck::Pod;

use crate::hand::{Loops, Nest};
use crate::spec::Spec;

/// The ops of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ops {
    /// Pack, unpack, and both.
    Move,
    /// Pack, unpack, and encode for a netCDF file: doubles to big-endian doubles and to big-endian
    /// floats.
    Encode,
}

/// A type, and the loops that do the same.
pub(crate) struct Body {
    pub(crate) spec: Spec,
    pub(crate) loops: Box<dyn Loops>,
    /// The rows of doubles, for loops that encode in the same pass.
    pub(crate) encoded: Option<Nest>,
    /// Place of the type's offset 0 in memory, in bytes.
    pub(crate) origin: usize,
}

impl Body {
    pub(super) fn new(spec: Spec, loops: impl Loops + 'static) -> Self {
        Self { spec, loops: Box::new(loops), encoded: None, origin: 0 }
    }
}

/// A case that is not yet built, because its memory may be large.
pub(crate) struct Case {
    pub(crate) suite: &'static str,
    pub(crate) name: String,
    pub(crate) element: &'static str,
    pub(crate) ops: Ops,
    pub(crate) build: Box<dyn Fn() -> Body>,
}

impl Case {
    pub(super) fn new(
        suite: &'static str,
        name: impl Into<String>,
        element: &'static str,
        build: impl Fn() -> Body + 'static,
    ) -> Self {
        Self { suite, name: name.into(), element, ops: Ops::Move, build: Box::new(build) }
    }
}

/// An element of a case.
pub(super) trait Element: Pod {
    const NAME: &'static str;
    const BYTES: i64 = size_of::<Self>() as i64;
    fn spec() -> Spec;
}

impl Element for f32 {
    const NAME: &'static str = "float";

    fn spec() -> Spec {
        Spec::float()
    }
}

impl Element for f64 {
    const NAME: &'static str = "double";

    fn spec() -> Spec {
        Spec::double()
    }
}
