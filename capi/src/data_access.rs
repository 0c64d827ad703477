//! The arguments of the data access functions, and the macro that exports these functions (MPI 14.4).
//!
//! The functions differ in the position of the access and in the type of the count, and some have one more
//! argument, a status or a request. All functions of one kind call one Rust function.

use std::ffi::c_void;

use capulet_adio::{Coordination, Position, UserMemory};
use capulet_drivers::Direction;

use crate::abi::{Count, MPI_Datatype};
use crate::convert::{buffer, count, description};
use crate::failure::Failure;

/// The properties of an access that the name of the function determines, and the offset.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) direction: Direction,
    pub(crate) position: Position,
    pub(crate) coordination: Coordination,
}

/// The arguments of a data access function that describe its buffer.
pub(crate) struct Buffer {
    pub(crate) base: *mut c_void,
    pub(crate) count: Count,
    pub(crate) datatype: MPI_Datatype,
}

impl Buffer {
    /// Checks the arguments and imports the datatype.
    pub(crate) fn checked(self) -> Result<UserMemory, Failure> {
        let count = count(self.count)?;
        let datatype = description(self.datatype)?;
        buffer(self.base, count, &datatype)?;
        Ok(UserMemory { base: self.base.cast(), count, datatype })
    }
}

/// Exports data access functions that call `run(call, file, operation, buffer)`, or
/// `run(call, file, operation, buffer, last)` if a last argument is declared.
///
/// A row has the name of the function whose count is an `int`, the name of the function whose count is an
/// `MPI_Count`, and the parts of [`Operation`]. A function at an explicit position has the argument `offset`.
macro_rules! export_data_access {
    (
        $run:ident $last:tt, $about:literal;
        $($small:ident $large:ident: $direction:ident $position:ident $coordination:ident;)*
    ) => {
        $(
            $crate::data_access::export_data_access! {
                @$position $small, std::ffi::c_int, $direction, $coordination, $run $last, $about
            }
            $crate::data_access::export_data_access! {
                @$position $large, $crate::abi::Count, $direction, $coordination, $run $last, $about
            }
        )*
    };
    (@Explicit $($rest:tt)*) => {
        $crate::data_access::export_data_access! {
            @export (offset: $crate::abi::Offset) (capulet_adio::Position::Explicit(offset)) $($rest)*
        }
    };
    (@Individual $($rest:tt)*) => {
        $crate::data_access::export_data_access! { @export () (capulet_adio::Position::Individual) $($rest)* }
    };
    (@Shared $($rest:tt)*) => {
        $crate::data_access::export_data_access! { @export () (capulet_adio::Position::Shared) $($rest)* }
    };
    (
        @export ($($offset:ident: $offset_type:ty)?) ($position:expr) $name:ident, $count:ty,
        $direction:ident, $coordination:ident, $run:ident ($($last:ident: $last_type:ty)?), $about:literal
    ) => {
        $crate::abi::export! {
            #[doc = concat!("`MPI_", stringify!($name), "`. ", stringify!($coordination), ". ", $about)]
            fn $name(
                file: $crate::abi::MPI_File, $($offset: $offset_type,)? base: *mut std::ffi::c_void,
                count: $count, datatype: $crate::abi::MPI_Datatype $(, $last: $last_type)?
            ) -> std::ffi::c_int {
                let operation = $crate::data_access::Operation {
                    direction: capulet_drivers::Direction::$direction,
                    position: $position,
                    coordination: capulet_adio::Coordination::$coordination,
                };
                let count = $crate::abi::Count::from(count);
                let buffer = $crate::data_access::Buffer { base, count, datatype };
                // SAFETY: `# Safety` of the exported function (MPI 14.4): the buffer, the status and the
                // request of the caller are valid.
                unsafe { $run(concat!("MPI_", stringify!($name)), file, operation, buffer $(, $last)?) }
            }
        }
    };
}
pub(crate) use export_data_access;
