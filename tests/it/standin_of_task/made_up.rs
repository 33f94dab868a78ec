//! Values made up from schemas: the same for the same schema, and fitting it.

use serde_json::{Map, Value, json};

use super::schema::Schemas;

/// Deeper than this, only what is required is made up.
const DEEP: usize = 6;
/// Deeper than this, nothing is: the schema refers to itself.
const TOO_DEEP: usize = 24;

/// A value that fits `schema`. `name` is what it is the value of.
pub(super) fn make_up(schemas: Schemas<'_>, schema: &Value, name: &str) -> Value {
    Maker { schemas }.value(&merged(schemas, schema, 0), name, 0)
}

struct Maker<'t> {
    schemas: Schemas<'t>,
}

/// The schema with its references, `allOf` and the first of its alternatives in one object.
fn merged(schemas: Schemas<'_>, schema: &Value, depth: usize) -> Map<String, Value> {
    let Some(own) = schema.as_object() else { return Map::new() };
    if depth > TOO_DEEP {
        return Map::new();
    }
    let mut whole = Map::new();
    let mut parts: Vec<&Value> = Vec::new();
    if let Some(target) = own.get("$ref").and_then(Value::as_str) {
        parts.extend(schemas.0.schema_at(target));
    }
    parts.extend(own.get("allOf").and_then(Value::as_array).into_iter().flatten());
    for choice in ["oneOf", "anyOf"] {
        let choices = own.get(choice).and_then(Value::as_array).into_iter().flatten();
        parts.extend(choices.into_iter().find(|choice| choice["type"] != "null"));
    }
    let parts = parts.into_iter().map(|part| merged(schemas, part, depth + 1));
    for part in parts.chain([own.clone()]) {
        for (key, value) in part {
            match (whole.get_mut(&key), value) {
                (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                    known.extend(more);
                }
                (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                    known.extend(more);
                }
                (_, value) => {
                    whole.insert(key, value);
                }
            }
        }
    }
    whole
}

impl Maker<'_> {
    fn value(&self, schema: &Map<String, Value>, name: &str, depth: usize) -> Value {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        let stated = schema.get("const").or_else(|| schema.get("example"));
        let stated = stated.or_else(|| list("examples").and_then(|values| values.first()));
        let stated = stated.or_else(|| schema.get("default"));
        if let Some(value) = stated.or_else(|| list("enum").and_then(|values| values.first())) {
            return value.clone();
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" => integer(schema),
            "number" => number(schema),
            "boolean" => Value::Bool(true),
            "null" => Value::Null,
            _ => Value::String(string(schema, name)),
        }
    }

    fn below(&self, schema: &Value, name: &str, depth: usize) -> Value {
        self.value(&merged(self.schemas, schema, 0), name, depth + 1)
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize) -> Value {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
        let mut members = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let needed = required.contains(&name.as_str()) && depth < TOO_DEEP;
            if depth < DEEP || needed {
                members.insert(name.clone(), self.below(property, name, depth));
            }
        }
        for name in required {
            if !members.contains_key(name) {
                members.insert(name.to_owned(), json!(name));
            }
        }
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        if let Some(others) = others
            && members.is_empty()
            && depth < DEEP
        {
            members.insert("key".to_owned(), self.below(others, "value", depth));
        }
        Value::Object(members)
    }

    fn array(&self, schema: &Map<String, Value>, name: &str, depth: usize) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let wanted = if depth < DEEP { least.max(1) } else { least };
        let count = wanted.min(bound("maxItems").unwrap_or(u64::MAX)).min(1000);
        let any = json!({ "type": "string" });
        let items = schema.get("items").unwrap_or(&any);
        (0..count).map(|_| self.below(items, name, depth)).collect()
    }
}

/// The type that a value is made up of.
fn kind(schema: &Map<String, Value>) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null").unwrap_or("null")
        }
        _ if schema.contains_key("properties") => "object",
        _ if schema.contains_key("additionalProperties") => "object",
        _ if schema.contains_key("items") => "array",
        _ => "string",
    }
}

/// The bounds of a number: the least, the most.
fn bounds(schema: &Map<String, Value>, step: f64) -> (f64, f64) {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    // True in OpenAPI 3.0, the bound itself in 3.1.
    let is_open = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let mut least = bound("minimum").unwrap_or(f64::NEG_INFINITY);
    let mut most = bound("maximum").unwrap_or(f64::INFINITY);
    if is_open("exclusiveMinimum") {
        least += step;
    }
    if is_open("exclusiveMaximum") {
        most -= step;
    }
    least = least.max(bound("exclusiveMinimum").map_or(least, |bound| bound + step));
    most = most.min(bound("exclusiveMaximum").map_or(most, |bound| bound - step));
    (least, most)
}

fn integer(schema: &Map<String, Value>) -> Value {
    let (least, most) = bounds(schema, 1.0);
    let mut value = 1.0_f64.max(least.ceil()).min(most.floor());
    if let Some(unit) = schema.get("multipleOf").and_then(Value::as_f64) {
        value = (value / unit).ceil() * unit;
    }
    let value = value as i64;
    json!(value)
}

fn number(schema: &Map<String, Value>) -> Value {
    let (least, most) = bounds(schema, 0.25);
    let mut value = 1.5_f64.max(least).min(most);
    if let Some(unit) = schema.get("multipleOf").and_then(Value::as_f64) {
        value = (value / unit).ceil() * unit;
    }
    json!(value)
}

fn string(schema: &Map<String, Value>, name: &str) -> String {
    let fixed = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-06-01",
        Some("date-time") => "2026-06-01T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("duration") => "PT1H",
        Some("uri" | "url" | "uri-reference") => "https://example.com/",
        Some("email" | "idn-email") => "somebody@example.com",
        Some("hostname" | "idn-hostname") => "example.com",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("uuid") => "01234567-89ab-4def-8123-456789abcdef",
        Some("byte") => "QUJD",
        _ => "",
    };
    let pattern = schema.get("pattern").and_then(Value::as_str);
    let pattern = pattern.and_then(|pattern| regex::Regex::new(pattern).ok());
    let mut text = if fixed.is_empty() { name.to_owned() } else { fixed.to_owned() };
    if let Some(pattern) = pattern.filter(|pattern| !pattern.is_match(&text)) {
        // Enough for what documents write; what fits none of them is found out when the answer is
        // held against its schema.
        let known = ["a", "A", "1", "1.5", "0123456789abcdef", "v1", "A1", "aB3dE6gH", "#012345"];
        let long: Vec<String> =
            (1..=64).map(|length| "0123456789abcdef".repeat(4)[..length].to_owned()).collect();
        let found = known
            .into_iter()
            .chain(long.iter().map(String::as_str))
            .find(|text| pattern.is_match(text));
        text = found.unwrap_or(&text).to_owned();
    }
    let bound =
        |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let length = text.chars().count();
    if let Some(least) = bound("minLength").filter(|least| length < *least) {
        text.extend(std::iter::repeat_n('x', least.min(10_000) - length));
    }
    if let Some(most) = bound("maxLength").filter(|most| length > *most) {
        text = text.chars().take(most).collect();
    }
    text
}
