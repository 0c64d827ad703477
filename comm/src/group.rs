//! A group: the processes of a user's communicator, with a private communicator of this crate.
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

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use capulet_agreement::Ids;

use crate::agree::ReduceOp;
use crate::channel::{Channel, TRACK_BITS};
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result, check};
use crate::message::{Counters, Wire};
use crate::node::{self, Node, Split};
use crate::node_memory::{NodeMemory, Slot};
use crate::process::{Process, process, rank_in, return_errors, size_of_comm};
use crate::rank::Rank;
use crate::registry::{self, Stamp};
use crate::segment::{Segment, SegmentFile, SegmentName};
use crate::user_comm::{ReturnErrors, duplicate, extremes, is_congruent, refuse_inter_communicator};
use crate::window::Windows;
use crate::{consts, ffi};

/// The number of the node window that all channels of a shared group use.
pub(crate) const SHARED_WINDOW: u32 = 0;

/// The processes of a communicator: their ranks, their nodes, and a private communicator for messages
/// between them.
#[derive(Debug)]
pub struct Group {
    comm: ffi::MPI_Comm,
    rank: Rank,
    size: u32,
    node: Node,
    machine_size: u32,
    /// The memory that the ranks of this node share. `None` on all ranks of the node if there is no
    /// memory.
    memory: Option<Arc<NodeMemory>>,
    stamp: Stamp,
    /// The key of this group's entry in the registry.
    key: u64,
    shared: bool,
    tag_max: c_int,
    /// Set when the communicator has been freed in `MPI_Finalize`.
    closed: AtomicBool,
    counters: Counters,
    ids: Mutex<Ids>,
    windows: Windows,
    /// The values that callers keep with each node window, by the number of the window.
    kept: Mutex<HashMap<u32, Weak<dyn Any + Send + Sync>>>,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it. The other fields are owned values that are Send.
unsafe impl Send for Group {}
// SAFETY: as for `Send` above. After construction only the atomics, the counters and the values inside of
// mutexes change.
unsafe impl Sync for Group {}

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
        if let Some(group) = attached(process, comm)? {
            return Ok(group);
        }
        let _errors = ReturnErrors::on(comm)?;
        refuse_inter_communicator(comm)?;
        registry::tidy();
        let group = match find_shared(process, comm)? {
            Some(group) => group,
            None => Self::make(process, comm)?,
        };
        registry::touch(group.key);
        attach(process, comm, &group)?;
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
        let group = Arc::new(Group {
            comm,
            rank: Rank(rank),
            size,
            node,
            machine_size,
            memory,
            stamp,
            key: registry::new_key(),
            shared: !process.multiple,
            tag_max: process.tag_max,
            closed: AtomicBool::new(false),
            counters,
            ids: Mutex::new(Ids::new()),
            windows: Windows::default(),
            kept: Mutex::default(),
        });
        registry::enter(&group);
        Ok(group)
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks of the group.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The node of this rank: the ranks that share memory with this rank.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Opens a channel. Collective over the group. At most one thread may open a channel of a group at a
    /// time.
    ///
    /// # Errors
    /// If MPI fails, or if no tag is free.
    pub fn channel(self: &Arc<Self>) -> Result<Channel> {
        self.channel_with(&mut [], &[])
    }

    /// Opens a channel as [`Group::channel`], and reduces `lanes` in the same allreduce, as
    /// [`Agree::allreduce`](crate::Agree::allreduce) does.
    ///
    /// # Errors
    /// If MPI fails, if no tag is free, or if the numbers of operations and lanes differ.
    pub fn channel_with(self: &Arc<Self>, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<Channel> {
        Channel::open(Arc::clone(self), lanes, ops)
    }

    /// The value that callers keep with the node window `slot`. All callers get the same value, as long
    /// as one of them holds it. Otherwise `make` creates a new value. Local.
    ///
    /// # Panics
    /// If the existing value has another type.
    pub(crate) fn kept<T: Send + Sync + 'static>(&self, slot: u32, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = kept.get(&slot).and_then(Weak::upgrade) {
            return value.downcast().expect("the kept value has the requested type");
        }
        let value = Arc::new(make());
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        kept.insert(slot, Arc::downgrade(&any));
        value
    }

    /// The value that [`Channel::kept`] returns for the channels of this group. `None` if the group is
    /// not shared. Local.
    ///
    /// # Panics
    /// If the existing value has another type.
    pub fn kept_by_channels<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<Arc<T>> {
        self.shared.then(|| self.kept(SHARED_WINDOW, make))
    }

    /// Whether duplicates of the communicator share this group: true exactly if MPI runs below
    /// `MPI_THREAD_MULTIPLE`.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The maximum number of channels: the number of tags divided by the number of tracks.
    pub(crate) fn channels_max(&self) -> u32 {
        let bits = (self.tag_max as u32).saturating_add(1).ilog2();
        1 << bits.saturating_sub(TRACK_BITS)
    }

    pub(crate) fn ids(&self) -> &Mutex<Ids> {
        &self.ids
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Finalized) } else { Ok(()) }
    }

    /// Whether the slot `number` can be used, as far as this rank must check ([`NodeMemory::prepare`]).
    /// Local.
    pub(crate) fn prepare_slot(&self, number: u32) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.prepare(number))
    }

    /// The slot `number`. [`Group::prepare_slot`] must have returned true on all ranks of the node.
    pub(crate) fn slot(&self, number: u32) -> Option<Slot> {
        self.memory.as_ref().map(|memory| memory.slot(number))
    }

    /// Agrees on the values with which the ranks open a channel.
    pub(crate) fn agree_on_opening(&self, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()> {
        self.allreduce(self.slot(OPENING_SLOT).as_ref(), self.wire(0, &self.counters), lanes, ops)
    }

    /// Reduces each lane over all ranks. Uses shared memory if the group has one node and the ranks have
    /// a slot, else messages. Either all ranks have a slot, or none has.
    pub(crate) fn allreduce(
        &self,
        slot: Option<&Slot>,
        wire: Wire<'_>,
        lanes: &mut [u64],
        ops: &[ReduceOp],
    ) -> Result<()> {
        collective::check_lanes(lanes, ops)?;
        if self.node.node_count() == 1
            && let Some(slot) = slot
            && slot.reduce((wire.tag as u64) << 32 | lanes.len() as u64, lanes, ops)?
        {
            return Ok(());
        }
        collective::allreduce(wire, lanes, ops)
    }

    pub(crate) fn wire<'a>(&self, tag: c_int, counters: &'a Counters) -> Wire<'a> {
        Wire { comm: self.comm, tag, rank: self.rank.0, size: self.size, members: None, counters }
    }

    /// Whether all ranks are on one machine, even if `CAPULET_NODES` cuts the machine into several nodes.
    pub(crate) fn is_one_machine(&self) -> bool {
        self.machine_size == self.size
    }

    /// Called in `MPI_Finalize`. Marks the group as closed and returns its communicator, unless a channel
    /// is still open or the group is already closed.
    pub(crate) fn close(&self) -> Option<Remains> {
        let busy = !self.ids.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if busy || self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(self.remains())
    }

    fn remains(&self) -> Remains {
        Remains { key: self.key, comm: self.comm }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // MPI may run this function inside of a callback, where MPI must not be called. So the
        // communicator is freed later.
        if !*self.closed.get_mut() {
            registry::bury(self.remains());
        }
    }
}

/// The parts of a dropped group that are still to be freed.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) key: u64,
    comm: ffi::MPI_Comm,
}

// SAFETY: the communicator is a handle. MPI-4.0 section 11.6: a handle is not bound to a thread; each
// thread that may call MPI may use it.
unsafe impl Send for Remains {}

impl Remains {
    /// Frees the communicator. Local in every known MPI library (see [`registry`]).
    pub(crate) fn free(mut self) {
        // SAFETY: the communicator is private to this crate, and its group is dropped or closed. So no
        // operation is in progress on the communicator.
        let status = unsafe { ffi::MPI_Comm_free(&raw mut self.comm) };
        if let Err(error) = check("MPI_Comm_free", status) {
            tracing::warn!(%error, "a private communicator is leaked");
        }
    }
}

/// The slot in which the ranks agree when they open a channel.
const OPENING_SLOT: u32 = 0;

/// Agrees on a stamp that no other group has, and finds the nodes of the group. Costs one reduction. If
/// some rank does not know the nodes of these processes, it also costs a split of the communicator and an
/// allgather. Collective over the group.
fn agree_on_nodes(wire: Wire<'_>) -> Result<(Stamp, Split)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let is_first = wire.rank == 0;
    let own_parts = node::simulated_nodes();
    let known = node::checked_parts(own_parts, wire.size).ok();
    let known = known.map(|parts| node::known(wire.comm, parts)).transpose()?.flatten();
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
fn attached(process: &Process, comm: ffi::MPI_Comm) -> Result<Option<Arc<Group>>> {
    let mut value: *mut c_void = ptr::null_mut();
    let mut found: c_int = 0;
    let target = (&raw mut value).cast::<c_void>();
    // SAFETY: this crate has created the key. MPI writes the stored pointer to `value` and a flag to
    // `found`, which are valid for writes (MPI-4.0 section 7.7.2).
    let status = unsafe { ffi::MPI_Comm_get_attr(comm, process.group_key, target, &raw mut found) };
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

fn attach(process: &Process, comm: ffi::MPI_Comm, group: &Arc<Group>) -> Result<()> {
    let value = Arc::into_raw(Arc::clone(group));
    // SAFETY: this crate has created the key. The value owns one reference, which passes to the
    // attribute.
    let status =
        unsafe { ffi::MPI_Comm_set_attr(comm, process.group_key, value.cast_mut().cast::<c_void>()) };
    check("MPI_Comm_set_attr", status).inspect_err(|_| {
        // SAFETY: MPI has not set the attribute, so this function still owns the reference.
        drop(unsafe { Arc::from_raw(value) });
    })
}

/// Creates the attribute key under which a user's communicator stores its group.
pub(crate) fn create_key() -> Result<c_int> {
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
