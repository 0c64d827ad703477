//! Kernels of plain moves, for any processor.

/// No instructions beyond those of the target.
struct Scalar;

impl super::isa::Isa for Scalar {}

super::level::kernels!(Scalar);
