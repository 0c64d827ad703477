//! Lists of displacements and of runs, at 4 bytes per number where all numbers fit, else at 8.
//!
//! A listed run takes its displacement and the stream position at which it starts: 8 bytes where an MPI
//! program gave two `int`s. Because starts are kept instead of lengths, a binary search answers every query
//! about positions.

use std::mem::size_of_val;
use std::ops::ControlFlow;

/// A displacement, in 4 or 8 bytes.
pub(crate) trait Place: Copy + std::fmt::Debug {
    fn wide(self) -> i64;
    /// The same number. The caller guarantees that it fits.
    fn narrowed(wide: i64) -> Self;
    fn boxed(list: Vec<Self>) -> DisplacementList;
}

impl Place for i32 {
    #[inline]
    fn wide(self) -> i64 {
        self.into()
    }
    #[inline]
    fn narrowed(wide: i64) -> Self {
        wide as Self
    }
    fn boxed(list: Vec<Self>) -> DisplacementList {
        DisplacementList::Narrow(list.into())
    }
}

impl Place for i64 {
    #[inline]
    fn wide(self) -> i64 {
        self
    }
    #[inline]
    fn narrowed(wide: i64) -> Self {
        wide
    }
    fn boxed(list: Vec<Self>) -> DisplacementList {
        DisplacementList::Wide(list.into())
    }
}

/// A stream position, in 4 or 8 bytes, with the type of the displacements of the same width.
pub(crate) trait Start: Copy + Ord + std::fmt::Debug {
    type Place: Place;
    fn wide(self) -> u64;
    /// The same number. The caller guarantees that it fits.
    fn narrowed(wide: u64) -> Self;
    fn boxed(table: Table<Self>) -> RunTable;
}

impl Start for u32 {
    type Place = i32;
    #[inline]
    fn wide(self) -> u64 {
        self.into()
    }
    #[inline]
    fn narrowed(wide: u64) -> Self {
        wide as Self
    }
    fn boxed(table: Table<Self>) -> RunTable {
        RunTable::Narrow(table)
    }
}

impl Start for u64 {
    type Place = i64;
    #[inline]
    fn wide(self) -> u64 {
        self
    }
    #[inline]
    fn narrowed(wide: u64) -> Self {
        wide
    }
    fn boxed(table: Table<Self>) -> RunTable {
        RunTable::Wide(table)
    }
}

/// Whether displacements within `hull_bytes` of each other, and stream positions up to `size`, fit in 4
/// bytes each.
pub(crate) fn fits_narrow(hull_bytes: u64, size: u64) -> bool {
    i32::try_from(hull_bytes).is_ok() && u32::try_from(size).is_ok()
}

/// An owned list of displacements.
#[derive(Debug)]
pub(crate) enum DisplacementList {
    Narrow(Box<[i32]>),
    Wide(Box<[i64]>),
}

/// A part of a list of displacements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Displacements<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

impl DisplacementList {
    #[inline]
    pub(crate) fn as_slice(&self) -> Displacements<'_> {
        match self {
            Self::Narrow(list) => Displacements::Narrow(list),
            Self::Wide(list) => Displacements::Wide(list),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    #[inline]
    pub(crate) fn get(&self, entry: usize) -> i64 {
        self.as_slice().get(entry)
    }

    /// Memory of the list, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Narrow(list) => size_of_val(&**list),
            Self::Wide(list) => size_of_val(&**list),
        }
    }
}

impl<'a> Displacements<'a> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Narrow(list) => list.len(),
            Self::Wide(list) => list.len(),
        }
    }

    #[inline]
    pub(crate) fn get(self, entry: usize) -> i64 {
        match self {
            Self::Narrow(list) => list[entry].into(),
            Self::Wide(list) => list[entry],
        }
    }

    /// The displacements of entries `from..to`.
    #[inline]
    pub(crate) fn part(self, from: usize, to: usize) -> Self {
        match self {
            Self::Narrow(list) => Self::Narrow(&list[from..to]),
            Self::Wide(list) => Self::Wide(&list[from..to]),
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = i64> + Clone + 'a {
        (0..self.len()).map(move |entry| self.get(entry))
    }

    /// The number of leading entries for which `holds` is true. It must be false for all entries after
    /// them.
    #[inline]
    pub(crate) fn partition_point(self, holds: impl Fn(i64) -> bool) -> usize {
        match self {
            Self::Narrow(list) => list.partition_point(|&at| holds(at.into())),
            Self::Wide(list) => list.partition_point(|&at| holds(at)),
        }
    }
}

impl PartialEq for DisplacementList {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Narrow(left), Self::Narrow(right)) => left == right,
            (Self::Wide(left), Self::Wide(right)) => left == right,
            _ => self.as_slice().iter().eq(other.as_slice().iter()),
        }
    }
}

/// Average number of runs for each entry of the directory, before the span of an entry is rounded down to a
/// power of two.
const RUNS_PER_ENTRY: usize = 128;

/// Displacements and starts of runs. There is one start more than runs; the last start is the length of the
/// stream.
#[derive(Debug)]
pub(crate) struct Table<S: Start> {
    displacements: Box<[S::Place]>,
    starts: Box<[S]>,
    /// The run that holds the stream position, for every stream position that is a multiple of 2 to the
    /// power of `shift`; then the last run.
    directory: Box<[u32]>,
    shift: u32,
}

impl<S: Start> Table<S> {
    pub(crate) fn new(displacements: Vec<S::Place>, starts: Vec<S>) -> Self {
        let n = displacements.len();
        debug_assert_eq!(n + 1, starts.len());
        let size = starts[n].wide();
        // A search by position is one look-up in the directory, then a few steps within few cache lines.
        let shift = (size / n.div_ceil(RUNS_PER_ENTRY) as u64).max(1).ilog2();
        let entries = if u32::try_from(n).is_ok() { (size - 1) >> shift } else { 0 };
        let mut directory = Vec::with_capacity(entries as usize + 2);
        let mut run = 0;
        for entry in 0..=entries {
            run = gallop(&starts[..n], run, S::narrowed(entry << shift));
            directory.push(run as u32);
        }
        directory.push((n - 1) as u32);
        let directory = if entries > 0 { directory.into() } else { Box::default() };
        Self { displacements: displacements.into(), starts: starts.into(), directory, shift }
    }

    #[inline]
    fn locate(&self, position: u64) -> (usize, u64) {
        let entry = (position >> self.shift) as usize;
        let (from, to) = match self.directory.get(entry..entry + 2) {
            Some(&[from, to]) => (from as usize, to as usize),
            _ => (0, self.displacements.len() - 1),
        };
        let position = S::narrowed(position);
        let run = from + self.starts[from + 1..=to].partition_point(|&start| start <= position);
        (run, position.wide() - self.starts[run].wide())
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.displacements) + size_of_val(&*self.starts) + size_of_val(&*self.directory)
    }
}

/// The last of the rising `starts` that is not above `position`. The search begins at entry `from` and
/// doubles its steps.
fn gallop<S: Start>(starts: &[S], from: usize, position: S) -> usize {
    let mut step = RUNS_PER_ENTRY;
    while from + step < starts.len() && starts[from + step] <= position {
        step *= 2;
    }
    let to = (from + step).min(starts.len());
    from + starts[from..to].partition_point(|&start| start <= position) - 1
}

/// An owned list of runs.
#[derive(Debug)]
pub(crate) enum RunTable {
    Narrow(Table<u32>),
    Wide(Table<u64>),
}

/// A part of a list of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Runs<'a> {
    Narrow(RunSlice<'a, u32>),
    Wide(RunSlice<'a, u64>),
}

/// Displacements of runs, and their starts with the end of the last run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSlice<'a, S: Start> {
    pub(crate) displacements: &'a [S::Place],
    pub(crate) starts: &'a [S],
}

impl<'a, S: Start> RunSlice<'a, S> {
    #[inline]
    fn get(self, entry: usize) -> (i64, u64) {
        let bytes = self.starts[entry + 1].wide() - self.starts[entry].wide();
        (self.displacements[entry].wide(), bytes)
    }

    #[inline]
    fn part(self, from: usize, to: usize) -> Self {
        Self { displacements: &self.displacements[from..to], starts: &self.starts[from..=to] }
    }

    /// The places of the parts of `part` bytes each into which the runs are cut.
    pub(crate) fn cut(self, part: u64) -> Vec<S::Place> {
        let mut places = Vec::with_capacity((self.starts[self.displacements.len()].wide() / part) as usize);
        for (at, bytes) in self.iter() {
            let inside = (0..bytes).step_by(part as usize);
            places.extend(inside.map(|inside| S::Place::narrowed(at + inside as i64)));
        }
        places
    }

    /// All runs as `(displacement, bytes)`.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = (i64, u64)> + Clone + 'a {
        let lengths = self.starts.iter().zip(&self.starts[1..]).map(|(from, to)| to.wide() - from.wide());
        self.displacements.iter().map(|at| at.wide()).zip(lengths)
    }
}

impl RunTable {
    #[inline]
    pub(crate) fn as_slice(&self) -> Runs<'_> {
        match self {
            Self::Narrow(Table { displacements, starts, .. }) => {
                Runs::Narrow(RunSlice { displacements, starts })
            }
            Self::Wide(Table { displacements, starts, .. }) => Runs::Wide(RunSlice { displacements, starts }),
        }
    }

    /// The run that holds stream byte `position`, and the position within that run. O(log n).
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        match self {
            Self::Narrow(table) => table.locate(position),
            Self::Wide(table) => table.locate(position),
        }
    }

    /// The number of leading runs whose displacements satisfy `holds`. It must be false for all runs after
    /// them.
    #[inline]
    pub(crate) fn partition_point(&self, holds: impl Fn(i64) -> bool) -> usize {
        match self {
            Self::Narrow(table) => table.displacements.partition_point(|&at| holds(at.into())),
            Self::Wide(table) => table.displacements.partition_point(|&at| holds(at)),
        }
    }

    /// Stream position of a run. O(1).
    pub(crate) fn start_of(&self, entry: usize) -> u64 {
        match self {
            Self::Narrow(table) => table.starts[entry].into(),
            Self::Wide(table) => table.starts[entry],
        }
    }

    /// The number of runs, from run `from` on, that end at or below stream position `end`.
    #[inline]
    pub(crate) fn whole_below(&self, from: usize, end: u64) -> usize {
        match self {
            Self::Narrow(table) => table.starts[from + 1..].partition_point(|&start| u64::from(start) <= end),
            Self::Wide(table) => table.starts[from + 1..].partition_point(|&start| start <= end),
        }
    }

    /// Memory of the lists, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Narrow(table) => table.heap_bytes(),
            Self::Wide(table) => table.heap_bytes(),
        }
    }
}

impl PartialEq for RunTable {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Narrow(left), Self::Narrow(right)) => {
                left.displacements == right.displacements && left.starts == right.starts
            }
            (Self::Wide(left), Self::Wide(right)) => {
                left.displacements == right.displacements && left.starts == right.starts
            }
            _ => self.as_slice().iter().eq(other.as_slice().iter()),
        }
    }
}

impl<'a> Runs<'a> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Narrow(runs) => runs.displacements.len(),
            Self::Wide(runs) => runs.displacements.len(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Displacement and bytes of a run.
    #[inline]
    pub(crate) fn get(self, entry: usize) -> (i64, u64) {
        match self {
            Self::Narrow(runs) => runs.get(entry),
            Self::Wide(runs) => runs.get(entry),
        }
    }

    /// The runs `from..to`.
    #[inline]
    pub(crate) fn part(self, from: usize, to: usize) -> Self {
        match self {
            Self::Narrow(runs) => Self::Narrow(runs.part(from, to)),
            Self::Wide(runs) => Self::Wide(runs.part(from, to)),
        }
    }

    /// All runs as `(displacement, bytes)`.
    pub(crate) fn iter(self) -> impl Iterator<Item = (i64, u64)> + Clone + 'a {
        (0..self.len()).map(move |entry| self.get(entry))
    }

    /// Visits all runs as `(displacement, bytes)` until `visit` breaks. The width of the numbers is checked
    /// once, not for each run.
    #[inline]
    pub(crate) fn try_for_each<B>(self, mut visit: impl FnMut(i64, u64) -> ControlFlow<B>) -> ControlFlow<B> {
        match self {
            Self::Narrow(runs) => runs.iter().try_for_each(|(at, bytes)| visit(at, bytes)),
            Self::Wide(runs) => runs.iter().try_for_each(|(at, bytes)| visit(at, bytes)),
        }
    }
}
