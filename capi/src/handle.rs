//! The table of open files, and the integers that are their handles in C and Fortran.
//!
//! A handle is a small integer, cast to `MPI_File`. The same integer is the handle in C and in Fortran. A
//! look-up detects a stale or foreign handle, which does not crash. The table reuses an integer only
//! after about two billion other files were opened.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use capulet_adio::File;

use crate::abi::{Fint, MPI_File, file_null};
use crate::errhandler::Attached;
use crate::group::OwnGroup;
use crate::guard::Subject;
use crate::split::Begun;

/// The first handle. No handle is in the first page of addresses, where the standard ABI of MPI 5.0 has
/// its constants.
const FIRST: Fint = 4096;

/// An open file.
pub(crate) struct Entry {
    /// The file in `capulet_adio`.
    pub(crate) file: File,
    /// The process group of the file.
    pub(crate) group: OwnGroup,
    /// The name of the file at open, for messages.
    pub(crate) name: String,
    /// The split collective access in progress.
    pub(crate) split: Mutex<Option<Begun>>,
    /// The error handler attached to the file.
    pub(crate) handler: Attached,
}

impl Entry {
    /// The file of a failure. `file` is its handle.
    pub(crate) fn subject(&self, file: MPI_File) -> Subject<'_> {
        Subject { file, name: &self.name, group: Some(self.file.group()) }
    }
}

struct Table {
    /// A tree, because a program has few open files: a look-up takes less time than to hash the integer.
    files: BTreeMap<Fint, Arc<Entry>>,
    next: Fint,
}

impl Table {
    fn insert(&mut self, entry: Arc<Entry>) -> Fint {
        loop {
            let number = self.next;
            self.next = number.checked_add(1).unwrap_or(FIRST);
            if let Vacant(place) = self.files.entry(number) {
                place.insert(entry);
                return number;
            }
        }
    }
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// Adds a file to the table and returns its handle.
pub(crate) fn insert(entry: Arc<Entry>) -> MPI_File {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_with(|| Table { files: BTreeMap::new(), next: FIRST });
    from_number(table.insert(entry))
}

/// The file of a handle. `None` for a null, stale or foreign handle.
pub(crate) fn find(handle: MPI_File) -> Option<Arc<Entry>> {
    let number = to_number(handle)?;
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.as_ref()?.files.get(&number).cloned()
}

/// Removes a file from the table. Its handle is stale from now on.
pub(crate) fn remove(handle: MPI_File) -> Option<Arc<Entry>> {
    let number = to_number(handle)?;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.as_mut()?.files.remove(&number)
}

/// The integer of a handle. `None` for a pointer that is no handle of this library.
fn to_number(handle: MPI_File) -> Option<Fint> {
    Fint::try_from(handle.addr()).ok().filter(|&number| number >= FIRST)
}

fn from_number(number: Fint) -> MPI_File {
    std::ptr::without_provenance_mut(number as isize as usize)
}

/// `MPI_File_c2f`: the integer of the handle. 0 for `MPI_FILE_NULL`, as in the Fortran headers of MPICH
/// and Open MPI. A pointer that cannot be a handle becomes -1, which names no file.
pub(crate) fn to_fortran(handle: MPI_File) -> c_int {
    if handle.is_null() || handle == file_null() {
        return 0;
    }
    Fint::try_from(handle.addr()).unwrap_or(-1)
}

/// `MPI_File_f2c`: the handle with this integer. `MPI_FILE_NULL` for 0.
pub(crate) fn from_fortran(number: c_int) -> MPI_File {
    if number == 0 { file_null() } else { from_number(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_handle_is_zero_in_fortran() {
        assert_eq!(to_fortran(file_null()), 0);
        assert_eq!(from_fortran(0), file_null());
    }

    #[test]
    fn handles_convert_to_fortran_and_back() {
        for number in [FIRST, FIRST + 1, Fint::MAX] {
            let handle = from_number(number);
            assert_eq!(to_fortran(handle), number);
            assert_eq!(from_fortran(number), handle);
        }
    }

    #[test]
    fn foreign_handle_names_no_file() {
        let on_stack = 0_u8;
        let foreign: MPI_File = std::ptr::from_ref(&on_stack).cast_mut().cast();
        for handle in [file_null(), std::ptr::null_mut(), from_number(FIRST - 1), from_number(-1), foreign] {
            assert!(find(handle).is_none());
            assert!(remove(handle).is_none());
        }
        assert_eq!(to_fortran(foreign), -1);
    }
}
