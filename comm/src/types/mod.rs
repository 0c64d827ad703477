//! Datatypes of MPI as datatypes of `capulet-datatype`.
//!
//! A type is taken apart once, by envelope and contents (MPI-4.0 section 5.1.13), down to the predefined types; the result
//! stays as an attribute of the MPI type and is inherited by its duplicates. Every node gets the lower bound and extent
//! that this MPI reports: libraries differ in those of some types without data, and parents are built on them.
//!
//! The attribute owns the description only, never a handle: a duplicate of a type keeps the type alive, so that a type
//! whose attribute held a duplicate of it would never end.

mod construct;
mod contents;
mod decode;
mod encode;
mod handle;
mod named;

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use capulet_datatype::{Datatype, Named, Prim};
use mpi::raw::AsRaw;
use mpi::traits::Equivalence;

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::process::{Process, process};
use crate::{consts, ffi};
use handle::OwnedType;

/// An MPI datatype: its handle and its description. Cheap to clone.
///
/// A derived type is a duplicate of the one that was imported, so that the user may free theirs; it is freed with the last
/// clone. A predefined type is itself.
#[derive(Debug, Clone)]
pub struct MpiType {
    datatype: Datatype,
    handle: Handle,
}

#[derive(Debug, Clone)]
enum Handle {
    Predefined(ffi::MPI_Datatype),
    Derived(Arc<OwnedType>),
}

impl Handle {
    fn raw(&self) -> ffi::MPI_Datatype {
        match self {
            Handle::Predefined(handle) => *handle,
            Handle::Derived(owned) => owned.raw(),
        }
    }
}

// SAFETY: a predefined handle is a constant; for the other variant see `OwnedType`.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl MpiType {
    /// Imports a type, and keeps a duplicate of it. Local. Cheap after the first time, apart from the duplication of
    /// derived types; see [`MpiType::datatype_of`] for when no handle is needed.
    ///
    /// # Errors
    /// [`ErrorClass::Type`] for the null type, a type that is not committed, and one that is too large or too deep to be
    /// described.
    ///
    /// # Safety
    /// The handle is `MPI_DATATYPE_NULL` or a valid datatype.
    pub unsafe fn import(datatype: ffi::MPI_Datatype) -> Result<MpiType> {
        // SAFETY: by the caller's promise.
        let described = unsafe { Self::datatype_of(datatype) }?;
        if named::is_predefined(datatype) {
            return Ok(MpiType { datatype: described, handle: Handle::Predefined(datatype) });
        }
        let owned = OwnedType::duplicate_of(datatype)?;
        Ok(MpiType { datatype: described, handle: Handle::Derived(Arc::new(owned)) })
    }

    /// Describes a type without keeping it: what a buffer needs. Local; some tens of nanoseconds after the first time.
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
        let process = process()?;
        if let Some(cached) = cached(process, datatype)? {
            return Ok(cached);
        }
        refuse_uncommitted(process, datatype)?;
        let described = contents::describe(datatype)?;
        cache(process, datatype, described)
    }

    /// The description of a type that [`MpiType::datatype_of`] knows already: a predefined one, or one that was described
    /// before. `None` for others. Local.
    ///
    /// # Errors
    /// As [`MpiType::import`], of a predefined type.
    ///
    /// # Safety
    /// As [`MpiType::import`].
    pub unsafe fn known_datatype_of(datatype: ffi::MPI_Datatype) -> Result<Option<Datatype>> {
        if datatype == consts::datatype_null() {
            return Err(Error::invalid(ErrorClass::Type, "the null datatype"));
        }
        match named::find(datatype) {
            Some(known) => known.map(Some),
            None => cached(process()?, datatype),
        }
    }

    /// A handle for someone else, who frees it whatever the type is: of a predefined type this is a duplicate. Local.
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
        if cached(process()?, owned.raw())?.is_none() {
            cache(process()?, owned.raw(), self.datatype)?;
        }
        Ok(owned.give_away())
    }

    /// A type of this MPI that is described like `datatype`: the predefined type itself, or a committed one that
    /// [`MpiType::datatype_of`] knows. Local.
    ///
    /// # Errors
    /// [`ErrorClass::Count`] if this MPI cannot express a count of it; what MPI says otherwise.
    pub fn build(datatype: &Datatype) -> Result<MpiType> {
        encode::build(datatype)
    }

    /// The type of Rust's `T`. Local.
    ///
    /// # Errors
    /// As [`MpiType::import`].
    pub fn of<T: Equivalence>() -> Result<MpiType> {
        let equivalent = T::equivalent_datatype();
        // SAFETY: `mpi` hands out valid types, which live at least as long as `equivalent`.
        unsafe { Self::import(equivalent.as_raw()) }
    }

    /// A predefined type by its name. `None` if this MPI does not have it. Local.
    pub fn named(named: Named) -> Option<MpiType> {
        let handle = named::handle_of(named)?;
        let datatype = named::find(handle)?.ok()?;
        Some(MpiType { datatype, handle: Handle::Predefined(handle) })
    }

    /// A predefined type of one basic element of that representation, such as `MPI_DOUBLE` for a float of 8 bytes. `None`
    /// if this MPI has none. Local.
    pub fn of_element(element: Prim) -> Option<MpiType> {
        Self::named(named::of_element(element)?)
    }

    /// `MPI_BYTE`. Local.
    pub fn byte() -> MpiType {
        MpiType { datatype: Datatype::named(Named::Byte), handle: Handle::Predefined(consts::byte()) }
    }

    /// What the type describes.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// The handle. It is valid as long as this value or a clone of it, and must not be freed.
    pub fn handle(&self) -> ffi::MPI_Datatype {
        self.handle.raw()
    }

    /// Whether the type is predefined: then [`MpiType::duplicate`] gives the type itself, which must not be freed.
    pub fn is_predefined(&self) -> bool {
        matches!(self.handle, Handle::Predefined(_))
    }

    /// A handle to give away, for `MPI_File_get_view`: a duplicate that the receiver frees, or the predefined type itself
    /// (MPI-4.0 section 14.3). Local.
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

/// MPI has no question for "is it committed", but refuses to pack such a type (MPI-4.0 section 5.1.9).
fn refuse_uncommitted(process: &Process, datatype: ffi::MPI_Datatype) -> Result<()> {
    let source = [0_u64; 2];
    let mut target = [0_u64; 2];
    let mut position: c_int = 0;
    // SAFETY: no element is packed, so neither buffer is touched; the communicator is ours and returns errors.
    let status = unsafe {
        ffi::MPI_Pack(
            source.as_ptr().cast::<c_void>(),
            0,
            datatype,
            target.as_mut_ptr().cast::<c_void>(),
            size_of_val(&target) as c_int,
            &raw mut position,
            process.own_comm,
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(Error::invalid(ErrorClass::Type, "the datatype is not committed"))
}

/// The description that is attached to a type.
fn cached(process: &Process, datatype: ffi::MPI_Datatype) -> Result<Option<Datatype>> {
    let mut value: *mut c_void = ptr::null_mut();
    let mut found: c_int = 0;
    let target = (&raw mut value).cast::<c_void>();
    // SAFETY: the type is valid and the key is ours; MPI writes the stored pointer and a flag.
    let status = unsafe { ffi::MPI_Type_get_attr(datatype, process.type_key, target, &raw mut found) };
    check("MPI_Type_get_attr", status)?;
    if found == 0 {
        return Ok(None);
    }
    // SAFETY: values under our key come from Box::into_raw of a Datatype and live until the delete callback; the type is
    // alive during this call, so the box is.
    Ok(Some(unsafe { (*value.cast_const().cast::<Datatype>()).clone() }))
}

/// Attaches a description to a type, unless another thread has done so meanwhile. An attribute is never replaced: that
/// would delete what a third thread may be reading.
fn cache(process: &Process, datatype: ffi::MPI_Datatype, described: Datatype) -> Result<Datatype> {
    static CACHING: Mutex<()> = Mutex::new(());
    let _caching = CACHING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(first) = cached(process, datatype)? {
        return Ok(first);
    }
    let value = Box::into_raw(Box::new(described.clone()));
    // SAFETY: the type is valid and the key is ours; the box passes to the attribute.
    let status = unsafe { ffi::MPI_Type_set_attr(datatype, process.type_key, value.cast::<c_void>()) };
    check("MPI_Type_set_attr", status).inspect_err(|_| {
        // SAFETY: the attribute was not set, so the box is still ours.
        drop(unsafe { Box::from_raw(value) });
    })?;
    Ok(described)
}

/// Makes the key under which types know their descriptions.
pub(crate) fn create_key() -> Result<c_int> {
    let mut key: c_int = 0;
    // SAFETY: both functions have the prototypes that MPI expects and live as long as the program.
    let status = unsafe {
        ffi::MPI_Type_create_keyval(
            Some(copy_description),
            Some(delete_description),
            &raw mut key,
            ptr::null_mut(),
        )
    };
    check("MPI_Type_create_keyval", status)?;
    Ok(key)
}

/// A duplicate has the same description. Calls nothing of MPI.
unsafe extern "C" fn copy_description(
    _datatype: ffi::MPI_Datatype,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: `value` is a boxed description, alive during this call. MPI passes valid pointers to the copy and to the
    // flag (MPI-4.0 section 7.7.4).
    unsafe {
        let original = ManuallyDrop::new(Box::from_raw(value.cast::<Datatype>()));
        *copy.cast::<*mut c_void>() = Box::into_raw(Box::clone(&original)).cast::<c_void>();
        *flag = 1;
    }
    0
}

/// Drops the description. Calls nothing of MPI.
unsafe extern "C" fn delete_description(
    _datatype: ffi::MPI_Datatype,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: `value` is a box made by `cache` or `copy_description`; MPI deletes each attribute once.
    drop(unsafe { Box::from_raw(value.cast::<Datatype>()) });
    0
}
