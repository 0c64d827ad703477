//! What a rank sends to other nodes, or asks them for: sections in its own part of the node's shared memory.
//!
//! ```text
//! area     entry, entry, ...
//! entry    node (u32), bytes of the section (u32), section, and for a read: room for the bytes that are asked for
//! ```

use capulet_datatype::{Cursor, Datatype, Named, Tiled, TypedCopy};
use capulet_drivers::Direction;
use std::ops::{ControlFlow, Range};

pub(super) use capulet_plan::wire::ENTRY_BYTES;
use capulet_plan::wire::RUNS_BYTES_MAX;

use super::section::{Form, HEADER_BYTES, Header, RunWriter, VIEW_BYTES_MAX, encode_view};
use crate::access::Access;
use crate::two_phase::NodeTeam;

/// A piece of shared memory, of which this rank has the use until the next barrier.
#[derive(Debug, Clone, Copy)]
pub(in crate::two_phase) struct Area {
    pub(in crate::two_phase) start: *mut u8,
    pub(in crate::two_phase) bytes: usize,
}

impl Area {
    /// Copies `bytes` to `at`.
    ///
    /// # Safety
    /// The area must be this rank's, and valid.
    unsafe fn put(self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes, "what is put into an area fits");
        // SAFETY: within the area, by the check; this rank's alone, by the caller's promise.
        unsafe { self.start.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// The bytes of one section that was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    start: u64,
    bytes: u64,
    /// Where in the area they come to lie.
    at: usize,
}

/// How this rank tells where its bytes lie.
#[derive(Debug)]
enum Description {
    View(Vec<u8>),
    Runs,
}

/// What one rank has in the windows of other nodes.
#[derive(Debug)]
pub(in crate::two_phase) struct Outgoing {
    place: u32,
    direction: Direction,
    /// Between user memory and an area.
    copy: TypedCopy,
    description: Description,
    /// Which nodes know the view.
    knowing: Vec<bool>,
    base: u64,
    /// What of the file is still to be gone through: windows of other nodes.
    ranges: [Range<u64>; 2],
    /// The next byte of the access.
    at: u64,
    /// What was asked for in each turn.
    asked: [Vec<Asked>; 2],
}

impl Outgoing {
    pub(in crate::two_phase) fn new(access: &Access, direction: Direction, team: &NodeTeam) -> Self {
        let byte = Datatype::named(Named::Byte);
        let packed = Tiled::until(byte.layout().clone(), access.bytes() as i64);
        let memory = access.memory().tiled().clone();
        let copy = match direction {
            Direction::Write => TypedCopy::new(memory, packed),
            Direction::Read => TypedCopy::new(packed, memory),
        };
        let bytes_max = VIEW_BYTES_MAX.min(team.buffer_bytes / 4);
        let view = encode_view(access.side(), bytes_max);
        Self {
            place: team.shared.place() as u32,
            direction,
            copy,
            description: view.map_or(Description::Runs, Description::View),
            knowing: vec![false; team.nodes()],
            base: 0,
            ranges: [0..0, 0..0],
            at: 0,
            asked: [Vec::new(), Vec::new()],
        }
    }

    /// Starts with the round at `base`: first the windows of the nodes after this one, so that not all ranks begin with one
    /// node.
    pub(in crate::two_phase) fn begin(&mut self, access: &Access, team: &NodeTeam, base: u64) {
        let (own, covered) = (team.own(base), team.covered(base));
        self.base = base;
        self.ranges = [own.end..covered.end, covered.start..own.start];
        self.at = access.bytes_below(own.end);
        self.settle(access);
    }

    /// Drops what there is nothing in.
    fn settle(&mut self, access: &Access) {
        while !self.is_done() && self.at >= access.bytes_below(self.ranges[0].end) {
            self.ranges = [self.ranges[1].clone(), 0..0];
            self.at = access.bytes_below(self.ranges[0].start);
        }
    }

    /// Whether all of the round has been packed.
    pub(in crate::two_phase) fn is_done(&self) -> bool {
        self.ranges[0].is_empty() && self.ranges[1].is_empty()
    }

    /// Packs as much of the round as fits. Returns the bytes of the area that are in use, and those of them that were copied.
    ///
    /// # Safety
    /// The area must be valid and this rank's alone, and user memory as [`crate::Memory::new`] says.
    pub(in crate::two_phase) unsafe fn pack(
        &mut self,
        access: &Access,
        team: &NodeTeam,
        area: Area,
        turn: usize,
    ) -> (usize, u64) {
        self.asked[turn].clear();
        let (mut used, mut copied_bytes) = (0, 0);
        while !self.is_done() {
            let offset = access.offset_of(self.at);
            let (node, domain) = team.domain_at(self.base, offset);
            let end = access.bytes_below(domain.end.min(self.ranges[0].end));
            let room = Area { start: area.start.wrapping_add(used), bytes: area.bytes - used };
            // SAFETY: the rest of the area; the caller's promise.
            let (entry_bytes, taken) =
                unsafe { self.put(access, team, room, (node, domain.start), self.at..end) };
            if taken == 0 {
                break;
            }
            if self.direction == Direction::Read {
                let at = used + entry_bytes - taken as usize;
                self.asked[turn].push(Asked { start: self.at, bytes: taken, at });
            } else {
                copied_bytes += taken;
            }
            used += entry_bytes;
            self.at += taken;
            self.settle(access);
        }
        debug_assert!(used > 0 || self.is_done(), "a step that packs nothing would be repeated for ever");
        (used, copied_bytes)
    }

    /// Puts the first bytes of `part`, which lies in the windows of `to.0` that begin at `to.1`, as one entry: as many as
    /// fit. Returns the bytes of the entry and of `part`.
    ///
    /// # Safety
    /// As [`Outgoing::pack`].
    unsafe fn put(
        &mut self,
        access: &Access,
        team: &NodeTeam,
        room: Area,
        to: (usize, u64),
        part: Range<u64>,
    ) -> (usize, u64) {
        let head = ENTRY_BYTES + HEADER_BYTES;
        let (form, description, bytes) = match &self.description {
            Description::View(view) => {
                let view: &[u8] = if self.knowing[to.0] { &[] } else { view };
                let left = room.bytes.saturating_sub(head + view.len()) as u64;
                let bytes = whole_units(part.end - part.start, left, team.unit_bytes);
                let form = if self.knowing[to.0] { Form::Known } else { Form::View };
                (form, view.to_vec(), bytes)
            }
            Description::Runs => {
                let left = room.bytes.saturating_sub(head);
                let (runs, bytes) = write_runs(access, &part, to.1, left, team.unit_bytes);
                (Form::Runs, runs, bytes)
            }
        };
        if bytes == 0 {
            return (0, 0);
        }
        let description_bytes = description.len() as u32;
        let header = Header { place: self.place, form, description_bytes, start: part.start, bytes };
        let has_payload = self.direction == Direction::Write;
        let section_bytes = HEADER_BYTES + description.len() + if has_payload { bytes as usize } else { 0 };
        let payload_at = head + description.len();
        // SAFETY: the room is this rank's, by the caller's promise; that the payload fits was counted above.
        unsafe {
            room.put(0, &(to.0 as u32).to_le_bytes());
            room.put(4, &(section_bytes as u32).to_le_bytes());
            room.put(ENTRY_BYTES, &header.encode());
            room.put(head, &description);
            assert!(payload_at + bytes as usize <= room.bytes, "the payload fits");
            if has_payload {
                let payload = room.start.add(payload_at);
                self.copy.run(access.memory().base(), part.start, payload, 0, bytes);
            }
        }
        self.knowing[to.0] |= form == Form::View;
        (payload_at + bytes as usize, bytes)
    }

    /// Copies what was asked for in `turn` to user memory, as far as it is good. Returns how many bytes that were.
    ///
    /// # Safety
    /// As [`Outgoing::pack`]; all that was asked for must have come.
    pub(in crate::two_phase) unsafe fn unpack(
        &mut self,
        access: &Access,
        area: Area,
        turn: usize,
        good_end: u64,
    ) -> u64 {
        let good = if good_end == u64::MAX { u64::MAX } else { access.bytes_below(good_end) };
        let mut copied_bytes = 0;
        for asked in self.asked[turn].drain(..) {
            let bytes = (asked.start + asked.bytes).min(good).saturating_sub(asked.start);
            // SAFETY: the bytes lie in the area, where `pack` made room for them; user memory by the caller's promise.
            unsafe {
                self.copy.run(area.start.add(asked.at), 0, access.memory().base(), asked.start, bytes);
            }
            copied_bytes += bytes;
        }
        copied_bytes
    }
}

/// `wanted` bytes if there is room for them, else as many whole units as there is room for. A unit that is torn would be
/// marked twice.
fn whole_units(wanted: u64, room: u64, unit_bytes: u64) -> u64 {
    if wanted <= room { wanted } else { room - room % unit_bytes }
}

/// The runs of the first bytes of `part`, and how many bytes they are: as many as fit in `room` with their description.
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
