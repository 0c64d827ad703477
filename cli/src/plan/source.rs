//! The bytes that each rank accesses.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use capulet_datatype::{ArrayOrder, Datatype, Named, Tiled};
use capulet_plan::FileSide;
use capulet_plan::estimate::RankPart;

use super::args::{RANKS_MAX, Source};
use super::error::Error;

/// Number of ranks if neither the command line nor the access tells it.
const RANKS: u32 = 4;
/// Largest number of runs that a file may list.
const RUNS_MAX: usize = 5_000_000;
/// Largest size of a file with a list of runs.
const LIST_BYTES_MAX: u64 = 1 << 28;

/// The parts of all ranks. `ranks` is the number on the command line. User memory has no gaps.
pub(crate) fn parts(source: &Source, ranks: Option<u32>) -> Result<Vec<RankPart>, Error> {
    match source {
        Source::Strided { block, stride, count, shift } => {
            strided(*block, *stride, *count, shift.unwrap_or(*block), ranks.unwrap_or(RANKS))
        }
        Source::Blocks { size, grid, element_bytes } => blocks(size, grid, *element_bytes, ranks),
        Source::Runs { file } => listed(file, ranks),
    }
}

/// The part with all bytes of one instance of a type, from the file offset `displacement_bytes` on.
fn part(datatype: &Datatype, displacement_bytes: u64) -> Result<RankPart, Error> {
    let beyond = |_| Error::wrong("the access reaches beyond the largest file offset");
    let tiled = Tiled::new(datatype.layout().clone(), 1).map_err(|error| Error::wrong(error.to_string()))?;
    let side = FileSide::of_view(displacement_bytes, &tiled, 0, datatype.size()).map_err(beyond)?;
    let memory_runs = side.bytes().min(1);
    Ok(RankPart { side, memory_runs })
}

fn wrong(error: &capulet_datatype::TypeError) -> Error {
    Error::wrong(error.to_string())
}

fn strided(block: u64, stride: u64, count: u64, shift: u64, ranks: u32) -> Result<Vec<RankPart>, Error> {
    let byte = Datatype::named(Named::Byte);
    let stride = i64::try_from(stride).map_err(|_| Error::wrong("the stride is beyond 2^63 - 1"))?;
    let row = Datatype::hvector(count, block, stride, &byte).map_err(|error| wrong(&error))?;
    let first = |rank: u32| {
        shift
            .checked_mul(u64::from(rank))
            .ok_or_else(|| Error::wrong("the access reaches beyond the largest file offset"))
    };
    (0..ranks).map(|rank| part(&row, first(rank)?)).collect()
}

/// The blocks of a grid. If the grid does not divide the size, some blocks are one element longer.
fn blocks(
    size: &[u64],
    grid: &[u64],
    element_bytes: u64,
    ranks: Option<u32>,
) -> Result<Vec<RankPart>, Error> {
    if size.len() != grid.len() {
        let (size, grid) = (size.len(), grid.len());
        return Err(Error::wrong(format!("--size has {size} dimensions and --grid {grid}")));
    }
    if size.iter().zip(grid).any(|(size, grid)| *grid == 0 || grid > size) {
        return Err(Error::wrong(
            "--grid has a dimension without blocks, or with more blocks than --size has elements",
        ));
    }
    let count = grid.iter().try_fold(1_u64, |count, blocks| count.checked_mul(*blocks));
    let count = count.filter(|count| *count <= u64::from(RANKS_MAX));
    let count = count.ok_or_else(|| Error::wrong(format!("--grid has more than {RANKS_MAX} blocks")))?;
    if let Some(ranks) = ranks.filter(|ranks| u64::from(*ranks) != count) {
        return Err(Error::wrong(format!("--grid has {count} blocks, and --ranks says {ranks}")));
    }
    let byte = Datatype::named(Named::Byte);
    let element = Datatype::contiguous(element_bytes, &byte).map_err(|error| wrong(&error))?;
    let block = |rank: u64| {
        let (mut rest, mut lengths, mut starts) = (rank, vec![0; size.len()], vec![0; size.len()]);
        for dimension in (0..size.len()).rev() {
            let (size, grid) = (u128::from(size[dimension]), u128::from(grid[dimension]));
            let place = u128::from(rest) % grid;
            rest /= grid as u64;
            let start = (size * place / grid) as u64;
            starts[dimension] = start;
            lengths[dimension] = (size * (place + 1) / grid) as u64 - start;
        }
        let subarray = Datatype::subarray(size, &lengths, &starts, ArrayOrder::C, &element);
        part(&subarray.map_err(|error| wrong(&error))?, 0)
    };
    (0..count).map(block).collect()
}

fn listed(path: &Path, ranks: Option<u32>) -> Result<Vec<RankPart>, Error> {
    let unreadable = |cause: io::Error| Error::Unreadable { path: path.to_owned(), cause };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.len() > LIST_BYTES_MAX {
        return Err(Error::TooManyRuns { path: path.to_owned(), most: RUNS_MAX });
    }
    // A pipe has no length, so the length check does not bound it.
    let lists = read_lists(BufReader::new(file).take(LIST_BYTES_MAX), path, ranks)?;
    let byte = Datatype::named(Named::Byte);
    let rank = |(lengths, places): &(Vec<u64>, Vec<i64>)| {
        part(&Datatype::hindexed(lengths, places, &byte).map_err(|error| wrong(&error))?, 0)
    };
    lists.iter().map(rank).collect()
}

/// Lengths and offsets of the runs of a rank.
type List = (Vec<u64>, Vec<i64>);

fn read_lists(text: impl BufRead, path: &Path, ranks: Option<u32>) -> Result<Vec<List>, Error> {
    let mut lists: Vec<List> = vec![Default::default(); ranks.unwrap_or(0) as usize];
    let mut runs = 0;
    for (line, text) in (1..).zip(text.lines()) {
        let bad = |what: String| Error::Line { path: path.to_owned(), line, what };
        let text = text.map_err(|error| bad(error.to_string()))?;
        let text = text.split('#').next().unwrap_or("").trim();
        if text.is_empty() {
            continue;
        }
        let (rank, offset, length) = run_of(text).map_err(bad)?;
        if ranks.is_some_and(|ranks| rank >= ranks) {
            return Err(bad(format!("rank {rank} is not one of --ranks {}", lists.len())));
        }
        runs += 1;
        if runs > RUNS_MAX {
            return Err(Error::TooManyRuns { path: path.to_owned(), most: RUNS_MAX });
        }
        if lists.len() <= rank as usize {
            lists.resize(rank as usize + 1, List::default());
        }
        let (lengths, places) = &mut lists[rank as usize];
        lengths.push(length);
        places.push(offset);
    }
    if lists.is_empty() {
        return Err(Error::wrong(format!("{}: no runs", path.display())));
    }
    Ok(lists)
}

/// Parses the rank, the offset and the length of a line.
fn run_of(line: &str) -> Result<(u32, i64, u64), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).take(4).collect();
    let [rank, offset, length] = fields[..] else {
        return Err(format!("{} fields", line.split(',').count()));
    };
    let number = |text: &str, name: &str| {
        text.parse::<u64>().map_err(|_| format!("{name} {text:?} is not a whole number, 0 or more"))
    };
    let (place, offset, length) =
        (number(rank, "rank")?, number(offset, "offset")?, number(length, "length")?);
    let place = u32::try_from(place).ok().filter(|rank| *rank < RANKS_MAX);
    let place = place.ok_or_else(|| format!("rank {rank} is beyond {}", RANKS_MAX - 1))?;
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| "the run ends beyond 2^63 - 1".to_owned())?;
    Ok((place, offset as i64, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(text: &str, ranks: Option<u32>) -> Result<Vec<List>, String> {
        read_lists(text.as_bytes(), Path::new("list"), ranks).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_are_read_line_by_line() {
        let text = "# rank,offset,length\n1, 8,4\n\n0,0,2\n1,100,1\n";
        let expected = vec![(vec![2], vec![0]), (vec![4, 1], vec![8, 100])];
        assert_eq!(lists(text, None), Ok(expected.clone()));
        assert_eq!(lists(text, Some(3)).map(|lists| lists.len()), Ok(3));
        assert_eq!(lists(text, Some(2)), Ok(expected));
    }

    #[test]
    fn bad_line_is_an_error_with_its_number() {
        let cases = [
            ("0,1\n", "list: line 1: 2 fields; a line has the form rank,offset,length"),
            ("0,1,2\n\n0,x,2\n", "list: line 3: offset \"x\" is not a whole number, 0 or more"),
            ("0,1,-2\n", "length \"-2\""),
            ("65536,0,1\n", "rank 65536 is beyond 65535"),
            ("0,9223372036854775807,1\n", "beyond 2^63 - 1"),
            ("0,18446744073709551615,18446744073709551615\n", "beyond 2^63 - 1"),
            ("", "no runs"),
            ("# nothing\n", "no runs"),
        ];
        for (text, expected) in cases {
            let error = lists(text, None).expect_err(text);
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let error = lists("2,0,1\n", Some(2)).expect_err("rank 2 is not one of 2 ranks");
        assert!(error.contains("rank 2 is not one of --ranks 2"), "{error}");
        assert!(lists("0,\u{fffd},1\n", None).is_err());
        assert!(read_lists(&b"0,\xff,1\n"[..], Path::new("list"), None).is_err());
    }

    #[test]
    fn blocks_cover_the_array_once() {
        let parts = blocks(&[7, 5], &[3, 2], 4, None).expect("the blocks are valid");
        assert_eq!(parts.len(), 6);
        assert_eq!(parts.iter().map(|part| part.side.bytes()).sum::<u64>(), 7 * 5 * 4);
        // Rows 0 and 1 have 5 elements each, of which the first rank has two.
        assert_eq!((parts[0].side.span(), parts[0].side.run_count()), (0..28, 2));
        assert_eq!(parts[5].side.span(), (4 * 5 + 2) * 4..7 * 5 * 4);
    }

    #[test]
    fn impossible_access_is_refused() {
        for (size, grid) in [
            (&[4, 4][..], &[2][..]),
            (&[4], &[0]),
            (&[4], &[5]),
            (&[1 << 40, 1 << 40], &[1 << 30, 1 << 30]),
            (&[u64::MAX, 2], &[1, 1]),
        ] {
            assert!(blocks(size, grid, 8, None).is_err(), "{size:?} {grid:?}");
        }
        assert!(blocks(&[4], &[2], 8, Some(3)).is_err());
        assert!(strided(1, u64::MAX, 2, 1, 1).is_err());
        assert!(strided(8, 1 << 40, 1 << 40, 8, 1).is_err());
        assert!(strided(8, 16, 2, u64::MAX, 3).is_err());
    }
}
