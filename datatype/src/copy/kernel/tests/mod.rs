//! Tests of every kernel of every level that the processor has. The result is compared with that of a list
//! of moves, and the memory lies between guard pages.

mod far;
mod lists;
mod memory;
mod nests;
mod race;

use super::dispatch::{LEVELS, table_of};
use super::level::{Level, Table};
use memory::Guarded;

/// A block: its offset in the source, its offset in the target, and its bytes. All offsets of a side have
/// the same base.
type Move = (i64, i64, usize);

/// The kernels of all levels that the processor has.
fn tables() -> impl Iterator<Item = (Level, &'static Table)> {
    LEVELS.iter().filter_map(|level| Some((*level, table_of(*level)?)))
}

/// The placement of the bytes of a case in the memory of each side.
#[derive(Debug, Clone, Copy)]
enum Placement {
    /// Both sides begin this many bytes behind their guard page; in a second run, the source begins at
    /// another offset in its cache line.
    Start(usize),
    /// Each side begins its own number of bytes behind its guard page.
    Apart { source: usize, target: usize },
    /// Both sides end at their guard page.
    End,
}

/// A source and a target between guard pages, and the expected content of the target.
struct Arena {
    source: Guarded,
    target: Guarded,
    expected: Vec<u8>,
}

/// The number of bytes on both sides of the bytes of a case that are checked too.
const MARGIN: usize = 160;

impl Arena {
    fn new(len: usize) -> Self {
        let (mut source, mut target) = (Guarded::new(len), Guarded::new(len));
        // No stride of the tests is a multiple of this length.
        let pattern: Vec<u8> = (0..1021_u32).map(|i| i.wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect();
        for piece in source.bytes().chunks_mut(pattern.len()) {
            piece.copy_from_slice(&pattern[..piece.len()]);
        }
        target.bytes().fill(0);
        let expected = vec![0; target.len()];
        Self { source, target, expected }
    }

    /// Calls `kernel` with the bases of both sides, and checks that it did `moves` and wrote nothing else.
    fn check(&mut self, moves: &[Move], at: Placement, case: &str, kernel: impl Fn(*const u8, *mut u8)) {
        match at {
            Placement::Start(target) => {
                self.check_at(moves, [Some(target), Some(target)], case, &kernel);
                self.check_at(moves, [Some(elsewhere(target)), Some(target)], case, &kernel);
            }
            Placement::Apart { source, target } => {
                self.check_at(moves, [Some(source), Some(target)], case, &kernel);
            }
            Placement::End => self.check_at(moves, [None, None], case, &kernel),
        }
    }

    /// Like [`Arena::check`], with each side beginning at the given number of bytes behind its guard page,
    /// or ending at the guard page if that is `None`.
    fn check_at(
        &mut self,
        moves: &[Move],
        at: [Option<usize>; 2],
        case: &str,
        kernel: &impl Fn(*const u8, *mut u8),
    ) {
        let Some(hull_of_source) = hull(moves.iter().map(|m| (m.0, m.2))) else {
            kernel(self.source.as_mut_ptr(), self.target.as_mut_ptr());
            return;
        };
        let (from, _) = place(hull_of_source, self.source.len(), at[0]);
        let hull =
            hull(moves.iter().map(|m| (m.1, m.2))).expect("the target has as many moves as the source");
        let (to, first) = place(hull, self.target.len(), at[1]);
        let end = first + (hull.1 - hull.0) as usize;
        let window = first.saturating_sub(MARGIN)..(end + MARGIN).min(self.target.len());
        for (i, byte) in window.clone().zip(&mut self.target.bytes()[window.clone()]) {
            *byte = !(i as u8);
        }
        let (source, target) = (self.source.bytes(), self.target.bytes());
        self.expected[window.clone()].copy_from_slice(&target[window.clone()]);
        for (s, t, bytes) in moves {
            let (s, t) = ((from + s) as usize, (to + t) as usize);
            self.expected[t..t + bytes].copy_from_slice(&source[s..s + bytes]);
        }
        let base = self.source.as_mut_ptr().wrapping_offset(from as isize);
        kernel(base, self.target.as_mut_ptr().wrapping_offset(to as isize));
        let found = &self.target.bytes()[window.clone()];
        let expected = &self.expected[window.clone()];
        let differs = found.iter().zip(expected).position(|(f, e)| f != e);
        assert!(
            differs.is_none(),
            "{case}, {at:?}: byte {:?} of the target differs",
            differs.map(|d| d + window.start)
        );
    }
}

/// Another offset in a cache line. Over all arguments, each offset occurs once, and so does each distance to
/// the argument (triangular numbers modulo a power of two).
fn elsewhere(misalignment: usize) -> usize {
    misalignment * (misalignment + 1) / 2 % 64
}

/// The lowest offset and the end of the highest run.
fn hull(mut runs: impl Iterator<Item = (i64, usize)>) -> Option<(i64, i64)> {
    let first = runs.next()?;
    let first = (first.0, first.0 + first.1 as i64);
    Some(runs.fold(first, |(low, high), (at, bytes)| (low.min(at), high.max(at + bytes as i64))))
}

/// The offset of the base in the memory of a side, and the offset of the lowest byte.
fn place((low, high): (i64, i64), len: usize, misalignment: Option<usize>) -> (i64, usize) {
    let first = misalignment.unwrap_or(len - (high - low) as usize);
    assert!(first as i64 + high - low <= len as i64, "the arena is too small");
    (first as i64 - low, first)
}
