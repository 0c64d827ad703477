//! Test program: every order in which things may end. The argument chooses one; the launcher runs each.
//!
//! * `plain`: groups, windows and types are simply left behind at `MPI_Finalize`.
//! * `hook-before`: channels are closed by a hook of `MPI_Finalize` that runs before ours.
//! * `hook-after`: by one that runs after ours.
//! * `open`: channels and windows are still open after `MPI_Finalize`, and dropped then.
//! * `lopsided`: one rank forgot to close; nobody may hang.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

use capulet_comm::{Agree, Channel, Epochs, Error, MpiType, NodeShared, NodeWindow, ffi, prepare, progress};
use support::group_of;

type Open = (Channel, Arc<NodeWindow>, MpiType);

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

fn main() {
    // Harmless before MPI_Init.
    progress();
    assert!(prepare().is_err(), "MPI is not initialized yet");
    let way = std::env::args().nth(1).unwrap_or_else(|| "plain".to_owned());
    let (rank, size) = support::init();
    if way == "hook-before" {
        prepare().expect("MPI is initialized");
    }
    if way.starts_with("hook") {
        // Deletion goes backwards: set before ours it runs after, set after ours it runs before (MPI-4.0 section 11.2.4).
        hook_finalize();
    }
    let copy = support::duplicate(support::world());
    let reversed = support::split(support::world(), 0, size - rank);
    for comm in [support::world(), copy, reversed] {
        let (channel, window, datatype) = open(comm);
        let keep = way != "plain" && (way != "lopsided" || rank == 0);
        if keep {
            OPEN.lock().expect("no panic").push((channel, window, datatype));
        }
    }
    support::free(copy);
    support::finish("ends");
    progress();
    for (channel, window, datatype) in OPEN.lock().expect("no panic").drain(..) {
        assert!(way == "open" || way == "lopsided", "the hook closed all");
        drop((window, channel, datatype));
    }
}

fn open(comm: ffi::MPI_Comm) -> Open {
    let group = group_of(comm).expect("a group");
    let channel = group.channel().expect("a channel");
    let window = channel.node_window(100_000).expect("MPI works").expect("memory");
    window.barrier().expect("a barrier");
    for epochs in [Epochs::Standing, Epochs::Exclusive] {
        let words = channel.world_words(epochs).expect("MPI works").expect("a window");
        words.add(words.home(), 0, 1_u32).expect("MPI works");
    }
    channel.node_words(0, 4).expect("MPI works").expect("memory");
    (channel, window, derived_type())
}

/// An imported duplicate of a type that is freed already.
fn derived_type() -> MpiType {
    // SAFETY: valid handles, each freed once.
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
    // SAFETY: the functions have MPI's prototypes; the value is not used.
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
    // SAFETY: MPI passes a valid pointer.
    unsafe { *flag = 0 };
    0
}

/// What HDF5 does with files that a program forgot: closes them, which takes agreement of the ranks.
unsafe extern "C" fn close_all(_: ffi::MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    for (channel, window, datatype) in OPEN.lock().expect("no panic").drain(..) {
        channel.barrier().expect("messages still move");
        window.barrier().expect("the window is still there");
        let words = channel.world_words(Epochs::Standing).expect("it is there").expect("a window");
        // The window is gone where our hook ran before: an error then, and no signal.
        let loaded = words.load::<u32>(words.home(), 0);
        assert!(loaded.is_ok() || matches!(loaded, Err(Error::Finalized)), "{loaded:?}");
        assert_eq!(datatype.datatype().size(), 48);
        drop((window, channel, datatype));
    }
    0
}
