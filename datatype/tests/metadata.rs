//! A layout keeps no more memory than its description, the arguments of its constructors, plus a few nodes
//! and the directory of long lists.

use capulet_datatype::{ArrayOrder, Combiner, Datatype, Distribution, Named, Result};

/// Bytes for nodes with pointers, which every layout has, even if its description is tiny.
const NODE_BYTES: usize = 1280;

/// Bytes of the arguments of all constructors of a type. A shared part counts once for each place that
/// refers to it.
fn description_bytes(datatype: &Datatype) -> usize {
    let number = size_of::<i64>();
    match datatype.combiner() {
        Combiner::Named(_) => number,
        Combiner::Dup { old } => number + description_bytes(old),
        Combiner::Contiguous { old, .. } => 2 * number + description_bytes(old),
        Combiner::Vector { old, .. } | Combiner::Hvector { old, .. } => 4 * number + description_bytes(old),
        Combiner::Indexed { displacements: list, old, .. }
        | Combiner::Hindexed { displacements_bytes: list, old, .. } => {
            2 * number * (1 + list.len()) + description_bytes(old)
        }
        Combiner::IndexedBlock { displacements: list, old, .. }
        | Combiner::HindexedBlock { displacements_bytes: list, old, .. } => {
            number * (2 + list.len()) + description_bytes(old)
        }
        Combiner::Struct { types, .. } => {
            number * (1 + 2 * types.len()) + types.iter().map(description_bytes).sum::<usize>()
        }
        Combiner::Subarray { sizes, old, .. } => number * (2 + 3 * sizes.len()) + description_bytes(old),
        Combiner::Darray { gsizes, old, .. } => number * (3 + 4 * gsizes.len()) + description_bytes(old),
        Combiner::Resized { old, .. } => 3 * number + description_bytes(old),
        other => panic!("the test does not know the combiner {}", other.name()),
    }
}

fn check(datatype: &Datatype, what: &str) {
    let (kept, given) = (datatype.layout().heap_bytes(), description_bytes(datatype));
    // A list of runs of different lengths has a directory of 4 bytes for each 64 runs or more.
    assert!(kept <= given + given / 256 + NODE_BYTES, "{what}: keeps {kept} bytes, was given {given} bytes");
}

/// Numbers without regularity.
fn noise(n: usize, below: i64) -> Vec<i64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % below
    };
    (0..n).map(|_| next()).collect()
}

fn sums(gaps: &[i64]) -> Vec<i64> {
    let mut at = 0;
    let mut places = Vec::with_capacity(gaps.len());
    for gap in gaps {
        places.push(at);
        at += gap;
    }
    places
}

/// Lists of `n` entries: ascending and not, near and far, dense and sparse, recurring and not.
fn lists(n: usize) -> [(&'static str, Vec<i64>); 7] {
    let offset = |list: Vec<i64>, by: i64| list.into_iter().map(|entry| entry + by).collect::<Vec<_>>();
    [
        ("dense", sums(&offset(noise(n, 3), 3))),
        ("sparse", sums(&offset(noise(n, 1000), 10))),
        ("far", sums(&offset(noise(n, 1 << 30), 1 << 28))),
        ("in no order", noise(n, 1 << 40)),
        ("falling", sums(&offset(noise(n, 50), 4)).into_iter().rev().collect()),
        ("recurring", (0..n as i64).map(|i| i / 5 * 40 + [0, 3, 4, 11, 20][i as usize % 5]).collect()),
        ("often at one place", noise(n, 7)),
    ]
}

#[test]
fn lists_take_no_more_memory_than_their_arguments() -> Result<()> {
    let all = [Named::Int, Named::DoubleInt, Named::Byte, Named::Short, Named::Double];
    let counts: &[usize] = if cfg!(miri) { &[3, 40] } else { &[1, 2, 3, 9, 33, 70, 30_000] };
    for named in &all[..if cfg!(miri) { 1 } else { 5 }] {
        let old = Datatype::named(*named);
        for &n in counts {
            let lengths: Vec<u64> = noise(n, 3).into_iter().map(|length| 1 + length as u64).collect();
            for (what, places) in lists(n) {
                check(&Datatype::indexed_block(1, &places, &old)?, what);
                check(&Datatype::indexed_block(2, &places, &old)?, what);
                check(&Datatype::hindexed_block(1, &places, &old)?, what);
                check(&Datatype::indexed(&vec![1; n], &places, &old)?, what);
                check(&Datatype::indexed(&lengths, &places, &old)?, what);
                check(&Datatype::hindexed(&lengths, &places, &old)?, what);
                check(&Datatype::structure(&lengths, &places, &vec![old.clone(); n])?, what);
            }
        }
    }
    Ok(())
}

/// An MPI program passes its lists as `int`s of 4 bytes, which is half of what the checks above allow.
#[test]
fn lists_within_two_gigabytes_take_no_more_than_ints() -> Result<()> {
    let n = if cfg!(miri) { 40 } else { 30_000 };
    let lengths: Vec<u64> = noise(n, 3).into_iter().map(|length| 1 + length as u64).collect();
    // Bytes per run if all runs have one length, and bytes per run if each has its own length.
    let check = |places: &[i64], old: &Datatype, [equal, own]: [usize; 2], what: &str| -> Result<()> {
        let bound = |bytes: usize| bytes * n + n / 64 * 4 + NODE_BYTES;
        for (datatype, bytes) in [
            (Datatype::indexed_block(1, places, old)?, equal),
            (Datatype::indexed(&vec![1; n], places, old)?, equal),
            (Datatype::indexed(&lengths, places, old)?, own),
        ] {
            let kept = datatype.layout().heap_bytes();
            assert!(
                kept <= bound(bytes),
                "{what}: keeps {kept} bytes for {n} entries, {bytes} per entry are allowed"
            );
        }
        Ok(())
    };
    for named in &[Named::Int, Named::Byte, Named::Double][..if cfg!(miri) { 1 } else { 3 }] {
        let old = Datatype::named(*named);
        let near = noise(n, (1 << 31) / old.extent() - 8);
        check(&near, &old, [4, 8], "near")?;
        for (what, places) in lists(n) {
            let fits = places.iter().all(|place| place * old.extent() < (1 << 31) - 64);
            check(&places, &old, if fits { [4, 8] } else { [8, 16] }, what)?;
        }
    }
    // Doubles at `int` displacements, which reach up to 16 GiB.
    check(&noise(n, (1 << 31) - 8), &Datatype::named(Named::Double), [8, 16], "far")
}

#[test]
fn types_over_lists_do_not_copy_them() -> Result<()> {
    let n = if cfg!(miri) { 40 } else { 5_000 };
    for (what, places) in lists(n) {
        let listed = Datatype::indexed_block(1, &places, &Datatype::named(Named::Float))?;
        let spread = Datatype::resized(0, listed.extent().abs() + 12, &listed)?;
        check(&Datatype::contiguous(1000, &spread)?, what);
        check(&Datatype::vector(100, 3, 7, &spread)?, what);
        check(&Datatype::hindexed(&[1, 2, 1], &[5, 1 << 45, -(1 << 45)], &spread)?, what);
        check(&Datatype::subarray(&[9, 8, 7], &[5, 4, 3], &[1, 2, 3], ArrayOrder::C, &spread)?, what);
        let pair = [spread.clone(), Datatype::named(Named::Char)];
        check(&Datatype::structure(&[2, 3], &[0, 1 << 46], &pair)?, what);
    }
    Ok(())
}

#[test]
fn regular_types_take_little_memory() -> Result<()> {
    let double = Datatype::named(Named::Double);
    let mut nested = double.clone();
    for level in 1..8_i64 {
        nested = Datatype::hvector(9, 1, 100 << (5 * level), &nested)?;
        check(&nested, "nested vectors");
    }
    let n = 1 << 30;
    for order in [ArrayOrder::C, ArrayOrder::Fortran] {
        check(&Datatype::subarray(&[n, 4, n / 8], &[7, 3, n / 16], &[1, 1, 5], order, &double)?, "subarray");
        for way in [Distribution::Block(None), Distribution::Cyclic(None), Distribution::Cyclic(Some(3))] {
            for rank in [0, 1, 5] {
                check(&Datatype::darray(rank, &[n, 1001], &[way; 2], &[2, 3], order, &double)?, "darray");
            }
        }
    }
    Ok(())
}
