//! Storage drivers: the Driver and DriverFile traits, one module per storage, and wrappers. Knows no MPI.
