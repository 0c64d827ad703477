//! Rows whose lines are prefetched, and rows that registers copy; they are long enough for these ways.

use super::super::super::nest::NestDim;
use super::nests::{check, reversed};
use super::{Arena, Placement};

/// Checks a nest at the given offset in a line behind the first guard page, and at the end of the memory.
fn at_both_ends(arena: &mut Arena, block: u64, dims: &[NestDim], misalignment: usize) {
    check(arena, block, dims, Placement::Start(misalignment));
    check(arena, block, dims, Placement::End);
}

#[test]
#[cfg_attr(miri, ignore = "runs only scalar kernels; `nests` checks rows of these blocks")]
fn short_blocks_a_few_units_apart() {
    let mut arena = Arena::new(1 << 16);
    for block in 2..=6_i64 {
        let (mut turn, size) = (0, 4 * block);
        for stride in (block + 1..=16).flat_map(|stride| [4 * stride, 4 * stride + 2]) {
            for n in [511, 512, 513, 530, 613] {
                turn = (turn + 13) % 64;
                let dims = [NestDim { n, source: stride, target: size }];
                for dims in [dims.to_vec(), reversed(&dims)] {
                    at_both_ends(&mut arena, size as u64, &dims, turn);
                }
            }
            // Every offset in a cache line.
            for misalignment in 0..64 {
                let dims = [NestDim { n: 515, source: size, target: stride }];
                check(&mut arena, size as u64, &dims, Placement::Start(misalignment));
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn short_blocks_in_targets_beyond_the_caches() {
    let mut arena = Arena::new(2 << 20);
    for (block, stride) in [(8, 12), (12, 16), (12, 24), (20, 28)] {
        let n = (1 << 20) / stride as u64 + 5;
        let dims = [NestDim { n, source: block, target: stride }];
        at_both_ends(&mut arena, block as u64, &dims, 4);
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn units_in_sources_beyond_the_caches() {
    let mut arena = Arena::new(13 << 20);
    for block in [4, 8] {
        for k in [2, 3, 4] {
            let n = (12 << 20) / (k * block) as u64 + 9;
            let dims = [NestDim { n, source: k * block, target: block }];
            at_both_ends(&mut arena, block as u64, &dims, 12);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn lines_prefetched_before_their_blocks() {
    let mut arena = Arena::new(35 << 20);
    let near = [(4, 128, 2100), (12, 156, 3000), (8, -132, 2100), (16, 140, 2000)];
    let close = [(8, 2560, 13_300), (8, 256, 17_000), (8, 160, 210_000), (4, 192, 175_000)];
    for (block, stride, n) in near.into_iter().chain(close) {
        let dims = [NestDim { n, source: stride, target: block }];
        // Also rows of as many blocks as the prefetch distance, or of fewer.
        let part = NestDim { n: 40, ..dims[0] };
        let rows = NestDim { n: n / 40, source: 40 * stride, target: 40 * block };
        for dims in [dims.to_vec(), reversed(&dims), vec![part, rows], reversed(&[part, rows])] {
            at_both_ends(&mut arena, block as u64, &dims, 60);
        }
    }
}

/// Planes, rows and blocks: fewer than the prefetch distance, as many, and more. Also rows in descending
/// order.
#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn lines_prefetched_in_later_rows() {
    let mut arena = Arena::new(2 << 20);
    for (block, stride) in [(4, 128), (8, 192), (12, 200), (32, -192), (40, 256), (64, 250)] {
        for [blocks, rows, planes] in
            [[2, 3, 96], [8, 8, 8], [15, 2, 40], [16, 33, 1], [17, 5, 7], [47, 9, 3]]
        {
            for sign in [1, -1] {
                let inner = NestDim { n: blocks, source: block, target: stride };
                let row_bytes = stride.abs() * blocks as i64 + 64;
                let middle = NestDim { n: rows, source: block * blocks as i64, target: sign * row_bytes };
                let last = NestDim {
                    n: planes,
                    source: middle.source * rows as i64,
                    target: row_bytes * rows as i64 + 8,
                };
                let dims = [inner, middle, last];
                at_both_ends(&mut arena, block as u64, &dims, 36);
                at_both_ends(&mut arena, block as u64, &reversed(&dims), 36);
            }
        }
    }
}
