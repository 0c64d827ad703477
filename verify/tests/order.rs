//! Histories with an order and without one, and random small histories compared with a trial of all
//! orders.

use capulet_verify::history::{ACCESSES_MAX, NOBODY, STRANGE};
use capulet_verify::{Access, Round, Run, Verdict, judge};
use proptest::prelude::*;

fn access(rank: u32, index: u32, writes: bool, runs: Vec<Run>) -> Access {
    Access { rank, index, group: index, writes, call: 0, runs }
}

fn cell(start: u32, writer: u32) -> Run {
    Run { start, cells: 1, writer }
}

/// A planned access: it reads or writes these cells.
#[derive(Debug, Clone)]
struct Wish {
    rank: u32,
    writes: bool,
    cells: Vec<u32>,
}

fn wishes(ranks: u32, cells: u32, most: usize) -> impl Strategy<Value = Vec<Wish>> {
    let some = proptest::collection::btree_set(0..cells, 1..=cells as usize);
    let wish = (0..ranks, any::<bool>(), some).prop_map(|(rank, writes, cells)| Wish {
        rank,
        writes,
        cells: cells.into_iter().collect(),
    });
    proptest::collection::vec(wish, 1..=most)
}

/// Carries out the wishes in `order`, and returns the round with its accesses in the order of the wishes.
/// If `torn` is set, the write with that place in `order` stores its second half one access later.
fn carried_out(wishes: &[Wish], cells: u32, order: &[usize], torn: Option<usize>) -> Round {
    let mut file = vec![NOBODY; cells as usize];
    let mut accesses: Vec<Access> = Vec::new();
    for wish in wishes {
        let index = accesses.iter().filter(|access| access.rank == wish.rank).count() as u32;
        accesses.push(access(wish.rank, index, wish.writes, Vec::new()));
    }
    let mut late: Vec<(u32, u32)> = Vec::new();
    for (turn, of) in order.iter().enumerate() {
        let wish = &wishes[*of];
        let writer = accesses[*of].writer();
        for (at, cell) in wish.cells.iter().enumerate() {
            if wish.writes && torn == Some(turn) && at >= wish.cells.len() / 2 {
                late.push((*cell, writer));
            } else if wish.writes {
                file[*cell as usize] = writer;
            }
            let seen = if wish.writes { writer } else { file[*cell as usize] };
            accesses[*of].runs.push(Run { start: *cell, cells: 1, writer: seen });
        }
        // The second half of a torn write is stored after the next access.
        if torn != Some(turn) {
            late.drain(..).for_each(|(cell, writer)| file[cell as usize] = writer);
        }
    }
    late.drain(..).for_each(|(cell, writer)| file[cell as usize] = writer);
    let runs = (0..).zip(&file).map(|(start, writer)| cell(start, *writer)).collect();
    Round { accesses, last: Some(Access { group: ACCESSES_MAX, ..access(0, ACCESSES_MAX - 1, false, runs) }) }
}

/// All orders of the accesses that keep each rank's own order.
fn orders(wishes: &[Wish]) -> Vec<Vec<usize>> {
    fn extend(wishes: &[Wish], taken: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if taken.len() == wishes.len() {
            all.push(taken.clone());
        }
        for next in 0..wishes.len() {
            let waits =
                (0..next).any(|before| wishes[before].rank == wishes[next].rank && !taken.contains(&before));
            if !taken.contains(&next) && !waits {
                taken.push(next);
                extend(wishes, taken, all);
                taken.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(wishes, &mut Vec::new(), &mut all);
    all
}

/// A pseudorandom order of the accesses that keeps each rank's own order.
fn some_order(wishes: &[Wish], mut seed: u64) -> Vec<usize> {
    let mut left: Vec<usize> = (0..wishes.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rank = wishes[left[(seed >> 33) as usize % left.len()]].rank;
        let at = left.iter().position(|of| wishes[*of].rank == rank).expect("the rank has an access left");
        order.push(left.remove(at));
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn accesses_made_in_an_order_have_an_order(wishes in wishes(6, 20, 30), seed in any::<u64>()) {
        let round = carried_out(&wishes, 20, &some_order(&wishes, seed), None);
        let Verdict::Serial(order) = judge(&round) else {
            return Err(TestCaseError::fail(judge(&round).to_string()));
        };
        prop_assert_eq!(carried_out(&wishes, 20, &order, None), round);
    }

    #[test]
    fn torn_writes_are_judged_as_by_a_trial_of_all_orders(
        wishes in wishes(3, 4, 6), seed in any::<u64>(), torn in 0..6_usize,
    ) {
        let round = carried_out(&wishes, 4, &some_order(&wishes, seed), Some(torn));
        let has_one = orders(&wishes).iter().any(|order| carried_out(&wishes, 4, order, None) == round);
        match judge(&round) {
            Verdict::Serial(order) => prop_assert_eq!(carried_out(&wishes, 4, &order, None), round),
            Verdict::Circle(_) | Verdict::NoOrder => prop_assert!(!has_one),
            other => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn two_writes_that_mix_form_a_cycle() {
    let write = |rank: u32| {
        access(rank, 0, true, vec![cell(0, rank * ACCESSES_MAX + 1), cell(1, rank * ACCESSES_MAX + 1)])
    };
    let last = access(0, ACCESSES_MAX - 1, false, vec![cell(0, 1), cell(1, ACCESSES_MAX + 1)]);
    let verdict = judge(&Round { accesses: vec![write(0), write(1)], last: Some(last) });
    let Verdict::Circle(steps) = &verdict else { panic!("{verdict}") };
    assert_eq!(steps.len(), 2, "{verdict}");
    let text = verdict.to_string();
    assert!(
        text.contains("MPI_File_write_at of rank 0") && text.contains("MPI_File_write_at of rank 1"),
        "{text}"
    );
    assert!(text.contains("cell 0") && text.contains("cell 1"), "{text}");
}

#[test]
fn value_that_no_access_wrote_is_torn() {
    for writer in [STRANGE, 7] {
        let read = access(1, 0, false, vec![cell(3, writer)]);
        let verdict = judge(&Round { accesses: vec![read], last: None });
        assert!(matches!(verdict, Verdict::Torn { cell: 3, .. }), "{verdict}");
    }
}

#[test]
fn overlapping_accesses_of_a_rank_have_any_order() {
    // Both accesses began before either of them was complete, so the second may come first.
    let write = access(0, 0, true, vec![cell(0, 1)]);
    let read = Access { group: 0, ..access(0, 1, false, vec![cell(0, NOBODY)]) };
    let verdict = judge(&Round { accesses: vec![write.clone(), read.clone()], last: None });
    assert_eq!(verdict, Verdict::Serial(vec![1, 0]));
    let after = Access { group: 1, ..read };
    let verdict = judge(&Round { accesses: vec![write, after], last: None });
    assert!(matches!(verdict, Verdict::Circle(_)), "{verdict}");
}
