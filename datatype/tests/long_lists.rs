//! Lists of more entries than one checking step covers (512): bounds, order and size are compared with sums
//! over all entries.

use capulet_datatype::{Bounds, Datatype, Named, Result};

/// The bounds of the data, and whether no displacement is below the one before, for blocks of `old`, which
/// must be one run.
fn expected(old: &Datatype, lengths: &[u64], places: &[i64], unit: i64) -> (i64, i64, bool) {
    let (mut low, mut high, mut before, mut rising) = (i64::MAX, i64::MIN, i64::MIN, true);
    for (&n, &place) in lengths.iter().zip(places).filter(|(n, _)| **n > 0) {
        let (from, to) = (place * unit, place * unit + (n as i64 - 1) * old.extent());
        rising &= before <= from && (n < 2 || old.extent() >= 0);
        before = to;
        low = low.min(from + old.true_lb()).min(to + old.true_lb());
        high = high.max(from + old.true_ub()).max(to + old.true_ub());
    }
    (low, high, rising)
}

fn check(old: &Datatype, lengths: &[u64], places: &[i64], what: &str) -> Result<()> {
    for (made, unit) in [
        (Datatype::indexed(lengths, places, old)?, old.extent()),
        (Datatype::hindexed(lengths, places, old)?, 1),
    ] {
        let (low, high, rising) = expected(old, lengths, places, unit);
        let Bounds { true_lb, true_ub, .. } = made.bounds();
        assert_eq!((true_lb, true_ub), (low, high), "{what}, unit {unit}");
        assert_eq!(made.has_nondecreasing_displacements(), rising, "{what}, unit {unit}");
        assert_eq!(made.size(), lengths.iter().sum::<u64>() * old.size(), "{what}, unit {unit}");
    }
    Ok(())
}

#[test]
fn bounds_and_order_of_long_lists_match_sums() -> Result<()> {
    let int = Datatype::named(Named::Int);
    let olds = [
        int.clone(),
        Datatype::resized(-8, 12, &int)?,
        Datatype::resized(0, -12, &int)?,
        Datatype::hvector(1, 1, 0, &Datatype::hindexed(&[1], &[-20], &int)?)?,
    ];
    for old in &olds {
        for n in [1, 511, 512, 513, 1024, 1500] {
            let lengths: Vec<u64> = (0..n).map(|i| 1 + i as u64 % 3).collect();
            let places: Vec<i64> = (0..n as i64).map(|i| i * 40 - 700).collect();
            check(old, &lengths, &places, "rising")?;
            for at in [0, 1, 510, 511, 512, 513, n - 1] {
                if at < n {
                    let mut other = places.clone();
                    other[at] -= 100_000;
                    check(old, &lengths, &other, "one back")?;
                    other[at] += 200_000;
                    check(old, &lengths, &other, "one ahead")?;
                    let mut some = lengths.clone();
                    some[at] = 0;
                    some[0] += 1;
                    check(old, &some, &other, "an empty one ahead")?;
                }
            }
        }
    }
    Ok(())
}
