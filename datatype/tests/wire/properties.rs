//! Random types, and messages that were changed on the way.

use capulet_datatype::{Datatype, Named, TypeError};
use proptest::prelude::*;

use crate::cases::cases;
use crate::copying::{Known, check_one, check_two};
use crate::oracle::{Tree, any_tree, tree, tree_of_many_runs};
use crate::questions::{assert_equal, interrogate};
use crate::{body, nodes, sealed};

/// An addition on top of a random tree: forced bounds, or shared parts.
#[derive(Debug, Clone)]
enum Top {
    Forced(i64, i64),
    /// Bounds forced twice, so that they have their old values again, but are explicit.
    Back,
    Pair(i64),
    Parametric(u8, u32),
}

fn top() -> impl Strategy<Value = Top> {
    prop_oneof![
        (-20..20_i64, -9..50_i64).prop_map(|(lb, extent)| Top::Forced(lb, extent)),
        Just(Top::Back),
        (-200..2000_i64).prop_map(Top::Pair),
        (0..4_u8, 0..5_u32).prop_map(|(kind, bytes)| Top::Parametric(kind, bytes)),
    ]
}

fn topped(tree: &Tree, tops: &[Top]) -> Result<Datatype, TypeError> {
    let mut datatype = tree.datatype()?;
    for top in tops {
        let (lb, extent) = (datatype.lb(), datatype.extent());
        datatype = match top {
            Top::Forced(lb, extent) => datatype.with_bounds(*lb, *extent)?,
            Top::Back => datatype.with_bounds(lb - 1, extent)?.with_bounds(lb, extent)?,
            Top::Pair(at) => {
                let old = [
                    datatype.clone(),
                    Datatype::named(Named::Int),
                    datatype.clone(),
                    Datatype::named(Named::Int),
                ];
                Datatype::structure(&[1, 1, 2, 0], &[0, -8, *at, 9], &old)?
            }
            Top::Parametric(kind, bytes) => {
                let bytes = *bytes;
                let named = match kind {
                    0 => Named::F90Integer { bytes },
                    1 => Named::F90Real { bytes },
                    2 => Named::F90Complex { bytes },
                    _ => Named::Opaque { bytes: bytes << 20 },
                };
                Datatype::structure(&[1, 1], &[0, 1 << 30], &[datatype, Datatype::named(named)])?
            }
        };
    }
    Ok(datatype)
}

/// A change to a message, made before its checksum is computed.
#[derive(Debug, Clone)]
enum Change {
    Flip(usize, u8),
    Put(usize, u8),
    Cut(usize),
    Remove(usize, usize),
    /// Inserts bytes from elsewhere in the message, or from the other message.
    Splice(usize, usize, usize, bool),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>;
    let telling = prop_oneof![any::<u8>(), Just(0x7f), Just(0x80), Just(0xff), Just(0), Just(1), 0..17_u8];
    prop_oneof![
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        3 => (at(), telling).prop_map(|(at, byte)| Change::Put(at, byte)),
        1 => at().prop_map(Change::Cut),
        1 => (at(), 1..8_usize).prop_map(|(at, n)| Change::Remove(at, n)),
        2 => (at(), at(), 1..24_usize, any::<bool>()).prop_map(|(to, from, n, other)| Change::Splice(to, from, n, other)),
    ]
}

fn changed(mut bytes: Vec<u8>, other: &[u8], changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let len = bytes.len();
        let at = |position: &usize| position % len;
        match change {
            _ if len == 0 => {}
            Change::Flip(position, bit) => bytes[at(position)] ^= 1 << bit,
            Change::Put(position, byte) => bytes[at(position)] = *byte,
            Change::Cut(position) => bytes.truncate(at(position)),
            Change::Remove(position, n) => {
                bytes.drain(at(position)..(at(position) + n).min(len));
            }
            Change::Splice(to, from, n, foreign) => {
                let source = if *foreign { other } else { &bytes[..] };
                let from = from % source.len();
                let part = source[from..(from + n).min(source.len())].to_vec();
                bytes.splice(at(to)..at(to), part);
            }
        }
    }
    bytes
}

/// Decodes a message. The result is a type or an error; an accepted type must answer every question.
pub(crate) fn decode_and_use(message: &[u8]) {
    match Datatype::from_wire(message) {
        Ok(datatype) => {
            interrogate(&datatype);
            let again = Datatype::from_wire(&datatype.to_wire()).expect("the library's own message decodes");
            assert_equal(&again, &datatype);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The type with so many empty parts that any description without them is shorter.
fn with_empty_parts(datatype: &Datatype) -> Datatype {
    let parts = if cfg!(miri) { 500 } else { 4000 };
    let mut displacements: Vec<i64> =
        (0..parts).map(|i: i64| i.wrapping_mul(0x2545_f491_4f6c_dd1d)).collect();
    displacements[0] = 0;
    let mut lengths = vec![0; parts as usize];
    lengths[0] = 1;
    let types = vec![datatype.clone(); parts as usize];
    let long = Datatype::structure(&lengths, &displacements, &types).expect("empty parts change no bound");
    long.with_bounds(datatype.lb(), datatype.extent()).expect("the old bounds are valid")
}

proptest! {
    #![proptest_config(cases(1500, 2))]

    #[test]
    fn sent_types_arrive(tree in prop_oneof![tree(), tree_of_many_runs()], tops in prop::collection::vec(top(), 0..4)) {
        let Ok(sent) = topped(&tree, &tops) else { return Ok(()) };
        let message = sent.to_wire();
        let received = Datatype::from_wire(&message).expect("the library's own message decodes");
        assert_equal(&received, &sent);
        prop_assert_eq!(received.to_wire(), message);
    }

    #[test]
    fn sent_layouts_arrive(tree in any_tree(2000), tops in prop::collection::vec(top(), 0..3)) {
        let Ok(sent) = topped(&tree, &tops) else { return Ok(()) };
        let message = sent.layout_to_wire();
        prop_assert!(message.len() <= sent.to_wire().len());
        let received = Datatype::from_wire(&message).expect("the library's own message decodes");
        prop_assert_eq!(received.bounds(), sent.bounds());
        prop_assert_eq!(received.layout(), sent.layout());
    }

    /// A layout is sent in canonical form only if the constructors of that form are rewritten to the same
    /// form.
    #[test]
    fn canonical_forms_are_rewritten_to_themselves(tree in any_tree(2000)) {
        let datatype = tree.datatype().expect("the type is small");
        let long = with_empty_parts(&datatype);
        prop_assert_eq!(long.layout(), datatype.layout());
        let message = long.layout_to_wire();
        prop_assert!(message.len() < long.to_wire().len(), "{:?}", long.layout());
        let received = Datatype::from_wire(&message).expect("the library's own message decodes");
        prop_assert_eq!(received.layout(), long.layout());
    }

    #[test]
    fn changed_messages_give_types_or_errors(
        trees in (tree(), tree()), tops in prop::collection::vec(top(), 0..3), changes in prop::collection::vec(change(), 1..6),
    ) {
        let (Ok(one), Ok(other)) = (topped(&trees.0, &tops), trees.1.datatype()) else { return Ok(()) };
        let message = one.to_wire();
        let other = other.to_wire();
        let bytes = changed(body(&message).to_vec(), body(&other), &changes);
        decode_and_use(&sealed(bytes));
        // Without a new checksum, only the unchanged message is accepted.
        let bytes = changed(message.clone(), &other, &changes);
        if bytes != message {
            prop_assert!(Datatype::from_wire(&bytes).is_err());
        }
    }

    #[test]
    fn received_types_move_the_right_bytes(
        trees in (any_tree(600), any_tree(600)), counts in (0..5_u64, 0..5_u64), changes in prop::collection::vec(change(), 0..3),
        numbers in any::<[u16; 4]>(),
    ) {
        let [one, other] = [&trees.0, &trees.1].map(|tree| {
            tree.datatype().expect("the type is small").to_wire()
        });
        let one = changed(body(&one).to_vec(), body(&other), &changes);
        let [Some(from), Some(to)] = [(sealed(one), counts.0), (other, counts.1)].map(|(message, count)| {
            Known::of(&Datatype::from_wire(&message).ok()?, count)
        }) else { return Ok(()) };
        let [a, b, c, d] = numbers;
        check_one(&from, [a, b]);
        check_two(&from, &to, [a, b, c, d]);
        check_two(&to, &from, [c, d, a, b]);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(prop_oneof![0..20_u8, any::<u8>()], 0..60)) {
        prop_assert!(Datatype::from_wire(&bytes).is_err());
        decode_and_use(&nodes(&bytes));
    }

    #[test]
    fn sent_lists_arrive(
        places in prop::collection::vec(prop_oneof![8 => -300..300_i64, 1 => -(1 << 40)..(1_i64 << 40)], 0..200),
        scale in 0..20_u32, rising in any::<bool>(), lengths in prop::collection::vec(0..5_u64, 200), equal in any::<bool>(),
    ) {
        let mut places: Vec<i64> = places.iter().map(|place| place << scale).collect();
        if rising {
            places.sort_unstable();
        }
        let lengths: Vec<u64> = lengths[..places.len()].iter().map(|&length| if equal { 2 } else { length }).collect();
        let byte = Datatype::named(Named::Byte);
        for sent in [
            Datatype::hindexed(&lengths, &places, &byte).expect("the type is small"),
            Datatype::indexed_block(3, &places, &byte).expect("the type is small"),
        ] {
            let received = Datatype::from_wire(&sent.to_wire()).expect("the library's own message decodes");
            assert_equal(&received, &sent);
        }
    }
}
