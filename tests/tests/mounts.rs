//! Programs on real file systems in image files: the programs that check each byte, a storage that fills up,
//! and a storage that stops writing. Only root may mount the disks. For other users each test reports what it
//! skips.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capulet_job::disk::{Format, with_disk};
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
        assert!(enabled.is_ok_and(|done| done.status.success()), "no quota groups");
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
