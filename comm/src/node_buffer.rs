//! A node buffer: shared memory of a node for collective operations. It is not an MPI window.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::error::Result;
use crate::group::Group;
use crate::meeting;
use crate::memory::Memory;
use crate::node_shared::{Barriers, NodeShared};

/// Shared memory of the ranks of a node. Created by
/// [`Channel::node_buffer`](crate::Channel::node_buffer). Keeps its group alive.
#[derive(Debug)]
pub struct NodeBuffer {
    memory: Arc<Memory>,
    _group: Arc<Group>,
}

impl NodeBuffer {
    pub(crate) fn new(memory: Arc<Memory>, group: Arc<Group>) -> Self {
        Self { memory, _group: group }
    }
}

// All ranks of the node map the same file. `BufferTable::get` gives out a buffer only after the parts of all
// ranks are populated. `BufferTable::existing` requires only that the part of this rank is populated; its
// caller accesses the other parts only after all ranks have agreed that they have the buffer. The barrier is
// `capulet_agreement::Barrier`, which orders memory.
// SAFETY: `# Safety` of `NodeShared`: `Memory` returns the same addresses as long as it lives. They are
// page-aligned disjoint parts of one mapping, each with `bytes()` bytes and a map of `bytes() / 64` words.
unsafe impl NodeShared for NodeBuffer {
    fn place(&self) -> usize {
        self.memory.place()
    }

    fn ranks(&self) -> usize {
        self.memory.ranks()
    }

    fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    fn data(&self, rank: usize) -> *mut u8 {
        self.memory.data(rank)
    }

    fn map(&self, rank: usize) -> &[AtomicU64] {
        self.memory.map(rank)
    }

    fn published(&self, rank: usize) -> &[AtomicU64] {
        self.memory.published(rank)
    }

    fn barriers(&self) -> Barriers {
        Barriers(self.memory.barrier().barriers())
    }

    fn arrive(&self) -> Result<Barriers> {
        Ok(Barriers(meeting::arrive(self.memory.barrier(), self.memory.ranks())))
    }

    fn is_over(&self, barrier: Barriers) -> Result<bool> {
        Ok(self.memory.barrier().barriers() != barrier.0)
    }

    fn wait(&self, barrier: Barriers) -> Result<()> {
        meeting::wait(self.memory.barrier(), barrier.0);
        Ok(())
    }
}
