//! Import of datatypes.
use crate::error::Result;
pub(crate) fn create_key() -> Result<std::ffi::c_int> {
    Ok(0)
}
