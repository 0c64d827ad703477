//! The estimate of the rounds of one set of nodes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::count::Count;
use super::exchange::{Bundle, Exchange};
use super::setup::{Limits, RankPart, Setup, span_of};
use super::values::{BufferEstimate, NodeSet, Round, Share, Totals};
use crate::grid::place_of;
use crate::marks::{each_run, mark_side, take_runs};
use crate::way::{BATCH_TRANSFERS, HoleReads, span_to_fill};
use crate::{Direction, Grid, Holes};

/// Up to this many units, a collective buffer is marked to count its runs. For a larger map the number of
/// runs has only bounds.
const MAP_UNITS_MAX: u64 = 1 << 28;

struct Walk<'a> {
    parts: &'a [RankPart],
    setup: &'a Setup,
    grid: Grid,
    /// The rank of each collective buffer of a round.
    aggregators: Vec<u32>,
    ranks: Vec<usize>,
    /// Bytes of each rank's access, from its start, that earlier rounds have taken.
    done: Vec<u64>,
    map: Vec<AtomicU64>,
    /// Whether aggregators may write holes back. They may if these nodes have all requested bytes of the
    /// file.
    may_fill: bool,
    totals: Totals,
}

/// The aggregators of the collective buffers of a round, by buffer. They are ordered by rank within a
/// node. A node that does not exchange has at least one.
fn aggregators(setup: &Setup, ranks: &[Vec<usize>], nodes: &[usize], exchanges: bool) -> Vec<u32> {
    let least = usize::from(!exchanges);
    let of_node = |node: &usize| {
        let (ranks, count) = (&ranks[*node], setup.aggregators[*node].max(least));
        let rank = move |index| ranks[place_of(index, ranks.len(), count)] as u32;
        (0..count).map(rank).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of_node).collect()
}

/// Estimates the rounds of `nodes` as far as `limits` allow, and reduces `limits` by the amounts used.
pub(super) fn walk(
    parts: &[RankPart],
    setup: &Setup,
    (grid, ranks_by_node): (Grid, &[Vec<usize>]),
    nodes: Vec<usize>,
    exchanges: bool,
    limits: &mut Limits,
) -> NodeSet {
    let ranks: Vec<usize> = nodes.iter().flat_map(|node| ranks_by_node[*node].iter().copied()).collect();
    let units = grid.collective_buffer_bytes.div_ceil(grid.unit_bytes);
    let map = if units > MAP_UNITS_MAX { 0 } else { units.div_ceil(64) };
    let mut walk = Walk {
        parts,
        setup,
        grid,
        aggregators: aggregators(setup, ranks_by_node, &nodes, exchanges),
        done: vec![0; ranks.len()],
        ranks,
        map: (0..map).map(|_| AtomicU64::new(0)).collect(),
        may_fill: setup.direction == Direction::Write
            && setup.hints.holes == Holes::Rewritten
            && (setup.nodes() == 1 || exchanges),
        totals: Totals::default(),
    };
    let mut exchange = exchanges.then(|| Exchange::new(parts, setup, grid));
    let end = span_of(parts, &walk.ranks).end;
    let mut rounds = Vec::new();
    let mut next = walk.next();
    while let Some(first) = next.filter(|_| limits.shares > 0) {
        let base = grid.base_of(first);
        let Some(shares) = walk.shares(base, limits) else { break };
        rounds.push(walk.round(base, &shares, exchange.as_mut(), limits));
        next = walk.next();
    }
    let is_whole = next.is_none();
    let covered_bytes = grid.collective_buffer_bytes.saturating_mul(walk.aggregators.len().max(1) as u64);
    let rest = next.map_or(0, |next| (end - grid.base_of(next)).div_ceil(covered_bytes));
    walk.close(nodes.len(), exchanges, is_whole, rounds.is_empty());
    let rounds_most = walk.totals.rounds.saturating_add(rest);
    NodeSet { nodes, rounds, totals: walk.totals, is_whole, rounds_most }
}

impl Walk<'_> {
    /// The lowest file offset that any rank still needs.
    fn next(&self) -> Option<u64> {
        let offsets = self.ranks.iter().zip(&self.done).filter_map(|(rank, done)| {
            let side = &self.parts[*rank].side;
            (*done < side.bytes()).then(|| side.offset_of(*done))
        });
        offsets.min()
    }

    fn round(
        &mut self,
        base: u64,
        shares: &BTreeMap<u64, Vec<Share>>,
        exchange: Option<&mut Exchange<'_>>,
        limits: &mut Limits,
    ) -> Round {
        let mut buffers = Vec::new();
        for (number, shares) in shares {
            buffers.push(self.buffer(base, *number, shares, limits));
        }
        let mut pairs = 0;
        if let Some(exchange) = exchange {
            let bundles = self.bundles(base, shares);
            let traffic = exchange.round(self.parts, &bundles, &mut limits.runs);
            pairs = traffic.pairs;
            self.totals.pairs += pairs;
            self.totals.is_split |= traffic.is_split;
            let sent = Count { least: traffic.bytes_least, most: traffic.bytes_most };
            self.totals.exchanged_bytes = self.totals.exchanged_bytes + sent;
            let remote = bundles.values().flatten().map(|bundle| bundle.part.end - bundle.part.start);
            self.totals.remote_bytes += remote.sum::<u64>();
        }
        self.totals.rounds += 1;
        Round { base, buffers, pairs }
    }

    /// The parts of the ranks in the collective buffers of a round. `None` if they exceed the limits,
    /// which are then used up.
    fn shares(&mut self, base: u64, limits: &mut Limits) -> Option<BTreeMap<u64, Vec<Share>>> {
        // The scan also visits ranks without bytes in the round: 16 ranks count as one share.
        limits.shares = limits.shares.saturating_sub(self.ranks.len() as u64 / 16);
        let before = self.done.clone();
        let mut shares: BTreeMap<u64, Vec<Share>> = BTreeMap::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            let (side, done) = (&self.parts[*rank].side, &mut self.done[index]);
            while *done < side.bytes() {
                let number = (side.offset_of(*done) - base) / self.grid.collective_buffer_bytes;
                if number >= self.aggregators.len() as u64 {
                    break;
                }
                let end = side.bytes_below(self.grid.range(base, number).end);
                if limits.shares == 0 {
                    self.done = before;
                    return None;
                }
                limits.shares -= 1;
                let share = Share { rank: *rank as u32, part: *done..end };
                shares.entry(number).or_default().push(share);
                *done = end;
            }
        }
        Some(shares)
    }

    fn buffer(&mut self, base: u64, number: u64, shares: &[Share], limits: &mut Limits) -> BufferEstimate {
        let file = self.grid.range(base, number);
        let runs = |share: &Share| self.parts[share.rank as usize].side.run_count_of(share.part.clone());
        let runs: u64 = shares.iter().map(runs).sum();
        let bytes: u64 = shares.iter().map(|share| share.part.end - share.part.start).sum();
        let is_counted = !self.map.is_empty() && runs <= limits.runs;
        let in_batches = |pieces: u64| pieces.div_ceil(BATCH_TRANSFERS as u64);
        let (pieces, batches, is_overlapped) = if is_counted {
            limits.runs -= runs;
            let (runs, reads, is_overlapped) = self.count(&file, shares);
            // Each read of holes is a batch of its own.
            let pieces = runs + reads;
            let batches = reads + in_batches(runs);
            (Count::exactly(pieces), Count::exactly(batches), is_overlapped)
        } else {
            let units = self.grid.collective_buffer_bytes.div_ceil(self.grid.unit_bytes);
            // Holes are written back only where that takes fewer calls.
            let pieces = Count { least: 1, most: runs.min(units) };
            let most = if self.may_fill { pieces.most } else { in_batches(pieces.most) };
            // If the shares have more bytes than the buffer, some byte is written twice.
            (pieces, Count { least: 1, most }, bytes > self.grid.collective_buffer_bytes)
        };
        let is_overlapped = is_overlapped && self.setup.direction == Direction::Write;
        let may_overlap = !is_counted && shares.len() > 1 && self.setup.direction == Direction::Write;
        let copied = Count { least: bytes, most: if may_overlap { 2 * bytes } else { bytes } };
        self.totals.is_overlapped |= is_overlapped;
        self.totals.pieces = self.totals.pieces + pieces;
        self.totals.batches = self.totals.batches + batches;
        self.totals.copied_bytes = self.totals.copied_bytes + copied;
        let aggregator = self.aggregators[number as usize];
        BufferEstimate { aggregator, file, shares: shares.to_vec(), pieces, batches, is_overlapped }
    }

    /// Returns the runs of a collective buffer as they are moved, the reads of its holes, and whether a
    /// unit is marked twice.
    fn count(&self, file: &Range<u64>, shares: &[Share]) -> (u64, u64, bool) {
        let (unit_bytes, bridge) = match self.setup.direction {
            Direction::Write => (self.grid.unit_bytes, 0),
            Direction::Read => (self.grid.read_unit_bytes(), self.grid.read_bridge_units()),
        };
        let mut is_marked_twice = false;
        for share in shares {
            let side = &self.parts[share.rank as usize].side;
            is_marked_twice |= mark_side(side, &self.map, file.start, &share.part, unit_bytes);
        }
        let reads = if self.may_fill { self.reads(unit_bytes) } else { 0 };
        let mut runs = 0;
        take_runs(&self.map, bridge, |_| runs += 1);
        (if reads > 0 { 1 } else { runs }, reads, is_marked_twice)
    }

    /// Returns the number of reads of holes of the marked buffer; 0 if the runs are written one by one.
    fn reads(&self, unit_bytes: u64) -> u64 {
        let bytes_of = |units: Range<u64>| units.start * unit_bytes..units.end * unit_bytes;
        let each = |visit: &mut dyn FnMut(Range<u64>)| each_run(&self.map, |units| visit(bytes_of(units)));
        let Some(span) = span_to_fill(each) else { return 0 };
        let (mut reads, mut count) = (HoleReads::new(&span), 0);
        each(&mut |run| reads.before(&run, |_, _, is_new| count += u64::from(is_new)));
        count
    }

    /// The parts of the ranks that lie in collective buffers of other nodes.
    fn bundles(&self, base: u64, shares: &BTreeMap<u64, Vec<Share>>) -> BTreeMap<usize, Vec<Bundle>> {
        let node_of_buffer = |number: u64| self.setup.node_of[self.aggregators[number as usize] as usize];
        let mut bundles: BTreeMap<usize, Vec<Bundle>> = BTreeMap::new();
        for (number, shares) in shares {
            let node = node_of_buffer(*number);
            let first = self.setup.aggregators[..node].iter().sum::<usize>() as u64;
            for share in shares.iter().filter(|share| self.setup.node_of[share.rank as usize] != node) {
                let of_rank = bundles.entry(share.rank as usize).or_default();
                match of_rank.last_mut().filter(|bundle| bundle.node == node) {
                    Some(bundle) => bundle.part.end = share.part.end,
                    None => of_rank.push(Bundle {
                        node,
                        origin: self.grid.range(base, first).start,
                        part: share.part.clone(),
                    }),
                }
            }
        }
        bundles
    }

    /// Computes the totals that depend on all rounds.
    fn close(&mut self, nodes: usize, exchanges: bool, is_whole: bool, is_empty: bool) {
        let totals = &mut self.totals;
        let one_step = if exchanges { 2 } else { 1 };
        let survey = if exchanges || self.setup.nodes() > nodes { 2 } else { 0 };
        let barriers = survey + if is_empty { 0 } else { one_step * (totals.rounds + 1) };
        let is_exact =
            is_whole && !totals.is_overlapped && !totals.is_split && totals.copied_bytes.is_exact();
        totals.barriers = Count { least: barriers, most: if is_exact { barriers } else { u64::MAX } };
        if !is_whole {
            // Rounds that were not visited may take any amount.
            for count in [&mut totals.pieces, &mut totals.batches, &mut totals.exchanged_bytes] {
                count.most = u64::MAX;
            }
            totals.copied_bytes.most = u64::MAX;
        }
        if totals.is_overlapped {
            totals.copied_bytes = Count { least: 0, most: totals.copied_bytes.most.saturating_mul(2) };
        }
        if totals.is_overlapped || totals.is_split {
            totals.exchanged_bytes = Count { least: totals.remote_bytes, most: u64::MAX };
        }
    }
}
