//! The C ABI of Capulet. It exports every `MPI_File_*` function under its `MPI_` and its `PMPI_` name, for
//! every supported MPI, so that unmodified programs do their file access with Capulet. This works if the
//! dynamic linker finds the library before the MPI library: preloaded, or linked first. The crate converts
//! handles and arguments, catches panics, calls error handlers, and passes the calls to
//! [`capulet_adio::File`]. It must not know how an access is carried out. `symbols.txt` lists the exported
//! symbols.
//!
//! ```text
//! mpicc program.c -o program            # a program that calls MPI_File_open, MPI_File_write_all, ...
//! mpiexec -n 4 env LD_PRELOAD=/path/to/libcapulet_openmpi.so ./program
//! ```
//!
//! | modules | content |
//! |---|---|
//! | `open`, `view` | functions on files, views and file pointers |
//! | `access`, `nonblocking`, `split` | data access: blocking, nonblocking and split collective functions |
//! | `data_access` | the arguments of these functions, and the macro that exports them |
//! | `completion`, `pending` | `MPI_Wait`, `MPI_Test` and similar functions; the requests in progress |
//! | `errhandler`, `handler` | the functions for error handlers; the error handlers |
//! | `fortran`, `unsupported` | functions for Fortran; functions that are not supported |
//! | `toolkit` | the functions of `include/capulet_types.h`, which process datatypes without files |
//! | `frame`, `verdict` | the frame around every function; what the error handler requires after a failure |
//! | `open_files`, `handle`, `group` | the table of open files, their handles and their process groups |
//! | `environment` | the environment variables, and the drivers |
//! | `abi`, `convert`, `failure` | types of the C ABI and export macros; checked arguments; failures |
//! | `mpi_library`, `report` | functions of the MPI library; messages on standard error, and aborts |

mod abi;
mod access;
mod completion;
mod convert;
mod data_access;
mod environment;
mod errhandler;
mod failure;
mod fortran;
mod frame;
mod group;
mod handle;
mod handler;
mod mpi_library;
mod nonblocking;
mod open;
mod open_files;
mod pending;
mod report;
mod split;
mod toolkit;
mod unsupported;
mod verdict;
mod view;
