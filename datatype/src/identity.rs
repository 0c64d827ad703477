//! Equivalence of types, and a hash that equivalent types share.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::piece::mix;
use crate::tree::Datatype;

impl Datatype {
    /// A hash of what the type means to a file or a buffer. Types that are equivalent (see
    /// [`Datatype::is_equivalent`]) have the same hash on every machine that runs this version. Other
    /// types have a different hash, except with a probability of about 2^-100. The hash gives no
    /// protection against a party that searches for two types with the same hash. O(1) once the layout is
    /// made.
    pub fn content_hash(&self) -> u128 {
        let Bounds { lb, ub, true_lb, true_ub } = self.bounds();
        let bounds = [lb, ub, true_lb, true_ub].map(|bound| bound as u64);
        let layout = self.layout().fingerprint();
        let numbers = bounds.into_iter().chain(layout).chain(self.signature().fingerprint());
        numbers.fold(0xca, mix)
    }

    /// Whether both types have the same bounds, signature and canonical layout. For types of up to 32
    /// runs, equivalence is equality of the type maps. Larger types with equal type maps but different
    /// descriptions may count as different.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.bounds() == other.bounds()
                && self.signature() == other.signature()
                && self.layout() == other.layout())
    }
}
