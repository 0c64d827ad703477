//! Work that advances while a rank waits for something else: nonblocking collective operations on files.
//!
//! The owner of such work registers it. Every wait of this crate advances the work, and so does every
//! function of the C ABI at its start. MPI advances it where possible: Open MPI and MPICH from 4.3 on do so
//! in every wait, older versions of MPICH do so while they wait for a request of this crate (see
//! [`request`]).

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

use crate::still::{Still, is_still};
use crate::{lifetime, request, service};

/// Work that can be advanced step by step.
pub trait Work: Debug + Send + Sync {
    /// Advances the work as far as possible without waiting. May make MPI calls. [`advance`] never calls
    /// this function on a thread that is already inside of [`advance`].
    fn advance(&self);
}

static WORK: Mutex<Vec<Weak<dyn Work>>> = Mutex::new(Vec::new());
/// The number of operations in progress. A wait without such operations costs one load of this counter.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Registers work. The registration ends when the work is dropped.
pub fn register(work: Weak<dyn Work>) {
    let mut all = WORK.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|known| known.strong_count() > 0);
    all.push(work);
}

/// An operation in progress. While such a value lives, waits advance all registered work.
#[derive(Debug)]
pub struct UnderWay(());

impl UnderWay {
    /// Counts one more operation in progress.
    #[allow(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        request::ask_to_be_called();
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether any operation is in progress.
pub(crate) fn is_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Answers requests of other ranks, and advances all registered work. Does not wait. Advances no work if no
/// operation is in progress, if this thread is already inside of this function, or if MPI is not initialized
/// or is finalized.
pub fn advance() {
    service::answer();
    advance_operations();
}

/// As [`advance`], without answers to other ranks.
pub(crate) fn advance_operations() {
    if !is_under_way() || is_still() || !lifetime::is_usable() {
        return;
    }
    let _still = Still::new();
    let all: Vec<_> = {
        let all = WORK.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    for work in all {
        work.advance();
    }
}
