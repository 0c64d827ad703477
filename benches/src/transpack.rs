//! Rows of copies from one type to another.
//!
//! Capulet copies in one pass. The MPI copies by `MPI_Pack` and `MPI_Unpack` through an image, or by
//! `MPI_Sendrecv` to itself. The ops differ in the work that is timed:
//!
//! * `copy`, `sendrecv`: Capulet's copy program exists already.
//! * `new+copy`: Capulet makes the copy from the layouts each time, as a call of `MPIT_Type_transpack`
//!   does, and finds the kept program of the pair.
//! * `fresh+copy`: Capulet compiles the program for each copy. This is all that transpacking needs beyond
//!   committed types, which the MPI has too.
//! * `setup+copy`: both start from nothing for each copy. Capulet makes types, layouts and the program;
//!   the MPI makes, commits and frees the types.

use std::sync::Arc;

use capulet_bench_report::{Measured, Peer, Unit};
use capulet_datatype::{Layout, Tiled, TypeError, TypedCopy};

use crate::cases::transpack::Pair;
use crate::error::{BenchError, agree};
use crate::mpi_side::{Mpi, PeerType};
use crate::sample::{Effort, compare, repeated};
use crate::spec::Spec;
use crate::stage::Buffer;

pub(crate) const SUITE: &str = "transpack";
/// The ops of a pair at a count: against pack and unpack; against sending to oneself; with Capulet's
/// set-up included, as later calls and as the first call of a program find it; and with the types of both
/// included.
pub(crate) const OPS: [&str; 5] = ["copy", "sendrecv", "new+copy", "fresh+copy", "setup+copy"];
const CANARY: u8 = 0xA5;

struct Stage {
    source: Buffer,
    target: Buffer,
    image: Buffer,
}

/// A copy with the number of bytes that its memory must have.
struct OurCopy {
    copy: TypedCopy,
    source_bytes: usize,
    target_bytes: usize,
}

impl OurCopy {
    fn new(source: &Spec, target: &Spec, count: u64) -> Result<Self, TypeError> {
        Self::between(source.native()?.layout(), target.native()?.layout(), count, TypedCopy::new)
    }

    fn between(
        source: &Arc<Layout>,
        target: &Arc<Layout>,
        count: u64,
        copy: impl FnOnce(Tiled, Tiled) -> TypedCopy,
    ) -> Result<Self, TypeError> {
        let source = Tiled::new(source.clone(), count)?;
        let target = Tiled::new(target.clone(), count)?;
        let room = |tiled: &Tiled| {
            assert!(tiled.true_lb() >= 0, "no type begins below its base");
            tiled.true_ub() as usize
        };
        let (source_bytes, target_bytes) = (room(&source), room(&target));
        Ok(Self { copy: copy(source, target), source_bytes, target_bytes })
    }

    fn run(&self, source: &[u8], target: &mut [u8]) {
        assert!(
            source.len() >= self.source_bytes && target.len() >= self.target_bytes,
            "the slices must hold the types"
        );
        // SAFETY: `# Safety` of `TypedCopy::run`: all data of both layouts lies between offset 0
        // (`between` asserts that the true lower bound is not negative) and the true upper bound, which
        // the assertion above shows to lie within the slices. The slices do not overlap, because one
        // borrow is shared and the other unique.
        unsafe { self.copy.run(source.as_ptr(), 0, target.as_mut_ptr(), 0, u64::MAX) };
    }
}

/// Name of a pair at a count in the rows.
pub(crate) fn name(pair: &Pair, count: u64) -> String {
    format!("{} x{count}", pair.name)
}

/// Measures those rows of a pair at a count that are `wanted`, and passes each to `report`.
///
/// # Errors
/// If the copies differ.
pub(crate) fn rows(
    mpi: &Mpi,
    pair: &Pair,
    count: u64,
    effort: Effort,
    wanted: impl Fn(&str) -> bool,
    mut report: impl FnMut(Measured),
) -> Result<(), BenchError> {
    let (source, target) = ((pair.source)(count), (pair.target)(count));
    let (from, to) = (PeerType::new(mpi, &source), PeerType::new(mpi, &target));
    let ours = OurCopy::new(&source, &target, count)?;
    let bytes = ours.copy.source().size();
    let mut stage = Stage {
        source: Buffer::doubles(ours.source_bytes.next_multiple_of(8).max(bytes as usize), 11),
        target: Buffer::filled(ours.target_bytes.max(bytes as usize), CANARY),
        image: Buffer::filled(bytes as usize, 0),
    };
    let name = name(pair, count);
    let pack_unpack = |stage: &mut Stage| {
        from.pack(stage.source.as_ref(), count, stage.image.as_mut());
        to.unpack(stage.image.as_ref(), count, stage.target.as_mut());
    };
    let send = |stage: &mut Stage| {
        from.send_to_self(stage.source.as_ref(), count, &to, stage.target.as_mut(), count);
    };
    let ours_warm = |stage: &mut Stage| ours.run(stage.source.as_ref(), stage.target.as_mut());
    let layouts = [ours.copy.source(), ours.copy.target()].map(|tiled| tiled.layout().clone());
    let ours_new = |stage: &mut Stage| {
        let copy = OurCopy::between(&layouts[0], &layouts[1], count, TypedCopy::new)
            .expect("the same copy was made before");
        copy.run(stage.source.as_ref(), stage.target.as_mut());
    };
    let ours_fresh = |stage: &mut Stage| {
        let copy = OurCopy::between(&layouts[0], &layouts[1], count, TypedCopy::fresh)
            .expect("the same copy was made before");
        copy.run(stage.source.as_ref(), stage.target.as_mut());
    };
    let peer_anew = |stage: &mut Stage| {
        let (from, to) = (from.again(mpi, &source), to.again(mpi, &target));
        from.pack(stage.source.as_ref(), count, stage.image.as_mut());
        to.unpack(stage.image.as_ref(), count, stage.target.as_mut());
    };
    let ours_anew = |stage: &mut Stage| {
        let copy = OurCopy::new(&source, &target, count).expect("the same copy was made before");
        copy.run(stage.source.as_ref(), stage.target.as_mut());
    };
    let memcpy = |stage: &mut Stage| {
        let (from, to) = (stage.source.as_ref(), stage.target.as_mut());
        to[..bytes as usize].copy_from_slice(&from[..bytes as usize]);
    };

    pack_unpack(&mut stage);
    let expected = stage.target.as_ref().to_vec();
    let mut check = |what: &str, call: &dyn Fn(&mut Stage)| {
        stage.target.as_mut().fill(CANARY);
        call(&mut stage);
        agree(stage.target.as_ref(), &expected, || format!("{name}: the memory after {what}"))
    };
    check("our copy", &ours_warm)?;
    check("our copy, new", &ours_new)?;
    check("our copy, fresh", &ours_fresh)?;
    check("our copy, made anew", &ours_anew)?;
    check("pack and unpack, made anew", &peer_anew)?;
    check("sendrecv", &send)?;

    for op in OPS.into_iter().filter(|op| wanted(op)) {
        let (ours, others) = match op {
            "copy" => {
                let others = vec![(Peer::Mpi, repeated(pack_unpack)), (Peer::Memcpy, repeated(memcpy))];
                compare(effort, &mut stage, repeated(ours_warm), others)
            }
            "sendrecv" => compare(effort, &mut stage, repeated(ours_warm), vec![(Peer::Mpi, repeated(send))]),
            "new+copy" => {
                compare(effort, &mut stage, repeated(ours_new), vec![(Peer::Mpi, repeated(pack_unpack))])
            }
            "fresh+copy" => {
                compare(effort, &mut stage, repeated(ours_fresh), vec![(Peer::Mpi, repeated(pack_unpack))])
            }
            _ => compare(effort, &mut stage, repeated(ours_anew), vec![(Peer::Mpi, repeated(peer_anew))]),
        };
        report(Measured {
            suite: SUITE.to_owned(),
            case: name.clone(),
            element: pair.element.to_owned(),
            op: op.to_owned(),
            unit: Unit::GigabytesPerSecond,
            bytes,
            count,
            ours,
            others,
        });
    }
    Ok(())
}
