//! The rings of tests that need processes: MPI programs, symbols, faults, the demo.
