//! Answers of this rank to requests that other ranks send it in messages.
//!
//! Another rank waits for the answer. So this rank answers in every wait of this crate, in every poll for a
//! wake-up, and at the start of every function of the C ABI. If MPI calls this crate while MPI waits
//! ([`request`]), this rank answers there too. An answer takes no lock of a file and waits for nothing. So
//! requests are answered also where no other work may advance ([`still`]).
//!
//! Cost without a request: one load if there is no service, else one `MPI_Test` per service. In a wait of
//! MPI, every eighth call from MPI tests ([`answer_now_and_then`]), because a test costs as much as a turn of
//! MPI's wait: on Open MPI 4.1 the test drives the progress of MPI once more.
//!
//! [`request`]: crate::request
//! [`still`]: crate::still

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::lifetime;
use crate::still::Still;

/// The calls of [`answer_now_and_then`] per answer.
const CALLS_PER_ANSWER: usize = 8;

/// A service of this rank for other ranks.
pub(crate) trait Service: Debug + Send + Sync {
    /// Answers the requests that have arrived. Does not wait. Makes calls of MPI. [`answer`] never calls this
    /// function from within itself, and never on two threads at the same time.
    fn answer(&self);
}

static SERVICES: Mutex<Vec<Arc<dyn Service>>> = Mutex::new(Vec::new());
/// The number of services.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_ANSWERING: Cell<bool> = const { Cell::new(false) };
}

fn change(change: impl FnOnce(&mut Vec<Arc<dyn Service>>)) {
    let mut all = SERVICES.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut all);
    COUNT.store(all.len(), Ordering::Release);
}

/// Begins to answer. The caller ends it with [`end`].
pub(crate) fn begin(service: Arc<dyn Service>) {
    change(|all| all.push(service));
}

/// Ends a service. No call of [`Service::answer`] is running when this function returns. Has no effect on a
/// service that has ended.
pub(crate) fn end(service: &Arc<dyn Service>) {
    change(|all| all.retain(|known| !Arc::ptr_eq(known, service)));
}

/// Whether this rank has a service.
fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Answers the requests that have arrived. Does not wait. Returns at once if there is no service, if a thread
/// is inside of this function, or if MPI is not usable.
pub(crate) fn answer() {
    if !is_any() || IS_ANSWERING.get() || !lifetime::is_usable() {
        return;
    }
    IS_ANSWERING.set(true);
    let _reset = Reset;
    // MPI may call back into this crate during an answer. The callback must not advance work: the work could
    // wait for an answer of a rank that waits for this answer.
    let _still = Still::new();
    let all = match SERVICES.try_lock() {
        Ok(all) => all,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Another thread answers.
        Err(TryLockError::WouldBlock) => return,
    };
    for service in &*all {
        service.answer();
    }
}

/// As [`answer`], in one of [`CALLS_PER_ANSWER`] calls. For the function that MPI calls in each turn of its
/// waits.
pub(crate) fn answer_now_and_then() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    if is_any() && CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(CALLS_PER_ANSWER) {
        answer();
    }
}

struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        IS_ANSWERING.set(false);
    }
}
