//! Servers that die or stop, and what their clients notice. The server runs in a child process, the example
//! `serve`. Cargo builds the example with the tests.

mod support;

use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use capulet_word_server::{Client, Contact, Error, Server, Wait};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use support::wait;

/// The example `serve`. Cargo builds the examples into the folder above the folder of the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/serve");
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path
}

/// A child process with a server.
struct Remote {
    child: Child,
    contact: Contact,
}

impl Remote {
    fn start() -> Self {
        let mut command = Command::new(program());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let bytes: Vec<u8> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        Self { child, contact: Contact::from_bytes(&bytes).unwrap() }
    }

    fn client(&self) -> Client {
        Client::new(self.contact.clone())
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Returns when the child has stopped.
    fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let status = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(status, WaitStatus::Stopped(self.pid(), Signal::SIGSTOP));
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_broken(error: &Error) -> bool {
    matches!(error, Error::Closed { .. } | Error::Connection { .. })
}

/// Checks that each later call returns `error` and sends nothing.
fn assert_stays_broken(client: &Client, error: &Error) {
    let sent = client.requests();
    assert_eq!(client.load::<u64>(0, wait()).as_ref(), Err(error));
    assert_eq!(client.exchange(0, 0, &[1], 2, wait()).as_ref(), Err(error));
    assert_eq!(client.connect(wait()).as_ref(), Err(error));
    assert_eq!(client.requests(), sent);
}

#[test]
fn a_killed_server_breaks_its_client() {
    let mut remote = Remote::start();
    let client = remote.client();
    assert_eq!(client.add(1, 3_u64, wait()).unwrap(), 0);
    remote.kill();
    let start = Instant::now();
    let error = client.add(1, 3_u64, wait()).unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_stays_broken(&client, &error);
}

#[test]
fn a_dropped_server_breaks_its_client() {
    let server = Server::start(2).unwrap();
    let client = support::client_of(&server);
    client.add(1, 3_u64, wait()).unwrap();
    let contact = server.addresses();
    drop(server);
    let error = client.add(1, 3_u64, wait()).unwrap_err();
    assert!(is_broken(&error), "{error}");
    assert_stays_broken(&client, &error);
    // A client that has not sent a request is not broken; it tries again in each call.
    let client = Client::new(contact);
    for _ in 0..2 {
        let error = client.load::<u64>(0, wait()).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("ECONNREFUSED"), "{error}");
    }
}

#[test]
fn a_server_that_dies_during_a_wait_ends_the_wait() {
    let mut remote = Remote::start();
    let client = remote.client();
    client.connect(wait()).unwrap();
    remote.stop();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.add(0, 1_u64, Wait::new(&|| ())));
        thread::sleep(Duration::from_millis(200));
        assert!(!call.is_finished());
        remote.kill();
        let error = call.join().unwrap().unwrap_err();
        assert!(is_broken(&error), "{error}");
    });
}

#[test]
fn progress_is_called_while_the_server_is_stopped() {
    let remote = Remote::start();
    let client = remote.client();
    client.connect(wait()).unwrap();
    remote.stop();
    let calls = AtomicU64::new(0);
    let progress = || {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        let call = scope.spawn(|| client.add(0, 1_u64, Wait::new(&progress)));
        let start = Instant::now();
        while calls.load(Ordering::Relaxed) < 50 && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        let (count, elapsed_ms) = (calls.load(Ordering::Relaxed), start.elapsed().as_millis() as u64);
        assert!(count >= 50, "{count} calls in {elapsed_ms} ms");
        // One call per millisecond at the most. The call has begun before `start`.
        assert!(count <= elapsed_ms + 50, "{count} calls in {elapsed_ms} ms");
        assert!(!call.is_finished());
        remote.signal(Signal::SIGCONT);
        assert_eq!(call.join().unwrap(), Ok(0));
    });
    assert_eq!(client.load::<u64>(0, wait()), Ok(1));
}

#[test]
fn a_time_limit_ends_a_call_and_breaks_the_client() {
    let remote = Remote::start();
    let client = remote.client();
    client.connect(wait()).unwrap();
    remote.stop();
    let limit = Duration::from_millis(300);
    let start = Instant::now();
    let error = client.add(0, 1_u64, Wait::new(&|| ()).within(limit)).unwrap_err();
    let took = start.elapsed();
    assert!(took >= limit && took < limit * 10, "{took:?}");
    assert!(matches!(error, Error::TimedOut { limit: given, .. } if given == limit), "{error}");
    remote.signal(Signal::SIGCONT);
    assert_stays_broken(&client, &error);
}

#[test]
fn a_time_limit_during_the_connection_keeps_the_client_usable() {
    let remote = Remote::start();
    let client = remote.client();
    remote.stop();
    let calls = AtomicU64::new(0);
    let progress = || {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let limit = Duration::from_millis(300);
    let error = client.add(0, 1_u64, Wait::new(&progress).within(limit)).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert_eq!(client.requests(), 0);
    remote.signal(Signal::SIGCONT);
    assert_eq!(client.add(0, 1_u64, wait()), Ok(0));
}

#[test]
fn a_thread_that_waits_for_its_turn_keeps_its_limit_and_makes_progress() {
    let remote = Remote::start();
    let client = remote.client();
    client.connect(wait()).unwrap();
    remote.stop();
    thread::scope(|scope| {
        let first = scope.spawn(|| client.add(0, 1_u64, wait()));
        while client.requests() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let calls = AtomicU64::new(0);
        let progress = || {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        let limited = Wait::new(&progress).within(Duration::from_millis(200));
        let error = client.add(0, 1_u64, limited).unwrap_err();
        assert!(matches!(error, Error::TimedOut { address: None, .. }), "{error}");
        assert!(calls.load(Ordering::Relaxed) > 0);
        remote.signal(Signal::SIGCONT);
        assert_eq!(first.join().unwrap(), Ok(0));
    });
    // The second call has sent nothing.
    assert_eq!(client.load::<u64>(0, wait()), Ok(1));
}

#[test]
fn a_call_from_the_progress_function_is_an_error_and_no_hang() {
    let remote = Remote::start();
    let client = remote.client();
    client.connect(wait()).unwrap();
    remote.stop();
    let progress = || {
        assert_eq!(client.load::<u64>(0, wait()), Err(Error::Nested));
        remote.signal(Signal::SIGCONT);
    };
    assert_eq!(client.add(0, 1_u64, Wait::new(&progress)), Ok(0));
    assert_eq!(client.load::<u64>(0, wait()), Ok(1));
}

#[test]
fn a_panic_of_the_progress_function_breaks_the_client() {
    let remote = Remote::start();
    let client = remote.client();
    client.connect(wait()).unwrap();
    remote.stop();
    let progress = || panic!("the progress function of a test");
    let call = || client.add(0, 1_u64, Wait::new(&progress));
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    remote.signal(Signal::SIGCONT);
    assert_stays_broken(&client, &Error::Abandoned);
}
