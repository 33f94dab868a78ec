//! Values that are written as text, so that their types are lost on the way: `5` and `"5"` are one,
//! and so are a value and the list of it alone. Such a value fits when one of its readings does.

use std::collections::BTreeMap;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::types::JsonType;
use serde_json::Value;

use super::{MAX_VIOLATIONS, SchemaCheck, SchemaViolation};

/// The maximum number of interpretations of a value that are tried.
const MAX_COERCIONS: usize = 32;
/// The greatest depth of nested alternatives that are examined.
const MAX_NESTED: usize = 4;

/// The encoding of the part at one location of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenForm {
    /// As JSON: it keeps its type.
    Exact,
    /// A scalar as its text.
    Text,
    /// A scalar as its text, an object as the text of its JSON.
    Inline,
}

/// The parts that are read in another way, by location.
type CoercedValues = BTreeMap<String, Value>;

/// The distance of a reading from one that fits: its errors, and the number of them that are about types.
type ErrorCount = (usize, usize);

impl SchemaCheck {
    /// The violations of a value, with different encodings at its locations (JSON pointers). They describe
    /// the reading that is closest to fitting.
    pub(crate) fn violations_as_written(
        &self,
        value: &Value,
        spelling: impl Fn(&str) -> WrittenForm,
    ) -> Vec<SchemaViolation> {
        if self.violations(value).is_empty() {
            return Vec::new();
        }
        let mut nearest: Option<(ErrorCount, Vec<SchemaViolation>)> = None;
        let mut waiting = vec![CoercedValues::new()];
        for _ in 0..MAX_COERCIONS {
            let Some(changes) = waiting.pop() else { break };
            let reading = with_changes(value, &changes);
            let Some(errors) = self.errors(&reading) else { return Vec::new() };
            if errors.is_empty() {
                return Vec::new();
            }
            let about_types = errors.iter().filter(|error| wanted_type(error).is_some()).count();
            let distance = (errors.len(), about_types);
            if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
                let violations = errors.iter().take(MAX_VIOLATIONS);
                let violations = violations
                    .map(|error| SchemaViolation::from_error(error, &self.origins))
                    .collect();
                nearest = Some((distance, violations));
            }
            // Each alternative may want another reading.
            for wanted in alternatives(&errors, 0).into_iter().rev() {
                let mut next = changes.clone();
                for error in wanted {
                    let at = error.instance_path().as_str();
                    if !changes.contains_key(at)
                        && let Some(other) = coerce_value(&reading, at, error, spelling(at))
                    {
                        next.insert(at.to_owned(), other);
                    }
                }
                if next.len() > changes.len() {
                    waiting.push(next);
                }
            }
        }
        nearest.map_or_else(Vec::new, |(_, violations)| violations)
    }
}

fn with_changes(value: &Value, changes: &CoercedValues) -> Value {
    let mut reading = value.clone();
    // A location precedes its children.
    for (at, other) in changes {
        if let Some(place) = reading.pointer_mut(at) {
            *place = other.clone();
        }
    }
    reading
}

/// Returns the groups of errors that lead to further interpretations: the errors of the value itself,
/// together with those of one alternative of each kind.
fn alternatives<'e>(
    errors: &'e [ValidationError<'_>],
    depth: usize,
) -> Vec<Vec<&'e ValidationError<'e>>> {
    use ValidationErrorKind::{AnyOf, OneOfNotValid};
    let direct: Vec<&ValidationError<'_>> = errors.iter().collect();
    let mut all = Vec::new();
    for error in errors {
        if let AnyOf { context } | OneOfNotValid { context } = error.kind()
            && depth < MAX_NESTED
        {
            for inner in context.iter().flat_map(|errors| alternatives(errors, depth + 1)) {
                if all.len() < MAX_COERCIONS {
                    all.push(direct.iter().copied().chain(inner).collect());
                }
            }
        }
    }
    if all.is_empty() {
        all.push(direct);
    }
    all
}

/// Returns the type that an error requires.
fn wanted_type<'e>(error: &'e ValidationError<'_>) -> Option<&'e TypeKind> {
    match error.kind() {
        ValidationErrorKind::Type { kind } => Some(kind),
        _ => None,
    }
}

/// Returns another interpretation of the value at a location, if it has one.
fn coerce_value(
    reading: &Value,
    at: &str,
    error: &ValidationError<'_>,
    spelling: WrittenForm,
) -> Option<Value> {
    if spelling == WrittenForm::Exact {
        return None;
    }
    let value = reading.pointer(at)?;
    let takes = |wanted: JsonType| match wanted_type(error) {
        Some(TypeKind::Single(kind)) => *kind == wanted,
        Some(TypeKind::Multiple(kinds)) => kinds.contains(wanted),
        None => false,
    };
    match value {
        Value::Array(_) | Value::Null => None,
        Value::Object(_) => {
            let is_text = spelling == WrittenForm::Inline && takes(JsonType::String);
            is_text.then(|| Value::String(value.to_string()))
        }
        alone if takes(JsonType::Array) => Some(Value::Array(vec![alone.clone()])),
        Value::Number(_) | Value::Bool(_) => Some(Value::String(value.to_string())),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(read @ (Value::Number(_) | Value::Bool(_))) => Some(read),
            Ok(read @ Value::Object(_))
                if spelling == WrittenForm::Inline && takes(JsonType::Object) =>
            {
                Some(read)
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use a2s::HttpMethod;
    use serde_json::json;

    use super::*;
    use crate::request::schema::ValueDirection;
    use crate::request::test_fixtures::operation;

    /// The violations of a value with the same encoding everywhere.
    fn violations(schema: &Value, value: &Value, spelling: WrittenForm) -> Vec<String> {
        let task = operation(HttpMethod::Post, "https://api.example", "/", &[]);
        let check = SchemaCheck::from_task_schema(&task, schema, ValueDirection::Request).unwrap();
        let violations = check.violations_as_written(value, |_| spelling);
        violations.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn check(schema: &Value, fitting: &[Value], misfitting: &[Value]) {
        for value in fitting {
            assert_eq!(violations(schema, value, WrittenForm::Text), [""; 0], "{value}");
        }
        for value in misfitting {
            assert_ne!(violations(schema, value, WrittenForm::Text), [""; 0], "{value}");
        }
    }

    #[test]
    fn text_is_read_as_what_the_schema_wants() {
        let small = json!({"type": "integer", "maximum": 9});
        check(&small, &[json!(5), json!("5")], &[json!("10"), json!("five"), json!(5.5)]);
        let digits = json!({"type": "string", "pattern": "^[0-9]+$"});
        check(&digits, &[json!(5), json!("5")], &[json!(-5), json!(true)]);
        check(&json!({"type": "boolean"}), &[json!("true")], &[json!("yes"), json!(1)]);
        check(&json!({"enum": ["1", "true"]}), &[json!(1), json!(true)], &[json!(2)]);
        let numbers = json!({"type": "array", "items": {"type": "integer"}});
        check(&numbers, &[json!(["1", 2]), json!(1), json!("1")], &[json!("x"), json!({})]);
        check(&json!({"type": "array", "minItems": 2}), &[], &[json!(1)]);
    }

    #[test]
    fn each_place_has_a_reading_of_its_own() {
        let both = json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        });
        check(&both, &[json!({"n": "1", "s": 2})], &[json!({"n": "x", "s": 2})]);
    }

    #[test]
    fn each_alternative_may_want_another_reading() {
        let one = json!({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}});
        let other = json!({
            "required": ["c"],
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        });
        let either = json!({"type": "object", "anyOf": [other, one]});
        check(&either, &[json!({"a": "1", "b": 2}), json!({"a": 1, "b": "2", "c": 0})], &[]);
        check(&either, &[json!({"a": "1", "b": "2"})], &[json!({"a": "x", "b": "2"})]);
    }

    #[test]
    fn the_nearest_reading_is_told_of() {
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "properties": {"n": {"type": "integer", "maximum": 9}},
        });
        let violations = |value: Value| violations(&schema, &value, WrittenForm::Text);
        assert_eq!(
            violations(json!({"n": "5"})),
            [r#"it lacks the member "name" (schema: required)"#]
        );
        let large = "`.n` is more than 9 (schema: properties/n/maximum)";
        assert_eq!(violations(json!({"n": "10", "name": "x"})), [large]);
        assert_eq!(violations(json!({"n": 10, "name": "x"})), [large]);
    }

    #[test]
    fn what_is_sent_as_json_is_read_as_what_it_is() {
        let number = json!({"type": "integer"});
        assert!(!violations(&number, &json!("5"), WrittenForm::Exact).is_empty());
        let text = json!({"type": "string"});
        for spelling in [WrittenForm::Exact, WrittenForm::Text] {
            assert!(!violations(&text, &json!({"a": 1}), spelling).is_empty());
            assert!(!violations(&json!({"type": "object"}), &json!("{}"), spelling).is_empty());
        }
        assert!(violations(&text, &json!({"a": 1}), WrittenForm::Inline).is_empty());
        assert!(
            violations(&json!({"type": "object"}), &json!("{}"), WrittenForm::Inline).is_empty()
        );
        assert!(
            !violations(&json!({"type": "object"}), &json!("{"), WrittenForm::Inline).is_empty()
        );
    }
}
