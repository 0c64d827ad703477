//! The contract of [`Driver`] and [`DriverFile`](crate::DriverFile) as tests, for every driver and every
//! wrapper of this or another crate.
//!
//! A check panics if the contract is broken. If a driver lacks a capability of [`Caps`](crate::Caps), the
//! suite requires that it refuses the calls that need this capability.
//!
//! ```
//! use capulet_drivers::{conformance, mem::MemDriver};
//! use std::path::PathBuf;
//! use std::sync::Arc;
//!
//! conformance::check(Arc::new(MemDriver::new()), &conformance::numbered(PathBuf::from("folder")));
//! ```

mod closing;
mod concurrency;
mod files;
mod model;
mod space;
mod subject;
mod transfers;

pub use space::check_full;
pub use subject::{Case, Subject};

use crate::Driver;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// All checks that a driver must pass.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [transfers::CASES, files::CASES, closing::CASES, concurrency::CASES, model::CASES].into_iter().flatten()
}

/// Runs all checks. Each call of `fresh_path` returns a different path of a file that does not exist, in
/// a folder that exists. Writes the name of each check to the standard error before it runs.
///
/// # Panics
/// If the driver breaks its contract.
pub fn check(driver: Arc<dyn Driver>, fresh_path: &dyn Fn() -> PathBuf) {
    let subject = Subject { driver, fresh_path };
    for case in cases() {
        eprintln!("{}: {}", subject.driver.name(), case.name);
        (case.run)(&subject);
    }
}

/// A source of numbered paths in `folder`, for [`check`].
pub fn numbered(folder: PathBuf) -> impl Fn() -> PathBuf {
    let next = AtomicU64::new(0);
    move || folder.join(format!("file-{}", next.fetch_add(1, Relaxed)))
}
