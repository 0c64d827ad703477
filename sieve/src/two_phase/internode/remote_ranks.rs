//! The bytes of remote ranks in the collective buffers of this node. Everything that a remote rank sends
//! is checked before it is used.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use capulet_datatype::{Datatype, Layout, Named, Tiled, TypedCopy};

use super::fragment::{Form, Fragment, Fragments, Malformed, Runs, decode_layout, decode_view};
use crate::access::FileSide;
use crate::marks::Marker;
use crate::two_phase::NodeGroup;
use crate::two_phase::collective_buffer::{CollectiveBuffer, file_origin_in, mark_in};

/// The collective buffers of this node in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain<'t> {
    pub(super) group: &'t NodeGroup,
    pub(super) base: u64,
    pub(super) data_index: usize,
    pub(super) map_index: usize,
}

impl<'t> Domain<'t> {
    /// The bytes of the file in the buffers that any rank may ask for.
    fn range(&self) -> Range<u64> {
        let own = self.group.own_range(self.base);
        own.start..own.end.min(self.group.end.max(own.start))
    }

    /// The buffer that covers the file offset, which must be in the domain.
    fn buffer_at(&self, offset: u64) -> CollectiveBuffer<'t> {
        let index = (offset - self.range().start) / self.group.collective_buffer_bytes;
        self.group.buffer(self.base, index as usize, self.data_index, self.map_index)
    }

    /// Cuts a range of the file where buffers end.
    fn cut(&self, range: Range<u64>) -> impl Iterator<Item = (CollectiveBuffer<'t>, Range<u64>)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let buffer = self.buffer_at(at);
                let piece = at..range.end.min(buffer.file.end);
                at = piece.end;
                (buffer, piece)
            })
        })
    }
}

/// A remote rank whose view is known.
#[derive(Debug)]
struct RemoteRank {
    side: FileSide,
    /// The copies from packed bytes to the file (`to_file`), and back (`from_file`).
    to_file: TypedCopy,
    from_file: TypedCopy,
}

impl RemoteRank {
    fn new(side: FileSide, bytes: &Arc<Layout>) -> Result<Self, Malformed> {
        let packed =
            Tiled::new(bytes.clone(), side.bytes()).map_err(|_| Malformed("the length of an access"))?;
        let to_file = TypedCopy::new(packed.clone(), side.file().clone());
        let from_file = TypedCopy::new(side.file().clone(), packed);
        Ok(Self { side, to_file, from_file })
    }

    /// Cuts `part` where buffers end.
    fn parts<'a>(
        &self,
        domain: Domain<'a>,
        part: Range<u64>,
    ) -> impl Iterator<Item = (CollectiveBuffer<'a>, Range<u64>)> {
        let mut at = part.start;
        std::iter::from_fn(move || {
            (at < part.end).then(|| {
                let buffer = domain.buffer_at(self.side.offset_of(at));
                let piece = at..self.side.bytes_below(buffer.file.end).min(part.end);
                at = piece.end;
                (buffer, piece)
            })
        })
    }
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestResult {
    /// The bytes of the request are in the buffers, or marked.
    Complete,
    /// Some bytes of the request are those of another rank too. Buffers with such bytes were not filled.
    Overlap,
}

/// How a request is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestMode {
    /// Mark the units, and copy the bytes in unless another rank has marked one of the units.
    Fill,
    /// Mark the units and copy the bytes in, over earlier bytes.
    Overwrite,
    /// Mark the units, to be read.
    Mark {
        /// Bytes of a unit.
        unit_bytes: u64,
    },
}

/// The remote ranks that have sent bytes or requests to this node in an operation.
#[derive(Debug)]
pub(super) struct RemoteRanks {
    /// By node, and by the place of the rank there.
    known: HashMap<(usize, u32), RemoteRank>,
    /// By wire form: many ranks have the same layout.
    layouts: HashMap<Box<[u8]>, Arc<Layout>>,
    byte: Arc<Layout>,
}

impl RemoteRanks {
    pub(super) fn new() -> Self {
        let byte = Datatype::named(Named::Byte).layout().clone();
        Self { known: HashMap::new(), layouts: HashMap::new(), byte }
    }

    /// Processes the fragments of a request in order. No other rank may touch the buffers during the
    /// call.
    pub(super) fn process(
        &mut self,
        domain: Domain<'_>,
        from: usize,
        request: &[u8],
        mode: RequestMode,
    ) -> Result<RequestResult, Malformed> {
        let has_payload = !matches!(mode, RequestMode::Mark { .. });
        let mut result = RequestResult::Complete;
        for fragment in Fragments::new(request, has_payload) {
            let fragment = fragment?;
            if fragment.header.form == Form::View {
                self.store_view(from, &fragment)?;
            }
            let is_marked_twice = match fragment.header.form {
                Form::View | Form::Known => self.process_view(domain, from, &fragment, mode)?,
                Form::Runs => process_runs(domain, &fragment, mode)?,
            };
            if is_marked_twice {
                result = RequestResult::Overlap;
            }
        }
        Ok(result)
    }

    /// Appends the bytes that a request asked for to `reply`, from the buffers of `domain`. The request
    /// was given to [`Self::process`] before. No other rank may write to the buffers during the call.
    pub(super) fn append_reply(
        &self,
        domain: Domain<'_>,
        from: usize,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        for fragment in Fragments::new(request, false) {
            let fragment = fragment?;
            match fragment.header.form {
                Form::View | Form::Known => self.reply_view(domain, from, &fragment, reply)?,
                Form::Runs => reply_runs(domain, &fragment, reply)?,
            }
        }
        Ok(())
    }

    /// Stores the view of a remote rank.
    fn store_view(&mut self, from: usize, fragment: &Fragment<'_>) -> Result<(), Malformed> {
        let layouts = &mut self.layouts;
        let side = decode_view(fragment.description, |wire| {
            if let Some(layout) = layouts.get(wire) {
                return Ok(layout.clone());
            }
            let layout = decode_layout(wire)?;
            layouts.insert(wire.into(), layout.clone());
            Ok(layout)
        })?;
        self.known.insert((from, fragment.header.place), RemoteRank::new(side, &self.byte)?);
        Ok(())
    }

    /// The remote rank of a fragment, and the fragment's part of its access. The part is checked to lie
    /// in the domain.
    fn remote(
        &self,
        domain: Domain<'_>,
        from: usize,
        fragment: &Fragment<'_>,
    ) -> Result<(&RemoteRank, Range<u64>), Malformed> {
        let header = &fragment.header;
        let known = self.known.get(&(from, header.place)).ok_or(Malformed("a view that was never sent"))?;
        let part = header.start..header.start + header.bytes;
        let within = known.side.within(&domain.range(), 0);
        if part.start < within.start || part.end > within.end {
            return Err(Malformed("bytes outside of the collective buffers"));
        }
        Ok((known, part))
    }

    fn process_view(
        &self,
        domain: Domain<'_>,
        from: usize,
        fragment: &Fragment<'_>,
        mode: RequestMode,
    ) -> Result<bool, Malformed> {
        let (remote, part) = self.remote(domain, from, fragment)?;
        let unit_bytes = match mode {
            RequestMode::Mark { unit_bytes } => unit_bytes,
            _ => domain.group.unit_bytes,
        };
        let is_read = matches!(mode, RequestMode::Mark { .. });
        if !is_read && !is_whole(remote, &part, unit_bytes) {
            return Err(Malformed("bytes that are not whole units"));
        }
        let mut overlap = false;
        for (buffer, piece) in remote.parts(domain, part.clone()) {
            let is_marked = mark_in(&remote.side, &buffer, &piece, unit_bytes);
            overlap |= is_marked && mode == RequestMode::Fill;
            if is_read || (is_marked && mode == RequestMode::Fill) {
                continue;
            }
            let payload = &fragment.payload[(piece.start - part.start) as usize..];
            let bytes = piece.end - piece.start;
            let at = remote.side.file_start() + piece.start;
            // SAFETY: `Fragments` checked that the payload has the bytes. `remote` and `parts` keep the
            // piece within the buffer, whose memory has a byte for each byte of the file that it covers.
            // No other rank touches the buffer, as `process` demands.
            unsafe {
                remote.to_file.run(payload.as_ptr(), 0, file_origin_in(&remote.side, &buffer), at, bytes)
            };
        }
        Ok(overlap)
    }

    fn reply_view(
        &self,
        domain: Domain<'_>,
        from: usize,
        fragment: &Fragment<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let (remote, part) = self.remote(domain, from, fragment)?;
        for (buffer, piece) in remote.parts(domain, part) {
            let bytes = piece.end - piece.start;
            let at = remote.side.file_start() + piece.start;
            let old_len = reply.len();
            reply.resize(old_len + bytes as usize, 0);
            let target = reply[old_len..].as_mut_ptr();
            // SAFETY: as in `process_view`, with source and target exchanged. `resize` made room in the
            // reply.
            unsafe { remote.from_file.run(file_origin_in(&remote.side, &buffer), at, target, 0, bytes) };
        }
        Ok(())
    }
}

/// Whether a part of an access consists of whole units of the file.
fn is_whole(remote: &RemoteRank, part: &Range<u64>, unit_bytes: u64) -> bool {
    let side = &remote.side;
    let ends = side.offset_of(part.start) | (side.offset_of(part.end - 1) + 1);
    (side.grain() | ends).is_multiple_of(unit_bytes)
}

fn runs_of<'s>(domain: Domain<'_>, fragment: &Fragment<'s>) -> Result<Runs<'s>, Malformed> {
    Runs::checked(fragment.description, &domain.range(), domain.group.unit_bytes, fragment.header.bytes)
}

fn process_runs(domain: Domain<'_>, fragment: &Fragment<'_>, mode: RequestMode) -> Result<bool, Malformed> {
    let runs = runs_of(domain, fragment)?;
    let unit_bytes = match mode {
        RequestMode::Mark { unit_bytes } => unit_bytes,
        _ => domain.group.unit_bytes,
    };
    let is_marked = mark_runs(domain, runs.clone(), unit_bytes);
    match mode {
        RequestMode::Mark { .. } => return Ok(false),
        RequestMode::Fill if is_marked => return Ok(true),
        RequestMode::Fill | RequestMode::Overwrite => {}
    }
    let mut payload = fragment.payload;
    for (buffer, piece) in runs.flat_map(|run| domain.cut(run)) {
        let (bytes, rest) = payload.split_at((piece.end - piece.start) as usize);
        payload = rest;
        let at = (piece.start - buffer.file.start) as usize;
        // SAFETY: `runs_of` and `cut` keep the piece within the buffer. No other rank touches the buffer,
        // as `process` demands.
        unsafe { buffer.data.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(false)
}

fn mark_runs(domain: Domain<'_>, runs: Runs<'_>, unit_bytes: u64) -> bool {
    let mut overlap = false;
    let mut open: Option<(u64, Marker<'_>)> = None;
    for (buffer, piece) in runs.flat_map(|run| domain.cut(run)) {
        let start = buffer.file.start;
        if open.as_ref().is_none_or(|(at, _)| *at != start) {
            overlap |= open.take().is_some_and(|(_, marker)| marker.finish());
        }
        let (_, marker) = open.get_or_insert_with(|| (start, Marker::new(buffer.map)));
        marker.mark((piece.start - start) / unit_bytes..(piece.end - start).div_ceil(unit_bytes));
    }
    overlap | open.is_some_and(|(_, marker)| marker.finish())
}

fn reply_runs(domain: Domain<'_>, fragment: &Fragment<'_>, reply: &mut Vec<u8>) -> Result<(), Malformed> {
    for (buffer, piece) in runs_of(domain, fragment)?.flat_map(|run| domain.cut(run)) {
        let old_len = reply.len();
        let bytes = (piece.end - piece.start) as usize;
        reply.resize(old_len + bytes, 0);
        let at = (piece.start - buffer.file.start) as usize;
        // SAFETY: as in `process_runs`, with source and target exchanged. `resize` made room in the
        // reply.
        unsafe { reply[old_len..].as_mut_ptr().copy_from_nonoverlapping(buffer.data.add(at), bytes) };
    }
    Ok(())
}
