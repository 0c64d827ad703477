//! Conversion between MPI datatypes and the datatypes of `capulet-datatype`, called descriptions here.
//!
//! An MPI type is decoded once, by envelope and contents (MPI-4.0 section 5.1.13), down to the predefined
//! types. The description is stored as an attribute of the MPI type, and duplicates of the type inherit the
//! attribute. Each part of the description gets the lower bound and the extent that this MPI reports. MPI
//! libraries report different bounds for some types without data, and the bounds of an enclosing type
//! follow from the bounds of its parts.
//!
//! The attribute owns the description and no MPI handle. A duplicate of a type keeps the type alive, so a
//! type whose attribute held a duplicate of the type would never be freed.

mod cache;
mod construct;
mod contents;
mod decode;
mod encode;
mod envelope;
mod handle;
mod named;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use capulet_datatype::{Datatype, Named, Prim};
use mpi::raw::AsRaw;
use mpi::traits::Equivalence;

use crate::class::ErrorClass;
use crate::error::{Error, Result};
use crate::process::process;
use crate::{consts, ffi};
use cache::{cache, cached};
use handle::{Handle, OwnedType};

/// An MPI datatype: its handle and its description. Cheap to clone.
///
/// The handle of a derived type is a duplicate of the imported type, so the user may free the original.
/// Dropping the last clone frees the duplicate. The handle of a predefined type is the predefined type
/// itself.
#[derive(Debug, Clone)]
pub struct MpiType {
    datatype: Datatype,
    handle: Handle,
}

impl MpiType {
    /// Imports a type and keeps a duplicate of a derived type. Local. The first import of a type decodes
    /// it; later imports only duplicate the handle. [`MpiType::datatype_of`] does without the handle.
    ///
    /// # Errors
    /// [`ErrorClass::Type`] for the null type, a type that is not committed, and a type that is too large
    /// or too deep to be described.
    ///
    /// # Safety
    /// The handle is `MPI_DATATYPE_NULL` or a valid datatype.
    pub unsafe fn import(datatype: ffi::MPI_Datatype) -> Result<MpiType> {
        // SAFETY: `# Safety` of this function is that of `datatype_of`.
        let described = unsafe { Self::datatype_of(datatype) }?;
        if named::is_predefined(datatype) {
            return Ok(MpiType { datatype: described, handle: Handle::Predefined(datatype) });
        }
        let owned = OwnedType::duplicate_of(datatype)?;
        Ok(MpiType { datatype: described, handle: Handle::Derived(Arc::new(owned)) })
    }

    /// The description of a type, without a handle. This is all that an access to a buffer needs. Local.
    /// Takes some tens of nanoseconds after the first time.
    ///
    /// # Errors
    /// As [`MpiType::import`].
    ///
    /// # Safety
    /// As [`MpiType::import`].
    pub unsafe fn datatype_of(datatype: ffi::MPI_Datatype) -> Result<Datatype> {
        if datatype == consts::datatype_null() {
            return Err(Error::invalid(ErrorClass::Type, "the null datatype"));
        }
        if let Some(known) = named::find(datatype) {
            return known;
        }
        if let Some(cached) = cached(datatype)? {
            return Ok(cached);
        }
        refuse_uncommitted(datatype)?;
        let described = contents::describe(datatype)?;
        cache(datatype, described)
    }

    /// The description of a predefined type, or of a type that [`MpiType::datatype_of`] has described
    /// before. `None` for other types. Local.
    ///
    /// # Errors
    /// As [`MpiType::import`] of a predefined type.
    ///
    /// # Safety
    /// As [`MpiType::import`].
    pub unsafe fn known_datatype_of(datatype: ffi::MPI_Datatype) -> Result<Option<Datatype>> {
        if datatype == consts::datatype_null() {
            return Err(Error::invalid(ErrorClass::Type, "the null datatype"));
        }
        match named::find(datatype) {
            Some(known) => known.map(Some),
            None => cached(datatype),
        }
    }

    /// A handle that the receiver frees, also for a predefined type: the handle is then a duplicate of the
    /// predefined type. Local.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn into_handle(self) -> Result<ffi::MPI_Datatype> {
        let owned = match self.handle {
            Handle::Predefined(handle) => OwnedType::duplicate_of(handle)?,
            Handle::Derived(shared) => match Arc::try_unwrap(shared) {
                Ok(owned) => owned,
                Err(shared) => OwnedType::duplicate_of(shared.raw())?,
            },
        };
        if cached(owned.raw())?.is_none() {
            cache(owned.raw(), self.datatype)?;
        }
        Ok(owned.give_away())
    }

    /// A type of this MPI with the description `datatype`: a predefined type itself, or else a committed
    /// type whose description [`MpiType::datatype_of`] returns. Local.
    ///
    /// # Errors
    /// [`ErrorClass::Count`] if this MPI cannot express a count of the description. Otherwise the error of
    /// MPI.
    pub fn build(datatype: &Datatype) -> Result<MpiType> {
        let handle = encode::build(datatype)?;
        Ok(MpiType { datatype: datatype.clone(), handle })
    }

    /// The MPI type that corresponds to the Rust type `T`. Local.
    ///
    /// # Errors
    /// As [`MpiType::import`].
    pub fn of<T: Equivalence>() -> Result<MpiType> {
        let equivalent = T::equivalent_datatype();
        // SAFETY: the crate `mpi` gives a valid type, which lives at least as long as `equivalent`.
        unsafe { Self::import(equivalent.as_raw()) }
    }

    /// The predefined type of a name. `None` if this MPI does not have it. Local.
    pub fn named(named: Named) -> Option<MpiType> {
        let handle = named::handle_of(named)?;
        let datatype = named::find(handle)?.ok()?;
        Some(MpiType { datatype, handle: Handle::Predefined(handle) })
    }

    /// A predefined type of one basic element with the representation `element`, such as `MPI_DOUBLE` for a
    /// float of 8 bytes. `None` if this MPI has no such type. Local.
    pub fn of_element(element: Prim) -> Option<MpiType> {
        Self::named(named::of_element(element)?)
    }

    /// `MPI_BYTE`. Local.
    pub fn byte() -> MpiType {
        MpiType { datatype: Datatype::named(Named::Byte), handle: Handle::Predefined(consts::byte()) }
    }

    /// The description of the type.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// The handle. It is valid as long as this value or a clone of this value lives. The caller must not
    /// free it.
    pub fn handle(&self) -> ffi::MPI_Datatype {
        self.handle.raw()
    }

    /// Whether the type is predefined. [`MpiType::duplicate`] of a predefined type returns the type itself,
    /// which the caller must not free.
    pub fn is_predefined(&self) -> bool {
        matches!(self.handle, Handle::Predefined(_))
    }

    /// A handle for the output of `MPI_File_get_view` (MPI-4.0 section 14.3): a duplicate of a derived
    /// type, which the receiver frees, or the predefined type itself. Local.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn duplicate(&self) -> Result<ffi::MPI_Datatype> {
        match &self.handle {
            Handle::Predefined(handle) => Ok(*handle),
            Handle::Derived(owned) => Ok(OwnedType::duplicate_of(owned.raw())?.give_away()),
        }
    }
}

/// Returns an error if the type is not committed. MPI has no query for this, but refuses to pack a type
/// that is not committed (MPI-4.0 section 5.1.9).
fn refuse_uncommitted(datatype: ffi::MPI_Datatype) -> Result<()> {
    let own_comm = process()?.own_comm;
    let source = [0_u64; 2];
    let mut target = [0_u64; 2];
    let mut position: c_int = 0;
    // SAFETY: MPI packs 0 elements, so it accesses neither buffer; it writes the position. `own_comm` is a
    // valid communicator with the error handler MPI_ERRORS_RETURN.
    let status = unsafe {
        ffi::MPI_Pack(
            source.as_ptr().cast::<c_void>(),
            0,
            datatype,
            target.as_mut_ptr().cast::<c_void>(),
            size_of_val(&target) as c_int,
            &raw mut position,
            own_comm,
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(Error::invalid(ErrorClass::Type, "the datatype is not committed"))
}
