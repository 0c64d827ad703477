//! Types as messages, and back.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use capulet_comm::{ErrorClass, MpiType};
use capulet_datatype::Datatype;

use crate::abi::{Aint, MPI_Datatype, export_as};
use crate::convert::store;
use crate::guard::{failure, returning};
use crate::toolkit::arguments::{initialized, not_null, wrong};

export_as! {
    ["MPIT_Type_serialize"]
    /// Writes a type to memory. Local.
    fn Type_serialize(datatype: MPI_Datatype, target: *mut c_void, room: Aint, bytes: *mut Aint) -> c_int {
        returning("MPIT_Type_serialize", || {
            not_null(bytes, "the number of bytes")?;
            let room = usize::try_from(room).map_err(|_| wrong(format!("a negative size, {room}")))?;
            let message = initialized(datatype)?.to_wire();
            // SAFETY: the caller's number. A message has less than 2^63 bytes.
            unsafe { store(bytes, message.len() as Aint) }?;
            if target.is_null() && room == 0 {
                return Ok(());
            }
            not_null(target, "the message")?;
            if room < message.len() {
                return Err(wrong(format!("{room} bytes for a message of {}", message.len())));
            }
            // SAFETY: not null, so the caller's memory of `room` bytes, which no value of ours is part of.
            unsafe { ptr::copy_nonoverlapping(message.as_ptr(), target.cast::<u8>(), message.len()) };
            Ok(())
        })
    }
}

export_as! {
    ["MPIT_Type_deserialize"]
    /// Makes a type from a message. Local.
    fn Type_deserialize(source: *const c_void, bytes: Aint, made: *mut MPI_Datatype) -> c_int {
        returning("MPIT_Type_deserialize", || {
            not_null(source, "the message")?;
            not_null(made, "the datatype")?;
            let bytes = usize::try_from(bytes).map_err(|_| wrong(format!("a negative size, {bytes}")))?;
            // SAFETY: not null, so the caller's memory of so many bytes, which nobody writes to during this call.
            let message = unsafe { slice::from_raw_parts(source.cast::<u8>(), bytes) };
            let described =
                Datatype::from_wire(message).map_err(|error| failure(ErrorClass::Type, error.to_string()))?;
            let handle = MpiType::build(&described)?.into_handle()?;
            // SAFETY: the caller's handle.
            unsafe { store(made, handle) }
        })
    }
}
