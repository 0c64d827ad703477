//! Permute programs: a template as byte permutations between windows of 64 bytes.
//!
//! A window of the target is fed by two windows of the source at a time: two loads and one two-register permutation. What
//! several of these bring together, or each on its own, one masked store takes away. Stores write the bytes of the moves and no other. Loads read whole windows, of which every page holds a byte that
//! is moved: a window lies inside of a *cluster*, bytes of the source with no gap longer than `GAP_MAX`, or is cut to it.
//!
//! Several periods are fused, so that windows are full. To make the program takes some microseconds, so that only what has
//! moved some ten thousand bytes gets one.

use super::nest::NestDim;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::permute_x86 as machine;
use super::program::At;
use super::template::Move;

/// Bytes of a window.
pub(super) const WINDOW_BYTES: i64 = 64;
/// Longer gaps of the source are not read over: with at most so many bytes between neighbors, both pages of any window
/// between them hold one of them.
const GAP_MAX: i64 = 2048;
/// Periods that may be fused.
const FUSED: [u64; 5] = [1, 2, 4, 8, 16];
/// Payload of a fused period.
const BYTES_MAX: u64 = 2048;
const OPS_MAX: usize = 64;
/// Operations whose results may be put together before they are stored.
pub(super) const CHAIN_MAX: usize = 4;
/// What a store, an operation, and a move of a table cost: in tenths of a cycle.
const STORE_COST: u64 = 8;
const OP_COST: u64 = 12;
const MOVE_COST: u64 = 17;

/// Two windows of the source to one of the target.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Op {
    /// For each unit of the target window, the unit of the two source windows that goes there: as wide as a unit.
    pub(super) index: [u8; 64],
    /// Where the windows begin.
    pub(super) sources: [i64; 2],
    pub(super) target: i64,
    /// The units of the source windows that are read, a bit each.
    pub(super) loads: [u64; 2],
    /// The units of the target window that this brings, a bit each.
    pub(super) brings: u64,
    /// Those that are written after this, which may be the last of some.
    pub(super) stores: u64,
}

/// How operations are run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) unit: Unit,
    /// Whether all windows are read whole.
    pub(super) is_whole: bool,
    /// Operations to one store.
    pub(super) chain: usize,
}

/// The bytes that indices and masks count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Byte,
    Word,
}

impl Unit {
    fn bytes(self) -> i64 {
        match self {
            Self::Byte => 1,
            Self::Word => 4,
        }
    }
}

/// What some fused periods of a template are permuted by.
#[derive(Debug)]
pub(super) struct Permute {
    ops: Box<[Op]>,
    /// Periods of the template that are one of this.
    fused_log2: u32,
    form: Form,
    step: NestDim,
}

impl Permute {
    /// The cheapest program of periods of `moves` that are `dim` apart, if this machine has the instructions and a list of
    /// moves is dearer.
    pub(super) fn new(moves: &[Move], dim: NestDim) -> Option<Self> {
        let unit = unit_of(moves, dim);
        if !machine::has(unit) {
            return None;
        }
        Self::planned(moves, dim, unit).filter(|best| best.cost() < MOVE_COST * moves.len() as u64)
    }

    /// The cheapest of the numbers of fused periods.
    fn planned(moves: &[Move], dim: NestDim, unit: Unit) -> Option<Self> {
        let bytes: u64 = moves.iter().map(|next| next.bytes).sum();
        let mut best: Option<Self> = None;
        for fused in FUSED.into_iter().filter(|fused| fused * bytes <= BYTES_MAX) {
            let Some(next) = Self::fused(moves, dim, unit, fused) else { break };
            // Some more speed is not worth a longer program.
            if best.as_ref().is_none_or(|best| next.cost() * 10 < best.cost() * 9) {
                best = Some(next);
            }
        }
        best
    }

    /// A program whatever it costs, if the machine can run it and the moves are of such units.
    #[cfg(test)]
    pub(super) fn forced(moves: &[Move], dim: NestDim, unit: Unit, fused: u64) -> Option<Self> {
        let suits = machine::has(unit) && (unit == Unit::Byte || unit_of(moves, dim) == unit);
        if suits { Self::fused(moves, dim, unit, fused) } else { None }
    }

    /// Tenths of a cycle per period of the template.
    fn cost(&self) -> u64 {
        let ops = self.ops.len() as u64;
        (ops * OP_COST + ops / self.form.chain as u64 * STORE_COST) >> self.fused_log2
    }

    fn fused(moves: &[Move], dim: NestDim, unit: Unit, fused: u64) -> Option<Self> {
        let mut units = units_of(moves, dim, unit, fused);
        let clusters = clusters_of(&units, unit);
        units.sort_unstable_by_key(|next| next.target);
        let mut windows = Vec::new();
        let mut left = &mut units[..];
        while let Some(first) = left.first() {
            let end = first.target + WINDOW_BYTES;
            let (window, rest) = left.split_at_mut(left.partition_point(|next| next.target < end));
            windows.push(feed(window, &clusters, unit));
            left = rest;
            if windows.len() > OPS_MAX {
                return None;
            }
        }
        let (ops, chain) = chained(windows);
        if ops.len() > OPS_MAX {
            return None;
        }
        let all = u64::MAX >> (64 - WINDOW_BYTES / unit.bytes());
        let is_whole = ops.iter().all(|op| op.loads == [all; 2]);
        let far = |stride: i64| stride.wrapping_mul(fused as i64);
        let step = NestDim { n: 0, source: far(dim.source), target: far(dim.target) };
        let form = Form { unit, is_whole, chain };
        Some(Self { ops: ops.into(), fused_log2: fused.ilog2(), form, step })
    }

    /// Copies the first of `n` periods, and returns how many these were: whole fused ones.
    ///
    /// # Safety
    /// As [`super::template::Template::part`], of all bytes of all these periods, which must not meet in the target.
    pub(super) unsafe fn run(&self, at: At, n: u64) -> u64 {
        let groups = n >> self.fused_log2;
        // SAFETY: the machine had the instructions when this was made; the rest is the caller's promise.
        unsafe { machine::run(&self.ops, self.form, at, groups, self.step) };
        groups << self.fused_log2
    }
}

/// The operations of all windows in one list, with as many to each store: one, or what the fullest window needs, whichever
/// is cheaper.
fn chained(windows: Vec<Vec<Op>>) -> (Vec<Op>, usize) {
    let chain = windows.iter().map(Vec::len).max().unwrap_or(1);
    let ops: usize = windows.iter().map(Vec::len).sum();
    let apart = ops as u64 * (OP_COST + STORE_COST);
    let together = windows.len() as u64 * (chain as u64 * OP_COST + STORE_COST);
    if chain > CHAIN_MAX || together >= apart {
        return (windows.into_iter().flatten().collect(), 1);
    }
    let filled = windows.into_iter().flat_map(|mut window| {
        let stores = window.iter().fold(0, |stores, op| stores | op.brings);
        // What is missing repeats the first, and brings nothing.
        let nothing = Op { brings: 0, ..window[0] };
        window.resize(chain, nothing);
        window.into_iter().map(move |op| Op { stores, ..op })
    });
    (filled.collect(), chain)
}

/// One unit that is moved.
#[derive(Debug, Clone, Copy)]
struct Moved {
    source: i64,
    target: i64,
}

/// Words where all that matters is a multiple of them.
fn unit_of(moves: &[Move], dim: NestDim) -> Unit {
    let Some(first) = moves.first() else { return Unit::Byte };
    let odd = moves.iter().fold(dim.source | dim.target, |odd, next| {
        let apart = next.source.wrapping_sub(first.source) | next.target.wrapping_sub(first.target);
        odd | apart | next.bytes as i64
    });
    if odd % 4 == 0 { Unit::Word } else { Unit::Byte }
}

/// All units of some periods.
fn units_of(moves: &[Move], dim: NestDim, unit: Unit, periods: u64) -> Vec<Moved> {
    let step = unit.bytes();
    let mut units = Vec::new();
    for period in 0..periods as i64 {
        let (from, to) = (dim.source.wrapping_mul(period), dim.target.wrapping_mul(period));
        for next in moves {
            let (source, target) = (next.source.wrapping_add(from), next.target.wrapping_add(to));
            let inside = (0..next.bytes as i64).step_by(step as usize);
            units.extend(inside.map(|at| Moved { source: source + at, target: target + at }));
        }
    }
    units
}

/// The stretches of the source without a long gap.
fn clusters_of(units: &[Moved], unit: Unit) -> Vec<(i64, i64)> {
    let mut places: Vec<i64> = units.iter().map(|next| next.source).collect();
    places.sort_unstable();
    let mut clusters: Vec<(i64, i64)> = Vec::new();
    for place in places {
        match clusters.last_mut() {
            Some((_, end)) if place - *end <= GAP_MAX => *end = place + unit.bytes(),
            _ => clusters.push((place, place + unit.bytes())),
        }
    }
    clusters
}

/// The operations that fill one window of the target, which is not empty.
fn feed(window: &mut [Moved], clusters: &[(i64, i64)], unit: Unit) -> Vec<Op> {
    let target = window[0].target;
    window.sort_unstable_by_key(|next| next.source);
    let (mut left, mut ops) = (&window[..], Vec::new());
    while !left.is_empty() {
        let mut op = Op { index: [0; 64], sources: [0; 2], target, loads: [0; 2], brings: 0, stores: 0 };
        for register in 0..2 {
            let Some(next) = left.first() else {
                // One window is enough.
                (op.sources[1], op.loads[1]) = (op.sources[0], op.loads[0]);
                break;
            };
            let (begin, units) = source_window(next.source, clusters, unit);
            op.sources[register] = begin;
            op.loads[register] = u64::MAX >> (64 - units);
            let is_here = |next: &&Moved| next.source + unit.bytes() <= begin + WINDOW_BYTES;
            let here = left.iter().take_while(is_here).count();
            for next in &left[..here] {
                let to = next.target - target;
                let from = (next.source - begin + register as i64 * WINDOW_BYTES) / unit.bytes();
                // Indices are little-endian, and below 128.
                op.index[to as usize] = from as u8;
                op.brings |= 1 << (to / unit.bytes());
            }
            left = &left[here..];
        }
        op.stores = op.brings;
        ops.push(op);
    }
    ops
}

/// The window to read a place from, and how many units of it.
fn source_window(place: i64, clusters: &[(i64, i64)], unit: Unit) -> (i64, i64) {
    let at = clusters.partition_point(|cluster| cluster.1 <= place).min(clusters.len() - 1);
    let (begin, end) = clusters[at];
    if end - begin < WINDOW_BYTES {
        return (begin, (end - begin) / unit.bytes());
    }
    (place.min(end - WINDOW_BYTES), WINDOW_BYTES / unit.bytes())
}

/// Machines without such instructions have no such programs.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod machine {
    use super::{At, Form, NestDim, Op, Unit};

    pub(super) fn has(_: Unit) -> bool {
        false
    }

    /// # Safety
    /// None: nothing is done.
    pub(super) unsafe fn run(_: &[Op], _: Form, _: At, _: u64, _: NestDim) {}
}
