//! Leaf functions, compared with the naive oracle: every leaf of any range of any type, and visitors that
//! stop.

mod cases;
mod oracle;

use std::ops::{ControlFlow, Range};

use capulet_datatype::{
    BlockIndexed, Contig, Datatype, Flow, Indexed, LeafVisitor, Named, Prim, PrimKind, Segment, Tiled,
    TypeError, Vector, visit,
};
use cases::cases;
use oracle::{TypeMap, any_tree};
use proptest::prelude::*;

/// One byte of the stream: its offset, the element that it belongs to, and its position in that element.
type Byte = (i64, Prim, u64);

const BYTE: Prim = Prim::new(PrimKind::Byte, 1);

/// Records every byte, and stops after `most` bytes.
struct Recorder {
    bytes: Vec<Byte>,
    most: u64,
    leaves: u64,
}

impl Recorder {
    fn new(most: u64) -> Self {
        Self { bytes: Vec::new(), most, leaves: 0 }
    }

    fn record(&mut self, runs: impl Iterator<Item = Contig>, leaf_bytes: u64, element: Prim) -> Flow<u64> {
        self.leaves += 1;
        let room = self.most - self.bytes.len() as u64;
        let unit = u64::from(element.bytes);
        let mut seen = 0;
        for run in runs {
            assert!(run.bytes > 0 && run.bytes % unit == 0 && run.element == element);
            let bytes = (0..run.bytes).map(|i| (run.offset + i as i64, element, i % unit));
            self.bytes.extend(bytes.take((room - seen.min(room)) as usize));
            seen += run.bytes;
        }
        assert_eq!(seen, leaf_bytes);
        if seen > room { Flow::Stop { bytes: room, because: self.leaves } } else { Flow::Continue }
    }
}

impl LeafVisitor for Recorder {
    type Break = u64;

    fn contig(&mut self, leaf: Contig) -> Flow<u64> {
        self.record(std::iter::once(leaf), leaf.bytes, leaf.element)
    }

    fn vector(&mut self, leaf: Vector) -> Flow<u64> {
        assert!(leaf.count > 1);
        self.record(leaf.runs(), leaf.bytes(), leaf.element)
    }

    fn block_indexed(&mut self, leaf: BlockIndexed<'_>) -> Flow<u64> {
        self.record(leaf.runs(), leaf.bytes(), leaf.element)
    }

    fn indexed(&mut self, leaf: Indexed<'_>) -> Flow<u64> {
        assert_eq!(leaf.displacements.len(), leaf.lengths.len());
        self.record(leaf.runs(), leaf.bytes(), leaf.element)
    }
}

/// The same recorder with only the function for runs.
struct ByRuns(Recorder);

impl LeafVisitor for ByRuns {
    type Break = u64;

    fn contig(&mut self, leaf: Contig) -> Flow<u64> {
        self.0.contig(leaf)
    }
}

/// The bytes that a range should give. The bytes of an element that the range cuts count as single bytes.
fn expected(map: &TypeMap, count: u64, range: Range<u64>) -> Vec<Byte> {
    let (mut bytes, mut stream) = (Vec::new(), 0);
    for i in 0..count as i64 {
        for (prim, at) in &map.elements {
            let end = stream + u64::from(prim.bytes);
            let torn = stream < range.start || end > range.end;
            for byte in 0..u64::from(prim.bytes) {
                if range.contains(&(stream + byte)) {
                    let (element, inside) = if torn { (BYTE, 0) } else { (*prim, byte) };
                    bytes.push((at + i * map.extent() + byte as i64, element, inside));
                }
            }
            stream = end;
        }
    }
    bytes
}

proptest! {
    #![proptest_config(cases(400, 2))]

    #[test]
    fn leaves_of_any_range_match_the_oracle(tree in any_tree(500), count in 1..4_u64, a in any::<u64>(), b in any::<u64>()) {
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let mut segment = Segment::new(&datatype, count).expect("the type is small");
        let size = segment.tiled().size();
        let (a, b) = (a % (size + 1), b % (size + 1));
        for range in [0..size, a.min(b)..a.max(b)] {
            let all = expected(&map, count, range.clone());
            let mut recorder = Recorder::new(u64::MAX);
            prop_assert_eq!(segment.manipulate(range.clone(), &mut recorder), Ok(ControlFlow::Continue(())));
            prop_assert_eq!(segment.position(), range.end);
            prop_assert_eq!(&recorder.bytes, &all);

            let mut by_runs = ByRuns(Recorder::new(u64::MAX));
            prop_assert_eq!(segment.manipulate(range.clone(), &mut by_runs), Ok(ControlFlow::Continue(())));
            prop_assert_eq!(&by_runs.0.bytes, &all);

            // As bytes, through a trait object.
            let mut recorder = Recorder::new(u64::MAX);
            let hidden: &mut dyn LeafVisitor<Break = u64> = &mut recorder;
            prop_assert_eq!(visit(segment.tiled(), range, hidden), Ok(ControlFlow::Continue(())));
            let bytes: Vec<Byte> = all.iter().map(|byte| (byte.0, BYTE, 0)).collect();
            prop_assert_eq!(&recorder.bytes, &bytes);
        }
    }

    #[test]
    fn stopped_visitor_resumes_where_it_stopped(
        tree in any_tree(300), count in 1..4_u64, steps in prop::collection::vec(1..70_u64, 1..20), by_runs in any::<bool>(),
    ) {
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let mut segment = Segment::new(&datatype, count).expect("the type is small");
        let size = segment.tiled().size();
        let mut steps = steps.iter().cycle();
        let all = map.bytes(count);
        while segment.position() < size {
            let start = segment.position();
            let most = *steps.next().expect("the iterator is endless");
            let mut recorder = Recorder::new(most);
            let flow = if by_runs {
                let mut visitor = ByRuns(recorder);
                let flow = segment.manipulate(start..size, &mut visitor);
                recorder = visitor.0;
                flow
            } else {
                segment.manipulate(start..size, &mut recorder)
            };
            let stopped = size - start > most;
            let because = if stopped { ControlFlow::Break(recorder.leaves) } else { ControlFlow::Continue(()) };
            prop_assert_eq!(flow, Ok(because));
            prop_assert_eq!(segment.position(), if stopped { start + most } else { size });
            let places: Vec<i64> = recorder.bytes.iter().map(|byte| byte.0).collect();
            prop_assert_eq!(&places[..], &all[start as usize..segment.position() as usize]);
        }
    }
}

#[test]
fn regular_types_are_one_leaf() {
    let double = Datatype::named(Named::Double);
    let leaves = |datatype: &Datatype, count: u64| {
        let mut segment = Segment::new(datatype, count).expect("the type fits");
        let mut counter = Counter::default();
        let flow = segment.manipulate(0..segment.tiled().size(), &mut counter);
        assert_eq!(flow, Ok(ControlFlow::Continue(())));
        counter
    };
    let double_prim = Prim::new(PrimKind::Float, 8);
    let row = Vector { offset: 0, count: 1 << 40, block_bytes: 8, stride_bytes: 24, element: double_prim };
    assert_eq!(leaves(&Datatype::vector(1 << 40, 1, 3, &double).expect("the type fits"), 1).vectors, [row]);
    let run = Contig { offset: 0, bytes: 1 << 43, element: double_prim };
    assert_eq!(leaves(&double, 1 << 40).runs, [run]);
    let places: Vec<i64> = (0..1000).map(|i| i * i + i).collect();
    let listed = Datatype::indexed_block(1, &places, &double).expect("the type fits");
    assert_eq!(leaves(&listed, 1).listed, 1000);
}

/// The leaves of each kind.
#[derive(Default)]
struct Counter {
    runs: Vec<Contig>,
    vectors: Vec<Vector>,
    listed: usize,
}

impl LeafVisitor for Counter {
    type Break = ();

    fn contig(&mut self, leaf: Contig) -> Flow<()> {
        self.runs.push(leaf);
        Flow::Continue
    }

    fn vector(&mut self, leaf: Vector) -> Flow<()> {
        self.vectors.push(leaf);
        Flow::Continue
    }

    fn block_indexed(&mut self, leaf: BlockIndexed<'_>) -> Flow<()> {
        self.listed += leaf.displacements.len();
        Flow::Continue
    }
}

/// A visitor that claims to have processed more bytes than the leaf has.
struct Boaster;

impl LeafVisitor for Boaster {
    type Break = ();

    fn contig(&mut self, _: Contig) -> Flow<()> {
        Flow::Stop { bytes: u64::MAX, because: () }
    }
}

#[test]
fn visitor_cannot_claim_more_than_the_leaf() {
    let int = Datatype::named(Named::Int);
    let mut segment = Segment::new(&Datatype::vector(4, 2, 3, &int).expect("the type is small"), 1)
        .expect("the type is small");
    assert_eq!(segment.manipulate(3..32, &mut Boaster), Ok(ControlFlow::Break(())));
    assert_eq!(segment.position(), 4, "one byte of the element that the range cuts");
    assert_eq!(segment.manipulate(4..32, &mut Boaster), Ok(ControlFlow::Break(())));
    assert_eq!(segment.position(), 8, "the rest of the first run");
    assert_eq!(segment.manipulate(8..32, &mut Boaster), Ok(ControlFlow::Break(())));
    assert_eq!(segment.position(), 16, "one run of the row");
}

#[test]
fn ranges_outside_of_the_stream_are_refused() {
    let int = Datatype::named(Named::Int);
    let mut segment = Segment::new(&int, 2).expect("the type is small");
    let refused = Err(TypeError::BadRange { start: 3, end: 9, size: 8 });
    assert_eq!(segment.manipulate(3..9, &mut Boaster), refused);
    assert_eq!(segment.position(), 0);
    assert_eq!(segment.manipulate(8..8, &mut Boaster), Ok(ControlFlow::Continue(())));
    let nothing = Tiled::new(int.layout().clone(), 0).expect("the type is small");
    assert_eq!(visit(&nothing, 0..0, &mut Boaster), Ok(ControlFlow::Continue(())));
    assert!(Segment::new(&int, u64::MAX).is_err());
}
