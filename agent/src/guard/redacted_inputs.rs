//! Inputs with values that guardians may not see. Pure.

use a2s::HIDDEN;
use aos::message::Object;
use serde_json::json;

/// The inputs of a capability with values that guardians may not see: all except those that are known not
/// to be secret.
#[derive(Debug, Clone)]
pub struct RedactedInputs {
    open: Vec<String>,
}

impl RedactedInputs {
    /// Creates a rule that hides all inputs except those with these names.
    pub fn all_except(open: Vec<String>) -> Self {
        Self { open }
    }

    /// Replaces each hidden value with a placeholder.
    pub fn redact(&self, inputs: &mut Object) {
        for (_, value) in inputs.iter_mut().filter(|(name, _)| self.is_redacted(name)) {
            *value = json!(HIDDEN);
        }
    }

    /// Restores the values of `before` where the placeholder still is: guardians may replace a hidden
    /// value, but cannot move one.
    pub fn restore(&self, inputs: &mut Object, before: &Object) {
        for (name, value) in inputs.iter_mut().filter(|(name, _)| self.is_redacted(name)) {
            if *value == HIDDEN
                && let Some(hidden) = before.get(name)
            {
                value.clone_from(hidden);
            }
        }
    }

    fn is_redacted(&self, name: &str) -> bool {
        !self.open.iter().any(|open| open == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn guardians_see_no_secret_and_cannot_move_one() {
        let hidden = RedactedInputs::all_except(vec!["city".to_owned(), "day".to_owned()]);
        let before = object(json!({"pin": 1234, "key": "k", "city": "Bern"}));
        let mut inputs = before.clone();
        hidden.redact(&mut inputs);
        assert_eq!(inputs, object(json!({"pin": HIDDEN, "key": HIDDEN, "city": "Bern"})));
        hidden.restore(&mut inputs, &before);
        assert_eq!(inputs, before);
        // Another value in its place stays; a value is put where it came from, and nowhere else.
        let wanted = object(json!({"pin": 1, "city": HIDDEN, "day": HIDDEN, "other": HIDDEN}));
        let mut inputs = wanted.clone();
        hidden.restore(&mut inputs, &before);
        assert_eq!(inputs, wanted);
    }
}
