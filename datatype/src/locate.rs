//! From stream positions to places and back, without a walker.

use crate::bitmap;
use crate::layout::Run;
use crate::piece::{Leaf, Piece};

/// The offset of stream byte `position` of `piece`, relative to the origin of the base of `piece`.
pub(crate) fn offset_of(mut piece: &Piece, mut position: u64) -> i64 {
    let mut offset = 0_i64;
    loop {
        offset = offset.wrapping_add(piece.base);
        for dim in piece.dims.iter().rev() {
            offset = offset.wrapping_add(dim.stride.wrapping_mul((position / dim.unit) as i64));
            position %= dim.unit;
        }
        match &piece.leaf {
            Leaf::Block(_) => return offset.wrapping_add(position as i64),
            Leaf::Index(index) => {
                let entry = (position / index.body.facts.size) as usize;
                position %= index.body.facts.size;
                offset = offset.wrapping_add(index.displacements.get(entry));
                piece = &index.body;
            }
            Leaf::VarIndex(index) => {
                let (entry, inside) = index.runs.locate(position);
                let (at, _) = index.runs.as_slice().get(entry);
                return offset.wrapping_add(at).wrapping_add(inside as i64);
            }
            Leaf::Bitmap(bitmap) => {
                let place = bitmap.select(position / bitmap.unit);
                return offset.wrapping_add((place * bitmap.unit + position % bitmap.unit) as i64);
            }
            Leaf::Sequence(sequence) => {
                let (entry, inside) = sequence.locate(position);
                (piece, position) = (&sequence.pieces[entry], inside);
            }
        }
    }
}

/// The number of stream bytes of a monotone piece that lie less than `reach` bytes after its first byte.
pub(crate) fn bytes_below(mut piece: &Piece, mut reach: i64) -> u64 {
    let mut below = 0;
    loop {
        if reach <= 0 {
            return below;
        }
        if reach >= piece.facts.high && piece.dims.is_empty() {
            return below + piece.facts.size;
        }
        for dim in piece.dims.iter().rev() {
            // In a monotone piece, strides are positive, and all bytes of a repetition lie below the start
            // of the next one.
            let place = (reach / dim.stride).min(dim.n as i64 - 1);
            below += place as u64 * dim.unit;
            reach -= place * dim.stride;
        }
        match &piece.leaf {
            Leaf::Block(bytes) => return below + (reach as u64).min(*bytes),
            Leaf::Index(index) => {
                let entry = index.displacements.as_slice().partition_point(|at| at < reach).max(1) - 1;
                below += entry as u64 * index.body.facts.size;
                reach -= index.displacements.get(entry);
                piece = &index.body;
            }
            Leaf::VarIndex(index) => {
                let entry = index.runs.partition_point(|at| at < reach).max(1) - 1;
                let (at, bytes) = index.runs.as_slice().get(entry);
                let inside = (reach - at).max(0) as u64;
                return below + index.runs.start_of(entry) + inside.min(bytes);
            }
            Leaf::Bitmap(bitmap) => {
                let (place, inside) = (reach as u64 / bitmap.unit, reach as u64 % bitmap.unit);
                let torn = if bitmap.has(place) { inside } else { 0 };
                return below + bitmap.units_below(place) * bitmap.unit + torn;
            }
            Leaf::Sequence(sequence) => {
                let entry = sequence.pieces.partition_point(|piece| piece.base < reach).max(1) - 1;
                below += sequence.starts[entry];
                reach -= sequence.pieces[entry].base;
                piece = &sequence.pieces[entry];
            }
        }
    }
}

/// The run of `piece` that holds stream byte `position`, from that byte on. `None` if another run may
/// follow it without a gap, which can happen at the last run of a row or list.
pub(crate) fn certain_run(mut piece: &Piece, mut position: u64) -> Option<Run> {
    let mut offset = 0_i64;
    loop {
        offset = offset.wrapping_add(piece.base);
        // Runs of a row never touch, nor do runs of a list that was not cut into parts.
        let mut more = false;
        for dim in piece.dims.iter().rev() {
            let place = position / dim.unit;
            offset = offset.wrapping_add(dim.stride.wrapping_mul(place as i64));
            position -= place * dim.unit;
            more = place + 1 < dim.n;
        }
        let (more, at, len) = match &piece.leaf {
            Leaf::Block(bytes) => (more, position as i64, bytes - position),
            Leaf::Index(index) => {
                let unit = index.body.facts.size;
                let entry = (position / unit) as usize;
                position -= entry as u64 * unit;
                let at = index.displacements.get(entry);
                if index.body.as_block().is_none() {
                    offset = offset.wrapping_add(at);
                    piece = &index.body;
                    continue;
                }
                let (mut last, n) = (entry, index.displacements.len());
                while last + 1 < n && index.touches_behind(last) {
                    last += 1;
                }
                let bytes = (last - entry + 1) as u64 * unit - position;
                (last + 1 < n, at + position as i64, bytes)
            }
            Leaf::VarIndex(index) => {
                let (entry, inside) = index.runs.locate(position);
                let runs = index.runs.as_slice();
                let (at, bytes) = runs.get(entry);
                (entry + 1 < runs.len(), at + inside as i64, bytes - inside)
            }
            Leaf::Bitmap(map) => {
                let (number, inside) = (position / map.unit, position % map.unit);
                let place = map.select(number);
                let run = bitmap::run_at(&map.words, place);
                let at = (place * map.unit + inside) as i64;
                (number + run < map.units(), at, run * map.unit - inside)
            }
            Leaf::Sequence(sequence) => {
                (piece, position) = {
                    let (entry, inside) = sequence.locate(position);
                    (&sequence.pieces[entry], inside)
                };
                continue;
            }
        };
        return more.then(|| Run { offset: offset.wrapping_add(at), len });
    }
}
