//! Finds or creates the group of a user's communicator.
//!
//! The first call of [`Group::of`] on a communicator is collective. It stores the group as an attribute
//! of the user's communicator. Below `MPI_THREAD_MULTIPLE`, where at most one thread may be inside MPI at
//! a time, duplicates of the communicator share the group, because MPI copies the attribute to them. So
//! does any later communicator of the same processes in the same order. A library that opens every file
//! on a fresh duplicate, and frees the duplicate at close, therefore creates no private communicator per
//! file. The search for the group costs one `MPI_Iallreduce` of 16 bytes on the duplicate, by which the
//! ranks verify that all of them found the same group.
//!
//! With `MPI_THREAD_MULTIPLE` communicators share nothing. Two threads may open files on two duplicates
//! at the same time, in one order on one rank and in the other order on another rank. The standard orders
//! the opens on one communicator, but not the opens on two communicators. So a shared group would mix the
//! messages of the two files.

use std::ffi::{c_int, c_void};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capulet_agreement::Ids;

use crate::agree::ReduceOp;
use crate::attribute_key::AttributeKey;
use crate::buffer_table::BufferTable;
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result, check};
use crate::group::{Group, OPENING_SLOT, message_time};
use crate::members::Stamp;
use crate::message::{Counters, Wire};
use crate::node::{self, Split};
use crate::node_memory::NodeMemory;
use crate::process::{Process, process, rank_in, return_errors, size_of_comm};
use crate::rank::Rank;
use crate::segment::{Segment, SegmentFile, SegmentName};
use crate::user_comm::{ReturnErrors, duplicate, extremes, is_congruent, refuse_inter_communicator};
use crate::{consts, ffi, registry};

/// The key under which a user's communicator stores its group.
static KEY: AttributeKey = AttributeKey::new(create_key);

impl Group {
    /// The group of a user's communicator.
    ///
    /// The first call is collective over the communicator, and blocks until all its ranks call it. Later
    /// calls on the same communicator, or on a duplicate that inherited the group, are local. The user
    /// may free the communicator at any time after the call.
    ///
    /// # Errors
    /// [`ErrorClass::Comm`] for the null communicator and for inter-communicators (MPI-4.0 section
    /// 14.2.1). Also if MPI fails or is not initialized.
    ///
    /// # Safety
    /// The handle is `MPI_COMM_NULL` or a valid communicator that stays valid during the call.
    pub unsafe fn of(comm: ffi::MPI_Comm) -> Result<Arc<Group>> {
        let process = process()?;
        if comm == consts::comm_null() {
            return Err(Error::invalid(ErrorClass::Comm, "the null communicator"));
        }
        if let Some(group) = attached(comm)? {
            return Ok(group);
        }
        let _errors = ReturnErrors::on(comm)?;
        refuse_inter_communicator(comm)?;
        registry::tidy();
        let group = match find_shared(process, comm)? {
            Some(group) => group,
            None => Self::make(process, comm)?,
        };
        registry::touch(&group);
        attach(comm, &group)?;
        Ok(group)
    }

    fn make(process: &Process, user_comm: ffi::MPI_Comm) -> Result<Arc<Group>> {
        let comm = duplicate(user_comm)?;
        return_errors(comm)?;
        let (rank, size) = (rank_in(comm)?, size_of_comm(comm)?);
        let counters = Counters::default();
        let wire = Wire { comm, tag: 0, rank, size, members: None, counters: &counters };
        let (stamp, split) = agree_on_nodes(wire)?;
        let Split { node, machine_size } = split;
        let (place, node_size) = (node.place as u32, node.size() as u32);
        let within = Wire { rank: place, size: node_size, members: Some(&node.ranks), ..wire };
        let memory = node_memory(within)?;
        if let Some(memory) = &memory {
            node::note_cores(&memory.slot(OPENING_SLOT), machine_size)?;
        }
        let mut group = Group {
            comm,
            rank: Rank(rank),
            size,
            node,
            machine_size,
            message_time: Duration::ZERO,
            memory,
            stamp,
            shared: !process.multiple,
            tag_max: process.tag_max,
            closed: AtomicBool::new(false),
            counters,
            ids: Mutex::new(Ids::new()),
            buffers: BufferTable::default(),
            kept: Mutex::default(),
        };
        group.message_time = message_time::measured(&group)?;
        let group = Arc::new(group);
        registry::enter(&group);
        Ok(group)
    }
}

/// Agrees on a stamp that no other group has, and finds the nodes of the group. Costs one reduction. If
/// some rank does not know the nodes of these processes, it also costs a split of the communicator and an
/// allgather. Collective over the group.
fn agree_on_nodes(wire: Wire<'_>) -> Result<(Stamp, Split)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let is_first = wire.rank == 0;
    let own_parts = node::simulated_nodes();
    let known = node::checked_parts(own_parts, wire.size).ok();
    // A rank whose MPI fails here does not know the nodes. It must not leave before the other ranks.
    let known = known.and_then(|parts| node::known(wire.comm, parts).ok().flatten());
    // The counter of a process that is spawned later starts again at 1. So the stamp also contains a
    // random number.
    let random = if is_first { RandomState::new().build_hasher().finish() } else { 0 };
    let asked = if is_first { own_parts } else { 0 };
    let is_known = known.is_some().into();
    let mut lanes = [NEXT.fetch_add(1, Ordering::Relaxed), random, asked, own_parts, own_parts, is_known];
    let ops = [ReduceOp::Max, ReduceOp::Max, ReduceOp::Max, ReduceOp::Min, ReduceOp::Max, ReduceOp::Min];
    collective::allreduce(wire, &mut lanes, &ops)?;
    let [number, random, asked, least, most, is_known] = lanes;
    let parts = node::checked_parts(asked, wire.size)?;
    let split = match known.filter(|_| is_known == 1 && least == most && least == asked) {
        Some(split) => split,
        None => node::split(wire, parts)?,
    };
    Ok(([number, random], split))
}

/// The memory that the ranks of this node share. Collective over the node. Costs two reductions by
/// messages.
fn node_memory(within: Wire<'_>) -> Result<Option<Arc<NodeMemory>>> {
    let (place, ranks) = (within.rank as usize, within.size as usize);
    let bytes = NodeMemory::segment_bytes(ranks);
    let prepared = |segment: Segment| {
        let memory = NodeMemory::new(segment, place, ranks);
        memory.prepare(OPENING_SLOT).then(|| Arc::new(memory))
    };
    if ranks == 1 {
        return Ok(Segment::private(bytes).ok().and_then(prepared));
    }
    let create = || {
        let file = SegmentFile::create(bytes)?;
        let segment = file.map(bytes)?;
        Ok::<_, std::io::Error>((file, segment))
    };
    let mut created = None;
    if place == 0 {
        match create() {
            Ok((file, segment)) => created = prepared(segment).map(|memory| (file, memory)),
            Err(error) => tracing::warn!(%error, "no shared memory on this node"),
        }
    }
    let mut name = created.as_ref().map_or([0; 3], |(file, _)| file.name().to_words());
    collective::allreduce(within, &mut name, &[ReduceOp::Max; 3])?;
    let Some(name) = SegmentName::from_words(name) else { return Ok(None) };
    let (file, memory) = if let Some((file, memory)) = created {
        (Some(file), Some(memory))
    } else {
        let attached = SegmentFile::attach(name).and_then(|file| file.map(bytes));
        (None, attached.ok().and_then(prepared))
    };
    let mut lanes = [u64::from(memory.is_some())];
    collective::allreduce(within, &mut lanes, &[ReduceOp::Min])?;
    // Every rank has mapped the file or has given up. Dropping the file removes its name.
    drop(file);
    if lanes == [0] && place == 0 {
        tracing::warn!("no shared memory on this node: a rank cannot map it");
    }
    Ok(memory.filter(|_| lanes == [1]))
}

/// The shared group with the same processes in the same order, if every rank finds the same group.
/// Collective over `comm`.
fn find_shared(process: &Process, comm: ffi::MPI_Comm) -> Result<Option<Arc<Group>>> {
    if process.multiple {
        return Ok(None);
    }
    let mut found = None;
    for group in registry::shared() {
        if group.check_open().is_ok() && is_congruent(comm, group.comm)? {
            found = Some(group);
            break;
        }
    }
    let mine = found.as_ref().map_or(0, |group| group.stamp[1]);
    let (min, max) = extremes(comm, mine)?;
    Ok(found.filter(|_| min == max && min != 0))
}

/// The group that is an attribute of the communicator.
fn attached(comm: ffi::MPI_Comm) -> Result<Option<Arc<Group>>> {
    let mut value: *mut c_void = ptr::null_mut();
    let mut found: c_int = 0;
    let (key, target) = (KEY.get()?, (&raw mut value).cast::<c_void>());
    // SAFETY: this crate has created the key. MPI writes the stored pointer to `value` and a flag to
    // `found`, which are valid for writes (MPI-4.0 section 7.7.2).
    let status = unsafe { ffi::MPI_Comm_get_attr(comm, key, target, &raw mut found) };
    check("MPI_Comm_get_attr", status)?;
    if found == 0 {
        return Ok(None);
    }
    let group = value.cast_const().cast::<Group>();
    // SAFETY: a value under this key comes from Arc::into_raw in `attach` or was copied by `copy_group`.
    // It owns one reference until MPI calls `delete_group`. The communicator is valid during this call,
    // so that reference exists while this function takes another one.
    let group = unsafe {
        Arc::increment_strong_count(group);
        Arc::from_raw(group)
    };
    Ok(group.check_open().is_ok().then_some(group))
}

fn attach(comm: ffi::MPI_Comm, group: &Arc<Group>) -> Result<()> {
    let key = KEY.get()?;
    let value = Arc::into_raw(Arc::clone(group));
    // SAFETY: this crate has created the key. The value owns one reference, which passes to the
    // attribute.
    let status = unsafe { ffi::MPI_Comm_set_attr(comm, key, value.cast_mut().cast::<c_void>()) };
    check("MPI_Comm_set_attr", status).inspect_err(|_| {
        // SAFETY: MPI has not set the attribute, so this function still owns the reference.
        drop(unsafe { Arc::from_raw(value) });
    })
}

fn create_key() -> Result<c_int> {
    let mut key: c_int = 0;
    // SAFETY: both functions have the prototypes of MPI-4.0 section 7.7.2 and exist as long as the
    // program. MPI writes one int.
    let status = unsafe {
        ffi::MPI_Comm_create_keyval(Some(copy_group), Some(delete_group), &raw mut key, ptr::null_mut())
    };
    check("MPI_Comm_create_keyval", status)?;
    Ok(key)
}

unsafe extern "C" fn copy_group(
    _comm: ffi::MPI_Comm,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let group = value.cast_const().cast::<Group>();
    // SAFETY: `value` is an attribute under the key of this crate: an Arc<Group> that lives at least as
    // long as this call. MPI passes valid pointers to the copy and to the flag (MPI-4.0 section 7.7.2).
    unsafe {
        let shared = (*group).shared && !(*group).closed.load(Ordering::Acquire);
        *flag = c_int::from(shared);
        if shared {
            Arc::increment_strong_count(group);
            *copy.cast::<*mut c_void>() = value;
        }
    }
    0
}

unsafe extern "C" fn delete_group(
    _comm: ffi::MPI_Comm,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: `value` owns one reference, from `attach` or `copy_group`. MPI deletes each attribute once.
    drop(unsafe { Arc::from_raw(value.cast_const().cast::<Group>()) });
    0
}
