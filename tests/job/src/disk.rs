//! A disk for one test: a file system in an image file, mounted in a namespace that other processes do not
//! see.

use std::any::Any;
use std::fs::{self, File};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
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
    /// Options of the mount, separated by commas.
    pub options: &'static str,
    /// Whether the folder of the test is the upper layer of an overlay on the file system.
    pub is_overlaid: bool,
}

impl Format {
    /// ext4 with blocks of 4 KiB, 64 MiB.
    pub const EXT4: Self = Self::plain("ext4", &["mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0"], 64 << 20);
    /// ext4 with blocks of 1 KiB, 64 MiB: a page has several blocks.
    pub const EXT4_SMALL_BLOCKS: Self =
        Self::plain("ext4", &["mkfs.ext4", "-q", "-F", "-b", "1024", "-m", "0"], 64 << 20);
    /// XFS without shared blocks, 320 MiB: its tools make no smaller one.
    pub const XFS: Self = Self::plain("xfs", &["mkfs.xfs", "-q", "-m", "reflink=0"], 320 << 20);
    /// XFS with shared blocks (reflink), 320 MiB.
    pub const XFS_REFLINK: Self = Self::plain("xfs", &["mkfs.xfs", "-q", "-m", "reflink=1"], 320 << 20);
    /// Btrfs, 400 MiB.
    pub const BTRFS: Self = Self::plain("btrfs", &["mkfs.btrfs", "-q"], 400 << 20);
    /// Btrfs that compresses each file, 400 MiB.
    pub const BTRFS_COMPRESSED: Self = Self { options: "compress-force=zstd", ..Self::BTRFS };
    /// An overlay on ext4 with blocks of 4 KiB, 64 MiB.
    pub const OVERLAY: Self = Self { is_overlaid: true, ..Self::EXT4 };

    const fn plain(kind: &'static str, make: &'static [&'static str], bytes: u64) -> Self {
        Self { kind, make, bytes, options: "defaults", is_overlaid: false }
    }
}

/// Runs `test` with the folder of a fresh disk, writable for every user. The image and the mount point are
/// made in `folder`, which must be empty. The image has no name while the disk is mounted.
///
/// The test runs in a thread with a mount namespace of its own. Processes and threads that the test starts
/// share the namespace. The mount ends with the last of them, also after a panic or if the process is
/// killed. The loop device and the image end with the mount.
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
    with_thin_disk(folder, format, None, |disk, _| test(disk))
}

/// As [`with_disk`], but the image lies in a memory file system of `thin_bytes`, if this is given. The second
/// argument of `test` is the folder of this file system. While it is full, the disk fails to write where it
/// has not been written before, as a thin volume does.
///
/// # Errors
/// As [`with_disk`].
///
/// # Panics
/// As [`with_disk`].
pub fn with_thin_disk<T: Send>(
    folder: &Path,
    format: &Format,
    thin_bytes: Option<u64>,
    test: impl FnOnce(&Path, &Path) -> T + Send,
) -> Result<T, String> {
    if !geteuid().is_root() {
        return Err("only root may mount a file system".to_owned());
    }
    let (host, place) = (folder.join("host"), folder.join("disk"));
    for folder in [&host, &place] {
        fs::create_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    }
    let run_test = || {
        isolate()?;
        let _host = thin_bytes.map(|bytes| Mounted::in_memory(bytes, &host)).transpose()?;
        let _disk = Mounted::made(format, &host.join("image"), &place)?;
        let folder = if format.is_overlaid { overlay(&place)? } else { place.clone() };
        run(Command::new("chmod").arg("777").arg(&folder))?;
        Ok(test(&folder, &host))
    };
    // The name of the test, for reports.
    let name = thread::current().name().unwrap_or("test on a disk").to_owned();
    let ended: Result<_, Box<dyn Any + Send>> = thread::scope(|scope| {
        let thread = thread::Builder::new().name(name).spawn_scoped(scope, run_test);
        thread.expect("a thread is started").join()
    });
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Ends the mount of `disk` and mounts the same device again, as after a restart of the machine. Of use only
/// inside of [`with_disk`], for a disk that is not overlaid. Waits at most 5 s until no file of the disk is
/// open.
///
/// # Errors
/// The reason why a step failed.
pub fn mount_again(disk: &Path, format: &Format) -> Result<(), String> {
    let device = device_of(disk)?;
    // The system releases the loop device with its last user.
    let _kept = File::open(&device).map_err(|error| format!("{}: {error}", device.display()))?;
    // The last process of a job may still be ending.
    let mut unmounted = umount2(disk, MntFlags::empty());
    for _ in 0..250 {
        if unmounted != Err(Errno::EBUSY) {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        unmounted = umount2(disk, MntFlags::empty());
    }
    unmounted.map_err(|error| format!("{}: {error}", disk.display()))?;
    run(Command::new("mount").args(["-t", format.kind, "-o", format.options]).args([&device, disk]))
}

/// The loop device of a disk, also of an overlaid one. Of use only inside of [`with_disk`].
///
/// # Errors
/// If the folder is on no loop device.
pub fn device_of(disk: &Path) -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").map_err(|error| error.to_string())?;
    let mut devices = mounts.lines().filter_map(|line| {
        let (device, rest) = line.split_once(' ')?;
        let place = rest.split(' ').next()?;
        (device.starts_with("/dev/loop") && disk.starts_with(place)).then(|| PathBuf::from(device))
    });
    devices.next_back().ok_or_else(|| format!("{} is on no loop device", disk.display()))
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

/// Gives the calling thread a mount namespace of its own, whose mounts reach no other namespace.
fn isolate() -> Result<(), String> {
    let failed = |error| format!("no mount namespace: {error}");
    // unshare(2): the namespace belongs to this thread and the processes that it starts.
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(failed)
}

/// Puts an overlay on a disk. Returns its folder.
fn overlay(disk: &Path) -> Result<PathBuf, String> {
    let folders = ["lower", "upper", "work", "merged"].map(|name| disk.join(name));
    for folder in &folders {
        fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let [lower, upper, work, merged] = folders;
    let (lower, upper, work) = (lower.display(), upper.display(), work.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    run(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]).arg(&merged))?;
    Ok(merged)
}

/// A mount in a namespace of the calling thread, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// A memory file system.
    fn in_memory(bytes: u64, place: &'a Path) -> Result<Self, String> {
        let options = format!("size={bytes}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(place))?;
        Ok(Self(place))
    }

    /// A fresh file system in a new image, which loses its name.
    fn made(format: &Format, image: &Path, place: &'a Path) -> Result<Self, String> {
        let made = File::create_new(image).and_then(|file| file.set_len(format.bytes));
        made.unwrap_or_else(|error| panic!("{}: {error}", image.display()));
        let (program, arguments) = format.make.split_first().expect("a program makes the file system");
        run(Command::new(program).args(arguments).arg(image))?;
        // mount(8) finds a loop device, and marks it so that the system releases it with the mount.
        let options = format!("loop,{}", format.options);
        run(Command::new("mount").args(["-t", format.kind, "-o", &options]).args([image, place]))?;
        let mounted = Self(place);
        fs::remove_file(image).map_err(|error| format!("{}: {error}", image.display()))?;
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
    use std::io::Write as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Instant;

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

    #[test]
    fn disk_keeps_its_files_when_mounted_again_and_fails_while_its_volume_is_full() {
        let folder = std::env::temp_dir().join(format!("capulet-thin-disk-{}", std::process::id()));
        fs::create_dir(&folder).expect("the folder is created");
        let tested = with_thin_disk(&folder, &Format::EXT4, Some(32 << 20), |disk, host| {
            assert_eq!(fs::read_dir(host).expect("the folder is there").count(), 0, "the image has a name");
            fs::write(disk.join("kept"), "on the disk").expect("the file is written");
            mount_again(disk, &Format::EXT4).expect("the disk is mounted again");
            assert_eq!(fs::read(disk.join("kept")).expect("the file is there"), b"on the disk");
            let filler = fs::write(host.join("filler"), vec![1; 32 << 20]);
            assert!(filler.is_err(), "the volume has too much room");
            let file = File::create(disk.join("lost")).expect("the file is created");
            (&file).write_all(&vec![1; 8 << 20]).expect("the cache takes the bytes");
            assert!(file.sync_all().is_err(), "the volume has room");
        });
        if let Err(reason) = tested {
            eprintln!("skipped: {reason}");
        }
        fs::remove_dir_all(&folder).expect("the folder is removed");
    }
}
