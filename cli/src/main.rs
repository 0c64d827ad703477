//! The capulet command.
fn main() {}
