//! From the constructor tree to canonical pieces: one case for each combiner, in type-map order.
//!
//! The constructors have checked the places of all bytes, so displacements are summed with wrapping
//! arithmetic. Intermediate sums may wrap, but the final sum, which is the place of a byte, is exact.

use std::sync::Arc;

use crate::arrays::{Axis, axes, darray_choice, subarray_choice};
use crate::canon::{list, repeat, sequence, settle, shift};
use crate::layout::Layout;
use crate::lengths::{Form, Lengths};
use crate::named::Named;
use crate::piece::Piece;
use crate::runs::{RunList, piece_of_equal_runs, piece_of_runs};
use crate::tree::{Combiner, Datatype};

impl Datatype {
    /// The canonical layout. It is made at the first call, in time linear in the description, and kept.
    pub fn layout(&self) -> &Arc<Layout> {
        self.0.layout.get_or_init(|| Arc::new(Layout::new(lower(self).map(settle), self.bounds())))
    }
}

/// The pieces of one instance; `None` if it has no data.
fn lower(datatype: &Datatype) -> Option<Piece> {
    if datatype.size() == 0 {
        return None;
    }
    match datatype.combiner() {
        Combiner::Named(named) => lower_named(*named),
        Combiner::Dup { old } | Combiner::Resized { old, .. } => body(old),
        Combiner::Contiguous { count, old } => repeat(body(old)?, *count, old.extent()),
        Combiner::Vector { count, blocklength, stride, old } => {
            let stride_bytes = stride.wrapping_mul(old.extent());
            repeat(block(old, *blocklength)?, *count, stride_bytes)
        }
        Combiner::Hvector { count, blocklength, stride_bytes, old } => {
            repeat(block(old, *blocklength)?, *count, *stride_bytes)
        }
        Combiner::Indexed { blocklengths, displacements, old } => {
            blocks(datatype, old, blocklengths, displacements, old.extent())
        }
        Combiner::Hindexed { blocklengths, displacements_bytes, old } => {
            blocks(datatype, old, blocklengths, displacements_bytes, 1)
        }
        Combiner::IndexedBlock { blocklength, displacements, old } => {
            equal_blocks(datatype, block(old, *blocklength)?, displacements, old.extent())
        }
        Combiner::HindexedBlock { blocklength, displacements_bytes, old } => {
            equal_blocks(datatype, block(old, *blocklength)?, displacements_bytes, 1)
        }
        Combiner::Struct { blocklengths, displacements_bytes, types } => {
            lower_struct(datatype, blocklengths, displacements_bytes, types)
        }
        Combiner::Subarray { sizes, subsizes, starts, order, old } => {
            lower_array(body(old)?, &axes(sizes, &subarray_choice(subsizes, starts), *order, old.extent()))
        }
        Combiner::Darray { rank, gsizes, distributions, psizes, order, old } => {
            let chosen = darray_choice(*rank, gsizes, distributions, psizes);
            lower_array(body(old)?, &axes(gsizes, &chosen, *order, old.extent()))
        }
    }
}

/// The piece of one old instance.
fn body(old: &Datatype) -> Option<Piece> {
    old.layout().root().cloned()
}

/// `n` old instances, one extent apart.
fn block(old: &Datatype, n: u64) -> Option<Piece> {
    repeat(body(old)?, n, old.extent())
}

fn lower_named(named: Named) -> Option<Piece> {
    let mut runs = RunList::default();
    named.elements().for_each(|(at, prim)| runs.push(at as i64, prim.bytes.into()));
    runs.into_piece()
}

fn lower_struct(
    datatype: &Datatype,
    blocklengths: &[u64],
    displacements: &[i64],
    types: &[Datatype],
) -> Option<Piece> {
    let fields = || blocklengths.iter().zip(displacements).zip(types);
    let same = |left: &Datatype, right: &Datatype| Arc::ptr_eq(&left.0, &right.0);
    let mut lengths = blocklengths;
    let mut all_runs = types.chunk_by(same).map(|group| {
        let (here, rest) = lengths.split_at(group.len());
        lengths = rest;
        let layout = group[0].layout();
        match layout.root().map(|root| root.as_block().is_some()) {
            None => true,
            Some(is_run) => here.iter().all(|&n| n == 0 || (is_run && (n == 1 || layout.is_dense()))),
        }
    });
    if !all_runs.all(|is_run| is_run) {
        return sequence(fields().filter_map(|((&n, &at), old)| Some(shift(block(old, n)?, at))).collect());
    }
    // First byte and length of the previous type. Consecutive entries of one type use them again.
    let (mut last, mut base, mut bytes) = (None, 0, 0);
    let runs = fields().map(|((&n, &at), old)| {
        if !last.is_some_and(|last| same(last, old)) {
            (base, bytes) = old.layout().root().map_or((0, 0), |root| (root.base, root.facts.size));
            last = Some(old);
        }
        (at.wrapping_add(base), n.wrapping_mul(bytes))
    });
    list_of_runs(datatype, types.len(), runs)
}

/// The piece of all runs of a type, in order.
fn list_of_runs(datatype: &Datatype, room: usize, runs: impl Iterator<Item = (i64, u64)>) -> Option<Piece> {
    piece_of_runs(hull_bytes(datatype), datatype.size(), room, runs)
}

/// The distance from the lowest byte of the data to the end of the highest byte.
fn hull_bytes(datatype: &Datatype) -> u64 {
    datatype.0.bounds.true_ub.wrapping_sub(datatype.0.bounds.true_lb) as u64
}

/// Blocks of one common length.
fn equal_blocks(datatype: &Datatype, block: Piece, displacements: &[i64], unit: i64) -> Option<Piece> {
    let places = displacements.iter().map(|displacement| displacement.wrapping_mul(unit));
    match block.as_block() {
        Some(bytes) => {
            let places = places.map(|place| place.wrapping_add(block.base));
            piece_of_equal_runs(hull_bytes(datatype), datatype.size(), bytes, places)
        }
        None => list(&places.collect::<Vec<_>>(), block),
    }
}

/// Blocks with individual lengths.
fn blocks(
    datatype: &Datatype,
    old: &Datatype,
    blocklengths: &Lengths,
    displacements: &[i64],
    unit: i64,
) -> Option<Piece> {
    match blocklengths.form() {
        Form::Equal { length, .. } => equal_blocks(datatype, block(old, *length)?, displacements, unit),
        Form::Bytes(list) => differing_blocks(datatype, old, list, displacements, unit),
        Form::Words(list) => differing_blocks(datatype, old, list, displacements, unit),
        Form::Wide(list) => differing_blocks(datatype, old, list, displacements, unit),
    }
}

/// As [`blocks`], where the lengths differ.
fn differing_blocks<N: Copy + Into<u64>>(
    datatype: &Datatype,
    old: &Datatype,
    blocklengths: &[N],
    displacements: &[i64],
    unit: i64,
) -> Option<Piece> {
    let body = body(old)?;
    let place = |displacement: i64| displacement.wrapping_mul(unit);
    let all = || blocklengths.iter().map(|&n| n.into()).zip(displacements);
    if body.as_block().is_some_and(|bytes| i64::try_from(bytes) == Ok(old.extent())) {
        let (base, bytes) = (body.base, body.facts.size);
        let runs = all().map(|(n, &at)| (place(at).wrapping_add(base), n.wrapping_mul(bytes)));
        return list_of_runs(datatype, blocklengths.len(), runs);
    }
    let present = || all().filter(|(n, _)| *n > 0);
    let (first, _) = present().next()?;
    if present().all(|(n, _)| n == first) {
        let displacements: Vec<i64> = present().map(|(_, &displacement)| displacement).collect();
        return equal_blocks(datatype, repeat(body, first, old.extent())?, &displacements, unit);
    }
    let parts =
        present().filter_map(|(n, &at)| Some(shift(repeat(body.clone(), n, old.extent())?, place(at))));
    sequence(parts.collect())
}

/// The selected elements of an array, the fastest axis innermost.
fn lower_array(mut piece: Piece, axes: &[Axis]) -> Option<Piece> {
    for Axis { chosen, stride } in axes {
        let at = |index: u64| stride.wrapping_mul(index as i64);
        let block = repeat(piece.clone(), chosen.block, *stride);
        let rest = repeat(piece, chosen.rest, *stride);
        let period = at(chosen.period);
        let mut parts = Vec::with_capacity(2);
        parts.extend(block.and_then(|block| repeat(block, chosen.blocks, period)));
        parts.extend(rest.map(|rest| shift(rest, period.wrapping_mul(chosen.blocks as i64))));
        piece = shift(sequence(parts)?, at(chosen.first));
    }
    Some(piece)
}
