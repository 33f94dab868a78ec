//! The difference between the expected result and the actual one.

use serde_json::{Number, Value};

/// The most differences that are reported.
const MAX_DIFFERENCES: usize = 20;

/// A location at which two values differ.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputDifference {
    /// The location, as a JSONPath: `$.names[1]`.
    pub path: String,
    /// The expected value at that path; `None` when none is expected.
    pub expected: Option<Value>,
    /// The value found at that path; `None` when there is none.
    pub found: Option<Value>,
}

/// Compares two values. Members have no order, and numbers are compared by value: `1` and `1.0` are equal.
/// Returns the innermost differences, and only the first ones when there are many.
pub(super) fn compare(expected: &Value, found: &Value) -> Vec<OutputDifference> {
    let mut differences = Vec::new();
    compare_values("$", Some(expected), Some(found), &mut differences);
    differences
}

fn compare_values(
    path: &str,
    expected: Option<&Value>,
    found: Option<&Value>,
    differences: &mut Vec<OutputDifference>,
) {
    if differences.len() == MAX_DIFFERENCES {
        return;
    }
    match (expected, found) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for (name, value) in one {
                compare_values(&member_path(path, name), Some(value), other.get(name), differences);
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                compare_values(&member_path(path, name), None, Some(value), differences);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                let path = format!("{path}[{index}]");
                compare_values(&path, one.get(index), other.get(index), differences);
            }
        }
        (Some(Value::Number(one)), Some(Value::Number(other))) if is_same_number(one, other) => {}
        (one, other) if one == other => {}
        (one, other) => differences.push(OutputDifference {
            path: path.to_owned(),
            expected: one.cloned(),
            found: other.cloned(),
        }),
    }
}

fn is_same_number(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        // A number with a point is the whole one that is written alike.
        (Some(whole), None) => is_integer(other, whole),
        (None, Some(whole)) => is_integer(one, whole),
    }
}

fn is_integer(number: &Number, whole: i128) -> bool {
    // The sum makes one zero of both.
    let number = number.as_f64().map(|number| number + 0.0).filter(|number| number.fract() == 0.0);
    number.is_some_and(|number| format!("{number:.0}") == whole.to_string())
}

fn member_path(path: &str, name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_plain {
        format!("{path}.{name}")
    } else {
        format!("{path}['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(expected: &Value, found: &Value, differences: &[&str]) {
        let texts: Vec<String> = compare(expected, found)
            .into_iter()
            .map(|OutputDifference { path, expected, found }| {
                let write =
                    |value: Option<Value>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
                format!("{path}: {} {}", write(expected), write(found))
            })
            .collect();
        assert_eq!(texts, differences);
    }

    #[test]
    fn what_is_equal_has_no_differences() {
        check(&json!({"a": [1, 2.0], "b": null}), &json!({"b": null, "a": [1.0, 2]}), &[]);
        check(&json!(-0.0), &json!(0), &[]);
        check(&json!(0.1), &json!(0.1), &[]);
        check(&json!(u64::MAX), &json!(u64::MAX), &[]);
    }

    #[test]
    fn differences_are_told_where_they_are() {
        check(
            &json!({"a": [{"b": 1}, {"b": 2}], "c": 1, "x y": 0}),
            &json!({"a": [{"b": 1}, {"b": "2"}, 3], "d": {}, "x y": 1}),
            &["$.a[1].b: 2 \"2\"", "$.a[2]: - 3", "$.c: 1 -", "$['x y']: 0 1", "$.d: - {}"],
        );
        check(&json!(null), &json!([]), &["$: null []"]);
        check(&json!(1), &json!(1.5), &["$: 1 1.5"]);
        check(&json!(true), &json!(1), &["$: true 1"]);
        // As numbers of floating point these two are one.
        check(
            &json!(9_007_199_254_740_993_u64),
            &json!(9_007_199_254_740_992_f64),
            &["$: 9007199254740993 9007199254740992.0"],
        );
    }

    #[test]
    fn of_many_differences_the_first_ones_are_told() {
        let (ones, twos) = (vec![1; 1000], vec![2; 1000]);
        assert_eq!(compare(&json!(ones), &json!(twos)).len(), MAX_DIFFERENCES);
    }
}
