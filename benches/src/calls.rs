//! Rows on the cost of a call beside the bytes: a small type, seeking, and making a large type.

use capulet_bench_report::{Measured, Other, Peer, Times, Unit};
use capulet_datatype::{Cursor, Datatype, Tiled, pack, unpack};

use crate::error::BenchError;
use crate::mpi_side::{Lists, Mpi, PeerType};
use crate::random::Random;
use crate::sample::{Calls, Effort, compare, repeated};
use crate::spec::Spec;
use crate::stage::Buffer;

pub(crate) const SUITE: &str = "calls";
/// Entries of the large indexed types.
const ENTRIES: u64 = 1_000_000;
/// Number of positions that a row seeks, one after the other.
const PLACES: usize = 4_096;

/// A row that is not yet measured.
pub(crate) struct Call {
    pub(crate) case: &'static str,
    pub(crate) element: &'static str,
    pub(crate) op: &'static str,
    measure: fn(&Mpi, &Self, Effort) -> Result<Measured, BenchError>,
}

impl Call {
    pub(crate) fn row(&self, mpi: &Mpi, effort: Effort) -> Result<Measured, BenchError> {
        (self.measure)(mpi, self, effort)
    }

    fn measured(&self, unit: Unit, bytes: u64, (ours, others): (Times, Vec<Other>)) -> Measured {
        Measured {
            suite: SUITE.to_owned(),
            case: self.case.to_owned(),
            element: self.element.to_owned(),
            op: self.op.to_owned(),
            unit,
            bytes,
            count: 1,
            ours,
            others,
        }
    }
}

pub(crate) fn all() -> Vec<Call> {
    let call = |case, element, op, measure| Call { case, element, op, measure };
    vec![
        call("small 32 B", "double", "pack", small),
        call("small 32 B", "double", "unpack", small),
        call("strided depth 3", "double", "seek", seek),
        call("indexed 10^6", "double", "seek", seek),
        call("strided depth 3", "double", "offset_of", offset_of),
        call("indexed 10^6", "double", "offset_of", offset_of),
        call("indexed 10^6 equal", "double", "commit", commit),
        call("indexed 10^6 mixed", "double", "commit", commit),
        call("indexed 10^6 mixed", "double", "import", import),
    ]
}

/// A call on 32 bytes: four doubles at stride two.
fn small(mpi: &Mpi, call: &Call, effort: Effort) -> Result<Measured, BenchError> {
    struct Stage {
        memory: Buffer,
        image: Buffer,
    }
    let spec = Spec::double().vector(4, 1, 2);
    let peer = PeerType::new(mpi, &spec);
    let tiled = Tiled::new(peer.import().layout().clone(), 1)?;
    let bytes = tiled.size();
    let mut stage = Stage { memory: Buffer::doubles(64, 1), image: Buffer::filled(bytes as usize, 0) };
    let (ours, others): (Calls<'_, Stage>, Calls<'_, Stage>) = if call.op == "pack" {
        (
            repeated(|stage: &mut Stage| {
                pack(&tiled, stage.memory.as_ref(), 0..bytes, stage.image.as_mut())
                    .expect("the range lies within the type");
            }),
            repeated(|stage: &mut Stage| peer.pack(stage.memory.as_ref(), 1, stage.image.as_mut())),
        )
    } else {
        (
            repeated(|stage: &mut Stage| {
                unpack(&tiled, stage.image.as_ref(), 0..bytes, stage.memory.as_mut())
                    .expect("the range lies within the type");
            }),
            repeated(|stage: &mut Stage| peer.unpack(stage.image.as_ref(), 1, stage.memory.as_mut())),
        )
    };
    let compared = compare(effort, &mut stage, ours, vec![(Peer::Mpi, others)]);
    Ok(call.measured(Unit::Nanoseconds, bytes, compared))
}

/// The type in which a row seeks.
fn sought(call: &Call) -> Spec {
    if call.case.starts_with("strided") {
        Spec::double().vector(100, 3, 7).hvector(100, 1, 8_000).hvector(100, 1, 1_000_000)
    } else {
        large(true)
    }
}

/// A million blocks at irregular places. Blocks have one or two doubles each if `mixed` is set, else one.
fn large(mixed: bool) -> Spec {
    let mut random = Random::new(5);
    let mut at = 0;
    let (mut lengths, mut places) = (Vec::new(), Vec::new());
    for _ in 0..ENTRIES {
        let length = if mixed { 1 + random.below(2) } else { 1 };
        places.push(at);
        lengths.push(length);
        at += length as i64 + 1 + random.below(4) as i64;
    }
    Spec::double().indexed(lengths, places)
}

fn places(bytes: u64) -> Vec<u64> {
    let mut random = Random::new(6);
    (0..PLACES).map(|_| random.below(bytes)).collect()
}

/// Moves a cursor to a random byte and reads the run there.
fn seek(_: &Mpi, call: &Call, effort: Effort) -> Result<Measured, BenchError> {
    let tiled = Tiled::new(sought(call).native()?.layout().clone(), 1)?;
    let places = places(tiled.size());
    let mut next = places.iter().cycle();
    let seek = repeated(move |cursor: &mut Cursor| {
        let at = next.next().copied().unwrap_or(0);
        cursor.seek(at);
        std::hint::black_box(cursor.peek());
    });
    let compared = compare(effort, &mut Cursor::new(tiled), seek, Vec::new());
    Ok(call.measured(Unit::Nanoseconds, 0, compared))
}

/// Finds the offset of a random byte of the stream.
fn offset_of(_: &Mpi, call: &Call, effort: Effort) -> Result<Measured, BenchError> {
    let mut tiled = Tiled::new(sought(call).native()?.layout().clone(), 1)?;
    let places = places(tiled.size());
    let mut next = places.iter().cycle();
    let find = repeated(move |tiled: &mut Tiled| {
        std::hint::black_box(tiled.offset_of(next.next().copied().unwrap_or(0)));
    });
    let compared = compare(effort, &mut tiled, find, Vec::new());
    Ok(call.measured(Unit::Nanoseconds, 0, compared))
}

/// Makes a usable type from lists. The MPI makes and commits a type from the same lists. Both free their
/// type.
fn commit(mpi: &Mpi, call: &Call, effort: Effort) -> Result<Measured, BenchError> {
    let Spec::Indexed(lengths, places, _) = large(call.case.ends_with("mixed")) else {
        return Err(BenchError::Disagree("the case and its type".to_owned()));
    };
    let double = Spec::double().native()?;
    let ours = repeated(|(): &mut ()| {
        let made = Datatype::indexed(&lengths, &places, &double).expect("the lists are valid");
        std::hint::black_box(made.layout());
    });
    let lists = Lists::new(&lengths, &places);
    let theirs = repeated(|(): &mut ()| drop(PeerType::indexed_doubles(mpi, &lists)));
    let compared = compare(effort, &mut (), ours, vec![(Peer::Mpi, theirs)]);
    Ok(call.measured(Unit::Milliseconds, 0, compared))
}

/// Makes an MPI type and imports it. The time includes the MPI's work to make, commit and describe the
/// type.
fn import(mpi: &Mpi, call: &Call, effort: Effort) -> Result<Measured, BenchError> {
    let Spec::Indexed(lengths, places, _) = large(true) else {
        return Err(BenchError::Disagree("the case and its type".to_owned()));
    };
    let lists = Lists::new(&lengths, &places);
    let ours = repeated(|(): &mut ()| {
        let made = PeerType::indexed_doubles(mpi, &lists);
        std::hint::black_box(made.import().layout());
    });
    let compared = compare(effort, &mut (), ours, Vec::new());
    Ok(call.measured(Unit::Milliseconds, 0, compared))
}
