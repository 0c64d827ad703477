use super::super::super::nest::NestDim;
use super::super::schedule;
use super::{Arena, Move, Placement, tables};

/// Sizes of blocks: every class of sizes, and its limits.
const BLOCKS: &[u64] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 20, 24, 28, 29, 31, 32, 33, 40, 48, 56, 57, 63, 64, 65, 96,
    127, 128, 129, 192, 250, 255, 256, 257, 320, 512, 513, 700,
];

fn moves(block: u64, dims: &[NestDim]) -> Vec<Move> {
    let mut all = vec![(0, 0, block as usize)];
    for dim in dims {
        let inner = std::mem::take(&mut all);
        for i in 0..dim.n as i64 {
            all.extend(inner.iter().map(|m| (m.0 + i * dim.source, m.1 + i * dim.target, m.2)));
        }
    }
    all
}

pub(super) fn check(arena: &mut Arena, block: u64, dims: &[NestDim], at: Placement) {
    let moves = moves(block, dims);
    for (level, table) in tables() {
        let case = format!("{level:?}, blocks of {block} in {dims:?}");
        arena.check(&moves, at, &case, |source, target| {
            // SAFETY: the arena has the bytes of all moves, which are the blocks of the nest; its sides do
            // not overlap. No nest of these tests has target blocks that share a byte.
            unsafe { schedule::nest(table, source, target, block, dims) };
        });
    }
}

/// Strides of one side for blocks of `block` bytes.
fn strides(block: i64) -> [i64; 8] {
    [block, 2 * block, 3 * block, 4 * block, -2 * block, block + 1, 24 * block, -(block + 3)]
}

#[test]
fn rows_of_every_block_size_stride_and_length() {
    let mut arena = Arena::new(2 << 20);
    let lengths: &[u64] =
        if cfg!(miri) { &[0, 1, 9] } else { &[0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 18, 31, 33, 47, 64, 65] };
    let mut turn = 0;
    // Miri is slow, so it runs each class of sizes once.
    let blocks = if cfg!(miri) { &[1, 3, 7, 12, 17, 33, 70, 130] } else { BLOCKS };
    for &block in blocks {
        let size = block as i64;
        let strides = if cfg!(miri) { vec![2 * size, -(size + 3)] } else { strides(size).to_vec() };
        let pairs = strides.into_iter().flat_map(|s| [(s, size), (size, s), (s, 3 * size)]);
        for (source, target) in pairs {
            for &n in lengths {
                turn = (turn + 1) % 64;
                let dims = [NestDim { n, source, target }];
                check(&mut arena, block, &dims, Placement::Start(turn));
                check(&mut arena, block, &dims, Placement::End);
            }
        }
    }
}

#[test]
fn rows_of_units_of_every_length_and_misalignment() {
    let mut arena = Arena::new(1 << 16);
    let (step, longest) = if cfg!(miri) { (42, 42) } else { (1, 130) };
    for block in [4_u64, 8] {
        let size = block as i64;
        for k in [2, 3, 4, 5] {
            for (source, target) in [(k * size, size), (size, k * size)] {
                for n in (0..=longest).step_by(step) {
                    let dims = [NestDim { n, source, target }];
                    check(&mut arena, block, &dims, Placement::Start(n as usize % 64));
                    check(&mut arena, block, &dims, Placement::End);
                }
                for misalignment in (0..64).step_by(step) {
                    let dims = [NestDim { n: 35, source, target }];
                    check(&mut arena, block, &dims, Placement::Start(misalignment));
                }
            }
        }
    }
}

#[test]
fn few_blocks_without_a_kernel_and_many_with_one() {
    let mut arena = Arena::new(1 << 16);
    for block in [1_u64, 4, 8, 12, 16, 24] {
        let size = block as i64;
        for (source, target) in [(2 * size, size), (size, -(size + 3)), (-3 * size, 5 * size), (0, size)] {
            for n in 1..=10 {
                let dim = NestDim { n, source, target };
                for at in [Placement::Start(n as usize), Placement::End] {
                    let case = format!("blocks of {block} in {dim:?}");
                    arena.check(&moves(block, &[dim]), at, &case, |source, target| {
                        // SAFETY: the arena has the bytes of all moves, which are the blocks of the row; its
                        // sides do not overlap, and neither do the target blocks of these rows.
                        unsafe { super::super::row(source, target, block, dim) };
                    });
                }
            }
        }
    }
}

#[test]
fn blocks_of_12_bytes_at_every_offset_in_a_line() {
    let mut arena = Arena::new(1 << 16);
    let (step, lengths): (usize, &[u64]) = if cfg!(miri) { (23, &[3]) } else { (1, &[1, 2, 7, 45]) };
    for target in [64, 128, 192, 512, 576, 960, 1024, -128, 72] {
        for &n in lengths {
            let row = [NestDim { n, source: 12, target }];
            check(&mut arena, 12, &row, Placement::End);
            for misalignment in (0..64).step_by(step) {
                check(&mut arena, 12, &row, Placement::Start(misalignment));
            }
            // Rows that begin at different offsets in a cache line.
            let rows = [row[0], NestDim { n: 5, source: 12 * n as i64, target: 20 }];
            if target.unsigned_abs() > 100 {
                check(&mut arena, 12, &rows, Placement::Start(n as usize));
                check(&mut arena, 12, &rows, Placement::End);
            }
        }
    }
}

#[test]
fn source_blocks_may_be_read_more_than_once() {
    let mut arena = Arena::new(1 << 16);
    for block in [1, 4, 8, 12, 64] {
        for n in [1, 9, 40] {
            let dims = [NestDim { n, source: 0, target: block }];
            check(&mut arena, block as u64, &dims, Placement::End);
        }
    }
}

/// Dimensions with these counts. The target is dense in the given order of the dimensions. In the source the
/// order is that of `places`, with `gap` bytes behind every block.
fn array(block: i64, counts: &[u64], places: &[usize], gap: i64) -> Vec<NestDim> {
    let mut dims: Vec<NestDim> = counts.iter().map(|&n| NestDim { n, source: 0, target: 0 }).collect();
    let mut stride = block;
    for dim in &mut dims {
        dim.target = stride;
        stride *= dim.n as i64;
    }
    let mut stride = block + gap;
    for &place in places {
        dims[place].source = stride;
        stride *= dims[place].n as i64;
    }
    dims
}

pub(super) fn reversed(dims: &[NestDim]) -> Vec<NestDim> {
    dims.iter().map(|d| NestDim { n: d.n, source: d.target, target: d.source }).collect()
}

#[test]
fn planes_and_volumes_in_every_order_of_dimensions() {
    const ORDERS: &[&[usize]] = &[
        &[0, 1],
        &[1, 0],
        &[0, 1, 2],
        &[2, 1, 0],
        &[1, 0, 2],
        &[1, 2, 0],
        &[2, 0, 1],
        &[3, 1, 0, 2],
        &[0, 1, 2, 3],
    ];
    let mut arena = Arena::new(1 << 20);
    let counts: &[&[u64]] = if cfg!(miri) {
        &[&[3, 2, 2, 1]]
    } else {
        &[&[8, 8, 4, 2], &[16, 16, 3, 2], &[3, 17, 5, 3], &[33, 9, 2, 1], &[16, 40, 3, 2], &[1, 5, 1, 4]]
    };
    for counts in counts {
        for order in ORDERS {
            for block in if cfg!(miri) { vec![8, 12] } else { vec![1, 4, 8, 12, 16, 24, 32, 80] } {
                for gap in [0, block, 5] {
                    let dims = array(block, &counts[..order.len()], order, gap);
                    for dims in [&dims, &reversed(&dims)] {
                        check(&mut arena, block as u64, dims, Placement::Start(7 * order.len()));
                        check(&mut arena, block as u64, dims, Placement::End);
                    }
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn matrices_of_both_shapes_are_transposed() {
    let mut arena = Arena::new(4 << 20);
    for block in [2, 4, 8, 16, 24] {
        for (rows, columns) in [(100, 257), (257, 100), (64, 64), (8, 1000), (1000, 7), (65, 129)] {
            for gap in [0, 8] {
                let dims = array(block, &[rows, columns], &[1, 0], gap);
                for dims in [&dims, &reversed(&dims)] {
                    check(&mut arena, block as u64, dims, Placement::End);
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn rows_of_units_in_targets_beyond_the_caches() {
    let mut arena = Arena::new(2 << 20);
    for block in [4_u64, 8] {
        for k in [2, 3, 4] {
            let target = k * block as i64;
            for misalignment in (0..64).step_by(4).chain([1, 7, 63]) {
                let n = ((1_u64 << 20) / target as u64 + 1) + misalignment as u64 % 17;
                let dims = [NestDim { n, source: block as i64, target }];
                check(&mut arena, block, &dims, Placement::Start(misalignment));
                check(&mut arena, block, &dims, Placement::End);
            }
            // Many rows of lengths close to the one from which on lines are prefetched.
            for row in [4096, 4096 + 64, 4096 + 512, 6000, 9000] {
                let n = row / target as u64;
                let outer =
                    NestDim { n: (1_u64 << 20) / row + 2, source: (n * block) as i64, target: row as i64 };
                let dims = [NestDim { n, source: block as i64, target }, outer];
                check(&mut arena, block, &dims, Placement::Start(8));
                check(&mut arena, block, &dims, Placement::End);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn units_scattered_beyond_the_caches() {
    let mut arena = Arena::new(98 << 20);
    for (block, stride, misalignment) in [(4_u64, 1024_i64, 3), (8, -2048, 60), (8, 4088, 8)] {
        let n = (97 << 20) / stride.unsigned_abs() + 3;
        let dims = [NestDim { n, source: stride, target: block as i64 }];
        check(&mut arena, block, &dims, Placement::Start(misalignment));
        check(&mut arena, block, &reversed(&dims), Placement::Start(misalignment));
        check(&mut arena, block, &reversed(&dims), Placement::End);
    }
}

/// Sizes around those at which rows and runs change to another way of copying.
const LONG_BLOCKS: &[u64] = &[
    513, 1000, 1023, 1024, 1535, 1536, 2047, 2048, 2049, 4095, 4096, 4097, 9999, 16383, 16384, 16385, 40_000,
];

#[test]
#[cfg_attr(miri, ignore = "takes minutes; tests above check rows and runs of the same movers")]
fn rows_of_long_blocks() {
    let mut arena = Arena::new(1 << 18);
    for &block in LONG_BLOCKS {
        let size = block as i64;
        for (source, target) in [(size + 24, size), (size, size + 24), (-(size + 1), size), (size, 2 * size)]
        {
            for misalignment in (0..64).step_by(3) {
                let dims = [NestDim { n: 3, source, target }];
                check(&mut arena, block, &dims, Placement::Start(misalignment));
                check(&mut arena, block, &dims, Placement::End);
            }
        }
    }
}

fn check_run(arena: &mut Arena, bytes: usize, at: Placement) {
    for (level, table) in tables() {
        arena.check(&[(0, 0, bytes)], at, &format!("{level:?}, a run of {bytes}"), |source, target| {
            // SAFETY: the arena has the bytes of the run on both sides, which do not overlap.
            unsafe { (table.copy)(source, target, bytes) };
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn long_runs_are_copied_whole() {
    use super::super::stream::{STREAM_MIN_BYTES, STRING_MIN_BYTES};
    let mut arena = Arena::new(68 << 20);
    for bytes in [STRING_MIN_BYTES, STREAM_MIN_BYTES] {
        for (bytes, misalignment) in [(bytes, 0), (bytes + 77, 13), (bytes - 1, 5), (2 * bytes + 64, 63)] {
            check_run(&mut arena, bytes, Placement::Start(misalignment));
            check_run(&mut arena, bytes, Placement::End);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes; tests above check rows and runs of the same movers")]
fn runs_of_every_size_class_and_misalignment() {
    let mut arena = Arena::new(1 << 18);
    for bytes in [1, 63, 64, 65, 513, 700].into_iter().chain(LONG_BLOCKS.iter().map(|bytes| *bytes as usize))
    {
        check_run(&mut arena, bytes, Placement::End);
        for target in 0..64 {
            check_run(&mut arena, bytes, Placement::Start(target));
            // Every pair of offsets in a line for short runs; every offset and every distance for long ones.
            for source in 0..if bytes < 1024 { 64 } else { 0 } {
                check_run(&mut arena, bytes, Placement::Apart { source, target });
            }
        }
    }
}
