//! Translates the schemas of a task to the JSON Schema 2020-12 that is compiled.
//!
//! Both dialects of OpenAPI give the same result: `nullable` and the boolean bounds of 3.0 get their form
//! of 2020-12, and each `$ref` points into `$defs`, which contain only the schemas that are used. A
//! malformed keyword has no effect, and neither has a `$ref` without a target: a request is rejected for a
//! certain violation of its schema, not for mistakes in the schema itself. Where something was left out,
//! keywords that would reverse its effect (`not`, `oneOf`, `unevaluatedProperties`) are left out or
//! weakened, too. The same holds for keywords around a part that is not checked, such as most formats: of
//! two alternatives that differ only there, both would fit.

mod keyword;
mod read_write_only;
mod unchecked_keywords;

use std::collections::{BTreeMap, BTreeSet};

use a2s::SchemaResolver;
use serde_json::{Map, Value, json};

use super::ValueDirection;
use keyword::{bound, count, dependents, exclusive, no_value_schema, required, types, values};
use unchecked_keywords::MAX_PATTERNS_BYTES;

/// The maximum number of schemas in one translation; schemas beyond it are not checked.
const MAX_SCHEMAS: usize = 20_000;
/// The greatest nesting depth of schemas, not following `$ref`s.
const MAX_DEPTH: usize = 100;
/// The most schemas that are examined to find properties that are not sent, and parts that are not checked.
const MAX_SCHEMAS_VISITED: usize = 100_000;
/// The formats with a clear definition. The service checks all others.
const FORMATS: [&str; 5] = ["date", "date-time", "ipv4", "ipv6", "uuid"];

/// A schema that is ready to be compiled.
#[derive(Debug)]
pub(super) struct TranslatedSchema {
    /// The complete schema, with `$defs`.
    pub(super) schema: Value,
    /// The location of each of `$defs` in the task: `#/components/schemas/Pet`.
    pub(super) origins: Vec<String>,
}

/// The names of properties that may be missing, because they are not sent in this direction.
type UnsentNames = BTreeSet<String>;

/// Translates `schema` to 2020-12.
pub(super) fn translate(
    schemas: SchemaResolver<'_>,
    schema: &Value,
    direction: ValueDirection,
) -> TranslatedSchema {
    let (translation, has_gaps) = SchemaTranslator::new(schemas, direction, true).run(schema);
    if !has_gaps {
        return translation;
    }
    SchemaTranslator::new(schemas, direction, false).run(schema).0
}

struct SchemaTranslator<'t> {
    schemas: SchemaResolver<'t>,
    direction: ValueDirection,
    /// Set when it keeps keywords that turn an omitted part into a forbidden one.
    is_strict: bool,
    /// Set when something was left out.
    has_gaps: bool,
    remaining: usize,
    visited: usize,
    /// The number of each target of a `$ref`, together with the surrounding properties that are not sent.
    numbers: BTreeMap<(&'t str, UnsentNames), usize>,
    waiting: Vec<(&'t Value, UnsentNames)>,
    origins: Vec<String>,
    /// The memory for each pattern; `None` for a pattern that cannot be read.
    patterns: BTreeMap<&'t str, Option<usize>>,
    pattern_bytes: usize,
}

impl<'t> SchemaTranslator<'t> {
    fn new(schemas: SchemaResolver<'t>, direction: ValueDirection, is_strict: bool) -> Self {
        Self {
            schemas,
            direction,
            is_strict,
            has_gaps: false,
            remaining: MAX_SCHEMAS,
            visited: MAX_SCHEMAS_VISITED,
            numbers: BTreeMap::new(),
            waiting: Vec::new(),
            origins: Vec::new(),
            patterns: BTreeMap::new(),
            pattern_bytes: MAX_PATTERNS_BYTES,
        }
    }

    /// Returns the translation, and true when something was left out.
    fn run(mut self, schema: &'t Value) -> (TranslatedSchema, bool) {
        let root = self.schema(schema, &UnsentNames::new(), 0);
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
        let was_closed = a2s::open_closed_all_of(&mut schema);
        (TranslatedSchema { schema, origins: self.origins }, self.has_gaps || was_closed)
    }

    /// Records a gap, and returns a schema that accepts every value.
    fn omit(&mut self) -> Value {
        self.has_gaps = true;
        Value::Bool(true)
    }

    fn schema(&mut self, schema: &'t Value, hidden: &UnsentNames, depth: usize) -> Value {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(all) => return Value::Bool(*all),
            // No schema at all.
            Value::Null => return Value::Bool(true),
            _ => return self.omit(),
        };
        if self.remaining == 0 || depth > MAX_DEPTH {
            return self.omit();
        }
        self.remaining -= 1;
        if members.contains_key("$dynamicRef") {
            self.omit();
        }
        if let Some(reference) = members.get("$ref") {
            let target = self.reference(reference, hidden);
            // OpenAPI 3.0 ignores keywords next to a `$ref`.
            if self.schemas.is_openapi_3_0() {
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

    /// `{$ref: "#/$defs/3"}` for the target of a `$ref` of the task.
    fn reference(&mut self, reference: &'t Value, hidden: &UnsentNames) -> Value {
        let Some(text) = reference.as_str() else { return self.omit() };
        let Some(target) = self.schemas.resolve(text) else { return self.omit() };
        let next = self.waiting.len();
        let number = *self.numbers.entry((text, hidden.clone())).or_insert(next);
        if number == next {
            self.waiting.push((target, hidden.clone()));
            self.origins.push(text.to_owned());
        }
        json!({ "$ref": format!("#/$defs/{number}") })
    }

    /// Translates the keywords, and allows null if OpenAPI 3.0 states `nullable`.
    fn nullable(
        &mut self,
        members: &'t Map<String, Value>,
        hidden: &UnsentNames,
        depth: usize,
    ) -> Map<String, Value> {
        let mut written = self.keywords(members, hidden, depth);
        let says_null = members.get("nullable") == Some(&Value::Bool(true));
        if !says_null || !self.schemas.is_openapi_3_0() {
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
        around: &UnsentNames,
        depth: usize,
    ) -> Map<String, Value> {
        // Parts of one whole share what does not travel: one may require what another describes.
        let mut hidden = around.clone();
        self.collect_unsent(members, &mut hidden, 0);
        let mut written = Map::new();
        for (key, value) in members {
            let kept = match key.as_str() {
                "type" => types(value),
                "enum" => values(members, value),
                "const" if !self.schemas.is_openapi_3_0() => Some(value.clone()),
                "maximum" | "minimum" => bound(members, key, value),
                "exclusiveMaximum" | "exclusiveMinimum" => exclusive(members, key, value),
                "multipleOf" => value.as_f64().filter(|n| *n > 0.0).map(|_| value.clone()),
                "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties"
                | "minProperties" | "minContains" => count(value),
                "maxContains" => {
                    let is_sure = self.is_strict && !self.is_unchecked(members.get("contains"));
                    count(value).filter(|_| is_sure)
                }
                "uniqueItems" => value.as_bool().map(Value::Bool),
                "pattern" => self.pattern(value),
                "format" => {
                    value.as_str().filter(|name| FORMATS.contains(name)).map(|_| value.clone())
                }
                // Without knowing all that does not travel, nothing is missed.
                "required" => required(value, &hidden).filter(|_| self.visited > 0),
                "dependentRequired" => dependents(value, &hidden).filter(|_| self.visited > 0),
                "properties" => self.properties(value, depth),
                "patternProperties" => self.pattern_properties(value, depth),
                // A name may match a pattern that cannot be read.
                "additionalProperties" if !self.has_readable_patterns(members) => None,
                "dependentSchemas" => self.map(value, &hidden, depth),
                "items" | "additionalProperties" | "contains" | "propertyNames" => {
                    self.nested_schema(value, depth)
                }
                "prefixItems" => self.list(value, &UnsentNames::new(), depth),
                "allOf" | "anyOf" => self.list(value, &hidden, depth),
                "oneOf" => {
                    let list = self.list(value, &hidden, depth);
                    // A discriminator selects the alternative, even if others fit too.
                    let is_any = !self.is_strict
                        || members.contains_key("discriminator")
                        || self.is_unchecked(Some(value));
                    if let Some(list) = list.clone().filter(|_| is_any)
                        && !members.contains_key("anyOf")
                    {
                        written.insert("anyOf".to_owned(), list);
                    }
                    list.filter(|_| !is_any)
                }
                "not" => {
                    let is_sure = self.is_strict && !self.is_unchecked(Some(value));
                    self.same_value_schema(value, &hidden, depth).filter(|_| is_sure)
                }
                "unevaluatedProperties" | "unevaluatedItems" => {
                    self.nested_schema(value, depth).filter(|_| self.is_strict)
                }
                "if" | "then" | "else" if members.contains_key("if") => {
                    if self.is_unchecked(members.get("if")) {
                        self.omit();
                    }
                    self.same_value_schema(value, &hidden, depth).filter(|_| self.is_strict)
                }
                _ => None,
            };
            if let Some(kept) = kept {
                written.insert(key.clone(), kept);
            }
        }
        written
    }

    /// Translates a schema that applies to the same value as the schema around it.
    fn same_value_schema(
        &mut self,
        value: &'t Value,
        hidden: &UnsentNames,
        depth: usize,
    ) -> Option<Value> {
        let is_schema = value.is_object() || value.is_boolean();
        is_schema.then(|| self.schema(value, hidden, depth + 1))
    }

    /// Translates a schema that applies to another value, such as an item or a member.
    fn nested_schema(&mut self, value: &'t Value, depth: usize) -> Option<Value> {
        match value {
            Value::Object(_) | Value::Bool(_) => {
                Some(self.schema(value, &UnsentNames::new(), depth + 1))
            }
            _ => {
                self.omit();
                None
            }
        }
    }

    fn list(&mut self, value: &'t Value, hidden: &UnsentNames, depth: usize) -> Option<Value> {
        let items = value.as_array().filter(|items| !items.is_empty())?;
        let written = items.iter().map(|item| self.schema(item, hidden, depth + 1));
        Some(Value::Array(written.collect()))
    }

    fn map(&mut self, value: &'t Value, hidden: &UnsentNames, depth: usize) -> Option<Value> {
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
            // A caller must not send what the service sets; a response with an unexpected value is
            // still accepted.
            let refused = self.direction == ValueDirection::Request && self.is_unsent(schema, true);
            let schema = match refused {
                true => no_value_schema(),
                false => self.schema(schema, &UnsentNames::new(), depth + 1),
            };
            written.insert(name.clone(), schema);
        }
        Some(Value::Object(written))
    }

    fn pattern_properties(&mut self, value: &'t Value, depth: usize) -> Option<Value> {
        let members = value.as_object()?;
        let mut written = Map::new();
        for (pattern, schema) in members {
            if self.is_usable_pattern(pattern) {
                written
                    .insert(pattern.clone(), self.schema(schema, &UnsentNames::new(), depth + 1));
            } else {
                self.omit();
            }
        }
        Some(Value::Object(written))
    }

    /// Returns a pattern; `None` when it needs backtracking or too much memory.
    fn pattern(&mut self, value: &'t Value) -> Option<Value> {
        let kept = value.as_str().is_some_and(|pattern| self.is_usable_pattern(pattern));
        if !kept {
            self.omit();
        }
        kept.then(|| value.clone())
    }
}
