//! The table of open files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;
use std::mem::Discriminant;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use capulet_adio::{File, Position, Request};
use capulet_drivers::Direction;

use crate::abi::{Fint, MPI_File};
use crate::group::OwnGroup;
use crate::handle::{FIRST, from_number, to_number};
use crate::handler::Attached;
use crate::report::Subject;

/// An open file.
pub(crate) struct OpenFile {
    /// The file in `capulet_adio`.
    pub(crate) file: File,
    /// The process group of the file.
    pub(crate) group: OwnGroup,
    /// The name of the file at open, for messages.
    pub(crate) name: String,
    /// The split collective access in progress.
    pub(crate) split: Mutex<Option<SplitAccess>>,
    /// The error handler attached to the file.
    pub(crate) handler: Attached,
}

impl OpenFile {
    /// The file of a failure. `file` is its handle.
    pub(crate) fn subject(&self, file: MPI_File) -> Subject<'_> {
        Subject { file, name: &self.name, group: Some(self.file.group()) }
    }
}

/// A split collective access in progress.
pub(crate) struct SplitAccess {
    /// The direction and the kind of position. Only the end function with the same kind ends the access.
    pub(crate) kind: (Direction, Discriminant<Position>),
    pub(crate) request: Request,
}

struct Table {
    /// A tree, because a program has few open files: a look-up takes less time than to hash the integer.
    files: BTreeMap<Fint, Arc<OpenFile>>,
    next: Fint,
}

impl Table {
    fn insert(&mut self, open: Arc<OpenFile>) -> Fint {
        loop {
            let number = self.next;
            self.next = number.checked_add(1).unwrap_or(FIRST);
            if let Vacant(place) = self.files.entry(number) {
                place.insert(open);
                return number;
            }
        }
    }
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// Adds a file to the table and returns its handle.
pub(crate) fn insert(open: Arc<OpenFile>) -> MPI_File {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = table.get_or_insert_with(|| Table { files: BTreeMap::new(), next: FIRST });
    from_number(table.insert(open))
}

/// The file of a handle. `None` for a null, stale or foreign handle.
pub(crate) fn find(handle: MPI_File) -> Option<Arc<OpenFile>> {
    let number = to_number(handle)?;
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.as_ref()?.files.get(&number).cloned()
}

/// Removes a file from the table. Its handle is stale from now on.
pub(crate) fn remove(handle: MPI_File) -> Option<Arc<OpenFile>> {
    let number = to_number(handle)?;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.as_mut()?.files.remove(&number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::file_null;

    #[test]
    fn foreign_handle_names_no_file() {
        let on_stack = 0_u8;
        let foreign: MPI_File = std::ptr::from_ref(&on_stack).cast_mut().cast();
        for handle in [file_null(), std::ptr::null_mut(), from_number(FIRST - 1), from_number(-1), foreign] {
            assert!(find(handle).is_none());
            assert!(remove(handle).is_none());
        }
    }
}
