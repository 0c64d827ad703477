//! The conversion of each element of a type: a type signature whose elements are conversions.
//!
//! A script is as large as the description of the type. A visit can start at any element in O(depth + log
//! n).

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The index of a conversion in the list of the translation.
pub(super) type Step = u8;

/// Sizes in bytes on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Both {
    /// Bytes in the stream of the memory layout.
    pub(super) memory: u64,
    /// Bytes in the packed form.
    pub(super) packed: u64,
}

impl Both {
    pub(super) fn times(self, n: u64) -> Self {
        Self { memory: self.memory * n, packed: self.packed * n }
    }

    fn plus(self, more: Self) -> Self {
        Self { memory: self.memory + more.memory, packed: self.packed + more.packed }
    }
}

/// A sequence of conversions. In `external32` no element is larger than in memory, so no number here
/// overflows if the size of the type did not. The types of netCDF may be larger than in memory; for netCDF
/// only runs are made, and their caller checks the size first.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) elements: u64,
    pub(super) bytes: Both,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Empty,
    /// Consecutive elements with the same conversion.
    Run(Step),
    Repeat(u64, Arc<Script>),
    Sequence(Arc<Sequence>),
}

#[derive(Debug)]
struct Sequence {
    parts: Box<[Script]>,
    /// First element and first bytes of each part.
    starts: Box<[(u64, Both)]>,
}

impl Script {
    pub(super) fn empty() -> Self {
        Self { elements: 0, bytes: Both::default(), content: Content::Empty }
    }

    /// `elements` elements of `each` bytes. The caller has checked that the bytes fit.
    pub(super) fn run(step: Step, elements: u64, each: Both) -> Self {
        if elements == 0 {
            return Self::empty();
        }
        Self { elements, bytes: each.times(elements), content: Content::Run(step) }
    }

    pub(super) fn repeated(&self, n: u64) -> Self {
        if n == 0 || self.elements == 0 {
            return Self::empty();
        }
        let content = match &self.content {
            _ if n == 1 => self.content.clone(),
            Content::Run(step) => Content::Run(*step),
            Content::Repeat(inner_n, inner) => Content::Repeat(inner_n * n, Arc::clone(inner)),
            _ => Content::Repeat(n, Arc::new(self.clone())),
        };
        Self { elements: self.elements * n, bytes: self.bytes.times(n), content }
    }

    pub(super) fn concatenated(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts.into_iter().filter(|part| part.elements > 0) {
            match kept.last_mut() {
                Some(last) if last.only_step().is_some() && last.only_step() == part.only_step() => {
                    last.elements += part.elements;
                    last.bytes = last.bytes.plus(part.bytes);
                }
                _ => kept.push(part),
            }
        }
        if kept.len() < 2 {
            return kept.pop().unwrap_or_else(Self::empty);
        }
        let (mut elements, mut bytes) = (0, Both::default());
        let mut starts = Vec::with_capacity(kept.len());
        for part in &kept {
            starts.push((elements, bytes));
            elements += part.elements;
            bytes = bytes.plus(part.bytes);
        }
        let sequence = Sequence { parts: kept.into(), starts: starts.into() };
        Self { elements, bytes, content: Content::Sequence(Arc::new(sequence)) }
    }

    /// The conversion that all elements take, if there is only one.
    pub(super) fn only_step(&self) -> Option<Step> {
        match self.content {
            Content::Run(step) => Some(step),
            _ => None,
        }
    }

    /// The bytes before an element; the bytes of the whole script if `element` is the end. O(depth + log
    /// n).
    pub(super) fn bytes_before(&self, element: u64) -> Both {
        let (mut script, mut element, mut before) = (self, element, Both::default());
        loop {
            if element == 0 || script.elements == 0 {
                return before;
            }
            match &script.content {
                Content::Empty => return before,
                Content::Run(_) => {
                    let each = Both {
                        memory: script.bytes.memory / script.elements,
                        packed: script.bytes.packed / script.elements,
                    };
                    return before.plus(each.times(element));
                }
                Content::Repeat(_, inner) => {
                    before = before.plus(inner.bytes.times(element / inner.elements));
                    element %= inner.elements;
                    script = inner;
                }
                Content::Sequence(sequence) => {
                    let part = sequence.part_of(element - 1);
                    let (first, bytes) = sequence.starts[part];
                    before = before.plus(bytes);
                    element -= first;
                    script = &sequence.parts[part];
                }
            }
        }
    }

    /// Visits the runs `(step, elements)` of a range of elements, in order.
    pub(super) fn for_each_run<B>(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(Step, u64) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if range.is_empty() {
            return ControlFlow::Continue(());
        }
        match &self.content {
            Content::Empty => ControlFlow::Continue(()),
            Content::Run(step) => visit(*step, range.end - range.start),
            Content::Repeat(_, inner) => {
                let each = inner.elements;
                let (first, last) = (range.start / each, (range.end - 1) / each);
                for i in first..=last {
                    let start = range.start.saturating_sub(i * each);
                    inner.for_each_run(start..(range.end - i * each).min(each), visit)?;
                }
                ControlFlow::Continue(())
            }
            Content::Sequence(sequence) => {
                let first = sequence.part_of(range.start);
                for (part, &(at, _)) in sequence.parts.iter().zip(&sequence.starts).skip(first) {
                    if at >= range.end {
                        break;
                    }
                    let start = range.start.saturating_sub(at);
                    part.for_each_run(start..(range.end - at).min(part.elements), visit)?;
                }
                ControlFlow::Continue(())
            }
        }
    }
}

impl Sequence {
    /// The part that holds an element.
    fn part_of(&self, element: u64) -> usize {
        self.starts.partition_point(|&(first, _)| first <= element) - 1
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::{Both, Script};

    const EACH: [Both; 2] = [Both { memory: 4, packed: 4 }, Both { memory: 8, packed: 4 }];

    /// `(0, 1, 0)` twice, then 1 twice: the conversions of 8 elements.
    fn mixed() -> (Script, Vec<usize>) {
        let one = |step: u8| Script::run(step, 1, EACH[usize::from(step)]);
        let edge = Script::concatenated([one(0), one(1), one(0)]);
        let script = Script::concatenated([edge.repeated(2), one(1).repeated(2)]);
        (script, vec![0, 1, 0, 0, 1, 0, 1, 1])
    }

    #[test]
    fn sizes_and_runs_are_right_for_every_range() {
        let (script, steps) = mixed();
        assert_eq!((script.elements, script.bytes), (8, Both { memory: 48, packed: 32 }));
        let before = |n: usize| steps[..n].iter().fold(Both::default(), |sum, &step| sum.plus(EACH[step]));
        for start in 0..=8 {
            assert_eq!(script.bytes_before(start as u64), before(start));
            for end in start..=8 {
                let mut found = Vec::new();
                let _ = script.for_each_run(start as u64..end as u64, &mut |step, n| {
                    found.extend(std::iter::repeat_n(usize::from(step), n as usize));
                    ControlFlow::<()>::Continue(())
                });
                assert_eq!(found, steps[start..end]);
            }
        }
    }

    #[test]
    fn equal_elements_join_into_one_run() {
        let run = Script::run(1, 3, EACH[1]);
        let joined = Script::concatenated([run.clone(), Script::empty(), run.repeated(1 << 40)]);
        assert_eq!(joined.only_step(), Some(1));
        assert_eq!(joined.elements, 3 + (3 << 40));
        assert_eq!(joined.bytes_before(1 << 40).memory, 8 << 40);
        assert_eq!(mixed().0.only_step(), None);
        assert_eq!(Script::empty().repeated(9).elements, 0);
    }
}
