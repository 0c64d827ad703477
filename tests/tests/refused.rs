//! Refusals: the system refuses files to an ordinary user, a disk or shared memory is full, and `capulet
//! run` refuses a program of another MPI.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use capulet_job::disk::{Format, with_disk};
use capulet_tests::launch::{NOBODY, copied_for_all, may_mount};
use capulet_tests::{Job, Mpi, RANKS, Through, compile};

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("the permissions are set");
}

/// Makes the files that `unprivileged.c` may not access. They belong to the user of the program, so that
/// only their modes decide.
fn prepare_refusals(folder: &Path) {
    let locked = folder.join("locked");
    fs::create_dir(&locked).expect("the folder is created");
    for (path, bits) in [
        (folder.join("unreadable"), 0o000),
        (folder.join("unwritable"), 0o444),
        (locked.join("inside"), 0o644),
    ] {
        fs::write(&path, "content").expect("the file is written");
        // Fails for any user but root. The files then belong to the user of the program already.
        let _ = chown(&path, Some(NOBODY), Some(NOBODY));
        mode(&path, bits);
    }
    let _ = chown(&locked, Some(NOBODY), Some(NOBODY));
    mode(&locked, 0o555);
}

#[test]
fn files_are_refused_to_an_ordinary_user() {
    let mpi = Mpi::chosen();
    for ranks in RANKS {
        let tools = tempfile::tempdir().expect("a temporary folder");
        mode(tools.path(), 0o755);
        let program = copied_for_all(tools.path(), &compile::c(mpi, "unprivileged"));
        let mut job = Job::script(mpi, ranks, "env");
        if Through::chosen() != Through::Native {
            let library = copied_for_all(tools.path(), &mpi.library());
            job = job.arg(format!("LD_PRELOAD={}", library.display()));
        }
        let folder = job.folder().to_path_buf();
        prepare_refusals(&folder);
        let job = job.arg(program).arg(&folder).through(Through::Native).as_nobody();
        job.run().expect_checks(&format!("an ordinary user on {ranks} ranks"));
        mode(&folder.join("locked"), 0o755);
    }
}

/// A file system of 2 MiB, unmounted when dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` if this user may not mount. Then only the tests with `/dev/full` in other programs remain.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m,mode=777", "none"])
            .arg(folder.path())
            .output();
        done.is_ok_and(|done| done.status.success()).then_some(Self { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

#[test]
fn full_file_system_is_no_space() {
    let mpi = Mpi::chosen();
    let Some(disk) = SmallDisk::mount() else {
        // Written to the stream directly, because cargo hides the output of a test that passes.
        let reason = "skipped: full_file_system_is_no_space: this user may not mount a file system; \
                      only the tests with /dev/full remain";
        writeln!(std::io::stderr(), "{reason}").expect("the stream of errors is there");
        return;
    };
    for ranks in [1, 2, 4] {
        let job = Job::new(mpi, ranks, compile::c(mpi, "full_disk")).arg(disk.folder.path());
        job.run().expect_checks(&format!("a full file system on {ranks} ranks"));
    }
}

/// The shared memory of a node is too small. Access goes on without collective buffers, a warning reports
/// this, and every byte is right.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn short_shared_memory_gives_a_warning() {
    const MIB: u64 = 1 << 20;
    if !may_mount() {
        let reason = "skipped: short_shared_memory_gives_a_warning: this user may not mount a small /dev/shm";
        writeln!(std::io::stderr(), "{reason}").expect("the stream of errors is there");
        return;
    }
    let mpi = Mpi::chosen();
    // The first size leaves room for the MPI itself. In the second job the collective buffers would take
    // 128 MiB per rank.
    let sizes = if mpi.is_open_mpi() { [256 << 10, 64 * MIB] } else { [48 * MIB, 64 * MIB] };
    for (bytes, hint) in sizes.into_iter().zip(["16777216", "67108864"]) {
        let job = Job::new(mpi, 4, compile::c(mpi, "views")).shared_memory(bytes);
        let job = job.variable("CAPULET_HINTS", format!("cb_buffer_size={hint};romio_cb_write=enable"));
        let outcome = job.run();
        outcome.expect_checks(&format!("views with {bytes} bytes of shared memory"));
        let warns = outcome.text.contains("shared memory is short")
            || outcome.text.contains("no shared memory on this node");
        assert!(warns, "there is no warning of short shared memory\n{}", outcome.text);
    }
}

/// Fills a disk up to 40 MiB, then fills and frees these 40 MiB again and again. Btrfs gives freed room
/// back at a commit, so the script syncs.
const FILLER: &str = "
    cat /dev/zero >big
    truncate -s -40M big
    sync
    while :; do
        cat /dev/zero >greedy
        rm greedy
        sync
    done";

/// Btrfs needs new room for each page that is overwritten, so the ranks get an error while the disk is
/// full. Stores through a mapping would raise SIGBUS: they ended the ranks in 6 of 6 runs.
#[test]
#[cfg_attr(native_io, ignore = "the peers return other classes")]
fn full_btrfs_is_an_error_and_no_signal() {
    let mpi = Mpi::chosen();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tested = with_disk(folder.path(), &Format::BTRFS, |disk| {
        fs::write(disk.join("rewritten"), vec![0; 16 << 20]).expect("the disk is empty");
        let mut filler = Command::new("sh");
        filler.args(["-c", FILLER]).current_dir(disk).stderr(Stdio::null());
        // The drop ends the shell and its children, before the disk is unmounted.
        let _filler = capulet_job::Job::start(filler).expect("the shell starts");
        let job = Job::new(mpi, 2, compile::c(mpi, "rewrites")).arg(disk).arg("6");
        job.run().expect_checks("rewrites on a Btrfs that fills up");
    });
    if let Err(reason) = tested {
        let reason = format!("skipped: full_btrfs_is_an_error_and_no_signal: {reason}");
        writeln!(std::io::stderr(), "{reason}").expect("the stream of errors is there");
    }
}

/// Without the refusal, a program of one MPI under the launcher of the other runs as several programs of
/// one rank, or fails in other ways.
#[test]
#[cfg_attr(native_io, ignore = "is about Capulet alone")]
fn program_of_another_mpi_is_refused() {
    let mpi = Mpi::chosen();
    let other = if mpi.is_open_mpi() { Mpi::Mpich } else { Mpi::OpenMpi };
    let outcome = Job::new(mpi, 2, compile::c(other, "sizes")).run();
    assert!(
        !outcome.succeeded(),
        "a program of {} ran under the launcher of {}:\n{}",
        other.name(),
        mpi.name(),
        outcome.text
    );
    assert!(outcome.status.is_some(), "the launcher hung:\n{}", outcome.text);
    assert!(!outcome.text.contains("checks passed"), "the program was started:\n{}", outcome.text);
    let text = outcome.text.to_lowercase();
    assert!(
        text.contains("mpich") && text.contains("open mpi"),
        "the message does not name both families:\n{}",
        outcome.text
    );
}
