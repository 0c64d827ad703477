//! Which bytes of the file an access locks in atomic mode.

use std::ops::Range;

use capulet_atomic::{INTERVALS_MAX, Request};
use capulet_datatype::{Cursor, Tiled};
use capulet_drivers::Direction;
use capulet_plan::side::FileSide;

/// Up to this many irregular runs a request lists all of them, as far as a lock can tell them apart. If
/// there are more, the request also covers the bytes between them.
const RUNS_MAX: usize = 1024;

/// Returns a request that covers the bytes that an access touches, or more: the runs, or a period of
/// runs. A read drops the other bytes that it gets in a sieve buffer, so they need no lock. An isolated
/// write touches no byte between its runs. Visits each run once.
pub fn footprint(side: &FileSide, direction: Direction) -> Request {
    let (span, is_shared) = (side.span(), direction == Direction::Read);
    if !side.is_monotone() || side.run_count() < 2 {
        return Request::contiguous(span, is_shared);
    }
    if side.run_count() <= INTERVALS_MAX as u64 {
        return Request::ranges(runs_of(side), is_shared);
    }
    if let Some((period, block)) = period_of(runs_of(side)) {
        return Request::periodic(span, period, Some(block), is_shared);
    }
    let layout = side.file().layout();
    if side.file().count() > 1 {
        let tile = Tiled::new(layout.clone(), 1).ok();
        let tile = tile.filter(|tile| tile.true_ub().abs_diff(tile.true_lb()) <= layout.extent() as u64);
        let runs =
            tile.and_then(|tile| unless_too_many(runs(tile, side.displacement_bytes(), 0, layout.size())));
        return match runs {
            Some(runs) => Request::periodic(span, layout.extent() as u64, runs, is_shared),
            None => Request::contiguous(span, is_shared),
        };
    }
    unless_too_many(runs_of(side))
        .map_or_else(|| Request::contiguous(span, is_shared), |runs| Request::ranges(runs, is_shared))
}

/// Returns a request that covers all bytes of the file that a view has from `displacement_bytes` on, or
/// more.
pub fn view_footprint(displacement_bytes: u64, view: &Tiled) -> Request {
    let layout = view.layout();
    if view.size() == 0 {
        return Request::contiguous(0..0, false);
    }
    let span = displacement_bytes.saturating_add_signed(view.true_lb())..i64::MAX as u64;
    let whole = Request::contiguous(span.clone(), false);
    // Files that are only read may have views with runs that overlap. Such a view is covered by one
    // interval.
    let Some(tile) = Tiled::new(layout.clone(), 1).ok().filter(Tiled::is_monotone) else { return whole };
    let extent = u64::try_from(layout.extent()).unwrap_or(0);
    let displacement = i64::try_from(displacement_bytes);
    let (Ok(displacement), true) = (displacement, tile.true_ub().abs_diff(tile.true_lb()) <= extent) else {
        return whole;
    };
    let of_tile = || runs(tile.clone(), displacement, 0, layout.size());
    if let Some((period, block)) = period_of(of_tile()).filter(|(period, _)| extent.is_multiple_of(*period)) {
        return Request::periodic(span, period, Some(block), false);
    }
    unless_too_many(of_tile()).map_or(whole, |runs| Request::periodic(span, extent, runs, false))
}

/// Returns the runs, or `None` if there are too many.
fn unless_too_many(runs: impl Iterator<Item = Range<u64>>) -> Option<Vec<Range<u64>>> {
    let runs: Vec<_> = runs.take(RUNS_MAX + 1).collect();
    (runs.len() <= RUNS_MAX).then_some(runs)
}

fn runs_of(side: &FileSide) -> impl Iterator<Item = Range<u64>> {
    runs(side.file().clone(), side.displacement_bytes(), side.file_start(), side.bytes())
}

/// The runs of a part of a stream.
fn runs(file: Tiled, displacement_bytes: i64, start: u64, bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let mut cursor = Cursor::new(file);
    cursor.seek(start);
    let mut left = bytes;
    std::iter::from_fn(move || {
        let run = cursor.next_run(left).filter(|run| run.len > 0)?;
        left -= run.len;
        let at = (displacement_bytes + run.offset) as u64;
        Some(at..at + run.len)
    })
}

/// If all runs are alike, returns their period and one run. The first run may be the end of such a run,
/// and the last run the start of one.
fn period_of(mut runs: impl Iterator<Item = Range<u64>>) -> Option<(u64, Range<u64>)> {
    let (first, block) = (runs.next()?, runs.next()?);
    let (period, block_bytes) = (block.end - first.end, block.end - block.start);
    if first.end - first.start > block_bytes {
        return None;
    }
    let mut runs = runs.peekable();
    let mut start = block.start;
    while let Some(run) = runs.next() {
        start += period;
        let is_alike =
            run.end - run.start == block_bytes || runs.peek().is_none() && run.end - run.start < block_bytes;
        if run.start != start || !is_alike {
            return None;
        }
    }
    Some((period, block))
}

#[cfg(test)]
mod tests {
    use capulet_datatype::{ArrayOrder, Datatype, Named};
    use proptest::prelude::*;

    use super::*;

    fn side(filetype: &Datatype, displacement_bytes: u64, start: u64, bytes: u64) -> FileSide {
        let tiled = Tiled::until(filetype.layout().clone(), 1 << 40);
        FileSide::of_view(displacement_bytes, &tiled, start, bytes).expect("the offsets are small")
    }

    fn byte() -> Datatype {
        Datatype::named(Named::Byte)
    }

    /// Whether the request locks a byte.
    fn locks(request: &Request, at: u64) -> bool {
        request.conflicts(&Request::contiguous(at..at + 1, false))
    }

    #[test]
    fn periodic_runs_are_locked_exactly() {
        // 100 blocks of 3 bytes in each 10, from the middle of one block to the middle of another.
        let vector = Datatype::vector(1000, 3, 10, &byte()).expect("the datatype is valid");
        let side = side(&vector, 7, 1, 300);
        let request = footprint(&side, Direction::Write);
        for at in 0..1100 {
            let is_block = at >= 7 && (at - 7) % 10 < 3 && side.span().contains(&at);
            assert_eq!(locks(&request, at), is_block, "{at}");
        }
        let other = footprint(&super::tests::side(&vector, 10, 1, 300), Direction::Write);
        assert!(!request.conflicts(&other), "the runs lie side by side");
        assert!(!footprint(&side, Direction::Read).conflicts(&footprint(&side, Direction::Read)));
    }

    #[test]
    fn tiles_of_irregular_runs_are_locked_exactly() {
        let tile = Datatype::indexed(&[2, 1], &[0, 5], &byte()).expect("the datatype is valid");
        let tile = Datatype::resized(0, 16, &tile).expect("the datatype is valid");
        let request = footprint(&side(&tile, 0, 0, 30), Direction::Write);
        for at in 0..160 {
            assert_eq!(locks(&request, at), matches!(at % 16, 0 | 1 | 5) && at < 150, "{at}");
        }
    }

    #[test]
    fn column_views_of_different_ranks_are_disjoint() {
        let column = |at: u64| {
            let sizes = [64, 40];
            let part = Datatype::subarray(&sizes, &[64, 10], &[0, 10 * at], ArrayOrder::C, &byte())
                .expect("the datatype is valid");
            view_footprint(100, &Tiled::until(part.layout().clone(), 1 << 40))
        };
        let columns: Vec<Request> = (0..4).map(column).collect();
        assert!(capulet_atomic::are_disjoint(&columns));
        for (at, request) in (0..).zip(&columns) {
            for byte in 100..10_000 {
                assert_eq!(locks(request, byte), (byte - 100) % 40 / 10 == at, "{byte}");
            }
        }
        let bytes = Tiled::until(byte().layout().clone(), 1 << 40);
        assert!(view_footprint(0, &bytes).conflicts(&columns[3]));
    }

    #[test]
    fn self_overlapping_view_is_locked_as_one_interval() {
        let tile = Datatype::indexed(&[10, 3, 4], &[0, 2, 20], &byte()).expect("the datatype is valid");
        let request = view_footprint(5, &Tiled::until(tile.layout().clone(), 1 << 40));
        assert!((5..100).all(|at| locks(&request, at)) && !locks(&request, 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn every_byte_of_an_access_is_locked(
            blocks in proptest::collection::vec((0..5_u64, 1..4_u64), 1..30),
            slack in 0..9_i64, displacement in 0..9_u64, start in 0..50_u64, bytes in 1..400_u64,
        ) {
            let mut at = 0;
            let (mut lengths, mut offsets) = (Vec::new(), Vec::new());
            for (gap, length) in blocks {
                at += gap;
                lengths.push(length);
                offsets.push(at as i64);
                at += length;
            }
            let tile = Datatype::indexed(&lengths, &offsets, &byte()).expect("the datatype is valid");
            let tile = Datatype::resized(0, at as i64 + slack, &tile).expect("the datatype is valid");
            let side = side(&tile, displacement, start, bytes);
            let request = footprint(&side, Direction::Write);
            for byte in 0..bytes {
                prop_assert!(locks(&request, side.offset_of(byte)));
            }
            let whole = view_footprint(displacement, &Tiled::until(tile.layout().clone(), 1 << 40));
            for byte in 0..bytes {
                prop_assert!(locks(&whole, side.offset_of(byte)));
            }
            let span = side.span();
            prop_assert!(span.start == 0 || !locks(&request, span.start - 1));
            prop_assert!(!locks(&request, span.end));
        }
    }
}
