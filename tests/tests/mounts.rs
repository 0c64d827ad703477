//! Programs on real file systems in image files: the programs that check each byte, a storage that fills up,
//! and a storage that stops writing. Only root may mount the disks. For other users each test reports what it
//! skips.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use capulet_job::disk::{Format, device_of, mount_again, with_disk, with_thin_disk};
use capulet_tests::{Job, Mpi, compile};

/// A job takes a few seconds on idle cores.
const LIMIT: Duration = Duration::from_secs(150);

/// Reports that the calling test is skipped.
fn skip(reason: &str) {
    // Written to the stream directly, because cargo hides the output of a test that passes.
    let name = std::thread::current().name().unwrap_or("a test on disks").to_owned();
    let line = format!("skipped: {name}: {reason}");
    writeln!(std::io::stderr(), "{line}").expect("the stream of errors is there");
}

/// Runs `test` with the folder of a fresh disk, or reports the reason why this machine has none.
fn on_disk(format: &Format, test: impl FnOnce(&Path) + Send) {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    if let Err(reason) = with_disk(folder.path(), format, test) {
        skip(&reason);
    }
}

/// Programs that compare each byte with an oracle or a rule of the standard.
const PROGRAMS: [&str; 8] =
    ["views", "disjoint", "overlaps", "pointers", "sizes", "atomic", "shared", "consistency"];

/// Runs programs on two ranks with their files on a fresh disk.
fn check(format: &Format, programs: &[&str]) {
    let mpi = Mpi::chosen();
    on_disk(format, |disk| {
        for name in programs {
            let folder = disk.join(name);
            fs::create_dir(&folder).expect("the disk has room");
            let job = Job::script(mpi, 2, compile::c(mpi, name)).arg(&folder).limit(LIMIT);
            job.run().expect_checks(&format!("{name} on {format:?}"));
            fs::remove_dir_all(&folder).expect("the files of a job are closed");
        }
    });
}

/// Defines a test for each file system.
macro_rules! programs_pass {
    ($($name:ident $format:ident $($more:literal)*;)*) => {
        mod programs_pass { $(
            #[test]
            fn $name() {
                let programs = [&super::PROGRAMS[..], &[$($more),*]].concat();
                super::check(&super::Format::$format, &programs);
            }
        )* }
    };
}

programs_pass! {
    ext4 EXT4 "random_views";
    ext4_with_small_blocks EXT4_SMALL_BLOCKS;
    xfs XFS;
    xfs_with_reflink XFS_REFLINK "random_views";
    btrfs BTRFS;
    btrfs_compressed BTRFS_COMPRESSED;
    overlay OVERLAY;
}

/// Leaves 8 MiB of the disk `$DISK`.
const TAKE_SPACE: &str = "sync
    room=$(df --output=avail --block-size=1 $DISK | tail -n 1)
    fallocate -l $((room - 8388608)) $DISK/filler && sync";
const GIVE_SPACE: &str = "rm $DISK/filler && sync";

/// A program writes in several ways until the storage is full.
fn fill(format: &Format) {
    let mpi = Mpi::chosen();
    on_disk(format, |disk| {
        let job = Job::new(mpi, 2, compile::c(mpi, "fills")).arg(disk).arg("NO_SPACE");
        let job = job.arg(TAKE_SPACE).arg(GIVE_SPACE).variable("DISK", disk).limit(LIMIT);
        job.run().expect_checks(&format!("fills on {format:?}"));
    });
}

/// The limit of a quota group, which is raised while the program waits.
#[test]
#[cfg_attr(native_io, ignore = "the peers return other classes")]
fn limit_of_a_quota_group() {
    let mpi = Mpi::chosen();
    on_disk(&Format::BTRFS, |disk| {
        let enabled = Command::new("btrfs").args(["quota", "enable"]).arg(disk).output();
        if !enabled.is_ok_and(|done| done.status.success()) {
            return skip("no quota groups here");
        }
        let job = Job::new(mpi, 2, compile::c(mpi, "fills")).arg(disk).arg("QUOTA");
        let job = job.arg("sync && btrfs qgroup limit 8M 0/5 $DISK").arg("btrfs qgroup limit none 0/5 $DISK");
        job.variable("DISK", disk).limit(LIMIT).run().expect_checks("fills with a limit of a quota group");
    });
}

/// Defines a test for each file system.
macro_rules! fills_up {
    ($($name:ident $format:ident;)*) => {
        mod fills_up { $(
            #[test]
            #[cfg_attr(native_io, ignore = "the peers return other classes")]
            fn $name() {
                super::fill(&super::Format::$format);
            }
        )* }
    };
}

fills_up! {
    ext4 EXT4;
    ext4_with_small_blocks EXT4_SMALL_BLOCKS;
    xfs XFS;
    xfs_with_reflink XFS_REFLINK;
    btrfs BTRFS;
    btrfs_compressed BTRFS_COMPRESSED;
    overlay OVERLAY;
}

/// How a storage stops writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// ext4 finds an error, and refuses writes from then on. Also below an overlay.
    Error,
    /// The administrator shuts an XFS down. Dirty data is lost.
    Shutdown,
    /// The volume below the file system is full. Dirty data that needs new room there is lost.
    Thin,
}

impl Stop {
    /// Bytes of the volume below the file system.
    fn thin_bytes(self) -> Option<u64> {
        (self == Self::Thin).then_some(192 << 20)
    }

    fn strike(self, disk: &Path, host: &Path) {
        match self {
            Self::Error => {
                let device = device_of(disk).expect("the disk is mounted");
                let name = device.file_name().expect("the device has a name");
                let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
                fs::write(&trigger, "a test")
                    .unwrap_or_else(|error| panic!("{}: {error}", trigger.display()));
            }
            Self::Shutdown => {
                let done = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(disk).output();
                assert!(done.is_ok_and(|done| done.status.success()), "no shutdown");
            }
            Self::Thin => {
                let mut filler = fs::File::create(host.join("filler")).expect("the file is created");
                for bytes in [1 << 20, 4096] {
                    while filler.write_all(&vec![1; bytes]).is_ok() {}
                }
            }
        }
    }
}

/// The storage stops while a program writes, before its sync, and before a close that syncs. After a restart,
/// the disk has what a sync had reported.
fn stop(format: &Format, stop: Stop) {
    let mpi = Mpi::chosen();
    let program = compile::c(mpi, "stops");
    for act in ["write", "sync", "close"] {
        let what = format!("stops {act} after {stop:?} on {format:?}");
        let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        let tested = with_thin_disk(folder.path(), format, stop.thin_bytes(), |disk, host| {
            let thin = (stop == Stop::Thin).then_some("thin");
            let job = |job: Job, act| thin.into_iter().fold(job.arg(disk).arg(act), Job::arg).limit(LIMIT);
            let hint = format!("capulet_sync_on_close={}", act == "close");
            let writing = job(Job::new(mpi, 2, &program), act).variable("CAPULET_HINTS", hint);
            let files = writing.folder().to_path_buf();
            let is_over = AtomicBool::new(false);
            let outcome = thread::scope(|scope| {
                scope.spawn(|| {
                    while !files.join("begun").exists() && !is_over.load(Relaxed) {
                        thread::sleep(Duration::from_millis(5));
                    }
                    stop.strike(disk, host);
                    fs::write(files.join("struck"), "").expect("the job's folder is there");
                });
                let outcome = writing.run();
                is_over.store(true, Relaxed);
                outcome
            });
            outcome.expect_checks(&what);
            if !format.is_overlaid {
                let _ = fs::remove_file(host.join("filler"));
                mount_again(disk, format).expect("the disk is mounted again");
                let check = job(Job::script(mpi, 2, &program).arg(&files), "check");
                check.run().expect_checks(&format!("{what}, after a restart"));
            }
        });
        if let Err(reason) = tested {
            return skip(&reason);
        }
    }
}

/// Defines a test for each file system.
macro_rules! stops_writing {
    ($($name:ident $format:expr, $stop:ident;)*) => {
        mod stops_writing {
            use super::{Format, Stop};
            $(
                #[test]
                #[cfg_attr(native_io, ignore = "the peers return other classes")]
                fn $name() {
                    super::stop(&$format, Stop::$stop);
                }
            )*
        }
    };
}

/// ext4 that refuses writes after an error.
const EXT4: Format = Format { options: "errors=remount-ro", ..Format::EXT4 };
const EXT4_SMALL_BLOCKS: Format = Format { options: "errors=remount-ro", ..Format::EXT4_SMALL_BLOCKS };
const OVERLAY: Format = Format { options: "errors=remount-ro", ..Format::OVERLAY };

stops_writing! {
    ext4 super::EXT4, Error;
    ext4_with_small_blocks super::EXT4_SMALL_BLOCKS, Error;
    overlay super::OVERLAY, Error;
    xfs Format::XFS, Shutdown;
    xfs_with_reflink Format::XFS_REFLINK, Shutdown;
    ext4_on_a_thin_volume super::EXT4, Thin;
    xfs_on_a_thin_volume Format::XFS, Thin;
    xfs_with_reflink_on_a_thin_volume Format::XFS_REFLINK, Thin;
    btrfs_on_a_thin_volume Format::BTRFS, Thin;
    btrfs_compressed_on_a_thin_volume Format::BTRFS_COMPRESSED, Thin;
}
