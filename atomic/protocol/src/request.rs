//! Requests: the bytes to be locked.

use std::iter;
use std::ops::Range;

use smallvec::SmallVec;

use crate::Words;

/// The largest number of intervals of a request.
pub const INTERVALS_MAX: usize = 8;

/// The largest number of words of a request.
pub(crate) const REQUEST_WORDS: usize = HEAD_WORDS + 2 * INTERVALS_MAX;
/// The number of words before the intervals: flags and number of intervals; start of the span; end of the
/// span; period.
const HEAD_WORDS: usize = 4;
const LIVE: u64 = 1;
const SHARED: u64 = 2;
const COUNT_SHIFT: u32 = 8;
/// The bits of the first word from here on are left to the lock.
pub(crate) const STAMP_SHIFT: u32 = 16;

/// A set of bytes of a file, and whether other readers may hold the same bytes.
///
/// The set is the bytes of `span` that lie in one of the intervals, or in an interval moved by a multiple
/// of the period. A request that was made of more than [`INTERVALS_MAX`] intervals has fewer and larger
/// ones: its set contains all requested bytes, and may contain more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    span: Range<u64>,
    /// In bytes. 0 if the intervals do not repeat.
    period: u64,
    /// Ascending and disjoint. Empty for the whole span.
    intervals: SmallVec<[Range<u64>; 1]>,
    is_shared: bool,
}

impl Request {
    /// All bytes of a span. If `is_shared`, other processes may hold the same bytes, if their requests
    /// are shared too.
    pub fn contiguous(span: Range<u64>, is_shared: bool) -> Self {
        Self { span, period: 0, intervals: SmallVec::new(), is_shared }
    }

    /// The whole file, not shared.
    pub fn whole() -> Self {
        Self::contiguous(0..u64::MAX, false)
    }

    /// The bytes of some ranges, in any order. `is_shared` is as in [`Request::contiguous`].
    pub fn ranges(ranges: impl IntoIterator<Item = Range<u64>>, is_shared: bool) -> Self {
        let intervals = coarsened(ranges.into_iter().collect());
        let start = intervals.first().map_or(0, |first| first.start);
        let end = intervals.last().map_or(0, |last| last.end);
        if intervals.len() < 2 {
            return Self::contiguous(start..end, is_shared);
        }
        Self { span: start..end, period: 0, intervals: SmallVec::from_vec(intervals), is_shared }
    }

    /// The bytes of some ranges and of their repetitions every `period` bytes, as far as they lie in
    /// `span`. The ranges must lie within one period of each other. `is_shared` is as in
    /// [`Request::contiguous`].
    pub fn periodic(
        span: Range<u64>,
        period: u64,
        ranges: impl IntoIterator<Item = Range<u64>>,
        is_shared: bool,
    ) -> Self {
        let intervals = coarsened(ranges.into_iter().collect());
        let bytes: u64 = intervals.iter().map(|interval| interval.end - interval.start).sum();
        if period == 0 || bytes >= period {
            return Self::contiguous(span, is_shared);
        }
        if bytes == 0 {
            return Self::contiguous(0..0, is_shared);
        }
        Self { span, period, intervals: SmallVec::from_vec(intervals), is_shared }
    }

    /// A request for all bytes of the units that this request touches. Units have `unit_bytes` bytes and begin at
    /// multiples of `unit_bytes`.
    #[must_use]
    pub fn in_units_of(&self, unit_bytes: u64) -> Self {
        let in_units = |range: &Range<u64>| {
            let end = range.end.checked_next_multiple_of(unit_bytes).unwrap_or(u64::MAX);
            range.start - range.start % unit_bytes..end
        };
        if self.span.is_empty() {
            return self.clone();
        }
        let span = in_units(&self.span);
        if self.intervals.is_empty() || self.period != 0 && !self.period.is_multiple_of(unit_bytes) {
            return Self::contiguous(span, self.is_shared);
        }
        let intervals = self.intervals.iter().map(in_units);
        if self.period == 0 {
            return Self::ranges(intervals, self.is_shared);
        }
        Self::periodic(span, self.period, intervals, self.is_shared)
    }

    /// The range from the first byte to the end of the last byte.
    pub fn span(&self) -> Range<u64> {
        self.span.clone()
    }

    /// Whether other readers may hold the same bytes.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether two requests must not be held at the same time: they have a byte in common, and at least
    /// one of them is not shared. True if this is not known.
    pub fn conflicts(&self, other: &Request) -> bool {
        self.conflicts_with(&other.words())
    }

    /// The request as words, which other processes read.
    pub fn words(&self) -> Words {
        let head =
            LIVE | if self.is_shared { SHARED } else { 0 } | (self.intervals.len() as u64) << COUNT_SHIFT;
        let mut words = Words::from_buf_and_len(
            [head, self.span.start, self.span.end, self.period, 0, 0, 0, 0],
            HEAD_WORDS,
        );
        for interval in &self.intervals {
            words.extend_from_slice(&[interval.start, interval.end]);
        }
        words
    }

    /// The request with these words. `None` if the words are no request.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let (&[head, start, end, period], pairs) = words.split_first_chunk::<HEAD_WORDS>()?;
        let (pairs, []) = pairs.as_chunks::<2>() else { return None };
        let is_told =
            head & LIVE != 0 && head >> COUNT_SHIFT == pairs.len() as u64 && pairs.len() <= INTERVALS_MAX;
        let intervals = pairs.iter().map(|pair| pair[0]..pair[1]).collect();
        is_told.then_some(Self { span: start..end, period, intervals, is_shared: head & SHARED != 0 })
    }

    /// As [`Request::conflicts`], with the words of a slot of [`Ranges`](crate::Ranges). An empty slot
    /// conflicts with no request. The upper 48 bits of the first word are not read.
    pub fn conflicts_with(&self, words: &[u64]) -> bool {
        let [head, start, end, period] = words[..HEAD_WORDS] else { return true };
        if head & LIVE == 0 || self.is_shared && head & SHARED != 0 {
            return false;
        }
        if self.span.start.max(start) >= self.span.end.min(end) {
            return false;
        }
        let modulus = gcd(self.period, period);
        let count = usize::from((head >> COUNT_SHIFT) as u8);
        let listed = words[HEAD_WORDS..].chunks_exact(2).take(count);
        let all = iter::once(start..end).filter(|_| count == 0);
        let theirs = listed.map(|pair| pair[0]..pair[1]).chain(all);
        theirs.into_iter().any(|their| self.pieces().any(|own| meets(&own, &their, modulus)))
    }

    fn pieces(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let all = iter::once(self.span.clone()).filter(|_| self.intervals.is_empty());
        self.intervals.iter().cloned().chain(all)
    }
}

/// Whether no two of the requests have a byte in common. False if this is not known. First, N requests
/// are compared modulo the greatest common divisor of their periods, in O(N log N). If that does not
/// prove it, up to 64 requests are compared pair by pair. For more requests the result is false then.
pub fn are_disjoint(requests: &[Request]) -> bool {
    const PAIRS_OF_MAX: usize = 64;
    if are_disjoint_modulo(requests) {
        return true;
    }
    let shares = |a: &Request, b: &Request| Request { is_shared: false, ..a.clone() }.conflicts(b);
    requests.len() <= PAIRS_OF_MAX
        && requests.iter().enumerate().all(|(at, a)| requests[..at].iter().all(|b| !shares(a, b)))
}

/// As [`are_disjoint`], if all requests repeated with the greatest common divisor of their periods, from
/// the start of the file on.
fn are_disjoint_modulo(requests: &[Request]) -> bool {
    let modulus = requests.iter().fold(0, |divisor, request| gcd(divisor, request.period));
    if modulus == 0 {
        return false;
    }
    let mut parts = Vec::new();
    for (owner, request) in requests.iter().enumerate().filter(|(_, request)| !request.span.is_empty()) {
        for piece in request.pieces() {
            let (start, bytes) = (piece.start % modulus, piece.end - piece.start);
            if bytes > modulus {
                return requests.len() == 1;
            }
            let first_bytes = bytes.min(modulus - start);
            parts.push((start, start + first_bytes, owner));
            parts.push((0, bytes - first_bytes, owner));
        }
    }
    parts.retain(|(start, end, _)| start < end);
    parts.sort_unstable();
    let mut reached = (0, usize::MAX);
    parts.into_iter().all(|(start, end, owner)| {
        let is_apart = start >= reached.0 || owner == reached.1;
        if end > reached.0 {
            reached = (end, owner);
        }
        is_apart
    })
}

/// Whether two ranges have a byte in common, if both repeat every `modulus` bytes. With 0 they do not
/// repeat.
fn meets(a: &Range<u64>, b: &Range<u64>, modulus: u64) -> bool {
    if modulus == 0 {
        return a.start.max(b.start) < a.end.min(b.end);
    }
    let (a_bytes, b_bytes) = (a.end - a.start, b.end - b.start);
    let (from, to) = (a.start % modulus, b.start % modulus);
    let distance = if to >= from { to - from } else { modulus - (from - to) };
    let back = if distance == 0 { 0 } else { modulus - distance };
    a_bytes > 0 && b_bytes > 0 && (distance < a_bytes || back < b_bytes)
}

/// The greatest common divisor. If one number is 0, the other one.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The ranges sorted, disjoint, without empty ones, and at most [`INTERVALS_MAX`] of them: ranges with
/// the smallest gaps between them become one range.
fn coarsened(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|range, before| {
        let joins = range.start <= before.end;
        if joins {
            before.end = before.end.max(range.end);
        }
        joins
    });
    if ranges.len() <= INTERVALS_MAX {
        return ranges;
    }
    // The indices of the ranges that follow the largest gaps, ascending.
    let mut behind_gaps: Vec<usize> = (1..ranges.len()).collect();
    behind_gaps.select_nth_unstable_by_key(INTERVALS_MAX - 1, |at| !(ranges[*at].start - ranges[at - 1].end));
    behind_gaps.truncate(INTERVALS_MAX - 1);
    behind_gaps.sort_unstable();
    let firsts = iter::once(0).chain(behind_gaps.iter().copied());
    let ends = behind_gaps.iter().copied().chain(iter::once(ranges.len()));
    firsts.zip(ends).map(|(first, end)| ranges[first].start..ranges[end - 1].end).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// For each byte below 400, whether the request has it.
    fn bytes(request: &Request) -> Vec<bool> {
        let comes = |at: u64, interval: &Range<u64>| match request.period {
            0 => interval.contains(&at),
            period => {
                (0..=at / period).any(|times| interval.contains(&(at - times * period)))
                    || (1..100).any(|times| interval.contains(&(at + times * period)))
            }
        };
        (0..400)
            .map(|at| {
                let is_told = request.intervals.is_empty()
                    || request.intervals.iter().any(|interval| comes(at, interval));
                is_told && request.span.contains(&at)
            })
            .collect()
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        vec((0..300_u64, 0..9_u64).prop_map(|(start, bytes)| start..start + bytes), 0..20)
    }

    fn request() -> impl Strategy<Value = Request> {
        let plain =
            (ranges(), any::<bool>()).prop_map(|(ranges, is_shared)| Request::ranges(ranges, is_shared));
        let periodic = (0..100_u64, 1..300_u64, 1..20_u64, vec((0..6_u64, 1..4_u64), 1..3), any::<bool>())
            .prop_map(|(start, bytes, period, pieces, is_shared)| {
                let pieces = pieces.into_iter().map(|(at, bytes)| start + at..start + at + bytes);
                Request::periodic(start..start + bytes, period, pieces, is_shared)
            });
        prop_oneof![plain, periodic]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn request_contains_all_requested_bytes(ranges in ranges()) {
            let request = Request::ranges(ranges.clone(), true);
            prop_assert!(request.pieces().count() <= INTERVALS_MAX);
            let bytes = bytes(&request);
            for range in ranges {
                prop_assert!(range.into_iter().all(|at| bytes[at as usize]));
            }
        }

        #[test]
        fn request_in_units_has_every_unit_that_it_touches(request in request(), unit_bytes in 1..40_u64) {
            let in_units = request.in_units_of(unit_bytes);
            prop_assert_eq!(in_units.is_shared, request.is_shared);
            let (before, after) = (bytes(&request), bytes(&in_units));
            let units = |bytes: &[bool]| {
                bytes.chunks_exact(unit_bytes as usize).map(<[bool]>::to_vec).collect::<Vec<_>>()
            };
            for (before, after) in units(&before).iter().zip(units(&after)) {
                prop_assert!(!before.contains(&true) || !after.contains(&false), "a unit is not whole");
            }
        }

        #[test]
        fn requests_with_a_common_byte_conflict(a in request(), b in request()) {
            let shares = bytes(&a).iter().zip(bytes(&b)).any(|(a, b)| *a && b);
            let conflicts = a.conflicts(&b);
            prop_assert_eq!(conflicts, b.conflicts(&a));
            if a.is_shared && b.is_shared {
                prop_assert!(!conflicts);
            } else if shares {
                prop_assert!(conflicts);
            } else if a.period == 0 && b.period == 0 {
                prop_assert!(!conflicts, "requests without a period are exact");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn disjoint_requests_have_no_common_byte(requests in vec(request(), 0..6)) {
            let mut owners = [0; 400];
            for request in &requests {
                for (owner, is_there) in owners.iter_mut().zip(bytes(request)) {
                    *owner += u32::from(is_there);
                }
            }
            let shares = owners.iter().any(|owners| *owners > 1);
            prop_assert!(!(shares && are_disjoint(&requests)));
            for request in requests {
                prop_assert_eq!(Request::from_words(&request.words()), Some(request));
            }
        }
    }

    #[test]
    fn columns_are_disjoint_until_one_overlaps() {
        let column = |at: u64| Request::periodic(at..1 << 40, 4096, Some(at..at + 16), true);
        let mut columns: Vec<Request> = (0..256).map(|at| column(16 * at)).collect();
        assert!(are_disjoint(&columns) && are_disjoint(&[]) && are_disjoint(&columns[..1]));
        columns.push(Request::contiguous(0..0, false));
        assert!(are_disjoint(&columns), "an empty request changes nothing");
        columns.push(column(40));
        assert!(!are_disjoint(&columns));
        let blocks = [Request::contiguous(0..10, false), Request::contiguous(10..30, true)];
        assert!(are_disjoint(&blocks) && !are_disjoint(&[blocks.clone(), blocks].concat()));
        assert_eq!(Request::from_words(&[1, 2, 3]), None);
        assert_eq!(Request::from_words(&[LIVE | 1 << COUNT_SHIFT, 0, 9, 0]), None);
    }

    #[test]
    fn columns_conflict_only_if_they_overlap() {
        let column = |at: u64| Request::periodic(at..1 << 40, 4096, Some(at..at + 1024), false);
        assert!(!column(0).conflicts(&column(1024)) && !column(3072).conflicts(&column(0)));
        assert!(column(0).conflicts(&column(1023)) && column(0).conflicts(&column(4096 * 7)));
        let narrower = Request::periodic(0..1 << 40, 2048, Some(0..512), false);
        assert!(
            narrower.conflicts(&column(2048)) && !narrower.conflicts(&Request::contiguous(512..2048, false))
        );
        assert!(!column(0).conflicts(&Request::contiguous(1024..4096, false)));
        assert!(!Request::contiguous(0..0, false).conflicts(&Request::whole()));
    }
}
