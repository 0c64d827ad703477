//! Checks that transfers move the right bytes and change no other byte.

use super::subject::{Case, Subject, content, pattern, read, write};
use crate::{Batch, Direction, DriverFile, DriverFileExt, ErrorKind, Segment, Transfer};

pub(super) const CASES: &[Case] = &[
    Case { name: "contiguous bytes are read back", run: contiguous },
    Case { name: "vectored bytes are read back", run: vectored },
    Case { name: "lists of ranges are read back", run: lists },
    Case { name: "a batch keeps its order", run: own_order },
    Case { name: "reads stop at the end of the file", run: short_reads },
    Case { name: "holes read as zeros", run: holes },
    Case { name: "transfers without bytes do nothing", run: no_bytes },
    Case { name: "more segments than one system call moves", run: many_segments },
    Case { name: "offsets beyond 4 GiB are usable", run: large_offsets },
    Case { name: "impossible offsets are refused", run: impossible_offsets },
    Case { name: "neighboring bytes of file and memory do not change", run: neighbors },
    Case { name: "many small pieces change no byte between them", run: small_pieces },
    Case { name: "raw memory and a refilled batch are usable", run: reuse },
];

fn contiguous(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(3000);
    file.write_all_at(0, &data).expect("the write succeeds");
    file.write_all_at(3000, &data[..7]).expect("the write succeeds");
    file.write_all_at(10, b"middle").expect("the overwrite succeeds");
    let mut expected = data.clone();
    expected.extend_from_slice(&data[..7]);
    expected[10..16].copy_from_slice(b"middle");
    assert_eq!(content(&*file), expected);
}

fn vectored(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(600);
    write(&*file, &[(5, &data[..1]), (6, &data[1..300]), (305, &data[300..304]), (309, &data[304..])]);
    assert_eq!(content(&*file)[5..], data);
    let (result, memory) = read(&*file, &[(5, 299), (304, 1), (305, 300)]);
    assert!(result.error.is_none() && result.bytes == 600);
    assert_eq!(memory.concat(), data);
}

fn lists(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(300);
    // Every second range of 10 bytes is written. The ranges between them stay holes.
    let pieces: Vec<_> = data.chunks(10).zip(0..).map(|(bytes, index)| (index * 20, bytes)).collect();
    write(&*file, &pieces);
    let whole = content(&*file);
    assert_eq!(whole.len(), 590);
    for (index, byte) in whole.iter().enumerate() {
        let expected = if index % 20 < 10 { data[index / 20 * 10 + index % 20] } else { 0 };
        assert_eq!(*byte, expected, "byte {index}");
    }
    let (result, memory) = read(&*file, &[(0, 10), (40, 10), (585, 5)]);
    assert!(result.error.is_none() && result.bytes == 25);
    assert_eq!(memory, [&data[..10], &data[20..30], &data[295..]]);
}

fn own_order(subject: &Subject<'_>) {
    let file = subject.create();
    // The offsets descend, and two transfers overlap. The later transfer wins.
    write(&*file, &[(6, b"666666"), (0, b"000000"), (4, b"4444")]);
    assert_eq!(content(&*file), b"000044446666");
    let (result, memory) = read(&*file, &[(8, 2), (0, 4), (3, 4)]);
    assert_eq!(result.bytes, 10);
    assert_eq!(memory.concat(), b"6600000444");
}

fn short_reads(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(100);
    file.write_all_at(0, &data).expect("the write succeeds");
    // (pieces, bytes read)
    let cases: [(&[(u64, usize)], u64); 6] = [
        (&[(0, 100)], 100),
        (&[(0, 101)], 100),
        (&[(90, 30)], 10),
        (&[(100, 5)], 0),
        (&[(1 << 40, 5)], 0),
        (&[(40, 20), (95, 10), (200, 5)], 25),
    ];
    for (pieces, expected) in cases {
        let (result, memory) = read(&*file, pieces);
        assert!(result.error.is_none() && result.bytes == expected, "{pieces:?}: {result:?}");
        let mut left = expected;
        for ((offset, _), bytes) in pieces.iter().zip(memory) {
            let came = left.min(bytes.len() as u64) as usize;
            left -= came as u64;
            if came > 0 {
                assert_eq!(bytes[..came], data[*offset as usize..][..came], "{pieces:?}");
            }
            assert!(
                bytes[came..].iter().all(|byte| *byte == 0xA5),
                "{pieces:?}: memory for bytes behind the end was changed"
            );
        }
    }
    // The end of the file stops the batch, even if a later transfer lies before the end.
    let (result, memory) = read(&*file, &[(98, 4), (0, 4)]);
    assert!(result.error.is_none() && result.bytes == 2);
    assert_eq!(memory, [[data[98], data[99], 0xA5, 0xA5], [0xA5; 4]]);
    // An empty file ends at offset 0.
    let (result, _) = read(&*subject.create(), &[(0, 10)]);
    assert!(result.error.is_none() && result.bytes == 0);
}

fn holes(subject: &Subject<'_>) {
    let file = subject.create();
    file.write_all_at(100_000, b"x").expect("the write succeeds");
    let whole = content(&*file);
    assert_eq!(whole.len(), 100_001);
    assert!(whole[..100_000].iter().all(|byte| *byte == 0));
}

fn no_bytes(subject: &Subject<'_>) {
    let file = subject.create();
    file.write_all_at(0, b"abc").expect("the write succeeds");
    write(&*file, &[]);
    write(&*file, &[(1000, b"")]);
    write(&*file, &[(u64::MAX, b"")]);
    write(&*file, &[(u64::MAX, b""), (1, b"B"), (500, b"")]);
    assert_eq!(content(&*file), b"aBc");
    let (result, memory) = read(&*file, &[(50, 0), (0, 2), (90, 0), (2, 1)]);
    assert!(result.error.is_none() && result.bytes == 3);
    assert_eq!(memory.concat(), b"aBc");
}

fn many_segments(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(2500);
    let bytes: Vec<_> = data.chunks(1).zip(10..).map(|(byte, offset)| (offset, byte)).collect();
    write(&*file, &bytes);
    assert_eq!(content(&*file)[10..], data);
    let pieces: Vec<_> = (0..2500).map(|index| (10 + index, 1)).collect();
    let (result, memory) = read(&*file, &pieces);
    assert!(result.error.is_none() && result.bytes == 2500);
    assert_eq!(memory.concat(), data);
}

fn large_offsets(subject: &Subject<'_>) {
    let file = subject.create();
    // Across the limits of 31 and 32 bits, and at a far offset.
    for border in [1_u64 << 31, 1 << 32, 1 << 40] {
        let offset = border - 3;
        file.write_all_at(offset, b"border").expect("the write succeeds");
        assert_eq!(file.len().expect("the length is known"), border + 3);
        let (result, memory) = read(&*file, &[(offset - 2, 10)]);
        assert!(result.error.is_none() && result.bytes == 8);
        assert_eq!(memory[0][..8], *b"\0\0border");
    }
    let (_, memory) = read(&*file, &[((1 << 32) - 3, 6)]);
    assert_eq!(memory[0], b"border");
    assert_eq!(file.read_at(0, &mut [1; 4]).expect("the read succeeds"), 4);
}

fn impossible_offsets(subject: &Subject<'_>) {
    let file = subject.create();
    let largest = u64::try_from(i64::MAX).expect("the number is positive");
    for offset in [largest, largest + 1, u64::MAX - 3, u64::MAX] {
        // The first transfer is possible, the second is not.
        let batch =
            Batch::write(vec![Transfer::from_memory(0, b"ok"), Transfer::from_memory(offset, b"four")]);
        let result = file.submit(batch).wait();
        let error = result.error.expect("the offset is impossible");
        assert_eq!((result.bytes, error.kind()), (2, ErrorKind::TooLarge), "offset {offset}");
        let (result, memory) = read(&*file, &[(0, 2), (offset, 4)]);
        assert_eq!((result.bytes, &memory[0][..]), (2, &b"ok"[..]));
        assert!(result.error.is_none_or(|error| error.kind() == ErrorKind::TooLarge));
    }
    assert_eq!(content(&*file), b"ok");
}

fn neighbors(subject: &Subject<'_>) {
    let file = subject.create();
    let canary = vec![0xEE; 20_000];
    file.write_all_at(0, &canary).expect("the write succeeds");
    let data = pattern(40);
    // One or a few bytes, at and near the borders of blocks.
    let extents =
        [(0, 1), (2, 1), (511, 2), (4095, 2), (4099, 1), (8191, 1), (8193, 40), (12_288, 1), (19_999, 1)];
    let pieces: Vec<_> = extents.iter().map(|(offset, bytes)| (*offset, &data[..*bytes])).collect();
    write(&*file, &pieces);
    let mut expected = canary;
    for (offset, bytes) in pieces {
        expected[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    assert_eq!(content(&*file), expected);
    // A read changes no neighboring bytes of memory.
    let mut memory = [0xA5; 100];
    let result = file.submit(Batch::read(vec![Transfer::into_memory(8190, &mut memory[30..60])])).wait();
    assert_eq!(result.into_result().expect("the read succeeds"), 30);
    assert!(memory[..30].iter().chain(&memory[60..]).all(|byte| *byte == 0xA5));
    assert_eq!(memory[30..60], expected[8190..8220]);
}

/// Pieces of a few bytes between bytes that must stay. They begin inside pages, and some lie behind the
/// end of the file.
fn small_pieces(subject: &Subject<'_>) {
    for (first, period, bytes, old_bytes) in [
        (0, 16, 8, 0),
        (5, 24, 8, 10_000),
        (70_001, 100, 13, 100_000),
        (4095, 2, 1, 6000),
        (130_000, 2048, 2048, 0),
    ] {
        let file = subject.create();
        let old = pattern(old_bytes);
        file.write_all_at(0, &old).expect("the write succeeds");
        let count = 500;
        let data = pattern(count * bytes);
        let pieces: Vec<_> =
            data.chunks(bytes).zip(0..).map(|(piece, index)| (first + index * period, piece)).collect();
        write(&*file, &pieces);
        let end = (first as usize + (count - 1) * period as usize + bytes).max(old_bytes);
        let mut expected = old;
        expected.resize(end, 0);
        for (at, piece) in &pieces {
            expected[*at as usize..*at as usize + bytes].copy_from_slice(piece);
        }
        assert!(content(&*file) == expected, "pieces of {bytes} bytes every {period} from {first} on");
    }
}

fn reuse(subject: &Subject<'_>) {
    let file: &dyn DriverFile = &*subject.create();
    let mut memory = pattern(64);
    let address = memory.as_mut_ptr();
    let raw = |start: usize, bytes: usize| {
        // SAFETY: `# Safety` of `Segment::from_raw`: the parts lie within `memory`, which lives until the
        // end of this function, after every batch has completed. Until then only these segments use the
        // memory, and the parts of one batch do not overlap.
        unsafe { Segment::from_raw(address.add(start), bytes) }
    };
    let mut batch = Batch::with_capacity(Direction::Write, 2);
    for round in 0..3 {
        batch.clear();
        batch.push(Transfer { offset: round * 64, memory: raw(0, 32) });
        batch.push(Transfer { offset: round * 64 + 32, memory: raw(32, 32) });
        assert!(batch.may_outlive_call());
        assert_eq!(file.submit(batch.lend()).wait().into_result().expect("the write succeeds"), 64);
    }
    let mut batch = Batch::with_capacity(Direction::Read, 1);
    batch.push(Transfer { offset: 70, memory: raw(0, 8) });
    assert_eq!(file.submit(batch).wait().into_result().expect("the read succeeds"), 8);
    let data = pattern(64);
    assert_eq!(content(file), [&data[..], &data[..], &data[..]].concat());
    assert_eq!(memory[..8], data[6..14]);
}
