//! Atomic mode (MPI 4.1, 14.6.1): each access of each rank appears as one indivisible step.
//!
//! An operation that changes or reads bytes of an open file locks these bytes among the ranks of the
//! file. The length of the file is not locked: a read beyond the end may see the file grow step by step.
//! * An independent access locks its own bytes.
//! * A blocking collective access that uses two-phase locks its span once, for all ranks. It uses
//!   two-phase only if no collective operation is in progress. The order of the ranks settles overlaps
//!   within the access, as without atomic mode: the bytes of the highest rank stay.
//! * Any other collective access, such as a nonblocking or split one, is an access of each rank on its
//!   own, with a lock of its own. One step acquires the lock, moves the bytes and releases the lock, so
//!   no rank holds a lock while it is outside of MPI.
//! * A change of the file size locks the whole file.
//!
//! If no two views of the ranks have a common byte, no access takes a lock. This is determined when the
//! views are set. It rests on these facts:
//! * An access touches only bytes of the view of its rank: no write in atomic mode touches the bytes
//!   between its runs.
//! * The shared file pointer requires the same view on all ranks, so the views are not disjoint unless
//!   there is only one rank.
//! * Any other operation that changes bytes of the file is collective, and no access is in progress then.
//!
//! With `MPI_THREAD_MULTIPLE` the threads of one rank share its view, so accesses take locks there.
//! Atomic mode does not cover other opens of the same file: between different opens the program must keep
//! the order itself.
//!
//! No rank waits with a lock held for an operation that another rank has yet to begin. So a program that
//! is correct without locks has no deadlock with them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use capulet_atomic::{
    FileLock, FileSystemLock, Guard, NODE_LOCK_RANKS, NODE_LOCK_WORDS, NODE_PART_WORDS, NodeLock, NodeQueue,
    PageLock, Request as LockRequest, WorldProtocol, are_disjoint, two_level_lock, world_lock,
};
use capulet_comm::{Epochs, ReduceOp, WorldWords, is_on_one_machine, work};
use capulet_drivers::{Caps, LockGuard, LockMode};
use capulet_sieve::footprint::view_footprint;
use capulet_sieve::{Agreed, Direction};

use crate::agree::{Agreement, agree_on_outcome};
use crate::error::{Error, Result};
use crate::file::File;
use crate::hints::LockChoice;

const WITHOUT_WORDS: Error = Error::Unsupported { what: "a lock without words that all ranks reach" };

impl File {
    /// Sets atomic or nonatomic mode (MPI 4.1, 14.6.1). Collective; blocks until all ranks have called
    /// it. The mode holds for accesses that begin later. Accesses in progress keep the mode that was set
    /// when they began.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if the flags or the hint `capulet_lock` differ between ranks.
    /// `MPI_ERR_UNSUPPORTED_OPERATION` on all ranks if atomic mode is not possible with a lock that the hint
    /// asks for, because this storage or these nodes do not support it. After an error the mode is unchanged.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        Agreement::new().same("atomicity flag", u64::from(atomic)).agree(self.agree(), Ok(()))?;
        if atomic {
            let caches = !self.common_caps.contains(Caps::IMMEDIATE_VISIBILITY) && self.mode.writes();
            self.install_lock(caches && self.has_other_nodes())?;
        }
        let are_disjoint = atomic && self.are_views_disjoint()?;
        let mut state = self.state();
        (state.atomic, state.are_views_disjoint) = (atomic, are_disjoint);
        Ok(())
    }

    /// The file, with a lock of pages if nodes cache pages and several nodes may write to it. The ranks of
    /// one node lock pages too if the job has other nodes, which may open the file on their own. Collective
    /// then.
    pub(crate) fn with_pages(mut self) -> Result<Self> {
        let caches = !self.common_caps.contains(Caps::BYTE_WRITES) && self.mode.writes();
        let is_promised = self.state().hints.exclusive_pages;
        if !caches || is_promised || !self.has_other_nodes() {
            return Ok(self);
        }
        if let Err(error) = self.install_lock(true) {
            self.closed = true;
            return Err(error);
        }
        self.state().holds_pages = true;
        tracing::info!(path = %self.path.display(), "nodes cache the file: every access locks its pages");
        Ok(self)
    }

    /// Makes the lock that the hints ask for, unless there is a lock. With `of_pages` the lock is a lock of
    /// pages. Collective.
    fn install_lock(&self, of_pages: bool) -> Result<()> {
        let made = if self.lock.get().is_none() { self.make_lock().map(Some) } else { Ok(None) };
        // No rank locks anything before all ranks can, and no rank keeps a lock that other ranks lack.
        let unit_bytes = self.storage.layout().write_unit_bytes;
        let agreement = Agreement::new().reduce(unit_bytes, ReduceOp::Max);
        let (made, mut values) = agreement.agree(self.agree(), made)?;
        let Some(lock) = made else { return Ok(()) };
        if of_pages {
            let (choice, limit) = self.lock_hints();
            let has_other = choice != LockChoice::Fcntl && self.common_caps.contains(Caps::LOCKS);
            let storage = has_other.then(|| FileSystemLock::new(Arc::clone(&self.storage), limit, progress));
            let pages = PageLock::new(lock, storage, Arc::clone(&self.storage), values.take());
            self.pages.get_or_init(|| Arc::clone(&pages));
            self.lock.get_or_init(|| pages);
        } else {
            self.lock.get_or_init(|| lock);
        }
        Ok(())
    }

    /// Whether ranks of several nodes may access the file. The same on all ranks.
    fn has_other_nodes(&self) -> bool {
        self.group.node().node_count() > 1 || !is_on_one_machine()
    }

    /// The hinted lock, and the time limit of its waits.
    fn lock_hints(&self) -> (LockChoice, Option<Duration>) {
        let state = self.state();
        let timeout_ms = state.hints.lock_timeout_ms;
        (state.hints.lock, (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms)))
    }

    /// Determines whether the views are disjoint, after all ranks have set a view. Collective.
    pub(crate) fn update_views_disjoint(&self) -> Result<()> {
        if self.atomicity() {
            let are_disjoint = self.are_views_disjoint()?;
            self.state().are_views_disjoint = are_disjoint;
        }
        Ok(())
    }

    /// Whether no two ranks have a common byte in their views. The same on all ranks. False with
    /// `MPI_THREAD_MULTIPLE`, where accesses need locks even if the views are disjoint. Collective: the
    /// first rank gathers 160 bytes of each rank, and all ranks agree on what it finds.
    fn are_views_disjoint(&self) -> Result<bool> {
        // Disjoint views may have bytes of one page.
        if !self.group.is_shared() || self.pages.get().is_some() {
            return Ok(false);
        }
        let view = self.view();
        let own = view_footprint(view.displacement_bytes(), view.tiled()).words();
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        let gathered = self.agree().gather(&bytes).map_err(Error::from);
        let found = gathered.map(|all| all.is_some_and(|all| are_disjoint_words(&all)));
        let value = *found.as_ref().unwrap_or(&false);
        let agreement = Agreement::new().reduce(u64::from(value), ReduceOp::Max);
        let (_, mut values) = agreement.agree(self.agree(), found)?;
        Ok(values.take() == 1)
    }

    /// Whether accesses that begin now are atomic (MPI 4.1, 14.6.1). Local.
    pub fn atomicity(&self) -> bool {
        self.state().atomic
    }

    /// Makes the lock that the hints ask for. Collective.
    fn make_lock(&self) -> Result<Arc<dyn FileLock>> {
        let (choice, time_limit) = self.lock_hints();
        Agreement::new().same("capulet_lock", choice as u64).agree(self.agree(), Ok(()))?;
        let is_one_node = self.group.node().node_count() == 1;
        let lock = match choice {
            LockChoice::Auto | LockChoice::Range => match self.node_lock(choice, time_limit) {
                Some(lock) => lock,
                None => match self.world_lock(choice, time_limit)? {
                    Some(lock) => lock,
                    None if choice == LockChoice::Auto => self.file_system_lock(time_limit)?,
                    None => return Err(WITHOUT_WORDS),
                },
            },
            LockChoice::Shared if !is_one_node => {
                return Err(Error::Unsupported {
                    what: "a lock in shared memory (capulet_lock=shared) among several nodes",
                });
            }
            LockChoice::Shared => {
                let without = Error::Unsupported {
                    what: "a lock in shared memory (capulet_lock=shared), which this node lacks",
                };
                self.node_lock(choice, time_limit).ok_or(without)?
            }
            LockChoice::Hybrid | LockChoice::OneSided | LockChoice::Mcs => {
                self.world_lock(choice, time_limit)?.ok_or(WITHOUT_WORDS)?
            }
            LockChoice::TwoLevel => self.two_level_lock(time_limit)?,
            LockChoice::Fcntl => self.file_system_lock(time_limit)?,
        };
        tracing::debug!(?choice, ?lock, "lock of the file");
        Ok(lock)
    }

    /// A lock in memory that all ranks of the file share. `None` if they share no memory. Local.
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

    /// The words that all ranks reach. Collective in the first call. `None` if there are none.
    fn world_words(&self, epochs: Epochs) -> Result<Option<WorldWords>> {
        let mechanism = self.state().hints.words;
        Ok(self.channel.world_words(epochs, mechanism)?)
    }

    /// The locks of the storage. Collective.
    fn file_system_lock(&self, limit: Option<Duration>) -> Result<Arc<dyn FileLock>> {
        if !self.common_caps.contains(Caps::LOCKS) {
            return Err(Error::Unsupported {
                what: "locks of the storage (capulet_lock=fcntl), which it lacks",
            });
        }
        if self.group.node().node_count() > 1 && self.mode.writes() {
            self.prove_locks_of_storage()?;
        }
        Ok(FileSystemLock::new(Arc::clone(&self.storage), limit, progress))
    }

    /// Shows that a lock of the storage on one node excludes the other nodes: the first rank locks a byte
    /// behind all data, and the leaders of the other nodes must not get it. Collective.
    fn prove_locks_of_storage(&self) -> Result<()> {
        const PROBED: Range<u64> = (i64::MAX as u64) - (1 << 12)..(i64::MAX as u64) - (1 << 12) + 1;
        let try_lock = || self.storage.try_lock(PROBED, LockMode::Exclusive).map_err(Error::from);
        let node = self.group.node();
        let is_first = self.group.rank().0 == 0;
        let held = if is_first { try_lock() } else { Ok(None) };
        // If another program holds the byte, it proves its locks in the same way, and this open proves less.
        let held = agree_on_outcome(self.agree(), held)?;
        let is_refused = |guard: Option<LockGuard>| {
            let what = "locks of the storage: a node gets a lock that another node holds (NFS: mount without `nolock` \
                        and `local_lock`; Lustre: mount with `flock`)";
            if guard.is_none() { Ok(()) } else { Err(Error::Unsupported { what }) }
        };
        let tries = node.is_leader() && node.index != 0;
        let own = if tries { try_lock().and_then(is_refused) } else { Ok(()) };
        let proven = agree_on_outcome(self.agree(), own);
        drop(held);
        proven
    }

    /// A lock in words that all ranks reach. `None` if there are no such words. Collective.
    fn world_lock(&self, choice: LockChoice, limit: Option<Duration>) -> Result<Option<Arc<dyn FileLock>>> {
        let Some(words) = self.world_words(Epochs::Standing)? else { return Ok(None) };
        let mut protocol = match choice {
            LockChoice::Hybrid => WorldProtocol::Hybrid,
            LockChoice::OneSided => WorldProtocol::OneSided,
            LockChoice::Mcs => WorldProtocol::Queue,
            _ => WorldProtocol::Ranges,
        };
        let needs_table = protocol.uses_table() && !words.is_exclusive();
        let table = if needs_table { self.world_words(Epochs::Exclusive)? } else { None };
        if needs_table && table.is_none() {
            return Ok(None);
        }
        // If MPI does not reach a home rank that computes, each operation there waits for that rank. The
        // queue then costs less than ranges: an exclusive epoch is several operations at the home rank. On a
        // server and by messages an exchange is one operation, as each of the two operations of the queue.
        if let (LockChoice::Auto, Some(table)) = (choice, &table)
            && !table.is_passive(self.agree())?
        {
            protocol = WorldProtocol::Queue;
        }
        Ok(Some(world_lock(protocol, words, table, self.channel.notifier(), limit, progress)))
    }

    /// A lock of two levels, in words of each node and words of all ranks. Collective.
    fn two_level_lock(&self, limit: Option<Duration>) -> Result<Arc<dyn FileLock>> {
        let what = "a two-level lock without words that all ranks reach and shared memory on each node";
        // Every rank asks for both kinds of words, even if the first is missing: the first call is
        // collective.
        let words = self.world_words(Epochs::Standing)?;
        let node = self.channel.node_words(0, NODE_PART_WORDS);
        let (words, node) = words.zip(node).ok_or(Error::Unsupported { what })?;
        let ranks = self.group.node().ranks.clone();
        Ok(two_level_lock(words, self.channel.notifier(), node, ranks, limit, progress))
    }

    /// Finishes the lock before the file is closed, when no rank begins an access any more. Drops the lock,
    /// because a lock of the storage refers to the storage's file.
    pub(crate) fn finish_lock(&mut self) -> Result<()> {
        drop(self.pages.take());
        Ok(self.lock.take().map_or(Ok(()), |lock| lock.finish())?)
    }

    /// Locks the span of a collective access for all ranks. The first rank acquires the lock, and holds
    /// it until it drops its guard. Collective: no rank touches the file before the span is locked. All
    /// ranks fail if it cannot be locked. Returns `None`, with nothing locked, unless `can` is true on
    /// all ranks.
    pub(crate) fn lock_collective(
        &self,
        direction: Direction,
        agreed: &Agreed,
        can: bool,
    ) -> Result<Option<Guard<'_>>> {
        let request = LockRequest::contiguous(agreed.first..agreed.end, direction == Direction::Read);
        let leads = self.group.rank().0 == 0;
        let lock = self.lock.get().filter(|_| leads && agreed.first < agreed.end);
        let entered = lock.map_or_else(|| Ok(Guard::empty()), |lock| lock.enter(&request));
        let agreement = Agreement::new().reduce(can.into(), ReduceOp::Min);
        let (guard, mut values) = agreement.agree(self.agree(), entered.map_err(Error::from))?;
        Ok((values.take() == 1).then_some(guard))
    }
}

/// Whether no two of the requests, given by their words, have a byte in common. False if the words of a
/// request are malformed.
fn are_disjoint_words(all: &[Vec<u8>]) -> bool {
    let request = |bytes: &Vec<u8>| {
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        LockRequest::from_words(&words)
    };
    let all: Option<Vec<LockRequest>> = all.iter().map(request).collect();
    all.is_some_and(|all| are_disjoint(&all))
}

/// Makes progress while an access waits for others: in MPI, and in the registered work.
fn progress() {
    capulet_comm::progress();
    work::advance();
}
