//! Rates and budgets: at most so much in a time, for each session, user, or whatever else.

use jiff::SignedDuration;
use serde_json::json;

use super::expression::{Expression, Number};
use super::message_facts::Facts;
use super::policy_state::Charge;

/// Amounts are counted in millionths, so that sums of decimal numbers are exact.
pub(super) const UNIT: u64 = 1_000_000;
/// Longest name that a count is kept under as it is, in bytes.
const MAX_KEY: usize = 128;

/// A rule with a limit applies to what goes beyond it.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) cost: Cost,
    /// The most in [`Limit::within`], in millionths.
    pub(super) most: u64,
    pub(super) per: Per,
    pub(super) within: SignedDuration,
}

/// What a message costs.
#[derive(Debug)]
pub(super) enum Cost {
    /// One, as every other.
    Call,
    /// What this expression over the message says.
    Spend(Expression),
}

/// What is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    All,
    Session,
    User,
    Agent,
    Capability,
    Tool,
}

impl Limit {
    /// What a message would use up. Two messages that differ in what the limit is `per` never share
    /// a count; those that lack it share one.
    ///
    /// # Errors
    /// The cost cannot be told, or is none.
    pub(super) fn charge(&self, rule: &str, facts: &mut Facts<'_>) -> Result<Charge, String> {
        let amount = match &self.cost {
            Cost::Call => UNIT,
            Cost::Spend(expression) => {
                millionths(expression.number(facts.variables(expression)?)?)?
            }
        };
        let of = facts.names();
        let (per, name) = match self.per {
            Per::All => ("all", ""),
            Per::Session => ("session", of.session),
            Per::User if !of.caller.is_empty() => {
                return Ok(Charge {
                    rule: rule.to_owned(),
                    key: super::digest_of(&json!([of.caller, of.user]).to_string()),
                    amount,
                });
            }
            Per::User => ("user", of.user),
            Per::Agent => ("agent", of.agent),
            Per::Capability => ("capability", of.capability),
            Per::Tool => ("tool", of.tool),
        };
        let name = if name.len() <= MAX_KEY { name.to_owned() } else { super::digest_of(name) };
        Ok(Charge { rule: rule.to_owned(), key: format!("{per}:{name}"), amount })
    }
}

/// # Errors
/// A negative number would give back what others have spent, and what is no number says nothing.
fn millionths(number: Number) -> Result<u64, String> {
    let millionths = match number {
        Number::Integer(integer) => u64::try_from(integer).ok().map(|n| n.saturating_mul(UNIT)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative, and what is too large becomes the largest"
        )]
        Number::Decimal(decimal) if decimal.is_finite() && 0.0 <= decimal => {
            Some((decimal * 1e6).round() as u64)
        }
        Number::Decimal(_) => None,
    };
    millionths.ok_or_else(|| "gives an amount that is negative or none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_never_negative() {
        assert_eq!(millionths(Number::Integer(3)), Ok(3 * UNIT));
        assert_eq!(millionths(Number::Decimal(0.1)), Ok(100_000));
        assert_eq!(millionths(Number::Decimal(1e300)), Ok(u64::MAX));
        assert_eq!(millionths(Number::Integer(i64::MAX)), Ok(u64::MAX));
        for bad in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(millionths(Number::Decimal(bad)).is_err(), "{bad}");
        }
        assert!(millionths(Number::Integer(-1)).is_err());
    }
}
