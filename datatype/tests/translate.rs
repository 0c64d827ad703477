//! Translations, compared with oracles that convert element by element: netCDF types here, `external32` in
//! its own program.

mod cases;
mod oracle;
mod translate_oracle;

use std::sync::OnceLock;

use capulet_datatype::{
    Datatype, Named, NetcdfFormat, NetcdfType, OutOfRange, Tiled, TranslateError, Translation, TypeError,
};
use cases::cases;
use oracle::{Tree, any_tree};
use proptest::prelude::*;
use translate_oracle::{
    Memory, NUMBERS, Number, Outcome, decoded, edges, encoded, external_number, homogeneous, named_of,
    outcome,
};

const CANARY: u8 = 0xa5;
const POLICIES: [OutOfRange; 2] = [OutOfRange::Cast, OutOfRange::DefaultFill];

fn externals() -> impl Iterator<Item = NetcdfType> {
    NetcdfType::ALL.into_iter().filter(|external| *external != NetcdfType::Char)
}

/// The formats that have the type.
fn formats_of(external: NetcdfType) -> &'static [NetcdfFormat] {
    let all = &[NetcdfFormat::Cdf5, NetcdfFormat::Cdf1, NetcdfFormat::Cdf2];
    if external as u8 > NetcdfType::Double as u8 { &all[..1] } else { all }
}

/// Every pair of numbers, at every edge of every number: alone, in blocks and in a strided row.
#[test]
#[cfg_attr(miri, ignore = "tries thousands of pairs, which share the loops tested below")]
fn every_pair_matches_at_every_edge() {
    for memory in NUMBERS {
        for external in externals() {
            for &format in formats_of(external) {
                for policy in POLICIES {
                    check_edges(memory, external, format, policy);
                }
            }
        }
    }
}

fn check_edges(memory: Number, external: NetcdfType, format: NetcdfFormat, policy: OutOfRange) {
    let named = Datatype::named(named_of(memory));
    let pair = (memory, external, format, policy);
    // In memory, every other place holds a value.
    let values = edges(memory);
    let n = values.len() as u64;
    let row = Datatype::vector(n, 1, 2, &named).expect("the type is small");
    let translation = Translation::netcdf(&row, 1, external, format)
        .expect("the pair can be converted")
        .out_of_range(policy);
    let mut source = vec![CANARY; memory.bytes() * (2 * values.len() - 1)];
    for (place, value) in source.chunks_mut(2 * memory.bytes()).zip(&values) {
        place[..memory.bytes()].copy_from_slice(value);
    }
    let expected: Vec<Outcome> = values.iter().map(|value| encoded(value, pair)).collect();
    let mut packed =
        vec![CANARY; translation.packed_bytes(0..n).expect("the range has all elements") as usize];
    let result = translation.encode(&source, 0..n, &mut packed);
    assert_eq!(result, outcome(&expected, 0), "{pair:?}");
    assert_eq!(packed, expected.iter().flat_map(|one| one.bytes.clone()).collect::<Vec<u8>>(), "{pair:?}");

    let number = external_number(external);
    let values: Vec<Vec<u8>> =
        edges(number).into_iter().map(|value| value.into_iter().rev().collect()).collect();
    let n = values.len() as u64;
    let row = Datatype::vector(n, 1, 2, &named).expect("the type is small");
    let translation = Translation::netcdf(&row, 1, external, format)
        .expect("the pair can be converted")
        .out_of_range(policy);
    let expected: Vec<Outcome> = values.iter().map(|value| decoded(value, pair)).collect();
    let mut target = vec![CANARY; memory.bytes() * (2 * values.len() - 1)];
    let result = translation.decode(&values.concat(), 0..n, &mut target);
    assert_eq!(result, outcome(&expected, 0), "{pair:?}");
    for (i, place) in target.chunks(memory.bytes()).enumerate() {
        let gap = vec![CANARY; memory.bytes()];
        let wanted = if i % 2 == 0 { &expected[i / 2].bytes } else { &gap };
        assert_eq!(place, wanted, "{pair:?}, place {i}");
    }
}

/// The conversions that have special loops, at every length of a block.
#[test]
fn every_block_length_matches() {
    let pairs = [
        (Number::F64, NetcdfType::Float),
        (Number::F64, NetcdfType::Double),
        (Number::F32, NetcdfType::Float),
        (Number::F32, NetcdfType::Double),
        (Number::I16, NetcdfType::Short),
        (Number::I64, NetcdfType::Int),
        (Number::U8, NetcdfType::Ubyte),
    ];
    for (memory, external) in pairs {
        for block in if cfg!(miri) { vec![1, 9] } else { (1..=40_u64).collect() } {
            for n in if cfg!(miri) { vec![3] } else { vec![1, 2, 5, 17] } {
                let named = Datatype::named(named_of(memory));
                let places: Vec<i64> = (0..n as i64).map(|i| i * (block as i64 + 2) + i * i % 3).collect();
                let rows = Datatype::vector(n, block, block as i64 + 3, &named).expect("the type is small");
                let planes = Datatype::hvector(3, 1, rows.extent() + 7, &rows).expect("the type is small");
                let listed = Datatype::indexed_block(block, &places, &named).expect("the type is small");
                let varied: Vec<u64> = (0..n).map(|i| block + i % 2).collect();
                let varied = Datatype::indexed(&varied, &places, &named).expect("the type is small");
                for datatype in [rows, planes, listed, varied] {
                    let elements = datatype.signature().elements();
                    check_whole(&datatype, 2, 0..2 * elements, (memory, external));
                }
            }
        }
    }
}

/// Small values, with an edge value in every eleventh place.
fn pattern(number: Number, i: u64) -> Vec<u8> {
    if i % 11 == 10 {
        // Computed once: under Miri, computing the edges takes longer than all tests with them.
        static EDGES: [OnceLock<Vec<Vec<u8>>>; NUMBERS.len()] = [const { OnceLock::new() }; NUMBERS.len()];
        let at = NUMBERS.iter().position(|other| *other == number).expect("the list has every number");
        let edges = EDGES[at].get_or_init(|| edges(number));
        return edges[i as usize / 11 % edges.len()].clone();
    }
    number.of_small([3, 5, 7, 11, 13][i as usize % 5] + i as i64 % 90)
}

/// Encodes and decodes a range of a type and compares with the oracle. The type may have offsets of any
/// sign.
fn check_whole(
    datatype: &Datatype,
    count: u64,
    range: std::ops::Range<u64>,
    (memory, external): (Number, NetcdfType),
) {
    let pair = (memory, external, NetcdfFormat::Cdf5, POLICIES[(range.start % 2) as usize]);
    let translation = Translation::netcdf(datatype, count, external, pair.2)
        .expect("the pair can be converted")
        .out_of_range(pair.3);
    let tiled = Tiled::new(datatype.layout().clone(), count).expect("the type is small");
    assert_eq!(translation.elements() * memory.bytes() as u64, tiled.size());
    let element = memory.bytes() as u64;
    let offsets: Vec<i64> = (0..translation.elements()).map(|i| tiled.offset_of(i * element)).collect();
    let here = &offsets[range.start as usize..range.end as usize];

    let mut source = Memory::covering(&offsets, memory.bytes(), CANARY);
    for (i, &offset) in here.iter().enumerate() {
        source.put(offset, &pattern(memory, i as u64));
    }
    // Where elements overlap, the memory holds the later ones.
    let expected: Vec<Outcome> =
        here.iter().map(|&offset| encoded(source.get(offset, memory.bytes()), pair)).collect();
    let bytes = translation.packed_bytes(range.clone()).expect("the range lies in the stream") as usize;
    let mut packed = vec![CANARY; bytes + 1];
    // SAFETY: `source` covers all elements of the range, and `packed` is a separate vector with room for
    // their packed bytes.
    let result = unsafe { translation.encode_raw(source.base(), range.clone(), packed.as_mut_ptr()) };
    assert_eq!(result, outcome(&expected, range.start));
    assert_eq!(packed.pop(), Some(CANARY));
    assert_eq!(packed, expected.iter().flat_map(|one| one.bytes.clone()).collect::<Vec<u8>>());

    if datatype.layout().has_overlap() || !apart(&offsets, element) {
        return;
    }
    let number = external_number(external);
    let values: Vec<Vec<u8>> =
        (0..here.len()).map(|i| pattern(number, i as u64).into_iter().rev().collect()).collect();
    let expected: Vec<Outcome> = values.iter().map(|value| decoded(value, pair)).collect();
    let mut target = Memory::covering(&offsets, memory.bytes(), CANARY);
    let packed = values.concat();
    // SAFETY: `packed` has the packed bytes of the range, and `target`, a separate vector, covers its
    // elements.
    let result = unsafe { translation.decode_raw(packed.as_ptr(), range.clone(), target.base_mut()) };
    assert_eq!(result, outcome(&expected, range.start));
    let mut wanted = Memory::covering(&offsets, memory.bytes(), CANARY);
    here.iter().zip(&expected).for_each(|(&offset, one)| wanted.put(offset, &one.bytes));
    assert_eq!(target, wanted);
}

fn apart(offsets: &[i64], bytes: u64) -> bool {
    let mut sorted = offsets.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[1] - pair[0] >= bytes as i64)
}

fn small_homogeneous() -> impl Strategy<Value = (Tree, Number)> {
    let number = prop::sample::select(&NUMBERS[..]);
    (any_tree(600), number).prop_map(|(tree, number)| (homogeneous(tree, number), number))
}

proptest! {
    #![proptest_config(cases(300, 2))]

    #[test]
    fn any_type_and_range_match_the_oracle(
        (tree, memory) in small_homogeneous(), external in prop::sample::select(externals().collect::<Vec<_>>()),
        count in 0..4_u64, a in any::<u64>(), b in any::<u64>(),
    ) {
        let datatype = tree.datatype().expect("the type is small");
        let elements = datatype.signature().elements() * count;
        let (a, b) = (a % (elements + 1), b % (elements + 1));
        check_whole(&datatype, count, a.min(b)..a.max(b), (memory, external));
        check_whole(&datatype, count, 0..elements, (memory, external));
    }

    #[test]
    fn parts_give_the_same_as_the_whole(
        (tree, memory) in small_homogeneous(), external in prop::sample::select(externals().collect::<Vec<_>>()), step in 1..40_u64,
    ) {
        let datatype = tree.datatype().expect("the type is small");
        let translation = Translation::netcdf(&datatype, 2, external, NetcdfFormat::Cdf5)
            .expect("the pair can be converted");
        let tiled = Tiled::new(datatype.layout().clone(), 2).expect("the type is small");
        let n = translation.elements();
        let offsets: Vec<i64> = (0..n).map(|i| tiled.offset_of(i * memory.bytes() as u64)).collect();
        let mut source = Memory::covering(&offsets, memory.bytes(), CANARY);
        offsets.iter().enumerate().for_each(|(i, &at)| source.put(at, &pattern(memory, i as u64)));
        let bytes = external.bytes() as u64;
        let mut whole = vec![0; (n * bytes) as usize];
        // SAFETY: `source` covers all elements, and `whole` is a separate vector with room for their packed
        // bytes.
        let result = unsafe { translation.encode_raw(source.base(), 0..n, whole.as_mut_ptr()) };
        let mut parts = vec![0; whole.len()];
        let (mut first, mut count) = (None, 0);
        for start in (0..n).step_by(step as usize) {
            let end = n.min(start + step);
            let part = parts[(start * bytes) as usize..].as_mut_ptr();
            // SAFETY: `source` covers all elements, and `part` points to room for the packed bytes of this
            // range in a separate vector.
            if let Err(TranslateError::OutOfRange { first: at, count: more }) = unsafe {
                translation.encode_raw(source.base(), start..end, part)
            } {
                first = first.or(Some(at));
                count += more;
            }
        }
        prop_assert_eq!(&parts, &whole);
        prop_assert_eq!(result, first.map_or(Ok(()), |first| Err(TranslateError::OutOfRange { first, count })));

        // And back: values that fit come back unchanged.
        if first.is_none() && apart(&offsets, memory.bytes() as u64) && memory.holds_in(external_number(external)) {
            let mut target = Memory::covering(&offsets, memory.bytes(), CANARY);
            for start in (0..n).step_by(step as usize) {
                let end = n.min(start + step);
                let part = whole[(start * bytes) as usize..].as_ptr();
                // SAFETY: `part` points to the packed bytes of this range, and `target`, a separate vector,
                // covers all elements.
                let result = unsafe { translation.decode_raw(part, start..end, target.base_mut()) };
                prop_assert_eq!(result, Ok(()));
            }
            prop_assert_eq!(target, source);
        }
    }
}

#[test]
fn text_converts_only_to_text() -> Result<(), TranslateError> {
    let format = NetcdfFormat::Cdf5;
    for named in [Named::Char, Named::Character] {
        let text = Datatype::vector(3, 2, 4, &Datatype::named(named))?;
        let translation = Translation::netcdf(&text, 1, NetcdfType::Char, format)?;
        let mut packed = [0; 6];
        translation.encode(b"ab..cd..ef", 0..6, &mut packed)?;
        assert_eq!(&packed, b"abcdef");
        let mut target = *b"..........";
        translation.decode(b"cde", 2..5, &mut target)?;
        assert_eq!(&target, b"....cd..e.");
        for external in externals() {
            let error = Translation::netcdf(&text, 1, external, format).map(|_| ());
            assert_eq!(error, Err(TranslateError::TextAndNumbers));
        }
    }
    for number in NUMBERS {
        let named = Datatype::named(named_of(number));
        let error = Translation::netcdf(&named, 1, NetcdfType::Char, format).map(|_| ());
        assert_eq!(error, Err(TranslateError::TextAndNumbers));
    }
    Ok(())
}

#[test]
fn types_that_netcdf_lacks_are_refused() -> Result<(), TranslateError> {
    let netcdf = |datatype: &Datatype, external, format| {
        Translation::netcdf(datatype, 1, external, format).map(|translation| translation.elements())
    };
    let int = Datatype::named(Named::Int);
    for external in NetcdfType::ALL.into_iter().skip(6) {
        for format in [NetcdfFormat::Cdf1, NetcdfFormat::Cdf2] {
            let error = TranslateError::NotInFormat { external, format };
            assert_eq!(netcdf(&int, external, format), Err(error));
        }
    }
    for named in
        [Named::Byte, Named::CBool, Named::Logical, Named::CFloatComplex, Named::LongDouble, Named::Wchar]
    {
        let result = netcdf(&Datatype::named(named), NetcdfType::Int, NetcdfFormat::Cdf5);
        assert!(matches!(result, Err(TranslateError::Unsupported { .. })), "{named:?}: {result:?}");
    }
    let mixed = Datatype::structure(&[1, 1], &[0, 8], &[int.clone(), Datatype::named(Named::Double)])?;
    assert_eq!(netcdf(&mixed, NetcdfType::Int, NetcdfFormat::Cdf5), Err(TranslateError::Mixed));
    // Equal elements under several names are one kind.
    let same = Datatype::structure(&[1, 1], &[0, 8], &[int.clone(), Datatype::named(Named::Int32)])?;
    assert_eq!(netcdf(&same, NetcdfType::Int, NetcdfFormat::Cdf5), Ok(2));
    // A type without elements is of every kind and fits everywhere.
    let nothing = Datatype::contiguous(0, &mixed)?;
    let translation = Translation::netcdf(&nothing, 5, NetcdfType::Char, NetcdfFormat::Cdf1)?;
    assert_eq!((translation.elements(), translation.encode(&[], 0..0, &mut [])), (0, Ok(())));
    Ok(())
}

#[test]
fn type_numbers_match_the_header() {
    for (i, external) in NetcdfType::ALL.into_iter().enumerate() {
        assert_eq!(NetcdfType::from_number(i as i32 + 1), Some(external));
    }
    assert_eq!([0, 12, -1].map(NetcdfType::from_number), [None; 3]);
    let bytes = NetcdfType::ALL.map(NetcdfType::bytes);
    assert_eq!(bytes, [1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8]);
}

#[test]
fn bad_ranges_and_memory_are_refused() -> Result<(), TranslateError> {
    let column = Datatype::vector(3, 1, 2, &Datatype::named(Named::Double))?;
    let translation = Translation::netcdf(&column, 2, NetcdfType::Float, NetcdfFormat::Cdf1)?;
    assert_eq!(translation.elements(), 6);
    let (memory, mut packed) = ([0; 80], [CANARY; 24]);
    #[allow(clippy::reversed_empty_ranges)] // the test passes a reversed range on purpose
    for range in [0..7, 4..3, u64::MAX..u64::MAX, 7..7] {
        let error = TranslateError::BadElements { start: range.start, end: range.end, elements: 6 };
        assert_eq!(translation.packed_bytes(range.clone()), Err(error.clone()));
        assert_eq!(translation.encode(&memory, range, &mut packed), Err(error));
    }
    let short = translation.encode(&memory, 0..6, &mut packed[..23]);
    assert_eq!(short, Err(TypeError::PackedLength { expected: 24, found: 23 }.into()));
    let outside = translation.encode(&memory[..79], 0..6, &mut packed);
    assert_eq!(outside, Err(TypeError::OutOfMemory { low: 0, high: 80, memory_bytes: 79 }.into()));
    assert_eq!(packed, [CANARY; 24]);
    // Only the elements of the range must lie in memory.
    translation.encode(&memory[..72], 0..5, &mut packed[..20])?;
    assert_eq!(packed, std::array::from_fn(|i| if i < 20 { 0 } else { CANARY }));
    Ok(())
}

#[test]
fn sizes_that_overflow_in_the_file_are_refused() -> Result<(), TranslateError> {
    let byte = Datatype::named(Named::SignedChar);
    let many = Datatype::contiguous(1 << 60, &byte)?;
    let wide = Translation::netcdf(&many, 1, NetcdfType::Double, NetcdfFormat::Cdf1).map(|_| ());
    assert!(matches!(wide, Err(TranslateError::Type(TypeError::Overflow { .. }))), "{wide:?}");
    let same = Translation::netcdf(&many, 4, NetcdfType::Byte, NetcdfFormat::Cdf1)?;
    assert_eq!(same.packed_bytes(1..1 << 62), Ok((1 << 62) - 1));
    let too_many = Translation::netcdf(&many, 8, NetcdfType::Byte, NetcdfFormat::Cdf1).map(|_| ());
    assert!(matches!(too_many, Err(TranslateError::Type(TypeError::Overflow { .. }))), "{too_many:?}");
    Ok(())
}

#[test]
fn absolute_addresses_from_a_null_base() -> Result<(), TranslateError> {
    let (source, mut target) = ([1.5_f64, 2.5, 3.5], [0.0_f64; 3]);
    let at = |address: usize| i64::try_from(address).expect("a user-space address fits in i64");
    let (from, to) = (source.as_ptr().expose_provenance(), target.as_mut_ptr().expose_provenance());
    let places = |base: usize| {
        Datatype::hindexed(&[1, 1], &[at(base) + 16, at(base)], &Datatype::named(Named::Double))
    };
    let mut packed = [0; 8];
    let reads = Translation::netcdf(&places(from)?, 1, NetcdfType::Float, NetcdfFormat::Cdf2)?;
    let writes = Translation::netcdf(&places(to)?, 1, NetcdfType::Float, NetcdfFormat::Cdf2)?;
    // SAFETY: the displacements are the addresses of elements of two live arrays, whose provenance is
    // exposed above. `packed` has room for two packed elements.
    unsafe {
        reads.encode_raw(std::ptr::null(), 0..2, packed.as_mut_ptr())?;
        writes.decode_raw(packed.as_ptr(), 0..2, std::ptr::null_mut())?;
    }
    assert_eq!(packed, [0x40, 0x60, 0, 0, 0x3f, 0xc0, 0, 0]);
    assert_eq!(target.map(f64::to_bits), [1.5, 0.0, 3.5].map(f64::to_bits));
    Ok(())
}

#[test]
fn variable_may_have_its_own_fill_value() -> Result<(), TranslateError> {
    let double = Datatype::named(Named::Double);
    let own =
        Translation::netcdf(&double, 3, NetcdfType::Short, NetcdfFormat::Cdf1)?.fill_value(&[0x12, 0x34])?;
    let source: Vec<u8> =
        [40_000.0_f64, 7.0, -40_000.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut packed = [0; 6];
    let result = own.encode(&source, 0..3, &mut packed);
    assert_eq!(result, Err(TranslateError::OutOfRange { first: 0, count: 2 }));
    assert_eq!(packed, [0x12, 0x34, 0, 7, 0x12, 0x34]);
    let wrong = Translation::netcdf(&double, 1, NetcdfType::Short, NetcdfFormat::Cdf1)?.fill_value(&[1]);
    assert_eq!(wrong.map(|_| ()), Err(TranslateError::FillLength { expected: 2, found: 1 }));
    Ok(())
}

/// The blocks of the FLASH code: 8 x 8 x 8 cells of 24 variables, inside of 4 layers of guard cells.
#[test]
#[cfg_attr(miri, ignore = "uses megabytes")]
fn flash_blocks_match_the_oracle() -> Result<(), TranslateError> {
    for (variables, external) in
        [(1, NetcdfType::Float), (4, NetcdfType::Float), (4, NetcdfType::Double), (3, NetcdfType::Int)]
    {
        let cell = Datatype::contiguous(24, &Datatype::named(Named::Double))?;
        let wanted = Datatype::resized(
            0,
            cell.extent(),
            &Datatype::contiguous(variables, &Datatype::named(Named::Double))?,
        )?;
        let block = Datatype::subarray(&[16; 3], &[8; 3], &[4; 3], capulet_datatype::ArrayOrder::C, &wanted)?;
        let elements = 2 * 512 * variables;
        for range in [0..elements, 5..elements - 5, 100..101, 60..70] {
            check_whole(&block, 2, range, (Number::F64, external));
        }
    }
    Ok(())
}
