//! Distributed arrays, exhaustively for small ones: the part of every rank equals the definition, and all
//! parts together hold every element exactly once.

mod oracle;

use capulet_datatype::{ArrayOrder, Datatype, Distribution, Named, Tiled, flatten};
use oracle::Tree;

type Dim = (u64, Distribution, u64);

/// All ways to distribute `gsize` elements over up to four processes.
fn ways(gsize: u64) -> Vec<Dim> {
    let mut ways = vec![(gsize, Distribution::None, 1)];
    for processes in 1..=4 {
        ways.push((gsize, Distribution::Block(None), processes));
        ways.push((gsize, Distribution::Cyclic(None), processes));
        for k in 1..=4 {
            ways.push((gsize, Distribution::Cyclic(Some(k)), processes));
            if k * processes >= gsize {
                ways.push((gsize, Distribution::Block(Some(k)), processes));
            }
        }
    }
    ways
}

fn offsets(datatype: &Datatype) -> Vec<i64> {
    let tiled = Tiled::new(datatype.layout().clone(), 1).expect("the type is small");
    let all = flatten(&tiled, 0..tiled.size(), usize::MAX).expect("the range lies in the stream");
    all.runs.iter().flat_map(|run| run.offset..run.end()).collect()
}

/// Checks all ranks of one distribution. Returns the number of ranks.
fn check(dims: &[Dim], order: ArrayOrder) -> u64 {
    let processes: u64 = dims.iter().map(|dim| dim.2).product();
    let elements: u64 = dims.iter().map(|dim| dim.0).product();
    let mut owners = vec![0; 2 * elements as usize];
    for rank in 0..processes {
        let tree = Tree::Darray(rank, dims.to_vec(), order, Box::new(Tree::Named(Named::Short)));
        let (datatype, map) = (tree.datatype().expect("the arguments are valid"), tree.type_map());
        let bytes = map.bytes(1);
        assert_eq!(offsets(&datatype), bytes, "{dims:?} {order:?} rank {rank}");
        assert_eq!((datatype.lb(), datatype.extent()), (0, 2 * elements as i64));
        assert_eq!((datatype.true_lb(), datatype.true_ub()), (map.true_lb(), map.true_ub()));
        for byte in bytes {
            owners[byte as usize] += 1;
        }
    }
    assert!(owners.iter().all(|&owners| owners == 1), "{dims:?} {order:?}: {owners:?}");
    processes
}

#[test]
fn one_dimension_matches_the_definition() {
    let mut ranks = 0;
    for gsize in 1..=if cfg!(miri) { 1 } else { 8 } {
        for way in ways(gsize) {
            ranks += check(&[way], ArrayOrder::C) + check(&[way], ArrayOrder::Fortran);
        }
    }
    assert!(cfg!(miri) || ranks > 1000, "only {ranks} ranks");
}

#[test]
#[cfg_attr(miri, ignore = "builds thousands of types")]
fn two_dimensions_match_the_definition() {
    let mut ranks = 0;
    let most = 6;
    for (rows, columns) in (1..=most).flat_map(|rows| (1..=most).map(move |columns| (rows, columns))) {
        for row in ways(rows) {
            for column in ways(columns) {
                // Grids of up to four processes.
                if row.2 * column.2 <= 4 {
                    ranks +=
                        check(&[row, column], ArrayOrder::C) + check(&[row, column], ArrayOrder::Fortran);
                }
            }
        }
    }
    assert!(ranks > 10_000, "only {ranks} ranks");
}

#[test]
fn process_grid_is_row_major_in_both_orders() {
    let int = Datatype::named(Named::Int);
    let blocks = [Distribution::Block(None); 2];
    for order in [ArrayOrder::C, ArrayOrder::Fortran] {
        // Rank 1 of a 2 x 2 grid has the coordinates (0, 1): the first rows, the last columns.
        let part =
            Datatype::darray(1, &[4, 6], &blocks, &[2, 2], order, &int).expect("the arguments are valid");
        let expected =
            Datatype::subarray(&[4, 6], &[2, 3], &[0, 3], order, &int).expect("the arguments are valid");
        assert_eq!(part.layout(), expected.layout());
    }
}
