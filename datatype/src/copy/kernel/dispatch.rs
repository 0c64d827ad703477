//! The choice of the kernels for the processor.

use std::sync::OnceLock;

use super::level::{Level, Table};

/// The kernels of a level, if the processor has its instructions.
#[cfg_attr(not(target_arch = "x86_64"), allow(clippy::unnecessary_wraps))]
pub(super) fn table_of(level: Level) -> Option<&'static Table> {
    match level {
        Level::Scalar => Some(&super::scalar::TABLE),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => super::avx2::is_available().then_some(&super::avx2::TABLE),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => super::avx512::is_available().then_some(&super::avx512::TABLE),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => Some(&super::neon::TABLE),
    }
}

/// All levels, the best first.
pub(super) const LEVELS: &[Level] = &[
    #[cfg(target_arch = "x86_64")]
    Level::Avx512,
    #[cfg(target_arch = "x86_64")]
    Level::Avx2,
    #[cfg(target_arch = "aarch64")]
    Level::Neon,
    Level::Scalar,
];

/// The kernels of the best level that the processor has. Chosen once.
#[inline]
pub(super) fn table() -> &'static Table {
    static TABLE: OnceLock<&'static Table> = OnceLock::new();
    TABLE.get_or_init(|| LEVELS.iter().find_map(|level| table_of(*level)).unwrap_or(&super::scalar::TABLE))
}
