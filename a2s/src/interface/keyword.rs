//! The keywords of a schema that hold no schemas, as JSON Schema 2020-12 writes them.

use serde_json::{Map, Value, json};

use super::schema::MAX_VALUES;
use crate::types::Kinds;

/// The longest description, in characters.
const MAX_TEXT: usize = 300;
/// The most values inside an example or a default.
const MAX_EXAMPLE: usize = 20;

/// Keywords that stay as they are, and the kind of value that each has.
const PLAIN: [(&str, Kinds); 21] = [
    ("title", Kinds::STRING),
    ("description", Kinds::STRING),
    ("format", Kinds::STRING),
    ("pattern", Kinds::STRING),
    ("contentEncoding", Kinds::STRING),
    ("contentMediaType", Kinds::STRING),
    ("multipleOf", Kinds::NUMBER),
    ("maximum", Kinds::NUMBER),
    ("minimum", Kinds::NUMBER),
    ("exclusiveMaximum", Kinds::NUMBER),
    ("exclusiveMinimum", Kinds::NUMBER),
    ("maxLength", Kinds::INTEGER),
    ("minLength", Kinds::INTEGER),
    ("maxItems", Kinds::INTEGER),
    ("minItems", Kinds::INTEGER),
    ("maxProperties", Kinds::INTEGER),
    ("minProperties", Kinds::INTEGER),
    ("uniqueItems", Kinds::BOOLEAN),
    ("deprecated", Kinds::BOOLEAN),
    ("readOnly", Kinds::BOOLEAN),
    ("writeOnly", Kinds::BOOLEAN),
];

/// Keywords that tell something and neither allow nor forbid anything.
pub(super) const ANNOTATIONS: [&str; 7] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// The keywords of a schema that hold no schemas.
pub(super) fn write_keywords(members: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = Map::new();
    let (kinds, choices) = types(members);
    if let Some(Value::Object(typed)) = kinds.map(write_kinds) {
        schema.extend(typed);
    }
    schema.extend(choices.map(|choices| ("enum".to_owned(), Value::Array(choices))));
    for (key, kind) in PLAIN {
        if let Some(value) = members.get(key).and_then(|value| plain(key, kind, value)) {
            schema.insert(key.to_owned(), value);
        }
    }
    // In OpenAPI 3.0 these say how `minimum` and `maximum` are meant.
    for (key, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if members.get(key) == Some(&json!(true))
            && let Some(value) = schema.shift_remove(bound)
        {
            schema.insert(key.to_owned(), value);
        }
    }
    for key in ["const", "default"] {
        if let Some(value) = members.get(key).filter(|value| is_small(value)) {
            schema.insert(key.to_owned(), value.clone());
        }
    }
    let examples: Vec<&Value> = match (members.get("examples"), members.get("example")) {
        (Some(Value::Array(examples)), _) => examples.iter().take(3).collect(),
        (_, example) => example.into_iter().collect(),
    };
    if !examples.is_empty() && examples.iter().all(|example| is_small(example)) {
        schema.insert("examples".to_owned(), json!(examples));
    }
    schema
}

/// The kinds of `type` and the values of `enum`, both with null where `nullable` says so.
fn types(members: &Map<String, Value>) -> (Option<Kinds>, Option<Vec<Value>>) {
    let nullable = members.get("nullable") == Some(&json!(true));
    let names: Vec<&str> = match members.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kinds: Option<Vec<Kinds>> = names.iter().map(|name| Kinds::named(name)).collect();
    let kinds = kinds.filter(|kinds| !kinds.is_empty());
    let kinds = kinds.map(|kinds| {
        let kinds = kinds.into_iter().fold(Kinds::NONE, Kinds::or);
        if nullable { kinds.or(Kinds::NULL) } else { kinds }
    });
    let choices = members.get("enum").and_then(Value::as_array);
    let choices = choices.filter(|choices| (1..=MAX_VALUES).contains(&choices.len()));
    let Some(mut choices) = choices.cloned() else { return (kinds, None) };
    if nullable && !choices.contains(&Value::Null) {
        choices.push(Value::Null);
    }
    // Null in the list was meant as such; other values that the type does not allow were meant in
    // another way than they were written.
    let null = if choices.contains(&Value::Null) { Kinds::NULL } else { Kinds::NONE };
    let kinds = kinds.map(|kinds| kinds.or(null));
    let fits = |value: &Value| kinds.is_none_or(|kinds| kinds.contains(Kinds::of(value)));
    let fit = choices.iter().all(fits);
    (kinds, fit.then_some(choices))
}

/// The value of a keyword, when it is as it should be.
fn plain(key: &str, kind: Kinds, value: &Value) -> Option<Value> {
    let fits = kind.contains(Kinds::of(value))
        && match value {
            Value::Number(number) if kind == Kinds::INTEGER => number.is_u64(),
            Value::Number(number) if key == "multipleOf" => {
                number.as_f64().is_some_and(|n| n > 0.0)
            }
            Value::Bool(said) => *said,
            Value::String(text) => key != "pattern" || text.len() <= MAX_TEXT,
            _ => true,
        };
    match value {
        _ if !fits => None,
        Value::String(text) if text.chars().count() > MAX_TEXT => {
            Some(json!(text.chars().take(MAX_TEXT - 1).chain(['…']).collect::<String>()))
        }
        value => Some(value.clone()),
    }
}

/// `{"type": …}`.
pub(super) fn write_kinds(kinds: Kinds) -> Value {
    match kinds.names().as_slice() {
        _ if kinds == Kinds::ANY => json!({}),
        [] => json!({}),
        [only] => json!({"type": only}),
        names => json!({"type": names}),
    }
}

/// Whether a value is short enough to be shown.
pub(super) fn is_small(value: &Value) -> bool {
    fn take(value: &Value, left: &mut usize) -> bool {
        let Some(rest) = left.checked_sub(1) else { return false };
        *left = rest;
        match value {
            Value::String(text) => text.len() <= MAX_TEXT,
            Value::Array(items) => items.iter().all(|item| take(item, left)),
            Value::Object(members) => members.values().all(|member| take(member, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }
    let mut left = MAX_EXAMPLE;
    take(value, &mut left)
}
