//! The contents of a datatype: the arguments of its constructor, and its parts.
//!
//! With MPI-4 this module always calls the large-count functions, because the `int` functions fail on a
//! type that was made with large counts. Such a type reports its numbers as counts. A type that was made by
//! an `int` constructor still reports `int`s and addresses.

use std::ffi::c_int;

use capulet_datatype::{DEPTH_MAX, Datatype, Named, TypeError};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::types::decode::{Arguments, decode};
use crate::types::envelope::{Bounds, Constructor, Envelope};
use crate::types::handle::OwnedType;
use crate::types::named;
use crate::{consts, ffi};

/// The maximum number of constructors in one type. A part that occurs several times counts each time: MPI
/// types share their parts, so a small program can describe a type with more constructors than memory can
/// hold.
const NODES_MAX: u32 = 1 << 20;

impl Envelope {
    /// The arguments of the constructor of `datatype`, whose envelope this is. The type is not
    /// `MPI_COMBINER_NAMED`.
    fn contents(&self, datatype: ffi::MPI_Datatype) -> Result<(Arguments, Vec<Part>)> {
        let mut integers: Vec<c_int> = vec![0; self.integers];
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
