//! The result for one number of ranks.

use super::formulas::Formulas;
use super::rank::{Measured, Scenario};

/// One view on one number of ranks.
pub(super) struct Row {
    pub(super) scenario: Scenario,
    pub(super) measured: Measured,
    pub(super) ours: Formulas,
    pub(super) romio: Formulas,
}
