//! Copies JSON Schemas from a description into a task: only the parts that check a request or a response,
//! with the components that they reach.

use std::collections::VecDeque;

use a2s::tree::MAX_NODES;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::ImportWarning;
use super::ref_resolver::{RefResolver, quote_for_message, reference_of, to_bool};
use crate::{naming, sanitize};

/// The level of detail of the copied schemas. Each level copies less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaDetail {
    /// The maximum depth of schemas, counted from the parameter, body or response.
    pub(super) depth: usize,
    /// The maximum length of a description, in characters; 0 removes all descriptions.
    pub(super) description: usize,
    /// True when the schemas of error responses are copied.
    pub(super) errors: bool,
}

impl SchemaDetail {
    /// The levels, from full detail to almost none.
    pub(super) const LEVELS: [Self; 6] = [
        Self { depth: 20, description: 200, errors: true },
        Self { depth: 20, description: 0, errors: true },
        Self { depth: 8, description: 0, errors: false },
        Self { depth: 5, description: 0, errors: false },
        Self { depth: 3, description: 0, errors: false },
        Self { depth: 1, description: 0, errors: false },
    ];

    /// The parts that are missing at this level, for a remark.
    pub(super) fn describe_loss(self) -> Option<String> {
        let Self { depth, description, errors } = self;
        match (description, errors) {
            (1.., _) => None,
            (0, true) => Some("the import drops the descriptions in its schemas".to_owned()),
            (0, false) => Some(format!(
                "the import cuts off its schemas after {depth} levels, and drops descriptions and error responses"
            )),
        }
    }
}

/// Copies schemas into a task. The targets of their references become components of the task.
pub(super) struct SchemaImporter<'a, 'r> {
    source: RefResolver<'a>,
    detail: SchemaDetail,
    /// True when siblings of `$ref` have a meaning (OpenAPI 3.1).
    siblings: bool,
    warnings: &'r mut Vec<ImportWarning>,
    /// The names of components by their reference in the description.
    names: IndexMap<String, String>,
    used_names: naming::UsedNames,
    /// The number of schemas that may still be added. At 0, a document cannot hold the schemas that exist
    /// already.
    left: usize,
    /// The components that are not copied yet, with the depth at which each was found.
    waiting: VecDeque<(String, &'a Value, usize)>,
}

impl<'a, 'r> SchemaImporter<'a, 'r> {
    pub(super) fn new(
        source: RefResolver<'a>,
        detail: SchemaDetail,
        siblings: bool,
        remarks: &'r mut Vec<ImportWarning>,
    ) -> Self {
        let (names, waiting) = (IndexMap::new(), VecDeque::new());
        let taken = naming::UsedNames::default();
        Self {
            source,
            detail,
            siblings,
            warnings: remarks,
            names,
            used_names: taken,
            left: MAX_NODES,
            waiting,
        }
    }

    /// Copies a schema. `place` is its location in warnings.
    pub(super) fn import_schema(&mut self, schema: &'a Value, place: &str) -> Value {
        self.schema(schema, 0, place)
    }

    /// Copies the components that the schemas refer to, and returns them by name.
    pub(super) fn components(mut self) -> Map<String, Value> {
        let mut components = Map::new();
        while let Some((name, schema, level)) = self.waiting.pop_front() {
            let place = format!("components.schemas.{name}");
            let schema = self.schema(schema, level, &place);
            components.insert(name, schema);
        }
        components
    }

    fn schema(&mut self, schema: &'a Value, level: usize, place: &str) -> Value {
        let Some(left) = self.left.checked_sub(1) else { return json!({}) };
        self.left = left;
        let Value::Object(members) = schema else {
            // `true` and `false` are schemas in OpenAPI 3.1.
            return if self.siblings && schema.is_boolean() { schema.clone() } else { json!({}) };
        };
        if let Some(reference) = reference_of(schema) {
            return self.reference(reference, members, level, place);
        }
        Value::Object(self.members(members, level, place))
    }

    /// Returns a reference to a component. The component is copied, too, but only once.
    fn reference(
        &mut self,
        reference: &'a str,
        members: &'a Map<String, Value>,
        level: usize,
        place: &str,
    ) -> Value {
        let target = match self.source.follow(reference) {
            Ok(target) if target.is_object() || (self.siblings && target.is_boolean()) => target,
            Ok(_) => return json!({}),
            Err(error) => {
                self.add_warning(place, format!("{error}; the import accepts any value there"));
                return json!({});
            }
        };
        if !self.names.contains_key(reference) {
            if level >= self.detail.depth {
                return self.kind_alone(target);
            }
            let name = self.free_name(reference);
            self.names.insert(reference.to_owned(), name.clone());
            self.waiting.push_back((name, target, level));
        }
        let name = &self.names[reference];
        let mut carried = Map::new();
        carried.insert("$ref".to_owned(), json!(format!("#/components/schemas/{name}")));
        if self.siblings {
            let siblings = members.iter().filter(|(key, _)| *key != "$ref");
            for (key, value) in siblings {
                if let Some(value) = self.keyword(key, value, level, place) {
                    carried.insert(key.clone(), value);
                }
            }
        }
        Value::Object(carried)
    }

    /// Returns only the type of a schema that is too deep to be copied.
    fn kind_alone(&self, schema: &'a Value) -> Value {
        let resolved = self.source.resolve(schema).unwrap_or(&Value::Null);
        match resolved.get("type").and_then(Value::as_str).filter(|kind| is_type(kind)) {
            Some(kind) => json!({ "type": kind }),
            None => json!({}),
        }
    }

    fn members(
        &mut self,
        members: &'a Map<String, Value>,
        level: usize,
        place: &str,
    ) -> Map<String, Value> {
        if level >= self.detail.depth {
            let kind = members.get("type").filter(|kind| is_type_keyword(kind, self.siblings));
            return kind.map(|kind| ("type".to_owned(), kind.clone())).into_iter().collect();
        }
        let mut carried: Vec<(String, Value)> = Vec::new();
        for (key, value) in members {
            if let Some(value) = self.keyword(key, value, level, place) {
                carried.push((key.clone(), value));
            }
        }
        self.allow_null_in_enum(members, &mut carried, place);
        // What people look for first comes first, what nests comes last.
        let rank = |key: &str| match key {
            "type" => 0,
            "description" => 1,
            "format" => 2,
            "required" => 4,
            "properties" => 5,
            "items" => 6,
            _ => 3,
        };
        carried.sort_by_key(|(key, _)| rank(key));
        carried.into_iter().collect()
    }

    /// Writes in the form of the version that a value may be null: OpenAPI 3.0 has `nullable`, 3.1 has the
    /// type `null`, and descriptions contain both.
    fn allow_null_in_enum(
        &mut self,
        members: &Map<String, Value>,
        carried: &mut Vec<(String, Value)>,
        place: &str,
    ) {
        let Some((_, kind)) = carried.iter_mut().find(|(key, _)| key == "type") else { return };
        let is_listed = members.get("type").is_some_and(|kind| {
            kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
        });
        if !self.siblings && is_listed && !members.contains_key("nullable") {
            carried.push(("nullable".to_owned(), json!(true)));
        } else if self.siblings
            && kind.is_string()
            && members.get("nullable").and_then(to_bool) == Some(true)
        {
            *kind = json!([kind, "null"]);
            carried.retain(|(key, _)| key != "nullable");
            self.add_warning(
                place,
                "`nullable` does not exist in OpenAPI 3.1; the import adds null to its types",
            );
        }
    }

    /// Returns the copy of a keyword that restricts the valid values; `None` for other keywords. Adds a
    /// warning for a malformed keyword.
    fn keyword(&mut self, key: &str, value: &'a Value, level: usize, place: &str) -> Option<Value> {
        let warning_count = self.warnings.len();
        let kept = self.read_keyword(key, value, level, place);
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        if kept.is_none() && self.warnings.len() == warning_count && is_checked(key) && !is_empty {
            let shown = quote_for_message(&value.to_string());
            self.add_warning(
                place,
                format!("the import drops `{key}: {shown}`, which has no meaning there"),
            );
        }
        kept
    }

    fn read_keyword(
        &mut self,
        key: &str,
        value: &'a Value,
        level: usize,
        place: &str,
    ) -> Option<Value> {
        let below = || format!("{place}.{key}");
        match key {
            "type" if is_type_keyword(value, self.siblings) => Some(value.clone()),
            "type" => {
                let kinds = value.as_array().filter(|_| is_type_keyword(value, true))?;
                let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|k| *k != "null");
                let (Some(only), None) = (kinds.next(), kinds.next()) else { return None };
                let message = format!(
                    "a list of types requires OpenAPI 3.1; the import reads it as `{only}`"
                );
                self.add_warning(&below(), message);
                Some(json!(only))
            }
            "description" => {
                let most = self.detail.description;
                let description = sanitize::description(value.as_str()?, most.max(1));
                description.filter(|_| most > 0).map(|description| json!(description))
            }
            "format" | "contentEncoding" | "contentMediaType" => {
                value.is_string().then(|| value.clone())
            }
            "pattern" => value.is_string().then(|| value.clone()),
            "nullable" | "readOnly" | "writeOnly" | "uniqueItems" => {
                let flag = to_bool(value)?;
                if value.is_string() {
                    self.add_warning(
                        place,
                        format!("`{key}` is a text; the import reads it as `{flag}`"),
                    );
                }
                Some(json!(flag))
            }
            "required" => {
                let names: Vec<&Value> =
                    value.as_array()?.iter().filter(|name| name.is_string()).collect();
                (!names.is_empty()).then(|| json!(names))
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" | "minContains" | "maxContains" => {
                value.as_u64().filter(|n| *n < 1 << 53).map(|n| json!(n))
            }
            "minimum" | "maximum" | "multipleOf" => self.number(value, &below()),
            "exclusiveMinimum" | "exclusiveMaximum" => match value {
                Value::Bool(_) if !self.siblings => Some(value.clone()),
                _ if self.siblings => self.number(value, &below()),
                _ => None,
            },
            "enum" => {
                let values = value.as_array().filter(|values| !values.is_empty())?;
                let kept = values.iter().all(is_exact).then(|| value.clone());
                if kept.is_none() {
                    self.add_warning(&below(), "it has numbers that are not allowed in a document");
                }
                kept
            }
            "const" | "default" => {
                let kept = is_exact(value).then(|| value.clone());
                if kept.is_none() {
                    self.add_warning(&below(), "it is a number that is not allowed in a document");
                }
                kept
            }
            _ => self.read_subschemas(key, value, level, &below()),
        }
    }

    /// Reads a keyword with schemas below it; `place` is the location of the keyword.
    fn read_subschemas(
        &mut self,
        key: &str,
        value: &'a Value,
        level: usize,
        place: &str,
    ) -> Option<Value> {
        match key {
            "items" | "contains" | "not" | "if" | "then" | "else" | "propertyNames" => {
                let shaped = value.is_object() || (self.siblings && value.is_boolean());
                shaped.then(|| self.schema(value, level + 1, place))
            }
            "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" => match value {
                Value::Bool(_) => Some(value.clone()),
                Value::Object(_) => Some(self.schema(value, level + 1, place)),
                _ => None,
            },
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
                // Part of a combination is not deeper than the whole.
                let level = if key == "prefixItems" { level + 1 } else { level };
                let carried = schemas.iter().map(|schema| self.schema(schema, level, place));
                Some(carried.collect())
            }
            "properties" | "patternProperties" | "dependentSchemas" => {
                let carried = value.as_object()?.iter().map(|(name, schema)| {
                    let place = format!("{place}.{}", quote_for_message(name));
                    (name.clone(), self.schema(schema, level + 1, &place))
                });
                Some(Value::Object(carried.collect()))
            }
            _ => None,
        }
    }

    fn number(&mut self, value: &Value, place: &str) -> Option<Value> {
        if !value.is_number() {
            return None;
        }
        let kept = is_exact(value).then(|| value.clone());
        if kept.is_none() {
            self.add_warning(
                place,
                format!("{value} is a number that is not allowed in a document"),
            );
        }
        kept
    }

    /// Chooses the name of the component for `reference`: its last segment, with a number when that name is
    /// in use.
    fn free_name(&mut self, reference: &str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String = last
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .take(80)
            .collect();
        self.used_names.reserve(if plain.is_empty() { "Schema" } else { &plain })
    }

    fn add_warning(&mut self, place: &str, reason: impl Into<String>) {
        self.warnings.push(ImportWarning::new(place, reason));
    }
}

/// Returns true when a document can hold a value: every number in it has a canonical form.
pub(super) fn is_exact(value: &Value) -> bool {
    a2s::canonical_json(value).is_ok()
}

/// Returns true when a keyword checks values, so that a remark must report its absence.
fn is_checked(key: &str) -> bool {
    matches!(
        key,
        "type"
            | "format"
            | "pattern"
            | "nullable"
            | "required"
            | "enum"
            | "items"
            | "properties"
            | "additionalProperties"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "minimum"
            | "maximum"
            | "multipleOf"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "minLength"
            | "maxLength"
            | "minItems"
            | "maxItems"
            | "uniqueItems"
            | "minProperties"
            | "maxProperties"
            | "prefixItems"
            | "patternProperties"
    )
}

fn is_type(name: &str) -> bool {
    matches!(name, "string" | "number" | "integer" | "boolean" | "object" | "array" | "null")
}

fn is_type_keyword(value: &Value, several: bool) -> bool {
    match value {
        Value::String(name) => is_type(name),
        Value::Array(names) => {
            several
                && !names.is_empty()
                && names.iter().all(|name| name.as_str().is_some_and(is_type))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_carried_than_a_document_holds() {
        let properties: Map<String, Value> =
            (0..MAX_NODES + 100).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        let root = json!({});
        let mut remarks = Vec::new();
        let mut schemas = SchemaImporter::new(
            RefResolver::new(&root),
            SchemaDetail::LEVELS[0],
            false,
            &mut remarks,
        );
        let carried = schemas.import_schema(&schema, "");
        let kept = carried["properties"].as_object().unwrap().values();
        assert_eq!(kept.filter(|schema| **schema != json!({})).count(), MAX_NODES - 1);
    }
}
