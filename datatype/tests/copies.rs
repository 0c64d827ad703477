//! The copy kernels: every block size and stride, absolute addresses, and chunks that add up to the whole.

use capulet_datatype::{Datatype, Named, Result, Tiled, TypedCopy, pack, unpack};

const CANARY: u8 = 0xee;

fn tiled(datatype: &Datatype, count: u64) -> Tiled {
    Tiled::new(datatype.layout().clone(), count).expect("the type is small")
}

fn blocks(n: u64, bytes: u64, stride: i64) -> Result<Tiled> {
    Ok(tiled(&Datatype::hvector(n, bytes, stride, &Datatype::named(Named::Byte))?, 1))
}

/// Blocks at distances that form no progression.
fn listed(n: u64, bytes: u64) -> Result<Tiled> {
    let places: Vec<i64> = (0..n as i64).map(|i| i * (bytes as i64 + 3) + i * i % 3).collect();
    Ok(tiled(&Datatype::hindexed_block(bytes, &places, &Datatype::named(Named::Byte))?, 1))
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 199) as u8).collect()
}

#[test]
fn every_block_size_and_stride_is_copied() -> Result<()> {
    for bytes in (1..=130).step_by(if cfg!(miri) { 43 } else { 1 }) {
        for gap in [0, 1, 2, 7, 64] {
            for n in if cfg!(miri) { vec![9] } else { vec![1, 2, 3, 5, 40] } {
                for tiled in [blocks(n, bytes, (bytes + gap) as i64)?, listed(n, bytes)?] {
                    let memory = pattern(tiled.true_ub() as usize);
                    let offsets: Vec<usize> =
                        (0..tiled.size()).map(|i| tiled.offset_of(i) as usize).collect();
                    let expected: Vec<u8> = offsets.iter().map(|&offset| memory[offset]).collect();
                    // One extra byte in front, so that the packed bytes are not aligned by chance.
                    let mut packed = vec![0; expected.len() + 1];
                    pack(&tiled, &memory, 0..tiled.size(), &mut packed[1..])?;
                    assert_eq!(packed[1..], expected, "{n} blocks of {bytes}, {gap} apart");
                    let mut target = vec![CANARY; memory.len()];
                    unpack(&tiled, &packed[1..], 0..tiled.size(), &mut target)?;
                    let mut whole = vec![CANARY; memory.len()];
                    for &offset in &offsets {
                        whole[offset] = memory[offset];
                    }
                    assert_eq!(target, whole, "{n} blocks of {bytes}, {gap} apart");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn lists_rows_and_unequal_blocks_copy_to_each_other() -> Result<()> {
    let sides = [blocks(60, 4, 12)?, listed(60, 4)?, blocks(30, 8, 9)?, listed(80, 3)?, blocks(2, 120, 200)?];
    for source in &sides {
        for target in &sides {
            let memory = pattern(source.true_ub() as usize);
            let mut packed = vec![0; 240];
            pack(source, &memory, 0..240, &mut packed)?;
            let mut expected = vec![CANARY; target.true_ub() as usize];
            unpack(target, &packed, 0..240, &mut expected)?;
            let copy = TypedCopy::new(source.clone(), target.clone());
            for chunk in if cfg!(miri) { vec![7, 31, 240] } else { vec![1, 2, 3, 5, 7, 31, 239, 240] } {
                let mut found = vec![CANARY; expected.len()];
                for start in (0..240).step_by(chunk as usize) {
                    // SAFETY: `# Safety` of `TypedCopy::run`: both memories cover their types, and two
                    // vectors do not overlap.
                    let copied =
                        unsafe { copy.run(memory.as_ptr(), start, found.as_mut_ptr(), start, chunk) };
                    assert_eq!(copied, chunk.min(240 - start));
                }
                assert_eq!(found, expected, "chunks of {chunk}");
            }
        }
    }
    Ok(())
}

#[test]
fn absolute_addresses_from_a_null_base() -> Result<()> {
    let (source, mut target) = (pattern(64), vec![CANARY; 64]);
    let at = |address: usize| i64::try_from(address).expect("a user-space address fits in i64");
    let (from, to) = (source.as_ptr().expose_provenance(), target.as_mut_ptr().expose_provenance());
    let byte = Datatype::named(Named::Byte);
    let reads = Datatype::hindexed(&[3, 5], &[at(from) + 40, at(from) + 2], &byte)?;
    let writes = Datatype::hindexed(&[4, 4], &[at(to), at(to) + 60], &byte)?;
    let copy = TypedCopy::new(tiled(&reads, 1), tiled(&writes, 1));
    // SAFETY: `# Safety` of `TypedCopy::run`: the displacements are addresses of bytes of two live vectors,
    // which do not overlap and whose provenance is exposed above.
    let copied = unsafe { copy.run(std::ptr::null(), 0, std::ptr::null_mut(), 0, 8) };
    assert_eq!(copied, 8);
    assert_eq!((&target[..4], &target[60..]), (&[40, 41, 42, 2][..], &[3, 4, 5, 6][..]));
    assert!(target[4..60].iter().all(|&byte| byte == CANARY));
    Ok(())
}

#[test]
fn empty_copies_need_no_memory() -> Result<()> {
    let none = tiled(&Datatype::contiguous(0, &Datatype::named(Named::Int))?, 9);
    let some = tiled(&Datatype::named(Named::Int), 1);
    for (source, target, start) in
        [(&none, &some, 0), (&some, &none, 0), (&some, &some, 4), (&some, &some, 99)]
    {
        let copy = TypedCopy::new(source.clone(), target.clone());
        // SAFETY: `# Safety` of `TypedCopy::run` holds for no bytes: one stream is empty, or the start is at
        // or behind its end.
        assert_eq!(unsafe { copy.run(std::ptr::null(), start, std::ptr::null_mut(), start, 4) }, 0);
    }
    Ok(())
}
