//! The only door to MPI: communicators, nodes, shared windows, datatype import, error classes. Knows no files.
