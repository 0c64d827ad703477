//! Tests of every way to run a template: each way is forced, and its result is compared byte by byte with a
//! simple copy. The memory lies between guard pages, so that a read or write on a page without a byte of the
//! template ends the test.

use proptest::prelude::*;

use super::address::At;
use super::nest::NestDim;
use super::permute::{Permute, Unit};
use super::template::{Move, Template};

const CANARY: u8 = 0x5a;

/// The moves of one period, and the number and distance of the periods.
#[derive(Debug, Clone)]
struct Case {
    moves: Vec<Move>,
    dim: NestDim,
}

impl Case {
    /// The lowest offset and the end of the highest run of a side, over all periods.
    fn spread(&self, offset: impl Fn(&Move) -> i64, stride: i64) -> (i64, i64) {
        let periods = 0..self.dim.n as i64;
        let ends = periods.flat_map(|i| {
            let runs = self.moves.iter().map(|next| (offset(next) + i * stride, next.bytes as i64));
            runs.collect::<Vec<_>>()
        });
        ends.fold((i64::MAX, i64::MIN), |(low, high), (at, bytes)| (low.min(at), high.max(at + bytes)))
    }

    /// Runs `execute` twice and checks the target: both sides begin at a guard page in one run, and end at
    /// one in the other.
    fn check(&self, what: &str, execute: impl Fn(At, u64)) {
        let (low, high) = self.spread(|next| next.source, self.dim.source);
        let (to_low, to_high) = self.spread(|next| next.target, self.dim.target);
        for at_end in [false, true] {
            let (mut from, mut to) =
                (Guarded::new((high - low) as usize), Guarded::new((to_high - to_low) as usize));
            let place = |len: usize, span: i64| if at_end { len as i64 - span } else { 0 };
            let (from_at, to_at) = (
                place(from.bytes().len(), high - low) - low,
                place(to.bytes().len(), to_high - to_low) - to_low,
            );
            for (i, byte) in from.bytes().iter_mut().enumerate() {
                *byte = (i.wrapping_mul(2_654_435_761) >> 11) as u8;
            }
            to.bytes().fill(CANARY);
            let mut expected = to.bytes().to_vec();
            for period in 0..self.dim.n as i64 {
                for next in &self.moves {
                    let source = next.source + period * self.dim.source + from_at;
                    let target = next.target + period * self.dim.target + to_at;
                    for i in 0..next.bytes as usize {
                        expected[target as usize + i] = from.bytes()[source as usize + i];
                    }
                }
            }
            let source = from.bytes().as_ptr().wrapping_offset(from_at as isize);
            let target = to.bytes().as_mut_ptr().wrapping_offset(to_at as isize);
            execute(At { source, target }, self.dim.n);
            let wrong =
                expected.iter().zip(to.bytes().iter()).position(|(expected, found)| expected != found);
            assert_eq!(wrong, None, "{what}, sides at the end of memory: {at_end}");
        }
    }

    fn check_all(&self) {
        let template = Template::of(&self.moves);
        let bytes = template.bytes();
        // SAFETY: `check` allocates both sides separately, from their lowest to their highest byte. The
        // strategies of the cases give targets that do not overlap.
        unsafe {
            self.check("by the table", |at, n| template.periods(at, n, self.dim, 0));
            self.check("move by move", |at, n| template.periods(at, n, self.dim, 16));
            self.check("in parts", |at, n| {
                for i in 0..n {
                    let at = at.times(self.dim, i);
                    let cuts = [0, bytes / 3, bytes / 2, bytes - 1, bytes];
                    cuts.windows(2).for_each(|cut| template.part(at, cut[0], cut[1]));
                }
            });
        }
        for fused in [1, 2, 4, 8, 16] {
            self.check_permuted(&template, fused);
        }
    }

    fn check_permuted(&self, template: &Template, fused: u64) {
        let cases = [(Unit::Byte, false, 1), (Unit::Word, false, 16), (Unit::Word, true, 16)];
        for (unit, on_lines, places) in cases {
            for place in (0..places).map(|place| place * 4) {
                // The program is planned for offsets within the cache lines that match none, or one, of the
                // sides at the run.
                let target = std::ptr::without_provenance_mut(place);
                let at = At { source: std::ptr::without_provenance(60 - place + 2 * fused as usize), target };
                let by = (at, on_lines);
                let Some(permute) = Permute::forced(template.moves(), self.dim, unit, fused, by) else {
                    return;
                };
                let what = format!("permuted by {unit:?}, {fused} at once, lines: {on_lines} at {place}");
                // SAFETY: as for `check_all`: `check` allocates all bytes of the case, and its targets do
                // not overlap.
                self.check(&what, |at, n| unsafe { self.permute(template, &permute, at, n) });
            }
        }
    }

    /// # Safety
    /// As for [`Template::periods`].
    unsafe fn permute(&self, template: &Template, permute: &Permute, at: At, n: u64) {
        // SAFETY: `# Safety` of this function: the calls get consecutive parts of the `n` periods.
        unsafe {
            let before = permute.periods_before(at.target, n);
            assert!(before < n);
            template.periods(at, before, self.dim, 0);
            let at = at.times(self.dim, before);
            let far = n % 2 == 1;
            let done = if far { permute.run_far(at, n - before) } else { permute.run(at, n - before) };
            template.periods(at.times(self.dim, done), n - before - done, self.dim, 0);
        }
    }
}

/// Strategy: moves of the given lengths in any order, from any source offset, to targets that do not
/// overlap. All offsets are multiples of `grain`.
fn moves(grain: i64, lengths: Vec<u64>) -> impl Strategy<Value = Vec<Move>> {
    let len = prop::sample::select(lengths);
    let one = (len, 0..60_i64, prop_oneof![4 => 0..90_i64, 1 => 0..3000_i64], any::<u32>());
    prop::collection::vec(one, 1..14).prop_map(move |parts| {
        let mut end = 0;
        let mut moves: Vec<(u32, Move)> = Vec::new();
        for (bytes, gap, source, order) in parts {
            let target = end + if gap < 30 { 0 } else { gap / 8 * grain };
            moves.push((order, Move { start: 0, source: source * grain, target, bytes }));
            end = target + bytes as i64;
        }
        moves.sort_by_key(|next| next.0);
        moves.into_iter().map(|next| next.1).collect()
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let some = prop_oneof![
        moves(4, vec![4, 8, 12, 16, 24, 32, 64, 100]).prop_map(|moves| (4, moves)),
        moves(8, vec![8]).prop_map(|moves| (8, moves)),
        moves(1, vec![1, 2, 3, 4, 5, 8, 13, 70]).prop_map(|moves| (1, moves)),
        moves(4, vec![4]).prop_map(|moves| (4, moves)),
    ];
    (some, 1..if cfg!(miri) { 8 } else { 40_u64 }, -40..90_i64, 0..12_i64, any::<bool>()).prop_map(
        |((grain, moves), n, source, gap, back)| {
            let high = moves.iter().map(|next| next.target + next.bytes as i64).max().unwrap_or(0);
            let apart = high + gap * grain;
            let target = if back { -apart } else { apart };
            Case { moves, dim: NestDim { n, source: source * grain, target } }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: if cfg!(miri) { 4 } else { ProptestConfig::default().cases.max(300) }, ..ProptestConfig::default() })]

    #[test]
    fn every_executor_copies_templates(case in cases()) {
        case.check_all();
    }
}

#[test]
fn interleaved_periods_are_copied() {
    // Records to arrays and back: the targets of one period lie between those of other periods.
    for n in if cfg!(miri) { vec![3] } else { vec![1, 7, 16, 33] } {
        let to = (0..3).map(|field| Move { start: 0, source: field * 16, target: field * 3200, bytes: 8 });
        Case { moves: to.collect(), dim: NestDim { n, source: 48, target: 8 } }.check_all();
        let back = (0..3).map(|field| Move { start: 0, source: field * 3200, target: field * 8, bytes: 8 });
        Case { moves: back.collect(), dim: NestDim { n, source: 8, target: 40 } }.check_all();
    }
}

/// Whole pages of memory between two guard pages. Under Miri, exactly as many bytes as asked for.
struct Guarded {
    start: *mut u8,
    len: usize,
}

#[cfg(not(miri))]
const PAGE_BYTES: usize = 4096;

#[cfg(not(miri))]
impl Guarded {
    fn new(bytes: usize) -> Self {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
        let len = bytes.next_multiple_of(PAGE_BYTES);
        let all = std::num::NonZeroUsize::new(len + 2 * PAGE_BYTES).expect("the length is not zero");
        // SAFETY: the mapping is new, so nothing else uses it, and the inner pages are a part of it.
        let start = unsafe {
            let map = mmap_anonymous(None, all, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE)
                .expect("mapping memory succeeds");
            let inner = map.byte_add(PAGE_BYTES);
            mprotect(inner, len, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)
                .expect("changing the protection of own pages succeeds");
            inner.cast().as_ptr()
        };
        Self { start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` mapped `len` readable and writable bytes, which the system zeroed; `&mut self` makes
        // the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

#[cfg(not(miri))]
impl Drop for Guarded {
    fn drop(&mut self) {
        let map =
            std::ptr::NonNull::new(self.start.wrapping_sub(PAGE_BYTES).cast()).expect("the memory is mapped");
        // SAFETY: `map` is the mapping that `new` made, with its full length; nothing borrows it any more.
        unsafe { nix::sys::mman::munmap(map, self.len + 2 * PAGE_BYTES).expect("the memory is mapped") };
    }
}

/// Miri itself checks the bounds of each access, to the byte.
#[cfg(miri)]
impl Guarded {
    fn new(bytes: usize) -> Self {
        let len = bytes.max(1);
        Self { start: Box::leak(vec![0_u8; len].into_boxed_slice()).as_mut_ptr(), len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` leaked this box of `len` bytes; `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

#[cfg(miri)]
impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this box of `len` bytes, and nothing else frees it.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)) });
    }
}
