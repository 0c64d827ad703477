//! Kernels of plain moves, for any processor.

/// Plain moves: no instructions beyond those that every processor of the target has.
struct Scalar;

impl super::isa::Isa for Scalar {}

super::level::kernels!(Scalar);
