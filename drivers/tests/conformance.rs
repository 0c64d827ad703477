//! The conformance suite on every driver, without a wrapper and inside each wrapper.

use capulet_drivers::conformance::{cases, check, numbered};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::posix::PosixDriver;
use capulet_drivers::template::TemplateDriver;
use capulet_drivers::wrappers::{Counting, FaultPlan, Faulty, Throttle, Throttled, Torn, Traced};
use capulet_drivers::{Completion, Driver};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

type Wrap = fn(Arc<dyn Driver>) -> Arc<dyn Driver>;

fn bare(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    inner
}

fn traced(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    Arc::new(Traced::new(inner))
}

fn counting(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    Arc::new(Counting::new(inner))
}

fn throttled(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    let throttle =
        Throttle { latency: Duration::from_micros(10), bytes_per_second: NonZeroU64::new(1 << 30) };
    Arc::new(Throttled::new(inner, throttle))
}

fn faultless(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    Arc::new(Faulty::new(inner, FaultPlan::none()))
}

/// The wrapped driver moves one byte at a time.
fn byte_by_byte(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    Arc::new(Faulty::new(inner, FaultPlan::parse("any@*:pieces=1").unwrap()))
}

fn slow_at_times(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    Arc::new(Faulty::new(inner, FaultPlan::parse("read@*:pieces=7;any@5+:delay=20us").unwrap()))
}

fn torn(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    Arc::new(Torn::new(inner))
}

fn all_at_once(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
    traced(counting(throttled(faultless(inner))))
}

fn run(driver: Arc<dyn Driver>, wrap: Wrap) {
    let folder = TempDir::new().unwrap();
    check(wrap(driver), &numbered(folder.path().to_path_buf()));
}

macro_rules! suite {
    ($($base:ident: $driver:expr;)*) => {$(
        mod $base {
            use super::*;

            suite!(@each $driver; bare traced counting throttled faultless byte_by_byte slow_at_times torn all_at_once);
        }
    )*};
    (@each $driver:expr; $($wrap:ident)*) => {$(
        #[test]
        fn $wrap() {
            run(Arc::new($driver), super::$wrap);
        }
    )*};
}

suite! {
    posix: PosixDriver::new();
    mem: MemDriver::new();
    template: TemplateDriver;
}

#[test]
fn suite_has_all_checks() {
    let names: Vec<_> = cases().map(|case| case.name).collect();
    assert_eq!(names.len(), 39, "{names:#?}");
}

/// Tests of the suite itself: each mutant breaks the contract in one way, and the suite must detect it.
mod mutants {
    use super::*;
    use capulet_drivers::{
        Batch, BatchResult, Caps, DriverFile, FileIdentity, FileLayout, LockGuard, LockMode, OpenOptions,
        Result, SystemCalls,
    };
    use std::ops::Range;
    use std::path::Path;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Mutation {
        Nothing,
        ExtendsByNothing,
        CountsTooMuch,
        PreallocateCuts,
        LockDoesNothing,
        SetLenIgnored,
        DropsTheLastByte,
        CloseDoesNothing,
        CloseIsForgotten,
        RefreshCuts,
    }

    #[derive(Debug)]
    struct Mutant(MemDriver, Mutation);

    #[derive(Debug)]
    struct MutantFile(Arc<dyn DriverFile>, Mutation);

    impl Driver for Mutant {
        fn name(&self) -> &'static str {
            "mutant"
        }

        fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
            Ok(Arc::new(MutantFile(self.0.open(path, options)?, self.1)))
        }

        fn delete(&self, path: &Path) -> Result<()> {
            self.0.delete(path)
        }
    }

    impl DriverFile for MutantFile {
        fn path(&self) -> &Path {
            self.0.path()
        }

        fn caps(&self) -> Caps {
            self.0.caps()
        }

        fn layout(&self) -> FileLayout {
            self.0.layout()
        }

        fn identity(&self) -> Option<FileIdentity> {
            self.0.identity()
        }

        fn submit(&self, mut batch: Batch<'_>) -> Completion {
            let bytes = batch.bytes();
            match self.1 {
                Mutation::CountsTooMuch => self.0.submit(batch).map(move |_| BatchResult::moved(bytes)),
                Mutation::DropsTheLastByte if bytes > 1000 => {
                    self.0.submit(batch.part(0..bytes - 1)).map(|result| BatchResult::moved(result.bytes + 1))
                }
                Mutation::ExtendsByNothing => {
                    let end = batch.transfers().iter().map(|each| each.offset).max().unwrap_or(0);
                    if end < 1 << 50 && self.0.len().is_ok_and(|len| len < end) {
                        let _ = self.0.set_len(end);
                    }
                    self.0.submit(batch)
                }
                _ => self.0.submit(batch),
            }
        }

        fn would_wait(&self, offset: u64) -> Option<bool> {
            self.0.would_wait(offset)
        }

        fn len(&self) -> Result<u64> {
            self.0.len()
        }

        fn set_len(&self, bytes: u64) -> Result<()> {
            if self.1 == Mutation::SetLenIgnored { Ok(()) } else { self.0.set_len(bytes) }
        }

        fn preallocate(&self, bytes: u64) -> Result<()> {
            if self.1 == Mutation::PreallocateCuts {
                self.0.set_len(bytes)
            } else {
                self.0.preallocate(bytes)
            }
        }

        fn sync(&self) -> Result<()> {
            self.0.sync()
        }

        fn refresh(&self) -> Result<()> {
            if self.1 == Mutation::RefreshCuts {
                let _ = self.0.set_len(0);
            }
            self.0.refresh()
        }

        fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
            if self.1 == Mutation::LockDoesNothing {
                Ok(Some(LockGuard::nothing()))
            } else {
                self.0.try_lock(range, mode)
            }
        }

        fn system_calls(&self) -> SystemCalls {
            self.0.system_calls()
        }

        fn close(&mut self) -> Result<()> {
            match self.1 {
                Mutation::CloseDoesNothing => Ok(()),
                // A second close returns no error.
                Mutation::CloseIsForgotten => self.0.close().or(Ok(())),
                _ => self.0.close(),
            }
        }
    }

    fn passes(mutation: Mutation) -> bool {
        let driver = Arc::new(Mutant(MemDriver::new(), mutation));
        std::thread::spawn(move || check(driver, &numbered("folder".into()))).join().is_ok()
    }

    #[test]
    fn suite_detects_every_mutant() {
        assert!(passes(Mutation::Nothing));
        for mutation in [
            Mutation::ExtendsByNothing,
            Mutation::CountsTooMuch,
            Mutation::PreallocateCuts,
            Mutation::LockDoesNothing,
            Mutation::SetLenIgnored,
            Mutation::DropsTheLastByte,
            Mutation::CloseDoesNothing,
            Mutation::CloseIsForgotten,
            Mutation::RefreshCuts,
        ] {
            assert!(!passes(mutation), "{mutation:?} passed the suite");
        }
    }
}
