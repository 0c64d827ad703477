//! The C ABI: every `MPI_File_*` function, under its `MPI_` and its `PMPI_` name, on every MPI.
//!
//! Loaded before the MPI library, by preloading or by being linked first, this library takes over file access
//! in unmodified programs. It is a thin coat on [`capulet_adio::File`]: handles, conversion, error handlers,
//! and a frame that no panic leaves. `symbols.txt` lists what is exported.
//!
//! * `handle`: the table of open files; `guard`: the frame around every entry; `errhandler`: error handlers
//!   of files
//! * `open`, `view`, `access`, `nonblocking`: the functions; `unsupported`: those that are not built yet;
//!   `fortran`: what Fortran needs
//! * `completion`: `MPI_Wait`, `MPI_Test` and their kin, which report errors of nonblocking access to the file's
//!   error handler; `pending`: the requests that they look for
//! * `toolkit`: the functions of `include/capulet_types.h`, on datatypes alone
//! * `environment`: the variables that are read, and the drivers that exist

mod abi;
mod access;
mod completion;
mod convert;
mod environment;
mod errhandler;
mod fortran;
mod group;
mod guard;
mod handle;
mod nonblocking;
mod open;
mod pending;
mod real;
mod report;
mod split;
mod toolkit;
mod unsupported;
mod view;
