//! What a rank sends to other nodes, or requests from them: message fragments in its area, which is its
//! own part of the node's shared memory.
//!
//! ```text
//! area     entry, entry, ...
//! entry    node (u32), bytes of the fragment (u32), fragment,
//!          and for a read: room for the requested bytes
//! ```

use capulet_datatype::{Cursor, Datatype, Named, Tiled, TypedCopy};
use capulet_drivers::Direction;
use std::ops::{ControlFlow, Range};

pub(super) use capulet_plan::wire::ENTRY_BYTES;
use capulet_plan::wire::RUNS_BYTES_MAX;

use super::fragment::{Form, HEADER_BYTES, Header, RunWriter, VIEW_BYTES_MAX, encode_view};
use crate::access::Access;
use crate::two_phase::NodeGroup;

/// A piece of shared memory that this rank alone may use until the next barrier.
#[derive(Debug, Clone, Copy)]
pub(in crate::two_phase) struct Area {
    pub(in crate::two_phase) start: *mut u8,
    pub(in crate::two_phase) bytes: usize,
}

impl Area {
    /// Copies `bytes` to the byte `at` of the area.
    ///
    /// # Safety
    /// The area is valid, and only this rank uses it.
    unsafe fn put(self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes, "the bytes fit in the area");
        // SAFETY: the assertion keeps the bytes within the area; `# Safety` of this function excludes
        // other ranks.
        unsafe { self.start.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// The bytes that one fragment requested.
#[derive(Debug, Clone, Copy)]
struct Requested {
    start: u64,
    bytes: u64,
    /// Where in the area the bytes will lie.
    at: usize,
}

/// How this rank tells where its bytes lie.
#[derive(Debug)]
enum Description {
    View(Vec<u8>),
    Runs,
}

/// The bytes of one rank that lie in the collective buffers of other nodes.
#[derive(Debug)]
pub(in crate::two_phase) struct Outgoing {
    place: u32,
    direction: Direction,
    /// The copy between user memory and an area.
    copy: TypedCopy,
    description: Description,
    /// The nodes that know the view of this rank.
    nodes_with_view: Vec<bool>,
    base: u64,
    /// The parts of the file that are still to be packed: those that collective buffers of other nodes
    /// cover.
    ranges: [Range<u64>; 2],
    /// The next byte of the access.
    at: u64,
    /// The bytes requested with each buffer index.
    requested: [Vec<Requested>; 2],
}

impl Outgoing {
    pub(in crate::two_phase) fn new(access: &Access, direction: Direction, group: &NodeGroup) -> Self {
        let byte = Datatype::named(Named::Byte);
        let packed = Tiled::until(byte.layout().clone(), access.bytes() as i64);
        let memory = access.memory().tiled().clone();
        let copy = match direction {
            Direction::Write => TypedCopy::new(memory, packed),
            Direction::Read => TypedCopy::new(packed, memory),
        };
        let bytes_max = VIEW_BYTES_MAX.min(group.buffer_stride_bytes / 4);
        let view = encode_view(access.side(), bytes_max);
        Self {
            place: group.shared.place() as u32,
            direction,
            copy,
            description: view.map_or(Description::Runs, Description::View),
            nodes_with_view: vec![false; group.nodes()],
            base: 0,
            ranges: [0..0, 0..0],
            at: 0,
            requested: [Vec::new(), Vec::new()],
        }
    }

    /// Begins the round at `base`. The buffers of the nodes behind this one come first, so that not all
    /// ranks begin with the same node.
    pub(in crate::two_phase) fn begin(&mut self, access: &Access, group: &NodeGroup, base: u64) {
        let (own, covered) = (group.own_range(base), group.covered_range(base));
        self.base = base;
        self.ranges = [own.end..covered.end, covered.start..own.start];
        self.at = access.bytes_below(own.end);
        self.skip_empty(access);
    }

    /// Skips parts of the file without bytes of the access.
    fn skip_empty(&mut self, access: &Access) {
        while !self.is_done() && self.at >= access.bytes_below(self.ranges[0].end) {
            self.ranges = [self.ranges[1].clone(), 0..0];
            self.at = access.bytes_below(self.ranges[0].start);
        }
    }

    /// Whether all bytes of the round have been packed.
    pub(in crate::two_phase) fn is_done(&self) -> bool {
        self.ranges[0].is_empty() && self.ranges[1].is_empty()
    }

    /// Packs as many bytes of the round as fit. Returns the used bytes of the area, and how many bytes
    /// were copied.
    ///
    /// # Safety
    /// The area is valid, and only this rank uses it. User memory is as [`crate::Memory::new`] demands.
    pub(in crate::two_phase) unsafe fn pack(
        &mut self,
        access: &Access,
        group: &NodeGroup,
        area: Area,
        buffer_index: usize,
    ) -> (usize, u64) {
        self.requested[buffer_index].clear();
        let (mut used, mut copied_bytes) = (0, 0);
        while !self.is_done() {
            let offset = access.offset_of(self.at);
            let (node, domain) = group.domain_at(self.base, offset);
            let end = access.bytes_below(domain.end.min(self.ranges[0].end));
            let room = Area { start: area.start.wrapping_add(used), bytes: area.bytes - used };
            // SAFETY: `room` is the unused rest of the area, for which `# Safety` of this function holds.
            let (entry_bytes, taken) =
                unsafe { self.put(access, group, room, (node, domain.start), self.at..end) };
            if taken == 0 {
                break;
            }
            if self.direction == Direction::Read {
                let at = used + entry_bytes - taken as usize;
                self.requested[buffer_index].push(Requested { start: self.at, bytes: taken, at });
            } else {
                copied_bytes += taken;
            }
            used += entry_bytes;
            self.at += taken;
            self.skip_empty(access);
        }
        debug_assert!(used > 0 || self.is_done(), "a step that packs nothing would repeat without end");
        (used, copied_bytes)
    }

    /// Puts the first bytes of `part` into `room` as one entry, as many as fit. `part` lies in the
    /// collective buffers of node `to.0`, which begin at the file offset `to.1`. Returns the bytes of the
    /// entry, and how many bytes of `part` it has.
    ///
    /// # Safety
    /// As for [`Outgoing::pack`], with `room` as the area.
    unsafe fn put(
        &mut self,
        access: &Access,
        group: &NodeGroup,
        room: Area,
        to: (usize, u64),
        part: Range<u64>,
    ) -> (usize, u64) {
        let head = ENTRY_BYTES + HEADER_BYTES;
        let (form, description, bytes) = match &self.description {
            Description::View(view) => {
                let view: &[u8] = if self.nodes_with_view[to.0] { &[] } else { view };
                let left = room.bytes.saturating_sub(head + view.len()) as u64;
                let bytes = whole_units(part.end - part.start, left, group.unit_bytes);
                let form = if self.nodes_with_view[to.0] { Form::Known } else { Form::View };
                (form, view.to_vec(), bytes)
            }
            Description::Runs => {
                let left = room.bytes.saturating_sub(head);
                let (runs, bytes) = write_runs(access, &part, to.1, left, group.unit_bytes);
                (Form::Runs, runs, bytes)
            }
        };
        if bytes == 0 {
            return (0, 0);
        }
        let description_bytes = description.len() as u32;
        let header = Header { place: self.place, form, description_bytes, start: part.start, bytes };
        let has_payload = self.direction == Direction::Write;
        let fragment_bytes = HEADER_BYTES + description.len() + if has_payload { bytes as usize } else { 0 };
        let payload_at = head + description.len();
        // SAFETY: `# Safety` of this function: only this rank uses the room, and user memory is valid.
        // The assertion keeps the payload within the room.
        unsafe {
            room.put(0, &(to.0 as u32).to_le_bytes());
            room.put(4, &(fragment_bytes as u32).to_le_bytes());
            room.put(ENTRY_BYTES, &header.encode());
            room.put(head, &description);
            assert!(payload_at + bytes as usize <= room.bytes, "the payload fits in the room");
            if has_payload {
                let payload = room.start.add(payload_at);
                self.copy.run(access.memory().base(), part.start, payload, 0, bytes);
            }
        }
        self.nodes_with_view[to.0] |= form == Form::View;
        (payload_at + bytes as usize, bytes)
    }

    /// Copies the bytes that were requested with this buffer index to user memory, up to the file offset
    /// `good_end`. Returns the number of bytes.
    ///
    /// # Safety
    /// As for [`Outgoing::pack`]; all requested bytes have arrived in the area.
    pub(in crate::two_phase) unsafe fn unpack(
        &mut self,
        access: &Access,
        area: Area,
        buffer_index: usize,
        good_end: u64,
    ) -> u64 {
        let good = if good_end == u64::MAX { u64::MAX } else { access.bytes_below(good_end) };
        let mut copied_bytes = 0;
        for requested in self.requested[buffer_index].drain(..) {
            let bytes = (requested.start + requested.bytes).min(good).saturating_sub(requested.start);
            // SAFETY: the bytes lie in the area, where `pack` left room for them. `# Safety` of this
            // function covers user memory.
            unsafe {
                self.copy.run(
                    area.start.add(requested.at),
                    0,
                    access.memory().base(),
                    requested.start,
                    bytes,
                );
            }
            copied_bytes += bytes;
        }
        copied_bytes
    }
}

/// `wanted` bytes if there is room for them, else as many whole units as there is room for. A unit that
/// is split would be marked twice.
fn whole_units(wanted: u64, room: u64, unit_bytes: u64) -> u64 {
    if wanted <= room { wanted } else { room - room % unit_bytes }
}

/// Encodes the runs of the first bytes of `part`, as many as fit in `room` with their description.
/// Returns the description and the number of bytes.
fn write_runs(
    access: &Access,
    part: &Range<u64>,
    origin: u64,
    room: usize,
    unit_bytes: u64,
) -> (Vec<u8>, u64) {
    let mut cursor = Cursor::new(access.file().clone());
    cursor.seek(access.file_start() + part.start);
    let mut writer = RunWriter::new(origin, unit_bytes);
    let mut bytes = 0;
    let _ = cursor.for_each_run(part.end - part.start, |run| {
        let described = writer.bytes_with_one_more();
        let left = (room as u64).saturating_sub(described as u64 + bytes);
        let fits = if described > RUNS_BYTES_MAX { 0 } else { whole_units(run.len, left, unit_bytes) };
        if fits > 0 {
            writer.push((access.displacement_bytes() + run.offset) as u64, fits);
            bytes += fits;
        }
        if fits < run.len { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (writer.finish(), bytes)
}
