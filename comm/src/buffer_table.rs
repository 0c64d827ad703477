//! The node buffers of a group, found by number: the creation of their memory, its growth and its refusal.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agree::ReduceOp;
use crate::error::Result;
use crate::memory::{Memory, Plan};
use crate::node_memory::Slot;
use crate::segment::{Segment, SegmentFile, SegmentName, fits_in_file_system};

/// The state of the node buffer of one number.
#[derive(Debug, Default)]
struct Known {
    /// The memory of the buffer. A smaller memory that this one has replaced lives as long as an
    /// operation holds it.
    current: Option<Arc<Memory>>,
    /// A size for which there was no memory. Later operations do not try this size, or a larger one,
    /// again.
    refused_bytes: Option<usize>,
}

/// The node buffers of a group.
#[derive(Debug, Default)]
pub(crate) struct BufferTable(Mutex<BTreeMap<u32, Known>>);

/// The names of this module's reductions, for [`Slot::reduce`]. No other reduction has these names.
const MAKING: u64 = 1 << 63;
const MAKING_LAST: u64 = MAKING + 1;
const PREPARING: u64 = MAKING + 2;

impl BufferTable {
    /// Creates the buffer `number` with at least `bytes` bytes of data per rank, unless it exists. Takes
    /// memory for the header only. Collective over the node. No other thread of this rank may use `slot`
    /// at the same time, and all ranks pass the same arguments.
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub(crate) fn reserve(&self, slot: &Slot, number: u32, bytes: usize) -> Result<()> {
        {
            let known = self.lock();
            let known = known.get(&number);
            let has = |known: &Known| known.current.as_ref().is_some_and(|memory| memory.bytes() >= bytes);
            let refuses = |known: &Known| known.refused_bytes.is_some_and(|refused| bytes >= refused);
            if known.is_some_and(|known| has(known) || refuses(known)) {
                return Ok(());
            }
        }
        let made = make(slot, bytes)?;
        let mut all = self.lock();
        let known = all.entry(number).or_default();
        match made {
            Some(memory) => known.current = Some(Arc::new(memory)),
            None => known.refused_bytes = Some(bytes),
        }
        Ok(())
    }

    /// The buffer `number`, ready for use by all ranks. Creates the buffer if necessary. Collective over
    /// the node, as [`BufferTable::reserve`]. `None` on all ranks if one of them has no memory for the
    /// buffer.
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub(crate) fn get(&self, slot: &Slot, number: u32, bytes: usize) -> Result<Option<Arc<Memory>>> {
        self.reserve(slot, number, bytes)?;
        let Some(memory) = self.current(number).filter(|memory| memory.bytes() >= bytes) else {
            return Ok(None);
        };
        let is_usable = memory.is_usable(|own| -> Result<bool> {
            let mut lanes = [u64::from(own)];
            slot.reduce(PREPARING, &mut lanes, &[ReduceOp::Min])?;
            if lanes == [0] && slot.place() == 0 {
                warn_of_shortage(memory.bytes());
            }
            Ok(lanes == [1])
        })?;
        if !is_usable {
            // There may be memory for a smaller buffer.
            *self.lock().entry(number).or_default() = Known { current: None, refused_bytes: Some(bytes) };
        }
        Ok(is_usable.then_some(memory))
    }

    /// The buffer `number`, if it exists and this rank has memory for its own part. Local, so other ranks
    /// may have no buffer.
    pub(crate) fn existing(&self, number: u32) -> Option<Arc<Memory>> {
        self.current(number).filter(|memory| !memory.is_refused() && memory.prepare())
    }

    /// Whether this rank has already used the buffer `number`. Local.
    pub(crate) fn is_prepared(&self, number: u32) -> bool {
        self.is_prepared_for(number, 0)
    }

    /// Whether this rank has already used the buffer `number`, and the buffer has `bytes` bytes or more per
    /// rank. Local.
    pub(crate) fn is_prepared_for(&self, number: u32, bytes: usize) -> bool {
        self.current(number)
            .is_some_and(|memory| memory.bytes() >= bytes && !memory.is_refused() && memory.is_prepared())
    }

    /// Removes the buffer `number`. Local.
    pub(crate) fn forget(&self, number: u32) {
        self.lock().remove(&number);
    }

    fn current(&self, number: u32) -> Option<Arc<Memory>> {
        self.lock().get(&number)?.current.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn_of_shortage(bytes: usize) {
    tracing::warn!(
        bytes_per_rank = bytes,
        "shared memory is short: collective access on this node uses no collective buffers, and is slower"
    );
}

/// Creates a buffer: the first rank of the node creates the segment and broadcasts its name, and the
/// other ranks attach. Collective over the node. Costs two reductions.
fn make(slot: &Slot, bytes: usize) -> Result<Option<Memory>> {
    let (place, ranks) = (slot.place(), capulet_agreement::Meeting::ranks(slot));
    let Some(plan) = Plan::of(bytes, ranks) else { return Ok(None) };
    let created = (place == 0).then(|| create(plan));
    let mut name = [0; 3];
    match &created {
        Some(Ok((file, _))) => name = file.name().to_words(),
        Some(Err(error)) => tracing::debug!(%error, bytes = plan.bytes, "cannot create a segment"),
        None => {}
    }
    slot.reduce(MAKING, &mut name, &[ReduceOp::Max; 3])?;
    let Some(name) = SegmentName::from_words(name) else {
        if place == 0 {
            warn_of_shortage(plan.bytes);
        }
        return Ok(None);
    };
    let (segment, file) = match created {
        Some(Ok((file, segment))) => (Ok(segment), Some(file)),
        Some(Err(error)) => (Err(error), None),
        None => (SegmentFile::attach(name).and_then(|file| file.map(plan.total_bytes())), None),
    };
    if let Err(error) = &segment {
        tracing::warn!(%error, "cannot map a segment of the node");
    }
    let mut lanes = [u64::from(segment.is_ok())];
    slot.reduce(MAKING_LAST, &mut lanes, &[ReduceOp::Min])?;
    // Every rank has mapped the file or has given up. Dropping the file removes its name.
    drop(file);
    let segment = segment.ok().filter(|_| lanes == [1]);
    Ok(segment.map(|segment| Memory::new(segment, plan, place)))
}

/// Creates the segment of a buffer and populates its header.
fn create(plan: Plan) -> io::Result<(SegmentFile, Segment)> {
    let short = || io::Error::from(io::ErrorKind::OutOfMemory);
    if !fits_in_file_system(plan.total_bytes()) {
        return Err(short());
    }
    let file = SegmentFile::create(plan.total_bytes())?;
    let segment = file.map(plan.total_bytes())?;
    if segment.populate(0..plan.header_bytes) { Ok((file, segment)) } else { Err(short()) }
}
