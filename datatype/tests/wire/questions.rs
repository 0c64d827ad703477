//! The questions that the tests ask a type that came in a message.

use std::ops::ControlFlow;

use capulet_datatype::{
    Contig, Cursor, Datatype, Flow, LeafVisitor, Named, Segment, Tiled, flatten, pack, unpack,
};

pub(crate) fn assert_equal(received: &Datatype, sent: &Datatype) {
    assert_eq!(received.bounds(), sent.bounds());
    assert_eq!(received.signature(), sent.signature());
    assert_eq!(received.layout(), sent.layout());
    assert_eq!(received.content_hash(), sent.content_hash());
    assert_eq!(received.combiner().name(), sent.combiner().name());
    let order = (received.has_nondecreasing_displacements(), sent.has_nondecreasing_displacements());
    assert_eq!(order.0, order.1);
    // Explicit bounds show in the types built from this one.
    let above = |old: &Datatype| {
        let old = [old.clone(), Datatype::named(Named::Double)];
        Datatype::structure(&[1, 1], &[3, 40], &old).map(|above| above.bounds())
    };
    assert_eq!(above(received), above(sent));
}

/// Asks everything that a type can be asked, in bounded time. The type may come from an untrusted sender.
pub(crate) fn interrogate(datatype: &Datatype) {
    let layout = datatype.layout();
    assert_eq!(layout.size(), datatype.size());
    assert_eq!(layout.heap_bytes() > 0, layout.block_count() <= layout.size());
    let _ = (
        layout.has_overlap(),
        layout.is_dense(),
        datatype.content_hash(),
        format!("{datatype:?} {layout:?}"),
    );
    assert!(datatype.is_equivalent(&datatype.clone()));
    for etype in [
        Datatype::named(Named::Short),
        Datatype::resized(0, 3, &Datatype::named(Named::Byte)).expect("the type is small"),
    ] {
        let _ = datatype.is_tiling_of(&etype);
    }
    let _ = datatype.signature().for_each_run(|prim, count| {
        assert!(prim.bytes > 0 && count > 0);
        ControlFlow::Break(())
    });
    for tiled in [Tiled::new(layout.clone(), 1), Tiled::new(layout.clone(), 3)].into_iter().flatten() {
        let size = tiled.size();
        let mut cursor = Cursor::new(tiled.clone());
        for stream in [0, size / 3, size.saturating_sub(1)] {
            cursor.seek(stream);
            if let Some(run) = cursor.next_run(3) {
                assert_eq!(run.offset, tiled.offset_of(stream));
            }
            assert!(tiled.block_count(stream..size).expect("the range lies in the stream") <= size);
        }
        let part = flatten(&tiled, 0..size, 5).expect("the range lies in the stream");
        assert!(part.runs.len() <= 5);
        move_bytes(&tiled, size / 2..size.min(size / 2 + 100));
    }
    let mut leaves = Leaves(0);
    let mut segment = Segment::new(datatype, 1).expect("one instance fits");
    let flow = segment.manipulate(0..datatype.size(), &mut leaves).expect("the range lies in the stream");
    assert_eq!(flow.is_break(), segment.position() < datatype.size());
}

/// Counts up to 20 leaves.
struct Leaves(u32);

impl LeafVisitor for Leaves {
    type Break = ();

    fn contig(&mut self, leaf: Contig) -> Flow<()> {
        assert!(leaf.bytes > 0 && leaf.bytes.is_multiple_of(leaf.element.bytes.into()));
        self.0 += 1;
        if self.0 < 20 { Flow::Continue } else { Flow::Stop { bytes: 0, because: () } }
    }
}

/// Packs and unpacks a range, if it lies in the first bytes of memory.
fn move_bytes(tiled: &Tiled, range: std::ops::Range<u64>) {
    let memory: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
    let mut packed = vec![0; (range.end - range.start) as usize];
    if pack(tiled, &memory, range.clone(), &mut packed).is_ok() {
        let mut target = memory.clone();
        assert_eq!(unpack(tiled, &packed, range, &mut target), Ok(()));
        assert_eq!(target, memory);
    }
}
