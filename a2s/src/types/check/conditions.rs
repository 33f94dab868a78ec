//! Conditions: CEL takes the values that it gets.

use serde_json::{Value, json};

use super::TypeChecker;
use crate::condition::Condition;
use crate::diagnostic::{Diagnostic, SourceLocation};
use crate::error_code;
use crate::field_reader::CompileMode;
use crate::types::JsonTypes;

/// Checks that a condition has an outcome for some values of the types that its references have. A
/// version that was already published is not rejected for this error.
pub(super) fn check_condition(
    checker: &mut TypeChecker<'_, '_>,
    condition: &Condition,
    site: &SourceLocation,
) {
    if checker.mode == CompileMode::Final {
        return;
    }
    let kinds = condition.references().iter();
    let kinds = kinds.map(|reference| checker.names.reference(reference, &checker.scope).kinds());
    let samples: Vec<Vec<Value>> = kinds.map(samples_of).collect();
    let Some(reason) = condition.type_error(&samples) else { return };
    let message = format!("`{}` cannot be evaluated: {reason}", condition.source());
    let hint = match condition.source().contains(".length") {
        true => "For the length of a list or a text, write `size(${name})`.".to_owned(),
        false => {
            "Compare values of one type; `size`, `int`, `double` and `string` convert.".to_owned()
        }
    };
    let found = Diagnostic::error(error_code::BAD_CONDITION, site.clone(), message);
    checker.report(checker.mode.refuse_when_new(found.with_hint(hint)), Vec::new());
}

/// Returns sample values of each kind, without items and members.
fn samples_of(kinds: JsonTypes) -> Vec<Value> {
    let all = [json!(null), json!(true), json!(1), json!(1.5), json!("text"), json!([]), json!({})];
    let mut samples: Vec<Value> =
        all.into_iter().filter(|value| kinds.contains(JsonTypes::from_value(value))).collect();
    if kinds.contains(JsonTypes::BOOLEAN) {
        samples.push(json!(false));
    }
    samples
}
