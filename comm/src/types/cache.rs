//! The descriptions that this crate stores as attributes of MPI types.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use capulet_datatype::Datatype;

use crate::attribute_key::AttributeKey;
use crate::error::{Result, check};
use crate::ffi;

/// The key under which datatypes store their descriptions.
static KEY: AttributeKey = AttributeKey::new(create_key);

/// The description that is attached to a valid type, if there is one.
pub(super) fn cached(datatype: ffi::MPI_Datatype) -> Result<Option<Datatype>> {
    let mut value: *mut c_void = ptr::null_mut();
    let mut found: c_int = 0;
    let (key, target) = (KEY.get()?, (&raw mut value).cast::<c_void>());
    // SAFETY: the type is valid, and `KEY` is a keyval of this crate. MPI writes the stored pointer and a
    // flag.
    let status = unsafe { ffi::MPI_Type_get_attr(datatype, key, target, &raw mut found) };
    check("MPI_Type_get_attr", status)?;
    if found == 0 {
        return Ok(None);
    }
    // SAFETY: `cache` and `copy_description` store values under `KEY`: pointers from Box::into_raw of
    // a Datatype. `delete_description` frees them. `cache` never replaces a value, so the box lives as long
    // as the type, and the type is valid during this call.
    Ok(Some(unsafe { (*value.cast_const().cast::<Datatype>()).clone() }))
}

/// Attaches a description to a valid type and returns the attached description. If another thread has
/// attached one first, that one is returned. An attribute is never replaced, because replacement would
/// delete a description that another thread may be reading.
pub(super) fn cache(datatype: ffi::MPI_Datatype, described: Datatype) -> Result<Datatype> {
    static CACHING: Mutex<()> = Mutex::new(());
    let _caching = CACHING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(first) = cached(datatype)? {
        return Ok(first);
    }
    let key = KEY.get()?;
    let value = Box::into_raw(Box::new(described.clone()));
    // SAFETY: the type is valid, and `KEY` is a keyval of this crate. The attribute takes over the box.
    let status = unsafe { ffi::MPI_Type_set_attr(datatype, key, value.cast::<c_void>()) };
    check("MPI_Type_set_attr", status).inspect_err(|_| {
        // SAFETY: MPI has not set the attribute, so this function still owns the box.
        drop(unsafe { Box::from_raw(value) });
    })?;
    Ok(described)
}

fn create_key() -> Result<c_int> {
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
    // SAFETY: `value` was stored under `KEY`, so it points to a boxed description, which lives during
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
