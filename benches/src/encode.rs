//! Rows of encoding for a netCDF file, as `PnetCDF` does: doubles to big-endian doubles or to big-endian
//! floats.
//!
//! The MPI packs, and a second pass encodes the image. Capulet and the loops encode in the same pass.

use capulet_bench_report::{Measured, Peer};
use capulet_datatype::{NetcdfFormat, NetcdfType, Translation};

use crate::error::{BenchError, agree};
use crate::hand::{Nest, natively};
use crate::moves::{Stage, Subject, Ways, on_whole, timed};
use crate::sample::{Calls, repeated};
use crate::stage::Buffer;

/// Encodes memory (first argument) into bytes (third argument), with or without the image (second
/// argument).
type Encode<'a> = Box<dyn Fn(&[u8], &mut [u8], &mut [u8]) + 'a>;

/// The encoding of one value for the file.
trait Encoding: Copy + 'static {
    type External: bytemuck::Pod;
    const NETCDF: NetcdfType;
    fn encode(double: f64) -> Self::External;
}

/// A big-endian double.
#[derive(Debug, Clone, Copy)]
struct Swap;

/// A big-endian float.
#[derive(Debug, Clone, Copy)]
struct Narrow;

impl Encoding for Swap {
    type External = u64;
    const NETCDF: NetcdfType = NetcdfType::Double;

    #[inline]
    fn encode(double: f64) -> u64 {
        double.to_bits().to_be()
    }
}

impl Encoding for Narrow {
    type External = u32;
    const NETCDF: NetcdfType = NetcdfType::Float;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the conversion is the point")]
    fn encode(double: f64) -> u32 {
        (double as f32).to_bits().to_be()
    }
}

/// Encodes a packed image.
fn pass<E: Encoding>(image: &[u8], encoded: &mut [u8]) {
    let (from, to) = (bytemuck::cast_slice::<_, f64>(image), bytemuck::cast_slice_mut(encoded));
    natively(|| {
        for (to, from) in to.iter_mut().zip(from) {
            *to = E::encode(*from);
        }
    });
}

/// Loops that read memory and encode in one pass.
fn fused<E: Encoding, const ROW: usize>(nest: Nest, memory: &[u8], encoded: &mut [u8]) {
    let (memory, encoded) =
        (bytemuck::cast_slice::<_, f64>(memory), bytemuck::cast_slice_mut::<_, E::External>(encoded));
    natively(|| {
        let mut rows = encoded.chunks_exact_mut(ROW);
        nest.for_each_row(|at| {
            let from = &memory[at..at + ROW];
            for (to, from) in rows.next().into_iter().flatten().zip(from) {
                *to = E::encode(*from);
            }
        });
    });
}

/// Measures one encoding. The payload is the bytes of the doubles.
pub(crate) fn row(subject: &Subject<'_>, stage: &mut Stage, op: &str) -> Result<Measured, BenchError> {
    match op {
        "swap" => row_of::<Swap>(subject, stage, op),
        _ => row_of::<Narrow>(subject, stage, op),
    }
}

fn row_of<E: Encoding>(subject: &Subject<'_>, stage: &mut Stage, op: &str) -> Result<Measured, BenchError> {
    let Subject { case, datatype, peer, lines, encoded: nest, .. } = subject;
    let translation = Translation::netcdf(datatype, 1, E::NETCDF, NetcdfFormat::Cdf5)?;
    let elements = translation.elements();
    let by_mpi: Encode<'_> = Box::new(|memory, image, encoded| {
        peer.pack(memory, 1, image);
        pass::<E>(image, encoded);
    });
    let by_us: Encode<'_> = Box::new(|memory, _, encoded| {
        translation.encode(memory, 0..elements, encoded).expect("all doubles lie between 1 and 2");
    });
    let nest =
        nest.ok_or_else(|| BenchError::Disagree(format!("{}: its rows and its encodings", case.name)))?;
    let by_loops: Encode<'_> = Box::new(move |memory, _, encoded| match nest.row {
        1 => fused::<E, 1>(nest, memory, encoded),
        _ => fused::<E, 4>(nest, memory, encoded),
    });
    let (memory, image, encoded) = stage.all_parts();
    let bytes = image.len() / size_of::<f64>() * size_of::<E::External>();
    by_mpi(memory, image, &mut encoded[..bytes]);
    let mut found = Buffer::filled(bytes, 0);
    for (who, encode) in [("ours", &by_us), ("the loops'", &by_loops)] {
        found.as_mut().fill(0);
        encode(memory, image, found.as_mut());
        agree(found.as_ref(), &encoded[..bytes], || format!("{} {op}: {who} and the MPI's", case.name))?;
    }
    let ways = Ways {
        ours: calls_of(by_us, bytes),
        others: vec![
            (Peer::Mpi, calls_of(by_mpi, bytes)),
            (Peer::Hand, calls_of(by_loops, bytes)),
            (
                Peer::Memcpy,
                calls_of(Box::new(|memory, image, _| image.copy_from_slice(&memory[..image.len()])), bytes),
            ),
            // The encoded bytes have no more lines than the image.
            (Peer::Lines, on_whole(move |memory, image| lines.pack(memory, &mut image[..bytes]))),
        ],
    };
    Ok(timed(subject, stage, op, 1, ways))
}

fn calls_of(encode: Encode<'_>, bytes: usize) -> Calls<'_, Stage> {
    repeated(move |stage: &mut Stage| {
        let (memory, image, encoded) = stage.all_parts();
        encode(memory, image, &mut encoded[..bytes]);
    })
}
