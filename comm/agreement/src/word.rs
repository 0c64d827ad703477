//! The atomic words of shared memory, as traits, so that a model checker can supply its own.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An atomic word. The semantics are those of the standard library's atomics.
pub trait Word<T>: Debug + Default {
    /// Loads the value.
    fn load(&self, order: Ordering) -> T;
    /// Stores a value.
    fn store(&self, value: T, order: Ordering);
    /// Adds to the value, which wraps, and returns the value before.
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts from the value, which wraps, and returns the value before.
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
}

/// A word of 32 bits.
pub trait Word32: Word<u32> {}
/// A word of 64 bits.
pub trait Word64: Word<u64> {}

impl<W: Word<u32>> Word32 for W {}
impl<W: Word<u64>> Word64 for W {}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value, order)
            }
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.fetch_sub(value, order)
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);
