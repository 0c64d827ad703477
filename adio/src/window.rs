//! The shared window that a file's collectives gather in.
//!
//! Making a window is a blocking MPI collective of the node, so it must come in one order on all ranks. With one
//! thread, collectives of all files come in one order: one window serves all files of the communicator, made at the
//! first collective that wants it. With several threads (`MPI_THREAD_MULTIPLE`) only opens of one communicator are ordered:
//! each file has a window of its own, made at open, as far as [`WINDOWS_MAX`] files go; files beyond use none.

use std::sync::Arc;

use capulet_comm::NodeWindow;

use crate::error::Result;
use crate::file::File;
use crate::hints::Hints;

/// Files of one communicator that have a window of their own in a program with several threads.
const WINDOWS_MAX: u32 = 16;

impl File {
    /// At open, in a program with several threads: makes the window.
    pub(crate) fn prepare_window(&mut self) -> Result<()> {
        if self.group.is_concurrent() && self.channel.id() < WINDOWS_MAX {
            let bytes = self.state().hints.window_bytes as usize;
            self.own_window = self.group.node_window(self.channel.id(), bytes)?;
        }
        Ok(())
    }

    /// The window for a collective that all ranks of the node are in; none if there can be none.
    pub(crate) fn window(&self, hints: &Hints) -> Option<Arc<NodeWindow>> {
        if self.group.is_concurrent() {
            return self.own_window.clone();
        }
        self.group.node_window(0, hints.window_bytes as usize).unwrap_or_else(|error| {
            tracing::warn!(%error, "no shared window");
            None
        })
    }
}
