//! Mounts a folder through a cache of pages that behaves as an NFS client.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use capulet_cached_fs::{Options, mount};
use clap::Parser;
use nix::sys::signal::{SigSet, Signal};

/// Time between two looks for the end of the mount.
const LOOK: Duration = Duration::from_millis(20);

/// Mounts a folder as an NFS client does, for tests: each mount caches pages, and a stale page overwrites the
/// bytes of other mounts. Prints `ready` when the folder is mounted. Ends with its standard input, by SIGTERM
/// or SIGINT, or when the folder is unmounted. Needs root
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder that all nodes share
    backing: PathBuf,
    /// The folder where this node sees it
    mount_point: PathBuf,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Before the first thread, so that only `sigwait` takes the signals.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    if let Err(error) = signals.thread_block() {
        eprintln!("cached-fs: signals: {error}");
        return ExitCode::FAILURE;
    }
    let mounted = match mount(&arguments.backing, &arguments.mount_point, &arguments.options) {
        Ok(mounted) => mounted,
        Err(error) => {
            eprintln!("cached-fs: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("ready");
    if std::io::stdout().flush().is_err() {
        // The test that would read the line has ended.
        mounted.end();
    }
    let (signalled, asked) = mpsc::channel();
    let ended = signalled.clone();
    // The receiver lives until this process ends, so `send` does not fail.
    thread::spawn(move || signals.wait().is_ok_and(|_| signalled.send(()).is_ok()));
    thread::spawn(move || {
        let (mut input, mut bytes) = (std::io::stdin(), [0; 64]);
        while input.read(&mut bytes).is_ok_and(|count| count > 0) {}
        ended.send(()).is_ok()
    });
    while asked.recv_timeout(LOOK).is_err() && !mounted.is_over() {}
    mounted.end()
}
