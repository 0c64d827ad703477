//! Programs on real nodes whose file system caches pages on each node, as NFS does: `tests/cached-fs`,
//! mounted once per node. A stale page overwrites bytes of other nodes there, so a layer that is wrong loses
//! bytes.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capulet_tests::nodes::{CachedFolder, shared};
use capulet_tests::{Job, Mpi, Nodes, compile};

/// A job takes a few seconds on idle cores.
const LIMIT: Duration = Duration::from_secs(150);

/// Held during a test. A job that fails ends all processes of the nodes, also the servers of other folders.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // A test that failed with the lock held has left no process.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn two() -> Option<&'static Arc<Nodes>> {
    shared(2, 0)
}

/// MPICH spins, so it gets one rank for each core.
fn ranks() -> [usize; 2] {
    if Mpi::chosen().is_open_mpi() { [2, 2] } else { [1, 1] }
}

fn job(name: &str, nodes: &Arc<Nodes>) -> Job {
    let mpi = Mpi::chosen();
    Job::new(mpi, 1, compile::c(mpi, name)).on_nodes(nodes, &ranks()).limit(LIMIT)
}

/// No node has used an old page, or has overwritten bytes of another node.
#[track_caller]
fn expect_no_loss(folder: &CachedFolder<'_>) {
    assert_eq!(folder.counters("foreign_bytes"), [0, 0], "bytes of another node were overwritten");
    assert_eq!(folder.counters("stale_page_uses"), [0, 0], "old pages were read or changed");
    assert!(folder.counters("pages_written").iter().sum::<u64>() > 0, "the cache was not used");
}

/// Defines one test for each program.
macro_rules! on_cached_pages {
    ($($name:ident)*) => {
        mod on_cached_pages { $(
            #[test]
            #[cfg_attr(native_io, ignore = "is about Capulet alone")]
            fn $name() {
                let (_turn, Some(nodes)) = (super::turn(), super::two()) else { return };
                let job = super::job(stringify!($name), nodes);
                // Most of the rounds repeat the first ones.
                let job = if stringify!($name) == "disjoint" { job.arg("15") } else { job };
                let folder = nodes.cache(job.folder(), &[]);
                job.run().expect_checks(concat!(stringify!($name), " on nodes that cache pages"));
                super::expect_no_loss(&folder);
            }
        )* }
    };
}

on_cached_pages! {
    views random_views pointers disjoint overlaps isend errors not_same atomic shared consistency
}

/// These programs ask the system whether a file exists after its deletion, so no node keeps names.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn on_cached_pages_without_cached_names() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    for name in ["sizes", "lifetimes"] {
        let job = job(name, nodes);
        let folder = nodes.cache(job.folder(), &["--entry-ms", "0"]);
        job.run().expect_checks(&format!("{name} on nodes that cache pages"));
        expect_no_loss(&folder);
    }
}

/// A sync shows what other nodes published before, also where no lock of Capulet is taken.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn sync_refreshes_readers() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    for options in [&[][..], &["--local-locks"], &["--no-locks"], &["--getattr-revalidates"]] {
        let job = job("refresh", nodes);
        let _folder = nodes.cache(job.folder(), options);
        job.run().expect_checks(&format!("refresh on nodes that cache pages, {options:?}"));
    }
}

/// Without page locks bytes are lost: the promise that no two nodes write to one page turns the locks off,
/// and the program breaks the promise. So the other tests can fail.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn broken_promise_loses_bytes() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    let job = job("disjoint", nodes).run_option("--hint").run_option("capulet_exclusive_pages=true");
    let _folder = nodes.cache(job.folder(), &[]);
    let outcome = job.run();
    assert!(
        !outcome.succeeded() && outcome.text.contains("bytes are wrong"),
        "no byte was lost: {outcome:?}"
    );
}

/// Locks of the storage keep pages apart if the hint asks for them and one node excludes the other. Otherwise
/// all ranks get an error that names the mount option.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn locks_of_the_storage_are_tried_before_they_are_trusted() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    let fcntl = |name: &str| job(name, nodes).run_option("--hint").run_option("capulet_lock=fcntl");
    let job = fcntl("overlaps");
    let folder = nodes.cache(job.folder(), &[]);
    job.run().expect_checks("locks of the storage on nodes that cache pages");
    expect_no_loss(&folder);
    drop(folder);
    for (option, reason) in
        [("--local-locks", "a node gets a lock that another node holds"), ("--no-locks", "lock")]
    {
        let job = fcntl("overlaps").variable("CAPULET_LOG", "debug");
        let _folder = nodes.cache(job.folder(), &[option]);
        let outcome = job.run();
        assert!(!outcome.succeeded() && outcome.text.contains(reason), "{option}: {outcome:?}");
    }
}

/// The default needs no lock of the storage.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn storage_without_locks() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    for (name, option) in
        [("overlaps", "--local-locks"), ("overlaps", "--no-locks"), ("disjoint", "--no-locks")]
    {
        let job = job(name, nodes);
        let job = if name == "disjoint" { job.arg("15") } else { job };
        let folder = nodes.cache(job.folder(), &[option]);
        job.run().expect_checks(&format!("{name} on nodes that cache pages, {option}"));
        expect_no_loss(&folder);
    }
}

/// A page that cannot be written back is an error of the access on all ranks that take part.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn failed_write_back_is_an_error() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    let job = job("overlaps", nodes);
    let _folder = nodes.cache(job.folder(), &["--fail-write-back", "122"]);
    let outcome = job.run();
    assert!(!outcome.succeeded() && outcome.text.contains("MPI_ERR_QUOTA"), "{outcome:?}");
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn hdf5() {
    let (_turn, mpi, Some(nodes)) = (turn(), Mpi::chosen(), two()) else { return };
    let job = Job::new(mpi, 1, compile::hdf5(mpi, "hyperslabs")).on_nodes(nodes, &ranks()).limit(LIMIT);
    let folder = nodes.cache(job.folder(), &[]);
    job.run().expect_checks("HDF5 on nodes that cache pages");
    expect_no_loss(&folder);
}

#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
#[cfg_attr(mpich, ignore = "Debian has PnetCDF for Open MPI alone")]
fn pnetcdf() {
    let (_turn, mpi, Some(nodes)) = (turn(), Mpi::chosen(), two()) else { return };
    let job = Job::new(mpi, 1, compile::pnetcdf(mpi, "pnetcdf_views")).on_nodes(nodes, &ranks()).limit(LIMIT);
    let folder = nodes.cache(job.folder(), &[]);
    job.run().expect_checks("PnetCDF on nodes that cache pages");
    expect_no_loss(&folder);
}

/// `capulet verify` finds an order for the atomic accesses of two nodes, in every mode.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn verify() {
    let (_turn, Some(nodes)) = (turn(), two()) else { return };
    let (mpi, place) = (Mpi::chosen(), tempfile::tempdir_in("/var/tmp").expect("a temporary folder"));
    let folder = nodes.cache(place.path(), &[]);
    let _nodes = nodes.take();
    let mut command = nodes.command(&[1, 1]);
    command.arg(mpi.command()).args(["verify", "atomic"]).arg::<&Path>(place.path());
    command.args(["--mpi", mpi.name(), "--ranks", "2", "--rounds", "5"]).stdin(Stdio::null());
    let output = command.output().expect("python3 starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert_eq!(text.matches(" 0 without an order").count(), 10, "{text}");
    expect_no_loss(&folder);
}
