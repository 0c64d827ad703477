//! The estimate of the bytes that ranks pack for other nodes in a round.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use capulet_datatype::Cursor;

use super::setup::{RankPart, Setup};
use crate::wire::{
    AREAS_BYTES_MAX, ENTRY_BYTES, HEADER_BYTES, RUN_BYTES_MAX, RUNS_BYTES_MAX, RunWriter, VIEW_BYTES_MAX,
    encode_view,
};
use crate::{Direction, FileSide, Grid};

/// The bytes of one rank that lie in the collective buffers of one node.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    pub(super) node: usize,
    /// The file offset at which the collective buffers of the node begin.
    pub(super) origin: u64,
    /// Bytes of the access, counted from its start.
    pub(super) part: Range<u64>,
}

/// Totals of the message fragments of one round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundTraffic {
    /// Pairs of nodes in which one node has bytes in collective buffers of the other.
    pub(super) pairs: u64,
    /// Bounds of the bytes of the message fragments and, for a read, of the bytes that the fragments
    /// request.
    pub(super) bytes_least: u64,
    pub(super) bytes_most: u64,
    /// Whether a rank may have more than its area holds.
    pub(super) is_split: bool,
}

/// The views of the ranks, and the nodes that know them.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    setup: &'a Setup,
    grid: Grid,
    /// Bytes of the description of each rank's view; `None` if the rank sends runs instead.
    views: Vec<Option<usize>>,
    known: Vec<BTreeSet<usize>>,
    ranks_of_node: Vec<usize>,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(parts: &[RankPart], setup: &'a Setup, grid: Grid) -> Self {
        let bytes_max = VIEW_BYTES_MAX.min(setup.allocated_bytes as usize / 4);
        let view = |part: &RankPart| encode_view(&part.side, bytes_max).map(|view| view.len());
        Self {
            setup,
            grid,
            views: parts.iter().map(view).collect(),
            known: vec![BTreeSet::new(); parts.len()],
            ranks_of_node: setup.ranks_by_node().iter().map(Vec::len).collect(),
        }
    }

    /// How many bytes a rank may pack in a step.
    fn area_bytes(&self, rank: usize) -> u64 {
        let halves = if self.setup.direction == Direction::Read { 1 } else { 2 };
        let share = AREAS_BYTES_MAX / self.ranks_of_node[self.setup.node_of[rank]];
        (halves * self.setup.allocated_bytes).min(share as u64)
    }

    /// Estimates the message fragments of a round. `runs_left` is the number of runs that may still be
    /// visited.
    pub(super) fn round(
        &mut self,
        parts: &[RankPart],
        bundles: &BTreeMap<usize, Vec<Bundle>>,
        runs_left: &mut u64,
    ) -> RoundTraffic {
        let mut traffic = RoundTraffic::default();
        let mut pairs = BTreeSet::new();
        for (rank, bundles) in bundles {
            let mut used = 0;
            for bundle in bundles {
                pairs.insert((self.setup.node_of[*rank], bundle.node));
                let bytes = bundle.part.end - bundle.part.start;
                let (fragments, least, most) = self.describe(*rank, &parts[*rank].side, bundle, runs_left);
                traffic.bytes_least += bytes + least;
                traffic.bytes_most += bytes + most;
                used += bytes + most + fragments * ENTRY_BYTES as u64;
            }
            // A rank that encodes runs keeps room for the longest runs that may follow.
            let kept = if self.views[*rank].is_none() { 2 * RUN_BYTES_MAX as u64 } else { 0 };
            traffic.is_split |= used + kept > self.area_bytes(*rank);
        }
        traffic.pairs = pairs.len() as u64;
        traffic
    }

    /// Returns the greatest number of fragments of a bundle, and the bounds of the bytes of their headers
    /// and descriptions.
    fn describe(
        &mut self,
        rank: usize,
        side: &FileSide,
        bundle: &Bundle,
        runs_left: &mut u64,
    ) -> (u64, u64, u64) {
        let header = HEADER_BYTES as u64;
        if let Some(view) = self.views[rank] {
            let is_new = self.known[rank].insert(bundle.node);
            let bytes = header + if is_new { view as u64 } else { 0 };
            return (1, bytes, bytes);
        }
        let runs = side.run_count_of(bundle.part.clone());
        if runs > *runs_left {
            let most = runs.saturating_mul(RUN_BYTES_MAX as u64);
            let fragments = 1 + most / (RUNS_BYTES_MAX as u64 / 2);
            return (fragments, header + 2 * runs, fragments * header + most);
        }
        *runs_left -= runs;
        let (fragments, bytes) = encode_runs(side, bundle, self.grid.unit_bytes);
        (fragments, fragments * header + bytes, fragments * header + bytes)
    }
}

/// Encodes a bundle run by run, and returns the number of fragments and the bytes of the descriptions.
fn encode_runs(side: &FileSide, bundle: &Bundle, unit_bytes: u64) -> (u64, u64) {
    let mut cursor = Cursor::new(side.file().clone());
    cursor.seek(side.file_start() + bundle.part.start);
    let mut writer = RunWriter::new(bundle.origin, unit_bytes);
    let (mut fragments, mut bytes) = (1, 0);
    let _ = cursor.for_each_run(bundle.part.end - bundle.part.start, |run| {
        if writer.bytes_with_one_more() > RUNS_BYTES_MAX {
            let full = std::mem::replace(&mut writer, RunWriter::new(bundle.origin, unit_bytes));
            bytes += full.finish().len() as u64;
            fragments += 1;
        }
        writer.push((side.displacement_bytes() + run.offset) as u64, run.len);
        ControlFlow::<()>::Continue(())
    });
    (fragments, bytes + writer.finish().len() as u64)
}
