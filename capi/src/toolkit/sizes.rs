//! Stream positions in element sizes of the caller (`sizefn`).
//!
//! A leaf function that converts may write more or fewer bytes than it reads. With a `sizefn`, positions
//! count the bytes that the leaf function writes. Such a position must lie between elements. It is
//! converted to a position of the stream by a walk over the signature of one instance. The walk takes time
//! proportional to the number of runs of equal elements in the signature.

use std::ops::ControlFlow;

use capulet_datatype::{Datatype, Prim};

use crate::abi::{Aint, MPI_Datatype};
use crate::failure::Failure;
use crate::toolkit::arguments::wrong;
use crate::toolkit::leaves::Elements;

/// `MPIT_Size_function`
pub(super) type SizeFunction = unsafe extern "C" fn(MPI_Datatype) -> Aint;

/// The element sizes of the caller for a stream of `count` instances.
pub(super) struct Sizes {
    datatype: Datatype,
    count: u64,
    /// The caller's size of each kind of element, in bytes.
    known: Vec<(Prim, u64)>,
    /// The size of one instance in bytes, in the caller's sizes.
    instance: u64,
}

/// The element sizes in which a position is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// The sizes of the elements in memory.
    Stream,
    /// The caller's sizes.
    Own,
}

fn too_large() -> Failure {
    wrong("the sum of the element sizes is too large")
}

impl Sizes {
    /// Queries the caller's size of each kind of element of a type.
    pub(super) fn ask(
        datatype: &Datatype,
        count: u64,
        mut size_of: impl FnMut(Prim) -> Aint,
    ) -> Result<Self, Failure> {
        let (mut known, mut instance): (Vec<(Prim, u64)>, _) = (Vec::new(), 0_u64);
        let flow = datatype.signature().for_each_run(|prim, elements| {
            let bytes = match known.iter().find(|(other, _)| *other == prim) {
                Some((_, bytes)) => *bytes,
                None => match u64::try_from(size_of(prim)) {
                    Ok(bytes) if bytes > 0 => {
                        known.push((prim, bytes));
                        bytes
                    }
                    _ => return ControlFlow::Break(wrong("the size of an element is not positive")),
                },
            };
            match elements.checked_mul(bytes).and_then(|bytes| instance.checked_add(bytes)) {
                Some(sum) => {
                    instance = sum;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(too_large()),
            }
        });
        if let ControlFlow::Break(failure) = flow {
            return Err(failure);
        }
        let all = instance.checked_mul(count).filter(|bytes| i64::try_from(*bytes).is_ok());
        all.ok_or_else(too_large)?;
        Ok(Sizes { datatype: datatype.clone(), count, known, instance })
    }

    /// The length of the stream, in the caller's sizes.
    pub(super) fn size(&self) -> u64 {
        self.instance * self.count
    }

    fn bytes_of(&self, prim: Prim, measure: Measure) -> u64 {
        let own = || self.known.iter().find(|(other, _)| *other == prim).map_or(1, |(_, bytes)| *bytes);
        if measure == Measure::Stream { u64::from(prim.bytes) } else { own() }
    }

    /// Converts a position from one measure to the other. The position must lie between elements, and not
    /// beyond the end of the stream.
    pub(super) fn convert(&self, position: u64, from: Measure) -> Result<u64, Failure> {
        let stream = self.datatype.size();
        let (instance, other_instance, to) = match from {
            Measure::Stream => (stream, self.instance, Measure::Own),
            Measure::Own => (self.instance, stream, Measure::Stream),
        };
        if instance == 0 {
            return Ok(0);
        }
        let (mut left, mut converted) = (position % instance, position / instance * other_instance);
        let flow = self.datatype.signature().for_each_run(|prim, elements| {
            let (bytes, other) = (self.bytes_of(prim, from), self.bytes_of(prim, to));
            let here = (left / bytes).min(elements);
            left -= here * bytes;
            converted += here * other;
            if here == elements && left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        debug_assert!(flow.is_break(), "the remainder is smaller than an instance");
        if left > 0 {
            return Err(wrong(format!("position {position} is inside of an element")));
        }
        Ok(converted)
    }
}

/// Adapts the caller's size function to a function of kinds of elements.
pub(super) fn asking(function: SizeFunction, elements: &mut Elements) -> impl FnMut(Prim) -> Aint + use<'_> {
    move |prim| {
        let element = elements.of(prim);
        // SAFETY: capulet_types.h: `function` is an MPIT_Size_function of the caller, and takes a
        // predefined datatype.
        let bytes = unsafe { function(element.handle) };
        // If this MPI has no type for the kind of element, `element` is a byte, of which there are several
        // per element.
        bytes.saturating_mul(prim.bytes as Aint / element.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capulet_datatype::Named;

    /// Two ints and one double, 16 bytes. The caller's sizes double the ints and halve the double.
    fn sizes(count: u64) -> Sizes {
        let types = [Datatype::named(Named::Int), Datatype::named(Named::Double)];
        let both = Datatype::structure(&[2, 1], &[0, 8], &types).expect("valid");
        Sizes::ask(&both, count, |prim| if prim.bytes == 4 { 8 } else { 4 }).expect("positive")
    }

    #[test]
    fn positions_between_elements_convert_in_both_directions() {
        let sizes = sizes(3);
        assert_eq!(sizes.size(), 60);
        for (stream, own) in [(0, 0), (4, 8), (8, 16), (16, 20), (20, 28), (24, 36), (32, 40), (48, 60)] {
            assert_eq!(sizes.convert(own, Measure::Own).ok(), Some(stream), "{own}");
            assert_eq!(sizes.convert(stream, Measure::Stream).ok(), Some(own), "{stream}");
        }
    }

    #[test]
    fn positions_inside_of_elements_and_invalid_sizes_are_refused() {
        for inside in [1, 7, 17, 19, 21] {
            assert!(sizes(3).convert(inside, Measure::Own).is_err(), "{inside}");
        }
        let int = Datatype::named(Named::Int);
        for size in [0, -1] {
            assert!(Sizes::ask(&int, 1, |_| size).is_err());
        }
        assert!(Sizes::ask(&int, 3, |_| Aint::MAX / 2).is_err());
    }
}
