//! Conversion between info objects and lists of key-value pairs (MPI-4.0 chapter 10).

use std::ffi::{CStr, CString, c_char, c_int};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::{consts, ffi};

/// All key-value pairs of an info object, in the order of the object. No pairs for `MPI_INFO_NULL`. Local.
/// In text that is not UTF-8, each invalid sequence becomes U+FFFD.
///
/// # Errors
/// If MPI fails.
///
/// # Safety
/// The handle is `MPI_INFO_NULL` or a valid info object.
pub unsafe fn pairs_of(info: ffi::MPI_Info) -> Result<Vec<(String, String)>> {
    if info == consts::info_null() {
        return Ok(Vec::new());
    }
    let mut keys: c_int = 0;
    // SAFETY: `# Safety` of this function: the info object is valid, because it is not MPI_INFO_NULL. MPI
    // writes one int.
    check("MPI_Info_get_nkeys", unsafe { ffi::MPI_Info_get_nkeys(info, &raw mut keys) })?;
    let mut pairs = Vec::new();
    for index in 0..keys {
        // SAFETY: `# Safety` of this function: the info object is valid. The index is below its number of
        // keys.
        let key = unsafe { key_at(info, index) }?;
        // SAFETY: `# Safety` of this function: the info object is valid.
        if let Some(value) = unsafe { value_of(info, &key) }? {
            pairs.push((text_of(&key), value));
        }
    }
    Ok(pairs)
}

fn text_of(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

/// # Safety
/// The info object is valid and has more than `index` keys.
unsafe fn key_at(info: ffi::MPI_Info, index: c_int) -> Result<CString> {
    let mut key = vec![0_u8; consts::info_key_bytes_max() as usize + 1];
    // SAFETY: `# Safety` of this function: the info object has a key of this index. MPI-4.0 chapter 10: a
    // key with its terminating zero has at most MPI_MAX_INFO_KEY bytes, and the buffer has one byte more.
    let status = unsafe { ffi::MPI_Info_get_nthkey(info, index, key.as_mut_ptr().cast::<c_char>()) };
    check("MPI_Info_get_nthkey", status)?;
    until_zero(&key)
}

/// # Safety
/// The info object is valid.
unsafe fn value_of(info: ffi::MPI_Info, key: &CStr) -> Result<Option<String>> {
    let (mut length, mut found): (c_int, c_int) = (0, 0);
    // SAFETY: `# Safety` of this function: the info object is valid. The key is a C string. MPI writes two
    // ints.
    let status = unsafe { ffi::MPI_Info_get_valuelen(info, key.as_ptr(), &raw mut length, &raw mut found) };
    check("MPI_Info_get_valuelen", status)?;
    if found == 0 {
        return Ok(None);
    }
    let mut value = vec![0_u8; usize::try_from(length).unwrap_or(0) + 1];
    // SAFETY: `# Safety` of this function: the info object is valid. MPI-4.0 chapter 10: MPI writes at most
    // `length` characters and a terminating zero, and the buffer has `length + 1` bytes.
    let status = unsafe {
        let target = value.as_mut_ptr().cast::<c_char>();
        ffi::MPI_Info_get(info, key.as_ptr(), length, target, &raw mut found)
    };
    check("MPI_Info_get", status)?;
    Ok(Some(text_of(&until_zero(&value)?)))
}

fn until_zero(bytes: &[u8]) -> Result<CString> {
    let text = CStr::from_bytes_until_nul(bytes).map(CStr::to_owned);
    text.map_err(|_| Error::invalid(ErrorClass::Info, "an info string without a terminating zero"))
}

/// A new info object with these key-value pairs. The caller frees it. Local. MPI must be initialized.
///
/// # Errors
/// [`ErrorClass::InfoKey`] or [`ErrorClass::InfoValue`] for text that is empty, contains a zero byte, or is
/// longer than this MPI allows. Otherwise if MPI fails.
pub fn new_info(pairs: &[(String, String)]) -> Result<ffi::MPI_Info> {
    let pairs = pairs.iter().map(|(key, value)| checked(key, value)).collect::<Result<Vec<_>>>()?;
    let mut info = consts::info_null();
    // SAFETY: MPI is initialized, as the documentation of this function requires. MPI writes one handle.
    check("MPI_Info_create", unsafe { ffi::MPI_Info_create(&raw mut info) })?;
    for (key, value) in pairs {
        // SAFETY: MPI_Info_create has made the info object above. Key and value are C strings of a length
        // that MPI accepts, as `checked` ensures.
        let status = unsafe { ffi::MPI_Info_set(info, key.as_ptr(), value.as_ptr()) };
        if let Err(error) = check("MPI_Info_set", status) {
            // SAFETY: this function has created the info object and has not given it to the caller.
            unsafe { ffi::MPI_Info_free(&raw mut info) };
            return Err(error);
        }
    }
    Ok(info)
}

fn checked(key: &str, value: &str) -> Result<(CString, CString)> {
    let limits = (consts::info_key_bytes_max() as usize, consts::info_value_bytes_max() as usize);
    let c_key = c_text(key, limits.0);
    let c_value = c_text(value, limits.1);
    let c_key = c_key.ok_or_else(|| Error::invalid(ErrorClass::InfoKey, format!("info key {key:?}")))?;
    let c_value =
        c_value.ok_or_else(|| Error::invalid(ErrorClass::InfoValue, format!("value of info key {key:?}")))?;
    Ok((c_key, c_value))
}

/// `text` as a C string, or `None` if MPI does not accept it. MPI accepts text that is not empty, contains
/// no zero byte, and has at most `bytes_max` bytes with its terminating zero.
fn c_text(text: &str, bytes_max: usize) -> Option<CString> {
    if text.is_empty() || text.len() >= bytes_max { None } else { CString::new(text).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_that_abort_mpi_are_refused() {
        let class = |key: &str, value: &str| checked(key, value).map(|_| ()).map_err(|error| error.class());
        let long = "x".repeat(5000);
        assert_eq!(class("cb_nodes", "4"), Ok(()));
        assert_eq!(class("", "4"), Err(ErrorClass::InfoKey));
        assert_eq!(class(&long, "4"), Err(ErrorClass::InfoKey));
        assert_eq!(class("a\0b", "4"), Err(ErrorClass::InfoKey));
        assert_eq!(class("a", ""), Err(ErrorClass::InfoValue));
        assert_eq!(class("a", &long), Err(ErrorClass::InfoValue));
    }
}
