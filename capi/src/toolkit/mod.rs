//! The `MPITypes` toolkit: `include/capulet_types.h`, which says what each function does.
//!
//! * `arguments`: the caller's types, counts, ranges and buffers, checked
//! * `basic`: initialization, printing; `copy`: memcpy and transpack; `flatten`: regions and their number
//! * `message`: types as bytes, and back; `netcdf`: conversion to and from the types of netCDF files
//! * `segment`: the caller's leaf functions over a range; `leaves`: those functions; `sizes`: positions in other sizes
//!
//! A type is described once and keeps its description, with the copy programs made from it, as an attribute
//! ([`capulet_comm::MpiType::datatype_of`]); a duplicate inherits it, and MPI drops it with the type. Nothing else is kept.

mod arguments;
mod basic;
mod copy;
mod flatten;
mod leaves;
mod message;
mod netcdf;
mod segment;
mod sizes;
