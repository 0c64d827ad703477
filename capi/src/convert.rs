//! Checks arguments of C functions and converts them to Rust values.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;

use capulet_adio::{AccessMode, Whence};
use capulet_comm::{ErrorClass, MpiType, info};
use capulet_datatype::Datatype;
use mpi::ffi;

use crate::abi::{Count, MPI_Datatype, MPI_Info};
use crate::failure::{Failure, failure};

/// A function pointer. Null is an error.
pub(crate) fn pointer<F>(function: Option<F>) -> Result<F, Failure> {
    function.ok_or_else(|| failure(ErrorClass::Arg, "the function pointer is null"))
}

/// Writes a result to the memory of the caller. Null is an error.
///
/// # Safety
/// `target` is null or valid for a write of one `T`.
pub(crate) unsafe fn store<T>(target: *mut T, value: T) -> Result<(), Failure> {
    if target.is_null() {
        return Err(failure(ErrorClass::Arg, "the pointer to a result is null"));
    }
    // SAFETY: `# Safety` of this function: `target` is valid, because it is not null.
    unsafe { target.write(value) };
    Ok(())
}

/// A C string. Null is an error.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte and lives as long as the result.
pub(crate) unsafe fn string<'a>(text: *const c_char) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(failure(ErrorClass::Arg, "the pointer to a string is null"));
    }
    // SAFETY: `# Safety` of this function: `text` is a C string, because it is not null.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// A file name, as bytes in any encoding.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn file_name(name: *const c_char) -> Result<OsString, Failure> {
    // SAFETY: this function and `string` have the same `# Safety`. The result is copied.
    let name = unsafe { string(name) }?;
    Ok(OsStr::from_bytes(name.to_bytes()).to_owned())
}

/// The keys and values of an info object. Empty for `MPI_INFO_NULL`.
pub(crate) fn pairs(info: MPI_Info) -> Result<Vec<(String, String)>, Failure> {
    // SAFETY: MPI 2.5.1: the caller passes a valid info object or `MPI_INFO_NULL`.
    Ok(unsafe { info::pairs_of(info) }?)
}

/// A datatype with its MPI object. An error if the datatype cannot describe data.
pub(crate) fn datatype(datatype: MPI_Datatype) -> Result<MpiType, Failure> {
    // SAFETY: MPI 2.5.1: the caller passes a valid datatype or `MPI_DATATYPE_NULL`.
    Ok(unsafe { MpiType::import(datatype) }?)
}

/// The description of the datatype of a buffer. A derived datatype is not duplicated, because a
/// duplication takes as long as to move a small buffer.
pub(crate) fn description(datatype: MPI_Datatype) -> Result<Datatype, Failure> {
    // SAFETY: MPI 2.5.1: the caller passes a valid datatype or `MPI_DATATYPE_NULL`.
    Ok(unsafe { MpiType::datatype_of(datatype) }?)
}

/// The access mode for the `MPI_MODE_*` bits of this MPI. An unknown bit is kept as bit 31, so that the
/// check at open refuses it.
pub(crate) fn mode_from_c(bits: c_int) -> AccessMode {
    let known = MODES.iter().fold(0, |known, (bit, _)| known | bit);
    let unknown = bits as u32 & !known;
    let mode =
        MODES.iter().filter(|(bit, _)| bits as u32 & bit != 0).fold(0, |all, (_, mode)| all | mode.bits());
    // Bit 31 is no mode of `AccessMode`. It represents all bits that are no mode of this MPI.
    AccessMode::from_bits(if unknown == 0 { mode } else { mode | 1 << 31 })
}

/// The `MPI_MODE_*` bits of this MPI for an access mode.
pub(crate) fn mode_to_c(mode: AccessMode) -> c_int {
    MODES.iter().filter(|(_, part)| mode.contains(*part)).fold(0, |all, (bit, _)| all | *bit as c_int)
}

const MODES: [(u32, AccessMode); 9] = [
    (ffi::MPI_MODE_CREATE, AccessMode::CREATE),
    (ffi::MPI_MODE_RDONLY, AccessMode::READ_ONLY),
    (ffi::MPI_MODE_WRONLY, AccessMode::WRITE_ONLY),
    (ffi::MPI_MODE_RDWR, AccessMode::READ_WRITE),
    (ffi::MPI_MODE_DELETE_ON_CLOSE, AccessMode::DELETE_ON_CLOSE),
    (ffi::MPI_MODE_UNIQUE_OPEN, AccessMode::UNIQUE_OPEN),
    (ffi::MPI_MODE_EXCL, AccessMode::EXCLUSIVE),
    (ffi::MPI_MODE_APPEND, AccessMode::APPEND),
    (ffi::MPI_MODE_SEQUENTIAL, AccessMode::SEQUENTIAL),
];

/// The origin of a seek.
pub(crate) fn whence(whence: c_int) -> Result<Whence, Failure> {
    match u32::try_from(whence) {
        Ok(ffi::MPI_SEEK_SET) => Ok(Whence::Set),
        Ok(ffi::MPI_SEEK_CUR) => Ok(Whence::Current),
        Ok(ffi::MPI_SEEK_END) => Ok(Whence::End),
        _ => Err(failure(ErrorClass::Arg, "whence is none of MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END")),
    }
}

/// A number of elements. A negative number is `MPI_ERR_COUNT`.
pub(crate) fn count(count: Count) -> Result<u64, Failure> {
    u64::try_from(count).map_err(|_| failure(ErrorClass::Count, format!("the count is negative: {count}")))
}

/// Whether an address is in the first page of the address space, or below it. No data is there, so a buffer
/// whose data begins there is a null buffer. `MPI_BOTTOM` is null too, but its datatype has absolute
/// addresses.
pub(crate) fn is_null_page(address: i128) -> bool {
    address < 4096
}

/// Refuses a null buffer, unless it has no data.
pub(crate) fn buffer(base: *const c_void, count: u64, description: &Datatype) -> Result<(), Failure> {
    if count == 0 || description.size() == 0 {
        return Ok(());
    }
    let before_last = i128::from(count - 1) * i128::from(description.extent());
    let lowest = base.addr() as i128 + i128::from(description.true_lb()) + before_last.min(0);
    if is_null_page(lowest) {
        return Err(failure(ErrorClass::Buffer, "the buffer is null"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_convert_in_both_directions() {
        for bits in 0..512 {
            assert_eq!(mode_to_c(mode_from_c(bits)), bits);
        }
        assert!(mode_from_c(512 | 2).check().is_err());
        assert!(mode_from_c(-1).check().is_err());
    }

    #[test]
    fn only_the_three_seek_origins_are_valid() {
        assert_eq!(whence(ffi::MPI_SEEK_SET as c_int).ok(), Some(Whence::Set));
        assert_eq!(whence(ffi::MPI_SEEK_CUR as c_int).ok(), Some(Whence::Current));
        assert_eq!(whence(ffi::MPI_SEEK_END as c_int).ok(), Some(Whence::End));
        for wrong in [0, 1, -1, c_int::MAX, c_int::MIN] {
            assert_eq!(whence(wrong).expect_err("the value is invalid").class(), ErrorClass::Arg);
        }
    }

    #[test]
    fn negative_counts_are_refused() {
        assert_eq!(count(-1).expect_err("the value is invalid").class(), ErrorClass::Count);
        assert_eq!(count(i64::MIN).expect_err("the value is invalid").class(), ErrorClass::Count);
        assert_eq!(count(i64::MAX).ok(), Some(i64::MAX as u64));
    }
}
