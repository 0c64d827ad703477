//! Atomic mode (MPI 4.1, 14.6.1): each access, of each rank, as if it were one step.
//!
//! All that changes a file that is open, or reads it, does so with what it touches locked among the ranks of the file:
//! * independent accesses lock their own bytes;
//! * a blocking collective access that gathers locks its span once for all its ranks: what overlaps among them is settled by their
//!   order (the highest rank's bytes stay), as without atomic mode;
//! * other collective accesses, nonblocking and split ones among them, are each rank's own access with a lock of its own, taken and
//!   let go of in one go: nothing is held while a rank is not in MPI;
//! * a change of the file's size locks the whole file.
//!
//! Nobody waits with something locked for what another rank is yet to begin, so no order of calls that is correct without locks is
//! wrong with them.

use std::time::Duration;

use capulet_atomic::{Guard, NODE_LOCK_WORDS, NodeLock, Request};
use capulet_comm::work;
use capulet_sieve::{Agreed, Direction, Target};

use crate::agree::{Ballot, outcome};
use crate::error::{Error, Result};
use crate::file::File;

impl File {
    /// Sets atomic or nonatomic mode (MPI 4.1, 14.6.1). Collective; blocks until all ranks have come. It holds for accesses that
    /// begin after it; those under way keep what was set when they began.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if flags differ. `MPI_ERR_UNSUPPORTED_OPERATION` on all ranks for atomic mode where it cannot be given:
    /// among several nodes, as yet, and on a node without shared memory. The mode is unchanged then.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        Ballot::new().same("atomicity flag", u64::from(atomic)).vote(self.agree(), Ok(()))?;
        if atomic && self.lock.get().is_none() {
            let made = self.make_lock();
            // Nobody locks anything before all can.
            outcome(self.agree(), made)?;
        }
        self.state().atomic = atomic;
        Ok(())
    }

    /// Whether accesses that begin now are atomic (MPI 4.1, 14.6.1). Local.
    pub fn atomicity(&self) -> bool {
        self.state().atomic
    }

    fn make_lock(&self) -> Result<()> {
        let node = self.group.node();
        if node.node_count() > 1 {
            return Err(Error::Unsupported { what: "atomic mode among several nodes" });
        }
        let Some(words) = self.channel.node_words(0, NODE_LOCK_WORDS)? else {
            return Err(Error::Unsupported { what: "atomic mode without shared memory" });
        };
        let timeout_ms = self.state().hints.lock_timeout_ms;
        let time_limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        let lock = NodeLock::new(words, node.ranks.clone(), time_limit, progress);
        self.lock.get_or_init(|| lock);
        Ok(())
    }

    /// Before the file is closed, when no rank begins an access any more.
    pub(crate) fn finish_lock(&self) -> Result<()> {
        Ok(self.lock.get().map_or(Ok(()), |lock| lock.finish())?)
    }

    /// Locks the span of an access of all ranks of the node, at its first rank, until the guard there is dropped. Collective over the
    /// node: nobody touches the file before it is locked, and all ranks fail if it cannot be.
    pub(crate) fn lock_together<'a>(
        &self,
        target: &'a Target,
        direction: Direction,
        agreed: &Agreed,
    ) -> Result<Guard<'a>> {
        let request = || Request::contiguous(agreed.first..agreed.end, direction == Direction::Read);
        let leads = self.group.node().is_leader();
        let entered = if leads { target.enter(request).map_err(Error::from) } else { Ok(Guard::empty()) };
        outcome(self.agree(), entered)
    }
}

/// What goes on while an access waits for others.
fn progress() {
    capulet_comm::progress();
    work::advance();
}
