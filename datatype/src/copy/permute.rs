//! Permute programs: a template as byte permutations between vectors of 64 bytes.
//!
//! A *vector* here (`window` in the names of the code) is 64 consecutive bytes of a side, as many as a
//! register holds. An operation takes two source vectors and brings some of their units to one target
//! vector: two loads and one two-register permutation. One masked store writes the result of a single
//! operation, or the combined results of several. Stores write the bytes of the moves and no others. Loads
//! read whole vectors. Every page that a load reads holds a byte that is moved, because each source vector
//! lies inside of a *cluster*, a stretch of the source without a gap longer than `GAP_MAX`; at a shorter
//! cluster the load is masked to the cluster.
//!
//! Several periods are fused, so that vectors are full. If the fused periods are a multiple of 64 bytes
//! apart in the target, the target vectors can be cache lines: then no store crosses a line, and each store
//! is an aligned one. For this speed a program is planned for one offset of the target within its line: for
//! masked stores to memory beyond the caches, the instruction that takes any address has half the speed of
//! the aligned one (measured on Zen 5, 64 MiB: 4.1 and 2.1 ns per store), whatever the address. For targets
//! with another offset within their lines, the program begins a few periods later or uses unaligned stores.
//!
//! Compiling a permute program takes some microseconds, so only a template that has moved some ten thousand
//! bytes gets one.

use super::address::At;
use super::nest::NestDim;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::permute_x86 as machine;
use super::template::Move;
use crate::piece::gcd;

/// Bytes of a vector.
pub(super) const WINDOW_BYTES: i64 = 64;
/// Bytes of a cache line, the same number.
const LINE: u64 = WINDOW_BYTES as u64;
/// Up to this number of operations, their indices stay in registers.
pub(super) const FEW_MAX: usize = 12;
/// Loads do not read across longer gaps of the source. If neighboring moved bytes are at most this far
/// apart, each of the two pages that a vector between them can touch holds a moved byte.
const GAP_MAX: i64 = 2048;
/// Numbers of periods that may be fused.
const FUSED: [u64; 5] = [1, 2, 4, 8, 16];
/// Largest number of payload bytes of a fused period.
const BYTES_MAX: u64 = 2048;
const OPS_MAX: usize = 64;
/// Least number of fused periods in a row for which it pays to begin at the start of a cache line.
const ROW_GROUPS_MIN: u64 = 4;
/// Bytes of the target that are prefetched at once, and the distance of the prefetch in bytes.
const FETCHED_BYTES: u64 = 1024;
const FETCHED_AHEAD: i64 = 1280;
/// Largest number of operations whose results are combined before one store.
pub(super) const CHAIN_MAX: usize = 4;
/// Costs in hundredths of a nanosecond: an operation on one vector; an operation on two; the surcharge if
/// its index does not stay in a register; the surcharge for each source vector that is not a cache line, and
/// for each store that is not to one; and a move of a table.
const SINGLE_COST: u64 = 35;
const OP_COST: u64 = 60;
const INDEX_COST: u64 = 30;
const WINDOW_COST: u64 = 15;
const STORE_COST: u64 = 25;
const MOVE_COST: u64 = 35;

/// One operation: from two source vectors to one target vector. All that the loop needs of it lies together,
/// because loads are what the loop waits for.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Op {
    /// For each unit of the target vector, the number of the unit of the two source vectors that goes there.
    /// Each number is as wide as a unit.
    pub(super) index: [u8; 64],
    /// The offsets of the two source vectors, in 32 bits each; the second in the upper half.
    pub(super) sources: u64,
    /// The offset of the target vector in the lower 32 bits. The upper half holds the first 32 bits of
    /// `stores`.
    pub(super) aim: u64,
    /// The units that are written after this operation, or after the last operation of its chain; one bit
    /// each.
    pub(super) stores: u64,
    /// The units of the target vector that this operation brings, one bit each.
    pub(super) brings: u64,
    /// The units of each source vector that are read, one bit each.
    pub(super) loads: [u64; 2],
}

/// How operations are run.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), expect(dead_code, reason = "nothing runs there"))]
pub(super) struct Form {
    pub(super) unit: Unit,
    /// Whether all source vectors are read whole.
    pub(super) is_whole: bool,
    /// The number of operations that read one vector. They come first, and each of them is stored.
    pub(super) singles: usize,
    /// Number of operations per store.
    pub(super) chain: usize,
}

/// The unit that indices and masks count: bytes or words of 4 bytes.
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

/// The operations that copy some fused periods of a template.
#[derive(Debug)]
pub(super) struct Permute {
    ops: Box<[Op]>,
    /// Number of periods of the template that are fused to one of this program.
    fused: u64,
    form: Form,
    /// The distance from one fused period to the next.
    step: NestDim,
    /// The offset within its cache line, in bytes, of a target whose vectors are cache lines.
    lines_at: Option<u64>,
    /// Bytes from one period of the template to the next in the target.
    stride: i64,
}

impl Permute {
    /// The cheapest program for periods of `moves` at the distance of `dim`, with its cost per period in
    /// hundredths of a nanosecond. `None` if this machine lacks the instructions, or if a table of moves is
    /// cheaper. The program is planned for sides with the same offsets within their cache lines as those of
    /// `at`.
    ///
    /// `dim.n` is the number of periods in a row. `keeps_lines` tells whether all repetitions outside of
    /// `dim` keep the offset of the target within its line.
    pub(super) fn new(moves: &[Move], dim: NestDim, keeps_lines: bool, at: At) -> Option<(u64, Self)> {
        let unit = unit_of(moves, dim);
        if !machine::has(unit) {
            return None;
        }
        Self::planned(moves, dim, keeps_lines, unit, at)
    }

    /// The cheapest program among the possible numbers of fused periods.
    fn planned(moves: &[Move], dim: NestDim, keeps_lines: bool, unit: Unit, at: At) -> Option<(u64, Self)> {
        let bytes: u64 = moves.iter().map(|next| next.bytes).sum();
        let fits = |fused: &u64| fused * bytes <= BYTES_MAX;
        let places = Places::of(moves, unit, at);
        let anywhere = FUSED.into_iter().map(|fused| (fused, Places { target: None, ..places }));
        let on_lines = [1, 2, 4].map(|times| (times * periods_to_line(dim.target), places));
        // Short rows use lines only if all of them begin at the same offset within a line.
        let holds = |fused: u64| keeps_lines || dim.n >= ROW_GROUPS_MIN * fused;
        let on_lines = on_lines.into_iter().filter(|(fused, at)| at.target.is_some() && holds(*fused));
        let mut best: Option<(u64, Self)> = None;
        for (fused, places) in on_lines.chain(anywhere).filter(|(fused, _)| fits(fused)) {
            let Some(next) = Self::fused(moves, dim, unit, fused, places) else { continue };
            let cost = next.cost(places);
            // A small gain in speed does not justify a longer program.
            if best.as_ref().is_none_or(|best| cost * 10 < best.0 * 9) {
                best = Some((cost, next));
            }
        }
        best.filter(|(cost, _)| *cost < MOVE_COST * moves.len() as u64)
    }

    /// A program at any cost, with target vectors that are cache lines if `on_lines` and if they can be.
    /// `None` if the machine cannot run it, or if the moves do not consist of such units.
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

    /// A program of `fused` periods. If `places.target` asks for vectors that are cache lines, `fused`
    /// strides must be a multiple of a line.
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

    /// The number of periods that the caller must copy by other means so that the target vectors of the rest
    /// are cache lines. 0 if there is no such number, or if few of `n` periods would be left.
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

    /// Like [`Permute::run`], for a long copy: prefetches the lines of the target that a single store does
    /// not fill. For masked stores of the unaligned form the processor does not fetch such lines early.
    ///
    /// # Safety
    /// As for [`Permute::run`].
    pub(super) unsafe fn run_far(&self, mut at: At, n: u64) -> u64 {
        let stride = self.step.target;
        if self.is_on_lines(at) || stride.unsigned_abs() > FETCHED_BYTES {
            // SAFETY: `# Safety` of this function is that of `run`.
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
            // SAFETY: `# Safety` of this function: `periods <= n - done`, and `at` is `done` periods on.
            let moved = unsafe { self.run(at, periods) };
            at = at.times(self.step, moved / self.fused);
            done += moved;
        }
        done
    }

    /// Whether the vectors of this target are cache lines.
    fn is_on_lines(&self, at: At) -> bool {
        self.lines_at.is_some_and(|place| at.target.addr() as u64 % LINE == place)
    }

    /// Copies as many of the first of `n` periods as whole fused periods contain. Returns the number of
    /// copied periods.
    ///
    /// # Safety
    /// As for [`super::template::Template::part`], for all bytes of all these periods. No two of them may
    /// lie at one place of the target.
    pub(super) unsafe fn run(&self, at: At, n: u64) -> u64 {
        let groups = n / self.fused;
        // The step is a whole number of lines, so if one target vector is a line, all of them are.
        let on_lines = self.is_on_lines(at);
        // SAFETY: `new` and `forced` return a program only if `machine::has` its unit. `# Safety` of this
        // function covers the moved bytes. Operations store no other bytes, and load only from pages that
        // hold moved bytes (`GAP_MAX`). `on_lines` implies words, and target vectors at multiples of 64
        // (`Places::of`, `Permute::fused`).
        unsafe { machine::run(&self.ops, self.form, on_lines, at, groups, self.step) };
        groups * self.fused
    }
}

impl Op {
    /// Whether the operation needs only one source vector.
    fn is_single(&self) -> bool {
        self.source(0) == self.source(1) && self.loads[0] == self.loads[1]
    }

    /// The offset of a source vector.
    #[inline]
    pub(super) fn source(&self, window: usize) -> i64 {
        i64::from((self.sources >> (32 * window)) as i32)
    }

    fn set_source(&mut self, window: usize, begin: i32) {
        self.sources &= !(u64::from(u32::MAX) << (32 * window));
        self.sources |= u64::from(begin as u32) << (32 * window);
    }

    /// This operation, with the given units written after it.
    fn storing(self, stores: u64) -> Self {
        let aim = self.aim & u64::from(u32::MAX) | stores << 32;
        Self { aim, stores, ..self }
    }
}

/// The offsets of both sides within their cache lines, in bytes.
#[derive(Debug, Clone, Copy)]
struct Places {
    source: u64,
    /// `None` if vectors cannot be lines: for bytes there is no aligned store, and words must not lie across
    /// lines.
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

/// The least number of periods that span a whole number of cache lines.
fn periods_to_line(stride: i64) -> u64 {
    LINE / gcd(stride.unsigned_abs(), LINE)
}

/// The operations of all target vectors in one list, with the same number of operations per store: one, or
/// the number that the vector with the most operations needs, whichever is cheaper.
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
        // Vectors with fewer operations are filled up with copies of the first one that bring nothing.
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

/// Words if all offsets relative to the first move, all lengths and both strides are multiples of 4, else
/// bytes.
fn unit_of(moves: &[Move], dim: NestDim) -> Unit {
    let Some(first) = moves.first() else { return Unit::Byte };
    let odd = moves.iter().fold(dim.source | dim.target, |odd, next| {
        let apart = next.source.wrapping_sub(first.source) | next.target.wrapping_sub(first.target);
        odd | apart | next.bytes as i64
    });
    if odd % 4 == 0 { Unit::Word } else { Unit::Byte }
}

/// All units of the given number of periods.
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

/// The stretches of the source without a gap longer than [`GAP_MAX`], as `(begin, end)`.
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

/// The operations that fill the target vector that begins at `target`. They read cache lines of the source
/// if that takes no more vectors than reading at any offset; `source_at` is the offset of the source within
/// its line. `None` if an offset does not fit in 32 bits.
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
                // One source vector is enough.
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
                // Indices are little-endian and below 128, so the lowest byte holds the whole index.
                op.index[to as usize] = from as u8;
                op.brings |= 1 << (to / unit.bytes());
            }
            left = &left[here..];
        }
        ops.push(op.storing(op.brings));
    }
    Some(ops)
}

/// The vector from which to read the unit at `place`, and the number of its units to read: the cache line
/// that holds the unit if the offset of the source in its line is given, else the vector that begins there.
/// It does not leave the cluster.
fn source_window(place: i64, clusters: &[(i64, i64)], unit: Unit, source_at: Option<u64>) -> (i64, i64) {
    let at = clusters.partition_point(|cluster| cluster.1 <= place).min(clusters.len() - 1);
    let (begin, end) = clusters[at];
    if end - begin < WINDOW_BYTES {
        return (begin, (end - begin) / unit.bytes());
    }
    let wanted = match source_at {
        // If the address of the source is not a multiple of the unit, units lie across its lines.
        Some(at) => place - (place + at as i64).rem_euclid(WINDOW_BYTES) / unit.bytes() * unit.bytes(),
        None => place,
    };
    (wanted.max(begin).min(end - WINDOW_BYTES), WINDOW_BYTES / unit.bytes())
}

/// Machines without these instructions have no permute programs.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod machine {
    use super::{At, Form, NestDim, Op, Unit};

    pub(super) fn has(_: Unit) -> bool {
        false
    }

    pub(super) fn fetch(_: *const u8, _: u64) {}

    /// # Safety
    /// No condition: nothing is done.
    pub(super) unsafe fn run(_: &[Op], _: Form, _: bool, _: At, _: u64, _: NestDim) {}
}
