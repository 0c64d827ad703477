//! Copies of the bytes of types that came in messages, compared with a list of the offset of each byte.

use std::ops::{ControlFlow, Range};

use capulet_datatype::{
    Contig, Datatype, Flow, LeafVisitor, Segment, Tiled, TypedCopy, flatten, pack, unpack,
};

use crate::naive::places;

const CANARY: u8 = 0xd7;
/// Largest number of stream bytes that are checked.
const BYTES_MAX: usize = 4096;
/// Largest distance from the lowest byte to the end of the highest byte.
const SPAN_BYTES_MAX: i64 = 1 << 16;

/// Instances of a type, and the offsets of all their bytes.
pub(crate) struct Known {
    datatype: Datatype,
    tiled: Tiled,
    places: Vec<i64>,
    low: i64,
    span: usize,
}

impl Known {
    /// `None` if there are too many bytes, or if they lie too far apart.
    pub(crate) fn of(datatype: &Datatype, count: u64) -> Option<Self> {
        let tiled = Tiled::new(datatype.layout().clone(), count).ok()?;
        let span = tiled.true_ub().checked_sub(tiled.true_lb()).filter(|span| *span <= SPAN_BYTES_MAX)?;
        if tiled.size().max(datatype.size()) as usize > BYTES_MAX || tiled.true_lb().checked_abs()? > 1 << 60
        {
            return None;
        }
        let one = places(datatype, BYTES_MAX)?;
        assert_eq!(one.len() as u64, datatype.size());
        let instance = |i: i64| one.iter().map(move |at| at + i * datatype.extent());
        let places: Vec<i64> = (0..count as i64).flat_map(instance).collect();
        let low = places.iter().min().copied().unwrap_or(0);
        let high = places.iter().max().map_or(0, |high| high + 1);
        assert_eq!((tiled.true_lb(), tiled.true_ub()), (low, high));
        Some(Self { datatype: datatype.clone(), tiled, places, low, span: span as usize })
    }

    fn memory(&self, fill: impl Fn(usize) -> u8) -> Vec<u8> {
        (0..self.span).map(fill).collect()
    }

    fn index(&self, stream: usize) -> usize {
        (self.places[stream] - self.low) as usize
    }

    /// A range of the stream, selected by two numbers.
    fn range(&self, numbers: [u16; 2]) -> Range<usize> {
        let [a, b] = numbers.map(|number| usize::from(number) % (self.places.len() + 1));
        a.min(b)..a.max(b)
    }
}

/// Checks the runs, the leaves, and the packing and unpacking of a range.
pub(crate) fn check_one(known: &Known, numbers: [u16; 2]) {
    let range = known.range(numbers);
    let stream = range.start as u64..range.end as u64;
    let here = &known.places[range.clone()];
    let listed = flatten(&known.tiled, stream.clone(), usize::MAX).expect("the range lies in the stream");
    assert!(listed.runs.iter().flat_map(|run| run.offset..run.end()).eq(here.iter().copied()));
    let blocks = known.tiled.block_count(stream.clone()).expect("the range lies in the stream");
    assert_eq!(blocks, listed.runs.len() as u64);
    for (i, &place) in here.iter().enumerate().step_by(7) {
        assert_eq!(known.tiled.offset_of(stream.start + i as u64), place);
        if known.tiled.is_monotone() {
            assert_eq!(known.tiled.bytes_below(place), stream.start + i as u64);
        }
    }
    let mut leaves = Leaves(Vec::new());
    let count = known.tiled.count();
    let mut segment = Segment::new(&known.datatype, count).expect("the count has been accepted before");
    let flow = segment.manipulate(stream.clone(), &mut leaves).expect("the range lies in the stream");
    assert_eq!(flow, ControlFlow::Continue(()));
    assert!(leaves.0 == here);
    if known.low >= 0 && known.low < SPAN_BYTES_MAX {
        check_packing(known, range);
    }
}

fn check_packing(known: &Known, range: Range<usize>) {
    let stream = range.start as u64..range.end as u64;
    let here = &known.places[range];
    let mut memory: Vec<u8> = (0..known.low as usize + known.span).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut packed = vec![CANARY; here.len()];
    pack(&known.tiled, &memory, stream.clone(), &mut packed).expect("the bytes lie in memory");
    assert!(packed.iter().copied().eq(here.iter().map(|&at| memory[at as usize])));
    for byte in &mut packed {
        *byte = byte.wrapping_mul(31) ^ 0x41;
    }
    let mut expected = memory.clone();
    for (&at, &byte) in here.iter().zip(&packed) {
        expected[at as usize] = byte;
    }
    unpack(&known.tiled, &packed, stream, &mut memory).expect("the bytes lie in memory");
    assert!(memory == expected);
}

/// Collects the offset of every byte.
struct Leaves(Vec<i64>);

impl LeafVisitor for Leaves {
    type Break = ();

    fn contig(&mut self, leaf: Contig) -> Flow<()> {
        self.0.extend(leaf.offset..leaf.offset + leaf.bytes as i64);
        Flow::Continue
    }
}

/// Checks copies of a part of one stream to a part of the other. The copy of the same part is repeated, the
/// second time with the compiled program.
pub(crate) fn check_two(from: &Known, to: &Known, numbers: [u16; 4]) {
    let [a, b, c, d] = numbers;
    let (read, write) = (from.range([a, b]), to.range([c, d]));
    let copy = TypedCopy::new(from.tiled.clone(), to.tiled.clone());
    let whole = from.places.len().min(to.places.len());
    let most = read.len().min(write.len());
    for (start, end, bytes) in
        [(read.start, write.start, most), (0, 0, whole), (read.start, write.start, most)]
    {
        let source = from.memory(|i| (i * 13 + i / 240) as u8);
        let mut target = to.memory(|_| CANARY);
        let mut expected = target.clone();
        for i in 0..bytes {
            expected[to.index(end + i)] = source[from.index(start + i)];
        }
        let source_base = source.as_ptr().wrapping_offset(-from.low as isize);
        let target_base = target.as_mut_ptr().wrapping_offset(-to.low as isize);
        // SAFETY: `# Safety` of `TypedCopy::run`: each memory holds all bytes of its side from the lowest
        // on, and two vectors do not overlap.
        let copied = unsafe { copy.run(source_base, start as u64, target_base, end as u64, bytes as u64) };
        assert_eq!(copied, bytes as u64);
        assert!(target == expected, "{bytes} bytes from {start} to {end}");
    }
}
