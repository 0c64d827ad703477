//! The thread and the descriptors of a server. There is one test only, because it counts the threads and
//! descriptors of its process.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use capulet_word_server::{Client, Server, THREAD_NAME, Wait};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use support::{admitted, client_of, raw, wait};

/// The folders of the threads with the name of a server's thread.
fn server_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| task.unwrap().path().to_str().unwrap().to_owned());
    // A thread that ends meanwhile has no name.
    names
        .filter(|task| {
            fs::read_to_string(format!("{task}/comm")).is_ok_and(|name| name.trim() == THREAD_NAME)
        })
        .collect()
}

fn descriptors() -> BTreeSet<u32> {
    let numbers = fs::read_dir("/proc/self/fd").unwrap();
    let mut all: BTreeSet<u32> =
        numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    // The descriptor of the listing is closed by now.
    all.retain(|number| fs::exists(format!("/proc/self/fd/{number}")).unwrap());
    all
}

/// Waits until `value` returns `expected`: a new thread has its name a little later, and a descriptor of
/// another thread of this program may be open for a moment.
fn assert_becomes<T: PartialEq + std::fmt::Debug>(expected: &T, value: impl Fn() -> T) {
    let start = Instant::now();
    while value() != *expected && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(value(), *expected);
}

fn assert_closed_on_exec(number: u32) {
    const O_CLOEXEC: u32 = 0o2_000_000;
    // A descriptor that was open for a moment is closed again.
    let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else { return };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    assert_ne!(u32::from_str_radix(flags.trim(), 8).unwrap() & O_CLOEXEC, 0, "descriptor {number}");
}

/// The mask of blocked signals of a thread: bit n - 1 for signal n.
fn blocked(task: &str) -> u64 {
    let status = fs::read_to_string(format!("{task}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

/// The time that a thread ran, in clock ticks.
fn ticks(task: &str) -> u64 {
    let stat = fs::read_to_string(format!("{task}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // proc_pid_stat(5): utime and stime are fields 14 and 15; the name before the bracket is field 2.
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_server_has_one_silent_thread_and_leaves_nothing() {
    let before = descriptors();
    let mask = SigSet::thread_get_mask().unwrap();
    let server = Server::start(4).unwrap();
    assert_eq!(SigSet::thread_get_mask().unwrap(), mask, "the mask of the caller is restored");

    assert_becomes(&1, || server_threads().len());
    let threads = server_threads();
    let [task] = threads.as_slice() else { panic!("{threads:?}") };
    // SIGKILL and SIGSTOP cannot be blocked. 32 and 33 belong to the C library.
    let missing = !blocked(task) & !(1 << 8 | 1 << 18 | 1 << 31 | 1 << 32);
    assert_eq!(missing, 0, "signals that are not blocked: {missing:#x}");

    // The thread sleeps, also with clients and with a connection whose handshake does not go on.
    let clients = [client_of(&server), client_of(&server)];
    for client in &clients {
        client.add(0, 1_u64, wait()).unwrap();
    }
    let (silent, idle) = (raw(&server.addresses()), admitted(&server.addresses()));
    let ran = ticks(task);
    std::thread::sleep(Duration::from_millis(500));
    assert!(ticks(task) - ran < 10, "the thread ran {} ticks in 500 ms", ticks(task) - ran);

    let new: Vec<u32> = descriptors().difference(&before).copied().collect();
    // The listener, the epoll set, the event, and both ends of four connections.
    assert!(new.len() >= 11, "{new:?}");
    new.into_iter().for_each(assert_closed_on_exec);
    let server = forked_child_leaves_the_thread_alone(server, &clients[0]);

    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(server_threads(), Vec::<String>::new());
    drop((clients, silent, idle));
    assert_becomes(&before, descriptors);
}

/// A child that drops the server neither waits for a thread that it does not have, nor ends the parent's.
fn forked_child_leaves_the_thread_alone(server: Server, client: &Client) -> Server {
    let mut server = Some(server);
    // SAFETY: fork(2): the child of a process with several threads may call only functions that are safe in
    // signal handlers. The child makes system calls only, and the drop frees memory, which the C library
    // of Linux allows after a fork.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            alarm::set(10);
            drop(server.take());
            // Ends the child without the exit handlers of the parent.
            raise(Signal::SIGKILL).unwrap();
            unreachable!("SIGKILL ends the process")
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Signaled(child, Signal::SIGKILL, false));
        }
    }
    let limit = Wait::new(&|| ()).within(Duration::from_secs(5));
    assert_eq!(client.load::<u64>(0, limit), Ok(2));
    server.unwrap()
}
