//! Queries of a datatype: envelope, contents and bounds.
//!
//! With MPI-4 this module always calls the large-count functions, because the `int` functions fail on a
//! type that was made with large counts. Such a type reports its numbers as counts. A type that was made by
//! an `int` constructor still reports `int`s and addresses.

use std::ffi::c_int;

use capulet_datatype::{DEPTH_MAX, Datatype, Named, TypeError};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::types::decode::{Arguments, decode};
use crate::types::handle::OwnedType;
use crate::types::named;
use crate::{consts, ffi};

/// The maximum number of constructors in one type. A part that occurs several times counts each time: MPI
/// types share their parts, so a small program can describe a type with more constructors than memory can
/// hold.
const NODES_MAX: u32 = 1 << 20;

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
    constructor: Constructor,
    integers: usize,
    addresses: usize,
    #[cfg(has_large_counts)]
    counts: usize,
    types: usize,
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

    /// The arguments of the constructor of `datatype`, whose envelope this is. The type is not
    /// `MPI_COMBINER_NAMED`.
    fn contents(&self, datatype: ffi::MPI_Datatype) -> Result<(Arguments, Vec<Part>)> {
        let mut integers = vec![0; self.integers];
        let mut addresses: Vec<ffi::MPI_Aint> = vec![0; self.addresses];
        let mut types = vec![consts::datatype_null(); self.types];
        #[cfg(has_large_counts)]
        let mut counts: Vec<ffi::MPI_Count> = vec![0; self.counts];
        #[cfg(not(has_large_counts))]
        let counts: Vec<ffi::MPI_Count> = Vec::new();
        // SAFETY: the type is valid and not MPI_COMBINER_NAMED. MPI-4.0 section 5.1.13: MPI writes at most
        // as many entries to each array as the envelope says, and each array has that length.
        #[cfg(has_large_counts)]
        let status = unsafe {
            ffi::MPI_Type_get_contents_c(
                datatype,
                self.integers as ffi::MPI_Count,
                self.addresses as ffi::MPI_Count,
                self.counts as ffi::MPI_Count,
                self.types as ffi::MPI_Count,
                integers.as_mut_ptr(),
                addresses.as_mut_ptr(),
                counts.as_mut_ptr(),
                types.as_mut_ptr(),
            )
        };
        // SAFETY: the type is valid and not MPI_COMBINER_NAMED. MPI-4.0 section 5.1.13: MPI writes at most
        // as many entries to each array as the envelope says, and each array has that length. The lengths
        // fit in `int`, because MPI gave them as `int`.
        #[cfg(not(has_large_counts))]
        let status = unsafe {
            ffi::MPI_Type_get_contents(
                datatype,
                self.integers as c_int,
                self.addresses as c_int,
                self.types as c_int,
                integers.as_mut_ptr(),
                addresses.as_mut_ptr(),
                types.as_mut_ptr(),
            )
        };
        check("MPI_Type_get_contents", status)?;
        #[allow(clippy::unnecessary_cast, reason = "MPI_Aint is isize on some MPIs and i64 on others")]
        let addresses = addresses.into_iter().map(|at| at as i64).collect();
        // MPI gives each derived part as a new reference, which the caller must free (MPI-4.0 section
        // 5.1.13). The references are taken over before anything can fail.
        let parts = types.into_iter().map(Part::take).collect();
        Ok((Arguments { integers, addresses, counts }, parts))
    }
}

/// A part of a type, as `MPI_Type_get_contents` gives it.
#[derive(Debug)]
struct Part {
    handle: ffi::MPI_Datatype,
    /// Frees the reference to a derived part. `None` for a predefined part.
    _owned: Option<OwnedType>,
}

impl Part {
    fn take(handle: ffi::MPI_Datatype) -> Self {
        let owned = (!named::is_predefined(handle)).then(|| OwnedType::take(handle));
        Part { handle, _owned: owned }
    }
}

/// Decodes a type, which must be valid.
pub(super) fn describe(datatype: ffi::MPI_Datatype) -> Result<Datatype> {
    describe_at(datatype, 1, &mut 0)
}

fn describe_at(datatype: ffi::MPI_Datatype, depth: u32, nodes: &mut u32) -> Result<Datatype> {
    if let Some(known) = named::find(datatype) {
        return known;
    }
    *nodes += 1;
    if depth > DEPTH_MAX {
        return Err(TypeError::TooDeep { limit: DEPTH_MAX }.into());
    }
    if *nodes > NODES_MAX {
        return Err(Error::invalid(
            ErrorClass::Type,
            format!("more than {NODES_MAX} constructors in one type"),
        ));
    }
    let envelope = Envelope::of(datatype)?;
    let bounds = Bounds::of(datatype)?;
    let bytes = bounds.size as u32;
    match envelope.constructor {
        Constructor::Named => named::unknown(datatype),
        Constructor::F90Integer => bounds.give_to(&Datatype::named(Named::F90Integer { bytes })),
        Constructor::F90Real => bounds.give_to(&Datatype::named(Named::F90Real { bytes })),
        Constructor::F90Complex => bounds.give_to(&Datatype::named(Named::F90Complex { bytes })),
        constructor => {
            let (arguments, parts) = envelope.contents(datatype)?;
            let children = describe_parts(&parts, depth, nodes)?;
            let described = decode(constructor, &arguments, &children)?;
            if described.size() != bounds.size {
                let reason =
                    format!("a type of {} bytes has {} bytes in this MPI", described.size(), bounds.size);
                return Err(Error::invalid(ErrorClass::Type, reason));
            }
            bounds.give_to(&described)
        }
    }
}

fn describe_parts(parts: &[Part], depth: u32, nodes: &mut u32) -> Result<Vec<Datatype>> {
    let mut children: Vec<Datatype> = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        // All parts are alive at the same time, so equal handles denote the same type.
        let child = match index.checked_sub(1).map(|before| (&parts[before], &children[before])) {
            Some((before, child)) if before.handle == part.handle => child.clone(),
            _ => describe_at(part.handle, depth + 1, nodes)?,
        };
        children.push(child);
    }
    Ok(children)
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
