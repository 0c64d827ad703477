//! Squares of units that are transposed in registers: each row is read, and each column written, as a whole
//! line at once.

use super::super::nest::NestDim;
use super::tile::LINE_BYTES;

/// A register of units. Units of two registers can be mixed.
pub(super) trait Square<const L: usize> {
    /// The register; it holds `L` units.
    type Vector: Copy;

    /// # Safety
    /// A register must be readable at `from`. The processor must have the instructions; this holds for all
    /// functions of this trait.
    unsafe fn load(from: *const u8) -> Self::Vector;
    /// # Safety
    /// A register must be writable at `to`. The processor must have the instructions.
    unsafe fn store(to: *mut u8, vector: Self::Vector);
    /// Exchanges the upper half of each group of `2 * distance` units of `a` with the lower half of the same
    /// group of `b`.
    ///
    /// # Safety
    /// The processor must have the instructions.
    unsafe fn mix(distance: usize, a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector);
}

/// This many squares side by side along `p` are done before the next ones along `q`, so that their pages and
/// half-used lines are needed again soon.
const SQUARES_ABREAST: usize = 4;
/// `SETS_BYTES`: the distance in bytes at which cache lines fall into the same set of the first-level cache.
/// `WAYS`: how many lines of a set stay in this cache, which has 8 to 12 ways. With 16 target rows in one
/// set, 4 x 4 squares of 16 bytes were moved at 15 GB/s, with 8 rows at 37.
const SETS_BYTES: u64 = 4096;
const WAYS: u64 = 8;

/// The number of squares of `side` units that can be side by side so that the lines of the target, `stride`
/// bytes apart, stay in the cache until they are needed again.
fn abreast(side: usize, stride: i64) -> usize {
    let apart = 1 << stride.unsigned_abs().trailing_zeros().min(SETS_BYTES.trailing_zeros());
    let sets = SETS_BYTES / LINE_BYTES.max(apart);
    ((sets * WAYS) as usize / side).clamp(1, SQUARES_ABREAST)
}

/// Like [`plane`], for each repetition of `planes`. Calling a function per plane would take longer than
/// transposing a small plane.
///
/// # Safety
/// As for [`plane`], for all planes.
#[inline(always)]
pub(super) unsafe fn planes<S: Square<L>, const L: usize>(
    source: *const u8,
    target: *mut u8,
    p: &NestDim,
    q: &NestDim,
    planes: &NestDim,
) -> [u64; 2] {
    let (mut from, mut to) = (source, target);
    for _ in 0..planes.n {
        // SAFETY: `# Safety` of this function, for one of the planes.
        unsafe { plane::<S, L>(from, to, p, q) };
        from = from.wrapping_offset(planes.source as isize);
        to = to.wrapping_offset(planes.target as isize);
    }
    [p, q].map(|dim| dim.n - dim.n % L as u64)
}

/// Transposes the whole squares of a plane. The plane must be consecutive in the source along `p` and in the
/// target along `q`.
///
/// # Safety
/// The plane must be consecutive as stated. All its units must be readable in the source and writable in the
/// target, and the two must not overlap. The processor must have the instructions of `S`.
#[inline(always)]
unsafe fn plane<S: Square<L>, const L: usize>(source: *const u8, target: *mut u8, p: &NestDim, q: &NestDim) {
    let (squares_p, squares_q) = (p.n as usize / L, q.n as usize / L);
    let place = |i: usize, j: usize| {
        let (i, j) = ((i * L) as i64, (j * L) as i64);
        let from = i.wrapping_mul(p.source).wrapping_add(j.wrapping_mul(q.source));
        let to = i.wrapping_mul(p.target).wrapping_add(j.wrapping_mul(q.target));
        (source.wrapping_offset(from as isize), target.wrapping_offset(to as isize))
    };
    let abreast = abreast(L, p.target);
    let mut first = 0;
    while first < squares_p {
        let end = (first + abreast).min(squares_p);
        for j in 0..squares_q {
            for i in first..end {
                let (from, to) = place(i, j);
                // SAFETY: `# Safety` of this function: square `(i, j)` is a part of the plane, that is, `L`
                // registers of the source, `q.source` bytes apart, and `L` registers of the target,
                // `p.target` bytes apart.
                unsafe { square::<S, L>(from, q.source, to, p.target) };
            }
        }
        first = end;
    }
}

/// # Safety
/// `L` registers must be readable from `source` on, `source_stride` bytes apart, and `L` registers writable
/// from `target` on, `target_stride` bytes apart. The processor must have the instructions of `S`.
#[inline(always)]
unsafe fn square<S: Square<L>, const L: usize>(
    source: *const u8,
    source_stride: i64,
    target: *mut u8,
    target_stride: i64,
) {
    // SAFETY: `# Safety` of this function: register `i < L` of each side. `mix` does not access memory.
    unsafe {
        let mut rows = [S::load(source); L];
        let mut i = 1;
        while i < L {
            rows[i] = S::load(source.wrapping_offset((source_stride * i as i64) as isize));
            i += 1;
        }
        let mut distance = 1;
        while distance < L {
            let mut i = 0;
            while i < L {
                if i & distance == 0 {
                    (rows[i], rows[i + distance]) = S::mix(distance, rows[i], rows[i + distance]);
                }
                i += 1;
            }
            distance *= 2;
        }
        let mut i = 0;
        while i < L {
            S::store(target.wrapping_offset((target_stride * i as i64) as isize), rows[i]);
            i += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_squares_abreast_where_rows_share_a_cache_set() {
        assert_eq!(abreast(4, 1536 * 16), 2);
        assert_eq!(abreast(4, 6144), 4);
        assert_eq!(abreast(8, 4096), 1);
        assert_eq!(abreast(16, -4096), 1);
        assert_eq!(abreast(16, 8), SQUARES_ABREAST);
        assert_eq!(abreast(16, 576), SQUARES_ABREAST);
        assert_eq!(abreast(16, 0), 1);
    }
}
