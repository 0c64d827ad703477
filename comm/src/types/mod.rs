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
/// The handle of a derived type is a duplicate of the imported type, so the user may free the original.
/// Dropping the last clone frees the duplicate. The handle of a predefined type is the predefined type
/// itself.
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

// SAFETY: the handle of a predefined type is a constant of the MPI library. `OwnedType` is Send and Sync.
unsafe impl Send for Handle {}
// SAFETY: as for `Send` above.
unsafe impl Sync for Handle {}

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
        let process = process()?;
        if let Some(cached) = cached(process, datatype)? {
            return Ok(cached);
        }
        refuse_uncommitted(process, datatype)?;
        let described = contents::describe(datatype)?;
        cache(process, datatype, described)
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
            None => cached(process()?, datatype),
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
        if cached(process()?, owned.raw())?.is_none() {
            cache(process()?, owned.raw(), self.datatype)?;
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
        encode::build(datatype)
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
fn refuse_uncommitted(process: &Process, datatype: ffi::MPI_Datatype) -> Result<()> {
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
            process.own_comm,
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(Error::invalid(ErrorClass::Type, "the datatype is not committed"))
}

/// The description that is attached to a valid type, if there is one.
fn cached(process: &Process, datatype: ffi::MPI_Datatype) -> Result<Option<Datatype>> {
    let mut value: *mut c_void = ptr::null_mut();
    let mut found: c_int = 0;
    let target = (&raw mut value).cast::<c_void>();
    // SAFETY: the type is valid, and `type_key` is a keyval of this crate. MPI writes the stored pointer
    // and a flag.
    let status = unsafe { ffi::MPI_Type_get_attr(datatype, process.type_key, target, &raw mut found) };
    check("MPI_Type_get_attr", status)?;
    if found == 0 {
        return Ok(None);
    }
    // SAFETY: `cache` and `copy_description` store values under `type_key`: pointers from Box::into_raw of
    // a Datatype. `delete_description` frees them. `cache` never replaces a value, so the box lives as long
    // as the type, and the type is valid during this call.
    Ok(Some(unsafe { (*value.cast_const().cast::<Datatype>()).clone() }))
}

/// Attaches a description to a valid type and returns the attached description. If another thread has
/// attached one first, that one is returned. An attribute is never replaced, because replacement would
/// delete a description that another thread may be reading.
fn cache(process: &Process, datatype: ffi::MPI_Datatype, described: Datatype) -> Result<Datatype> {
    static CACHING: Mutex<()> = Mutex::new(());
    let _caching = CACHING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(first) = cached(process, datatype)? {
        return Ok(first);
    }
    let value = Box::into_raw(Box::new(described.clone()));
    // SAFETY: the type is valid, and `type_key` is a keyval of this crate. The attribute takes over the
    // box.
    let status = unsafe { ffi::MPI_Type_set_attr(datatype, process.type_key, value.cast::<c_void>()) };
    check("MPI_Type_set_attr", status).inspect_err(|_| {
        // SAFETY: MPI has not set the attribute, so this function still owns the box.
        drop(unsafe { Box::from_raw(value) });
    })?;
    Ok(described)
}

/// Creates the keyval under which datatypes store their descriptions.
pub(crate) fn create_key() -> Result<c_int> {
    let mut key: c_int = 0;
    // SAFETY: both functions have the prototypes of MPI-4.0 section 7.7.4 and live as long as the program.
    // MPI writes one int.
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

/// Copy callback: a duplicate of a type gets a clone of the description. Calls no MPI function.
unsafe extern "C" fn copy_description(
    _datatype: ffi::MPI_Datatype,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: `value` was stored under `type_key`, so it points to a boxed description, which lives during
    // this call: its owner, the old type, does. `ManuallyDrop` leaves the box to that owner. MPI-4.0
    // section 7.7.4: `copy` and `flag` are valid for writes.
    unsafe {
        let original = ManuallyDrop::new(Box::from_raw(value.cast::<Datatype>()));
        *copy.cast::<*mut c_void>() = Box::into_raw(Box::clone(&original)).cast::<c_void>();
        *flag = 1;
    }
    0
}

/// Delete callback: drops the description. Calls no MPI function.
unsafe extern "C" fn delete_description(
    _datatype: ffi::MPI_Datatype,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: `value` is a box that `cache` or `copy_description` has made. MPI deletes each attribute
    // once.
    drop(unsafe { Box::from_raw(value.cast::<Datatype>()) });
    0
}
