//! `external32`, compared with an oracle that converts element by element, with the table of the standard
//! (MPI 4.1, 14.5.2), and with bytes that MPI libraries packed.

mod cases;
mod oracle;
mod translate_oracle;

use capulet_datatype::{Datatype, Named, Prim, PrimKind, Tiled, TranslateError, Translation, TypeError};
use cases::cases;
use oracle::{Tree, any_tree};
use proptest::prelude::*;
use translate_oracle::{Memory, Outcome, outcome, with_leaves};

const CANARY: u8 = 0x5a;

/// Elements that kind and size identify, if either all or none of the 8-byte integers are `long`.
const WITH_LONG: [Named; 16] = [
    Named::Char,
    Named::SignedChar,
    Named::Short,
    Named::Unsigned,
    Named::Long,
    Named::UnsignedLong,
    Named::LongInt,
    Named::Double,
    Named::LongDouble,
    Named::Wchar,
    Named::CBool,
    Named::Logical,
    Named::CFloatComplex,
    Named::CLongDoubleComplex,
    Named::DoubleInt,
    Named::ShortInt,
];
const WITHOUT_LONG: [Named; 10] = [
    Named::Byte,
    Named::Int64,
    Named::UnsignedLongLong,
    Named::Aint,
    Named::Int16,
    Named::Float,
    Named::Real16,
    Named::CDoubleComplex,
    Named::Logical2,
    Named::FloatInt,
];

/// Bytes of an element in `external32`.
fn packed_bytes(prim: Prim, long: bool) -> usize {
    match (prim.kind, prim.bytes) {
        (PrimKind::Signed | PrimKind::Unsigned, 8) if long => 4,
        (PrimKind::WideText, 4) => 2,
        (_, bytes) => bytes as usize,
    }
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

/// From an 80-bit to a 128-bit number: sign and exponent stay; the significand without its leading 1 goes to
/// the front of the 112 bits of the fraction.
fn quad_of(extended: &[u8]) -> Vec<u8> {
    let mut quad = vec![extended[9], extended[8]];
    let significand = u64::from_le_bytes(extended[..8].try_into().expect("the slice has 8 bytes")) << 1;
    quad.extend(significand.to_be_bytes());
    quad.resize(16, 0);
    quad
}

fn encoded(native: &[u8], prim: Prim, long: bool) -> Outcome {
    let half = native.len() / 2;
    let both = |part: fn(&[u8]) -> Vec<u8>| [part(&native[..half]), part(&native[half..])].concat();
    let fits = |bytes| Outcome { bytes, misfits: false };
    match (prim.kind, prim.bytes) {
        (PrimKind::Signed, 8) if long => {
            let value = i64::from_ne_bytes(native.try_into().expect("the slice has 8 bytes"));
            Outcome { bytes: reversed(&native[..4]), misfits: i32::try_from(value).is_err() }
        }
        (PrimKind::Unsigned, 8) if long => {
            Outcome { bytes: reversed(&native[..4]), misfits: native[4..] != [0; 4] }
        }
        (PrimKind::WideText, _) => Outcome { bytes: reversed(&native[..2]), misfits: native[2..] != [0; 2] },
        (PrimKind::LongDouble, _) => fits(quad_of(native)),
        (PrimKind::LongDoubleComplex, _) => fits(both(quad_of)),
        (PrimKind::Complex, _) => fits(both(reversed)),
        _ => fits(reversed(native)),
    }
}

fn decoded(packed: &[u8], prim: Prim, long: bool) -> Vec<u8> {
    let extended = |quad: &[u8]| {
        let fraction = u64::from_be_bytes(quad[2..10].try_into().expect("the slice has 8 bytes")) >> 1;
        let leading = u64::from(quad[0] & 0x7f > 0 || quad[1] > 0) << 63;
        let mut bytes = (leading | fraction).to_le_bytes().to_vec();
        bytes.extend([quad[1], quad[0], 0, 0, 0, 0, 0, 0]);
        bytes
    };
    let half = packed.len() / 2;
    match (prim.kind, prim.bytes) {
        (PrimKind::Signed, 8) if long => {
            let value = i32::from_be_bytes(packed.try_into().expect("the slice has 4 bytes"));
            i64::from(value).to_ne_bytes().to_vec()
        }
        (PrimKind::Unsigned, 8) if long => [reversed(packed), vec![0; 4]].concat(),
        (PrimKind::WideText, _) => [reversed(packed), vec![0; 2]].concat(),
        (PrimKind::LongDouble, _) => extended(packed),
        (PrimKind::LongDoubleComplex, _) => [extended(&packed[..half]), extended(&packed[half..])].concat(),
        (PrimKind::Complex, _) => [reversed(&packed[..half]), reversed(&packed[half..])].concat(),
        (PrimKind::Logical, bytes) => {
            let mut truth = vec![0; bytes as usize];
            truth[0] = u8::from(packed.iter().any(|&byte| byte != 0));
            truth
        }
        _ => reversed(packed),
    }
}

/// The bytes of an element. 80-bit numbers are normal, and most longs and wide characters fit in their
/// packed form.
fn native(prim: Prim, i: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..prim.bytes as usize).map(|k| (i * 37 + k * 11 + 1) as u8).collect();
    match prim.kind {
        PrimKind::LongDouble | PrimKind::LongDoubleComplex => {
            for part in bytes.chunks_mut(16) {
                part[7] |= 0x80;
                part[9] = 0x3f;
                part[10..].fill(0);
            }
        }
        PrimKind::Signed | PrimKind::Unsigned if prim.bytes == 8 && !i.is_multiple_of(5) => {
            bytes[3] &= 0x7f;
            bytes[4..].fill(0);
        }
        PrimKind::WideText if !i.is_multiple_of(5) => bytes[2..].fill(0),
        PrimKind::Logical => {
            bytes.fill(0);
            bytes[0] = (i % 2) as u8;
        }
        _ => {}
    }
    bytes
}

/// Encodes a range and decodes the result. The type may have offsets of any sign.
fn check(
    datatype: &Datatype,
    elements: &[(Prim, i64)],
    range: std::ops::Range<usize>,
    count: u64,
    long: bool,
) {
    let translation = Translation::external32(datatype, count).expect("all elements are known");
    assert_eq!(translation.elements(), elements.len() as u64);
    let offsets: Vec<i64> =
        elements.iter().flat_map(|(prim, at)| (0..i64::from(prim.bytes)).map(move |i| at + i)).collect();
    let here = &elements[range.clone()];
    let range = range.start as u64..range.end as u64;
    let bytes: usize = here.iter().map(|(prim, _)| packed_bytes(*prim, long)).sum();
    assert_eq!(translation.packed_bytes(range.clone()), Ok(bytes as u64));

    let mut source = Memory::covering(&offsets, 1, CANARY);
    for (i, (prim, at)) in here.iter().enumerate() {
        source.put(*at, &native(*prim, i));
    }
    let mut sorted: Vec<i64> = offsets.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return;
    }
    let expected: Vec<Outcome> =
        here.iter().enumerate().map(|(i, (prim, _))| encoded(&native(*prim, i), *prim, long)).collect();
    let mut packed = vec![CANARY; bytes + 1];
    // SAFETY: `source` covers all elements of the range, and `packed` is a separate vector with room for
    // their packed bytes.
    let result = unsafe { translation.encode_raw(source.base(), range.clone(), packed.as_mut_ptr()) };
    assert_eq!(result, outcome(&expected, range.start));
    assert_eq!(packed.pop(), Some(CANARY));
    assert_eq!(packed, expected.iter().flat_map(|one| one.bytes.clone()).collect::<Vec<u8>>());

    let mut target = Memory::covering(&offsets, 1, CANARY);
    // SAFETY: `packed` has the packed bytes of the range, and `target`, a separate vector, covers its
    // elements.
    let result = unsafe { translation.decode_raw(packed.as_ptr(), range, target.base_mut()) };
    assert_eq!(result, Ok(()));
    let (mut wanted, mut at) = (Memory::covering(&offsets, 1, CANARY), 0);
    for (prim, offset) in here {
        let bytes = packed_bytes(*prim, long);
        wanted.put(*offset, &decoded(&packed[at..at + bytes], *prim, long));
        at += bytes;
    }
    assert_eq!(target, wanted);
}

/// The elements of `count` instances, with their offsets.
fn elements(tree: &Tree, count: u64) -> Vec<(Prim, i64)> {
    let map = tree.type_map();
    let instance = |i: u64| {
        let origin = i as i64 * map.extent();
        map.elements.iter().map(move |(prim, at)| (*prim, at + origin))
    };
    (0..count).flat_map(instance).collect()
}

#[cfg(target_arch = "x86_64")]
proptest! {
    #![proptest_config(cases(300, 2))]

    #[test]
    fn any_type_and_range_match_the_oracle(
        tree in any_tree(600),
        long in any::<bool>(), kinds in prop::collection::vec(any::<prop::sample::Index>(), 1..5), count in 0..4_u64,
        a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
    ) {
        let names: &[Named] = if long { &WITH_LONG } else { &WITHOUT_LONG };
        let mut next = 0;
        let tree = with_leaves(tree, &mut |_| {
            next += 1;
            *kinds[next % kinds.len()].get(names)
        });
        let elements = elements(&tree, count);
        let (a, b) = (a.index(elements.len() + 1), b.index(elements.len() + 1));
        let datatype = tree.datatype().expect("the type is small");
        check(&datatype, &elements, a.min(b)..a.max(b), count, long);
        check(&datatype, &elements, 0..elements.len(), count, long);
    }
}

/// Structs that do not fit into one part of the stage (the staging buffer), and elements that no part of it
/// holds whole.
#[test]
#[cfg(target_arch = "x86_64")]
fn long_mixed_streams_match_the_oracle() {
    let fields =
        [(3, 0, Named::Char), (1, 4, Named::Long), (2, 16, Named::LongDouble), (1, 49, Named::Wchar)];
    let fields: Vec<_> = fields.into_iter().map(|(n, at, named)| (n, at, Tree::Named(named))).collect();
    let mixed = Tree::Resized(0, 57, Box::new(Tree::Struct(fields)));
    for count in if cfg!(miri) { vec![1, 20] } else { vec![1, 300, 1000] } {
        let elements = elements(&mixed, count);
        let n = elements.len();
        for range in [0..n, 3..n - 2, n / 2..n] {
            check(&mixed.datatype().expect("the type is small"), &elements, range, count, true);
        }
    }
}

#[test]
fn sizes_match_the_standard() -> Result<(), TranslateError> {
    #[allow(clippy::enum_glob_use)] // the table consists of names only
    use Named::*;
    let size = |named: Named| Translation::external32(&Datatype::named(named), 1)?.packed_bytes(0..1);
    let of_bytes = |bytes: u64, names: &[Named]| {
        for &named in names {
            assert_eq!(size(named), Ok(bytes), "{}", named.name());
        }
    };
    of_bytes(1, &[Packed, Byte, Char, UnsignedChar, SignedChar, CBool, Int8, Uint8, Character, CxxBool]);
    of_bytes(1, &[Integer1, Logical1]);
    of_bytes(2, &[Wchar, Short, UnsignedShort, Int16, Uint16, Integer2, Real2, Logical2]);
    of_bytes(4, &[Int, Long, Unsigned, UnsignedLong, Float, Int32, Uint32, Logical, Integer, Real]);
    of_bytes(4, &[Integer4, Real4, Complex4, Logical4]);
    of_bytes(8, &[LongLong, UnsignedLongLong, Double, Int64, Uint64, Aint, Count, Offset, DoublePrecision]);
    of_bytes(8, &[CFloatComplex, Complex, CxxFloatComplex, Integer8, Real8, Complex8, Logical8]);
    of_bytes(16, &[CDoubleComplex, DoubleComplex, CxxDoubleComplex, Integer16, Real16, Complex16, Logical16]);
    of_bytes(16, &[LongDouble]);
    of_bytes(32, &[CLongDoubleComplex, CxxLongDoubleComplex, Complex32]);
    of_bytes(8, &[F90Integer { bytes: 8 }, F90Real { bytes: 8 }, F90Complex { bytes: 8 }]);
    let pairs = [
        (FloatInt, 8),
        (DoubleInt, 12),
        (LongInt, 8),
        (ShortInt, 6),
        (TwoInt, 8),
        (LongDoubleInt, 20),
        (TwoReal, 8),
        (TwoDoublePrecision, 16),
        (TwoInteger, 8),
        (TwoComplex, 16),
        (TwoDoubleComplex, 32),
    ];
    for (named, bytes) in pairs {
        let translation = Translation::external32(&Datatype::named(named), 1)?;
        assert_eq!(
            (translation.elements(), translation.packed_bytes(0..2)),
            (2, Ok(bytes)),
            "{}",
            named.name()
        );
    }
    // All predefined types have an `external32` form. Types of unknown meaning have none.
    for &named in Named::ALL {
        assert!(Translation::external32(&Datatype::named(named), 1).is_ok(), "{}", named.name());
    }
    for named in [Opaque { bytes: 3 }, F90Real { bytes: 10 }, F90Integer { bytes: 3 }] {
        let result = Translation::external32(&Datatype::named(named), 1).map(|_| ());
        assert!(matches!(result, Err(TranslateError::Unsupported { .. })), "{named:?}");
    }
    Ok(())
}

/// One element as MPICH 4.0 packs it. Open MPI 4.1 packs it the same way, except for `long double`, which it
/// packs wrongly.
#[test]
#[cfg(target_arch = "x86_64")]
fn packed_bytes_match_mpi_libraries() -> Result<(), TranslateError> {
    let third = [0xab, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xfd, 0x3f, 0, 0, 0, 0, 0, 0];
    let packed_third = [0x3f, 0xfd, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x56, 0, 0, 0, 0, 0, 0];
    let samples: [(Named, &[u8], &[u8]); 8] = [
        (Named::Short, &(-2_i16).to_ne_bytes(), &[0xff, 0xfe]),
        (Named::Long, &(-5_i64).to_ne_bytes(), &[0xff, 0xff, 0xff, 0xfb]),
        (Named::UnsignedLong, &0xffff_ffff_u64.to_ne_bytes(), &[0xff; 4]),
        (Named::LongLong, &(-6_i64).to_ne_bytes(), &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfa]),
        (Named::Double, &(-2.25_f64).to_ne_bytes(), &[0xc0, 2, 0, 0, 0, 0, 0, 0]),
        (Named::LongDouble, &third, &packed_third),
        (Named::CBool, &[1], &[1]),
        (Named::Logical, &1_i32.to_ne_bytes(), &[0, 0, 0, 1]),
    ];
    for (named, native, external) in samples {
        let translation = Translation::external32(&Datatype::named(named), 1)?;
        let mut packed = vec![CANARY; external.len()];
        translation.encode(native, 0..1, &mut packed)?;
        assert_eq!(packed, external, "{}", named.name());
        let mut back = vec![CANARY; native.len()];
        translation.decode(external, 0..1, &mut back)?;
        assert_eq!(back, native, "{}", named.name());
    }
    Ok(())
}

#[test]
fn values_out_of_range_are_reported() -> Result<(), TranslateError> {
    let long = Translation::external32(&Datatype::named(Named::Long), 4)?;
    let values = [1, i64::from(i32::MAX) + 1, -1, i64::from(i32::MIN) - 1];
    let source: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut packed = [CANARY; 16];
    let result = long.encode(&source, 0..4, &mut packed);
    assert_eq!(result, Err(TranslateError::OutOfRange { first: 1, count: 2 }));
    assert_eq!(packed, [0, 0, 0, 1, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(long.encode(&source, 2..3, &mut packed[..4]), Ok(()));
    let wide = Translation::external32(&Datatype::named(Named::Wchar), 2)?;
    let source: Vec<u8> = [0x20ac_u32, 0x1_f600].iter().flat_map(|value| value.to_ne_bytes()).collect();
    let result = wide.encode(&source, 0..2, &mut packed[..4]);
    assert_eq!(result, Err(TranslateError::OutOfRange { first: 1, count: 1 }));
    assert_eq!(packed[..4], [0x20, 0xac, 0xf6, 0]);
    Ok(())
}

#[test]
fn any_nonzero_byte_is_true() -> Result<(), TranslateError> {
    for named in [Named::CBool, Named::Logical2, Named::Logical, Named::Logical8, Named::Logical16] {
        let bytes = named.size() as usize;
        let translation = Translation::external32(&Datatype::named(named), 2)?;
        let mut packed = vec![0; 2 * bytes];
        packed[bytes / 2] = 0x40;
        let mut target = vec![CANARY; 2 * bytes];
        translation.decode(&packed, 0..2, &mut target)?;
        let mut wanted = vec![0; 2 * bytes];
        wanted[if cfg!(target_endian = "big") { bytes - 1 } else { 0 }] = 1;
        assert_eq!(target, wanted, "{}", named.name());
    }
    Ok(())
}

/// A type whose tree has far more leaves than nodes is processed node by node.
#[test]
fn shared_trees_are_visited_once() -> Result<(), TranslateError> {
    let mut datatype = Datatype::named(Named::DoubleInt);
    for _ in 0..40 {
        let extent = datatype.extent();
        datatype = Datatype::structure(&[1, 1], &[0, extent], &[datatype.clone(), datatype])?;
    }
    let translation = Translation::external32(&datatype, 3)?;
    assert_eq!(translation.elements(), 6 << 40);
    assert_eq!(translation.packed_bytes(1..6 << 40), Ok((36 << 40) - 8));
    Ok(())
}

#[test]
fn bad_ranges_and_memory_are_refused() -> Result<(), TranslateError> {
    let pair = Translation::external32(&Datatype::named(Named::DoubleInt), 2)?;
    let (memory, mut packed) = ([0; 32], [CANARY; 24]);
    let error = TranslateError::BadElements { start: 3, end: 5, elements: 4 };
    assert_eq!(pair.encode(&memory, 3..5, &mut packed), Err(error));
    let short = pair.encode(&memory, 0..4, &mut packed[..20]);
    assert_eq!(short, Err(TypeError::PackedLength { expected: 24, found: 20 }.into()));
    let outside = pair.encode(&memory[..27], 0..4, &mut packed);
    assert_eq!(outside, Err(TypeError::OutOfMemory { low: 0, high: 28, memory_bytes: 27 }.into()));
    assert_eq!(packed, [CANARY; 24]);
    // The range ends before the last index, so the memory need not hold this index.
    assert_eq!(pair.encode(&memory[..24], 0..3, &mut packed[..20]), Ok(()));
    let unknown = Datatype::structure(
        &[1, 0],
        &[0, 8],
        &[Datatype::named(Named::Int), Datatype::named(Named::Opaque { bytes: 9 })],
    )?;
    assert!(Translation::external32(&unknown, 1).is_ok(), "an absent element needs no form");
    let tiled = Tiled::new(unknown.layout().clone(), 1)?;
    assert_eq!(tiled.size(), 4);
    Ok(())
}
