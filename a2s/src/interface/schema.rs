//! Schemas for readers of an interface: JSON Schema 2020-12, self-contained and bounded.
//!
//! The notation of OpenAPI 3.0 becomes that of 2020-12. Schemas of sent values are complete, as the
//! executor checks them: the executor never rejects a value that fits its schema here. The targets of
//! `$ref`s replace them. For cycles or very large targets, the `$ref`s point into `$defs` of the input.
//! Schemas of received values may be incomplete: parts that are too deep or too large are left open, `not`
//! is left out, and `oneOf` becomes `anyOf`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::schema_exclusions::{HiddenNames, collect_read_only, has_unchecked_keyword};
use super::schema_keywords::{ANNOTATIONS, is_small, write_keywords, write_kinds};
use crate::task::open_closed_all_of;
use crate::types::{InferredType, JsonTypes, MemberPresence, ObjectType, SchemaRef};

/// The depth to which schemas are written out.
const MAX_DEPTH: usize = 8;
/// The maximum number of schemas of one input or output.
const MAX_SCHEMAS: usize = 100;
/// The maximum number of schemas of all outputs.
const MAX_TOTAL: usize = 2_000;
/// The maximum number of schemas of all inputs.
const MAX_SENT: usize = 20_000;
/// The deepest nesting of input schemas, not following `$defs`.
const MAX_SENT_DEPTH: usize = 100;
/// The most schemas that are examined for unsent or unchecked parts.
const MAX_LOOKS: usize = 200_000;
/// The maximum number of members of an object, and of values of an enumeration, in a response.
pub(super) const MAX_VALUES: usize = 100;

/// The direction of a value: members that are only for the other direction are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaDirection {
    /// The value goes to a service.
    In,
    /// The value comes from a service.
    Out,
}

/// The writer of the schemas of one interface.
pub(super) struct SchemaWriter<'s> {
    /// The number of schemas that may still be written.
    total: usize,
    /// The schemas that may still be written for the current input or output. An input that needs more has
    /// `$defs`.
    schemas_left: usize,
    lookups_left: usize,
    direction: SchemaDirection,
    /// The addresses of the `$ref` targets that are being written in place.
    open: Vec<usize>,
    /// The names of definitions, by the address of the defined schema and by its unsent properties.
    definitions: BTreeMap<(usize, HiddenNames), String>,
    used_names: BTreeSet<String>,
    /// The definitions that the current input references and that are not yet written.
    waiting: Vec<(String, SchemaRef<'s>, HiddenNames)>,
}

impl<'s> SchemaWriter<'s> {
    pub(super) fn new(direction: SchemaDirection) -> Self {
        Self {
            total: if direction == SchemaDirection::In { MAX_SENT } else { MAX_TOTAL },
            schemas_left: 0,
            lookups_left: MAX_LOOKS,
            direction,
            open: Vec::new(),
            definitions: BTreeMap::new(),
            used_names: BTreeSet::new(),
            waiting: Vec::new(),
        }
    }

    /// Writes the schema of the type of an input or output.
    pub(super) fn write(&mut self, kind: &InferredType<'s>) -> Value {
        self.schemas_left = MAX_SCHEMAS.min(self.total);
        let mut schema = self.write_type(kind, 0);
        let mut definitions = Map::new();
        while let Some((name, part, hidden)) = self.waiting.pop() {
            if !definitions.contains_key(&name) {
                definitions.insert(name.clone(), Value::Null);
                self.open.push(std::ptr::from_ref(part.schema).addr());
                let written = self.write_part(part, &hidden, 1);
                self.open.pop();
                definitions.insert(name, written);
            }
        }
        if let Some(members) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
            definitions.sort_keys();
            members.insert("$defs".to_owned(), Value::Object(definitions));
        }
        if self.direction == SchemaDirection::In {
            open_closed_all_of(&mut schema);
        }
        schema
    }

    /// Reserves one schema at `depth`. Returns true when the limits allow it.
    fn reserve_schema(&mut self, depth: usize) -> bool {
        let room = match self.direction {
            SchemaDirection::In => depth <= MAX_SENT_DEPTH && self.total > 0,
            SchemaDirection::Out => depth <= MAX_DEPTH && self.schemas_left > 0,
        };
        self.schemas_left = self.schemas_left.saturating_sub(1);
        self.total = self.total.saturating_sub(1);
        room
    }

    /// Returns true when no further member is shown.
    fn is_full(&self, members: usize) -> bool {
        match self.direction {
            SchemaDirection::In => self.total == 0,
            SchemaDirection::Out => self.schemas_left == 0 || members >= MAX_VALUES,
        }
    }

    fn write_type(&mut self, kind: &InferredType<'s>, depth: usize) -> Value {
        if !self.reserve_schema(depth) {
            return json!({});
        }
        match kind {
            InferredType::Unknown => json!({}),
            InferredType::Kinds(kinds) => write_kinds(*kinds),
            InferredType::Choice(values) => match values.as_slice() {
                [only] if is_small(only) => json!({"const": only}),
                several if (2..=MAX_VALUES).contains(&several.len()) => json!({"enum": several}),
                _ => json!({}),
            },
            InferredType::Object(object) => self.write_object(object, depth),
            InferredType::Tuple(items) => {
                let shown = items.iter().take(MAX_VALUES);
                let shown: Vec<_> = shown.map(|item| self.write_type(item, depth + 1)).collect();
                let count = items.len();
                json!({"type": "array", "prefixItems": shown, "minItems": count, "maxItems": count})
            }
            InferredType::List(item) => {
                json!({"type": "array", "items": self.write_type(item, depth + 1)})
            }
            InferredType::Schema(parts) => {
                let parts =
                    parts.iter().map(|part| self.write_part(*part, &HiddenNames::new(), depth));
                all_of(parts.collect())
            }
            InferredType::Selection(selection) => {
                let names = selection.names();
                let members = names.into_iter().take(MAX_VALUES).map(|name| {
                    let below = selection
                        .below(&name)
                        .map_or(InferredType::Unknown, InferredType::Selection);
                    let member = self.write_type(&below, depth + 1);
                    (name, member)
                });
                json!({"properties": members.collect::<Map<_, _>>()})
            }
            InferredType::Union(types) => {
                any_of(types.iter().map(|kind| self.write_type(kind, depth)).collect())
            }
        }
    }

    fn write_object(&mut self, object: &ObjectType<'s>, depth: usize) -> Value {
        let members = object.members.iter().take(MAX_VALUES);
        let properties: Map<_, _> = members
            .map(|(name, (member, _))| (name.clone(), self.write_type(member, depth + 1)))
            .collect();
        let sure =
            object.members.iter().filter(|(_, (_, presence))| *presence == MemberPresence::Always);
        let required: Vec<_> = sure.take(MAX_VALUES).map(|(name, _)| name).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if !object.open && object.members.len() <= MAX_VALUES {
            schema["additionalProperties"] = json!(false);
        }
        schema
    }

    /// Writes a schema of a specification. `around` contains the names of properties that are not sent and
    /// that another part of the same combined schema describes.
    fn write_part(&mut self, part: SchemaRef<'s>, around: &HiddenNames, depth: usize) -> Value {
        if !self.reserve_schema(depth) {
            return json!({});
        }
        let members = match part.schema {
            Value::Object(members) => members,
            Value::Bool(_) => return part.schema.clone(),
            _ => return json!({}),
        };
        let is_openapi_3_0 = part.book.schemas.is_openapi_3_0();
        let mut hidden = around.clone();
        if self.direction == SchemaDirection::In {
            collect_read_only(part, &mut hidden, 0, &mut self.lookups_left);
        }
        let mut schema = write_keywords(members, self.direction, is_openapi_3_0);
        self.write_below(part, members, &hidden, depth, &mut schema);
        if members.contains_key("$ref") {
            let target = self.write_target(part, &hidden, depth);
            if self.direction == SchemaDirection::In && is_openapi_3_0 {
                // OpenAPI 3.0 ignores keywords next to a `$ref`, but people still read them.
                schema.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
            }
            let says_more = schema.keys().any(|key| !ANNOTATIONS.contains(&key.as_str()));
            schema = match target {
                target @ Value::Object(_) if says_more => {
                    Map::from_iter([("allOf".to_owned(), json!([target, schema]))])
                }
                Value::Object(target) => target.into_iter().chain(schema).collect(),
                refused @ Value::Bool(false) => return refused,
                _ => schema,
            };
        }
        let nullable = members.get("nullable") == Some(&json!(true))
            && (self.direction == SchemaDirection::Out
                || (is_openapi_3_0 && !members.contains_key("$ref")));
        let schema = Value::Object(schema);
        if nullable && !members.contains_key("type") { or_null(schema) } else { schema }
    }

    /// Writes the target of a schema's `$ref`.
    fn write_target(&mut self, part: SchemaRef<'s>, hidden: &HiddenNames, depth: usize) -> Value {
        let Some(target) = part.target() else { return json!({}) };
        let address = std::ptr::from_ref(target.schema).addr();
        let has_room = depth < MAX_DEPTH && self.schemas_left > 0 && !self.open.contains(&address);
        if self.direction == SchemaDirection::Out || has_room {
            self.open.push(address);
            let written = self.write_part(target, hidden, depth + 1);
            self.open.pop();
            return written;
        }
        let name = self.name_definition(part, address, hidden);
        self.waiting.push((name.clone(), target, hidden.clone()));
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// The name of the definition for the target of a `$ref`: the last word of the `$ref`.
    fn name_definition(
        &mut self,
        part: SchemaRef<'s>,
        address: usize,
        hidden: &HiddenNames,
    ) -> String {
        let key = (address, hidden.clone());
        if let Some(name) = self.definitions.get(&key) {
            return name.clone();
        }
        let reference = part.get("$ref").and_then(Value::as_str).unwrap_or_default();
        let last = reference.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let plain: String = last.chars().filter(is_plain).take(60).collect();
        let plain = if plain.is_empty() { "schema".to_owned() } else { plain };
        let mut name = plain.clone();
        let mut number = 2;
        while !self.used_names.insert(name.clone()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        self.definitions.insert(key, name.clone());
        name
    }

    /// Writes the keywords that contain schemas.
    fn write_below(
        &mut self,
        part: SchemaRef<'s>,
        members: &'s Map<String, Value>,
        hidden: &HiddenNames,
        depth: usize,
        schema: &mut Map<String, Value>,
    ) {
        let is_sent = self.direction == SchemaDirection::In;
        let none = HiddenNames::new();
        let mut alone = vec!["items", "additionalProperties", "contains", "propertyNames"];
        if is_sent {
            alone.extend(["unevaluatedProperties", "unevaluatedItems"]);
        }
        for key in alone {
            if let Some(below @ (Value::Object(_) | Value::Bool(_))) = members.get(key) {
                let below = self.write_part(part.with_schema(below), &none, depth + 1);
                schema.insert(key.to_owned(), below);
            }
        }
        if is_sent {
            self.write_conditions(part, members, hidden, depth, schema);
        }
        // Drafts before 2020-12 write a tuple as `items`.
        let tuple = ["prefixItems", "items"].iter().find_map(|key| members.get(*key)?.as_array());
        let list = |key: &str| members.get(key).and_then(Value::as_array);
        // A discriminator selects the alternative, even if others fit too.
        let is_any = !is_sent
            || members.contains_key("discriminator")
            || members.get("oneOf").is_some_and(|alternatives| {
                has_unchecked_keyword(
                    part.with_schema(alternatives),
                    &mut BTreeSet::new(),
                    0,
                    &mut self.lookups_left,
                )
            });
        for (key, list, around) in [
            ("prefixItems", tuple, &none),
            ("allOf", list("allOf"), hidden),
            (if is_any { "anyOf" } else { "oneOf" }, list("oneOf"), hidden),
            ("anyOf", list("anyOf"), hidden),
        ] {
            let Some(list) = list.filter(|list| !list.is_empty()) else { continue };
            let list = list
                .iter()
                .map(|below| self.write_part(part.with_schema(below), around, depth + 1));
            schema.insert(key.to_owned(), list.collect());
        }
        let mut left_out = hidden.clone();
        for key in ["properties", "patternProperties"] {
            let Some(Value::Object(named)) = members.get(key) else { continue };
            let mut written = Map::new();
            for (name, below) in named {
                if self.goes_the_other_way(part.with_schema(below)) {
                    left_out.insert(name.clone());
                } else if self.is_full(written.len()) {
                    // When some members are not shown, none is forbidden.
                    schema.shift_remove("additionalProperties");
                    break;
                } else {
                    let below = self.write_part(part.with_schema(below), &none, depth + 1);
                    written.insert(name.clone(), below);
                }
            }
            schema.insert(key.to_owned(), Value::Object(written));
        }
        let most = if is_sent { usize::MAX } else { MAX_VALUES };
        if let Some(required) = required(members.get("required"), &left_out, most) {
            schema.insert("required".to_owned(), required);
        }
    }

    /// Writes the keywords that make one part of a value depend on another.
    fn write_conditions(
        &mut self,
        part: SchemaRef<'s>,
        members: &'s Map<String, Value>,
        hidden: &HiddenNames,
        depth: usize,
        schema: &mut Map<String, Value>,
    ) {
        for key in ["not", "if", "then", "else"] {
            let Some(below @ (Value::Object(_) | Value::Bool(_))) = members.get(key) else {
                continue;
            };
            // The executor does not forbid what only seems to fit.
            let is_unsure = key == "not"
                && has_unchecked_keyword(
                    part.with_schema(below),
                    &mut BTreeSet::new(),
                    0,
                    &mut self.lookups_left,
                );
            if !is_unsure {
                let below = self.write_part(part.with_schema(below), hidden, depth + 1);
                schema.insert(key.to_owned(), below);
            }
        }
        if let Some(Value::Object(named)) = members.get("dependentSchemas") {
            let written = named.iter().map(|(name, below)| {
                (name.clone(), self.write_part(part.with_schema(below), hidden, depth + 1))
            });
            schema.insert("dependentSchemas".to_owned(), Value::Object(written.collect()));
        }
        if let Some(Value::Object(named)) = members.get("dependentRequired") {
            let lists = named.iter().filter_map(|(name, names)| {
                Some((name.clone(), required(Some(names), hidden, usize::MAX)?))
            });
            schema.insert("dependentRequired".to_owned(), Value::Object(lists.collect()));
        }
        for key in ["minContains", "maxContains"] {
            let count = members.get(key).filter(|count| count.is_u64());
            schema.extend(count.map(|count| (key.to_owned(), count.clone())));
        }
    }

    fn goes_the_other_way(&self, part: SchemaRef<'_>) -> bool {
        match self.direction {
            SchemaDirection::In => part.is_read_only(),
            SchemaDirection::Out => part.get("writeOnly") == Some(&json!(true)),
        }
    }
}

/// Returns at most `most` of the required names, sorted and without the names in `left_out`.
fn required(names: Option<&Value>, left_out: &HiddenNames, most: usize) -> Option<Value> {
    let names = names?.as_array()?.iter().filter_map(Value::as_str).take(most);
    let names: BTreeSet<&str> = names.filter(|name| !left_out.contains(*name)).collect();
    (!names.is_empty()).then(|| json!(names))
}

/// Returns a schema for values that fit all of several schemas.
fn all_of(mut schemas: Vec<Value>) -> Value {
    schemas.retain(|schema| *schema != json!({}));
    match schemas.len() {
        0 => json!({}),
        1 => schemas.swap_remove(0),
        _ => json!({"allOf": schemas}),
    }
}

/// Returns a schema for values that fit one of several schemas.
fn any_of(schemas: Vec<Value>) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    // What says nothing but a type is one list of types.
    let mut kinds = JsonTypes::NONE;
    for schema in schemas {
        if schema == json!({}) {
            return schema;
        }
        match only_kinds(&schema) {
            Some(found) => kinds = kinds.or(found),
            None if kept.contains(&schema) => {}
            None => kept.push(schema),
        }
    }
    if kinds == JsonTypes::NULL
        && let [only] = kept.as_slice()
    {
        return or_null(only.clone());
    }
    if !kinds.is_empty() {
        kept.push(write_kinds(kinds));
    }
    match kept.len() {
        0 => json!({}),
        1 => kept.swap_remove(0),
        _ => json!({"anyOf": kept}),
    }
}

/// Returns a schema that also allows null.
fn or_null(schema: Value) -> Value {
    const OTHERS: [&str; 6] = ["enum", "const", "allOf", "anyOf", "oneOf", "not"];
    let plain = OTHERS.iter().all(|key| schema.get(key).is_none());
    let types = match schema.get("type") {
        Some(Value::Array(names)) if plain => names.clone(),
        Some(name) if plain => vec![name.clone()],
        _ if schema == json!({}) => return schema,
        _ => return json!({"anyOf": [schema, {"type": "null"}]}),
    };
    let mut schema = schema;
    if !types.contains(&json!("null")) {
        schema["type"] = types.into_iter().chain([json!("null")]).collect();
    }
    schema
}

/// The kinds of a schema that states nothing else.
fn only_kinds(schema: &Value) -> Option<JsonTypes> {
    let members = schema.as_object().filter(|members| members.len() == 1)?;
    match members.get("type")? {
        Value::String(name) => JsonTypes::from_name(name),
        Value::Array(names) => names
            .iter()
            .map(|name| JsonTypes::from_name(name.as_str()?))
            .try_fold(JsonTypes::NONE, |all, kinds| Some(all.or(kinds?))),
        _ => None,
    }
}
