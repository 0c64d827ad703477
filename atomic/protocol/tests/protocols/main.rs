//! What the protocols promise: in every order of steps for few processes, in orders at random for many; and that what has a fault is
//! found.

mod exhaustive;
mod mutants;
mod simulated;
mod system;
