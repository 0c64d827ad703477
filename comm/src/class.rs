//! MPI error classes. The ranks of a collective operation agree on one of these classes as its outcome.

use std::ffi::c_int;
use std::fmt;

use crate::ffi;

unsafe extern "C" {
    static capulet_error_classes: [c_int; ErrorClass::ALL.len()];
    #[cfg(test)]
    static capulet_error_class_count: c_int;
}

/// Generates the enum, the list of all classes and their texts from one list, which has the order of
/// `consts.c`.
macro_rules! error_classes {
    ($($name:ident $text:literal,)*) => {
        /// An MPI error class that a file operation may return (MPI-4.0 sections 9.4 and 14.8).
        ///
        /// Each MPI library numbers the classes differently. [`ErrorClass::code`] gives the number in the
        /// library that this crate is built for. Ranks exchange a class as [`ErrorClass::to_wire`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum ErrorClass {
            $(#[doc = $text] $name,)*
        }

        impl ErrorClass {
            /// All classes, in the order of the wire numbers.
            pub const ALL: &'static [ErrorClass] = &[$(ErrorClass::$name),*];

            /// A short description of the class.
            pub const fn text(self) -> &'static str {
                match self {
                    $(ErrorClass::$name => $text,)*
                }
            }
        }
    };
}

error_classes! {
    Other "error of another kind",
    Arg "invalid argument",
    Count "invalid count",
    Buffer "invalid buffer",
    Type "invalid datatype",
    Comm "invalid communicator",
    Info "invalid info object",
    InfoKey "info key too long or empty",
    InfoValue "info value too long or invalid",
    InfoNoKey "no such info key",
    Request "invalid request",
    Rank "invalid rank",
    Root "invalid root",
    Tag "invalid tag",
    Group "invalid group",
    Op "invalid reduction operation",
    Truncate "message longer than the buffer",
    Pending "pending operation",
    Keyval "invalid attribute key",
    Window "invalid window",
    File "invalid file handle",
    BadFile "invalid file name",
    NoSuchFile "no such file",
    FileExists "file exists",
    FileInUse "file is in use",
    Amode "invalid or contradictory access mode",
    Access "permission denied",
    ReadOnly "read-only file or file system",
    NoSpace "not enough space",
    Quota "quota exceeded",
    NotSame "collective argument is not the same on all ranks",
    UnsupportedDatarep "unsupported data representation",
    UnsupportedOperation "unsupported operation",
    Conversion "error in a data conversion function",
    DupDatarep "data representation is already defined",
    Io "input/output error",
    NoMem "out of memory",
    Unknown "unknown error",
    Intern "internal error",
}

impl ErrorClass {
    /// The number of the class in this MPI library, which an `MPI_File_*` function returns. Local.
    pub fn code(self) -> c_int {
        // SAFETY: consts.c defines the array as a constant with exactly ALL.len() entries (the unit test
        // `tables_have_the_same_length` asserts the length). The array is never written. Its entries have
        // the order of ALL.
        let codes = unsafe { &capulet_error_classes };
        codes[self as usize]
    }

    /// The class of an error code that an MPI function returned, or [`ErrorClass::Other`] if `ErrorClass`
    /// has no name for the class. Local. MPI must be initialized unless the code is itself the number of a
    /// class.
    pub fn from_code(code: c_int) -> ErrorClass {
        if let Some(class) = Self::from_class(code) {
            return class;
        }
        let mut class = code;
        // SAFETY: MPI-4.0 section 9.4: MPI_Error_class takes a code by value and writes one int; the
        // pointer to that int is valid for the call.
        let status = unsafe { ffi::MPI_Error_class(code, &raw mut class) };
        if status == 0 { Self::from_class(class).unwrap_or(ErrorClass::Other) } else { ErrorClass::Other }
    }

    fn from_class(class: c_int) -> Option<ErrorClass> {
        Self::ALL.iter().copied().find(|candidate| candidate.code() == class)
    }

    /// The number by which ranks exchange a class. It is small, at least 1, and the same with every MPI
    /// library and in every version of this crate. 0 stands for success, so the maximum over the ranks is 0
    /// exactly if all ranks succeeded.
    pub fn to_wire(self) -> u64 {
        self as u64 + 1
    }

    /// The class of a wire number. `None` for 0, which means success. [`ErrorClass::Other`] for an unknown
    /// number.
    pub fn from_wire(wire: u64) -> Option<ErrorClass> {
        let index = wire.checked_sub(1)?;
        let class = usize::try_from(index).ok().and_then(|index| Self::ALL.get(index).copied());
        Some(class.unwrap_or(ErrorClass::Other))
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_same_length() {
        // SAFETY: consts.c defines this int as a constant, which is never written.
        let count = unsafe { capulet_error_class_count };
        assert_eq!(usize::try_from(count).expect("a length"), ErrorClass::ALL.len());
    }

    #[test]
    fn codes_are_distinct_and_round_trip() {
        for &class in ErrorClass::ALL {
            assert_ne!(class.code(), 0, "{class} has the code of success");
            assert_eq!(ErrorClass::from_class(class.code()), Some(class), "{class} shares its code");
        }
    }

    #[test]
    fn wire_numbers_round_trip_and_zero_is_success() {
        assert_eq!(ErrorClass::from_wire(0), None);
        for &class in ErrorClass::ALL {
            assert_eq!(ErrorClass::from_wire(class.to_wire()), Some(class));
        }
        assert_eq!(ErrorClass::from_wire(u64::MAX), Some(ErrorClass::Other));
    }

    #[test]
    fn codes_match_the_mpi_of_the_build() {
        let expected = if cfg!(mpi_family = "mpich") { (12, 32, 37) } else { (13, 35, 42) };
        let found = (ErrorClass::Arg.code(), ErrorClass::Io.code(), ErrorClass::NoSuchFile.code());
        assert_eq!(found, expected);
    }
}
