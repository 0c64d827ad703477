//! Opening, closing and deleting a file (MPI 4.1, sections 14.2.1 to 14.2.3).

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use capulet_comm::{Agree, Channel, ErrorClass, Group, Node, Rank, ReduceOp};
use capulet_drivers::{Access, Caps, Driver, DriverFile, OpenOptions};
use capulet_plan::aggregators::ConfigList;
use capulet_plan::grid::collective_buffer_bytes_for;
use mpi::environment::processor_name;
use mpi::topology::Communicator;

use crate::aggregator_layout::AggregatorLayout;
use crate::agree::{AgreedValues, Agreement, agree_on_outcome};
use crate::calls::Calls;
use crate::collective::{queue_of, shared_queue};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::file::{File, State};
use crate::hints::{Hints, parse_hint_file};
use crate::leaders::from_leaders;
use crate::mode::AccessMode;
use crate::on_demand::{Known, OnDemand, Opener};
use crate::shared_pointer::{PointerWord, SharedPointer};
use crate::view::FileView;

/// The arguments that one rank passes to an open.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Name of the file, optionally with a prefix that chooses its driver (`ufs:data.bin`).
    pub name: OsString,
    /// The access mode.
    pub mode: AccessMode,
    /// The program's hints.
    pub hints: Vec<(String, String)>,
}

/// The arguments of an open after the checks that need no storage.
struct Prepared {
    driver: Arc<dyn Driver>,
    path: PathBuf,
    mode: AccessMode,
}

/// The request that all ranks agreed on, before any rank accesses the storage.
struct AgreedRequest {
    prepared: Prepared,
    hints: Hints,
    /// Whether statistics are printed at close.
    stats: bool,
    /// Whether any rank has operations in progress on the shared memory that the file will use.
    is_busy: bool,
}

impl File {
    /// Opens a file on all ranks of `comm`. Collective over `comm`; blocks until all ranks have opened it.
    ///
    /// # Errors
    /// One class on all ranks: `MPI_ERR_AMODE` for a mode that the standard forbids, `MPI_ERR_NOT_SAME` if
    /// the modes, drivers or hints differ, else the class of the storage's error (`MPI_ERR_NO_SUCH_FILE`,
    /// `MPI_ERR_FILE_EXISTS`, `MPI_ERR_ACCESS`, ...).
    pub fn open(
        comm: &impl Communicator,
        name: impl AsRef<OsStr>,
        mode: AccessMode,
        context: &Context,
    ) -> Result<Self> {
        let request = OpenRequest { name: name.as_ref().to_owned(), mode, hints: Vec::new() };
        Self::open_with(comm, request, context)
    }

    /// As [`File::open`], with hints.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn open_with(comm: &impl Communicator, request: OpenRequest, context: &Context) -> Result<Self> {
        // SAFETY: `# Safety` of `open_raw`: a `Communicator` holds a valid communicator as long as it lives,
        // and `comm` lives during the call.
        unsafe { Self::open_raw(comm.as_raw(), Ok(request), context) }
    }

    /// As [`File::open_with`], for a communicator of any origin. A rank with wrong arguments passes the error
    /// instead of a request, so that all ranks return an error.
    ///
    /// # Safety
    /// `comm` must be a valid intra-communicator, and stay valid during the call.
    ///
    /// # Errors
    /// As [`File::open`].
    pub unsafe fn open_raw(
        comm: mpi::ffi::MPI_Comm,
        request: Result<OpenRequest>,
        context: &Context,
    ) -> Result<Self> {
        // SAFETY: `# Safety` of this function: `comm` is a valid intra-communicator during the call.
        let group = unsafe { Group::of(comm) }?;
        let span = tracing::debug_span!("open", rank = group.rank().0);
        let _entered = span.enter();
        let (channel, agreed) = agree_on_request(&group, request, context)?;
        let queue = queue_of(&channel);
        let AgreedRequest { prepared, mut hints, stats, is_busy } = agreed;
        let calls = Arc::<Calls>::default();
        let node_names = node_names(&channel, group.node(), &mut hints)?;
        // Made here, because accesses at the shared pointer are independent, and this is collective.
        let shared = SharedPointer::on(&channel, group.node(), hints.words);
        let (storage, common_caps) = open_storage(&channel, group.node(), &prepared, &hints, &calls)?;
        let pointer_bytes = match start_of_pointer(&channel, group.node(), &prepared, storage.as_ref()) {
            Ok(pointer_bytes) => pointer_bytes,
            Err(error) => {
                give_up(storage);
                return Err(error);
            }
        };
        let (path, driver) = (prepared.path.display(), prepared.driver.name());
        tracing::info!(%path, mode = prepared.mode.bits(), driver, "opened");
        let deletes = prepared.mode.contains(AccessMode::DELETE_ON_CLOSE);
        let aggregator_layout = AggregatorLayout::new(group.node(), &node_names, &hints);
        let several = group.node().node_count() > 1;
        let file = Self {
            lock: OnceLock::new(),
            pages: OnceLock::new(),
            shared,
            queue,
            order: several.then(|| channel.operation_order()).flatten(),
            operations: AtomicU64::new(0),
            group,
            channel: Arc::new(channel),
            // The program may change its folder before the close, which must delete the file opened here.
            path: if deletes { prepared.driver.lasting_path(&prepared.path) } else { prepared.path },
            mode: prepared.mode,
            node_names,
            driver: prepared.driver,
            storage,
            common_caps,
            state: Mutex::new(State {
                view: Arc::new(FileView::bytes()),
                pointer_bytes,
                hints,
                aggregator_layout,
                shared_word: PointerWord::first(pointer_bytes),
                atomic: false,
                holds_pages: false,
                are_views_disjoint: false,
            }),
            counters: Arc::default(),
            calls,
            stats,
            closed: false,
        };
        let file = file.with_pages()?;
        if !is_busy {
            // Made here, because nonblocking operations cannot make the shared memory. If operations of other
            // files use this memory, it must not change.
            file.reserve_shared_memory(file.state().hints.collective_buffer_bytes);
        }
        Ok(file)
    }

    /// Closes the file, and deletes it if its mode has `DELETE_ON_CLOSE`. Collective; blocks until all ranks
    /// have closed the file. After the return, written data is visible to all processes. The hint
    /// `capulet_sync_on_close` also forces the data to the device. Without this hint, call [`File::sync`]
    /// first, as with ROMIO.
    ///
    /// # Errors
    /// One class on all ranks, also if the storage of one rank failed at the close. Data may be lost then.
    /// The file is closed after an error too.
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        // MPI 4.1, section 14.2.2, requires the program to complete its operations before the close. If some
        // are in progress, all ranks have begun them, so the wait ends.
        self.queue.drain(self.channel.id());
        let forces = self.state().hints.sync_on_close && self.mode.writes();
        let synced = if forces { self.force().map(|_| ()) } else { Ok(()) };
        let printed = if self.stats { self.print_stats() } else { Ok(()) };
        let unlocked = self.finish_lock();
        // The storage is closed before the agreement, so that an error of one rank reaches all ranks and no
        // rank returns before the slowest close.
        let closed = self.storage.close().map_err(Error::from);
        let deletes = self.mode.contains(AccessMode::DELETE_ON_CLOSE);
        let ended = agree_on_outcome(self.agree(), synced.and(printed).and(unlocked).and(closed));
        tracing::info!(path = %self.path.display(), "closed");
        if !deletes {
            return ended;
        }
        // The agreement shows that all ranks have closed the file.
        let is_root = self.group.rank().0 == 0;
        let deleted = if is_root { self.driver.delete(&self.path).map_err(Error::from) } else { Ok(()) };
        let deleted = agree_on_outcome(self.agree(), deleted);
        ended.and(deleted)
    }

    /// Deletes a file that is not open. Local, not collective.
    ///
    /// # Errors
    /// `MPI_ERR_NO_SUCH_FILE`, `MPI_ERR_ACCESS`, or the class of another error of the storage.
    pub fn delete(name: impl AsRef<OsStr>, context: &Context) -> Result<()> {
        let (driver, path) = context.registry.resolve(name)?;
        driver.delete(&path)?;
        Ok(())
    }
}

/// The text of the hint file on rank 0, empty on other ranks. Also empty if the file cannot be read, as in
/// ROMIO.
fn hint_file(group: &Group, context: &Context) -> Vec<u8> {
    let path = context.hint_file.as_ref().filter(|_| group.rank().0 == 0);
    path.and_then(|path| std::fs::read(path).ok()).unwrap_or_default()
}

/// The processor name of each node's leader, in the order of the nodes, if the hints name hosts. Resets a
/// `cb_config_list` that leaves no aggregator. Collective.
fn node_names(channel: &dyn Agree, node: &Node, hints: &mut Hints) -> Result<Vec<String>> {
    let mut names = Vec::new();
    if hints.config_list.names_hosts() {
        // An empty name, after an error, matches no host.
        let own = if node.is_leader() { processor_name().unwrap_or_default() } else { String::new() };
        let received = from_leaders(channel, node, own.as_bytes())?;
        names = received.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    }
    if !hints.config_list.fits(&names, &node.sizes) {
        let list = &hints.config_list;
        tracing::debug!(%list, ?names, "cb_config_list is ignored: it leaves no aggregator");
        hints.config_list = ConfigList::default();
    }
    Ok(names)
}

/// Makes the channel of the file, and agrees on the request. Takes one reduction. With a hint file, a
/// broadcast of its text and a second reduction follow.
fn agree_on_request(
    group: &Arc<Group>,
    request: Result<OpenRequest>,
    context: &Context,
) -> Result<(Channel, AgreedRequest)> {
    let is_busy = shared_queue(group).is_some_and(|queue| queue.is_busy());
    let buffer_bytes = default_buffer_bytes(group);
    let mut text = hint_file(group, context);
    let (request, prepared) = match request {
        Ok(request) => {
            let prepared = prepare(&request, context, (buffer_bytes, ""));
            (Some(request), prepared)
        }
        Err(error) => (None, Err(error)),
    };
    let agreement = agreement_on(&prepared, context, is_busy).reduce(text.len() as u64, ReduceOp::Max);
    let mut channel = None;
    let values = agreement.agree_by(prepared.as_ref().err(), |lanes, ops| {
        channel = Some(group.channel_with(lanes, ops)?);
        Ok(())
    })?;
    let channel = channel.expect("the agreement has made the channel");
    let text_bytes = values.last();
    if text_bytes == 0 {
        return Ok((channel, agreed_of(values.outcome(prepared)?)));
    }
    // A rank that has no memory for the text still takes part in the agreement, because the other ranks wait.
    let received = channel.broadcast(Rank(0), &mut text).map_err(Error::from);
    let text = String::from_utf8_lossy(&text);
    let prepared = request.map_or(prepared, |request| prepare(&request, context, (buffer_bytes, &text)));
    let prepared = received.and(prepared);
    let agreed = agreement_on(&prepared, context, is_busy).agree(&channel, prepared)?;
    Ok((channel, agreed_of(agreed)))
}

fn agreement_on(prepared: &Result<(Prepared, Hints)>, context: &Context, is_busy: bool) -> Agreement {
    let (mode, driver, digest) = match prepared {
        Ok((prepared, hints)) => {
            (u64::from(prepared.mode.bits()), digest_of(prepared.driver.name()), hints.digest())
        }
        Err(_) => (0, 0, 0),
    };
    let agreement = Agreement::new().same("access mode", mode).same("driver", driver).same("hints", digest);
    // The table at close is collective, but the environments of the ranks may differ. So the ranks agree
    // whether to print the table.
    agreement.reduce(u64::from(context.stats), ReduceOp::Max).reduce(u64::from(is_busy), ReduceOp::Max)
}

fn agreed_of(((prepared, hints), mut values): ((Prepared, Hints), AgreedValues)) -> AgreedRequest {
    AgreedRequest { prepared, hints, stats: values.take() == 1, is_busy: values.take() == 1 }
}

fn digest_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Bytes of a collective buffer without a hint. The same on all ranks.
fn default_buffer_bytes(group: &Group) -> u64 {
    let ranks = group.node().sizes.iter().copied().max().unwrap_or(1);
    collective_buffer_bytes_for(group.message_time(), ranks.into())
}

fn prepare(
    request: &OpenRequest,
    context: &Context,
    (collective_buffer_bytes, hint_text): (u64, &str),
) -> Result<(Prepared, Hints)> {
    request.mode.check()?;
    let (driver, path) = context.registry.resolve(&request.name)?;
    if path.as_os_str().is_empty() {
        return Err(Error::argument(ErrorClass::BadFile, "the file name is empty"));
    }
    let mut hints = Hints { collective_buffer_bytes, ..Hints::default() };
    let from_file = parse_hint_file(hint_text);
    for pairs in [&from_file, &request.hints, &context.hints] {
        hints.apply(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    }
    tracing::debug!(?hints, "hints");
    Ok((Prepared { driver, path, mode: request.mode }, hints))
}

/// Opens the file on all ranks. Collective. Rank 0 creates a new file before the others open it, so that
/// `EXCLUSIVE` fails only if the file existed before, and no rank finds the file missing.
///
/// With `romio_no_indep_rw`, one rank of each node opens the file, and the others when they first need it.
/// This hint also promises that the program does not rename or remove the file before.
fn open_storage(
    channel: &dyn Agree,
    node: &Node,
    prepared: &Prepared,
    hints: &Hints,
    calls: &Arc<Calls>,
) -> Result<(Arc<dyn DriverFile>, Caps)> {
    let mode = prepared.mode;
    let access = match (mode.reads(), mode.writes()) {
        (true, false) => Access::Read,
        (false, true) => Access::Write,
        _ => Access::ReadWrite,
    };
    let options = OpenOptions::new(access).writers(node.size() as u32);
    let options = options.machines(if hints.exclusive_pages { 1 } else { node.node_count() as u32 });
    let (driver, path) = (Arc::clone(&prepared.driver), prepared.path.clone());
    let opener = Opener { driver, path, calls: Arc::clone(calls) };
    let check = |caps: Caps| {
        if channel.size() > 1 && !caps.contains(Caps::PROCESS_SHARED) {
            return Err(Error::Unsupported {
                what: "opening a file in the memory of one process on several ranks",
            });
        }
        Ok(())
    };
    let open = |options: &OpenOptions| {
        let file = opener.open(options)?;
        match check(file.caps()) {
            Ok(()) => Ok(Some(file)),
            Err(error) => {
                give_up(file);
                Err(error)
            }
        }
    };
    let open_once = |file: Option<_>| file.map_or_else(|| open(&options), |file| Ok(Some(file)));
    let mut created = None;
    if mode.contains(AccessMode::CREATE) {
        let creating = options.clone().create(true).exclusive(mode.contains(AccessMode::EXCLUSIVE));
        let creating = creating.permissions(hints.permissions);
        let is_root = channel.rank().0 == 0;
        (created, _) = opened_by_all(channel, if is_root { open(&creating) } else { Ok(None) })?;
    }
    if !hints.no_independent || node.node_count() == channel.size() as usize {
        let (opened, caps) = opened_by_all(channel, open_once(created))?;
        return Ok((opened.expect("every rank opens the file"), caps));
    }
    let opened = if node.is_leader() { open_once(created) } else { Ok(None) };
    let (opened, caps) = opened_by_all(channel, opened)?;
    let own = opened.as_deref().and_then(Known::of).map_or_else(Vec::new, Known::to_bytes);
    let received = from_leaders(channel, node, &own)?;
    let known: Option<Vec<Known>> = received.iter().map(|bytes| Known::from_bytes(bytes)).collect();
    match (opened, known) {
        (Some(file), Some(_)) => Ok((file, caps)),
        (None, Some(known)) => Ok((Arc::new(OnDemand::new(opener, options, known[node.index])), caps)),
        // The storage reports no identity, so a later open could not detect another file of this name.
        (opened, None) => {
            let (opened, caps) = opened_by_all(channel, open_once(opened))?;
            Ok((opened.expect("every rank opens the file"), caps))
        }
    }
}

/// Agrees on the outcome of an open. Returns the file of this rank, if the rank has opened one, and the
/// capabilities that the file has on all ranks that have opened it. If a rank failed, or if the ranks have
/// opened different files, all ranks close their files and return an error.
fn opened_by_all(
    channel: &dyn Agree,
    own: Result<Option<Arc<dyn DriverFile>>>,
) -> Result<(Option<Arc<dyn DriverFile>>, Caps)> {
    let (file, own) = match own {
        Ok(file) => (file, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let caps = file.as_ref().map_or(u32::MAX, |file| file.caps().bits());
    let number = file.as_deref().and_then(DriverFile::identity).map(|identity| identity.file);
    let agreement = Agreement::new()
        .reduce(caps.into(), ReduceOp::BitAnd)
        .reduce(number.unwrap_or(u64::MAX), ReduceOp::Min)
        .reduce(number.unwrap_or(0), ReduceOp::Max);
    let opened = agreement.agree(channel, own).and_then(|((), mut values)| {
        let (caps, lowest, highest) = (Caps::from_bits(values.take() as u32), values.take(), values.take());
        // Where nodes cache, a file may have another number on each node.
        if caps.contains(Caps::IMMEDIATE_VISIBILITY) && lowest < highest {
            let what = "the name refers to different files on different nodes";
            return Err(Error::argument(ErrorClass::BadFile, what));
        }
        Ok(caps)
    });
    match opened {
        Ok(caps) => Ok((file, caps)),
        Err(error) => {
            if let Some(file) = file {
                give_up(file);
            }
            Err(error)
        }
    }
}

/// Closes a file after the open failed on another rank. Nothing was written to the file, so an error loses
/// no data.
fn give_up(mut file: Arc<dyn DriverFile>) {
    if let Err(error) = file.close() {
        tracing::warn!(%error, "close of a file that was not opened on all ranks");
    }
}

/// The first position of the file pointers, in bytes: 0, or the end of the file in append mode. The same on
/// all ranks. Collective in append mode.
fn start_of_pointer(
    channel: &dyn Agree,
    node: &Node,
    prepared: &Prepared,
    storage: &dyn DriverFile,
) -> Result<u64> {
    if !prepared.mode.contains(AccessMode::APPEND) {
        return Ok(0);
    }
    // All ranks of a node would get the same length, so only the leader asks.
    let len = if node.is_leader() { storage.len().map_err(Error::from) } else { Ok(0) };
    let bytes = *len.as_ref().unwrap_or(&0);
    let (_, mut values) = Agreement::new().reduce(bytes, ReduceOp::Max).agree(channel, len)?;
    Ok(values.take())
}
