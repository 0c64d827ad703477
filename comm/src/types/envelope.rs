//! Queries of a datatype: envelope and bounds. `contents` says when the functions with large counts are used.

use std::ffi::c_int;

use capulet_datatype::{Datatype, TypeError};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::ffi;

/// How a type was made (MPI-4.0 section 5.1.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constructor {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    HvectorInteger,
    Indexed,
    Hindexed,
    HindexedInteger,
    IndexedBlock,
    HindexedBlock,
    Struct,
    StructInteger,
    Subarray,
    Darray,
    Resized,
    F90Integer,
    F90Real,
    F90Complex,
    ValueIndex,
}

/// The constructors in the order of `capulet_combiners` in consts.c.
const COMBINERS: [Constructor; 20] = [
    Constructor::Named,
    Constructor::Dup,
    Constructor::Contiguous,
    Constructor::Vector,
    Constructor::Hvector,
    Constructor::HvectorInteger,
    Constructor::Indexed,
    Constructor::Hindexed,
    Constructor::HindexedInteger,
    Constructor::IndexedBlock,
    Constructor::HindexedBlock,
    Constructor::Struct,
    Constructor::StructInteger,
    Constructor::Subarray,
    Constructor::Darray,
    Constructor::Resized,
    Constructor::F90Integer,
    Constructor::F90Real,
    Constructor::F90Complex,
    Constructor::ValueIndex,
];

unsafe extern "C" {
    static capulet_combiners: [c_int; COMBINERS.len()];
    #[cfg(test)]
    static capulet_combiner_count: c_int;
}

fn constructor_of(combiner: c_int) -> Result<Constructor> {
    // SAFETY: consts.c defines the array as a constant with exactly COMBINERS.len() entries (a unit test of
    // this module asserts the length). The array is never written.
    let combiners = unsafe { &capulet_combiners };
    let index = combiners.iter().position(|known| *known == combiner);
    index.map(|index| COMBINERS[index]).ok_or_else(|| {
        Error::invalid(ErrorClass::Type, format!("a datatype with an unknown constructor ({combiner})"))
    })
}

/// The constructor of a type, and the lengths of the lists in its contents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope {
    pub(super) constructor: Constructor,
    pub(super) integers: usize,
    pub(super) addresses: usize,
    #[cfg(has_large_counts)]
    pub(super) counts: usize,
    pub(super) types: usize,
}

/// The integer type of counts in the query functions that this module calls.
#[cfg(has_large_counts)]
type Length = ffi::MPI_Count;
#[cfg(not(has_large_counts))]
type Length = c_int;

fn length(length: Length) -> usize {
    usize::try_from(length).unwrap_or(0)
}

impl Envelope {
    /// The envelope of a valid type.
    pub(super) fn of(datatype: ffi::MPI_Datatype) -> Result<Self> {
        let (mut integers, mut addresses, mut types): (Length, Length, Length) = (0, 0, 0);
        let mut combiner: c_int = 0;
        #[cfg(has_large_counts)]
        let mut counts: Length = 0;
        // SAFETY: the type is valid. MPI writes five numbers through valid pointers.
        #[cfg(has_large_counts)]
        let status = unsafe {
            ffi::MPI_Type_get_envelope_c(
                datatype,
                &raw mut integers,
                &raw mut addresses,
                &raw mut counts,
                &raw mut types,
                &raw mut combiner,
            )
        };
        // SAFETY: the type is valid. MPI writes four numbers through valid pointers.
        #[cfg(not(has_large_counts))]
        let status = unsafe {
            ffi::MPI_Type_get_envelope(
                datatype,
                &raw mut integers,
                &raw mut addresses,
                &raw mut types,
                &raw mut combiner,
            )
        };
        check("MPI_Type_get_envelope", status)?;
        Ok(Envelope {
            constructor: constructor_of(combiner)?,
            integers: length(integers),
            addresses: length(addresses),
            #[cfg(has_large_counts)]
            counts: length(counts),
            types: length(types),
        })
    }

    /// Whether the type is predefined, so that it must not be freed. The types of Fortran kinds are
    /// unnamed, but predefined, too (MPI-4.0 section 19.1.9).
    pub(super) fn is_predefined(&self) -> bool {
        use Constructor::{F90Complex, F90Integer, F90Real, Named};
        matches!(self.constructor, Named | F90Integer | F90Real | F90Complex)
    }
}

/// Size, lower bound and extent of a type, as this MPI reports them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) size: u64,
    lb: i64,
    extent: i64,
}

impl Bounds {
    /// The bounds of a valid type.
    pub(super) fn of(datatype: ffi::MPI_Datatype) -> Result<Self> {
        let (mut size, mut lb, mut extent): (ffi::MPI_Count, ffi::MPI_Count, ffi::MPI_Count) = (0, 0, 0);
        // SAFETY: the type is valid. MPI writes one number.
        check("MPI_Type_size_x", unsafe { ffi::MPI_Type_size_x(datatype, &raw mut size) })?;
        // SAFETY: the type is valid. MPI writes two numbers.
        let status = unsafe { ffi::MPI_Type_get_extent_x(datatype, &raw mut lb, &raw mut extent) };
        check("MPI_Type_get_extent_x", status)?;
        let size = u64::try_from(size)
            .map_err(|_| Error::from(TypeError::Overflow { what: "the size of an MPI datatype" }))?;
        Ok(Bounds { size, lb, extent })
    }

    /// Whether `datatype` has this lower bound and extent.
    pub(super) fn are_those_of(&self, datatype: &Datatype) -> bool {
        (datatype.lb(), datatype.extent()) == (self.lb, self.extent)
    }

    /// `datatype` with this lower bound and extent.
    pub(super) fn give_to(self, datatype: &Datatype) -> Result<Datatype> {
        if !self.are_those_of(datatype) {
            let (lb, extent) = (datatype.lb(), datatype.extent());
            tracing::debug!(
                lb,
                extent,
                mpi_lb = self.lb,
                mpi_extent = self.extent,
                "the bounds in this MPI differ"
            );
        }
        Ok(datatype.with_bounds(self.lb, self.extent)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combiners_match_constructors_and_round_trip() {
        // SAFETY: consts.c defines this int as a constant, which is never written.
        let count = unsafe { capulet_combiner_count };
        assert_eq!(usize::try_from(count).expect("a length"), COMBINERS.len());
        // SAFETY: as in `constructor_of`.
        let combiners = unsafe { capulet_combiners };
        for (combiner, constructor) in combiners.into_iter().zip(COMBINERS) {
            if combiner != c_int::MIN {
                assert_eq!(constructor_of(combiner).expect("known"), constructor);
            }
        }
        assert!(constructor_of(12_345).is_err());
    }
}
