//! Schemas that hold for one value together: of several uses, and of a use and a declaration.

use serde_json::{Map, Value, json};

use super::schema_keywords::{ANNOTATIONS, write_kinds};
use super::sent::kinds_of;
use crate::document::ValueType;
use crate::types::JsonTypes;

/// Removes the definitions from a schema and returns them, so that several schemas can share them in one
/// document.
pub(super) fn take_definitions(schema: &mut Value) -> Map<String, Value> {
    match schema.as_object_mut().and_then(|members| members.shift_remove("$defs")) {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    }
}

/// Puts definitions at the top of a schema.
pub(super) fn put_definitions(schema: &mut Value, definitions: Map<String, Value>) {
    if let Some(members) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
        members.insert("$defs".to_owned(), Value::Object(definitions));
    }
}

/// The schema that fits all uses. When their types have nothing in common, some uses write the value as
/// text, and the schema is empty.
pub(super) fn intersect_schemas(uses: &[Value]) -> Value {
    let mut definitions = Map::new();
    let mut said: Vec<Value> = Vec::new();
    for schema in uses {
        let mut schema = schema.clone();
        definitions.extend(take_definitions(&mut schema));
        if schema != json!({}) && !said.iter().any(|other| rules(other) == rules(&schema)) {
            said.push(schema);
        }
    }
    let kinds = said.iter().filter_map(Value::as_object).map(kinds_of);
    let kinds = kinds.fold(JsonTypes::ANY, JsonTypes::and);
    // A type that another use narrows says nothing more.
    if said.len() > 1 {
        let is_wide = |schema: &Value| {
            let rules = rules(schema);
            rules.keys().all(|key| key == "type") && kinds_of(&rules).contains(kinds)
        };
        let narrow: Vec<Value> = said.iter().filter(|one| !is_wide(one)).cloned().collect();
        if narrow.is_empty() {
            said.truncate(1);
            said.iter_mut().for_each(|one| set_kinds(one, kinds));
        } else {
            said = narrow;
        }
    }
    let mut agreed = match said.as_slice() {
        [] => json!({}),
        _ if kinds.is_empty() => return json!({}),
        [only] => {
            let mut only = only.clone();
            if kinds != JsonTypes::ANY {
                set_kinds(&mut only, kinds);
            }
            only
        }
        several if have_no_value(several) => write_kinds(kinds),
        several => {
            let mut agreed = write_kinds(kinds);
            agreed["allOf"] = json!(several);
            agreed
        }
    };
    put_definitions(&mut agreed, definitions);
    agreed
}

/// The constraints of a schema, without its annotations.
fn rules(schema: &Value) -> Map<String, Value> {
    let members = schema.as_object().cloned().unwrap_or_default();
    members.into_iter().filter(|(key, _)| !ANNOTATIONS.contains(&key.as_str())).collect()
}

fn set_kinds(schema: &mut Value, kinds: JsonTypes) {
    if let (Value::Object(members), Value::Object(written)) = (schema, write_kinds(kinds)) {
        members.extend(written);
    }
}

/// Returns true when several enumerations share no value, so that no input could be built.
fn have_no_value(schemas: &[Value]) -> bool {
    let mut lists = schemas.iter().filter_map(|schema| schema.get("enum")?.as_array());
    let Some(first) = lists.next() else { return false };
    let rest: Vec<_> = lists.collect();
    !rest.is_empty() && !first.iter().any(|value| rest.iter().all(|list| list.contains(value)))
}

/// Restricts the schema of a use to the declared type of a parameter.
pub(super) fn declare(schema: &mut Value, declared: ValueType) {
    let Value::Object(members) = schema else { return };
    let kinds = kinds_of(members).and(JsonTypes::from(declared));
    if kinds.is_empty() {
        // It is written as text, and read as the type that the service wants.
        let wanted = kinds_of(members);
        members.clear();
        members.insert("type".to_owned(), json!(declared.as_str()));
        if declared == ValueType::String {
            members.extend(as_text(wanted));
        }
        return;
    }
    set_kinds(schema, kinds);
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| kinds.contains(JsonTypes::from_value(value)));
    }
}

/// Returns the keywords for a text that is read as a value of another type.
fn as_text(wanted: JsonTypes) -> Map<String, Value> {
    let (key, rule) = match wanted {
        JsonTypes::INTEGER => ("pattern", json!("^(0|-?[1-9][0-9]*)$")),
        JsonTypes::NUMBER => ("pattern", json!(r"^(0|-?[1-9][0-9]*)(\.[0-9]+)?$")),
        JsonTypes::BOOLEAN => ("enum", json!(["true", "false"])),
        _ => return Map::new(),
    };
    Map::from_iter([(key.to_owned(), rule)])
}
