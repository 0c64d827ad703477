//! Permute programs: a template as byte permutations between windows of 64 bytes.
//!
//! A window of the target is fed by two windows of the source at a time: two loads and one two-register permutation. What
//! several of these bring together, or each on its own, one masked store takes away. Stores write the bytes of the moves and
//! no other. Loads read whole windows, of which every page holds a byte that is moved: a window lies inside of a *cluster*,
//! bytes of the source with no gap longer than `GAP_MAX`, or is cut to it.
//!
//! Several periods are fused, so that windows are full. Where that many periods are a multiple of 64 bytes apart in the
//! target, its windows can be its lines: then no store crosses a line, and each is an aligned one. That is worth a plan for
//! the place that the target has in its line: of masked stores to memory beyond the caches, the form of the instruction that
//! takes any address runs at half the speed of the aligned one (measured on Zen 5, 64 MiB, 4.1 and 2.1 ns for each), wherever
//! it stores to. Targets that lie differently in their lines begin a few periods later, or are stored to unaligned.
//!
//! To make the program takes some microseconds, so that only what has moved some ten thousand bytes gets one.

use super::nest::NestDim;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::permute_x86 as machine;
use super::program::At;
use super::template::Move;
use crate::piece::gcd;

/// Bytes of a window.
pub(super) const WINDOW_BYTES: i64 = 64;
/// Bytes of a line of the caches: as many.
const LINE: u64 = WINDOW_BYTES as u64;
/// Operations whose indices stay in registers, if there are no more.
pub(super) const FEW_MAX: usize = 12;
/// Longer gaps of the source are not read over: with at most so many bytes between neighbors, both pages of any window
/// between them hold one of them.
const GAP_MAX: i64 = 2048;
/// Periods that may be fused.
const FUSED: [u64; 5] = [1, 2, 4, 8, 16];
/// Payload of a fused period.
const BYTES_MAX: u64 = 2048;
const OPS_MAX: usize = 64;
/// Fused periods in a row for which it pays to begin at a line.
const ROW_GROUPS_MIN: u64 = 4;
/// Bytes of the target that are sent for at once, and how far ahead.
const FETCHED_BYTES: u64 = 1024;
const FETCHED_AHEAD: i64 = 1280;
/// Operations whose results may be put together before they are stored.
pub(super) const CHAIN_MAX: usize = 4;
/// What an operation costs on one window, or two; what more if its index does not stay in a register; what more for each
/// window, and for its store, if that is no line; and what a move of a table costs: in hundredths of a nanosecond.
const SINGLE_COST: u64 = 35;
const OP_COST: u64 = 60;
const INDEX_COST: u64 = 30;
const WINDOW_COST: u64 = 15;
const STORE_COST: u64 = 25;
const MOVE_COST: u64 = 35;

/// Two windows of the source to one of the target. What a loop needs of it is together, as loads are what it waits for.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Op {
    /// For each unit of the target window, the unit of the two source windows that goes there: as wide as a unit.
    pub(super) index: [u8; 64],
    /// Where the windows begin, in 32 bits each: the second one above.
    pub(super) sources: u64,
    /// Where the target window begins, in 32 bits, and above the first 32 units of it that are written after this operation,
    /// which may be the last of some.
    pub(super) aim: u64,
    /// All units that are so written, a bit each.
    pub(super) stores: u64,
    /// The units of the target window that this brings, a bit each.
    pub(super) brings: u64,
    /// The units of the source windows that are read, a bit each.
    pub(super) loads: [u64; 2],
}

/// How operations are run.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), expect(dead_code, reason = "nothing is run there"))]
pub(super) struct Form {
    pub(super) unit: Unit,
    /// Whether all windows are read whole.
    pub(super) is_whole: bool,
    /// How many of the operations, the first ones, read one window; each of them is stored.
    pub(super) singles: usize,
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
    fused: u64,
    form: Form,
    step: NestDim,
    /// The place in its line, in bytes, of a target whose windows are lines.
    lines_at: Option<u64>,
    /// Bytes from one period to the next in the target.
    stride: i64,
}

impl Permute {
    /// The cheapest program of periods of `moves` that are `dim` apart, if this machine has the instructions and a list of
    /// moves is dearer. Made for sides that lie in their lines as those of `at` do.
    /// Outside of `dim`, whose count is that of a row, all repetitions may keep the place in the line.
    /// With what a period costs, in hundredths of a nanosecond.
    pub(super) fn new(moves: &[Move], dim: NestDim, keeps_lines: bool, at: At) -> Option<(u64, Self)> {
        let unit = unit_of(moves, dim);
        if !machine::has(unit) {
            return None;
        }
        Self::planned(moves, dim, keeps_lines, unit, at)
    }

    /// The cheapest of the numbers of fused periods.
    fn planned(moves: &[Move], dim: NestDim, keeps_lines: bool, unit: Unit, at: At) -> Option<(u64, Self)> {
        let bytes: u64 = moves.iter().map(|next| next.bytes).sum();
        let fits = |fused: &u64| fused * bytes <= BYTES_MAX;
        let places = Places::of(moves, unit, at);
        let anywhere = FUSED.into_iter().map(|fused| (fused, Places { target: None, ..places }));
        let on_lines = [1, 2, 4].map(|times| (times * periods_to_line(dim.target), places));
        // Rows that are short must all begin at one place of a line.
        let holds = |fused: u64| keeps_lines || dim.n >= ROW_GROUPS_MIN * fused;
        let on_lines = on_lines.into_iter().filter(|(fused, at)| at.target.is_some() && holds(*fused));
        let mut best: Option<(u64, Self)> = None;
        for (fused, places) in on_lines.chain(anywhere).filter(|(fused, _)| fits(fused)) {
            let Some(next) = Self::fused(moves, dim, unit, fused, places) else { continue };
            let cost = next.cost(places);
            // Some more speed is not worth a longer program.
            if best.as_ref().is_none_or(|best| cost * 10 < best.0 * 9) {
                best = Some((cost, next));
            }
        }
        best.filter(|(cost, _)| *cost < MOVE_COST * moves.len() as u64)
    }

    /// A program whatever it costs, if the machine can run it and the moves are of such units: with windows that are lines,
    /// where they can be, or not.
    #[cfg(test)]
    pub(super) fn forced(
        moves: &[Move],
        dim: NestDim,
        unit: Unit,
        fused: u64,
        (at, on_lines): (At, bool),
    ) -> Option<Self> {
        if !machine::has(unit) || (unit == Unit::Word && unit_of(moves, dim) == Unit::Byte) {
            return None;
        }
        let places = Places::of(moves, unit, at);
        if on_lines && places.target.is_some() {
            return Self::fused(moves, dim, unit, fused * periods_to_line(dim.target), places);
        }
        Self::fused(moves, dim, unit, fused, Places { target: None, ..places })
    }

    /// Hundredths of a nanosecond per period of the template.
    fn cost(&self, places: Places) -> u64 {
        let Form { chain, singles, .. } = self.form;
        let is_off = |begin: i64, place: u64| (begin + place as i64) % WINDOW_BYTES != 0;
        let in_registers = self.ops.len() <= FEW_MAX && chain == 1;
        let ops = self.ops.iter().enumerate().map(|(i, op)| {
            let windows = if i < singles { 1 } else { 2 };
            let off = (0..windows).filter(|window| is_off(op.source(*window), places.source)).count() as u64;
            let index = if in_registers { 0 } else { INDEX_COST };
            off * WINDOW_COST + index + if i < singles { SINGLE_COST } else { OP_COST }
        });
        let stores = if self.lines_at.is_some() { 0 } else { (self.ops.len() / chain) as u64 * STORE_COST };
        (ops.sum::<u64>() + stores) / self.fused
    }

    /// A program of `fused` periods; if its windows are to be lines, so many strides must be a multiple of them.
    fn fused(moves: &[Move], dim: NestDim, unit: Unit, fused: u64, places: Places) -> Option<Self> {
        let mut units = units_of(moves, dim, unit, fused);
        let clusters = clusters_of(&units, unit);
        units.sort_unstable_by_key(|next| next.target);
        let mut windows = Vec::new();
        let mut left = &mut units[..];
        while let Some(first) = left.first() {
            let begin = match places.target {
                Some(at) => first.target - (first.target + at as i64).rem_euclid(WINDOW_BYTES),
                None => first.target,
            };
            let (window, rest) =
                left.split_at_mut(left.partition_point(|next| next.target < begin + WINDOW_BYTES));
            windows.push(feed(window, begin, &clusters, unit, places.source)?);
            left = rest;
            if windows.len() > OPS_MAX {
                return None;
            }
        }
        let (mut ops, chain) = chained(windows);
        if ops.len() > OPS_MAX {
            return None;
        }
        let all = u64::MAX >> (64 - WINDOW_BYTES / unit.bytes());
        let is_whole = ops.iter().all(|op| op.loads == [all; 2]);
        let mut singles = 0;
        if chain == 1 {
            ops.sort_by_key(|op| !op.is_single());
            singles = ops.iter().take_while(|op| op.is_single()).count();
        }
        let far = |stride: i64| stride.wrapping_mul(fused as i64);
        let step = NestDim { n: 0, source: far(dim.source), target: far(dim.target) };
        let form = Form { unit, is_whole, singles, chain };
        Some(Self { ops: ops.into(), fused, form, step, lines_at: places.target, stride: dim.target })
    }

    /// How many periods to leave to others, so that behind them windows are lines; 0 if there is no such number, or if few
    /// of `n` were left.
    pub(super) fn periods_before(&self, target: *mut u8, n: u64) -> u64 {
        let Some(at) = self.lines_at else { return 0 };
        let is_at = |periods: &u64| {
            let stride = self.stride.wrapping_mul(*periods as i64) as u64;
            (target.addr() as u64).wrapping_add(stride) % LINE == at
        };
        if is_at(&0) || n < ROW_GROUPS_MIN * self.fused {
            return 0;
        }
        (1..self.fused).find(is_at).unwrap_or(0)
    }

    /// As [`Permute::run`], of a long copy: lines of the target that stores will not take whole are sent for before. Masked
    /// stores to any address do not do that by themselves.
    ///
    /// # Safety
    /// As [`Permute::run`].
    pub(super) unsafe fn run_far(&self, mut at: At, n: u64) -> u64 {
        let stride = self.step.target;
        if self.is_on_lines(at) || stride.unsigned_abs() > FETCHED_BYTES {
            // SAFETY: the caller's promise.
            return unsafe { self.run(at, n) };
        }
        let groups = FETCHED_BYTES / stride.unsigned_abs().max(LINE);
        let mut done = 0;
        while n - done >= self.fused {
            let periods = (groups * self.fused).min(n - done);
            let bytes = stride.unsigned_abs() * periods.div_ceil(self.fused);
            let ahead = stride.signum() * FETCHED_AHEAD;
            let low = ahead - if stride < 0 { bytes as i64 } else { 0 };
            machine::fetch(at.by(0, low).target, bytes);
            // SAFETY: the caller's promise, of the next periods.
            let moved = unsafe { self.run(at, periods) };
            at = at.times(self.step, moved / self.fused);
            done += moved;
        }
        done
    }

    /// Whether windows of a target are lines.
    fn is_on_lines(&self, at: At) -> bool {
        self.lines_at.is_some_and(|place| at.target.addr() as u64 % LINE == place)
    }

    /// Copies the first of `n` periods, and returns how many these were: whole fused ones.
    ///
    /// # Safety
    /// As [`super::template::Template::part`], of all bytes of all these periods, which must not meet in the target.
    pub(super) unsafe fn run(&self, at: At, n: u64) -> u64 {
        let groups = n / self.fused;
        // The step is a whole number of lines, and so is the way from there to each window.
        let on_lines = self.is_on_lines(at);
        // SAFETY: the machine had the instructions when this was made; the rest is the caller's promise.
        unsafe { machine::run(&self.ops, self.form, on_lines, at, groups, self.step) };
        groups * self.fused
    }
}

impl Op {
    /// Whether one window is enough.
    fn is_single(&self) -> bool {
        self.source(0) == self.source(1) && self.loads[0] == self.loads[1]
    }

    /// Where a source window begins.
    #[inline]
    pub(super) fn source(&self, window: usize) -> i64 {
        i64::from((self.sources >> (32 * window)) as i32)
    }

    fn set_source(&mut self, window: usize, begin: i32) {
        self.sources &= !(u64::from(u32::MAX) << (32 * window));
        self.sources |= u64::from(begin as u32) << (32 * window);
    }

    /// This operation, with so many units written after it.
    fn storing(self, stores: u64) -> Self {
        let aim = self.aim & u64::from(u32::MAX) | stores << 32;
        Self { aim, stores, ..self }
    }
}

/// How the sides lie in their lines, in bytes.
#[derive(Debug, Clone, Copy)]
struct Places {
    source: u64,
    /// `None` if windows cannot be lines: bytes have no aligned stores, nor do words across lines.
    target: Option<u64>,
}

impl Places {
    fn of(moves: &[Move], unit: Unit, at: At) -> Self {
        let [source, target] = [at.source.addr() as u64 % LINE, at.target.addr() as u64 % LINE];
        let first = moves.first().map_or(0, |first| first.target);
        let is_whole = unit == Unit::Word && (first.wrapping_add(target as i64)) % 4 == 0;
        Self { source, target: is_whole.then_some(target) }
    }
}

/// How many periods are a whole number of lines.
fn periods_to_line(stride: i64) -> u64 {
    LINE / gcd(stride.unsigned_abs(), LINE)
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
        window.into_iter().map(move |op| op.storing(stores))
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

/// The operations that fill the window of the target that begins at `target`: from lines of the source, which lies at
/// `source_at` in its line, if no fewer of them would do. `None` if places are too far apart.
fn feed(
    window: &mut [Moved],
    target: i64,
    clusters: &[(i64, i64)],
    unit: Unit,
    source_at: u64,
) -> Option<Vec<Op>> {
    window.sort_unstable_by_key(|next| next.source);
    let fed = |source_at| fed_by(window, target, clusters, unit, source_at);
    let (anywhere, by_lines) = (fed(None)?, fed(Some(source_at))?);
    let windows = |ops: &[Op]| ops.iter().map(|op| if op.is_single() { 1 } else { 2 }).sum::<usize>();
    Some(if windows(&by_lines) <= windows(&anywhere) { by_lines } else { anywhere })
}

fn fed_by(
    window: &[Moved],
    target: i64,
    clusters: &[(i64, i64)],
    unit: Unit,
    source_at: Option<u64>,
) -> Option<Vec<Op>> {
    let (mut left, mut ops) = (window, Vec::new());
    let aim = u64::from(i32::try_from(target).ok()? as u32);
    while !left.is_empty() {
        let mut op = Op { index: [0; 64], sources: 0, aim, stores: 0, brings: 0, loads: [0; 2] };
        for register in 0..2 {
            let Some(next) = left.first() else {
                // One window is enough.
                op.set_source(1, op.source(0) as i32);
                op.loads[1] = op.loads[0];
                break;
            };
            let (begin, units) = source_window(next.source, clusters, unit, source_at);
            op.set_source(register, i32::try_from(begin).ok()?);
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
        ops.push(op.storing(op.brings));
    }
    Some(ops)
}

/// The window to read a place from, and how many units of it: the line of a source that lies at `source_at` in its line, or
/// what begins there; but nothing outside of the cluster.
fn source_window(place: i64, clusters: &[(i64, i64)], unit: Unit, source_at: Option<u64>) -> (i64, i64) {
    let at = clusters.partition_point(|cluster| cluster.1 <= place).min(clusters.len() - 1);
    let (begin, end) = clusters[at];
    if end - begin < WINDOW_BYTES {
        return (begin, (end - begin) / unit.bytes());
    }
    let wanted = match source_at {
        // Units of a source at an odd address lie across its lines.
        Some(at) => place - (place + at as i64).rem_euclid(WINDOW_BYTES) / unit.bytes() * unit.bytes(),
        None => place,
    };
    (wanted.max(begin).min(end - WINDOW_BYTES), WINDOW_BYTES / unit.bytes())
}

/// Machines without such instructions have no such programs.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod machine {
    use super::{At, Form, NestDim, Op, Unit};

    pub(super) fn has(_: Unit) -> bool {
        false
    }

    pub(super) fn fetch(_: *const u8, _: u64) {}

    /// # Safety
    /// None: nothing is done.
    pub(super) unsafe fn run(_: &[Op], _: Form, _: bool, _: At, _: u64, _: NestDim) {}
}
