//! The `MPITypes` toolkit in C. The header `include/capulet_types.h` documents each function.
//!
//! * `arguments`: checks of the types, counts, ranges and buffers of the caller
//! * `basic`: initialization and printing
//! * `copy`: memcpy and transpack
//! * `flatten`: the list and the number of the contiguous regions
//! * `message`: conversion of types to bytes and back
//! * `netcdf`: conversion to and from the types of netCDF files
//! * `segment`: processing of a range by leaf functions of the caller
//! * `leaves`: the calls of the leaf functions
//! * `sizes`: stream positions in element sizes of the caller
//!
//! A datatype is described once. The description, with the copy programs that are made from it, is an
//! attribute of the datatype ([`capulet_comm::MpiType::datatype_of`]). A duplicate of the datatype inherits
//! the attribute, and MPI drops it with the datatype. The toolkit keeps no other state.

mod arguments;
mod basic;
mod copy;
mod flatten;
mod leaves;
mod message;
mod netcdf;
mod segment;
mod sizes;
