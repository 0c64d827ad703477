//! Data access with Rust buffers: numbers, slices and arrays of types that have an MPI datatype in the
//! crate `mpi`.
//!
//! A file can hold any bytes, so every bit pattern must be a valid value of the type of a read buffer
//! ([`zerocopy::FromBytes`]): a `bool` with the byte 2 would be undefined behavior. A write only reads
//! its buffer, so it has no such condition.

use capulet_comm::MpiType;
use capulet_sieve::Direction;
use mpi::raw::AsRaw;
use mpi::traits::{Buffer, BufferMut};
use zerocopy::FromBytes;

use crate::error::Result;
use crate::file::File;
use crate::transfer::{Coordination, Position, UserMemory};

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident($($offset:ident)?) $direction:ident $coordination:ident $position:expr;)*) => {
        impl File {
            $(accessors!(@one $(#[$doc])* $name($($offset)?) $direction $coordination $position);)*
        }
    };
    (@one $(#[$doc:meta])* $name:ident($($offset:ident)?) Read $coordination:ident $position:expr) => {
        $(#[$doc])*
        ///
        /// Returns the number of bytes read. It is less than the size of the buffer only at the end of
        /// the file.
        ///
        /// Every bit pattern must be a valid value of the type of the buffer ([`FromBytes`]); see
        /// [`File::read`].
        ///
        /// # Errors
        /// As [`File::access`].
        pub fn $name<B: BufferMut + FromBytes + ?Sized>(&self, $($offset: i64,)? buffer: &mut B) -> Result<u64> {
            let memory = memory_of_mut(buffer);
            // SAFETY: `# Safety` of `File::access`: `BufferMut` promises that `memory` describes the
            // buffer. The unique reference keeps the buffer valid, and free of other uses, until the call
            // returns.
            unsafe { self.access(Direction::Read, $position, Coordination::$coordination, memory) }.into_result()
        }
    };
    (@one $(#[$doc:meta])* $name:ident($($offset:ident)?) Write $coordination:ident $position:expr) => {
        $(#[$doc])*
        ///
        /// Returns the number of bytes written.
        ///
        /// # Errors
        /// As [`File::access`].
        pub fn $name<B: Buffer + ?Sized>(&self, $($offset: i64,)? buffer: &B) -> Result<u64> {
            let memory = memory_of(buffer);
            // SAFETY: `# Safety` of `File::access`: `Buffer` promises that `memory` describes the buffer,
            // which the shared reference keeps valid until the call returns. A write only reads it, as
            // every other holder of a shared reference does.
            unsafe { self.access(Direction::Write, $position, Coordination::$coordination, memory) }.into_result()
        }
    };
}

accessors! {
    /// Reads at `offset` etypes. Local; blocks for the storage (`MPI_File_read_at`).
    read_at(offset) Read Independent Position::Explicit(offset);
    /// Reads at `offset` etypes. Collective; blocks for the other ranks (`MPI_File_read_at_all`).
    read_at_all(offset) Read Collective Position::Explicit(offset);
    /// Reads at the individual file pointer. Local; blocks for the storage (`MPI_File_read`).
    ///
    /// ```
    /// fn numbers(file: &capulet_adio::File) -> capulet_adio::Result<[f64; 100]> {
    ///     let mut numbers = [0.0; 100];
    ///     file.read(&mut numbers)?;
    ///     Ok(numbers)
    /// }
    /// ```
    /// A file can hold the byte 2, which is not a valid `bool`:
    /// ```compile_fail,E0277
    /// fn flags(file: &capulet_adio::File) -> capulet_adio::Result<[bool; 100]> {
    ///     let mut flags = [false; 100];
    ///     file.read(&mut flags)?;
    ///     Ok(flags)
    /// }
    /// ```
    read() Read Independent Position::Individual;
    /// Reads at the individual file pointer. Collective; blocks for the other ranks (`MPI_File_read_all`).
    read_all() Read Collective Position::Individual;
    /// Reads at the shared file pointer. Local; blocks for the storage (`MPI_File_read_shared`).
    read_shared() Read Independent Position::Shared;
    /// Reads at the shared file pointer in the order of the ranks. Collective; blocks for the other ranks
    /// (`MPI_File_read_ordered`).
    read_ordered() Read Collective Position::Shared;
    /// Writes at `offset` etypes. Local; blocks for the storage (`MPI_File_write_at`).
    write_at(offset) Write Independent Position::Explicit(offset);
    /// Writes at `offset` etypes. Collective; blocks for the other ranks (`MPI_File_write_at_all`).
    write_at_all(offset) Write Collective Position::Explicit(offset);
    /// Writes at the individual file pointer. Local; blocks for the storage (`MPI_File_write`).
    write() Write Independent Position::Individual;
    /// Writes at the individual file pointer. Collective; blocks for the other ranks (`MPI_File_write_all`).
    write_all() Write Collective Position::Individual;
    /// Writes at the shared file pointer. Local; blocks for the storage (`MPI_File_write_shared`).
    write_shared() Write Independent Position::Shared;
    /// Writes at the shared file pointer in the order of the ranks. Collective; blocks for the other
    /// ranks (`MPI_File_write_ordered`).
    write_ordered() Write Collective Position::Shared;
}

fn memory_of<B: Buffer + ?Sized>(buffer: &B) -> Result<UserMemory> {
    describe(buffer.pointer().cast_mut().cast(), buffer)
}

fn memory_of_mut<B: BufferMut + ?Sized>(buffer: &mut B) -> Result<UserMemory> {
    describe(buffer.pointer_mut().cast(), buffer)
}

fn describe<B: mpi::traits::AsDatatype + mpi::traits::Collection + ?Sized>(
    base: *mut u8,
    buffer: &B,
) -> Result<UserMemory> {
    let datatype = buffer.as_datatype();
    // SAFETY: `# Safety` of `MpiType::import`: `mpi` returns a valid, committed datatype, which lives
    // until the end of this function.
    let imported = unsafe { MpiType::import(datatype.as_raw()) }?;
    Ok(UserMemory { base, count: buffer.count() as u64, datatype: imported.datatype().clone() })
}
