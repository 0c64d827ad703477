//! The levels of instructions that a processor may have, and the kernels of each level.

use super::super::nest::NestDim;
use super::bits::Bits;
use crate::lists::{Displacements, Runs};

/// A set of instructions for which kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The instructions that every processor of the target has.
    Scalar,
    /// AVX2 with BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Advanced SIMD, which every 64-bit Arm processor has.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// The kernels of one level. To call one, the processor must have the instructions of the level, and the `#
/// Safety` of the following functions must hold: of [`super::nest_at`] for `nest`, of `Isa::transpose` for
/// `transpose`, of [`super::run`] for `copy`, of [`super::blocks`] for `gather` and `scatter`; for the
/// others, of the function of the same name in [`super`].
#[derive(Debug)]
pub(super) struct Table {
    /// Copies blocks of the given number of bytes in three dimensions.
    pub(super) nest: unsafe fn(*const u8, *mut u8, u64, &[NestDim; 3]),
    /// Copies the whole squares of planes of units of the given number of bytes. The planes are consecutive
    /// in the source along the first dimension and in the target along the second; the third dimension
    /// repeats the planes. Returns how much of the first two dimensions was copied.
    pub(super) transpose: unsafe fn(*const u8, *mut u8, u64, [&NestDim; 3]) -> [u64; 2],
    /// Copies one run of the given number of bytes, which is long enough to be worth a call.
    pub(super) copy: unsafe fn(*const u8, *mut u8, usize),
    /// Copies blocks of the given number of bytes from listed places to consecutive bytes.
    pub(super) gather: unsafe fn(*const u8, *mut u8, u64, Displacements<'_>),
    /// Copies consecutive bytes to blocks of the given number of bytes at listed places.
    pub(super) scatter: unsafe fn(*const u8, *mut u8, u64, Displacements<'_>),
    /// Copies runs at listed places, each with its own length, to consecutive bytes. Returns the number of
    /// bytes.
    pub(super) gather_runs: unsafe fn(*const u8, *mut u8, Runs<'_>) -> u64,
    /// Copies consecutive bytes to runs at listed places, each with its own length. Returns the number of
    /// bytes.
    pub(super) scatter_runs: unsafe fn(*const u8, *mut u8, Runs<'_>) -> u64,
    /// See [`super::gather_bits`].
    pub(super) gather_bits: unsafe fn(*const u8, *mut u8, Bits<'_>),
    /// See [`super::scatter_bits`].
    pub(super) scatter_bits: unsafe fn(*const u8, *mut u8, Bits<'_>),
}

/// Compiles the kernels of one level, each as a separate function that enables the instructions `$feature`.
macro_rules! kernels {
    ($isa:ty $(, $feature:literal)?) => {
        pub(super) static TABLE: $crate::copy::kernel::level::Table = {
            use $crate::{copy::nest::NestDim, lists::{Displacements, Runs}};
            use $crate::copy::kernel::{bits::{self, Bits}, isa::Isa as _, fixed::{Exact, Mover, with_mover}, index, level::Table, rows, stream};

            $(#[target_feature(enable = $feature)])?
            unsafe fn nest(source: *const u8, target: *mut u8, block: u64, dims: &[NestDim; 3]) {
                // SAFETY: the contract of `Table::nest`. Each mover copies as many bytes as `block` has.
                unsafe {
                    match block {
                        4 => unit_rows::<Exact<4>, 4>(Exact, source, target, dims),
                        8 => unit_rows::<Exact<8>, 8>(Exact, source, target, dims),
                        _ if rows::are_strings::<$isa>(block, &dims[0]) => {
                            let mover = rows::StringMove::<$isa>(block as usize, std::marker::PhantomData);
                            rows(mover, source, target, dims);
                        }
                        _ => {
                            let longest = rows::loop_max_bytes::<$isa>(block, &dims[0]);
                            with_mover!(block, longest, mover => rows(mover, source, target, dims));
                        }
                    }
                }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn rows<M: Mover>(mover: M, source: *const u8, target: *mut u8, dims: &[NestDim; 3]) {
                // SAFETY: the contract of `Table::nest`, which `nest` hands on.
                unsafe { rows::rows::<$isa, M>(mover, source, target, dims) };
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn unit_rows<M: Mover, const U: usize>(
                mover: M,
                source: *const u8,
                target: *mut u8,
                dims: &[NestDim; 3],
            ) {
                // SAFETY: the contract of `Table::nest`, which `nest` hands on with blocks of `U` bytes.
                unsafe { rows::unit_rows::<$isa, M, U>(mover, source, target, dims) };
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn transpose(source: *const u8, target: *mut u8, block: u64, [p, q, planes]: [&NestDim; 3]) -> [u64; 2] {
                // SAFETY: the contract of `Table::transpose`. The constant is the size of the units.
                unsafe {
                    match block {
                        4 => <$isa>::transpose::<4>(source, target, p, q, planes),
                        8 => <$isa>::transpose::<8>(source, target, p, q, planes),
                        16 => <$isa>::transpose::<16>(source, target, p, q, planes),
                        _ => [0, 0],
                    }
                }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn copy(source: *const u8, target: *mut u8, bytes: usize) {
                // SAFETY: the contract of `Table::copy`.
                unsafe { stream::copy::<$isa>(source, target, bytes) };
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn gather(source: *const u8, target: *mut u8, block: u64, list: Displacements<'_>) {
                // SAFETY: the contract of `Table::gather`. The mover copies as many bytes as `block` has.
                unsafe {
                    with_mover!(block, mover => index::gather(mover, source, target, list));
                }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn scatter(source: *const u8, target: *mut u8, block: u64, list: Displacements<'_>) {
                // SAFETY: the contract of `Table::scatter`. The mover copies as many bytes as `block` has.
                unsafe { with_mover!(block, mover => index::scatter(mover, source, target, list)) };
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn gather_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
                // SAFETY: the contract of `Table::gather_runs`.
                unsafe { index::gather_runs(source, target, runs) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn scatter_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
                // SAFETY: the contract of `Table::scatter_runs`.
                unsafe { index::scatter_runs(source, target, runs) }
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn gather_bits(source: *const u8, target: *mut u8, bits: Bits<'_>) {
                // SAFETY: the contract of `Table::gather_bits`.
                unsafe { bits::gather::<$isa>(source, target, bits) };
            }

            $(#[target_feature(enable = $feature)])?
            unsafe fn scatter_bits(source: *const u8, target: *mut u8, bits: Bits<'_>) {
                // SAFETY: the contract of `Table::scatter_bits`.
                unsafe { bits::scatter::<$isa>(source, target, bits) };
            }

            Table { nest, transpose, copy, gather, scatter, gather_runs, scatter_runs, gather_bits, scatter_bits }
        };
    };
}
pub(super) use kernels;
