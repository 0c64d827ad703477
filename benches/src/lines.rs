//! The least work of any program that moves the data: touch every cache line that holds data once, in the
//! order of the addresses, and touch every line of the image once.
//!
//! No element is moved, so this is not a way to pack. No way to pack is expected to be faster, so the
//! comparison shows whether a row that is not faster than an MPI could be.

use std::hint::black_box;
use std::ops::{ControlFlow, Range};

use capulet_datatype::{Cursor, Tiled};

use crate::hand::natively;
use crate::stage::LINE_BYTES;

/// The unit in which data is touched in a line: 4 bytes.
type Word = u32;

const LINE_WORDS: usize = LINE_BYTES / size_of::<Word>();

type Line = [u64; LINE_BYTES / size_of::<u64>()];

/// The line that is stored. It holds doubles, because other rows of the case encode the contents.
const STORED: Line = [1.5_f64.to_bits(); 8];

/// Lines at a stride. Line `i` has data at the word `first + i * step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progression {
    first: usize,
    step: usize,
    count: usize,
    /// The lines hold nothing but data, and they follow each other.
    full: bool,
}

/// The lines of a type in memory that begins at a line.
#[derive(Debug)]
pub(crate) struct Lines {
    order: Order,
    count: usize,
}

/// The lines in the order of their addresses, in few bytes, because reading the description should cost
/// almost nothing.
#[derive(Debug)]
enum Order {
    Progressions(Vec<Progression>),
    /// One word with data of each line.
    List(Vec<u32>),
}

/// Below this mean length, progressions cost more than a list.
const PROGRESSION_MIN: usize = 4;
/// Lines of a list that are touched between two accesses to the image.
const BATCH_LINES: usize = 16;

/// A line that holds data: its first word of data, and its number of bytes of data.
#[derive(Debug, Clone, Copy)]
struct Found {
    word: usize,
    bytes: usize,
}

impl Lines {
    /// The lines of `tiled`, whose offset 0 lies `origin` bytes behind the begin of a line.
    pub(crate) fn new(tiled: &Tiled, origin: usize) -> Self {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut cursor = Cursor::new(tiled.clone());
        let _ = cursor.for_each_run::<()>(tiled.size(), |run| {
            let start = origin + run.offset as usize;
            runs.push(start..start + run.len as usize);
            ControlFlow::Continue(())
        });
        runs.sort_unstable_by_key(|run| run.start);
        let mut found: Vec<Found> = Vec::new();
        for run in runs {
            let mut at = run.start;
            while at < run.end {
                let end = run.end.min((at / LINE_BYTES + 1) * LINE_BYTES);
                let word = at / size_of::<Word>();
                match found.last_mut() {
                    Some(last) if last.word / LINE_WORDS == word / LINE_WORDS => last.bytes += end - at,
                    _ => found.push(Found { word, bytes: end - at }),
                }
                at = end;
            }
        }
        let parts = progressions(&found);
        let order = if PROGRESSION_MIN * parts.len() <= found.len() {
            Order::Progressions(parts)
        } else {
            Order::List(found.iter().map(|line| line.word as u32).collect())
        };
        Self { count: found.len(), order }
    }

    /// Reads the lines of the memory, and writes those of the image.
    pub(crate) fn pack(&self, memory: &[u8], image: &mut [u8]) {
        let words: &[Word] = bytemuck::cast_slice(memory);
        let image: &mut [Line] = lines_mut(image);
        let mut pace = Pace::new(image.len(), self.count);
        let mut seen: Word = 0;
        match &self.order {
            Order::Progressions(parts) => {
                for part in parts {
                    let stored = &mut image[pace.after(part.count)];
                    if part.full {
                        seen ^= copied(lines(&words[part.first..]), part.count, stored);
                    } else {
                        seen =
                            (0..part.count).fold(seen, |seen, at| seen ^ words[part.first + at * part.step]);
                        natively(|| stored.fill(STORED));
                    }
                }
            }
            Order::List(places) => {
                for batch in places.chunks(BATCH_LINES) {
                    seen = batch.iter().fold(seen, |seen, at| seen ^ words[*at as usize]);
                    natively(|| image[pace.after(batch.len())].fill(STORED));
                }
            }
        }
        black_box(seen);
    }

    /// Writes the lines of the memory, and reads those of the image.
    pub(crate) fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        let words: &mut [Word] = bytemuck::cast_slice_mut(memory);
        let image: &[Line] = lines(image);
        let mut pace = Pace::new(image.len(), self.count);
        let mut seen: Word = 0;
        match &self.order {
            Order::Progressions(parts) => {
                for part in parts {
                    let read = &image[pace.after(part.count)];
                    if part.full {
                        let to: &mut [Line] = lines_mut(&mut words[part.first..]);
                        seen ^= copied(read, read.len(), &mut to[..part.count]);
                    } else {
                        seen ^= looked_at(read);
                        for at in 0..part.count {
                            words[part.first + at * part.step] = 0;
                        }
                    }
                }
            }
            Order::List(places) => {
                for batch in places.chunks(BATCH_LINES) {
                    seen ^= looked_at(&image[pace.after(batch.len())]);
                    for at in batch {
                        words[*at as usize] = 0;
                    }
                }
            }
        }
        black_box(seen);
    }
}

/// Reads one word of each line.
fn looked_at(lines: &[Line]) -> Word {
    lines.iter().fold(0, |seen, line| seen ^ line[0] as Word)
}

fn lines<T: bytemuck::Pod>(values: &[T]) -> &[Line] {
    let whole = size_of_val(values) / LINE_BYTES * LINE_BYTES / size_of::<T>();
    bytemuck::cast_slice(&values[..whole])
}

fn lines_mut<T: bytemuck::Pod>(values: &mut [T]) -> &mut [Line] {
    let whole = size_of_val(values) / LINE_BYTES * LINE_BYTES / size_of::<T>();
    bytemuck::cast_slice_mut(&mut values[..whole])
}

/// Reads `count` lines and writes all lines of `to`. Lines that both have are copied.
fn copied(from: &[Line], count: usize, to: &mut [Line]) -> Word {
    let both = count.min(to.len());
    let (copy, rest) = to.split_at_mut(both);
    copy.copy_from_slice(&from[..both]);
    natively(|| rest.fill(STORED));
    looked_at(&from[both..count])
}

/// Distributes the lines of the image evenly over the lines of the memory.
#[derive(Debug)]
struct Pace {
    image_lines: usize,
    memory_lines: usize,
    touched: usize,
    done: usize,
}

impl Pace {
    fn new(image_lines: usize, memory_lines: usize) -> Self {
        Self { image_lines, memory_lines, touched: 0, done: 0 }
    }

    fn after(&mut self, lines: usize) -> Range<usize> {
        self.touched += lines;
        let start = self.done;
        self.done = self.touched * self.image_lines / self.memory_lines;
        start..self.done
    }
}

/// Splits the lines into progressions, each as long as possible, from the first line on.
fn progressions(found: &[Found]) -> Vec<Progression> {
    let mut parts: Vec<Progression> = Vec::new();
    for (at, line) in found.iter().enumerate() {
        let full = line.bytes == LINE_BYTES;
        let before = at.checked_sub(1).map(|before| found[before].word);
        if let (Some(last), Some(before)) = (parts.last_mut(), before) {
            let step = line.word - before;
            let fits = last.full == full && (last.count == 1 || last.step == step);
            if fits && (!full || step == LINE_WORDS) {
                last.step = step;
                last.count += 1;
                continue;
            }
        }
        parts.push(Progression { first: line.word, step: LINE_WORDS, count: 1, full });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;
    use crate::stage::Buffer;

    fn tiled(spec: &Spec) -> Tiled {
        Tiled::new(spec.native().expect("the type is valid").layout().clone(), 1)
            .expect("the tiling is valid")
    }

    #[test]
    fn every_line_with_data_and_no_gap_is_touched() {
        let places: Vec<i64> = (0..40).map(|i| i * i + 100).rev().collect();
        for (spec, count, listed) in [
            // 8 bytes at 0, 24, 48, 72: three in the first line and one in the second.
            (Spec::double().vector(4, 1, 3), 2, true),
            (Spec::double().vector(20, 1, 24), 20, false),
            (Spec::double().contiguous(65), 9, false),
            // Squares: each difference another, the first ones in one line.
            (Spec::double().indexed(vec![1; 40], places), 38, true),
        ] {
            let tiled = tiled(&spec);
            let lines = Lines::new(&tiled, 0);
            assert_eq!((lines.count, matches!(lines.order, Order::List(_))), (count, listed), "{spec:?}");
            let mut image = Buffer::filled(tiled.size() as usize, 1);
            let memory_bytes = (tiled.true_ub() as usize).next_multiple_of(LINE_BYTES);
            let mut memory = Buffer::filled(memory_bytes, 0xA5);
            lines.unpack(image.as_ref(), memory.as_mut());
            let mut touched = Buffer::filled(memory_bytes, 0);
            let ones = vec![1; tiled.size() as usize];
            capulet_datatype::unpack(&tiled, &ones, 0..tiled.size(), touched.as_mut())
                .expect("the image holds the data");
            let mut changed: Vec<usize> = Vec::new();
            for (at, (new, data)) in memory.as_ref().iter().zip(touched.as_ref()).enumerate() {
                assert!(*new == 0xA5 || *data == 1, "{spec:?}: byte {at} lies in a gap and was written");
                if *new != 0xA5 {
                    changed.push(at / LINE_BYTES);
                }
            }
            changed.dedup();
            assert_eq!(changed.len(), count, "{spec:?}");
            image.as_mut().fill(0xEE);
            lines.pack(memory.as_ref(), image.as_mut());
            let whole = image.as_ref().len() / LINE_BYTES * LINE_BYTES;
            assert!(image.as_ref()[..whole].iter().all(|byte| *byte != 0xEE), "{spec:?}");
        }
    }
}
