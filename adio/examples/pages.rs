//! Several nodes on storage that writes whole pages back. The page lock keeps their writes apart. Each write
//! begins with a lock of the storage and ends with a sync, and each read begins with a lock. With the promise
//! that no two nodes write to one page, no access locks or refreshes. A failure of one rank in a sync or a
//! close is an error on all ranks.
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
use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator as _;

/// The posix driver, on a file system that keeps concurrent writes apart only if they are on different
/// pages.
#[derive(Debug)]
struct PageDriver(PosixDriver, Arc<Calls>);

/// Calls that the files of a driver received, and whether they fail.
#[derive(Debug, Default)]
struct Calls {
    refreshes: AtomicU64,
    locks: AtomicU64,
    syncs: AtomicU64,
    /// Whether they fail when they are refreshed, synced or closed.
    fails: AtomicBool,
}

impl Calls {
    /// Runs an access. Returns how often this rank looked at the storage again, by a refresh or a lock, and how
    /// often it made a sync.
    fn of(&self, access: impl FnOnce()) -> [u64; 2] {
        let looks = || self.refreshes.load(Relaxed) + self.locks.load(Relaxed);
        let now = || [looks(), self.syncs.load(Relaxed)];
        let before = now();
        access();
        [0, 1].map(|at| now()[at] - before[at])
    }

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
        FileLayout { write_unit_bytes: 4096, ..self.0.layout() }
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
        self.1.syncs.fetch_add(1, Relaxed);
        self.0.sync().and(self.1.outcome(Operation::Sync, self.path()))
    }

    fn refresh(&self) -> Result<()> {
        self.1.refreshes.fetch_add(1, Relaxed);
        self.0.refresh().and(self.1.outcome(Operation::Refresh, self.path()))
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        self.1.locks.fetch_add(1, Relaxed);
        self.0.try_lock(range, mode)
    }

    fn system_calls(&self) -> SystemCalls {
        self.0.system_calls()
    }

    fn close(&mut self) -> Result<()> {
        self.0.close().and(self.1.outcome(Operation::Close, self.0.path()))
    }
}

/// The file, and what its users need.
struct Setting<'a> {
    world: &'a SimpleCommunicator,
    name: String,
    calls: Arc<Calls>,
    context: Context,
}

impl Setting<'_> {
    fn open(&self, mode: AccessMode, promise: bool) -> capulet_adio::Result<File> {
        let hints = vec![("capulet_exclusive_pages".to_owned(), promise.to_string())];
        let request = OpenRequest { name: self.name.clone().into(), mode, hints };
        File::open_with(self.world, request, &self.context)
    }

    fn rank(&self) -> u64 {
        self.world.rank() as u64
    }

    fn ranks(&self) -> u64 {
        self.world.size() as u64
    }

    /// With the promise: each rank writes a page of its own.
    fn promised(&self) {
        let file = self.open(AccessMode::CREATE | AccessMode::READ_WRITE, true).expect("the file opens");
        assert!(file.info().contains(&("capulet_exclusive_pages".to_owned(), "true".to_owned())));
        let mine = [self.rank(); 512];
        let write =
            || assert_eq!(file.write_at(self.rank() as i64 * 4096, &mine[..]).expect("written"), 4096);
        assert_eq!(self.calls.of(write), [0, 0]);
        let sync = || file.sync().expect("synced");
        assert_eq!(self.calls.of(sync)[0], 1, "every rank looks at the storage again");
        // What fails on the last rank fails on all.
        self.calls.fails.store(self.rank() + 1 == self.ranks(), Relaxed);
        assert_eq!(file.sync().map_err(|error| error.class()), Err(ErrorClass::Quota));
        assert_eq!(file.close().map_err(|error| error.class()), Err(ErrorClass::Quota));
        self.calls.fails.store(false, Relaxed);
    }

    /// Without the promise: all ranks write to the same pages. Readers share a lock of the storage, and writers
    /// whose pages conflict have waited for each other before they ask the storage, so each asks once.
    fn unpromised(&self) {
        let file = self.open(AccessMode::READ_WRITE, false).expect("the file opens");
        let is_several = u64::from(file.group().node().node_count() > 1);
        let visible = ("romio_visibility_immediate".to_owned(), (is_several == 1).to_string());
        assert!(file.info().contains(&visible), "{:?}", file.info());
        let (mine, at) = ([self.rank() as u8 + 1; 3], self.rank() as i64 * 3);
        let write = || assert_eq!(file.write_at(at, &mine[..]).expect("written"), 3);
        assert_eq!(self.calls.of(write), [is_several, is_several]);
        let read = || {
            let mut back = [0_u8; 3];
            assert_eq!(file.read_at(at, &mut back[..]).expect("read"), 3);
            assert_eq!(back, mine);
        };
        assert_eq!(self.calls.of(read), [is_several, 0]);
        let leads = u64::from(file.group().node().is_leader());
        let gather = || assert_eq!(file.write_at_all(at + 8192, &mine[..]).expect("written"), 3);
        // Each rank of one run acts alone, unless a hint asks the ranks to gather.
        assert_eq!(self.calls.of(gather)[1], is_several);
        let enable = vec![("romio_cb_write".to_owned(), "enable".to_owned())];
        file.set_info(Ok(enable)).expect("the hint is the same on all ranks");
        assert_eq!(self.calls.of(gather)[1], is_several * leads, "the leader publishes for its node");
        let mut all = vec![0_u8; 3 * self.ranks() as usize];
        for at in [0, 8192] {
            file.read_at_all(at, &mut all[..]).expect("read");
            let right = |(at, byte): (usize, &u8)| usize::from(*byte) == at / 3 + 1;
            assert!(all.iter().enumerate().all(right), "{all:?}");
        }
        file.set_atomicity(true).expect("atomic mode is possible");
        assert_eq!((self.calls.of(write), self.calls.of(read)), ([is_several; 2], [is_several, 0]));
        file.set_size(40_000).expect("resized");
        assert_eq!(file.size().expect("the size is known"), 40_000);
        // A write that cannot be published is an error of the write, and not only of a later sync.
        if is_several == 1 {
            file.set_atomicity(false).expect("atomic mode ends");
            self.calls.fails.store(true, Relaxed);
            let class = file.write_at(at, &mine[..]).map_err(|error| error.class());
            assert_eq!(class, Err(ErrorClass::Quota));
            self.calls.fails.store(false, Relaxed);
        }
        file.close().expect("closed");
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let universe = mpi::initialize().ok_or("MPI is running already")?;
    let world = universe.world();
    let name = std::env::args().nth(1).ok_or("a file name is needed")?;
    let calls = Arc::new(Calls::default());
    let driver = Arc::new(PageDriver(PosixDriver::new(), Arc::clone(&calls)));
    let setting = Setting { world: &world, name, calls, context: Context::new(Registry::new(driver)) };
    setting.promised();
    setting.unpromised();

    // All ranks may read.
    let file = setting.open(AccessMode::READ_ONLY | AccessMode::DELETE_ON_CLOSE, false)?;
    let mut back = [0_u8; 3];
    assert_eq!(file.read_at_all(8192 + i64::from(world.rank()) * 3, &mut back[..])?, 3);
    assert_eq!(back, [world.rank() as u8 + 1; 3]);
    let nodes = file.group().node().node_count();
    file.close()?;
    if world.rank() == 0 {
        println!("{nodes} nodes kept their pages apart");
    }
    Ok(())
}
