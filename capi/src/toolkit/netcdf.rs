//! Conversion between memory and the types of the classic file formats of netCDF.

use std::ffi::{c_int, c_void};

use capulet_comm::ErrorClass;
use capulet_datatype::{NetcdfFormat, NetcdfType, TranslateError, Translation};

use crate::abi::{Count, MPI_Datatype, export_as};
use crate::failure::{Failure, failure};
use crate::frame::returning;
use crate::toolkit::arguments::{Part, buffer, initialized, not_null, wrong};
use crate::toolkit::copy::{FROM_USERBUF, TO_USERBUF};

export_as! {
    ["MPIT_Type_netcdf_translate"]
    /// Converts elements to or from the representation of a netCDF file. Local.
    fn Type_netcdf_translate(
        base: *mut c_void, count: Count, datatype: MPI_Datatype, packed: *mut c_void, room: Count,
        external: c_int, format: c_int, direction: c_int, start: Count, end: Count, misfits: *mut Count,
        first: *mut Count
    ) -> c_int {
        returning("MPIT_Type_netcdf_translate", || {
            let translation = compile(count, datatype, external, format)?;
            if direction != TO_USERBUF && direction != FROM_USERBUF {
                return Err(wrong(format!("{direction} is not a direction")));
            }
            let part = Part::of(translation.elements(), start, end)?;
            let bytes = translation.packed_bytes(part.range.clone()).map_err(|error| refused(&error))?;
            if u64::try_from(room).map_err(|_| wrong(format!("the size {room} is negative")))? < bytes {
                return Err(wrong(format!("the memory of {room} bytes is too small for {bytes} bytes")));
            }
            if bytes > 0 {
                buffer(base, translation.tiled(), bytes)?;
                not_null(packed, "the data of the file")?;
            }
            let range = part.range.clone();
            // SAFETY: capulet_types.h: `base` is the typed buffer of the caller, which contains the
            // elements of `range`. `packed` has `room` bytes, which is at least the size of `range` in the
            // file. The buffers do not overlap.
            let outcome = unsafe {
                if direction == FROM_USERBUF {
                    translation.encode_raw(base.cast(), range, packed.cast())
                } else {
                    translation.decode_raw(packed.cast(), range, base.cast())
                }
            };
            // SAFETY: capulet_types.h: `misfits` and `first` are null or point to numbers of the caller.
            unsafe { report(&outcome, misfits, first) };
            outcome.map_err(|error| refused(&error))?;
            part.finish()
        })
    }
}

fn compile(
    count: Count,
    datatype: MPI_Datatype,
    external: c_int,
    format: c_int,
) -> Result<Translation, Failure> {
    let described = initialized(datatype)?;
    let count = u64::try_from(count).map_err(|_| wrong(format!("the count {count} is negative")))?;
    let external = NetcdfType::from_number(external)
        .ok_or_else(|| wrong(format!("{external} is not a type of netCDF")))?;
    let format = match format {
        1 => NetcdfFormat::Cdf1,
        2 => NetcdfFormat::Cdf2,
        5 => NetcdfFormat::Cdf5,
        _ => return Err(wrong(format!("{format} is not a version of the netCDF format"))),
    };
    Translation::netcdf(&described, count, external, format).map_err(|error| refused(&error))
}

/// The failure for an error of the translation.
fn refused(error: &TranslateError) -> Failure {
    let class = match error {
        TranslateError::OutOfRange { .. } => ErrorClass::Conversion,
        TranslateError::Mixed | TranslateError::Unsupported { .. } | TranslateError::TextAndNumbers => {
            ErrorClass::Type
        }
        _ => ErrorClass::Arg,
    };
    failure(class, error.to_string())
}

/// Stores the number of elements that were out of range, and the index of the first one (-1 if none).
///
/// # Safety
/// Each pointer is null or valid for writing.
unsafe fn report(outcome: &Result<(), TranslateError>, misfits: *mut Count, first: *mut Count) {
    let (number, place) = match outcome {
        Err(TranslateError::OutOfRange { first, count }) => (*count as Count, *first as Count),
        _ => (0, -1),
    };
    for (target, value) in [(misfits, number), (first, place)] {
        if !target.is_null() {
            // SAFETY: `# Safety` of this function: `target`, which is not null, is valid for writing.
            unsafe { target.write(value) };
        }
    }
}
