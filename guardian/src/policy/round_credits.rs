//! Charges of an execution whose agent may ask again in the same step. Pure.
//!
//! When a later guardian changes a request, the executor asks all guardians again, about the same execution.
//! The charges of the earlier round count for the next one.

use std::collections::VecDeque;

use super::policy_state::QuotaCharge;

/// The maximum number of executions that are stored. Without its credit, an execution is counted again.
const MAX_EXECUTIONS: usize = 256;
/// The maximum number of rounds that follow the first. An agent cannot use one charge for more of them.
const MAX_FURTHER_ROUNDS: u8 = 3;

/// The credits of the latest executions, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RoundCredits(VecDeque<RoundCredit>);

/// The charges that an execution has paid in this step.
#[derive(Debug)]
pub(super) struct RoundCredit {
    execution: String,
    further_rounds: u8,
    charges: Vec<QuotaCharge>,
}

impl RoundCredits {
    /// Removes and returns the credit of an execution.
    pub(super) fn take(&mut self, execution: &str) -> Option<RoundCredit> {
        let at = self.0.iter().position(|credit| credit.execution == execution)?;
        self.0.remove(at)
    }

    /// Stores the charges of a round, with those of the rounds before it.
    pub(super) fn store(
        &mut self,
        execution: String,
        earlier: Option<RoundCredit>,
        charges: &[QuotaCharge],
    ) {
        let further_rounds = earlier.as_ref().map_or(0, |earlier| earlier.further_rounds + 1);
        let mut all = earlier.map(|earlier| earlier.charges).unwrap_or_default();
        all.extend_from_slice(charges);
        if all.is_empty() || MAX_FURTHER_ROUNDS <= further_rounds {
            return;
        }
        self.restore(Some(RoundCredit { execution, further_rounds, charges: all }));
    }

    /// Stores a credit that was not used.
    pub(super) fn restore(&mut self, credit: Option<RoundCredit>) {
        if MAX_EXECUTIONS < self.0.len() + 1 {
            self.0.pop_front();
        }
        self.0.extend(credit);
    }

    /// Removes the credits of a charge that was reverted.
    pub(super) fn forget(&mut self, charge: &QuotaCharge) {
        for credit in &mut self.0 {
            credit.charges.retain(|paid| (&paid.rule, &paid.key) != (&charge.rule, &charge.key));
        }
    }
}

impl RoundCredit {
    /// Returns the amount that the execution has paid for the count of a charge.
    pub(super) fn paid_for(&self, charge: &QuotaCharge) -> u64 {
        let paid = self.charges.iter();
        let paid = paid.filter(|paid| (&paid.rule, &paid.key) == (&charge.rule, &charge.key));
        paid.fold(0, |sum, paid| sum.saturating_add(paid.amount))
    }
}
