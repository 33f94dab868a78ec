//! Schemas for readers of an interface: JSON Schema 2020-12, self-contained and bounded.
//!
//! What OpenAPI 3.0 writes in its own way is written in the way of 2020-12, `$ref`s are replaced by
//! what they lead to, and what is too deep or too much is left open: `{}` allows everything. A
//! schema here may allow more than the one it comes from, never less; so `not` is left out, and
//! `oneOf` becomes `anyOf`.

use serde_json::{Map, Value, json};

use super::keyword::{ANNOTATIONS, is_small, write_keywords, write_kinds};
use crate::types::{Kinds, Object, Part, Presence, Type};

/// How deep schemas are written out.
const MAX_DEPTH: usize = 8;
/// The most schemas of one input or output.
const MAX_SCHEMAS: usize = 100;
/// The most schemas of all inputs, or all outputs.
const MAX_TOTAL: usize = 2_000;
/// The most members of an object, and values of an enumeration.
pub(super) const MAX_VALUES: usize = 100;

/// Which way a value goes: members that are only for the other way are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To a service.
    In,
    /// From a service.
    Out,
}

/// Writes the schemas of one interface.
pub(super) struct Writer {
    total: usize,
    left: usize,
    direction: Direction,
}

impl Writer {
    pub(super) fn new(direction: Direction) -> Self {
        Self { total: MAX_TOTAL, left: 0, direction }
    }

    /// The schema of a type, which is that of an input or output.
    pub(super) fn write(&mut self, kind: &Type<'_>) -> Value {
        let room = MAX_SCHEMAS.min(self.total);
        self.left = room;
        let schema = self.write_type(kind, 0);
        self.total -= room - self.left;
        schema
    }

    /// Takes the room for a schema at `depth`, when there is any.
    fn take_room(&mut self, depth: usize) -> bool {
        let room = depth <= MAX_DEPTH && self.left > 0;
        self.left = self.left.saturating_sub(1);
        room
    }

    fn write_type(&mut self, kind: &Type<'_>, depth: usize) -> Value {
        if !self.take_room(depth) {
            return json!({});
        }
        match kind {
            Type::Unknown => json!({}),
            Type::Kinds(kinds) => write_kinds(*kinds),
            Type::Choice(values) => match values.as_slice() {
                [only] if is_small(only) => json!({"const": only}),
                several if (2..=MAX_VALUES).contains(&several.len()) => json!({"enum": several}),
                _ => json!({}),
            },
            Type::Object(object) => self.write_object(object, depth),
            Type::Tuple(items) => {
                let shown = items.iter().take(MAX_VALUES);
                let shown: Vec<_> = shown.map(|item| self.write_type(item, depth + 1)).collect();
                let count = items.len();
                json!({"type": "array", "prefixItems": shown, "minItems": count, "maxItems": count})
            }
            Type::List(item) => {
                json!({"type": "array", "items": self.write_type(item, depth + 1)})
            }
            Type::Schema(parts) => {
                let parts = parts.iter().map(|part| self.write_part(*part, depth));
                all_of(parts.collect())
            }
            Type::Selection(selection) => {
                let names = selection.names();
                let members = names.into_iter().take(MAX_VALUES).map(|name| {
                    let below = selection.below(&name).map_or(Type::Unknown, Type::Selection);
                    let member = self.write_type(&below, depth + 1);
                    (name, member)
                });
                json!({"properties": members.collect::<Map<_, _>>()})
            }
            Type::Union(types) => {
                any_of(types.iter().map(|kind| self.write_type(kind, depth)).collect())
            }
        }
    }

    fn write_object(&mut self, object: &Object<'_>, depth: usize) -> Value {
        let members = object.members.iter().take(MAX_VALUES);
        let properties: Map<_, _> = members
            .map(|(name, (member, _))| (name.clone(), self.write_type(member, depth + 1)))
            .collect();
        let sure = object.members.iter().filter(|(_, (_, presence))| *presence == Presence::Sure);
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

    /// A schema of a specification.
    fn write_part(&mut self, part: Part<'_>, depth: usize) -> Value {
        if !self.take_room(depth) {
            return json!({});
        }
        let members = match part.schema {
            Value::Object(members) => members,
            Value::Bool(_) => return part.schema.clone(),
            _ => return json!({}),
        };
        let mut schema = write_keywords(members);
        self.write_below(part, members, depth, &mut schema);
        if members.contains_key("$ref") {
            let target = part.target().map_or(json!({}), |t| self.write_part(t, depth + 1));
            let says_more = schema.keys().any(|key| !ANNOTATIONS.contains(&key.as_str()));
            schema = match target {
                target @ Value::Object(_) if says_more => {
                    Map::from_iter([("allOf".to_owned(), json!([target, schema]))])
                }
                Value::Object(target) => target.into_iter().chain(schema).collect(),
                _ => schema,
            };
        }
        let nullable = members.get("nullable") == Some(&json!(true));
        let schema = Value::Object(schema);
        if nullable && !members.contains_key("type") { or_null(schema) } else { schema }
    }

    /// The keywords that hold schemas.
    fn write_below(
        &mut self,
        part: Part<'_>,
        members: &Map<String, Value>,
        depth: usize,
        schema: &mut Map<String, Value>,
    ) {
        for key in ["items", "additionalProperties", "contains", "propertyNames"] {
            if let Some(below @ (Value::Object(_) | Value::Bool(_))) = members.get(key) {
                let below = self.write_part(part.beside(below), depth + 1);
                schema.insert(key.to_owned(), below);
            }
        }
        // Drafts before 2020-12 write a tuple as `items`.
        let tuple = ["prefixItems", "items"].iter().find_map(|key| members.get(*key)?.as_array());
        for (key, list) in [
            ("prefixItems", tuple),
            ("allOf", members.get("allOf").and_then(Value::as_array)),
            ("anyOf", members.get("oneOf").and_then(Value::as_array)),
            ("anyOf", members.get("anyOf").and_then(Value::as_array)),
        ] {
            let Some(list) = list.filter(|list| !list.is_empty()) else { continue };
            let list = list.iter().map(|below| self.write_part(part.beside(below), depth + 1));
            schema.insert(key.to_owned(), list.collect());
        }
        let mut left_out = Vec::new();
        for key in ["properties", "patternProperties"] {
            let Some(Value::Object(named)) = members.get(key) else { continue };
            let mut written = Map::new();
            for (name, below) in named {
                if self.goes_the_other_way(part.beside(below)) {
                    left_out.push(name.as_str());
                } else if self.left == 0 || written.len() >= MAX_VALUES {
                    // When some members are not shown, none is forbidden.
                    schema.shift_remove("additionalProperties");
                    break;
                } else {
                    written.insert(name.clone(), self.write_part(part.beside(below), depth + 1));
                }
            }
            schema.insert(key.to_owned(), Value::Object(written));
        }
        if let Some(Value::Array(names)) = members.get("required") {
            let mut required: Vec<&str> =
                names.iter().filter_map(Value::as_str).take(MAX_VALUES).collect();
            required.retain(|name| !left_out.contains(name));
            required.sort_unstable();
            required.dedup();
            if !required.is_empty() {
                schema.insert("required".to_owned(), json!(required));
            }
        }
    }

    fn goes_the_other_way(&self, part: Part<'_>) -> bool {
        match self.direction {
            Direction::In => part.is_read_only(),
            Direction::Out => part.get("writeOnly") == Some(&json!(true)),
        }
    }
}

/// A schema of what fits all of several.
fn all_of(mut schemas: Vec<Value>) -> Value {
    schemas.retain(|schema| *schema != json!({}));
    match schemas.len() {
        0 => json!({}),
        1 => schemas.swap_remove(0),
        _ => json!({"allOf": schemas}),
    }
}

/// A schema of what fits one of several.
fn any_of(schemas: Vec<Value>) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    // What says nothing but a type is one list of types.
    let mut kinds = Kinds::NONE;
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
    if kinds == Kinds::NULL
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

/// A schema that allows null, too.
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

/// The kinds of a schema that says nothing else.
fn only_kinds(schema: &Value) -> Option<Kinds> {
    let members = schema.as_object().filter(|members| members.len() == 1)?;
    match members.get("type")? {
        Value::String(name) => Kinds::named(name),
        Value::Array(names) => names
            .iter()
            .map(|name| Kinds::named(name.as_str()?))
            .try_fold(Kinds::NONE, |all, kinds| Some(all.or(kinds?))),
        _ => None,
    }
}
