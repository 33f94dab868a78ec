//! Rates and budgets: at most so much in a time, for each session, user, or whatever else.

use jiff::SignedDuration;
use serde_json::json;

use super::expression::{CelExpression, CelNumber};
use super::message_facts::MessageFacts;
use super::policy_state::QuotaCharge;

/// The factor of amounts. They are counted in millionths, so that sums of decimal numbers are exact.
pub(super) const UNIT: u64 = 1_000_000;
/// The maximum length of a name that is the key of a count unchanged, in bytes.
const MAX_KEY: usize = 128;

/// The limit of a rule. The rule applies to messages beyond the limit.
#[derive(Debug)]
pub(super) struct RateLimit {
    pub(super) cost: MessageCost,
    /// The maximum amount in [`RateLimit::within`], in millionths.
    pub(super) most: u64,
    pub(super) per: LimitScope,
    pub(super) within: SignedDuration,
}

/// The cost of a message.
#[derive(Debug)]
pub(super) enum MessageCost {
    /// Each message counts as one.
    Call,
    /// The result of this expression over the message.
    Spend(CelExpression),
}

/// The property of a message that a limit counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitScope {
    All,
    Session,
    /// The user with the token that acts for them.
    User,
    /// The token, also when it acts for users.
    Caller,
    Agent,
    Capability,
    Tool,
}

impl RateLimit {
    /// Returns the expression for the cost, if there is one.
    pub(super) const fn spend(&self) -> Option<&CelExpression> {
        match &self.cost {
            MessageCost::Call => None,
            MessageCost::Spend(expression) => Some(expression),
        }
    }

    /// Computes the charge of a message, or returns the name of an unknown fact that it depends on. Two
    /// messages that differ in the `per` property of the limit never share a count; messages that lack it,
    /// or in which it is masked, share one.
    ///
    /// # Errors
    /// The cost cannot be computed, or is not an amount.
    pub(super) fn compute_charge(
        &self,
        rule: &str,
        facts: &mut MessageFacts<'_>,
    ) -> Result<Result<QuotaCharge, String>, String> {
        let amount = match &self.cost {
            MessageCost::Call => UNIT,
            MessageCost::Spend(expression) => match facts.evaluate_number(expression)? {
                Ok(number) => to_millionths(number)?,
                Err(fact) => return Ok(Err(fact)),
            },
        };
        let of = facts.names();
        let (per, name) = match self.per {
            LimitScope::All => ("all", ""),
            LimitScope::Session => ("session", of.session),
            LimitScope::User if !of.caller.is_empty() => {
                return Ok(Ok(QuotaCharge {
                    rule: rule.to_owned(),
                    key: super::digest_of(&json!([of.caller, of.user]).to_string()),
                    amount,
                }));
            }
            LimitScope::User => ("user", of.user),
            // A token that acts for itself is the user.
            LimitScope::Caller if of.caller.is_empty() => ("caller", of.user),
            LimitScope::Caller => ("caller", of.caller),
            LimitScope::Agent => ("agent", of.agent),
            LimitScope::Capability => ("capability", of.capability),
            LimitScope::Tool => ("tool", of.tool),
        };
        let name = if name.len() <= MAX_KEY { name.to_owned() } else { super::digest_of(name) };
        Ok(Ok(QuotaCharge { rule: rule.to_owned(), key: format!("{per}:{name}"), amount }))
    }
}

/// Converts an amount to millionths.
///
/// # Errors
/// A negative number would give back the use of others, and a value that is not a number has no meaning.
fn to_millionths(number: CelNumber) -> Result<u64, String> {
    let millionths = match number {
        CelNumber::Integer(integer) => u64::try_from(integer).ok().map(|n| n.saturating_mul(UNIT)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative, and what is too large becomes the largest"
        )]
        CelNumber::Decimal(decimal) if decimal.is_finite() && 0.0 <= decimal => {
            Some((decimal * 1e6).round() as u64)
        }
        CelNumber::Decimal(_) => None,
    };
    millionths.ok_or_else(|| "results in an amount that is negative or not a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_never_negative() {
        assert_eq!(to_millionths(CelNumber::Integer(3)), Ok(3 * UNIT));
        assert_eq!(to_millionths(CelNumber::Decimal(0.1)), Ok(100_000));
        assert_eq!(to_millionths(CelNumber::Decimal(1e300)), Ok(u64::MAX));
        assert_eq!(to_millionths(CelNumber::Integer(i64::MAX)), Ok(u64::MAX));
        for bad in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(to_millionths(CelNumber::Decimal(bad)).is_err(), "{bad}");
        }
        assert!(to_millionths(CelNumber::Integer(-1)).is_err());
    }
}
