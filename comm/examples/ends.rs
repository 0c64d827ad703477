//! Test program: objects of this crate may end in every order. The argument chooses an order, and the
//! launcher runs each of them.
//!
//! * `plain`: the program drops its channels, windows and types before `MPI_Finalize`, which frees the
//!   groups that are left.
//! * `hook-before`: a hook of `MPI_Finalize` that runs before the hook of this crate closes the channels.
//! * `hook-after`: a hook that runs after the hook of this crate closes the channels.
//! * `open`: channels and windows are still open after `MPI_Finalize`, and are dropped then.
//! * `lopsided`: only rank 0 keeps its channels open. No rank may hang.
//!
//! A second argument `messages` selects the mechanism of the words.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

use capulet_comm::{
    Agree, Channel, Epochs, Error, Mechanism, MpiType, NodeBuffer, NodeShared, ffi, prepare, progress,
};
use support::group_of;

type Open = (Channel, Arc<NodeBuffer>, MpiType);

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

fn mechanism() -> Mechanism {
    std::env::args().nth(2).map_or(Mechanism::Auto, |name| name.parse().expect("a mechanism"))
}

fn main() {
    // Both calls are allowed before MPI_Init.
    progress();
    assert!(prepare().is_err(), "MPI is not initialized");
    let way = std::env::args().nth(1).unwrap_or_else(|| "plain".to_owned());
    let (rank, size) = support::init();
    if way == "hook-before" {
        prepare().expect("MPI is initialized");
    }
    if way.starts_with("hook") {
        allocate_late();
        // MPI deletes attributes in the reverse order of their creation (MPI-4.0 section 11.2.4). A hook
        // that is set before the hook of this crate runs after it, and a hook that is set later runs
        // before it.
        hook_finalize();
    }
    let copy = support::duplicate(support::world());
    let reversed = support::split(support::world(), 0, size - rank);
    for comm in [support::world(), copy, reversed] {
        let (channel, window, datatype) = open(comm);
        let keep = way != "plain" && (way != "lopsided" || rank == 0);
        if keep {
            OPEN.lock().expect("no thread has panicked").push((channel, window, datatype));
        }
    }
    support::free(copy);
    support::finish("ends");
    progress();
    for (channel, window, datatype) in OPEN.lock().expect("no thread has panicked").drain(..) {
        assert!(way == "open" || way == "lopsided", "the hook has closed all channels");
        drop((window, channel, datatype));
    }
}

/// A window of the program. When rank 1 closes its channels, it accesses the memory of rank 0, while rank
/// 0 closes its channels too. On MPICH 4.0 this access needs the progress of MPI at rank 0.
static LATE: Mutex<Option<Late>> = Mutex::new(None);

struct Late(ffi::MPI_Win);

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it.
unsafe impl Send for Late {}

fn allocate_late() {
    // SAFETY: all handles are valid, and all ranks call this function. MPI writes the address of the
    // memory and one handle. `free_late` frees the window and its memory.
    unsafe {
        let (mut base, mut window) = (ptr::null_mut::<c_void>(), ffi::RSMPI_WIN_NULL);
        let (info, comm) = (ffi::RSMPI_INFO_NULL, ffi::RSMPI_COMM_WORLD);
        ffi::MPI_Win_allocate(8, 1, info, comm, (&raw mut base).cast(), &raw mut window);
        *LATE.lock().expect("no thread has panicked") = Some(Late(window));
    }
}

fn reach_late() {
    let Some(Late(window)) = *LATE.lock().expect("no thread has panicked") else { return };
    let (one, mut before, mut rank) = (1_u64, 0_u64, 0);
    // SAFETY: MPI is usable until its hooks are over. The words `one` and `before` live until the epoch
    // ends.
    unsafe {
        ffi::MPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &raw mut rank);
        if rank == 1 {
            let (given, fetched) = ((&raw const one).cast(), (&raw mut before).cast());
            ffi::MPI_Win_lock(ffi::MPI_LOCK_SHARED as c_int, 0, 0, window);
            ffi::MPI_Fetch_and_op(given, fetched, ffi::RSMPI_UINT64_T, 0, 0, ffi::RSMPI_SUM, window);
            ffi::MPI_Win_unlock(0, window);
        }
    }
}

/// Collective. MPICH ends the program by a signal if a window is not freed.
fn free_late() {
    let Some(Late(mut window)) = LATE.lock().expect("no thread has panicked").take() else { return };
    // SAFETY: `allocate_late` has created the window. It is freed once, because it is taken out of
    // `LATE`, and MPI is usable until its hooks are over.
    unsafe { ffi::MPI_Win_free(&raw mut window) };
}

fn open(comm: ffi::MPI_Comm) -> Open {
    let group = group_of(comm).expect("a group");
    let channel = group.channel().expect("a channel");
    let window = channel.node_buffer(100_000).expect("MPI works").expect("there is memory");
    window.barrier().expect("a barrier");
    for epochs in [Epochs::Standing, Epochs::Exclusive] {
        let words = channel.world_words(epochs, mechanism()).expect("MPI works").expect("a window");
        words.add(words.home(), 0, 1_u32).expect("MPI works");
    }
    channel.node_words(0, 4).expect("there is memory");
    (channel, window, derived_type())
}

/// Imports a type and frees the original. The result is a duplicate of the type.
fn derived_type() -> MpiType {
    // SAFETY: all handles are valid, and each handle is freed once.
    unsafe {
        let mut handle = ffi::RSMPI_DATATYPE_NULL;
        ffi::MPI_Type_vector(3, 2, 5, ffi::RSMPI_DOUBLE, &raw mut handle);
        ffi::MPI_Type_commit(&raw mut handle);
        let imported = MpiType::import(handle).expect("a type");
        ffi::MPI_Type_free(&raw mut handle);
        imported
    }
}

fn hook_finalize() {
    let mut key = 0;
    // SAFETY: both functions have the prototypes of MPI-4.0 section 7.7.2 and exist as long as the
    // program. No code uses the value.
    unsafe {
        ffi::MPI_Comm_create_keyval(Some(copy_nothing), Some(close_all), &raw mut key, ptr::null_mut());
        ffi::MPI_Comm_set_attr(ffi::RSMPI_COMM_SELF, key, ptr::null_mut());
    }
}

unsafe extern "C" fn copy_nothing(
    _: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI-4.0 section 7.7.2: MPI passes a valid pointer to the flag.
    unsafe { *flag = 0 };
    0
}

/// Closes all channels, as HDF5 closes files that a program did not close. This requires an agreement of
/// the ranks.
unsafe extern "C" fn close_all(_: ffi::MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    reach_late();
    for (channel, window, datatype) in OPEN.lock().expect("no thread has panicked").drain(..) {
        // This barrier comes first, because it makes no MPI calls except for progress.
        window.barrier().expect("the window is usable in the hook");
        channel.barrier().expect("messages move in the hook");
        let words =
            channel.world_words(Epochs::Standing, mechanism()).expect("the words exist").expect("a window");
        // If the hook of this crate ran before this one, the window is freed. The call must then return
        // an error, not raise a signal.
        let loaded = words.load::<u32>(words.home(), 0);
        assert!(loaded.is_ok() || matches!(loaded, Err(Error::Finalized)), "{loaded:?}");
        assert_eq!(datatype.datatype().size(), 48);
        // With messages, a rank that has left for `MPI_Win_free` would not answer for its words on MPICH 4.0.
        channel.barrier().expect("messages move in the hook");
        drop((window, channel, datatype));
    }
    free_late();
    0
}
