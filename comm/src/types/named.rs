//! The predefined datatypes. A sorted table of their handles finds them.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use capulet_datatype::{Datatype, Named, Prim};

use crate::error::Result;
use crate::types::envelope::{Bounds, Envelope};
use crate::{consts, ffi};

#[repr(C)]
struct CEntry {
    handle: ffi::MPI_Datatype,
    name: *const c_char,
}

unsafe extern "C" {
    // The array has capulet_named_count entries. That number depends on the MPI library.
    static capulet_named_types: [CEntry; 0];
    static capulet_named_count: c_int;
}

#[derive(Debug)]
struct NamedEntry {
    bits: usize,
    handle: ffi::MPI_Datatype,
    named: Named,
    /// The description, made at the first use: only then does this module query the size of the type from
    /// MPI.
    described: OnceLock<Result<Datatype>>,
}

// SAFETY: the handle is a constant of the MPI library. The other fields are Send.
unsafe impl Send for NamedEntry {}
// SAFETY: the handle is a constant of the MPI library. The other fields are Sync.
unsafe impl Sync for NamedEntry {}

/// A number that is different for different handles.
fn bits(handle: ffi::MPI_Datatype) -> usize {
    #[cfg(mpi_family = "mpich")]
    return handle.0 as usize;
    #[cfg(mpi_family = "openmpi")]
    return handle.0.addr();
}

fn table() -> &'static [NamedEntry] {
    static TABLE: OnceLock<Vec<NamedEntry>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut entries: Vec<NamedEntry> = c_names()
            .filter(|(handle, _)| *handle != consts::datatype_null())
            .filter_map(|(handle, name)| {
                let named = Named::ALL.iter().copied().find(|named| named.name() == name)?;
                Some(NamedEntry { bits: bits(handle), handle, named, described: OnceLock::new() })
            })
            .collect();
        entries.sort_by_key(|entry| entry.bits);
        // Some MPI libraries have one handle for two names of the same type.
        entries.dedup_by_key(|entry| entry.bits);
        entries
    })
}

/// The table of consts.c.
fn c_names() -> impl Iterator<Item = (ffi::MPI_Datatype, &'static str)> {
    // SAFETY: consts.c defines the array as a constant with exactly capulet_named_count entries. It is
    // never written.
    let entries = unsafe {
        let first = (&raw const capulet_named_types).cast::<CEntry>();
        std::slice::from_raw_parts(first, capulet_named_count as usize)
    };
    entries.iter().map(|entry| {
        // SAFETY: consts.c initializes each name with a string literal, which ends with a zero and lives
        // for ever.
        let name = unsafe { CStr::from_ptr(entry.name) };
        (entry.handle, name.to_str().unwrap_or_default())
    })
}

fn lookup(handle: ffi::MPI_Datatype) -> Option<&'static NamedEntry> {
    let table = table();
    table.binary_search_by_key(&bits(handle), |entry| entry.bits).ok().map(|index| &table[index])
}

/// The description of a predefined type that is in the table.
pub(super) fn find(handle: ffi::MPI_Datatype) -> Option<Result<Datatype>> {
    let entry = lookup(handle)?;
    Some(entry.described.get_or_init(|| describe(entry.handle, entry.named)).clone())
}

/// The handle of a predefined type, if this MPI has it.
pub(super) fn handle_of(named: Named) -> Option<ffi::MPI_Datatype> {
    table().iter().find(|entry| entry.named == named).map(|entry| entry.handle)
}

/// The first predefined type of this MPI that consists of one such element. C types come before Fortran
/// types.
pub(super) fn of_element(element: Prim) -> Option<Named> {
    let is_it = |named: &Named| {
        let mut elements = named.elements();
        elements.next() == Some((0, element)) && elements.next().is_none()
    };
    Named::ALL.iter().copied().find(|named| is_it(named) && handle_of(*named).is_some())
}

/// Whether a type is predefined, so that it must not be freed: the table contains it, or its envelope says
/// so.
pub(super) fn is_predefined(handle: ffi::MPI_Datatype) -> bool {
    lookup(handle).is_some() || Envelope::of(handle).is_ok_and(|envelope| envelope.is_predefined())
}

/// The description for the name in the table. If the type has another size in this MPI, the description is
/// opaque.
fn describe(handle: ffi::MPI_Datatype, named: Named) -> Result<Datatype> {
    let bounds = Bounds::of(handle)?;
    if named.size() == bounds.size { bounds.give_to(&Datatype::named(named)) } else { unknown(handle) }
}

/// The opaque description of a predefined type of which only size and bounds are known.
pub(super) fn unknown(handle: ffi::MPI_Datatype) -> Result<Datatype> {
    let bounds = Bounds::of(handle)?;
    bounds.give_to(&Datatype::named(Named::Opaque { bytes: bounds.size as u32 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_table_is_known() {
        for (_, name) in c_names() {
            assert!(Named::ALL.iter().any(|named| named.name() == name), "{name}");
        }
        assert!(table().len() >= 50, "only {} types", table().len());
    }

    #[test]
    fn every_c_type_is_in_the_table() {
        for named in &Named::ALL[..30] {
            assert!(c_names().any(|(_, name)| name == named.name()), "{}", named.name());
        }
    }

    #[test]
    fn lookup_finds_predefined_handles_only() {
        let entry = lookup(consts::byte()).expect("MPI_BYTE is in the table");
        assert_eq!(entry.named, Named::Byte);
        assert!(lookup(consts::datatype_null()).is_none());
    }
}
