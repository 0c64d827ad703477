//! `capulet verify atomic` finds no fault in Capulet. It finds the known faults of other layers, and the
//! faults of Capulet without locks.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use capulet_tests::{Mpi, is_long};

const LIMIT: Duration = Duration::from_secs(1200);

/// Runs one command at a time. Two would share the cores, and MPICH spins on them.
static RUNNING: Mutex<()> = Mutex::new(());

fn verify(words: &[&str]) -> Output {
    verify_under(&[], words)
}

/// As [`verify`], but another program starts the command.
fn verify_under(starter: &[&str], words: &[&str]) -> Output {
    let _one_at_a_time = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    // The folder lies on a disk. Capulet stores to files in memory through a mapping, without calls that
    // could be cut into parts.
    let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let mpi = Mpi::chosen();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &LIMIT.as_secs().to_string()]).args(starter).arg(mpi.command());
    let own = (!words.contains(&"--mpi")).then(|| ["--mpi", mpi.name()]);
    command.args(["verify", "atomic"]).arg(folder.path()).args(own.iter().flatten()).args(words);
    let output = command.stdin(Stdio::null()).output().expect("timeout(1) is installed");
    let left = folder.path().read_dir().expect("the folder can be listed").count();
    assert_eq!(left, 0, "number of files left behind");
    output
}

#[track_caller]
fn ends_with(words: &[&str], code: i32) -> String {
    let output = verify(words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{text}\n{errors}");
    text
}

/// Runs every mode. All accesses have an order.
fn holds(ranks: &str, rounds: &str) {
    let text = ends_with(&["--ranks", ranks, "--rounds", rounds], 0);
    assert_eq!(text.matches(" 0 without an order").count(), 10, "{text}");
}

#[test]
fn capulet_has_an_order_for_all_accesses() {
    // MPICH spins, so more ranks than cores wait long for each other.
    let is_mpich = Mpi::chosen().name() == "mpich";
    let most = if is_long() { "300" } else { "60" };
    let (two, four) = if is_mpich { (most, "20") } else { ("20", most) };
    holds("2", two);
    holds("4", four);
    if !is_mpich || is_long() {
        holds("7", "20");
    }
}

/// The hybrid lock, on one node and on three, also on a storage without locks, which tears writes.
#[test]
fn hybrid_lock_gives_an_order() {
    // MPICH spins, also while it waits for the memory of another rank.
    let (ranks, rounds) = if Mpi::chosen().name() == "mpich" { ("3", "2") } else { ("4", "6") };
    for (nodes, driver) in [("1", "posix"), ("3", "posix"), ("1", "nolock"), ("3", "nolock")] {
        let words = ["--ranks", ranks, "--rounds", rounds, "--lock", "hybrid", "--nodes", nodes];
        let words = [&words[..], &["--driver", driver]].concat();
        let text = ends_with(&words, 0);
        assert_eq!(text.matches(" 0 without an order").count(), 10, "{text}");
    }
}

/// Runs a command with a `/dev/shm` that has room for the MPI, but not for a collective buffer of Capulet.
const NARROW: [&str; 5] =
    ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=48m tmpfs /dev/shm && exec \"$0\" \"$@\""];

/// Without collective buffers, each rank moves and locks its own bytes, also in collective calls.
#[test]
fn accesses_without_collective_buffers_have_an_order() {
    let may_mount =
        Command::new(NARROW[0]).args([NARROW[1], "true"]).status().is_ok_and(|status| status.success());
    if !may_mount {
        println!("skipped: this user may not mount a file system");
        return;
    }
    for nodes in ["1", "2"] {
        let words =
            ["--ranks", "2", "--rounds", "20", "--nodes", nodes, "--mode", "collective", "--mode", "once"];
        let words = [&words[..], &["--hint", "cb_buffer_size=1000000000"]].concat();
        let output = verify_under(&NARROW, &words);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.matches(" 0 without an order").count(), 2, "{text}");
    }
}

#[test]
fn every_lock_gives_an_order() {
    for (lock, nodes) in [
        ("auto", "2"),
        ("range", "2"),
        ("mcs", "1"),
        ("mcs", "2"),
        ("onesided", "2"),
        ("shared", "1"),
        ("twolevel", "2"),
        ("fcntl", "2"),
    ] {
        let ranks = if Mpi::chosen().name() == "mpich" { "2" } else { "4" };
        let rounds = if is_long() { "20" } else { "5" };
        let words = ["--ranks", ranks, "--rounds", rounds, "--lock", lock, "--nodes", nodes];
        let words = [&words[..], &["--mode", "mixed", "--mode", "nonblocking"]].concat();
        let text = ends_with(&words, 0);
        assert_eq!(text.matches(" 0 without an order").count(), 2, "{text}");
    }
}

/// Words of locks on servers.
#[test]
fn word_servers_give_an_order() {
    let ranks = if Mpi::chosen().name() == "mpich" { "2" } else { "4" };
    for lock in ["auto", "mcs", "hybrid"] {
        let words = ["--ranks", ranks, "--rounds", "5", "--lock", lock, "--nodes", "2"];
        let words =
            [&words[..], &["--mode", "mixed", "--mode", "pointers", "--hint", "capulet_words=server"]]
                .concat();
        let text = ends_with(&words, 0);
        assert_eq!(text.matches(" 0 without an order").count(), 2, "{text}");
    }
}

/// Words of locks by messages. The ranks wait in MPI between their accesses.
#[test]
#[cfg_attr(mpich, ignore = "MPICH does not call Capulet while it waits")]
fn words_by_messages_give_an_order() {
    for lock in ["auto", "mcs", "hybrid"] {
        let words = ["--ranks", "4", "--rounds", "5", "--lock", lock, "--nodes", "2"];
        let modes = ["--mode", "mixed", "--mode", "nonblocking", "--mode", "pointers"];
        let words = [&words[..], &modes, &["--hint", "capulet_words=messages"]].concat();
        let text = ends_with(&words, 0);
        assert_eq!(text.matches(" 0 without an order").count(), 3, "{text}");
    }
}

#[test]
fn accesses_without_locks_have_no_order() {
    for mode in ["independent", "mixed", "block", "pointers"] {
        let text = ends_with(&["--nonatomic", "--mode", mode, "--rounds", "10"], 1);
        assert!(text.contains("again with: --mode") && text.contains("of rank"), "{text}");
    }
}

/// ROMIO reads one block of a derived view without its lock, also in its newest version. OMPIO takes no
/// locks at all. Capulet passes the same rounds, also on the newest MPI.
#[test]
fn faults_of_romio_and_ompio_are_found() {
    let newest = if Mpi::chosen().name() == "openmpi" { "openmpi5" } else { "mpich5" };
    let block = |words: &[&str], code| {
        ends_with(&[&["--mode", "block", "--ranks", "2", "--rounds", "30"], words].concat(), code)
    };
    block(&["--layer", "romio"], 1);
    block(&["--layer", "romio", "--mpi", newest], 1);
    block(&["--mpi", newest], 0);
    if newest == "openmpi5" {
        ends_with(&["--layer", "ompio", "--mode", "independent", "--rounds", "10"], 1);
    }
}

#[test]
fn round_can_be_repeated() {
    let text = ends_with(
        &["--mode", "mixed", "--first", "1234", "--rounds", "1", "--seed", "99", "--delay-us", "0"],
        0,
    );
    assert!(text.contains("mixed: 1 rounds of 4 ranks"), "{text}");
}
