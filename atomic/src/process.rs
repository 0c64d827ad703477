//! Whether another process of this machine still lives.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// Which process: its number, and when it started, so that a later one of the same number is another. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Number and start.
    pub(crate) process: u64,
    /// The name space that the number is of.
    pub(crate) space: u64,
}

/// Bits of a process's number (`PID_MAX_LIMIT` of Linux).
const NUMBER_BITS: u32 = 22;
/// `ESRCH`: it ended while it was asked about.
const NO_PROCESS: i32 = 3;

impl Identity {
    /// This process. `None` where the system does not tell.
    pub(crate) fn own() -> Option<Self> {
        let space = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let number = std::process::id();
        Some(Self { process: packed(number, started(number).ok()??), space })
    }

    /// Whether it is known that this process lives no longer. `observer` is who asks: numbers of another name space say nothing.
    pub(crate) fn is_dead(self, observer: Self) -> bool {
        if self.space != observer.space || self.process == 0 {
            return false;
        }
        let number = (self.process & ((1 << NUMBER_BITS) - 1)) as u32;
        match started(number) {
            Ok(Some(start)) => packed(number, start) != self.process,
            Ok(None) => true,
            // No descriptor is left, for one: that says nothing.
            Err(_) => false,
        }
    }
}

fn packed(number: u32, start: u64) -> u64 {
    start << NUMBER_BITS | u64::from(number)
}

/// When a process started, in ticks since the machine did (`proc_pid_stat(5)`). `None` if it has ended, though its parent may not have
/// asked for it yet.
fn started(number: u32) -> io::Result<Option<u64>> {
    let text = match fs::read_to_string(format!("/proc/{number}/stat")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_PROCESS) => {
            return Ok(None);
        }
        text => text?,
    };
    // The name before may have spaces and brackets of its own.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields.split_ascii_whitespace().collect::<Vec<_>>());
    // The 3rd and the 22nd of all.
    let told = fields.as_deref().and_then(|fields| Some((*fields.first()?, fields.get(19)?.parse().ok()?)));
    let (state, start) = told.ok_or(io::ErrorKind::InvalidData)?;
    Ok((!matches!(state, "Z" | "X")).then_some(start))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_lives_and_one_that_ended_does_not() {
        let own = Identity::own().expect("Linux tells");
        assert!(!own.is_dead(own));
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().expect("a process");
        let number = child.id();
        let other = Identity {
            process: packed(number, started(number).expect("it can be asked").expect("it runs")),
            ..own
        };
        assert!(!other.is_dead(own));
        let reused = Identity { process: packed(number, 1), ..own };
        assert!(reused.is_dead(own), "one that started at another time");
        assert!(
            !Identity { space: own.space + 1, ..reused }.is_dead(own),
            "nothing is known of other name spaces"
        );
        child.kill().expect("it can be ended");
        while !other.is_dead(own) {
            // Ended, and not asked for: it must be found all the same.
            std::thread::yield_now();
        }
        child.wait().expect("it ended");
        assert!(other.is_dead(own));
    }
}
