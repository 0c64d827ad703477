//! The bytes of remote ranks in the collective buffers of this node. Everything that a remote rank sends
//! is checked before it is used. A remote rank is called a guest in the code.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use capulet_datatype::{Datatype, Layout, Named, Tiled, TypedCopy};

use super::section::{Form, Malformed, Runs, Section, Sections, decode_layout, decode_view};
use crate::access::FileSide;
use crate::marks::Marker;
use crate::two_phase::NodeTeam;
use crate::two_phase::window::{Window, mark_in, place_in};

/// The collective buffers of this node in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain<'t> {
    pub(super) team: &'t NodeTeam,
    pub(super) base: u64,
    pub(super) data_turn: usize,
    pub(super) map_turn: usize,
}

impl<'t> Domain<'t> {
    /// The bytes of the file in the buffers that any rank may ask for.
    fn range(&self) -> Range<u64> {
        let own = self.team.own(self.base);
        own.start..own.end.min(self.team.end.max(own.start))
    }

    /// The buffer that covers the file offset, which must be in the domain.
    fn window_at(&self, offset: u64) -> Window<'t> {
        let index = (offset - self.range().start) / self.team.window_bytes;
        self.team.window(self.base, index as usize, self.data_turn, self.map_turn)
    }

    /// Cuts a range of the file where buffers end.
    fn cut(&self, range: Range<u64>) -> impl Iterator<Item = (Window<'t>, Range<u64>)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let window = self.window_at(at);
                let piece = at..range.end.min(window.file.end);
                at = piece.end;
                (window, piece)
            })
        })
    }
}

/// A remote rank whose view is known.
#[derive(Debug)]
struct Guest {
    side: FileSide,
    /// The copies from packed bytes to the file (`lay`), and back (`fetch`).
    lay: TypedCopy,
    fetch: TypedCopy,
}

impl Guest {
    fn new(side: FileSide, bytes: &Arc<Layout>) -> Result<Self, Malformed> {
        let packed =
            Tiled::new(bytes.clone(), side.bytes()).map_err(|_| Malformed("the length of an access"))?;
        let lay = TypedCopy::new(packed.clone(), side.file().clone());
        let fetch = TypedCopy::new(side.file().clone(), packed);
        Ok(Self { side, lay, fetch })
    }

    /// Cuts `part` where buffers end.
    fn parts<'a>(
        &self,
        domain: Domain<'a>,
        part: Range<u64>,
    ) -> impl Iterator<Item = (Window<'a>, Range<u64>)> {
        let mut at = part.start;
        std::iter::from_fn(move || {
            (at < part.end).then(|| {
                let window = domain.window_at(self.side.offset_of(at));
                let piece = at..self.side.bytes_below(window.file.end).min(part.end);
                at = piece.end;
                (window, piece)
            })
        })
    }
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Laid {
    /// The bytes of the request are in the buffers, or marked.
    Whole,
    /// Some bytes of the request are those of another rank too. Buffers with such bytes were not filled.
    Overlap,
}

/// How a request is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Mark the units, and copy the bytes in unless another rank has marked one of the units.
    Lay,
    /// Mark the units and copy the bytes in, over earlier bytes.
    LayOver,
    /// Mark the units, to be read.
    Mark {
        /// Bytes of a unit.
        unit_bytes: u64,
    },
}

/// The remote ranks that have sent bytes or requests to this node in an operation.
#[derive(Debug)]
pub(super) struct Guests {
    /// By node, and by the place of the rank there.
    known: HashMap<(usize, u32), Guest>,
    /// By wire form: many ranks have the same layout.
    layouts: HashMap<Box<[u8]>, Arc<Layout>>,
    byte: Arc<Layout>,
}

impl Guests {
    pub(super) fn new() -> Self {
        let byte = Datatype::named(Named::Byte).layout().clone();
        Self { known: HashMap::new(), layouts: HashMap::new(), byte }
    }

    /// Processes the fragments of a request in order. No other rank may touch the buffers during the
    /// call.
    pub(super) fn take_in(
        &mut self,
        domain: Domain<'_>,
        from: usize,
        request: &[u8],
        treatment: Treatment,
    ) -> Result<Laid, Malformed> {
        let has_payload = !matches!(treatment, Treatment::Mark { .. });
        let mut laid = Laid::Whole;
        for section in Sections::new(request, has_payload) {
            let section = section?;
            if section.header.form == Form::View {
                self.welcome(from, &section)?;
            }
            let is_marked_twice = match section.header.form {
                Form::View | Form::Known => self.take_view(domain, from, &section, treatment)?,
                Form::Runs => take_runs(domain, &section, treatment)?,
            };
            if is_marked_twice {
                laid = Laid::Overlap;
            }
        }
        Ok(laid)
    }

    /// Appends the bytes that a request asked for to `reply`, from the buffers of `domain`. The request was
    /// given to [`Self::take_in`] before. No other rank may write to the buffers during the call.
    pub(super) fn answer(
        &self,
        domain: Domain<'_>,
        from: usize,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        for section in Sections::new(request, false) {
            let section = section?;
            match section.header.form {
                Form::View | Form::Known => self.fetch_view(domain, from, &section, reply)?,
                Form::Runs => fetch_runs(domain, &section, reply)?,
            }
        }
        Ok(())
    }

    /// Stores the view of a remote rank.
    fn welcome(&mut self, from: usize, section: &Section<'_>) -> Result<(), Malformed> {
        let layouts = &mut self.layouts;
        let side = decode_view(section.description, |wire| {
            if let Some(layout) = layouts.get(wire) {
                return Ok(layout.clone());
            }
            let layout = decode_layout(wire)?;
            layouts.insert(wire.into(), layout.clone());
            Ok(layout)
        })?;
        self.known.insert((from, section.header.place), Guest::new(side, &self.byte)?);
        Ok(())
    }

    /// The remote rank of a fragment, and the fragment's part of its access. The part is checked to lie
    /// in the domain.
    fn guest(
        &self,
        domain: Domain<'_>,
        from: usize,
        section: &Section<'_>,
    ) -> Result<(&Guest, Range<u64>), Malformed> {
        let header = &section.header;
        let known = self.known.get(&(from, header.place)).ok_or(Malformed("a view that was never sent"))?;
        let part = header.start..header.start + header.bytes;
        let within = known.side.within(&domain.range(), 0);
        if part.start < within.start || part.end > within.end {
            return Err(Malformed("bytes outside of the collective buffers"));
        }
        Ok((known, part))
    }

    fn take_view(
        &self,
        domain: Domain<'_>,
        from: usize,
        section: &Section<'_>,
        treatment: Treatment,
    ) -> Result<bool, Malformed> {
        let (guest, part) = self.guest(domain, from, section)?;
        let unit_bytes = match treatment {
            Treatment::Mark { unit_bytes } => unit_bytes,
            _ => domain.team.unit_bytes,
        };
        let is_read = matches!(treatment, Treatment::Mark { .. });
        if !is_read && !is_whole(guest, &part, unit_bytes) {
            return Err(Malformed("bytes that are not whole units"));
        }
        let mut overlap = false;
        for (window, piece) in guest.parts(domain, part.clone()) {
            let is_marked = mark_in(&guest.side, &window, &piece, unit_bytes);
            overlap |= is_marked && treatment == Treatment::Lay;
            if is_read || (is_marked && treatment == Treatment::Lay) {
                continue;
            }
            let payload = &section.payload[(piece.start - part.start) as usize..];
            let bytes = piece.end - piece.start;
            let at = guest.side.file_start() + piece.start;
            // SAFETY: `Sections` checked that the payload has the bytes. `guest` and `parts` keep the
            // piece within the buffer, whose memory has a byte for each byte of the file that it covers.
            // No other rank touches the buffer, as `take_in` demands.
            unsafe { guest.lay.run(payload.as_ptr(), 0, place_in(&guest.side, &window), at, bytes) };
        }
        Ok(overlap)
    }

    fn fetch_view(
        &self,
        domain: Domain<'_>,
        from: usize,
        section: &Section<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let (guest, part) = self.guest(domain, from, section)?;
        for (window, piece) in guest.parts(domain, part) {
            let bytes = piece.end - piece.start;
            let at = guest.side.file_start() + piece.start;
            let old_len = reply.len();
            reply.resize(old_len + bytes as usize, 0);
            let target = reply[old_len..].as_mut_ptr();
            // SAFETY: as in `take_view`, with source and target exchanged. `resize` made room in the
            // reply.
            unsafe { guest.fetch.run(place_in(&guest.side, &window), at, target, 0, bytes) };
        }
        Ok(())
    }
}

/// Whether a part of an access consists of whole units of the file.
fn is_whole(guest: &Guest, part: &Range<u64>, unit_bytes: u64) -> bool {
    let side = &guest.side;
    let ends = side.offset_of(part.start) | (side.offset_of(part.end - 1) + 1);
    (side.grain() | ends).is_multiple_of(unit_bytes)
}

fn runs_of<'s>(domain: Domain<'_>, section: &Section<'s>) -> Result<Runs<'s>, Malformed> {
    Runs::checked(section.description, &domain.range(), domain.team.unit_bytes, section.header.bytes)
}

fn take_runs(domain: Domain<'_>, section: &Section<'_>, treatment: Treatment) -> Result<bool, Malformed> {
    let runs = runs_of(domain, section)?;
    let unit_bytes = match treatment {
        Treatment::Mark { unit_bytes } => unit_bytes,
        _ => domain.team.unit_bytes,
    };
    let is_marked = mark_runs(domain, runs.clone(), unit_bytes);
    match treatment {
        Treatment::Mark { .. } => return Ok(false),
        Treatment::Lay if is_marked => return Ok(true),
        Treatment::Lay | Treatment::LayOver => {}
    }
    let mut payload = section.payload;
    for (window, piece) in runs.flat_map(|run| domain.cut(run)) {
        let (bytes, rest) = payload.split_at((piece.end - piece.start) as usize);
        payload = rest;
        let at = (piece.start - window.file.start) as usize;
        // SAFETY: `runs_of` and `cut` keep the piece within the buffer. No other rank touches the buffer,
        // as `take_in` demands.
        unsafe { window.data.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(false)
}

fn mark_runs(domain: Domain<'_>, runs: Runs<'_>, unit_bytes: u64) -> bool {
    let mut overlap = false;
    let mut open: Option<(u64, Marker<'_>)> = None;
    for (window, piece) in runs.flat_map(|run| domain.cut(run)) {
        let start = window.file.start;
        if open.as_ref().is_none_or(|(at, _)| *at != start) {
            overlap |= open.take().is_some_and(|(_, marker)| marker.finish());
        }
        let (_, marker) = open.get_or_insert_with(|| (start, Marker::new(window.map)));
        marker.mark((piece.start - start) / unit_bytes..(piece.end - start).div_ceil(unit_bytes));
    }
    overlap | open.is_some_and(|(_, marker)| marker.finish())
}

fn fetch_runs(domain: Domain<'_>, section: &Section<'_>, reply: &mut Vec<u8>) -> Result<(), Malformed> {
    for (window, piece) in runs_of(domain, section)?.flat_map(|run| domain.cut(run)) {
        let old_len = reply.len();
        let bytes = (piece.end - piece.start) as usize;
        reply.resize(old_len + bytes, 0);
        let at = (piece.start - window.file.start) as usize;
        // SAFETY: as in `take_runs`, with source and target exchanged. `resize` made room in the reply.
        unsafe { reply[old_len..].as_mut_ptr().copy_from_nonoverlapping(window.data.add(at), bytes) };
    }
    Ok(())
}
