//! A FUSE file system for tests that caches pages as the NFS client of Linux does. Each simulated node runs
//! one server, which mounts one shared backing folder. Nodes then see each other's writes only as two NFS
//! clients do, and a page that is stale on one node overwrites the bytes of another node.
//!
//! # Pages
//! * Everything that a node knows of a file goes through a cache of whole pages of 4096 bytes in the server.
//!   All programs on the mount share the cache. The kernel caches no data (`FOPEN_DIRECT_IO`), so the cache
//!   decides alone and each run has the same result.
//! * A read fills an absent page from the backing file. Otherwise the read returns the cached bytes, stale or
//!   not. A read ends at the locally known size.
//! * A write of a part of a page fills the page first. Bytes from the locally known size on are zero in a
//!   filled page, also if another node has written there.
//! * Dirty pages are written back whole, up to the locally known size. This happens at `close` and `fsync`,
//!   before a lock and before an unlock. It happens before new attributes, `fallocate`, `O_APPEND` writes and
//!   `O_DIRECT` access. It also happens at the end of the server, after [`Options::write_back_ms`], and when
//!   a file has more dirty pages than [`Options::max_dirty_pages`]. With `O_SYNC` or `O_DSYNC`, each write is
//!   written back.
//! * Each `close` of a descriptor writes back, also that of a child process, which closes the descriptors
//!   that it inherited when it starts a program.
//! * A write-back never shortens the backing file.
//! * `O_DIRECT` access goes to the backing file, after a write-back.
//!
//! # Revalidation
//! A revalidation drops the clean pages and takes the size of the backing file. It takes place at `open`,
//! when a lock was obtained, after `fallocate`, and before a write with `O_APPEND`. With
//! [`Options::getattr_revalidates`], also when attributes are asked for and another node has changed the
//! backing file. Local writes extend the known size.
//!
//! Attributes are those of the backing file, and the size includes dirty bytes. The kernel caches attributes
//! for [`Options::attribute_ms`], so `fstat` may return old ones, and `statx` with `AT_STATX_FORCE_SYNC` asks
//! the server. Names are cached for [`Options::entry_ms`]. `open` of a removed file looks its name up again.
//!
//! # Locks
//! POSIX and OFD locks exclude programs on all mounts of the backing folder ([`Options::local_locks`]: on
//! this mount only; [`Options::no_locks`]: `ENOLCK`). A lock writes back and revalidates, whatever the
//! locks exclude. An unlock writes back. `flock` excludes on one mount, by the kernel. A blocking wait asks
//! again each millisecond. A wait ends with a signal. There is no detection of deadlocks.
//!
//! The kernel releases a handle after the last `close` has returned, so OFD locks that are not unlocked end
//! a moment after `close`.
//!
//! # Errors
//! Errors of the backing folder reach the program. After a failed write-back the dirty pages are lost, as
//! with NFS. Each handle of the file reports the error at each `close`, until one `fsync` of the handle has
//! reported the error. If the server is killed, accesses return `ENOTCONN`.
//!
//! # Control file
//! `.cached-fs` in the root is not listed. Its content is the counters of the mount, one `name number` on
//! each line. A write of `fail ERRNO` lets the next write-back of a dirty page fail, with the error number.
//!
//! | counter | |
//! |---|---|
//! | `pages_filled` | pages read from the backing file |
//! | `pages_written`, `write_backs` | pages written back; write-backs of at least one page |
//! | `failed_write_backs` | write-backs with an error |
//! | `revalidations` | as above |
//! | `stale_page_uses` | uses of a clean page that differed from the backing file at this moment |
//! | `foreign_bytes` | bytes that a write-back changed and no program here had written: lost bytes of others |
//! | `locks` | locks obtained |
//!
//! # Differences from NFS
//! * A shared mapping of a file is refused (`ENODEV`).
//! * A file that another node has removed stays usable where it is open, without `ESTALE`.
//! * An open by a cached name does not notice for [`Options::entry_ms`] that another node has renamed the
//!   file. `lseek` to the end may use an old size for [`Options::attribute_ms`].
//! * Only root can mount. The folder must lie in one file system.

mod answers;
mod control;
mod counters;
mod handlers;
mod inodes;
mod locking;
mod locks;
mod pages;
mod server;
mod state;

pub use control::CONTROL_NAME;
pub use server::{Mounted, mount};

/// Properties of a mount.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Time for which the kernel caches attributes, in milliseconds
    #[arg(long, default_value_t = 1000)]
    pub attribute_ms: u64,
    /// Time for which the kernel caches names, in milliseconds
    #[arg(long, default_value_t = 1000)]
    pub entry_ms: u64,
    /// Number of dirty pages of a file above which all are written back
    #[arg(long, default_value_t = 1024)]
    pub max_dirty_pages: usize,
    /// Write all dirty pages back each time after this time, in milliseconds
    #[arg(long)]
    pub write_back_ms: Option<u64>,
    /// A request for attributes revalidates if the backing file has changed
    #[arg(long)]
    pub getattr_revalidates: bool,
    /// Locks exclude only on this mount
    #[arg(long, conflicts_with = "no_locks")]
    pub local_locks: bool,
    /// Locks are refused with ENOLCK
    #[arg(long)]
    pub no_locks: bool,
    /// The first write-back fails with this error number
    #[arg(long, value_name = "ERRNO")]
    pub fail_write_back: Option<i32>,
}
