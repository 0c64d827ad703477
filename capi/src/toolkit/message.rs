//! Conversion of types to messages and back.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use capulet_comm::{ErrorClass, MpiType};
use capulet_datatype::Datatype;

use crate::abi::{Aint, MPI_Datatype, export_as};
use crate::convert::store;
use crate::failure::failure;
use crate::frame::returning;
use crate::toolkit::arguments::{initialized, not_null, wrong};

export_as! {
    ["MPIT_Type_serialize"]
    /// Writes a type to memory as a message. Local.
    fn Type_serialize(datatype: MPI_Datatype, target: *mut c_void, room: Aint, bytes: *mut Aint) -> c_int {
        returning("MPIT_Type_serialize", || {
            not_null(bytes, "the number of bytes")?;
            let room = usize::try_from(room).map_err(|_| wrong(format!("the size {room} is negative")))?;
            let message = initialized(datatype)?.to_wire();
            // SAFETY: capulet_types.h: `bytes` points to a number of the caller, because it is not null. A
            // message has fewer than 2^63 bytes.
            unsafe { store(bytes, message.len() as Aint) }?;
            if target.is_null() && room == 0 {
                return Ok(());
            }
            not_null(target, "the message")?;
            if room < message.len() {
                return Err(wrong(format!("{room} bytes are too few for a message of {}", message.len())));
            }
            // SAFETY: capulet_types.h: `target`, which is not null, points to `room` bytes of the caller,
            // and `room` is at least `message.len()`. The memory of the caller does not overlap the vector
            // `message`.
            unsafe { ptr::copy_nonoverlapping(message.as_ptr(), target.cast::<u8>(), message.len()) };
            Ok(())
        })
    }
}

export_as! {
    ["MPIT_Type_deserialize"]
    /// Builds a type from a message. Local.
    fn Type_deserialize(source: *const c_void, bytes: Aint, made: *mut MPI_Datatype) -> c_int {
        returning("MPIT_Type_deserialize", || {
            not_null(source, "the message")?;
            not_null(made, "the datatype")?;
            let bytes = usize::try_from(bytes).map_err(|_| wrong(format!("the size {bytes} is negative")))?;
            // SAFETY: capulet_types.h: `source`, which is not null, points to `bytes` bytes of the caller,
            // which no thread writes during this call.
            let message = unsafe { slice::from_raw_parts(source.cast::<u8>(), bytes) };
            let described =
                Datatype::from_wire(message).map_err(|error| failure(ErrorClass::Type, error.to_string()))?;
            let handle = MpiType::build(&described)?.into_handle()?;
            // SAFETY: capulet_types.h: `made` points to a handle of the caller, because it is not null.
            unsafe { store(made, handle) }
        })
    }
}
