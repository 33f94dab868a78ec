//! Values that fit the schemas of an operation, always the same.

use a2s::{BodyFormat, OpenApiTask, OperationParameter, ParameterStyle, RequestBody};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

use super::copies::as_kind;
use crate::request::{SchemaCheck, ValueDirection};

/// Deeper than this, only what is required is made.
const DEEP: usize = 3;
/// Deeper than this, nothing is: the schema refers to itself.
const TOO_DEEP: usize = 20;

/// Makes values for one operation.
pub(super) struct Maker<'t> {
    pub(super) task: &'t OpenApiTask,
    /// Whether what is optional is given, too.
    pub(super) everything: bool,
}

impl Maker<'_> {
    /// A value for a parameter, as far as its style has a notation for it: OpenAPI knows none for
    /// lists and objects within others, but in `deepObject`. None when nothing is left of it.
    pub(super) fn parameter(&self, parameter: &OperationParameter) -> Option<Value> {
        let make = |maker: &Self| maker.fitting(&parameter.schema, &parameter.name);
        let value = match make(self) {
            empty if is_empty(&empty) => make(&Self { everything: true, ..*self }),
            value => value,
        };
        if parameter.content.is_some() || parameter.style.style == ParameterStyle::DeepObject {
            return Some(value);
        }
        match flat(&value) {
            // The schema wants what cannot be written: the executor's own notation will do.
            nothing if is_empty(&nothing) => parameter.required.then_some(value),
            flat => Some(flat),
        }
    }

    pub(super) fn body(&self, body: &RequestBody) -> Value {
        let is_xml = body.media_type.essence().ends_with("xml");
        match body.format {
            BodyFormat::Json => self.fitting(&body.schema, "body"),
            // A form without fields is no body to the mock.
            BodyFormat::Form | BodyFormat::Multipart => match self.fitting(&body.schema, "body") {
                empty if is_empty(&empty) => {
                    Self { everything: true, ..*self }.fitting(&body.schema, "body")
                }
                value => value,
            },
            BodyFormat::Text if is_xml => json!("<a>text</a>"),
            BodyFormat::Text => json!("text"),
            BodyFormat::Other if body.media_type.is_range() => self.fitting(&body.schema, "body"),
            BodyFormat::Other => json!({ "base64": "aGk=" }),
        }
    }

    /// The first made-up value that fits: an example, or one made of the schema.
    fn fitting(&self, schema: &Value, name: &str) -> Value {
        let made = [self.value(schema, name, 0, false), self.value(schema, name, 0, true)];
        let fits = |value: &&Value| self.fits(schema, value);
        let found = made.iter().find(fits).cloned();
        found.or_else(|| self.exclusive(schema, &made[0])).unwrap_or_else(|| made[0].clone())
    }

    /// Whether a value fits, and of alternatives that exclude each other one only: the executor lets
    /// more pass where it does not check all that sets them apart.
    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let fits = |schema: &Value| {
            let check = SchemaCheck::from_task_schema(self.task, schema, ValueDirection::Request);
            check.is_none_or(|check| check.violations(value).is_empty())
        };
        let mut own = schema;
        for _ in 0..TOO_DEEP {
            let target = own.get("$ref").and_then(Value::as_str);
            own = target.and_then(|target| self.task.schema_at(target)).unwrap_or(own);
        }
        let choices = own.get("oneOf").and_then(Value::as_array);
        fits(schema)
            && choices.is_none_or(|choices| choices.iter().filter(|one| fits(one)).count() == 1)
    }

    /// A value that fits one alternative of a `oneOf` only, where they leave room for each other:
    /// it has a member that another alternative describes, of no type that it allows.
    fn exclusive(&self, schema: &Value, value: &Value) -> Option<Value> {
        let choices = self.merged(schema, 0).get("oneOf").and_then(Value::as_array).cloned()?;
        let names = choices.iter().flat_map(|choice| {
            let properties = self.merged(choice, 0).remove("properties");
            let properties = properties.and_then(|properties| properties.as_object().cloned());
            properties.into_iter().flatten().map(|(name, _)| name)
        });
        names.filter(|name| value.get(name).is_none()).find_map(|name| {
            let mut value = value.as_object()?.clone();
            value.insert(name, json!([]));
            let value = Value::Object(value);
            self.fits(schema, &value).then_some(value)
        })
    }

    fn value(&self, schema: &Value, name: &str, depth: usize, plain: bool) -> Value {
        if depth > TOO_DEEP {
            return Value::Null;
        }
        let whole = self.merged(schema, depth);
        let list = |key: &str| whole.get(key).and_then(Value::as_array);
        if let Some(value) = whole.get("const") {
            return value.clone();
        }
        let kind = kind_of(&whole);
        let mut allowed = list("enum").into_iter().flatten().filter(|value| !value.is_null());
        let allowed = allowed.find_map(|value| as_kind(kind, value));
        if let Some(value) = allowed.filter(|_| kind != "array") {
            return value;
        }
        // Examples of whole objects are seldom right.
        if !plain && !matches!(kind, "object" | "array") {
            let stated = whole.get("example").or_else(|| whole.get("default"));
            let stated = stated.or_else(|| list("examples").and_then(|values| values.first()));
            let fits = |value: &&Value| is_simple(value) && self.fits(schema, value);
            if let Some(value) = stated.filter(fits) {
                return value.clone();
            }
        }
        match kind {
            "object" => self.object(&whole, depth, plain),
            "array" => self.array(&whole, name, depth, plain),
            "integer" => json!(number(&whole, 1.0, 1.0) as i64),
            "number" if is_whole(&whole) => json!(number(&whole, 1.0, 1.0) as i64),
            "number" => json!(number(&whole, 1.5, 0.25)),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => json!(string(&whole, name)),
        }
    }

    /// The schema with what its `$ref` and `allOf` say, and the first alternative that helps.
    fn merged(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut whole = Map::new();
        self.merge(schema, depth, &mut whole);
        whole
    }

    fn merge(&self, schema: &Value, depth: usize, whole: &mut Map<String, Value>) {
        let Some(own) = schema.as_object() else { return };
        if depth > TOO_DEEP {
            return;
        }
        let target = own.get("$ref").and_then(Value::as_str);
        if let Some(target) = target.and_then(|target| self.task.schema_at(target)) {
            self.merge(target, depth + 1, whole);
        }
        for part in own.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.merge(part, depth + 1, whole);
        }
        for key in ["oneOf", "anyOf"] {
            let choices = own.get(key).and_then(Value::as_array).into_iter().flatten();
            let meant = choices.filter(|choice| choice["type"] != "null");
            let mut first = None;
            for choice in meant {
                let made = self.value(choice, "choice", depth + 2, true);
                first = first.or(Some(choice));
                if self.fits(schema, &made) {
                    first = Some(choice);
                    break;
                }
            }
            if let Some(choice) = first {
                self.merge(choice, depth + 1, whole);
            }
        }
        for (key, value) in own {
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

    fn is_read_only(&self, schema: &Value) -> bool {
        self.merged(schema, 0).get("readOnly") == Some(&json!(true))
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize, plain: bool) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        let mut members = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let wanted = required.contains(&name.as_str()) || (self.everything && depth < DEEP);
            if wanted && !self.is_read_only(property) {
                members.insert(name.clone(), self.value(property, name, depth + 1, plain));
            }
        }
        let is_known = |name: &str| properties.is_some_and(|known| known.contains_key(name));
        for name in required {
            if !is_known(name) {
                members.insert(name.to_owned(), json!("text"));
            }
        }
        let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        let others = schema.get("additionalProperties");
        if let Some(others) = others.filter(|others| others.is_object() || **others == json!(true))
            && (self.everything || least > 0)
            && members.is_empty()
            && depth < DEEP
        {
            members.insert("key".to_owned(), self.value(others, "text", depth + 1, plain));
        }
        for (name, property) in properties.into_iter().flatten() {
            let is_enough = u64::try_from(members.len()).is_ok_and(|count| count >= least);
            if !is_enough && !members.contains_key(name) && !self.is_read_only(property) {
                members.insert(name.clone(), self.value(property, name, depth + 1, plain));
            }
        }
        Value::Object(members)
    }

    /// Two items, as the mock takes a form with a list of one for no list.
    fn array(&self, schema: &Map<String, Value>, name: &str, depth: usize, plain: bool) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let count =
            bound("minItems").unwrap_or(0).max(2).min(bound("maxItems").unwrap_or(9)).min(99);
        let any = json!({ "type": "string" });
        let items = schema.get("items").unwrap_or(&any);
        // Some descriptions give the list what is meant for its items.
        let choices =
            self.merged(items, depth).remove("enum").or_else(|| schema.get("enum").cloned());
        let choices = choices.and_then(|choices| choices.as_array().cloned());
        let item = |index: u64| {
            let choice = choices.as_ref().and_then(|all| all.get(usize::try_from(index).ok()?));
            if let Some(choice) = choice {
                return choice.clone();
            }
            let first = self.value(items, name, depth + 1, plain);
            let other = match &first {
                Value::String(text) => json!(format!("{text}{index}")),
                Value::Number(number) => {
                    json!(number.as_i64().map_or(index, |n| n.unsigned_abs() + index))
                }
                _ => return first,
            };
            if index > 0 && self.fits(items, &other) { other } else { first }
        };
        (0..count).map(item).collect()
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A value without lists and objects within others.
fn flat(value: &Value) -> Value {
    let is_flat = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::Array(items) => items.iter().filter(|item| is_flat(item)).cloned().collect(),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| is_flat(value));
            Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        scalar => scalar.clone(),
    }
}

/// Whether a value of an example is likely to mean what it says.
fn is_simple(value: &Value) -> bool {
    value
        .as_str()
        .is_none_or(|text| !text.is_empty() && text.is_ascii() && !text.contains(['\n', '\r']))
}

fn kind_of(schema: &Map<String, Value>) -> &str {
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

/// Whether a number is to be a whole one: `type: number, format: int64`.
fn is_whole(schema: &Map<String, Value>) -> bool {
    matches!(schema.get("format").and_then(Value::as_str), Some("int32" | "int64"))
}

fn number(schema: &Map<String, Value>, usual: f64, step: f64) -> f64 {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let is_open = |key: &str| schema.get(key) == Some(&json!(true));
    let mut least = bound("minimum").unwrap_or(f64::NEG_INFINITY);
    let mut most = bound("maximum").unwrap_or(f64::INFINITY);
    least += if is_open("exclusiveMinimum") { step } else { 0.0 };
    most -= if is_open("exclusiveMaximum") { step } else { 0.0 };
    least = least.max(bound("exclusiveMinimum").map_or(least, |bound| bound + step));
    most = most.min(bound("exclusiveMaximum").map_or(most, |bound| bound - step));
    let value = usual.max(least).min(most);
    match bound("multipleOf") {
        Some(unit) if unit > 0.0 => (value / unit).ceil() * unit,
        _ => value,
    }
}

fn string(schema: &Map<String, Value>, name: &str) -> String {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-06-01",
        Some("date-time") => "2026-06-01T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("uri" | "url" | "uri-reference") => "https://example.com/",
        Some("email") => "somebody@example.com",
        Some("hostname") => "example.com",
        Some("ip" | "ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("uuid") => "01234567-89ab-4def-8123-456789abcdef",
        Some("byte") => "QUJD",
        _ => "text",
    };
    let count =
        |key: &str| schema.get(key).and_then(Value::as_u64).map_or(usize::MAX, |n| n as usize);
    let (least, most) = (count("minLength"), count("maxLength"));
    let least = if least == usize::MAX { 0 } else { least };
    let pattern = schema.get("pattern").and_then(Value::as_str);
    if let Some(pattern) = pattern
        && let Some(text) = matching(pattern, least, most)
    {
        return text;
    }
    let mut text = if most < text.len() { name.to_owned() } else { text.to_owned() };
    while text.chars().count() < least {
        text.push('x');
    }
    text.chars().take(most).collect()
}

/// A text that matches a pattern, of a length that is wanted.
fn matching(pattern: &str, least: usize, most: usize) -> Option<String> {
    let simple = ["text", "1", "a", "A", "ab", "AB", "12", "ABC", "123", "2026-06-01"];
    let anchored = regex_of(pattern)?;
    let fits =
        |text: &str| anchored.is_match(text) && (least..=most).contains(&text.chars().count());
    if let Some(text) = simple.into_iter().find(|text| fits(text)) {
        return Some(text.to_owned());
    }
    // The generator makes whole texts; anchors mean nothing to it.
    let whole = pattern.trim_start_matches('^').trim_end_matches('$');
    let ascii = whole.replace("\\d", "[0-9]").replace("\\w", "[a-z]").replace("\\s", " ");
    let strategy = proptest::string::string_regex(&ascii).ok()?;
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let made = (0..200).filter_map(|_| Some(strategy.new_tree(&mut runner).ok()?.current()));
    let mut made = made.filter(|text| fits(text));
    let first = made.next()?;
    Some(made.find(|text| text.is_ascii()).unwrap_or(first))
}

fn regex_of(pattern: &str) -> Option<jsonschema::Validator> {
    let schema = json!({ "pattern": pattern });
    jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(&schema)
        .ok()
}

/// A matcher by way of the validator, which reads patterns as JSON Schema means them.
trait IsMatch {
    fn is_match(&self, text: &str) -> bool;
}

impl IsMatch for jsonschema::Validator {
    fn is_match(&self, text: &str) -> bool {
        self.is_valid(&json!(text))
    }
}
