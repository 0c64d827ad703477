//! Calls of MPI's datatype constructors for one combiner, with `int` counts and with large counts.
//!
//! The constructors with `int` counts are used where the numbers fit: the old query functions return an
//! error for a type that was made with large counts (MPI-4.0 section 5.1.13).

use std::ffi::c_int;

use capulet_datatype::{ArrayOrder, Combiner, Distribution, Lengths};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::types::handle::OwnedType;
use crate::{consts, ffi};

/// Converts a number to the integer type of a constructor's parameter.
fn number<T, N: Copy + TryInto<T> + std::fmt::Display>(number: N) -> Result<T> {
    number.try_into().map_err(|_| {
        Error::invalid(
            ErrorClass::Count,
            format!("this MPI cannot express the number {number} of a datatype"),
        )
    })
}

fn numbers<T, N: Copy + TryInto<T> + std::fmt::Display>(list: &[N]) -> Result<Vec<T>> {
    list.iter().map(|value| number(*value)).collect()
}

fn lengths<T>(list: &Lengths) -> Result<Vec<T>>
where
    u64: TryInto<T>,
{
    list.iter().map(number).collect()
}

fn order_of(order: ArrayOrder) -> c_int {
    match order {
        ArrayOrder::C => consts::order_c(),
        ArrayOrder::Fortran => consts::order_fortran(),
    }
}

fn kind_and_argument((distribution, processes): (Distribution, u64)) -> Result<(c_int, c_int)> {
    let argument = |block: Option<u64>| match block {
        None => Ok(consts::distribute_default()),
        // MPI libraries compute the product of block size and process count in `int`, so the product must
        // fit, too.
        Some(block) => number::<c_int, _>(block.saturating_mul(processes)).and_then(|_| number(block)),
    };
    Ok(match distribution {
        Distribution::None => (consts::distribute_none(), consts::distribute_default()),
        Distribution::Block(block) => (consts::distribute_block(), argument(block)?),
        Distribution::Cyclic(block) => (consts::distribute_cyclic(), argument(block)?),
    })
}

/// Calls the constructor of `combiner` with the old type `old`, which must be valid. `combiner` is neither
/// a predefined type nor a struct.
pub(super) fn of_one_part(combiner: &Combiner, old: ffi::MPI_Datatype) -> Result<OwnedType> {
    match small::of_one_part(combiner, old) {
        #[cfg(has_large_counts)]
        Err(error) if error.class() == ErrorClass::Count => large::of_one_part(combiner, old),
        made => made,
    }
}

/// A struct of `types`, which must be valid. `places` are displacements in bytes.
pub(super) fn structure(blocks: &[u64], places: &[i64], types: &[ffi::MPI_Datatype]) -> Result<OwnedType> {
    match small::structure(blocks, places, types) {
        #[cfg(has_large_counts)]
        Err(error) if error.class() == ErrorClass::Count => large::structure(blocks, places, types),
        made => made,
    }
}

/// The valid type `old` with another lower bound and extent, in bytes.
pub(super) fn resized(lb: i64, extent: i64, old: ffi::MPI_Datatype) -> Result<OwnedType> {
    made("MPI_Type_create_resized", |new| {
        // SAFETY: the old type is valid. MPI writes one handle.
        unsafe { ffi::MPI_Type_create_resized(old, lb as ffi::MPI_Aint, extent as ffi::MPI_Aint, new) }
    })
}

/// A type of `count` consecutive bytes.
pub(super) fn bytes(count: u32) -> Result<OwnedType> {
    let count: c_int = number(count)?;
    made("MPI_Type_contiguous", |new| {
        // SAFETY: MPI_BYTE is a valid type. MPI writes one handle.
        unsafe { ffi::MPI_Type_contiguous(count, consts::byte(), new) }
    })
}

/// Runs `construct`, which calls the MPI function `call`, and takes over the handle that it writes.
fn made(call: &'static str, construct: impl FnOnce(*mut ffi::MPI_Datatype) -> c_int) -> Result<OwnedType> {
    let mut handle = consts::datatype_null();
    check(call, construct(&raw mut handle))?;
    Ok(OwnedType::take(handle))
}

/// Generates the constructor calls for one kind of counts: a module name, the types of counts and of byte
/// displacements, and the names of the MPI functions.
macro_rules! convention {
    (
        $module:ident, $length:ty, $bytes:ty,
        $contiguous:ident, $vector:ident, $hvector:ident, $indexed:ident, $hindexed:ident,
        $indexed_block:ident, $hindexed_block:ident, $structure:ident, $subarray:ident, $darray:ident
    ) => {
        mod $module {
            use super::*;

            type Length = $length;
            type Bytes = $bytes;

            pub(super) fn structure(
                blocks: &[u64],
                places: &[i64],
                types: &[ffi::MPI_Datatype],
            ) -> Result<OwnedType> {
                let (blocks, places) = (numbers::<Length, _>(blocks)?, numbers::<Bytes, _>(places)?);
                let count: Length = number(types.len())?;
                made(stringify!($structure), |new| {
                    // SAFETY: each of the three lists has `count` entries, and the types are valid. MPI
                    // writes one handle.
                    unsafe { ffi::$structure(count, blocks.as_ptr(), places.as_ptr(), types.as_ptr(), new) }
                })
            }

            pub(super) fn of_one_part(combiner: &Combiner, old: ffi::MPI_Datatype) -> Result<OwnedType> {
                match combiner {
                    Combiner::Indexed { .. }
                    | Combiner::Hindexed { .. }
                    | Combiner::IndexedBlock { .. }
                    | Combiner::HindexedBlock { .. } => listed(combiner, old),
                    Combiner::Subarray { .. } | Combiner::Darray { .. } => array(combiner, old),
                    _ => regular(combiner, old),
                }
            }

            fn regular(combiner: &Combiner, old: ffi::MPI_Datatype) -> Result<OwnedType> {
                match *combiner {
                    Combiner::Dup { .. } => OwnedType::duplicate_of(old),
                    Combiner::Resized { lb, extent, .. } => resized(lb, extent, old),
                    Combiner::Contiguous { count, .. } => {
                        let count: Length = number(count)?;
                        // SAFETY: the old type is valid. MPI writes one handle.
                        made(stringify!($contiguous), |new| unsafe { ffi::$contiguous(count, old, new) })
                    }
                    Combiner::Vector { count, blocklength, stride, .. } => {
                        let (count, block): (Length, Length) = (number(count)?, number(blocklength)?);
                        let stride: Length = number(stride)?;
                        // SAFETY: the old type is valid. MPI writes one handle.
                        made(stringify!($vector), |new| unsafe {
                            ffi::$vector(count, block, stride, old, new)
                        })
                    }
                    Combiner::Hvector { count, blocklength, stride_bytes, .. } => {
                        let (count, block): (Length, Length) = (number(count)?, number(blocklength)?);
                        let stride: Bytes = number(stride_bytes)?;
                        // SAFETY: the old type is valid. MPI writes one handle.
                        made(stringify!($hvector), |new| unsafe {
                            ffi::$hvector(count, block, stride, old, new)
                        })
                    }
                    _ => Err(Error::invalid(ErrorClass::Type, "a constructor that does not exist in MPI")),
                }
            }

            fn listed(combiner: &Combiner, old: ffi::MPI_Datatype) -> Result<OwnedType> {
                match combiner {
                    Combiner::Indexed { blocklengths, displacements, .. } => {
                        let (blocks, places) = (lengths(blocklengths)?, numbers::<Length, _>(displacements)?);
                        let count: Length = number(blocks.len())?;
                        // SAFETY: both lists have `count` entries, and the old type is valid. MPI writes
                        // one handle.
                        made(stringify!($indexed), |new| unsafe {
                            ffi::$indexed(count, blocks.as_ptr(), places.as_ptr(), old, new)
                        })
                    }
                    Combiner::Hindexed { blocklengths, displacements_bytes, .. } => {
                        let (blocks, places) =
                            (lengths(blocklengths)?, numbers::<Bytes, _>(displacements_bytes)?);
                        let count: Length = number(blocks.len())?;
                        // SAFETY: both lists have `count` entries, and the old type is valid. MPI writes
                        // one handle.
                        made(stringify!($hindexed), |new| unsafe {
                            ffi::$hindexed(count, blocks.as_ptr(), places.as_ptr(), old, new)
                        })
                    }
                    Combiner::IndexedBlock { blocklength, displacements, .. } => {
                        let (block, places): (Length, Vec<Length>) =
                            (number(*blocklength)?, numbers(displacements)?);
                        let count: Length = number(places.len())?;
                        // SAFETY: the list has `count` entries, and the old type is valid. MPI writes one
                        // handle.
                        made(stringify!($indexed_block), |new| unsafe {
                            ffi::$indexed_block(count, block, places.as_ptr(), old, new)
                        })
                    }
                    Combiner::HindexedBlock { blocklength, displacements_bytes, .. } => {
                        let (block, places): (Length, Vec<Bytes>) =
                            (number(*blocklength)?, numbers(displacements_bytes)?);
                        let count: Length = number(places.len())?;
                        // SAFETY: the list has `count` entries, and the old type is valid. MPI writes one
                        // handle.
                        made(stringify!($hindexed_block), |new| unsafe {
                            ffi::$hindexed_block(count, block, places.as_ptr(), old, new)
                        })
                    }
                    _ => Err(Error::invalid(ErrorClass::Type, "a constructor without lists")),
                }
            }

            fn array(combiner: &Combiner, old: ffi::MPI_Datatype) -> Result<OwnedType> {
                match combiner {
                    // The standard requires subsizes of at least 1 (MPI-4.0 section 5.1.3), so a type of 0
                    // bytes stands for an empty subarray.
                    Combiner::Subarray { subsizes, .. } if subsizes.contains(&0) => bytes(0),
                    Combiner::Subarray { sizes, subsizes, starts, order, .. } => {
                        let dims: c_int = number(sizes.len())?;
                        let sizes: Vec<Length> = numbers(sizes)?;
                        let (parts, starts): (Vec<Length>, Vec<Length>) =
                            (numbers(subsizes)?, numbers(starts)?);
                        let order = order_of(*order);
                        // SAFETY: each of the three lists has `dims` entries, and the old type is valid.
                        // MPI writes one handle.
                        made(stringify!($subarray), |new| unsafe {
                            let (sizes, parts) = (sizes.as_ptr(), parts.as_ptr());
                            ffi::$subarray(dims, sizes, parts, starts.as_ptr(), order, old, new)
                        })
                    }
                    Combiner::Darray { rank, gsizes, distributions, psizes, order, .. } => {
                        let processes = psizes.iter().product::<u64>();
                        let (processes, rank): (c_int, c_int) = (number(processes)?, number(*rank)?);
                        let dims: c_int = number(gsizes.len())?;
                        let (sizes, grid): (Vec<Length>, Vec<c_int>) = (numbers(gsizes)?, numbers(psizes)?);
                        let pairs =
                            distributions.iter().copied().zip(psizes.iter().copied()).map(kind_and_argument);
                        let (kinds, arguments): (Vec<_>, Vec<_>) =
                            pairs.collect::<Result<Vec<_>>>()?.into_iter().unzip();
                        let order = order_of(*order);
                        // SAFETY: each of the four lists has `dims` entries, and the old type is valid. MPI
                        // writes one handle.
                        made(stringify!($darray), |new| unsafe {
                            let (sizes, kinds) = (sizes.as_ptr(), kinds.as_ptr());
                            let (arguments, grid) = (arguments.as_ptr(), grid.as_ptr());
                            ffi::$darray(
                                processes, rank, dims, sizes, kinds, arguments, grid, order, old, new,
                            )
                        })
                    }
                    _ => Err(Error::invalid(ErrorClass::Type, "not an array constructor")),
                }
            }
        }
    };
}

convention! {
    small, c_int, ffi::MPI_Aint,
    MPI_Type_contiguous, MPI_Type_vector, MPI_Type_create_hvector, MPI_Type_indexed, MPI_Type_create_hindexed,
    MPI_Type_create_indexed_block, MPI_Type_create_hindexed_block, MPI_Type_create_struct,
    MPI_Type_create_subarray, MPI_Type_create_darray
}

#[cfg(has_large_counts)]
convention! {
    large, ffi::MPI_Count, ffi::MPI_Count,
    MPI_Type_contiguous_c, MPI_Type_vector_c, MPI_Type_create_hvector_c, MPI_Type_indexed_c,
    MPI_Type_create_hindexed_c, MPI_Type_create_indexed_block_c, MPI_Type_create_hindexed_block_c,
    MPI_Type_create_struct_c, MPI_Type_create_subarray_c, MPI_Type_create_darray_c
}
