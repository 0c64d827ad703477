//! The effect of injected faults on a program.

use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{Effect, FaultPlan, Faulty, Target, When};
use capulet_drivers::{
    Batch, Driver, DriverFile, DriverFileExt, Error, ErrorKind, LockMode, OpenOptions, Operation, Result,
    Transfer,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATH: &str = "file";

fn faulty(plan: &str) -> Faulty {
    Faulty::new(Arc::new(MemDriver::new()), FaultPlan::parse(plan).unwrap())
}

fn opened(plan: &str) -> Arc<dyn DriverFile> {
    faulty(plan).open(Path::new(PATH), &OpenOptions::read_write().create(true)).unwrap()
}

/// Makes one call of every kind until the first failure. Returns the number of successful calls, and the
/// failure.
fn program(driver: &dyn Driver) -> (u64, Result<()>) {
    let mut done = 0;
    let mut run = || -> Result<()> {
        let mut step = |result: Result<()>| result.map(|()| done += 1);
        let opened = driver.open(Path::new(PATH), &OpenOptions::read_write().create(true));
        step(opened.as_ref().map(|_| ()).map_err(Clone::clone))?;
        let mut file = opened?;
        step(file.write_all_at(0, b"abc"))?;
        step(file.read_at(0, &mut [0; 3]).map(|_| ()))?;
        step(file.len().map(|_| ()))?;
        step(file.set_len(2))?;
        step(file.preallocate(5))?;
        step(file.sync())?;
        step(file.refresh())?;
        step(file.lock(0..1, LockMode::Exclusive).map(drop))?;
        step(file.close())?;
        step(driver.delete(Path::new(PATH)))
    };
    let outcome = run();
    (done, outcome)
}

const CALLS: [(&str, Operation); 11] = [
    ("open", Operation::Open),
    ("write", Operation::Write),
    ("read", Operation::Read),
    ("len", Operation::Length),
    ("set_len", Operation::SetLength),
    ("preallocate", Operation::Preallocate),
    ("sync", Operation::Sync),
    ("refresh", Operation::Refresh),
    ("lock", Operation::Lock),
    ("close", Operation::Close),
    ("delete", Operation::Delete),
];

fn checked(error: &Error, kind: ErrorKind, operation: Operation) {
    assert_eq!((error.kind(), error.operation(), error.path()), (kind, operation, Path::new(PATH)));
    assert!(error.system_code().is_some());
}

#[test]
fn each_call_of_a_program_can_fail() {
    let driver = faulty("");
    let (done, outcome) = program(&driver);
    outcome.unwrap();
    assert_eq!((done, driver.calls(Target::Any)), (11, 11));
    for (index, (_, operation)) in CALLS.into_iter().enumerate() {
        let (done, outcome) = program(&faulty(&format!("any@{index}:quota")));
        assert_eq!(done, index as u64);
        checked(&outcome.unwrap_err(), ErrorKind::Quota, operation);
    }
    program(&faulty("any@11:quota")).1.unwrap();
}

#[test]
fn each_kind_of_call_has_its_own_count() {
    for (index, (target, operation)) in CALLS.into_iter().enumerate() {
        let driver = faulty(&format!("{target}@0:permission"));
        let (done, outcome) = program(&driver);
        assert_eq!(done, index as u64, "{target}");
        checked(&outcome.unwrap_err(), ErrorKind::Permission, operation);
        // The second run has no fault.
        program(&driver).1.unwrap();
        assert_eq!(driver.calls(Target::Open), 2);
    }
}

#[test]
fn failed_close_closes_the_file() {
    let mut file = opened("close@0:quota");
    checked(&file.close().unwrap_err(), ErrorKind::Quota, Operation::Close);
    assert_eq!(file.write_all_at(0, b"x").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(file.close().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn from_applies_to_all_later_calls() {
    let file = opened("write@1+:io");
    file.write_all_at(0, b"x").unwrap();
    for _ in 0..3 {
        checked(&file.write_all_at(0, b"x").unwrap_err(), ErrorKind::Io, Operation::Write);
    }
}

#[test]
fn write_can_fail_after_some_bytes() {
    let file = opened("write@0:nospace=5");
    let batch = Batch::write(vec![Transfer::from_memory(0, b"abc"), Transfer::from_memory(10, b"defg")]);
    let result = file.submit(batch).wait();
    assert_eq!(result.bytes, 5);
    checked(&result.error.unwrap(), ErrorKind::NoSpace, Operation::Write);
    let mut back = [1; 20];
    assert_eq!(file.read_at(0, &mut back).unwrap(), 12);
    assert_eq!(&back[..12], b"abc\0\0\0\0\0\0\0de");
}

#[test]
fn failure_after_all_bytes_is_reported() {
    let file = opened("write@0:quota=99");
    let result = file.submit(Batch::write(vec![Transfer::from_memory(0, b"abc")])).wait();
    assert_eq!((result.bytes, result.error.unwrap().kind()), (3, ErrorKind::Quota));
}

#[test]
fn short_read_succeeds_and_short_write_fails() {
    let file = opened("read@0:short=2;write@1:short=1;read@1:short=9");
    file.write_all_at(0, b"abcd").unwrap();
    let mut back = [0; 4];
    assert_eq!(file.read_at(0, &mut back).unwrap(), 2);
    assert_eq!(&back, b"ab\0\0");
    assert_eq!(file.read_at(0, &mut back).unwrap(), 4);
    let result = file.submit(Batch::write(vec![Transfer::from_memory(0, b"xyz")])).wait();
    assert_eq!((result.bytes, result.error.unwrap().kind()), (1, ErrorKind::Io));
}

#[test]
fn several_faults_apply_to_one_call() {
    let file = opened("write@0:pieces=1;write@0:io=2;write@0:quota;write@0:delay=30ms");
    let start = Instant::now();
    let result = file.submit(Batch::write(vec![Transfer::from_memory(0, b"abc")])).wait();
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!((result.bytes, result.error.unwrap().kind()), (2, ErrorKind::Io));
}

#[test]
fn error_of_the_wrapped_driver_ends_the_pieces() {
    let full: Arc<dyn Driver> = Arc::new(MemDriver::with_capacity(4096));
    let plan = FaultPlan::none().with(Target::Any, When::From(0), Effect::Pieces { bytes: 1000 });
    let file =
        Faulty::new(full, plan).open(Path::new(PATH), &OpenOptions::read_write().create(true)).unwrap();
    let result = file.submit(Batch::write(vec![Transfer::from_memory(0, &[1; 6000])])).wait();
    assert_eq!((result.bytes, result.error.unwrap().kind()), (4096, ErrorKind::NoSpace));
}
