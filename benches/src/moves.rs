//! Rows of packing and unpacking: Capulet, the MPI, loops, and `memcpy`.
//!
//! Before the timing starts, all images are compared byte by byte. So is all memory after unpacking,
//! including the bytes between the data.

use capulet_bench_report::{Measured, Peer, Unit};
use capulet_datatype::{Datatype, Tiled, pack, unpack};

use crate::cases::{Body, Case, Ops};
use crate::encode;
use crate::error::{BenchError, agree};
use crate::hand::{Loops, Nest};
use crate::lines::Lines;
use crate::mpi_side::{Mpi, PeerType};
use crate::sample::{Calls, Effort, compare, repeated};
use crate::stage::Buffer;

/// The byte between the data of memory that is unpacked into.
const CANARY: u8 = 0xA5;

/// The buffers on which all contenders work.
pub(crate) struct Stage {
    memory: Buffer,
    image: Buffer,
    encoded: Buffer,
    origin: usize,
}

impl Stage {
    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        (&mut self.memory.as_mut()[self.origin..], self.image.as_mut())
    }

    /// All memory, and the image.
    fn whole(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.memory.as_mut(), self.image.as_mut())
    }

    /// Memory, image, and the buffer into which the image is converted.
    pub(crate) fn all_parts(&mut self) -> (&mut [u8], &mut [u8], &mut [u8]) {
        (&mut self.memory.as_mut()[self.origin..], self.image.as_mut(), self.encoded.as_mut())
    }
}

/// A case in the form that each contender needs.
pub(crate) struct Subject<'a> {
    pub(crate) case: &'a Case,
    pub(crate) tiled: Tiled,
    pub(crate) peer: PeerType<'a>,
    pub(crate) loops: Box<dyn Loops>,
    pub(crate) lines: Lines,
    pub(crate) encoded: Option<Nest>,
    pub(crate) effort: Effort,
    pub(crate) datatype: Datatype,
}

/// Ops of a case, in the order of its rows.
pub(crate) fn ops_of(case: &Case) -> &'static [&'static str] {
    match case.ops {
        Ops::Move => &["pack", "unpack", "pair"],
        Ops::Encode => &["pack", "unpack", "swap", "d2f"],
    }
}

/// Measures those rows of a case that are `wanted`, and passes each to `report`.
///
/// # Errors
/// If two contenders disagree.
pub(crate) fn rows(
    mpi: &Mpi,
    case: &Case,
    effort: Effort,
    wanted: impl Fn(&str) -> bool,
    mut report: impl FnMut(Measured),
) -> Result<(), BenchError> {
    let Body { spec, loops, encoded, origin } = (case.build)();
    let peer = PeerType::new(mpi, &spec);
    let datatype = peer.import();
    let tiled = Tiled::new(datatype.layout().clone(), 1)?;
    let size = tiled.size() as usize;
    let memory_bytes = (origin + tiled.true_ub() as usize).max(origin + size).next_multiple_of(16);
    let mut stage = Stage {
        memory: Buffer::doubles(memory_bytes, 7),
        image: Buffer::filled(size, 0),
        encoded: Buffer::filled(if case.ops == Ops::Encode { size } else { 0 }, 0),
        origin,
    };
    let lines = Lines::new(&tiled, origin);
    let subject = Subject { case, tiled, peer, loops, lines, encoded, effort, datatype };
    check(&subject, &mut stage)?;
    for op in ops_of(case).iter().filter(|op| wanted(op)) {
        report(match *op {
            "pack" => timed(&subject, &mut stage, op, 1, packers(&subject)),
            "unpack" => timed(&subject, &mut stage, op, 1, unpackers(&subject)),
            "pair" => timed(&subject, &mut stage, op, 2, pairs(&subject)),
            _ => encode::row(&subject, &mut stage, op)?,
        });
    }
    Ok(())
}

/// The ways to do one op: Capulet's and the others'.
pub(crate) struct Ways<'a, S> {
    pub(crate) ours: Calls<'a, S>,
    pub(crate) others: Vec<(Peer, Calls<'a, S>)>,
}

/// Times the ways to do `op`, which moves the payload `passes` times.
pub(crate) fn timed(
    subject: &Subject<'_>,
    stage: &mut Stage,
    op: &str,
    passes: u64,
    ways: Ways<'_, Stage>,
) -> Measured {
    let (ours, others) = compare(subject.effort, stage, ways.ours, ways.others);
    Measured {
        suite: subject.case.suite.to_owned(),
        case: subject.case.name.clone(),
        element: subject.case.element.to_owned(),
        op: op.to_owned(),
        unit: Unit::GigabytesPerSecond,
        bytes: passes * subject.tiled.size(),
        count: 1,
        ours,
        others,
    }
}

/// Cannot panic, because [`check`] has made the same call.
fn ours_pack(tiled: &Tiled, memory: &[u8], image: &mut [u8]) {
    pack(tiled, memory, 0..tiled.size(), image).expect("`check` has made the same call");
}

fn ours_unpack(tiled: &Tiled, image: &[u8], memory: &mut [u8]) {
    unpack(tiled, image, 0..tiled.size(), memory).expect("`check` has made the same call");
}

fn packers<'a>(subject: &'a Subject<'_>) -> Ways<'a, Stage> {
    let Subject { tiled, peer, loops, lines, .. } = subject;
    Ways {
        ours: on_parts(|memory, image| ours_pack(tiled, memory, image)),
        others: vec![
            (Peer::Mpi, on_parts(|memory, image| peer.pack(memory, 1, image))),
            (Peer::Hand, on_parts(|memory, image| loops.pack(memory, image))),
            (Peer::Memcpy, on_parts(|memory, image| image.copy_from_slice(&memory[..image.len()]))),
            (Peer::Lines, on_whole(|memory, image| lines.pack(memory, image))),
        ],
    }
}

fn unpackers<'a>(subject: &'a Subject<'_>) -> Ways<'a, Stage> {
    let Subject { tiled, peer, loops, lines, .. } = subject;
    Ways {
        ours: on_parts(|memory, image| ours_unpack(tiled, image, memory)),
        others: vec![
            (Peer::Mpi, on_parts(|memory, image| peer.unpack(image, 1, memory))),
            (Peer::Hand, on_parts(|memory, image| loops.unpack(image, memory))),
            (Peer::Memcpy, on_parts(|memory, image| memory[..image.len()].copy_from_slice(image))),
            (Peer::Lines, on_whole(|memory, image| lines.unpack(image, memory))),
        ],
    }
}

fn pairs<'a>(subject: &'a Subject<'_>) -> Ways<'a, Stage> {
    let Subject { tiled, peer, loops, lines, .. } = subject;
    Ways {
        ours: on_parts(|memory, image| {
            ours_pack(tiled, memory, image);
            ours_unpack(tiled, image, memory);
        }),
        others: vec![
            (
                Peer::Mpi,
                on_parts(|memory, image| {
                    peer.pack(memory, 1, image);
                    peer.unpack(image, 1, memory);
                }),
            ),
            (
                Peer::Hand,
                on_parts(|memory, image| {
                    loops.pack(memory, image);
                    loops.unpack(image, memory);
                }),
            ),
            (
                Peer::Memcpy,
                on_parts(|memory, image| {
                    image.copy_from_slice(&memory[..image.len()]);
                    // Without the black box the compiler knows that the copy back changes nothing.
                    let image = std::hint::black_box(image);
                    memory[..image.len()].copy_from_slice(image);
                }),
            ),
            (
                Peer::Lines,
                on_whole(|memory, image| {
                    lines.pack(memory, image);
                    lines.unpack(image, memory);
                }),
            ),
        ],
    }
}

/// A call on the memory from the origin on, and on the image.
pub(crate) fn on_parts<'a>(mut call: impl FnMut(&mut [u8], &mut [u8]) + 'a) -> Calls<'a, Stage> {
    repeated(move |stage: &mut Stage| {
        let (memory, image) = stage.parts();
        call(memory, image);
    })
}

/// A call on the memory from its first line on, and on the image.
pub(crate) fn on_whole<'a>(mut call: impl FnMut(&mut [u8], &mut [u8]) + 'a) -> Calls<'a, Stage> {
    repeated(move |stage: &mut Stage| {
        let (memory, image) = stage.whole();
        call(memory, image);
    })
}

/// Compares the images and the memory of Capulet, the MPI and the loops. Leaves the image of the memory
/// in the stage.
fn check(subject: &Subject<'_>, stage: &mut Stage) -> Result<(), BenchError> {
    let Subject { case, tiled, peer, loops, datatype, .. } = subject;
    let name = |what: &str| format!("{} {} {}: {what}", case.suite, case.name, case.element);
    let native = (case.build)().spec.native()?;
    if !native.is_equivalent(datatype) {
        return Err(BenchError::Disagree(name("the imported type and the native one")));
    }
    let (memory, image) = stage.parts();
    peer.pack(memory, 1, image);
    let mut other = Buffer::filled(image.len(), !image.first().copied().unwrap_or(0));
    pack(tiled, memory, 0..tiled.size(), other.as_mut())?;
    agree(other.as_ref(), image, || name("the image of pack"))?;
    other.as_mut().fill(CANARY);
    loops.pack(memory, other.as_mut());
    agree(other.as_ref(), image, || name("the image of the loops"))?;

    let mut expected = Buffer::filled(memory.len(), CANARY);
    peer.unpack(image, 1, expected.as_mut());
    let mut found = Buffer::filled(memory.len(), CANARY);
    unpack(tiled, image, 0..tiled.size(), found.as_mut())?;
    agree(found.as_ref(), expected.as_ref(), || name("the memory after unpack"))?;
    found.as_mut().fill(CANARY);
    loops.unpack(image, found.as_mut());
    agree(found.as_ref(), expected.as_ref(), || name("the memory after the loops"))
}
