//! The keywords of a schema that hold no schemas, as JSON Schema 2020-12 writes them.

use serde_json::{Map, Value, json};

use super::schema::{MAX_VALUES, SchemaDirection};
use crate::types::JsonTypes;

/// The maximum length of a description, in characters.
const MAX_TEXT: usize = 300;
/// The maximum number of values inside an example or a default.
const MAX_EXAMPLE: usize = 20;
/// The maximum length of the pattern of a value that is sent, in bytes.
const MAX_PATTERN: usize = 10_000;
/// The maximum number of values in the enumeration of a value that is sent.
const MAX_CHOICES: usize = 5_000;
/// The maximum number of values of an enumeration for which other values with the same meaning are
/// searched. A longer enumeration is shown without this search.
const MAX_COMPARED: usize = 500;

/// The keywords that are copied unchanged, and the type of each keyword's value.
const PLAIN: [(&str, JsonTypes); 21] = [
    ("title", JsonTypes::STRING),
    ("description", JsonTypes::STRING),
    ("format", JsonTypes::STRING),
    ("pattern", JsonTypes::STRING),
    ("contentEncoding", JsonTypes::STRING),
    ("contentMediaType", JsonTypes::STRING),
    ("multipleOf", JsonTypes::NUMBER),
    ("maximum", JsonTypes::NUMBER),
    ("minimum", JsonTypes::NUMBER),
    ("exclusiveMaximum", JsonTypes::NUMBER),
    ("exclusiveMinimum", JsonTypes::NUMBER),
    ("maxLength", JsonTypes::INTEGER),
    ("minLength", JsonTypes::INTEGER),
    ("maxItems", JsonTypes::INTEGER),
    ("minItems", JsonTypes::INTEGER),
    ("maxProperties", JsonTypes::INTEGER),
    ("minProperties", JsonTypes::INTEGER),
    ("uniqueItems", JsonTypes::BOOLEAN),
    ("deprecated", JsonTypes::BOOLEAN),
    ("readOnly", JsonTypes::BOOLEAN),
    ("writeOnly", JsonTypes::BOOLEAN),
];

/// Keywords that give information and neither allow nor forbid anything.
pub(super) const ANNOTATIONS: [&str; 7] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Writes the keywords of a schema that do not contain schemas. A value that is sent must fit these
/// keywords, as the executor reads them. For a response, they may be less strict.
pub(super) fn write_keywords(
    members: &Map<String, Value>,
    direction: SchemaDirection,
    is_openapi_3_0: bool,
) -> Map<String, Value> {
    let mut schema = Map::new();
    let (kinds, choices) = match direction {
        SchemaDirection::In => sent_types(members, is_openapi_3_0),
        SchemaDirection::Out => types(members),
    };
    if let Some(Value::Object(typed)) = kinds.map(write_kinds) {
        schema.extend(typed);
    }
    schema.extend(choices.map(|choices| ("enum".to_owned(), Value::Array(choices))));
    for (key, kind) in PLAIN {
        if let Some(value) = members.get(key).and_then(|value| plain(key, kind, value, direction)) {
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
        let is_rule = key == "const" && direction == SchemaDirection::In;
        if let Some(value) = members.get(key).filter(|value| is_rule || is_small(value)) {
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

/// The kinds in `type` and the values in `enum` that the executor accepts for a sent value. A value of
/// another type can represent one of the wanted type, such as `"5"` for 5, and only OpenAPI 3.0 has
/// `nullable`.
fn sent_types(
    members: &Map<String, Value>,
    is_openapi_3_0: bool,
) -> (Option<JsonTypes>, Option<Vec<Value>>) {
    let nullable = is_openapi_3_0 && members.get("nullable") == Some(&json!(true));
    let kinds = named_kinds(members);
    let listed = members.get("enum").and_then(Value::as_array);
    let listed = listed.filter(|listed| (1..=MAX_CHOICES).contains(&listed.len()));
    let choices = listed.map(|listed| {
        let fits =
            |value: &Value| kinds.is_none_or(|kinds| kinds.contains(JsonTypes::from_value(value)));
        let mut choices: Vec<Value> = listed.iter().filter(|value| fits(value)).cloned().collect();
        if kinds.is_some() && listed.len() <= MAX_COMPARED {
            for other in listed.iter().filter_map(reread).filter(fits) {
                if !choices.contains(&other) {
                    choices.push(other);
                }
            }
        }
        choices
    });
    let mut choices = choices.filter(|choices| !choices.is_empty());
    if let Some(choices) = choices.as_mut().filter(|_| nullable)
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
    (kinds.map(|kinds| if nullable { kinds.or(JsonTypes::NULL) } else { kinds }), choices)
}

/// The value of another type that is equivalent to a value of an enumeration.
fn reread(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) | Value::Bool(_) => Some(Value::String(value.to_string())),
        Value::String(text) => {
            serde_json::from_str(text).ok().filter(|read: &Value| !read.is_string())
        }
        _ => None,
    }
}

/// Returns the types that the keyword `type` names; `None` when one of its words is not a type.
fn named_kinds(members: &Map<String, Value>) -> Option<JsonTypes> {
    let names: Vec<&str> = match members.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let kinds: Option<Vec<JsonTypes>> =
        names.iter().map(|name| JsonTypes::from_name(name)).collect();
    let kinds = kinds.filter(|kinds| !kinds.is_empty())?;
    Some(kinds.into_iter().fold(JsonTypes::NONE, JsonTypes::or))
}

/// Returns the types of `type` and the values of `enum`, both with null when `nullable` is true.
fn types(members: &Map<String, Value>) -> (Option<JsonTypes>, Option<Vec<Value>>) {
    let nullable = members.get("nullable") == Some(&json!(true));
    let kinds = named_kinds(members);
    let kinds = kinds.map(|kinds| if nullable { kinds.or(JsonTypes::NULL) } else { kinds });
    let choices = members.get("enum").and_then(Value::as_array);
    let choices = choices.filter(|choices| (1..=MAX_VALUES).contains(&choices.len()));
    let Some(mut choices) = choices.cloned() else { return (kinds, None) };
    if nullable && !choices.contains(&Value::Null) {
        choices.push(Value::Null);
    }
    // Null in the list was meant as such; other values that the type does not allow were meant in
    // another way than they were written.
    let null = if choices.contains(&Value::Null) { JsonTypes::NULL } else { JsonTypes::NONE };
    let kinds = kinds.map(|kinds| kinds.or(null));
    let fits =
        |value: &Value| kinds.is_none_or(|kinds| kinds.contains(JsonTypes::from_value(value)));
    let fit = choices.iter().all(fits);
    (kinds, fit.then_some(choices))
}

/// Returns the value of a keyword, if the value is valid.
fn plain(key: &str, kind: JsonTypes, value: &Value, direction: SchemaDirection) -> Option<Value> {
    let longest_pattern = if direction == SchemaDirection::In { MAX_PATTERN } else { MAX_TEXT };
    match value {
        value if !kind.contains(JsonTypes::from_value(value)) => None,
        Value::Number(number) if kind == JsonTypes::INTEGER => {
            let whole = || number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=9e15).contains(n));
            // In these bounds, nothing is lost.
            number.as_u64().or_else(|| Some(whole()? as u64)).map(Value::from)
        }
        Value::Number(number) if key == "multipleOf" => {
            number.as_f64().filter(|n| *n > 0.0).map(|_| value.clone())
        }
        Value::Bool(false) => None,
        Value::String(text) if key == "pattern" => {
            (text.len() <= longest_pattern).then(|| value.clone())
        }
        Value::String(text) if text.chars().count() > MAX_TEXT => {
            Some(json!(text.chars().take(MAX_TEXT - 1).chain(['…']).collect::<String>()))
        }
        value => Some(value.clone()),
    }
}

/// `{"type": …}`.
pub(super) fn write_kinds(kinds: JsonTypes) -> Value {
    match kinds.names().as_slice() {
        _ if kinds == JsonTypes::ANY => json!({}),
        [] => json!({}),
        [only] => json!({"type": only}),
        names => json!({"type": names}),
    }
}

/// Returns true when a value is short enough to be shown.
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
