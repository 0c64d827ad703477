//! The basic elements of a stream from any byte on. A stack walks the signature, which is never expanded.

use smallvec::SmallVec;

use crate::named::Prim;
use crate::signature::{Content, Signature};

/// A run of consecutive elements of one kind, in stream order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ElementRun {
    pub(crate) prim: Prim,
    /// Bytes from the start to the end of the run.
    pub(crate) bytes: u64,
    /// Bytes of the first element that lie before the run. Nonzero only for the first run of a walk that
    /// starts inside an element.
    pub(crate) torn: u64,
}

/// A list of parts that the walk repeats some number of times.
#[derive(Debug)]
struct Frame<'a> {
    parts: &'a [Signature],
    part: usize,
    /// Repetitions of the list that follow the current one.
    more: u64,
}

/// Walks the element runs of a signature. Adjacent runs of one element are joined, even where they belong
/// to different parts of the description.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    frames: SmallVec<[Frame<'a>; 4]>,
    next: Option<ElementRun>,
}

impl<'a> Elements<'a> {
    /// Starts at stream byte `position`. O(depth), and linear in the number of fields of the structs that
    /// the position lies in.
    pub(crate) fn new(signature: &'a Signature, position: u64) -> Self {
        let mut elements = Self { frames: SmallVec::new(), next: None };
        if position < signature.bytes() {
            elements.next = elements.descend(signature, position);
        }
        elements
    }

    fn descend(&mut self, mut signature: &'a Signature, mut position: u64) -> Option<ElementRun> {
        loop {
            if let Some(prim) = signature.only_element() {
                let torn = position % u64::from(prim.bytes);
                return Some(ElementRun { prim, bytes: signature.bytes() - position, torn });
            }
            let (mut n, mut list) = (1, signature);
            if let Content::Repeat(repetitions, inner) = signature.content() {
                (n, list) = (*repetitions, inner);
            }
            let Content::Sequence(parts) = list.content() else { return None };
            let more = n - 1 - position / list.bytes();
            position %= list.bytes();
            let mut part = 0;
            while position >= parts[part].bytes() {
                position -= parts[part].bytes();
                part += 1;
            }
            self.frames.push(Frame { parts, part, more });
            signature = &parts[part];
        }
    }

    /// The first run after the part that was visited last.
    fn advance(&mut self) -> Option<ElementRun> {
        loop {
            let frame = self.frames.last_mut()?;
            frame.part += 1;
            if frame.part == frame.parts.len() && frame.more > 0 {
                frame.more -= 1;
                frame.part = 0;
            }
            if let Some(signature) = frame.parts.get(frame.part) {
                return self.descend(signature, 0);
            }
            self.frames.pop();
        }
    }
}

impl Iterator for Elements<'_> {
    type Item = ElementRun;

    fn next(&mut self) -> Option<ElementRun> {
        let mut run = self.next?;
        loop {
            self.next = self.advance();
            match self.next {
                Some(more) if more.prim == run.prim => run.bytes += more.bytes,
                _ => return Some(run),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ElementRun, Elements};
    use crate::named::{Prim, PrimKind};
    use crate::signature::Signature;

    const INT: Prim = Prim::new(PrimKind::Signed, 4);
    const DOUBLE: Prim = Prim::new(PrimKind::Float, 8);

    /// `(int, double, int)` twice, then a double. Two ints join at the seam.
    fn mixed() -> Signature {
        let edge = Signature::concatenated([INT, DOUBLE, INT].map(Signature::of));
        Signature::concatenated([edge.repeated(2), Signature::of(DOUBLE)])
    }

    #[test]
    fn a_walk_can_start_at_every_byte() {
        let elements = [INT, DOUBLE, INT, INT, DOUBLE, INT, DOUBLE];
        let mut bytes: Vec<(Prim, u64)> = Vec::new();
        for prim in elements {
            bytes.extend((0..u64::from(prim.bytes)).map(|i| (prim, i)));
        }
        let signature = mixed();
        for start in 0..=bytes.len() {
            let mut found = Vec::new();
            for ElementRun { prim, bytes, torn } in Elements::new(&signature, start as u64) {
                found.extend((torn..torn + bytes).map(|i| (prim, i % u64::from(prim.bytes))));
            }
            assert_eq!(found, bytes[start..]);
        }
    }

    #[test]
    fn adjacent_runs_join_without_expansion() {
        let runs: Vec<(Prim, u64)> = Elements::new(&mixed(), 0).map(|run| (run.prim, run.bytes)).collect();
        let expected = [(INT, 4), (DOUBLE, 8), (INT, 8), (DOUBLE, 8), (INT, 4), (DOUBLE, 8)];
        assert_eq!(runs, expected);
        let huge = Signature::of(DOUBLE).repeated(1 << 50);
        let run = ElementRun { prim: DOUBLE, bytes: (1 << 53) - 3, torn: 3 };
        assert_eq!(Elements::new(&huge, 3).collect::<Vec<_>>(), [run]);
    }
}
