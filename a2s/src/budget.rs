//! The budget of the checks of one document.

use std::cell::Cell;

/// The remaining budget; when it is used up, nothing more is known.
#[derive(Debug)]
pub(crate) struct AnalysisBudget(Cell<usize>);

impl AnalysisBudget {
    /// Creates a budget that is enough for every document that a person would write: a step uses a few
    /// hundred.
    pub(crate) fn for_document() -> Self {
        Self(Cell::new(100_000))
    }

    /// Creates a budget of this amount.
    pub(crate) fn with_amount(amount: usize) -> Self {
        Self(Cell::new(amount))
    }

    /// Spends `amount`. Returns false when less is left.
    pub(crate) fn spend(&self, amount: usize) -> bool {
        let left = self.0.get().checked_sub(amount);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}
