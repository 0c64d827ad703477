//! Several nodes on storage that writes whole pages back. Writing is refused on all ranks unless the user
//! promises that no two nodes write to one page. Reading is permitted. A sync refreshes what each rank sees.
//! A failure of one rank in a sync or a close is an error on all ranks.
//!
//! Run with `mpiexec -n 4 -x CAPULET_NODES=2 target/openmpi/debug/examples/pages FILE`. Rank 0 prints one
//! line.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use capulet_adio::{AccessMode, Context, File, OpenRequest};
use capulet_comm::ErrorClass;
use capulet_drivers::posix::PosixDriver;
use capulet_drivers::{
    Batch, Caps, Completion, Driver, DriverFile, Error, ErrorKind, FileIdentity, FileLayout, LockGuard,
    LockMode, OpenOptions, Operation, Registry, Result, SystemCalls,
};
use mpi::collective::SystemOperation;
use mpi::traits::{Communicator, CommunicatorCollectives as _};

/// The posix driver, on a file system that keeps concurrent writes apart only if they are on different
/// pages.
#[derive(Debug)]
struct PageDriver(PosixDriver, Arc<Calls>);

/// Calls that the files of a driver received, and whether they fail.
#[derive(Debug, Default)]
struct Calls {
    refreshes: AtomicU64,
    /// Whether they fail when they are refreshed or closed.
    fails: AtomicBool,
}

impl Calls {
    fn outcome(&self, operation: Operation, path: &Path) -> Result<()> {
        if !self.fails.load(Relaxed) {
            return Ok(());
        }
        Err(Error::message(ErrorKind::Quota, operation, path, "this rank fails on purpose"))
    }
}

impl Driver for PageDriver {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        Ok(Arc::new(PageFile(self.0.open(path, options)?, Arc::clone(&self.1))))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.0.delete(path)
    }
}

#[derive(Debug)]
struct PageFile(Arc<dyn DriverFile>, Arc<Calls>);

impl DriverFile for PageFile {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn caps(&self) -> Caps {
        let caps = [Caps::LOCKS, Caps::PROCESS_SHARED, Caps::UNLINK_OPEN];
        let kept = caps.into_iter().filter(|cap| self.0.caps().contains(*cap));
        kept.fold(Caps::PROCESS_SHARED, Caps::union)
    }

    fn layout(&self) -> FileLayout {
        self.0.layout()
    }

    fn identity(&self) -> Option<FileIdentity> {
        self.0.identity()
    }

    fn submit(&self, batch: Batch<'_>) -> Completion {
        self.0.submit(batch)
    }

    fn would_wait(&self, offset: u64) -> Option<bool> {
        self.0.would_wait(offset)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.0.set_len(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.0.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn refresh(&self) -> Result<()> {
        self.1.refreshes.fetch_add(1, Relaxed);
        self.0.refresh().and(self.1.outcome(Operation::Refresh, self.path()))
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        self.0.try_lock(range, mode)
    }

    fn system_calls(&self) -> SystemCalls {
        self.0.system_calls()
    }

    fn close(&mut self) -> Result<()> {
        self.0.close().and(self.1.outcome(Operation::Close, self.0.path()))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let universe = mpi::initialize().ok_or("MPI is running already")?;
    let world = universe.world();
    let rank = u64::try_from(world.rank())?;
    let name = std::env::args().nth(1).ok_or("a file name is needed")?;
    let calls = Arc::new(Calls::default());
    let context = Context::new(Registry::new(Arc::new(PageDriver(PosixDriver::new(), Arc::clone(&calls)))));
    let open = |mode: AccessMode, promise: &str| {
        let hints = vec![("capulet_exclusive_pages".to_owned(), promise.to_owned())];
        let request = OpenRequest { name: name.clone().into(), mode, hints };
        File::open_with(&world, request, &context)
    };

    // With the promise: each rank writes a page of its own.
    let mode = AccessMode::CREATE | AccessMode::READ_WRITE;
    let file = open(mode, "true")?;
    assert!(file.info().contains(&("capulet_exclusive_pages".to_owned(), "true".to_owned())));
    let nodes = file.group().node().node_count();
    let mine = [rank; 512];
    let bytes = file.write_at_all(i64::try_from(rank)? * 4096, &mine[..])?;
    assert_eq!(bytes, 4096);
    file.sync()?;
    assert_eq!(calls.refreshes.load(Relaxed), 1, "every rank looks at the storage again");

    // what fails on the last rank fails on all
    calls.fails.store(world.rank() + 1 == world.size(), Relaxed);
    assert_eq!(file.sync().map_err(|error| error.class()), Err(ErrorClass::Quota));
    assert_eq!(file.close().map_err(|error| error.class()), Err(ErrorClass::Quota));
    calls.fails.store(false, Relaxed);

    // Without the promise: writing is possible on one node only.
    let outcome = match open(mode, "false") {
        Ok(file) => {
            file.close()?;
            "opened".to_owned()
        }
        // All ranks get an error. A rank that detects the reason itself names it, the others report a
        // failure elsewhere.
        Err(error) if error.class() == ErrorClass::UnsupportedOperation => error.to_string(),
        Err(error) => return Err(error.into()),
    };

    // All ranks may read.
    let file = open(AccessMode::READ_ONLY | AccessMode::DELETE_ON_CLOSE, "false")?;
    let mut back = [0_u64; 512];
    assert_eq!(file.read_at_all(i64::try_from(rank)? * 4096, &mut back[..])?, 4096);
    assert_eq!(back, mine);
    file.close()?;
    let mut refusals = 0_u64;
    world.all_reduce_into(&u64::from(outcome != "opened"), &mut refusals, SystemOperation::sum());
    if rank == 0 {
        println!("{nodes} nodes, {refusals} ranks refused: {outcome}");
    }
    Ok(())
}
