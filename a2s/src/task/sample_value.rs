//! Values made up from schemas.

mod sample_text;

use std::cell::Cell;

use serde_json::{Map, Number, Value, json};

use super::SchemaResolver;

/// Below this depth, only required values are made up.
const MAX_OPTIONAL_DEPTH: usize = 6;
/// The maximum depth of sample values. A deeper schema refers to itself.
const MAX_SAMPLE_DEPTH: usize = 24;
/// The maximum number of values that are made and copied for one sample.
const MAX_WORK: usize = 1_000_000;
/// The maximum number of schemas that are examined for one value.
const MAX_SCHEMAS: usize = 20_000;
/// The maximum number of items of a list.
const MAX_ITEMS: u64 = 1_000;

/// Returns sample values for the schema of a response: see [`SchemaResolver::samples`].
pub(super) fn samples<'t>(
    schemas: SchemaResolver<'t>,
    schema: &'t Value,
) -> impl Iterator<Item = Value> + 't {
    VARIANTS
        .iter()
        .map(move |variant| SampleGenerator::new(schemas, *variant).value(schema, "text", 0))
}

/// Returns the sample with the required values only.
pub(super) fn required_sample(schemas: SchemaResolver<'_>, schema: &Value) -> Value {
    let variant = SampleVariant { stated: true, everything: false, choice: 0 };
    SampleGenerator::new(schemas, variant).value(schema, "text", 0)
}

/// The settings for a made-up value.
#[derive(Debug, Clone, Copy)]
struct SampleVariant {
    /// True when examples and defaults of the schema are used as values.
    stated: bool,
    /// True when optional values are included, too: steps read them more often than not.
    everything: bool,
    /// The index of the chosen alternative.
    choice: usize,
}

/// The variants that are tried, in this order.
const VARIANTS: &[SampleVariant] = &[
    SampleVariant { stated: true, everything: true, choice: 0 },
    SampleVariant { stated: false, everything: true, choice: 0 },
    SampleVariant { stated: true, everything: true, choice: 1 },
    SampleVariant { stated: false, everything: true, choice: 1 },
    SampleVariant { stated: true, everything: false, choice: 0 },
    SampleVariant { stated: false, everything: false, choice: 0 },
    SampleVariant { stated: false, everything: true, choice: 2 },
];

/// A generator of sample values for one task.
struct SampleGenerator<'t> {
    schemas: SchemaResolver<'t>,
    variant: SampleVariant,
    budget: Cell<usize>,
    /// The number of values that may still be made or copied.
    work: Cell<usize>,
}

/// A schema merged with its references, its `allOf` and one of its alternatives.
type MergedSchema = Map<String, Value>;

impl<'t> SampleGenerator<'t> {
    fn new(schemas: SchemaResolver<'t>, variant: SampleVariant) -> Self {
        Self { schemas, variant, budget: Cell::new(MAX_SCHEMAS), work: Cell::new(MAX_WORK) }
    }

    /// Reserves the work for `values`. Returns false when too much was done already.
    fn reserve(&self, values: usize) -> bool {
        let left = self.work.get().checked_sub(values);
        self.work.set(left.unwrap_or_default());
        left.is_some()
    }

    /// Returns a sample value for a location called `name`.
    fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        if !self.reserve(1) {
            return Value::Null;
        }
        let whole = self.merge_schema(schema);
        let list = |key: &str| whole.get(key).and_then(Value::as_array);
        let choice = |values: &Vec<Value>| values.iter().find(|value| !value.is_null()).cloned();
        if let Some(value) = whole.get("const").cloned().or_else(|| list("enum").and_then(choice)) {
            return value;
        }
        if self.variant.stated {
            let first = list("examples").and_then(|examples| examples.first());
            let stated = whole.get("example").or(first).or_else(|| whole.get("default"));
            if let Some(value) = stated.filter(|value| !value.is_null()) {
                return value.clone();
            }
        }
        if depth > MAX_SAMPLE_DEPTH {
            return Value::Null;
        }
        match kind(&whole) {
            "object" => self.object(&whole, depth),
            "array" => self.array(&whole, name, depth),
            kind @ ("integer" | "number") => number(&whole, kind == "integer"),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => json!(sample_text::make(&whole, name)),
        }
    }

    fn merge_schema(&self, schema: &Value) -> MergedSchema {
        let mut whole = MergedSchema::new();
        self.merge(schema, 0, &mut whole);
        whole
    }

    fn merge(&self, schema: &Value, depth: usize, whole: &mut MergedSchema) {
        let Some(own) = schema.as_object() else { return };
        let Some(left) = self.budget.get().checked_sub(1) else { return };
        self.budget.set(left);
        if depth > MAX_SAMPLE_DEPTH {
            return;
        }
        let target = own.get("$ref").and_then(Value::as_str);
        if let Some(target) = target.and_then(|target| self.schemas.resolve(target)) {
            self.merge(target, depth + 1, whole);
        }
        for part in own.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.merge(part, depth + 1, whole);
        }
        for alternatives in ["oneOf", "anyOf"] {
            let choices = own.get(alternatives).and_then(Value::as_array).into_iter().flatten();
            let choices: Vec<_> = choices.filter(|one| one["type"] != "null").collect();
            let chosen = choices.get(self.variant.choice).or_else(|| choices.first());
            if let Some(chosen) = chosen {
                self.merge(chosen, depth + 1, whole);
            }
        }
        for (key, value) in own {
            if !self.reserve(count_values(value)) {
                return;
            }
            match (whole.get_mut(key), value) {
                (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                    known.extend(more.clone());
                }
                (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                    known.extend(more.clone());
                }
                _ => {
                    whole.insert(key.clone(), value.clone());
                }
            }
        }
    }

    fn object(&self, schema: &MergedSchema, depth: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        let wants_all = self.variant.everything && depth < MAX_OPTIONAL_DEPTH;
        let mut members = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            // A service keeps it to itself.
            let is_hidden = property.get("writeOnly") == Some(&Value::Bool(true));
            let is_needed = required.contains(&name.as_str()) || count(&members) < least;
            if !is_hidden && (is_needed || wants_all) && self.work.get() > 0 {
                members.insert(name.clone(), self.value(property, name, depth + 1));
            }
        }
        let others = schema.get("additionalProperties");
        let others = others.filter(|others| others.is_object()).unwrap_or(&Value::Null);
        let is_known = |name: &&&str| properties.is_some_and(|known| known.contains_key(**name));
        for name in required.iter().filter(|name| !is_known(name)) {
            members.insert((*name).to_owned(), self.value(others, name, depth + 1));
        }
        if others.is_object() && members.is_empty() && (wants_all || least > 0) {
            members.insert("key".to_owned(), self.value(others, "value", depth + 1));
        }
        Value::Object(members)
    }

    fn array(&self, schema: &MergedSchema, name: &str, depth: usize) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let usual = if self.variant.everything && depth < MAX_OPTIONAL_DEPTH { 1 } else { 0 };
        let most = bound("maxItems").unwrap_or(MAX_ITEMS).min(MAX_ITEMS);
        let wanted = bound("minItems").unwrap_or(0).max(usual).min(most);
        let first = schema.get("prefixItems").and_then(Value::as_array);
        let first = first.map_or(&[][..], Vec::as_slice);
        let items = schema.get("items").unwrap_or(&Value::Null);
        let mut made: Vec<Value> = Vec::new();
        for (number, schema) in first.iter().chain(std::iter::repeat(items)).enumerate() {
            if count_of(made.len()) >= wanted.max(count_of(first.len())) || self.budget.get() == 0 {
                break;
            }
            let value = self.value(schema, name, depth + 1);
            let value = if made.contains(&value) {
                self.another(schema, value, &made, number)
            } else {
                value
            };
            made.push(value);
        }
        Value::Array(made)
    }

    /// Returns another item for a list that already contains `value`, if one is easy to find.
    fn another(&self, schema: &Value, value: Value, made: &[Value], number: usize) -> Value {
        let whole = self.merge_schema(schema);
        let Some(choices) = whole.get("enum").and_then(Value::as_array) else {
            return other(value, number);
        };
        let unused = choices.iter().find(|one| !one.is_null() && !made.contains(one));
        unused.cloned().unwrap_or(value)
    }
}

/// Returns another value of the same kind, if one is easy to find. Some lists require different items.
fn other(value: Value, number: usize) -> Value {
    match value {
        Value::String(text) => json!(format!("{text}{number}")),
        Value::Number(known) => known.as_i64().map_or(Value::Number(known), |known| {
            json!(known.saturating_add(i64::try_from(number).unwrap_or(1)))
        }),
        value => value,
    }
}

/// Returns the number of values in a value, including itself.
fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(members) => members.values().map(count_values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn count(members: &Map<String, Value>) -> u64 {
    count_of(members.len())
}

fn count_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Returns the type of a sample value.
fn kind(schema: &MergedSchema) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null").unwrap_or("null")
        }
        _ if ["properties", "additionalProperties", "required"]
            .iter()
            .any(|key| schema.contains_key(*key)) =>
        {
            "object"
        }
        _ if schema.contains_key("items") || schema.contains_key("prefixItems") => "array",
        _ if schema.contains_key("minimum") || schema.contains_key("maximum") => "number",
        _ => "string",
    }
}

/// Returns a number within the bounds of the schema.
fn number(schema: &MergedSchema, is_whole: bool) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    // True in OpenAPI 3.0, the bound itself in 3.1.
    let is_open = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let (usual, step) = if is_whole { (1.0_f64, 1.0) } else { (1.5, 0.25) };
    let mut least = bound("minimum").unwrap_or(f64::NEG_INFINITY);
    let mut most = bound("maximum").unwrap_or(f64::INFINITY);
    least += if is_open("exclusiveMinimum") { step } else { 0.0 };
    most -= if is_open("exclusiveMaximum") { step } else { 0.0 };
    least = least.max(bound("exclusiveMinimum").map_or(least, |bound| bound + step));
    most = most.min(bound("exclusiveMaximum").map_or(most, |bound| bound - step));
    if is_whole {
        (least, most) = (least.ceil(), most.floor());
    }
    let mut value = usual.max(least).min(most);
    if let Some(unit) = bound("multipleOf").filter(|unit| *unit > 0.0) {
        value = (value / unit).ceil() * unit;
    }
    // A whole number is written without a point.
    let whole = Some(value).filter(|value| value.fract() == 0.0).map(|value| format!("{value:.0}"));
    let whole = whole.and_then(|text| text.parse::<i64>().ok()).map(Number::from);
    whole.or_else(|| Number::from_f64(value)).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::StepAction;

    /// The first sample of a schema.
    fn first(schema: &Value) -> Value {
        let document = json!({
            "a2s": "1.1.0", "name": "Made", "description": "up", "domains": ["api.example"],
            "version": "1.0.0", "authors": [{"name": "A"}],
            "execution": {"type": "sequence", "steps": [{"id": "a", "format": "OpenAPI", "task": {
                "openapi": "3.1.0", "info": {"title": "a", "version": "1"},
                "servers": [{"url": "https://api.example"}],
                "paths": {"/": {"get": {"responses": {"200": {"description": "a"}}}}},
                "components": {"schemas": {"Endless": {
                    "type": "object", "required": ["next"],
                    "properties": {"next": {"$ref": "#/components/schemas/Endless"}},
                }}},
            }}]},
        });
        let compilation = crate::compile(document.to_string().as_bytes());
        let document = compilation.document.unwrap();
        let block = &document.capability().execution;
        let StepAction::Task { task, .. } = &block.children()[0].action else { panic!() };
        let crate::Task::OpenApi(task) = &**task else { panic!() };
        SchemaResolver::from(&**task).samples(schema).next().unwrap()
    }

    #[test]
    fn values_fit_their_schemas_and_are_always_the_same() {
        let object =
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
        for (schema, expected) in [
            (json!({"type": "integer"}), json!(1)),
            (json!({"type": "integer", "minimum": 4, "multipleOf": 3}), json!(6)),
            (json!({"type": "number", "exclusiveMaximum": 1}), json!(0.75)),
            (json!({"type": ["null", "boolean"]}), json!(true)),
            (json!({"const": 7}), json!(7)),
            (json!({"enum": ["b", "a"]}), json!("b")),
            (json!({"type": "string", "format": "date"}), json!("2026-06-01")),
            (json!({"type": "string", "minLength": 6, "maxLength": 6}), json!("texttt")),
            (
                json!({"type": "array", "items": {"type": "string"}, "minItems": 2}),
                json!(["text", "text1"]),
            ),
            (
                json!({"allOf": [object, {"properties": {"b": {"type": "boolean"}}}]}),
                json!({"a": 1, "b": true}),
            ),
            (json!({"oneOf": [{"type": "null"}, {"type": "integer"}]}), json!(1)),
            (
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
                json!({"key": 1}),
            ),
            (
                json!({"properties": {"a": {"writeOnly": true}, "b": {"type": "null"}}}),
                json!({"b": null}),
            ),
            (json!({"type": "integer", "example": 5}), json!(5)),
        ] {
            assert_eq!(first(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn patterns_are_followed() {
        for (pattern, expected) in [
            ("^[0-9a-f]{8}$", "aaaaaaaa"),
            ("^v\\d+\\.\\d+$", "v0.0"),
            ("^(cat|ox|horse)$", "ox"),
            ("^#[0-9A-F]{6}$", "#AAAAAA"),
            ("a/b\\/c", "a/b/c"),
            ("^(x*){1000000}$", ""),
            // What cannot be followed is left alone.
            ("^(?=a)b$", "text"),
            ("a{1000000}", "text"),
        ] {
            assert_eq!(first(&json!({"type": "string", "pattern": pattern})), expected);
        }
    }

    #[test]
    fn schemas_without_end_have_an_end() {
        let endless = first(&json!({"$ref": "#/components/schemas/Endless"}));
        assert!(endless.to_string().len() < 1_000);
        let many = json!({"type": "array", "minItems": 1_000_000, "items": {"type": "integer"}});
        let wide = json!({"type": "array", "minItems": 1_000_000, "items": many});
        assert!(first(&wide).to_string().len() < 1_000_000);
        let names = 0..300;
        let own: Map<_, _> =
            names.clone().map(|n| (format!("p{n}"), json!({"$ref": "#"}))).collect();
        let names: Vec<_> = names.map(|n| format!("p{n}")).collect();
        let fan = json!({"type": "object", "required": names, "properties": own});
        let sample = SchemaResolver::required_request_sample(&fan);
        assert!(sample.to_string().len() < 20 * MAX_WORK);
    }
}
