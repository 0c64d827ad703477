//! Type signatures: the sequence of basic elements without the displacements (MPI 4.1, sections 3.3.1 and
//! 5.1).
//!
//! A signature is kept as nested repetitions and is at most as large as the description of its type. Two
//! signatures are compared by a fingerprint of the *sequence*, so that 10^8 elements are compared in
//! O(1), however each side was described. The fingerprint is a polynomial hash modulo 2^61 - 1 under two
//! bases: two different sequences count as equal with a probability of about 2^-120. Concatenation and
//! repetition of signatures are arithmetic on the fingerprint.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::named::Prim;

const MODULUS: u64 = (1 << 61) - 1;
const BASES: [u64; 2] = [0x0b4e_93d7_1f20_65c9, 0x16a0_4f35_c2e8_917d];

fn multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    let folded = (product as u64 & MODULUS) + (product >> 61) as u64;
    if folded >= MODULUS { folded - MODULUS } else { folded }
}

fn add(left: u64, right: u64) -> u64 {
    let sum = left + right;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

/// Computes `(base^n, 1 + base + ... + base^(n-1))` modulo 2^61 - 1 in O(log n) steps.
fn power_and_sum(base: u64, n: u64) -> (u64, u64) {
    let (mut power, mut sum) = (1, 0);
    for bit in (0..u64::BITS - n.leading_zeros()).rev() {
        sum = add(multiply(sum, power), sum);
        power = multiply(power, power);
        if n >> bit & 1 == 1 {
            sum = add(multiply(sum, base), 1);
            power = multiply(power, base);
        }
    }
    (power, sum)
}

/// Hash and weight of a sequence under one base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lane {
    hash: u64,
    /// The base to the power of the number of elements.
    weight: u64,
}

impl Lane {
    const EMPTY: Self = Self { hash: 0, weight: 1 };

    fn then(self, next: Self) -> Self {
        Self {
            hash: add(multiply(self.hash, next.weight), next.hash),
            weight: multiply(self.weight, next.weight),
        }
    }

    fn repeated(self, n: u64) -> Self {
        let (weight, sum) = power_and_sum(self.weight, n);
        Self { hash: multiply(self.hash, sum), weight }
    }
}

/// The structure of a signature. The inside of a repetition is not a repetition itself, and no inner
/// signature is empty.
#[derive(Clone)]
pub(crate) enum Content {
    Empty,
    Element(Prim),
    Repeat(u64, Arc<Signature>),
    Sequence(Arc<[Signature]>),
}

/// The sequence of basic elements of a type, by representation: `MPI_INT` and `MPI_INT32_T` are the same
/// element where they have the same size.
#[derive(Clone)]
pub struct Signature {
    elements: u64,
    bytes: u64,
    lanes: [Lane; 2],
    content: Content,
}

/// Prints the values that determine equality. The elements are not printed, because parts are shared: the
/// printed sequence can be exponentially longer than the description.
impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elements, bytes, lanes, .. } = self;
        let mut signature = f.debug_struct("Signature");
        signature.field("elements", elements).field("bytes", bytes).field("only", &self.only_element());
        signature.field("lanes", lanes).finish()
    }
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.elements == other.elements && self.bytes == other.bytes && self.lanes == other.lanes
    }
}

impl Eq for Signature {}

impl Signature {
    /// The signature without elements.
    pub fn empty() -> Self {
        Self { elements: 0, bytes: 0, lanes: [Lane::EMPTY; 2], content: Content::Empty }
    }

    /// The signature of one element.
    pub fn of(prim: Prim) -> Self {
        if prim.bytes == 0 {
            return Self::empty();
        }
        let code = (u64::from(prim.bytes) << 8 | prim.kind as u64) + 1;
        let lanes = BASES.map(|base| Lane { hash: code, weight: base });
        Self { elements: 1, bytes: u64::from(prim.bytes), lanes, content: Content::Element(prim) }
    }

    /// The signature repeated `n` times. The caller has checked that the bytes fit.
    pub(crate) fn repeated(&self, n: u64) -> Self {
        if n == 0 || self.elements == 0 {
            return Self::empty();
        }
        if n == 1 {
            return self.clone();
        }
        let content = match &self.content {
            Content::Repeat(inner_n, inner) => Content::Repeat(inner_n * n, Arc::clone(inner)),
            _ => Content::Repeat(n, Arc::new(self.clone())),
        };
        let lanes = self.lanes.map(|lane| lane.repeated(n));
        Self { elements: self.elements * n, bytes: self.bytes * n, lanes, content }
    }

    /// The concatenation of the signatures. The caller has checked that the bytes fit.
    pub(crate) fn concatenated(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        let mut whole = Self::empty();
        for part in parts.into_iter().filter(|part| part.elements > 0) {
            whole.elements += part.elements;
            whole.bytes += part.bytes;
            for (lane, next) in whole.lanes.iter_mut().zip(part.lanes) {
                *lane = lane.then(next);
            }
            match kept.last_mut() {
                Some(last) if last.joins(&part) => *last = last.joined(&part),
                _ => kept.push(part),
            }
        }
        if kept.len() == 1 {
            return kept.swap_remove(0);
        }
        if !kept.is_empty() {
            whole.content = Content::Sequence(kept.into());
        }
        whole
    }

    /// The single element whose repetition is the whole signature, if there is one.
    pub(crate) fn only_element(&self) -> Option<Prim> {
        match &self.content {
            Content::Element(prim) => Some(*prim),
            Content::Repeat(_, inner) => inner.only_element(),
            Content::Empty | Content::Sequence(_) => None,
        }
    }

    /// Numbers that are the same for equal signatures and differ for different ones.
    pub(crate) fn fingerprint(&self) -> [u64; 4] {
        [self.elements, self.bytes, self.lanes[0].hash, self.lanes[1].hash]
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    fn joins(&self, next: &Self) -> bool {
        self.only_element().is_some_and(|prim| next.only_element() == Some(prim))
    }

    fn joined(&self, next: &Self) -> Self {
        match self.only_element() {
            Some(prim) => Self::of(prim).repeated(self.elements + next.elements),
            None => self.clone(),
        }
    }

    /// Number of basic elements.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Bytes of all elements: the size of the type.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of repetitions of `unit` that make up this signature; `None` if no whole number does.
    /// O(log n).
    pub fn repetitions_of(&self, unit: &Self) -> Option<u64> {
        if self.elements == 0 {
            return Some(0);
        }
        if unit.elements == 0 || !self.elements.is_multiple_of(unit.elements) {
            return None;
        }
        let n = self.elements / unit.elements;
        let same = unit.bytes.checked_mul(n) == Some(self.bytes)
            && self.lanes.iter().zip(unit.lanes).all(|(lane, other)| *lane == other.repeated(n));
        same.then_some(n)
    }

    /// Visits the elements as runs `(element, count)`. Adjacent runs of one element are joined. The visit
    /// stops when `visit` breaks. Nothing is allocated, whatever the number of elements.
    pub fn for_each_run<B>(&self, mut visit: impl FnMut(Prim, u64) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut pending: Option<(Prim, u64)> = None;
        self.walk(&mut |prim, count| match &mut pending {
            Some((last, total)) if *last == prim => {
                *total += count;
                ControlFlow::Continue(())
            }
            _ => match pending.replace((prim, count)) {
                Some((last, total)) => visit(last, total),
                None => ControlFlow::Continue(()),
            },
        })?;
        match pending {
            Some((last, total)) => visit(last, total),
            None => ControlFlow::Continue(()),
        }
    }

    fn walk<B>(&self, visit: &mut dyn FnMut(Prim, u64) -> ControlFlow<B>) -> ControlFlow<B> {
        if let Some(prim) = self.only_element() {
            return visit(prim, self.elements);
        }
        match &self.content {
            Content::Empty | Content::Element(_) => {}
            Content::Repeat(n, inner) => (0..*n).try_for_each(|_| inner.walk(visit))?,
            Content::Sequence(parts) => parts.iter().try_for_each(|part| part.walk(visit))?,
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::Signature;
    use crate::named::{Prim, PrimKind};
    use std::ops::ControlFlow;

    const INT: Prim = Prim::new(PrimKind::Signed, 4);
    const DOUBLE: Prim = Prim::new(PrimKind::Float, 8);

    fn runs(signature: &Signature) -> Vec<(Prim, u64)> {
        let mut runs = Vec::new();
        let _ = signature.for_each_run(|prim, count| {
            runs.push((prim, count));
            ControlFlow::<()>::Continue(())
        });
        runs
    }

    #[test]
    fn equality_does_not_depend_on_the_description() {
        let int = Signature::of(INT);
        let double = Signature::of(DOUBLE);
        let pair = Signature::concatenated([int.clone(), double.clone()]);
        let two = pair.repeated(2);
        let flat = Signature::concatenated([int.clone(), double.clone(), int.clone(), double.clone()]);
        assert_eq!(two, flat);
        assert_ne!(two, Signature::concatenated([int.repeated(2), double.repeated(2)]));
        assert_eq!(int.repeated(6), Signature::concatenated([int.repeated(2), int.repeated(4)]));
    }

    #[test]
    fn repetitions_are_found_without_expansion() {
        let pair = Signature::concatenated([Signature::of(INT), Signature::of(DOUBLE)]);
        let many = pair.repeated(1 << 40);
        assert_eq!(many.repetitions_of(&pair), Some(1 << 40));
        assert_eq!(many.repetitions_of(&pair.repeated(1 << 20)), Some(1 << 20));
        assert_eq!(many.repetitions_of(&pair.repeated(3)), None);
        assert_eq!(many.repetitions_of(&Signature::of(INT)), None);
        assert_eq!(Signature::empty().repetitions_of(&pair), Some(0));
        assert_eq!(pair.repetitions_of(&Signature::empty()), None);
    }

    #[test]
    fn runs_join_across_repetitions() {
        let edge = Signature::concatenated([Signature::of(INT), Signature::of(DOUBLE), Signature::of(INT)]);
        assert_eq!(runs(&edge.repeated(2)), [(INT, 1), (DOUBLE, 1), (INT, 2), (DOUBLE, 1), (INT, 1)]);
    }
}
