//! A disk for one test: a file system in an image file, mounted in a namespace that other processes do not
//! see.

use std::any::Any;
use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

/// A kind of file system, with the command that makes it.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name of the file system for `mount -t`.
    pub kind: &'static str,
    /// The program that makes the file system, and its arguments before the image.
    pub make: &'static [&'static str],
    /// Bytes of the image, which is sparse.
    pub bytes: u64,
}

impl Format {
    /// ext4, 64 MiB.
    pub const EXT4: Self = Self { kind: "ext4", make: &["mkfs.ext4", "-q", "-F"], bytes: 64 << 20 };
    /// XFS without shared blocks, 320 MiB: its tools make no smaller one.
    pub const XFS: Self =
        Self { kind: "xfs", make: &["mkfs.xfs", "-q", "-m", "reflink=0"], bytes: 320 << 20 };
    /// XFS with shared blocks (reflink), 320 MiB.
    pub const XFS_REFLINK: Self =
        Self { kind: "xfs", make: &["mkfs.xfs", "-q", "-m", "reflink=1"], bytes: 320 << 20 };
    /// Btrfs, 400 MiB.
    pub const BTRFS: Self = Self { kind: "btrfs", make: &["mkfs.btrfs", "-q"], bytes: 400 << 20 };
}

/// Runs `test` with the folder of a fresh disk, writable for every user. The image and the mount point are
/// made in `folder`, which must be empty.
///
/// The test runs in a thread with a mount namespace of its own, which the processes that the test starts
/// share. The mount ends with the last of them, also after a panic or if the process is killed. The loop
/// device ends with the mount.
///
/// # Errors
/// The reason why this user cannot have such a disk on this machine. `test` did not run then.
///
/// # Panics
/// If `test` panics, and if files cannot be made in `folder`.
pub fn with_disk<T: Send>(
    folder: &Path,
    format: &Format,
    test: impl FnOnce(&Path) -> T + Send,
) -> Result<T, String> {
    if !geteuid().is_root() {
        return Err("only root may mount a file system".to_owned());
    }
    let (image, place) = (folder.join("image"), folder.join("disk"));
    let made = File::create_new(&image).and_then(|file| file.set_len(format.bytes));
    made.and_then(|()| fs::create_dir(&place))
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let (program, arguments) = format.make.split_first().expect("a program makes the file system");
    run(Command::new(program).args(arguments).arg(&image))?;
    let run_test = || {
        let _mount = Mounted::new(format, &image, &place)?;
        Ok(test(&place))
    };
    let ended: Result<_, Box<dyn Any + Send>> = thread::scope(|scope| scope.spawn(run_test).join());
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs a program to its end. Returns its standard error if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| format!("{program}: {error} (see scripts/packages.txt)"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A mount in a namespace of the calling thread, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(format: &Format, image: &Path, place: &'a Path) -> Result<Self, String> {
        let failed = |error| format!("no mount namespace: {error}");
        // unshare(2): the namespace belongs to this thread and the processes that it starts.
        unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(failed)?;
        // mount(8) finds a loop device, and marks it so that the system releases it with the mount.
        run(Command::new("mount").args(["-t", format.kind, "-o", "loop"]).args([image, place]))?;
        let mounted = Self(place);
        run(Command::new("chmod").arg("777").arg(place))?;
        Ok(mounted)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // MNT_DETACH removes the mount from the namespace at once. The file system ends when no process has
        // a file open there.
        if let Err(error) = umount2(self.0, MntFlags::MNT_DETACH) {
            eprintln!("{} is unmounted with the namespace only: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    fn text_of(path: &str) -> String {
        fs::read_to_string(path).expect("the list of mounts can be read")
    }

    /// The image files behind the loop devices in use.
    fn images() -> String {
        let output =
            Command::new("losetup").args(["--list", "--noheadings", "--output", "BACK-FILE"]).output();
        String::from_utf8_lossy(&output.expect("losetup is installed").stdout).into_owned()
    }

    #[test]
    fn disk_is_visible_to_its_test_only_and_ends_after_a_panic() {
        let folder = std::env::temp_dir().join(format!("capulet-disk-{}", std::process::id()));
        fs::create_dir(&folder).expect("the folder is created");
        let name = folder.to_string_lossy().into_owned();
        let panicking = AssertUnwindSafe(|| {
            with_disk(&folder, &Format::EXT4, |place| {
                assert!(text_of("/proc/thread-self/mountinfo").contains(&name), "the disk is not mounted");
                assert!(!text_of("/proc/self/mountinfo").contains(&name), "every thread sees the mount");
                assert!(images().contains(&name), "there is no loop device");
                fs::write(place.join("file"), "on the disk").expect("the file is written");
                // Without a panic message, because the panic is intended.
                resume_unwind(Box::new("wanted"));
            })
        });
        let outcome: Result<Result<(), String>, _> = catch_unwind(panicking);
        match outcome {
            Ok(Err(reason)) => eprintln!("skipped: {reason}"),
            Ok(Ok(())) => panic!("the panic is lost"),
            Err(payload) => assert_eq!(payload.downcast_ref::<&str>(), Some(&"wanted")),
        }
        assert!(!folder.join("disk/file").exists(), "the disk is still mounted");
        let begun = Instant::now();
        while images().contains(&name) {
            assert!(begun.elapsed() < Duration::from_secs(20), "the loop device is still in use");
            thread::sleep(Duration::from_millis(20));
        }
        fs::remove_dir_all(&folder).expect("the folder is removed");
    }
}
