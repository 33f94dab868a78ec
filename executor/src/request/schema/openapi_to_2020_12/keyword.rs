//! Single keywords, as 2020-12 writes them; `None` for malformed ones.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::UnsentNames;

/// Creates the schema of a property that only the service sets. All other translated schemas allow a value.
pub(super) fn no_value_schema() -> Value {
    json!({ "enum": [] })
}

/// Returns the types; `None` when one of them is not a type.
pub(super) fn types(value: &Value) -> Option<Value> {
    const KNOWN: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let named: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    // A word that is not a type may mean any.
    if named.is_empty() || named.iter().any(|name| !KNOWN.contains(name)) {
        return None;
    }
    let unique: BTreeSet<&str> = named.into_iter().collect();
    Some(json!(unique))
}

/// The values of an `enum`, and their conversions to the type that the schema wants: `5` for `"5"` and the
/// reverse. YAML reads some unquoted words as numbers, and some tools turn all values into strings. `None`
/// where no value can have that type: the values are then meant for something else, such as the items of a
/// list.
pub(super) fn values(members: &Map<String, Value>, value: &Value) -> Option<Value> {
    let mut values = value.as_array().filter(|values| !values.is_empty())?.clone();
    let wanted: Vec<&str> = match members.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Some(Value::Array(values)),
    };
    let is_wanted = |value: &Value| {
        wanted.iter().any(|kind| match *kind {
            "string" => value.is_string(),
            "integer" | "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        })
    };
    let read = |value: &Value| match value {
        Value::Number(_) | Value::Bool(_) => Some(Value::String(value.to_string())),
        Value::String(text) => {
            serde_json::from_str(text).ok().filter(|read: &Value| !read.is_string())
        }
        _ => None,
    };
    let read: Vec<_> = values.iter().filter_map(read).filter(is_wanted).collect();
    values.extend(read);
    values.iter().any(is_wanted).then_some(Value::Array(values))
}

/// A closed bound, unless the boolean of 3.0 next to it makes it an open one.
pub(super) fn bound(members: &Map<String, Value>, key: &str, value: &Value) -> Option<Value> {
    let open = if key == "maximum" { "exclusiveMaximum" } else { "exclusiveMinimum" };
    let is_open = members.get(open) == Some(&Value::Bool(true));
    Some(value.clone()).filter(|value| value.is_number() && !is_open)
}

/// An open bound: a number, or the boolean of 3.0 next to a closed one.
pub(super) fn exclusive(members: &Map<String, Value>, key: &str, value: &Value) -> Option<Value> {
    let closed = if key == "exclusiveMaximum" { "maximum" } else { "minimum" };
    let bound = match value {
        Value::Bool(true) => members.get(closed)?,
        number => number,
    };
    Some(bound.clone()).filter(Value::is_number)
}

/// Returns a whole number, in any notation.
pub(super) fn count(value: &Value) -> Option<Value> {
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=9e15).contains(n))?;
        // In these bounds, nothing is lost.
        Some(number as u64)
    });
    whole.map(Value::from)
}

/// Returns the required names, without those that are not sent.
pub(super) fn required(value: &Value, hidden: &UnsentNames) -> Option<Value> {
    let names = value.as_array()?.iter().filter_map(Value::as_str);
    let names: BTreeSet<&str> = names.filter(|name| !hidden.contains(*name)).collect();
    Some(json!(names))
}

/// The names that are required when a member is present, for each such member.
pub(super) fn dependents(value: &Value, hidden: &UnsentNames) -> Option<Value> {
    let members = value.as_object()?.iter();
    let lists = members.map(|(name, names)| Some((name.clone(), required(names, hidden)?)));
    lists.collect::<Option<Map<_, _>>>().map(Value::Object)
}
