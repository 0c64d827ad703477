//! Atomic mode (MPI 4.1, 14.6.1): each access, of each rank, as if it were one step.
//!
//! What changes bytes of a file that is open, or reads them, does so with what it touches locked among the ranks of the file (its length is
//! not locked: an access behind the end makes it grow step by step):
//! * independent accesses lock their own bytes;
//! * a blocking collective access that gathers, which it does only with nothing under way, locks its span once for all its ranks:
//!   what overlaps among them is settled by their order (the highest rank's bytes stay), as without atomic mode;
//! * other collective accesses, nonblocking and split ones among them, are each rank's own access with a lock of its own, taken and
//!   let go of in one go: nothing is held while a rank is not in MPI;
//! * a change of the file's size locks the whole file.
//!
//! Where no two ranks' views have a byte in common, which is found out when they are set, accesses lock nothing: an access touches bytes
//! of its rank's view and no others (no write in atomic mode touches what lies between its runs), the shared pointer is for ranks of one
//! view, which is no such case unless there is one rank, and what else changes the file's bytes is collective, with nothing under way. With
//! `MPI_THREAD_MULTIPLE` threads of one rank share its view, so there they lock. Other openings of the file are no matter of
//! atomic mode: between them the program has to see to the order itself.
//!
//! Nobody waits with something locked for what another rank is yet to begin, so no order of calls that is correct without locks is
//! wrong with them.

use std::sync::Arc;
use std::time::Duration;

use capulet_atomic::{
    FileLock, FileSystemLock, Guard, NODE_LOCK_RANKS, NODE_LOCK_WORDS, NODE_PART_WORDS, NodeLock, NodeQueue,
    Request, WorldProtocol, are_disjoint, two_level_lock, world_lock,
};
use capulet_comm::{Epochs, ReduceOp, work};
use capulet_drivers::Caps;
use capulet_sieve::footprint::view_footprint;
use capulet_sieve::{Agreed, Direction};

use crate::agree::{Ballot, outcome};
use crate::error::{Error, Result};
use crate::file::File;
use crate::hints::LockChoice;

impl File {
    /// Sets atomic or nonatomic mode (MPI 4.1, 14.6.1). Collective; blocks until all ranks have come. It holds for accesses that
    /// begin after it; those under way keep what was set when they began.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if flags or the hint `capulet_lock` differ. `MPI_ERR_UNSUPPORTED_OPERATION` on all ranks for atomic mode where
    /// it cannot be given: among nodes that cache what they read, and with a lock that the hint asks for and this storage, or these
    /// nodes, cannot have. The mode is unchanged then.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        Ballot::new().same("atomicity flag", u64::from(atomic)).vote(self.agree(), Ok(()))?;
        if atomic {
            let made = if self.lock.get().is_none() { self.make_lock().map(Some) } else { Ok(None) };
            // Nobody locks anything before all can, and nobody has a lock that others have not.
            if let Some(lock) = outcome(self.agree(), made)? {
                self.lock.get_or_init(|| lock);
            }
        }
        let are_disjoint = atomic && self.are_views_disjoint()?;
        let mut state = self.state();
        (state.atomic, state.are_views_disjoint) = (atomic, are_disjoint);
        Ok(())
    }

    /// After a view was set on all ranks. Collective.
    pub(crate) fn judge_views(&self) -> Result<()> {
        if self.atomicity() {
            let are_disjoint = self.are_views_disjoint()?;
            self.state().are_views_disjoint = are_disjoint;
        }
        Ok(())
    }

    /// Whether no two ranks have a byte in their views. The same on all ranks; false where that is no reason not to lock.
    /// Collective: the first rank gathers 160 bytes of each, and tells what it finds.
    fn are_views_disjoint(&self) -> Result<bool> {
        if !self.group.is_shared() {
            return Ok(false);
        }
        let view = self.view();
        let own = view_footprint(view.displacement_bytes(), view.tiled()).words();
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        let gathered = self.agree().gather(&bytes).map_err(Error::from);
        let judged = gathered.map(|all| all.is_some_and(|all| are_told_disjoint(&all)));
        let value = *judged.as_ref().unwrap_or(&false);
        let ballot = Ballot::new().reduce(u64::from(value), ReduceOp::Max);
        let (_, mut count) = ballot.vote(self.agree(), judged)?;
        Ok(count.take() == 1)
    }

    /// Whether accesses that begin now are atomic (MPI 4.1, 14.6.1). Local.
    pub fn atomicity(&self) -> bool {
        self.state().atomic
    }

    /// Collective.
    fn make_lock(&self) -> Result<Arc<dyn FileLock>> {
        let (choice, timeout_ms) = {
            let state = self.state();
            (state.hints.lock, state.hints.lock_timeout_ms)
        };
        // Nodes may see other file systems: the one that exports a file, and those that mount it.
        let can = |caps| u64::from(self.storage.caps().contains(caps));
        let ballot = Ballot::new()
            .same("capulet_lock", choice as u64)
            .reduce(can(Caps::IMMEDIATE_VISIBILITY), ReduceOp::Min)
            .reduce(can(Caps::LOCKS), ReduceOp::Min);
        let ((), mut count) = ballot.vote(self.agree(), Ok(()))?;
        let (is_seen, has_locks) = (count.take() == 1, count.take() == 1);
        let time_limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        let is_one_node = self.group.node().node_count() == 1;
        if !is_one_node && !is_seen {
            // A node may read what it has in its cache, whoever has locked it.
            return Err(Error::Unsupported { what: "atomic mode among nodes that cache the file" });
        }
        let lock = match choice {
            LockChoice::Auto | LockChoice::Range => match self.node_lock(choice, time_limit) {
                Some(lock) => lock,
                None => self.world_lock(choice, time_limit)?,
            },
            LockChoice::Shared if !is_one_node => {
                return Err(Error::Unsupported { what: "a lock in shared memory among several nodes" });
            }
            LockChoice::Shared => {
                let without = Error::Unsupported { what: "a lock in shared memory where there is none" };
                self.node_lock(choice, time_limit).ok_or(without)?
            }
            LockChoice::Hybrid | LockChoice::OneSided | LockChoice::Mcs => {
                self.world_lock(choice, time_limit)?
            }
            LockChoice::TwoLevel => self.two_level_lock(time_limit)?,
            LockChoice::Fcntl => {
                if !has_locks {
                    return Err(Error::Unsupported { what: "locks of a storage that has none" });
                }
                FileSystemLock::new(Arc::clone(&self.storage), time_limit, progress)
            }
        };
        tracing::debug!(?choice, ?lock, "atomic mode");
        Ok(lock)
    }

    /// A lock in memory that all ranks share; none where they share no memory. Local.
    fn node_lock(&self, choice: LockChoice, limit: Option<Duration>) -> Option<Arc<dyn FileLock>> {
        let node = self.group.node();
        if node.node_count() > 1 || node.size() > NODE_LOCK_RANKS {
            return None;
        }
        let words = self.channel.node_words(0, NODE_LOCK_WORDS)?;
        let ranks = node.ranks.clone();
        Some(if choice == LockChoice::Shared {
            NodeQueue::new(words, ranks, limit, progress)
        } else {
            NodeLock::new(words, ranks, limit, progress)
        })
    }

    /// A lock in words that MPI's one-sided operations reach. Collective.
    fn world_lock(&self, choice: LockChoice, limit: Option<Duration>) -> Result<Arc<dyn FileLock>> {
        let without = || Error::Unsupported { what: "atomic mode without a window of all ranks" };
        let words = self.channel.world_words(Epochs::Standing)?.ok_or_else(without)?;
        let (protocol, has_list) = match choice {
            LockChoice::Hybrid => (WorldProtocol::Hybrid, true),
            LockChoice::OneSided => (WorldProtocol::OneSided, true),
            LockChoice::Range => (WorldProtocol::Ranges, false),
            // Where the home rank is waited for it is better asked seldom.
            LockChoice::Auto if words.is_passive(self.agree())? => (WorldProtocol::Ranges, false),
            _ => (WorldProtocol::Queue, false),
        };
        let list = if has_list { self.channel.world_words(Epochs::Exclusive)? } else { None };
        if has_list && list.is_none() {
            return Err(without());
        }
        Ok(world_lock(protocol, words, list, self.channel.notifier(), limit, progress))
    }

    /// A lock in words of the node and in words of all ranks. Collective.
    fn two_level_lock(&self, limit: Option<Duration>) -> Result<Arc<dyn FileLock>> {
        let what = "a lock of two levels without a window of all ranks, or shared memory of each node";
        // Both are asked for on every rank, whatever came of the first.
        let words = self.channel.world_words(Epochs::Standing)?;
        let node = self.channel.node_words(0, NODE_PART_WORDS);
        let (words, node) = words.zip(node).ok_or(Error::Unsupported { what })?;
        let ranks = self.group.node().ranks.clone();
        Ok(two_level_lock(words, self.channel.notifier(), node, ranks, limit, progress))
    }

    /// Before the file is closed, when no rank begins an access any more. The lock is gone then: one of the
    /// storage refers to the storage's file.
    pub(crate) fn finish_lock(&mut self) -> Result<()> {
        Ok(self.lock.take().map_or(Ok(()), |lock| lock.finish())?)
    }

    /// Locks the span of an access of all ranks, at the first of them, until the guard there is dropped. Collective: nobody touches the
    /// file before it is locked, and all ranks fail if it cannot be. `None`, and nothing is locked, unless all ranks `can` go
    /// on together.
    pub(crate) fn lock_together(
        &self,
        direction: Direction,
        agreed: &Agreed,
        can: bool,
    ) -> Result<Option<Guard<'_>>> {
        let request = Request::contiguous(agreed.first..agreed.end, direction == Direction::Read);
        let leads = self.group.rank().0 == 0;
        let lock = self.lock.get().filter(|_| leads && agreed.first < agreed.end);
        let entered = lock.map_or_else(|| Ok(Guard::empty()), |lock| lock.enter(&request));
        let ballot = Ballot::new().reduce(can.into(), ReduceOp::Min);
        let (guard, mut count) = ballot.vote(self.agree(), entered.map_err(Error::from))?;
        Ok((count.take() == 1).then_some(guard))
    }
}

/// Whether footprints, as their words, share nothing.
fn are_told_disjoint(all: &[Vec<u8>]) -> bool {
    let request = |bytes: &Vec<u8>| {
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Request::from_words(&words)
    };
    let all: Option<Vec<Request>> = all.iter().map(request).collect();
    all.is_some_and(|all| are_disjoint(&all))
}

/// What goes on while an access waits for others.
fn progress() {
    capulet_comm::progress();
    work::advance();
}
