//! Tests of the promises of the protocols: in every order of steps for a few processes (`exhaustive`),
//! and in random orders for many (`simulated`). Protocols with a known fault must fail (`mutants`,
//! and `exchange_mutants` for locks that use exchanges).

mod exchange_mutants;
mod exhaustive;
mod mutants;
mod simulated;
mod system;
