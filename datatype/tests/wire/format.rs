//! The sizes of messages, the format byte by byte, and malicious messages.

use capulet_datatype::{ArrayOrder, Datatype, Distribution, Named, TypeError, WireError};

use crate::questions::{assert_equal, interrogate};
use crate::{body, nodes, sealed};

/// Four of 24 variables in the interior of 100 blocks of cells, as the FLASH code stores them.
fn flash() -> Datatype {
    let variables = Datatype::contiguous(4, &Datatype::named(Named::Double)).expect("the type is small");
    let strides = [(8, 192), (8, 192 * 16), (8, 192 * 256), (100, 192 * 4096)];
    strides.iter().fold(variables, |old, &(n, stride)| {
        Datatype::hvector(n, 1, stride, &old).expect("the type is small")
    })
}

#[test]
#[cfg_attr(miri, ignore = "uses messages of megabytes")]
fn messages_take_tens_of_bytes() {
    let double = Datatype::named(Named::Double);
    let nested = [3, 20, 300, 4000].iter().fold(double.clone(), |old, &stride| {
        Datatype::vector(8, 1, stride, &old).expect("the type is small")
    });
    let array = Datatype::subarray(&[512; 3], &[256; 3], &[128; 3], ArrayOrder::C, &double)
        .expect("the type is small");
    let shares = [Distribution::Block(None), Distribution::Cyclic(Some(4)), Distribution::None];
    let dealt = Datatype::darray(5, &[1000, 1000, 8], &shares, &[4, 4, 1], ArrayOrder::Fortran, &double)
        .expect("the type is small");
    let int = Datatype::named(Named::Int);
    let particle = Datatype::structure(&[1, 3, 1], &[0, 8, 32], &[int.clone(), double.clone(), int])
        .expect("the type is small");
    for (what, datatype, most) in [
        ("a double", &double, 10),
        ("a vector in a vector in a vector in a vector", &nested, 40),
        ("a FLASH variable", &flash(), 60),
        ("a part of a cube", &array, 35),
        ("a share of an array", &dealt, 35),
        ("a struct", &particle, 28),
    ] {
        let bytes = datatype.to_wire().len();
        println!("{bytes:>3} bytes: {what}");
        assert!(bytes <= most, "{what}: {bytes} bytes");
        assert!(datatype.layout_to_wire().len() <= bytes);
    }
    // A million entries: one byte each if they are close to each other, and less than two bits each if they
    // are dense.
    let sparse: Vec<i64> = (0..1_000_000_i64)
        .scan(0, |at, i| {
            *at += 1 + i * i % 200;
            Some(*at)
        })
        .collect();
    let dense: Vec<i64> = (0..1_000_000_i64)
        .scan(0, |at, i| {
            *at += 1 + i * i % 3 / 2 + i % 2;
            Some(*at)
        })
        .collect();
    for (places, most) in [(&sparse, 1_000_040), (&dense, 260_000)] {
        let listed = Datatype::indexed_block(1, places, &double).expect("the type fits");
        let message = listed.to_wire();
        assert!(message.len() <= most, "{} bytes", message.len());
        assert_equal(&Datatype::from_wire(&message).expect("the library's own message decodes"), &listed);
    }
}

/// The format, byte by byte: messages of older versions must remain readable.
#[test]
fn format_is_stable() {
    let int = Datatype::named(Named::Int);
    let vector = Datatype::vector(3, 2, -5, &int).expect("the type is small");
    let expected = nodes(&[0, 5, 7, 3, 2, 9, 1]);
    assert_eq!(vector.to_wire(), expected);
    let forced = vector.with_bounds(-1, 64).expect("the type is small");
    let shared = Datatype::structure(&[1, 2, 1], &[0, 100, 300], &[forced.clone(), int, forced])
        .expect("the type is small");
    let expected = nodes(&[
        0,
        5, // int
        0x87,
        3,
        2,
        9,
        1,
        1,
        0x80,
        1, // vector, with bounds
        13,
        3,
        0,
        2 << 3,
        50,
        0,
        25, // struct: three displacements: 0, and differences in units of four, from 25 on
        0,
        2,
        0,
        1,
        0, // lengths: packed, from 1 on
        1,
        2,
        1, // the vector, the int, the vector
    ]);
    assert_eq!(shared.to_wire(), expected);
    assert_eq!(&expected[..4], b"CDT\x01");
    assert_eq!(expected[expected.len() - 4..], crc32fast::hash(body(&expected)).to_le_bytes());
}

/// The number of a predefined type is its place in the list.
#[test]
fn numbers_of_predefined_types_are_stable() {
    let names: Vec<&str> = Named::ALL.iter().map(|named| &named.name()[4..]).collect();
    let pinned = "CHAR SIGNED_CHAR UNSIGNED_CHAR SHORT UNSIGNED_SHORT INT UNSIGNED LONG UNSIGNED_LONG LONG_LONG \
        UNSIGNED_LONG_LONG FLOAT DOUBLE LONG_DOUBLE WCHAR C_BOOL INT8_T INT16_T INT32_T INT64_T UINT8_T UINT16_T UINT32_T \
        UINT64_T C_FLOAT_COMPLEX C_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX AINT OFFSET COUNT BYTE PACKED CXX_BOOL \
        CXX_FLOAT_COMPLEX CXX_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX CHARACTER LOGICAL LOGICAL1 LOGICAL2 LOGICAL4 LOGICAL8 \
        LOGICAL16 INTEGER INTEGER1 INTEGER2 INTEGER4 INTEGER8 INTEGER16 REAL REAL2 REAL4 REAL8 REAL16 DOUBLE_PRECISION \
        COMPLEX COMPLEX4 COMPLEX8 COMPLEX16 COMPLEX32 DOUBLE_COMPLEX FLOAT_INT DOUBLE_INT LONG_INT SHORT_INT 2INT \
        LONG_DOUBLE_INT 2REAL 2DOUBLE_PRECISION 2INTEGER 2COMPLEX 2DOUBLE_COMPLEX";
    assert_eq!(
        names,
        pinned.split_whitespace().collect::<Vec<_>>(),
        "new types must go to the end of the list"
    );
    for named in Named::ALL {
        let datatype = Datatype::named(*named);
        let received = Datatype::from_wire(&datatype.to_wire()).expect("the library's own message decodes");
        assert_equal(&received, &datatype);
    }
}

#[test]
#[cfg_attr(miri, ignore = "uses messages of megabytes")]
fn errors_name_the_fault() {
    let refused = |message: &[u8]| Datatype::from_wire(message).expect_err("the message is not a type");
    let int = nodes(&[0, 5]);
    assert_eq!(Datatype::from_wire(&int).map(|int| int.size()), Ok(4));
    assert_eq!(refused(b""), WireError::NotAType);
    assert_eq!(refused(b"CD"), WireError::NotAType);
    assert_eq!(refused(&sealed(b"CDF\x01\0\x05".to_vec())), WireError::NotAType);
    assert_eq!(refused(&sealed(b"CDT\x02\0\x05".to_vec())), WireError::Version { found: 2 });
    assert_eq!(refused(b"CDT\x01"), WireError::Truncated { position: 4 });
    assert_eq!(refused(&int[..7]), WireError::Truncated { position: 7 });
    assert_eq!(refused(&nodes(&[])), WireError::Truncated { position: 4 });
    assert!(matches!(refused(&[&int[..], &[0]].concat()), WireError::Checksum { .. }));
    for bit in 32..int.len() * 8 {
        let mut flipped = int.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(refused(&flipped), WireError::Checksum { .. }), "bit {bit}");
    }
    assert_eq!(refused(&nodes(&[0])), WireError::Truncated { position: 5 });
    assert_eq!(refused(&nodes(&[17])), WireError::Tag { position: 4, tag: 17 });
    let number = |position, what| WireError::Number { position, what };
    assert_eq!(refused(&nodes(&[0, 0x80, 0])), number(5, "a number is longer than it need be"));
    assert_eq!(refused(&nodes(&[0, 100])), number(5, "no predefined type has that number"));
    let large = "the size of an element does not fit in 32 bits";
    assert_eq!(refused(&nodes(&[4, 0x80, 0x80, 0x80, 0x80, 0x10])), number(5, large));
    let darray = |code: u8| refused(&nodes(&[0, 5, 15, 0, 2, 4, code, 1, 1]));
    assert_eq!(darray(6), number(10, "no distribution has that number"));
    assert_eq!(darray(1), number(10, "no distribution has that number"));
    // A reference to no node, to itself, and to a later node.
    for back in [0, 2, 9] {
        let expected = WireError::Reference { position: 8, back: back.into(), nodes: 1 };
        assert_eq!(refused(&nodes(&[0, 5, 6, 3, back])), expected);
    }
    assert_eq!(refused(&nodes(&[0, 5, 0, 5])), WireError::Unused { node: 0 });
    assert_eq!(refused(&nodes(&[0, 5, 5, 1, 0, 6])), WireError::Unused { node: 1 });
    // Lists with more entries than the message has bytes, and lists of an unknown form.
    let room = "a list has more entries than the message has room for";
    assert_eq!(refused(&nodes(&[0, 5, 11, 1, 120, 0, 0, 0, 1])), WireError::List { position: 8, what: room });
    let form = "a list has an unknown form";
    assert_eq!(refused(&nodes(&[0, 5, 11, 1, 2, 0, 7, 0, 1])), WireError::List { position: 11, what: form });
    // Arguments that a constructor refuses.
    let overflow = |position, what| WireError::Type { position, source: TypeError::Overflow { what } };
    let mut long = vec![0, 5, 6];
    long.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1]);
    assert!(matches!(
        refused(&nodes(&long)),
        WireError::Type { position: 6, source: TypeError::Overflow { .. } }
    ));
    let mut bounds = vec![0x80, 5, 2];
    bounds.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    assert_eq!(refused(&nodes(&bounds)), overflow(4, "the upper bound"));
    let empty_part = TypeError::BadSubarray { dim: 0, size: 4, subsize: 0, start: 0 };
    let subarray = refused(&nodes(&[0, 5, 14, 2, 4, 0, 0, 1]));
    assert_eq!(subarray, WireError::Type { position: 6, source: empty_part });
    let deep = [&[0, 5][..], &[5, 1].repeat(512)].concat();
    let source = TypeError::TooDeep { limit: capulet_datatype::DEPTH_MAX };
    assert_eq!(refused(&nodes(&deep)), WireError::Type { position: 4 + 2 + 2 * 511, source });
    assert!(Datatype::from_wire(&nodes(&deep[..deep.len() - 2])).is_ok());
    let many = [0, 5].repeat((1 << 20) + 1);
    assert_eq!(refused(&nodes(&many)), WireError::TooManyNodes { position: 4 + (2 << 20), limit: 1 << 20 });
}

/// Each level holds the level below several times: a short message for a type that must never be written
/// out.
fn tower(levels: usize, fields: usize, base: &Datatype, far: impl Fn(usize, i64) -> i64) -> Datatype {
    let mut whole = base.clone();
    for _ in 0..levels {
        if whole.true_ub().max(-whole.true_lb()) > 1 << 50 {
            break;
        }
        let places: Vec<i64> = (0..fields).map(|i| far(i, whole.true_ub() - whole.true_lb())).collect();
        // Other types lie between the shared parts, so that no two neighbors are alike.
        let types: Vec<Datatype> =
            (0..fields).map(|i| if i % 2 == 0 { &whole } else { base }.clone()).collect();
        match Datatype::structure(&vec![1; fields], &places, &types) {
            Ok(next) => whole = next,
            Err(TypeError::Overflow { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    whole
}

#[test]
#[cfg_attr(miri, ignore = "runs thousands of constructors")]
fn shared_parts_are_never_written_out() {
    let double = Datatype::named(Named::Double);
    let nothing = Datatype::contiguous(0, &double).expect("the type is small");
    // Its displacements do not ascend, so that no shortcut for ascending lists applies.
    let irregular = Datatype::hindexed(
        &[1, 3, 2, 1, 1, 5, 1, 2, 1, 4],
        &[900, 0, 60, 200, 150, 300, 700, 500, 620, 400],
        &double,
    )
    .expect("the type is small");
    let holey = Datatype::resized(0, 16, &double).expect("the type is small");
    let towers = [
        tower(500, 9, &nothing, |i, _| 8 * i as i64),
        tower(20, 9, &irregular, |i, reach| reach * i as i64),
        tower(20, 9, &irregular, |i, reach| reach * (9 - i as i64)),
        tower(60, 3, &irregular, |i, reach| reach * (i as i64 ^ 1)),
        tower(60, 3, &irregular, |i, _| 8 * i as i64),
        tower(500, 2, &irregular, |i, reach| reach * i as i64),
        tower(500, 2, &irregular, |i, reach| reach * (1 - i as i64)),
        tower(15, 17, &holey, |i, reach| (reach + 16) / 16 * 32 * i as i64),
        tower(9, 101, &irregular, |i, reach| (reach / 8 + 1) * 8 * (i as i64 ^ 1)),
    ];
    for tower in &towers {
        let message = tower.to_wire();
        assert!(message.len() < 20_000, "{} bytes", message.len());
        let received = Datatype::from_wire(&message).expect("the library's own message decodes");
        assert_equal(&received, tower);
        interrogate(&received);
        let _ = received.is_tiling_of(&holey);
        assert!(format!("{received:?} {:?} {:?}", received.layout(), received.signature()).len() < 1 << 20);
        let layout =
            Datatype::from_wire(&received.layout_to_wire()).expect("the library's own message decodes");
        assert_eq!(layout.bounds(), tower.bounds());
        interrogate(&layout);
    }
}
