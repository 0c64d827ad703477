//! Checks of the caller's arguments. An invalid type is `MPI_ERR_TYPE`. Any other invalid argument is
//! `MPI_ERR_ARG`.

use std::ffi::c_void;
use std::ops::Range;

use capulet_comm::{Error, ErrorClass, MpiType};
use capulet_datatype::{Datatype, Named, Tiled, TypeError};

use crate::abi::{Count, MPI_Datatype};
use crate::convert::is_null_page;
use crate::failure::{Failure, failure};

/// The failure for an invalid argument.
pub(super) fn wrong(what: impl Into<String>) -> Failure {
    failure(ErrorClass::Arg, what)
}

/// The failure of a function that processed less than the requested range.
pub(super) fn incomplete(what: &str) -> Failure {
    failure(ErrorClass::Other, format!("the range is only partly processed: {what}"))
}

/// The description of an initialized type.
pub(super) fn initialized(datatype: MPI_Datatype) -> Result<Datatype, Failure> {
    // SAFETY: `# Safety` of `MpiType::known_datatype_of`: capulet_types.h requires that the caller passes a
    // valid datatype or MPI_DATATYPE_NULL.
    match unsafe { MpiType::known_datatype_of(datatype) }? {
        Some(known) => Ok(known),
        None => Err(failure(ErrorClass::Type, "the datatype is not initialized: call MPIT_Type_init")),
    }
}

/// `count` elements of an initialized type.
pub(super) fn elements(count: Count, datatype: MPI_Datatype) -> Result<Tiled, Failure> {
    let described = initialized(datatype)?;
    let count = u64::try_from(count).map_err(|_| wrong(format!("the count {count} is negative")))?;
    tiled(&described, count)
}

/// `count` elements of a type. Fails if their offsets exceed 64 bits.
pub(super) fn tiled(datatype: &Datatype, count: u64) -> Result<Tiled, Failure> {
    Tiled::new(datatype.layout().clone(), count).map_err(|error| wrong(error.to_string()))
}

/// `count` consecutive bytes.
pub(super) fn bytes(count: u64) -> Result<Tiled, Failure> {
    tiled(&Datatype::named(Named::Byte), count)
}

/// The failure for an error of the datatype engine.
pub(super) fn engine(error: TypeError) -> Failure {
    Error::from(error).into()
}

/// A requested range, cut to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The part of the requested range that lies in the stream.
    pub(super) range: Range<u64>,
    /// Whether the stream contains the whole requested range.
    whole: bool,
}

impl Part {
    /// The range `start..end` of a stream of `size` bytes.
    pub(super) fn of(size: u64, start: i64, end: i64) -> Result<Self, Failure> {
        match (u64::try_from(start), u64::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end => {
                let range = start.min(size)..end.min(size);
                Ok(Part { range, whole: end <= size })
            }
            _ => Err(wrong(format!("the range {start}..{end} is invalid"))),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Fails if the stream ends before the requested range.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        if self.whole { Ok(()) } else { Err(incomplete("the stream ends before the range")) }
    }
}

/// Refuses a buffer whose data would begin in the first page, such as a null pointer with an ordinary type.
pub(super) fn buffer(base: *const c_void, elements: &Tiled, bytes: u64) -> Result<(), Failure> {
    if bytes > 0 && is_null_page(base.addr() as i128 + i128::from(elements.true_lb())) {
        return Err(wrong("a null pointer for a buffer"));
    }
    Ok(())
}

/// Refuses a null pointer.
pub(super) fn not_null<T>(pointer: *const T, what: &str) -> Result<(), Failure> {
    if pointer.is_null() { Err(wrong(format!("a null pointer for {what}"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_stream_and_reversed_ranges_are_refused() {
        let part =
            |start, end| Part::of(10, start, end).map(|part| (part.range.clone(), part.finish().is_ok()));
        assert_eq!(part(2, 10).ok(), Some((2..10, true)));
        assert_eq!(part(10, 10).ok(), Some((10..10, true)));
        assert_eq!(part(2, 11).ok(), Some((2..10, false)));
        assert_eq!(part(20, i64::MAX).ok(), Some((10..10, false)));
        for (start, end) in [(-1, 4), (4, 3), (i64::MIN, -1)] {
            assert_eq!(part(start, end).expect_err("an invalid range is refused").class(), ErrorClass::Arg);
        }
    }

    #[test]
    fn null_buffer_is_refused_unless_it_has_no_data() {
        let bytes = |count| bytes(count).expect("few bytes");
        assert!(buffer(std::ptr::null(), &bytes(4), 4).is_err());
        assert!(buffer(std::ptr::null(), &bytes(4), 0).is_ok());
        assert!(buffer(4096 as *const c_void, &bytes(4), 4).is_ok());
    }
}
