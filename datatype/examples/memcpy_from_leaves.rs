//! Figure 2 of the paper: a copy between typed memory and a contiguous buffer, built from leaf functions.
//!
//! "Processing MPI Datatypes Outside MPI" (Ross, Latham, Gropp, Lusk, Thakur, 2009) presents its toolkit by
//! the example of `MPIT_Type_memcpy`. Its three parts have their counterparts here: a structure with the
//! data that the leaf functions need ([`MemcpyParams`]), the function that makes a segment and drives it
//! ([`type_memcpy`]), and the leaf functions. Only the leaf function for runs is required; the one for rows
//! shows the purpose of the others.
//!
//! Run it by `cargo run --example memcpy_from_leaves`. It compares each copy with [`pack`] and [`unpack`],
//! which are the functions for real use.

use std::error::Error;
use std::ops::{ControlFlow, Range};

use capulet_datatype::{
    ArrayOrder, Contig, Datatype, Flow, LeafVisitor, Named, Segment, Tiled, TypeError, Vector, pack, unpack,
};

/// The direction of the copy, with the memory of both sides.
enum Direction<'a> {
    /// `MPIT_MEMCPY_FROM_USERBUF`
    FromUser { user: &'a [u8], packed: &'a mut [u8] },
    /// `MPIT_MEMCPY_TO_USERBUF`
    ToUser { user: &'a mut [u8], packed: &'a [u8] },
}

/// The data that the leaf functions work on: `MPIT_memcpy_params`.
struct MemcpyParams<'a> {
    direction: Direction<'a>,
    /// Number of bytes of the contiguous buffer that are done: the advancing `packbuf`.
    packed_done: usize,
}

/// Error: typed bytes lie outside of the user's memory.
#[derive(Debug, PartialEq, Eq)]
struct OutOfMemory;

impl MemcpyParams<'_> {
    /// Copies one run of `bytes` bytes at `offset` of the user's memory.
    fn copy(&mut self, offset: i64, bytes: u64) -> Result<(), OutOfMemory> {
        let first = usize::try_from(offset).map_err(|_| OutOfMemory)?;
        let (here, there) =
            (first..first + bytes as usize, self.packed_done..self.packed_done + bytes as usize);
        match &mut self.direction {
            Direction::FromUser { user, packed } => {
                let (from, to) = user.get(here).zip(packed.get_mut(there)).ok_or(OutOfMemory)?;
                to.copy_from_slice(from);
            }
            Direction::ToUser { user, packed } => {
                let (to, from) = user.get_mut(here).zip(packed.get(there)).ok_or(OutOfMemory)?;
                to.copy_from_slice(from);
            }
        }
        self.packed_done += bytes as usize;
        Ok(())
    }
}

impl LeafVisitor for MemcpyParams<'_> {
    type Break = OutOfMemory;

    /// `MPIT_Leaf_contig_memcpy`
    fn contig(&mut self, leaf: Contig) -> Flow<OutOfMemory> {
        match self.copy(leaf.offset, leaf.bytes) {
            Ok(()) => Flow::Continue,
            Err(because) => Flow::Stop { bytes: 0, because },
        }
    }

    /// `MPIT_Leaf_vector_memcpy`: rows of 8-byte blocks, such as doubles, are copied with a length that the
    /// compiler knows.
    fn vector(&mut self, leaf: Vector) -> Flow<OutOfMemory> {
        let mut done = 0;
        for run in leaf.runs() {
            let copied =
                if run.bytes == 8 { self.copy(run.offset, 8) } else { self.copy(run.offset, run.bytes) };
            if let Err(because) = copied {
                return Flow::Stop { bytes: done, because };
            }
            done += run.bytes;
        }
        Flow::Continue
    }
}

/// Copies stream bytes `range` of `count` elements. Returns the position that it reached, as
/// `MPIT_Type_memcpy` does by its argument `end`, which is both input and output.
fn type_memcpy(
    direction: Direction<'_>,
    count: u64,
    datatype: &Datatype,
    range: Range<u64>,
) -> Result<(u64, ControlFlow<OutOfMemory>), TypeError> {
    let mut params = MemcpyParams { direction, packed_done: 0 };
    let mut segment = Segment::new(datatype, count)?;
    let flow = segment.manipulate(range, &mut params)?;
    Ok((segment.position(), flow))
}

/// One variable in the interior of a block of cells that is surrounded by guard cells, as the FLASH code
/// stores it.
fn flash_variable(cells: u64, guards: u64, variables: u64) -> Result<Datatype, TypeError> {
    let double = Datatype::named(Named::Double);
    let cell = Datatype::resized(0, 8 * variables as i64, &double)?;
    let whole = cells + 2 * guards;
    Datatype::subarray(&[whole; 3], &[cells; 3], &[guards; 3], ArrayOrder::C, &cell)
}

fn check(datatype: &Datatype, count: u64) -> Result<(), Box<dyn Error>> {
    let tiled = Tiled::new(datatype.layout().clone(), count)?;
    let user: Vec<u8> = (0..tiled.true_ub()).map(|i| (i * 7 % 251) as u8).collect();
    // The whole stream, and a range that cuts elements at both ends.
    for range in [0..tiled.size(), tiled.size() / 3 + 1..tiled.size() - 3] {
        let bytes = (range.end - range.start) as usize;
        let (mut packed, mut expected) = (vec![0; bytes], vec![0; bytes]);
        let from_user = Direction::FromUser { user: &user, packed: &mut packed };
        let outcome = type_memcpy(from_user, count, datatype, range.clone())?;
        assert_eq!(outcome, (range.end, ControlFlow::Continue(())));
        pack(&tiled, &user, range.clone(), &mut expected)?;
        assert_eq!(packed, expected);

        let (mut back, mut expected) = (vec![0xa5; user.len()], vec![0xa5; user.len()]);
        let to_user = Direction::ToUser { user: &mut back, packed: &packed };
        let outcome = type_memcpy(to_user, count, datatype, range.clone())?;
        assert_eq!(outcome, (range.end, ControlFlow::Continue(())));
        unpack(&tiled, &packed, range, &mut expected)?;
        assert_eq!(back, expected);
    }
    // Memory that ends too early: the copy stops there and reports its position.
    let short = &user[..user.len() - 1];
    let mut packed = vec![0; tiled.size() as usize];
    let from_user = Direction::FromUser { user: short, packed: &mut packed };
    let (done, flow) = type_memcpy(from_user, count, datatype, 0..tiled.size())?;
    assert!(flow == ControlFlow::Break(OutOfMemory) && done < tiled.size());
    let mut expected = vec![0; done as usize];
    pack(&tiled, &user, 0..done, &mut expected)?;
    assert_eq!(packed[..done as usize], expected);
    println!("{bytes:>6} bytes of {runs:>4} runs", bytes = tiled.size(), runs = tiled.runs());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let int = Datatype::named(Named::Int);
    let double = Datatype::named(Named::Double);
    check(&Datatype::contiguous(100, &double)?, 2)?;
    check(&Datatype::vector(64, 1, 2, &double)?, 1)?;
    check(&Datatype::indexed_block(2, &[0, 5, 9, 20, 23, 31, 40], &int)?, 3)?;
    check(&Datatype::indexed(&[1, 3, 2, 5], &[0, 2, 9, 14], &double)?, 3)?;
    check(&Datatype::structure(&[1, 2, 3], &[0, 8, 24], &[int.clone(), double, int])?, 50)?;
    check(&flash_variable(8, 4, 24)?, 1)?;
    Ok(())
}

#[test]
fn all_copies_agree_with_pack_and_unpack() -> Result<(), Box<dyn Error>> {
    main()
}
