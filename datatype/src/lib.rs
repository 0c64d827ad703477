//! MPI datatypes as canonical symbolic layouts: bounds, cursors, packing and typed copies. Knows no MPI, no files.
