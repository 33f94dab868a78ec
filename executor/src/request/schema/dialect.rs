//! Schemas of a task, written as the JSON Schema 2020-12 that is compiled.
//!
//! Both dialects of OpenAPI come out alike: what 3.0 says with `nullable` and with booleans beside
//! bounds is said as 2020-12 says it, and each `$ref` leads into `$defs` that hold what is reached
//! and nothing else. A keyword that is malformed says nothing, and neither does a `$ref` that leads
//! nowhere: a request is refused for what its schema surely forbids, not for the schema's own
//! faults. Where something was left out, keywords that would turn that round (`not`, `oneOf`,
//! `unevaluatedProperties`) are left out or weakened, too. So is what stands around a part that is
//! not checked, such as most formats: of two alternatives that differ in one, both would fit.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{OpenApiTask, OpenApiVersion};
use serde_json::{Map, Value, json};

use super::Direction;

/// The most schemas of one translation; beyond it nothing more is asked for.
const MAX_SCHEMAS: usize = 20_000;
/// How deep schemas stand in one another, `$ref`s not followed.
const MAX_DEPTH: usize = 100;
/// How many `$ref`s and `allOf`s are followed to find the properties that do not travel.
const MAX_HOPS: usize = 16;
/// The most schemas that are looked into for them, and for what is not checked.
const MAX_LOOKS: usize = 100_000;
/// Memory that a pattern is given, in bytes: the least that will do.
const PATTERN_BYTES: [usize; 3] = [1 << 11, 1 << 14, super::MAX_PATTERN_BYTES];
/// Memory that all patterns of a translation may take, and that is tried for them. The time that it
/// takes to read them grows with it.
const MAX_PATTERNS_BYTES: usize = 4 << 20;
/// The formats that leave no doubt. All others are the service's to judge.
const FORMATS: [&str; 5] = ["date", "date-time", "ipv4", "ipv6", "uuid"];

/// A schema that is ready to be compiled.
#[derive(Debug)]
pub(super) struct Translation {
    /// The whole, with `$defs`.
    pub(super) schema: Value,
    /// Where each of `$defs` stands in the task: `#/components/schemas/Pet`.
    pub(super) origins: Vec<String>,
}

/// Names of properties that are not missed, as they do not travel in this direction.
type Names = BTreeSet<String>;

/// Writes `schema` of `task` as 2020-12.
pub(super) fn translate(task: &OpenApiTask, schema: &Value, direction: Direction) -> Translation {
    let (translation, has_gaps) = Translator::new(task, direction, true).run(schema);
    if !has_gaps {
        return translation;
    }
    Translator::new(task, direction, false).run(schema).0
}

struct Translator<'t> {
    task: &'t OpenApiTask,
    direction: Direction,
    /// Whether keywords are kept that turn what was left out into something that is forbidden.
    is_strict: bool,
    /// Whether something was left out.
    has_gaps: bool,
    left: usize,
    looks: usize,
    /// What a `$ref` leads to, and which properties around it do not travel, by its number.
    numbers: BTreeMap<(&'t str, Names), usize>,
    waiting: Vec<(&'t Value, Names)>,
    origins: Vec<String>,
    /// The memory that each pattern takes; none for what cannot be read.
    patterns: BTreeMap<&'t str, Option<usize>>,
    pattern_bytes: usize,
}

impl<'t> Translator<'t> {
    fn new(task: &'t OpenApiTask, direction: Direction, is_strict: bool) -> Self {
        Self {
            task,
            direction,
            is_strict,
            has_gaps: false,
            left: MAX_SCHEMAS,
            looks: MAX_LOOKS,
            numbers: BTreeMap::new(),
            waiting: Vec::new(),
            origins: Vec::new(),
            patterns: BTreeMap::new(),
            pattern_bytes: MAX_PATTERNS_BYTES,
        }
    }

    /// The translation, and whether something was left out.
    fn run(mut self, schema: &'t Value) -> (Translation, bool) {
        let root = self.schema(schema, &Names::new(), 0);
        let mut definitions = Map::new();
        let mut done = 0;
        // Each definition may name others.
        while let Some((target, names)) = self.waiting.get(done).cloned() {
            let definition = self.schema(target, &names, 0);
            definitions.insert(done.to_string(), definition);
            done += 1;
        }
        let mut schema = json!({ "allOf": [root] });
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        (Translation { schema, origins: self.origins }, self.has_gaps)
    }

    /// Something was left out.
    fn omit(&mut self) -> Value {
        self.has_gaps = true;
        Value::Bool(true)
    }

    fn schema(&mut self, schema: &'t Value, hidden: &Names, depth: usize) -> Value {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(all) => return Value::Bool(*all),
            // No schema at all.
            Value::Null => return Value::Bool(true),
            _ => return self.omit(),
        };
        if self.left == 0 || depth > MAX_DEPTH {
            return self.omit();
        }
        self.left -= 1;
        if members.contains_key("$dynamicRef") {
            self.omit();
        }
        if let Some(reference) = members.get("$ref") {
            let target = self.reference(reference, hidden);
            // OpenAPI 3.0 ignores what stands beside a `$ref`.
            if self.task.version == OpenApiVersion::V3_0 {
                return target;
            }
            let mut written = self.keywords(members, hidden, depth);
            if let Value::Object(target) = target {
                written.extend(target);
            }
            return Value::Object(written);
        }
        Value::Object(self.nullable(members, hidden, depth))
    }

    /// `{$ref: "#/$defs/3"}` for what a `$ref` of the task leads to.
    fn reference(&mut self, reference: &'t Value, hidden: &Names) -> Value {
        let Some(text) = reference.as_str() else { return self.omit() };
        let Some(target) = self.task.schema_at(text) else { return self.omit() };
        let next = self.waiting.len();
        let number = *self.numbers.entry((text, hidden.clone())).or_insert(next);
        if number == next {
            self.waiting.push((target, hidden.clone()));
            self.origins.push(text.to_owned());
        }
        json!({ "$ref": format!("#/$defs/{number}") })
    }

    /// The keywords, with null allowed where 3.0 says `nullable`.
    fn nullable(
        &mut self,
        members: &'t Map<String, Value>,
        hidden: &Names,
        depth: usize,
    ) -> Map<String, Value> {
        let mut written = self.keywords(members, hidden, depth);
        let says_null = members.get("nullable") == Some(&Value::Bool(true));
        if !says_null || self.task.version != OpenApiVersion::V3_0 {
            return written;
        }
        let combined = ["allOf", "anyOf", "oneOf", "not"];
        if combined.iter().any(|key| written.contains_key(*key)) {
            return Map::from_iter([("anyOf".to_owned(), json!([written, {"type": "null"}]))]);
        }
        if let Some(Value::Array(types)) = written.get_mut("type") {
            types.push(json!("null"));
        }
        if let Some(Value::Array(values)) = written.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
        written
    }

    fn keywords(
        &mut self,
        members: &'t Map<String, Value>,
        around: &Names,
        depth: usize,
    ) -> Map<String, Value> {
        // Parts of one whole share what does not travel: one may require what another describes.
        let mut hidden = around.clone();
        self.collect_hidden(members, &mut hidden, 0);
        let mut written = Map::new();
        for (key, value) in members {
            let kept = match key.as_str() {
                "type" => types(value),
                "enum" => values(members, value),
                "const" if self.task.version == OpenApiVersion::V3_1 => Some(value.clone()),
                "maximum" | "minimum" => bound(members, key, value),
                "exclusiveMaximum" | "exclusiveMinimum" => exclusive(members, key, value),
                "multipleOf" => value.as_f64().filter(|n| *n > 0.0).map(|_| value.clone()),
                "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties"
                | "minProperties" | "minContains" => count(value),
                "maxContains" => {
                    let is_sure = self.is_strict && !self.is_soft(members.get("contains"));
                    count(value).filter(|_| is_sure)
                }
                "uniqueItems" => value.as_bool().map(Value::Bool),
                "pattern" => self.pattern(value),
                "format" => {
                    value.as_str().filter(|name| FORMATS.contains(name)).map(|_| value.clone())
                }
                // Without knowing all that does not travel, nothing is missed.
                "required" => required(value, &hidden).filter(|_| self.looks > 0),
                "dependentRequired" => dependents(value, &hidden).filter(|_| self.looks > 0),
                "properties" => self.properties(value, depth),
                "patternProperties" => self.pattern_properties(value, depth),
                // A name may match a pattern that cannot be read.
                "additionalProperties" if !self.reads_names(members) => None,
                "dependentSchemas" => self.map(value, &hidden, depth),
                "items" | "additionalProperties" | "contains" | "propertyNames" => {
                    self.below(value, depth)
                }
                "prefixItems" => self.list(value, &Names::new(), depth),
                "allOf" | "anyOf" => self.list(value, &hidden, depth),
                "oneOf" => {
                    let list = self.list(value, &hidden, depth);
                    // A discriminator tells which one is meant, whatever else would fit.
                    let is_any = !self.is_strict
                        || members.contains_key("discriminator")
                        || self.is_soft(Some(value));
                    if let Some(list) = list.clone().filter(|_| is_any)
                        && !members.contains_key("anyOf")
                    {
                        written.insert("anyOf".to_owned(), list);
                    }
                    list.filter(|_| !is_any)
                }
                "not" => {
                    let is_sure = self.is_strict && !self.is_soft(Some(value));
                    self.alike(value, &hidden, depth).filter(|_| is_sure)
                }
                "unevaluatedProperties" | "unevaluatedItems" => {
                    self.below(value, depth).filter(|_| self.is_strict)
                }
                "if" | "then" | "else" if members.contains_key("if") => {
                    if self.is_soft(members.get("if")) {
                        self.omit();
                    }
                    self.alike(value, &hidden, depth).filter(|_| self.is_strict)
                }
                _ => None,
            };
            if let Some(kept) = kept {
                written.insert(key.clone(), kept);
            }
        }
        written
    }

    /// A schema that stands for the same value as the one around it.
    fn alike(&mut self, value: &'t Value, hidden: &Names, depth: usize) -> Option<Value> {
        let is_schema = value.is_object() || value.is_boolean();
        is_schema.then(|| self.schema(value, hidden, depth + 1))
    }

    /// A schema that stands for a value of its own.
    fn below(&mut self, value: &'t Value, depth: usize) -> Option<Value> {
        match value {
            Value::Object(_) | Value::Bool(_) => Some(self.schema(value, &Names::new(), depth + 1)),
            _ => {
                self.omit();
                None
            }
        }
    }

    fn list(&mut self, value: &'t Value, hidden: &Names, depth: usize) -> Option<Value> {
        let items = value.as_array().filter(|items| !items.is_empty())?;
        let written = items.iter().map(|item| self.schema(item, hidden, depth + 1));
        Some(Value::Array(written.collect()))
    }

    fn map(&mut self, value: &'t Value, hidden: &Names, depth: usize) -> Option<Value> {
        let members = value.as_object()?;
        let written = members
            .iter()
            .map(|(name, schema)| (name.clone(), self.schema(schema, hidden, depth + 1)));
        Some(Value::Object(written.collect()))
    }

    fn properties(&mut self, value: &'t Value, depth: usize) -> Option<Value> {
        let members = value.as_object()?;
        let mut written = Map::new();
        for (name, schema) in members {
            // What the service sets is not the caller's to send; what an answer should not have
            // told is no reason to refuse it.
            let refused = self.direction == Direction::Request && self.is_hidden(schema, true);
            let schema = match refused {
                true => unsendable(),
                false => self.schema(schema, &Names::new(), depth + 1),
            };
            written.insert(name.clone(), schema);
        }
        Some(Value::Object(written))
    }

    fn pattern_properties(&mut self, value: &'t Value, depth: usize) -> Option<Value> {
        let members = value.as_object()?;
        let mut written = Map::new();
        for (pattern, schema) in members {
            if self.is_pattern(pattern) {
                written.insert(pattern.clone(), self.schema(schema, &Names::new(), depth + 1));
            } else {
                self.omit();
            }
        }
        Some(Value::Object(written))
    }

    /// Patterns that need backtracking, or too much memory, say nothing.
    fn pattern(&mut self, value: &'t Value) -> Option<Value> {
        let kept = value.as_str().is_some_and(|pattern| self.is_pattern(pattern));
        if !kept {
            self.omit();
        }
        kept.then(|| value.clone())
    }

    /// Whether a pattern can be read, and there is memory left for it once more.
    fn is_pattern(&mut self, pattern: &'t str) -> bool {
        let bytes = match self.patterns.get(pattern) {
            Some(known) => *known,
            None => {
                let bytes = self.measure(pattern);
                *self.patterns.entry(pattern).or_insert(bytes)
            }
        };
        bytes.is_some_and(|bytes| self.spend(bytes))
    }

    /// The memory that a pattern takes.
    fn measure(&mut self, pattern: &'t str) -> Option<usize> {
        let schema = json!({ "pattern": pattern });
        PATTERN_BYTES
            .into_iter()
            .find(|bytes| self.spend(*bytes) && super::compile(&schema, *bytes).is_some())
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.pattern_bytes.checked_sub(bytes);
        self.pattern_bytes = left.unwrap_or(self.pattern_bytes);
        left.is_some()
    }

    /// Whether all patterns of names can be read.
    fn reads_names(&mut self, members: &'t Map<String, Value>) -> bool {
        let patterns = members.get("patternProperties").and_then(Value::as_object);
        patterns.into_iter().flatten().all(|(pattern, _)| self.is_pattern(pattern))
    }

    /// Whether a part of a schema is not checked, so that what seems to fit it may not.
    fn is_soft(&mut self, schema: Option<&'t Value>) -> bool {
        schema.is_some_and(|schema| self.has_soft_parts(schema, &mut BTreeSet::new(), 0))
    }

    fn has_soft_parts(
        &mut self,
        schema: &'t Value,
        seen: &mut BTreeSet<&'t str>,
        depth: usize,
    ) -> bool {
        if self.looks == 0 || depth > MAX_DEPTH {
            return true;
        }
        self.looks -= 1;
        let members = match schema {
            Value::Array(items) => {
                return items.iter().any(|item| self.has_soft_parts(item, seen, depth + 1));
            }
            Value::Object(members) => members,
            _ => return false,
        };
        for (key, value) in members {
            let is_soft = match (key.as_str(), value) {
                ("format", Value::String(name)) => !FORMATS.contains(&name.as_str()),
                ("type", Value::String(_) | Value::Array(_)) => types(value).is_none(),
                ("pattern", Value::String(pattern)) => !self.is_pattern(pattern),
                ("const", _) => self.task.version == OpenApiVersion::V3_0,
                ("$dynamicRef", _) => true,
                ("$ref", Value::String(text)) if seen.insert(text) => {
                    let target = self.task.schema_at(text);
                    target.is_none_or(|target| self.has_soft_parts(target, seen, depth + 1))
                }
                ("enum" | "default" | "example" | "examples", _) => false,
                (_, below) => self.has_soft_parts(below, seen, depth + 1),
            };
            if is_soft {
                return true;
            }
        }
        false
    }

    /// Adds the properties that do not travel in this direction, of a schema, of its parts and of
    /// its alternatives.
    fn collect_hidden(&mut self, members: &'t Map<String, Value>, hidden: &mut Names, hops: usize) {
        let properties = members.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if self.looks == 0 {
                self.has_gaps = true;
                return;
            }
            self.looks -= 1;
            if self.is_hidden(property, false) {
                hidden.insert(name.clone());
            }
        }
        if hops == MAX_HOPS || self.looks == 0 {
            return;
        }
        self.looks -= 1;
        let target = members.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|reference| self.task.schema_at(reference));
        let lists = ["allOf", "anyOf", "oneOf"].map(|key| members.get(key));
        let parts = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        for part in parts.chain(target).filter_map(Value::as_object) {
            self.collect_hidden(part, hidden, hops + 1);
        }
    }

    /// Whether a property is `readOnly` on the way there, or `writeOnly` on the way back. It is not
    /// surely so where OpenAPI 3.0 ignores the word, beside a `$ref`.
    fn is_hidden(&self, property: &'t Value, surely: bool) -> bool {
        let key = match self.direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        let mut schema = property;
        for _ in 0..MAX_HOPS {
            let target = schema.get("$ref").and_then(Value::as_str);
            let is_ignored =
                surely && target.is_some() && self.task.version == OpenApiVersion::V3_0;
            if schema.get(key) == Some(&Value::Bool(true)) && !is_ignored {
                return true;
            }
            match target.and_then(|reference| self.task.schema_at(reference)) {
                Some(target) => schema = target,
                None => return false,
            }
        }
        false
    }
}

/// The schema of a property that only the service sets. No other one of ours has no values.
fn unsendable() -> Value {
    json!({ "enum": [] })
}

fn types(value: &Value) -> Option<Value> {
    const KNOWN: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let named: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    // A word that is no type may stand for any.
    if named.is_empty() || named.iter().any(|name| !KNOWN.contains(name)) {
        return None;
    }
    let unique: BTreeSet<&str> = named.into_iter().collect();
    Some(json!(unique))
}

/// The values of an `enum`. Where texts are wanted, numbers and booleans stand for theirs: YAML
/// makes them of words that lack quotes.
fn values(members: &Map<String, Value>, value: &Value) -> Option<Value> {
    let mut values = value.as_array().filter(|values| !values.is_empty())?.clone();
    let is_text = members.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        kind => kind == "string",
    });
    if is_text {
        let texts = values.iter().filter(|value| value.is_number() || value.is_boolean());
        let texts: Vec<_> = texts.map(|value| Value::String(value.to_string())).collect();
        values.extend(texts);
    }
    Some(Value::Array(values))
}

/// A bound, unless the boolean of 3.0 beside it makes it an open one.
fn bound(members: &Map<String, Value>, key: &str, value: &Value) -> Option<Value> {
    let open = if key == "maximum" { "exclusiveMaximum" } else { "exclusiveMinimum" };
    let is_open = members.get(open) == Some(&Value::Bool(true));
    Some(value.clone()).filter(|value| value.is_number() && !is_open)
}

fn exclusive(members: &Map<String, Value>, key: &str, value: &Value) -> Option<Value> {
    let closed = if key == "exclusiveMaximum" { "maximum" } else { "minimum" };
    let bound = match value {
        Value::Bool(true) => members.get(closed)?,
        number => number,
    };
    Some(bound.clone()).filter(Value::is_number)
}

fn count(value: &Value) -> Option<Value> {
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=9e15).contains(n))?;
        // In these bounds, nothing is lost.
        Some(number as u64)
    });
    whole.map(Value::from)
}

fn required(value: &Value, hidden: &Names) -> Option<Value> {
    let names = value.as_array()?.iter().filter_map(Value::as_str);
    let names: BTreeSet<&str> = names.filter(|name| !hidden.contains(*name)).collect();
    Some(json!(names))
}

fn dependents(value: &Value, hidden: &Names) -> Option<Value> {
    let members = value.as_object()?.iter();
    let lists = members.map(|(name, names)| Some((name.clone(), required(names, hidden)?)));
    lists.collect::<Option<Map<_, _>>>().map(Value::Object)
}
