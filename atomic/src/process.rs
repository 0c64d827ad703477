//! Whether another process of this machine is alive.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// The identity of a process: its number and its start time, so that a later process with the same number
/// has another identity. `process` is never 0 for a known process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The number in the low bits, the start time above. 0 if the process is not known.
    pub(crate) process: u64,
    /// The PID name space of the number.
    pub(crate) space: u64,
}

/// The number of bits of a process number (`PID_MAX_LIMIT` of Linux).
const NUMBER_BITS: u32 = 22;
/// `ESRCH`: the process ended while its file in `/proc` was read.
const NO_PROCESS: i32 = 3;

impl Identity {
    /// The identity of this process. `None` if the system does not provide it.
    pub(crate) fn own() -> Option<Self> {
        let space = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let number = std::process::id();
        Some(Self { process: packed(number, started(number).ok()??), space })
    }

    /// Whether this process is known to have ended. `observer` is the process that asks. Of a process in
    /// another name space nothing is known, so the result is false.
    pub(crate) fn is_dead(self, observer: Self) -> bool {
        if self.space != observer.space || self.process == 0 {
            return false;
        }
        let number = (self.process & ((1 << NUMBER_BITS) - 1)) as u32;
        match started(number) {
            Ok(Some(start)) => packed(number, start) != self.process,
            Ok(None) => true,
            // The error says nothing about the process. For example, no file descriptor is left.
            Err(_) => false,
        }
    }
}

fn packed(number: u32, start: u64) -> u64 {
    start << NUMBER_BITS | u64::from(number)
}

/// The start time of a process, in clock ticks since the boot (`proc_pid_stat(5)`). `None` if the process
/// has ended, also if it is a zombie that its parent has not waited for.
fn started(number: u32) -> io::Result<Option<u64>> {
    let text = match fs::read_to_string(format!("/proc/{number}/stat")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_PROCESS) => {
            return Ok(None);
        }
        text => text?,
    };
    // The name of the process comes before the last bracket, and may contain spaces and brackets.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace().collect::<Vec<_>>());
    // Fields 3 (state) and 22 (start time) of the line.
    let state_and_start =
        fields.as_deref().and_then(|fields| Some((*fields.first()?, fields.get(19)?.parse().ok()?)));
    let (state, start) = state_and_start.ok_or(io::ErrorKind::InvalidData)?;
    Ok((!matches!(state, "Z" | "X")).then_some(start))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn running_process_is_alive_and_ended_process_is_dead() {
        let own = Identity::own().expect("Linux provides the identity of a process");
        assert!(!own.is_dead(own));
        let mut child =
            Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().expect("`sleep` starts");
        let number = child.id();
        let other = Identity {
            process: packed(number, started(number).expect("/proc can be read").expect("the child runs")),
            ..own
        };
        assert!(!other.is_dead(own));
        let reused = Identity { process: packed(number, 1), ..own };
        assert!(reused.is_dead(own), "a process with another start time is another process");
        assert!(
            !Identity { space: own.space + 1, ..reused }.is_dead(own),
            "nothing is known of processes in other name spaces"
        );
        child.kill().expect("the child can be killed");
        while !other.is_dead(own) {
            // The child is a zombie now. It must count as dead.
            std::thread::yield_now();
        }
        child.wait().expect("the child has ended");
        assert!(other.is_dead(own));
    }
}
