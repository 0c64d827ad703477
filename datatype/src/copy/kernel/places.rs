//! The places of the blocks of one side of a copy.

use crate::lists::Displacements;

/// The places of the blocks of one side, as offsets in bytes from the base address of the side.
pub(in crate::copy) trait Places: Copy {
    /// The offset of block `i`.
    fn at(self, i: usize) -> i64;
    /// The kind of these places.
    fn kind(&self) -> Kind<'_>;
}

/// The kinds of [`Places`].
#[derive(Debug, Clone, Copy)]
pub(in crate::copy) enum Kind<'a> {
    Progression(Progression),
    /// An origin, and a displacement from it for each block.
    Listed(i64, Displacements<'a>),
}

/// Blocks at a constant distance.
#[derive(Debug, Clone, Copy)]
pub(in crate::copy) struct Progression {
    pub(in crate::copy) offset: i64,
    pub(in crate::copy) stride: i64,
}

impl Places for Progression {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.offset.wrapping_add(self.stride.wrapping_mul(i as i64))
    }

    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Progression(*self)
    }
}

/// Blocks at listed places.
#[derive(Debug, Clone, Copy)]
pub(in crate::copy) struct Listed<'a, D = i64> {
    pub(in crate::copy) origin: i64,
    pub(in crate::copy) displacements: &'a [D],
}

impl Places for Listed<'_, i64> {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.origin.wrapping_add(self.displacements[i])
    }

    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Listed(self.origin, Displacements::Wide(self.displacements))
    }
}

impl Places for Listed<'_, i32> {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.origin.wrapping_add(self.displacements[i].into())
    }

    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Listed(self.origin, Displacements::Narrow(self.displacements))
    }
}
