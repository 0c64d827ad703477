//! The result for one number of ranks.

use super::formulas::Formulas;
use super::rank::{Measured, Scene};

/// One view on one number of ranks.
pub(super) struct Row {
    pub(super) scene: Scene,
    pub(super) measured: Measured,
    pub(super) ours: Formulas,
    pub(super) romio: Formulas,
}
