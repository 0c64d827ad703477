//! The drivers by name prefix, and the resolution of a file name to a driver and a path.

use crate::mem::MemDriver;
use crate::posix::PosixDriver;
use crate::wrappers::Torn;
use crate::{Driver, Error, ErrorKind, Operation, Result};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maps the prefix of a file name, as in `mem:scratch`, to a driver. One driver serves names without prefix.
/// The registry is a value: the top layer makes it once and passes it to the code that opens files.
///
/// A prefix is two or more ASCII letters and digits before a colon, all lower case or all upper case: `ufs:`,
/// `UFS:`. Any other text before a colon is a part of the name, also a single letter. A file whose name
/// begins with a prefix is opened as `./mem:x`.
#[derive(Debug, Clone)]
pub struct Registry {
    drivers: BTreeMap<String, Arc<dyn Driver>>,
    default: Arc<dyn Driver>,
}

/// Prefixes that name a storage in ROMIO or in this project, but have no driver here. They are refused,
/// because a user hardly wants a file whose name begins with such a prefix.
const KNOWN_ELSEWHERE: [&str; 20] = [
    "bgl", "daos", "ftp", "gpfs", "gridftp", "gsiftp", "hfs", "ime", "lustre", "panfs", "pfs", "piofs",
    "pvfs", "pvfs2", "quobyte", "rados", "sfs", "testfs", "uring", "xfs",
];

impl Registry {
    /// A registry without prefixes: `default` serves every name.
    pub fn new(default: Arc<dyn Driver>) -> Self {
        Self { drivers: BTreeMap::new(), default }
    }

    /// The drivers of this crate.
    /// * `posix:`, also as `ufs:` and `nfs:`. It is the default.
    /// * `mem:`, a namespace of this registry and its clones, empty at first.
    /// * `nolock:`, for verification: `posix:` without locks, with every access torn into parts.
    pub fn standard() -> Self {
        let posix: Arc<dyn Driver> = Arc::new(PosixDriver::new());
        let mut registry = Self::new(Arc::clone(&posix));
        for prefix in ["posix", "ufs", "nfs"] {
            registry = registry.with(prefix, Arc::clone(&posix));
        }
        let torn = Torn::new(posix);
        registry.with("mem", Arc::new(MemDriver::new())).with("nolock", Arc::new(torn))
    }

    /// This registry with `driver` for names that begin with `prefix` and a colon. Replaces the driver that
    /// has the prefix now.
    ///
    /// # Panics
    /// If `prefix` is not two or more lower-case ASCII letters and digits: no name has such a prefix.
    pub fn with(mut self, prefix: &str, driver: Arc<dyn Driver>) -> Self {
        assert!(
            prefix.len() >= 2
                && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
            "`{prefix}` is not two or more lower-case letters and digits"
        );
        self.drivers.insert(prefix.to_owned(), driver);
        self
    }

    /// This registry with the driver of `prefix` as the default, for names without a prefix.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if `prefix` has no driver.
    pub fn with_default(mut self, prefix: &str) -> Result<Self> {
        let driver = self.drivers.get(prefix).ok_or_else(|| self.no_driver(prefix, OsStr::new(prefix)))?;
        self.default = Arc::clone(driver);
        Ok(self)
    }

    /// This registry with every driver replaced by the result of `wrap`. A driver of several prefixes is
    /// wrapped once, so a counting wrapper counts the calls of all prefixes.
    pub fn wrapped(self, mut wrap: impl FnMut(Arc<dyn Driver>) -> Arc<dyn Driver>) -> Self {
        let mut done: Vec<(Arc<dyn Driver>, Arc<dyn Driver>)> = Vec::new();
        let mut wrap_once = |driver: Arc<dyn Driver>| {
            let same = |other: &Arc<dyn Driver>| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(&driver));
            if let Some((_, wrapped)) = done.iter().find(|(inner, _)| same(inner)) {
                return Arc::clone(wrapped);
            }
            let wrapped = wrap(Arc::clone(&driver));
            done.push((driver, Arc::clone(&wrapped)));
            wrapped
        };
        let default = wrap_once(self.default);
        let drivers = self.drivers.into_iter().map(|(prefix, driver)| (prefix, wrap_once(driver))).collect();
        Self { drivers, default }
    }

    /// The driver of a file name, and the path without the prefix. Makes no system call.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for the prefix of a known storage that has no driver here.
    pub fn resolve(&self, name: impl AsRef<OsStr>) -> Result<(Arc<dyn Driver>, PathBuf)> {
        let name = name.as_ref();
        if let Some((prefix, path)) = split_prefix(name) {
            if let Some(driver) = self.drivers.get(&prefix) {
                return Ok((Arc::clone(driver), path.to_path_buf()));
            }
            if KNOWN_ELSEWHERE.contains(&prefix.as_str()) {
                return Err(self.no_driver(&prefix, name));
            }
        }
        Ok((Arc::clone(&self.default), PathBuf::from(name)))
    }

    fn no_driver(&self, prefix: &str, name: &OsStr) -> Error {
        let known = self.drivers.keys().map(|prefix| format!("{prefix}:")).collect::<Vec<_>>().join(" ");
        let reason = format!(
            "no driver for `{prefix}:` is built in; the drivers are {known} (to open a file of this name: ./{prefix}:...)"
        );
        Error::message(ErrorKind::Unsupported, Operation::Resolve, Path::new(name), reason)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}

/// The text that has the form of a prefix, in lower case, and the rest of the name.
fn split_prefix(name: &OsStr) -> Option<(String, &Path)> {
    let bytes = name.as_bytes();
    let colon = bytes.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
    let (prefix, rest) = bytes.split_at(colon);
    let one_case = !(prefix.iter().any(u8::is_ascii_lowercase) && prefix.iter().any(u8::is_ascii_uppercase));
    if rest[0] != b':' || prefix.len() < 2 || !one_case {
        return None;
    }
    let prefix = std::str::from_utf8(prefix).ok()?.to_ascii_lowercase();
    Some((prefix, Path::new(OsStr::from_bytes(&rest[1..]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::wrappers::{Counting, FaultPlan, Faulty, Target};

    fn resolved(name: &str) -> (&'static str, String) {
        let (driver, path) = Registry::standard().resolve(name).unwrap();
        (driver.name(), path.to_str().unwrap().to_owned())
    }

    #[test]
    fn prefix_selects_the_driver_and_is_removed() {
        for (name, driver, path) in [
            ("ufs:/data/a", "posix", "/data/a"),
            ("UFS:/data/a", "posix", "/data/a"),
            ("posix:a", "posix", "a"),
            ("nfs:a:b", "posix", "a:b"),
            ("mem:a", "mem", "a"),
            ("mem:", "mem", ""),
        ] {
            assert_eq!(resolved(name), (driver, path.to_owned()), "{name}");
        }
    }

    #[test]
    fn other_text_before_a_colon_belongs_to_the_name() {
        for name in [
            "/data/a",
            "a",
            "",
            "c:a",
            "unheard:a",
            "Mem:a",
            "./mem:a",
            "me-m:a",
            "a/mem:b",
            ":a",
            "m\u{e9}m:a",
        ] {
            assert_eq!(resolved(name), ("posix", name.to_owned()), "{name}");
        }
    }

    #[test]
    fn storage_without_a_driver_is_refused_with_a_list_of_drivers() {
        for name in ["pvfs2:/a", "rados:a", "uring:a", "lustre:a", "gpfs:a", "RADOS:a"] {
            let error = Registry::standard().resolve(name).unwrap_err();
            assert_eq!(
                (error.kind(), error.operation()),
                (ErrorKind::Unsupported, Operation::Resolve),
                "{name}"
            );
        }
        let text = Registry::standard().resolve("rados:a").unwrap_err().to_string();
        assert!(text.contains("`rados:`") && text.contains("mem: nfs: nolock: posix: ufs:"), "{text}");
    }

    #[test]
    fn names_need_not_be_utf8() {
        let name = OsStr::from_bytes(b"mem:\xff");
        assert_eq!(Registry::standard().resolve(name).unwrap().1.as_os_str().as_bytes(), b"\xff");
    }

    #[test]
    fn default_is_one_of_the_registered_drivers() {
        let registry = Registry::standard().with_default("mem").unwrap();
        assert_eq!(registry.resolve("a").unwrap().0.name(), "mem");
        assert_eq!(Registry::standard().with_default("rados").unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn clones_share_the_memory_files() {
        let registry = Registry::standard();
        let (driver, path) = registry.clone().resolve("mem:a").unwrap();
        driver.open(&path, &OpenOptions::write().create(true)).unwrap();
        registry.resolve("mem:a").unwrap().0.delete(&path).unwrap();
    }

    #[test]
    fn one_driver_of_many_prefixes_is_wrapped_once() {
        let mut wraps = 0;
        let mut faulty = None;
        let registry = Registry::standard().wrapped(|inner| {
            wraps += 1;
            if inner.name() == "posix" {
                let wrapped = Faulty::new(inner, FaultPlan::parse("open@*:quota").unwrap());
                faulty = Some(wrapped.clone());
                return Arc::new(wrapped);
            }
            Arc::new(Counting::new(inner))
        });
        assert_eq!(wraps, 3);
        for name in ["a", "ufs:a", "nfs:a"] {
            let (driver, path) = registry.resolve(name).unwrap();
            assert_eq!(driver.open(&path, &OpenOptions::read()).unwrap_err().kind(), ErrorKind::Quota);
        }
        assert_eq!(faulty.unwrap().calls(Target::Open), 3);
    }
}
