//! Builds random datatypes by MPI: by the constructors with `int` arguments or, in an MPI library that has
//! them, by the constructors with large counts.

use std::ffi::c_int;

use capulet_comm::{MpiType, ffi};
use capulet_datatype::{ArrayOrder, Distribution};

use crate::support::spec::{Darray, Spec};

/// A type under construction. Dropping the value frees a derived type. A predefined type is not freed.
struct Built {
    handle: ffi::MPI_Datatype,
    derived: bool,
}

impl Drop for Built {
    fn drop(&mut self) {
        if self.derived {
            // SAFETY: this value owns the derived type, which is not used again.
            assert_eq!(unsafe { ffi::MPI_Type_free(&raw mut self.handle) }, 0, "the type can be freed");
        }
    }
}

/// The committed type of `spec`, which the caller frees by [`free`]. `None` if this MPI cannot make the
/// type.
pub(crate) fn construct(spec: &Spec, large: bool) -> Option<ffi::MPI_Datatype> {
    let mut built = build(spec, large)?;
    let mut handle = built.handle;
    // SAFETY: `built` holds a valid type. A predefined type is duplicated, so the handle that is freed or
    // returned is always a derived type that this function owns.
    unsafe {
        if !built.derived {
            assert_eq!(ffi::MPI_Type_dup(built.handle, &raw mut handle), 0, "{spec:?}");
        }
        built.derived = false;
        if ffi::MPI_Type_commit(&raw mut handle) != 0 {
            free(handle);
            return None;
        }
    }
    Some(handle)
}

pub(crate) fn free(mut handle: ffi::MPI_Datatype) {
    // SAFETY: the caller owns the derived type and does not use it again.
    assert_eq!(unsafe { ffi::MPI_Type_free(&raw mut handle) }, 0);
}

fn ints<T: Copy + TryInto<c_int>>(values: &[T]) -> Vec<c_int> {
    values
        .iter()
        .map(|value| (*value).try_into().unwrap_or_else(|_| panic!("the number fits in an int")))
        .collect()
}

fn addresses(values: &[i64]) -> Vec<ffi::MPI_Aint> {
    values.iter().map(|value| *value as ffi::MPI_Aint).collect()
}

fn order_of(order: ArrayOrder) -> c_int {
    match order {
        ArrayOrder::C => ffi::MPI_ORDER_C as c_int,
        ArrayOrder::Fortran => ffi::MPI_ORDER_FORTRAN as c_int,
    }
}

fn distribution_of(distribution: Distribution) -> (c_int, c_int) {
    let argument =
        |block: Option<u64>| block.map_or(ffi::MPI_DISTRIBUTE_DFLT_DARG as c_int, |block| block as c_int);
    match distribution {
        Distribution::None => (ffi::MPI_DISTRIBUTE_NONE as c_int, argument(None)),
        Distribution::Block(block) => (ffi::MPI_DISTRIBUTE_BLOCK as c_int, argument(block)),
        Distribution::Cyclic(block) => (ffi::MPI_DISTRIBUTE_CYCLIC as c_int, argument(block)),
    }
}

fn build(spec: &Spec, large: bool) -> Option<Built> {
    if let Spec::Named(named) = spec {
        let handle = MpiType::named(*named).expect("every MPI has these types").handle();
        return Some(Built { handle, derived: false });
    }
    // Open MPI fails for this type, and frees the old type although it does not own that type.
    if cfg!(mpi_family = "openmpi")
        && matches!(spec, Spec::Darray(_, old) if old.native().is_ok_and(|old| old.size() == 0))
    {
        return None;
    }
    #[cfg(has_large_counts)]
    if large {
        return build_large(spec);
    }
    build_small(spec, large)
}

fn small(value: u64) -> c_int {
    c_int::try_from(value).expect("the number fits in an int")
}

fn build_small(spec: &Spec, large: bool) -> Option<Built> {
    // SAFETY: mpi-sys defines this constant, which is never written.
    let mut made = unsafe { ffi::RSMPI_DATATYPE_NULL };
    let out = &raw mut made;
    let part = |old: &Spec| build(old, large);
    // SAFETY: all old types are valid: `part` keeps a derived one alive during the call. All lists have the
    // lengths that the counts state, and live during the call. MPI writes one handle.
    let status = unsafe {
        match spec {
            Spec::Named(_) => unreachable!("a predefined type has no constructor"),
            Spec::Dup(old) => ffi::MPI_Type_dup(part(old)?.handle, out),
            Spec::Contiguous(count, old) => ffi::MPI_Type_contiguous(small(*count), part(old)?.handle, out),
            Spec::Vector(count, length, stride, old) => {
                ffi::MPI_Type_vector(small(*count), small(*length), *stride as c_int, part(old)?.handle, out)
            }
            Spec::Hvector(count, length, stride, old) => {
                let stride = *stride as ffi::MPI_Aint;
                ffi::MPI_Type_create_hvector(small(*count), small(*length), stride, part(old)?.handle, out)
            }
            Spec::Indexed(lengths, at, old) => {
                let (lengths, at) = (ints(lengths), ints(at));
                let count = lengths.len() as c_int;
                ffi::MPI_Type_indexed(count, lengths.as_ptr(), at.as_ptr(), part(old)?.handle, out)
            }
            Spec::Hindexed(lengths, at, old) => {
                let (lengths, at) = (ints(lengths), addresses(at));
                let count = lengths.len() as c_int;
                ffi::MPI_Type_create_hindexed(count, lengths.as_ptr(), at.as_ptr(), part(old)?.handle, out)
            }
            Spec::IndexedBlock(length, at, old) => {
                let at = ints(at);
                let count = at.len() as c_int;
                let old = part(old)?;
                ffi::MPI_Type_create_indexed_block(count, small(*length), at.as_ptr(), old.handle, out)
            }
            Spec::HindexedBlock(length, at, old) => {
                let at = addresses(at);
                let count = at.len() as c_int;
                let old = part(old)?;
                ffi::MPI_Type_create_hindexed_block(count, small(*length), at.as_ptr(), old.handle, out)
            }
            Spec::Struct(lengths, at, types) => {
                let (lengths, at) = (ints(lengths), addresses(at));
                let parts = types.iter().map(part).collect::<Option<Vec<Built>>>()?;
                let handles: Vec<_> = parts.iter().map(|part| part.handle).collect();
                let count = lengths.len() as c_int;
                ffi::MPI_Type_create_struct(count, lengths.as_ptr(), at.as_ptr(), handles.as_ptr(), out)
            }
            Spec::Subarray(sizes, subsizes, starts, order, old) => {
                let (sizes, subsizes, starts) = (ints(sizes), ints(subsizes), ints(starts));
                let (dims, order, old) = (sizes.len() as c_int, order_of(*order), part(old)?);
                let (sizes, subsizes, starts) = (sizes.as_ptr(), subsizes.as_ptr(), starts.as_ptr());
                ffi::MPI_Type_create_subarray(dims, sizes, subsizes, starts, order, old.handle, out)
            }
            Spec::Darray(array, old) => {
                let c = CDarray::of(array);
                let gsizes = ints(&array.gsizes);
                let old = part(old)?;
                ffi::MPI_Type_create_darray(
                    c.processes,
                    c.rank,
                    c.kinds.len() as c_int,
                    gsizes.as_ptr(),
                    c.kinds.as_ptr(),
                    c.arguments.as_ptr(),
                    c.psizes.as_ptr(),
                    c.order,
                    old.handle,
                    out,
                )
            }
            Spec::Resized(lb, extent, old) => {
                let (lb, extent) = (*lb as ffi::MPI_Aint, *extent as ffi::MPI_Aint);
                ffi::MPI_Type_create_resized(part(old)?.handle, lb, extent, out)
            }
        }
    };
    (status == 0).then_some(Built { handle: made, derived: true })
}

/// The arguments that both darray constructors, with `int` and with large counts, take as `int`.
struct CDarray {
    processes: c_int,
    rank: c_int,
    kinds: Vec<c_int>,
    arguments: Vec<c_int>,
    psizes: Vec<c_int>,
    order: c_int,
}

impl CDarray {
    fn of(array: &Darray) -> Self {
        let (kinds, arguments) = array.distributions.iter().copied().map(distribution_of).unzip();
        CDarray {
            processes: small(array.psizes.iter().product()),
            rank: small(array.rank),
            kinds,
            arguments,
            psizes: ints(&array.psizes),
            order: order_of(array.order),
        }
    }
}

#[cfg(has_large_counts)]
fn counts(values: &[u64]) -> Vec<ffi::MPI_Count> {
    values.iter().map(|value| *value as ffi::MPI_Count).collect()
}

#[cfg(has_large_counts)]
fn build_large(spec: &Spec) -> Option<Built> {
    // SAFETY: mpi-sys defines this constant, which is never written.
    let mut made = unsafe { ffi::RSMPI_DATATYPE_NULL };
    let out = &raw mut made;
    let part = |old: &Spec| build(old, true);
    let large = |value: u64| value as ffi::MPI_Count;
    // SAFETY: all old types are valid: `part` keeps a derived one alive during the call. All lists have the
    // lengths that the counts state, and live during the call. MPI writes one handle.
    let status = unsafe {
        match spec {
            Spec::Named(_) => unreachable!("a predefined type has no constructor"),
            Spec::Dup(old) => ffi::MPI_Type_dup(part(old)?.handle, out),
            Spec::Contiguous(count, old) => ffi::MPI_Type_contiguous_c(large(*count), part(old)?.handle, out),
            Spec::Vector(count, length, stride, old) => {
                ffi::MPI_Type_vector_c(large(*count), large(*length), *stride, part(old)?.handle, out)
            }
            Spec::Hvector(count, length, stride, old) => {
                ffi::MPI_Type_create_hvector_c(large(*count), large(*length), *stride, part(old)?.handle, out)
            }
            Spec::Indexed(lengths, at, old) => {
                let lengths = counts(lengths);
                let count = lengths.len() as ffi::MPI_Count;
                ffi::MPI_Type_indexed_c(count, lengths.as_ptr(), at.as_ptr(), part(old)?.handle, out)
            }
            Spec::Hindexed(lengths, at, old) => {
                let lengths = counts(lengths);
                let count = lengths.len() as ffi::MPI_Count;
                ffi::MPI_Type_create_hindexed_c(count, lengths.as_ptr(), at.as_ptr(), part(old)?.handle, out)
            }
            Spec::IndexedBlock(length, at, old) => {
                let (count, old) = (at.len() as ffi::MPI_Count, part(old)?);
                ffi::MPI_Type_create_indexed_block_c(count, large(*length), at.as_ptr(), old.handle, out)
            }
            Spec::HindexedBlock(length, at, old) => {
                let (count, old) = (at.len() as ffi::MPI_Count, part(old)?);
                ffi::MPI_Type_create_hindexed_block_c(count, large(*length), at.as_ptr(), old.handle, out)
            }
            Spec::Struct(lengths, at, types) => {
                let lengths = counts(lengths);
                let parts = types.iter().map(part).collect::<Option<Vec<Built>>>()?;
                let handles: Vec<_> = parts.iter().map(|part| part.handle).collect();
                let count = lengths.len() as ffi::MPI_Count;
                ffi::MPI_Type_create_struct_c(count, lengths.as_ptr(), at.as_ptr(), handles.as_ptr(), out)
            }
            Spec::Subarray(sizes, subsizes, starts, order, old) => {
                let (sizes, subsizes, starts) = (counts(sizes), counts(subsizes), counts(starts));
                let (dims, order, old) = (sizes.len() as c_int, order_of(*order), part(old)?);
                let (sizes, subsizes, starts) = (sizes.as_ptr(), subsizes.as_ptr(), starts.as_ptr());
                ffi::MPI_Type_create_subarray_c(dims, sizes, subsizes, starts, order, old.handle, out)
            }
            Spec::Darray(array, old) => {
                let c = CDarray::of(array);
                let gsizes = counts(&array.gsizes);
                let old = part(old)?;
                ffi::MPI_Type_create_darray_c(
                    c.processes,
                    c.rank,
                    c.kinds.len() as c_int,
                    gsizes.as_ptr(),
                    c.kinds.as_ptr(),
                    c.arguments.as_ptr(),
                    c.psizes.as_ptr(),
                    c.order,
                    old.handle,
                    out,
                )
            }
            Spec::Resized(lb, extent, old) => {
                ffi::MPI_Type_create_resized_c(part(old)?.handle, *lb, *extent, out)
            }
        }
    };
    (status == 0).then_some(Built { handle: made, derived: true })
}
