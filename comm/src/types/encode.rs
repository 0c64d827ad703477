//! Builds an MPI datatype from a description: the inverse of `contents` and `decode`.
//!
//! The builder calls the constructor that the description names, so the envelope and contents of the new
//! type equal those of the original type. If this MPI gives the new type other bounds than the description
//! has, the builder resizes the type. A part that occurs more than once is built once.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use capulet_datatype::{Combiner, Datatype, Named};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::ffi;
use crate::types::cache::cache;
use crate::types::envelope::Bounds;
use crate::types::handle::{Handle, OwnedType};
use crate::types::{construct, named};

/// A committed MPI type with the description `datatype`.
pub(super) fn build(datatype: &Datatype) -> Result<Handle> {
    let handle = Builder::default().build(datatype)?;
    if let Handle::Derived(owned) = &handle {
        let mut raw = owned.raw();
        // SAFETY: `owned` keeps the type valid. MPI reads the handle and writes it back unchanged.
        check("MPI_Type_commit", unsafe { ffi::MPI_Type_commit(&raw mut raw) })?;
        cache(raw, datatype.clone())?;
    }
    Ok(handle)
}

/// The MPI types that are built so far. The key is the address of the description of a part. The addresses
/// stay valid and distinct, because the description of the whole type outlives the builder.
#[derive(Default)]
struct Builder {
    built: HashMap<*const Combiner, Handle>,
}

impl Builder {
    fn build(&mut self, datatype: &Datatype) -> Result<Handle> {
        let key = ptr::from_ref(datatype.combiner());
        if let Some(handle) = self.built.get(&key) {
            return Ok(handle.clone());
        }
        let made = match datatype.combiner() {
            Combiner::Named(named) => predefined(*named)?,
            combiner => Handle::Derived(Arc::new(self.derived(combiner)?)),
        };
        let handle = with_bounds_of(datatype, made)?;
        self.built.insert(key, handle.clone());
        Ok(handle)
    }

    fn derived(&mut self, combiner: &Combiner) -> Result<OwnedType> {
        match combiner {
            Combiner::Struct { blocklengths, displacements_bytes, types } => {
                let parts = types.iter().map(|part| self.build(part)).collect::<Result<Vec<_>>>()?;
                let raw: Vec<_> = parts.iter().map(Handle::raw).collect();
                construct::structure(blocklengths, displacements_bytes, &raw)
            }
            Combiner::Dup { old }
            | Combiner::Contiguous { old, .. }
            | Combiner::Vector { old, .. }
            | Combiner::Hvector { old, .. }
            | Combiner::Indexed { old, .. }
            | Combiner::Hindexed { old, .. }
            | Combiner::IndexedBlock { old, .. }
            | Combiner::HindexedBlock { old, .. }
            | Combiner::Subarray { old, .. }
            | Combiner::Darray { old, .. }
            | Combiner::Resized { old, .. } => {
                let old = self.build(old)?;
                construct::of_one_part(combiner, old.raw())
            }
            _ => Err(Error::invalid(ErrorClass::Type, "a constructor that does not exist in MPI")),
        }
    }
}

/// The type of this MPI for a predefined type: the type of the same name, else a type of the same
/// representation, else a contiguous type of as many bytes.
fn predefined(wanted: Named) -> Result<Handle> {
    let by_name = named::handle_of(wanted);
    let mut elements = wanted.elements();
    let by_element = || match (elements.next(), elements.next()) {
        (Some((0, element)), None) => named::of_element(element).and_then(named::handle_of),
        _ => None,
    };
    match by_name.or_else(by_element) {
        Some(handle) if Bounds::of(handle)?.size == wanted.size() => Ok(Handle::Predefined(handle)),
        _ => Ok(Handle::Derived(Arc::new(construct::bytes(wanted.size() as u32)?))),
    }
}

/// `made`, resized if its bounds differ from the bounds of `datatype`.
fn with_bounds_of(datatype: &Datatype, made: Handle) -> Result<Handle> {
    let bounds = Bounds::of(made.raw())?;
    if bounds.size != datatype.size() {
        let reason = format!("a type of {} bytes has {} bytes in this MPI", datatype.size(), bounds.size);
        return Err(Error::invalid(ErrorClass::Type, reason));
    }
    if bounds.are_those_of(datatype) {
        return Ok(made);
    }
    let resized = construct::resized(datatype.lb(), datatype.extent(), made.raw())?;
    Ok(Handle::Derived(Arc::new(resized)))
}
