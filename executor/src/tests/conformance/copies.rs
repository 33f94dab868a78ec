//! The copies of a description that documents are made of, and those that the mock serves.
//!
//! A document is made of what the description says. The mock gets the same said differently where
//! Prism misreads it: each change asks for the same bytes, so a request that is wrong by the
//! description is wrong by the copy.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// How many `$ref`s are followed one after another.
const MAX_HOPS: usize = 16;
/// These are never parameters (OpenAPI 3.1.1, "Parameter Object").
const IGNORED_HEADERS: [&str; 3] = ["accept", "authorization", "content-type"];
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Operations that one mock serves.
pub(super) struct Part {
    /// What documents are made of.
    pub(super) documents: Value,
    /// What the mock serves.
    pub(super) mock: Value,
}

/// A description without security, at one address without a path, in parts in which no two paths
/// are one to the mock.
pub(super) fn parts(mut description: Value) -> Vec<Part> {
    without_security(&mut description);
    let mut parts: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    for path in description["paths"].as_object().into_iter().flatten().map(|(path, _)| path) {
        let served = path.split('?').next().unwrap_or(path).to_owned();
        match parts.iter_mut().find(|part| !part.contains_key(&served)) {
            Some(part) => _ = part.insert(served, path.clone()),
            None => parts.push(BTreeMap::from([(served, path.clone())])),
        }
    }
    let cut = |part: BTreeMap<String, String>| {
        let paths: BTreeSet<String> = part.into_values().collect();
        let mut documents = description.clone();
        if let Some(members) = documents["paths"].as_object_mut() {
            members.retain(|path, _| paths.contains(path));
        }
        Part { mock: for_mock(documents.clone()), documents }
    };
    parts.into_iter().map(cut).collect()
}

fn without_security(description: &mut Value) {
    let remove = |holder: &mut Value, keys: &[&str]| {
        if let Some(members) = holder.as_object_mut() {
            members.retain(|key, _| !keys.contains(&key.as_str()));
        }
    };
    description["servers"] = json!([{"url": "https://mock.example"}]);
    remove(description, &["security"]);
    for (_, item) in description["paths"].as_object_mut().into_iter().flatten() {
        remove(item, &["servers"]);
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            remove(operation, &["security", "servers"]);
        }
    }
}

fn for_mock(mut description: Value) -> Value {
    mend(&mut description);
    let root = description.clone();
    let source = Source(&root);
    let mut paths = Map::new();
    for (path, item) in root["paths"].as_object().into_iter().flatten() {
        let (path, item) = source.path(path, item);
        paths.insert(path, item);
    }
    description["paths"] = Value::Object(paths);
    description
}

/// What can be said better wherever it stands.
fn mend(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mend),
        Value::Object(members) => {
            // An extension says nothing, but Prism wants to open the file that it refers to.
            members.retain(|key, value| !(key.starts_with("x-") && refers(value)));
            mend_enum(members);
            members.values_mut().for_each(mend);
        }
        _ => {}
    }
}

fn refers(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(refers),
        Value::Object(members) => members.iter().any(|(key, value)| key == "$ref" || refers(value)),
        _ => false,
    }
}

/// Lists of allowed values, in the type that stands beside them: `"6"` is `6` to an integer, and
/// `"0 - credit note"` is nothing. The values of a list stand with its items.
fn mend_enum(members: &mut Map<String, Value>) {
    let Some(kind) = members.get("type").and_then(Value::as_str).map(str::to_owned) else { return };
    let Some(values) = members.get("enum").and_then(Value::as_array).cloned() else { return };
    if kind == "array" && values.iter().all(|value| !value.is_array()) {
        members.remove("enum");
        if let Some(items) = members.get_mut("items").and_then(Value::as_object_mut) {
            items.entry("enum").or_insert(Value::Array(values));
            mend_enum(items);
        }
        return;
    }
    let read: Vec<Value> = values.iter().filter_map(|value| as_kind(&kind, value)).collect();
    match read.is_empty() {
        true => _ = members.remove("enum"),
        false => _ = members.insert("enum".to_owned(), Value::Array(read)),
    }
}

/// A value as one of the type that its schema names; none when it is not to be read as one.
pub(super) fn as_kind(kind: &str, value: &Value) -> Option<Value> {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let value = match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::Number(_) | Value::Bool(_)) => json!(value.to_string()),
        ("integer" | "number" | "boolean", Value::String(text)) => read(text)?,
        _ => value.clone(),
    };
    let fits = match kind {
        "integer" => value.is_i64() || value.is_u64() || value.is_null(),
        "number" => value.is_number() || value.is_null(),
        "boolean" => value.is_boolean() || value.is_null(),
        _ => true,
    };
    fits.then_some(value)
}

#[derive(Clone, Copy)]
struct Source<'a>(&'a Value);

impl<'a> Source<'a> {
    /// What `$ref`s lead to; none when they lead nowhere.
    fn resolve(self, mut value: &'a Value) -> Option<&'a Value> {
        for _ in 0..MAX_HOPS {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                return Some(value);
            };
            value = self.0.pointer(&percent_decoded(reference.strip_prefix('#')?))?;
        }
        None
    }

    fn path(self, path: &str, item: &'a Value) -> (String, Value) {
        let mut item = item.clone();
        let above = self.parameters(&item);
        if let Some(members) = item.as_object_mut() {
            members.remove("parameters");
        }
        let (mut served, query) = path.split_once('?').unwrap_or((path, ""));
        let constants: Vec<Value> = url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| {
                let schema = json!({"type": "string", "enum": [value]});
                json!({"name": name, "in": "query", "required": true, "schema": schema})
            })
            .collect();
        if query.contains('{') {
            served = path;
        }
        let mut served = served.replace("{+", "{");
        for (_, operation) in operations(&mut item) {
            let mut parameters = self.parameters(operation);
            let is_known = |one: &Value| {
                parameters
                    .iter()
                    .chain(&constants)
                    .any(|own| own["name"] == one["name"] && own["in"] == one["in"])
            };
            let more: Vec<_> = above.iter().filter(|one| !is_known(one)).cloned().collect();
            parameters.extend(more);
            parameters.extend(constants.iter().cloned());
            served = with_constants(&served, &parameters);
            parameters.retain(|one| {
                let name = one["name"].as_str().unwrap_or_default();
                match one["in"].as_str() {
                    Some("path") => served.contains(&format!("{{{name}}}")),
                    Some("header") => {
                        !IGNORED_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))
                    }
                    _ => true,
                }
            });
            operation["parameters"] = Value::Array(parameters);
            self.body(operation);
            self.answers(operation);
        }
        (served, item)
    }

    /// The parameters of an operation or of a path, and with them what `explode` is when nothing is
    /// said: true in a form, but false to Prism.
    fn parameters(self, holder: &Value) -> Vec<Value> {
        let declared = holder["parameters"].as_array().into_iter().flatten();
        let mut own: Vec<_> = declared.filter_map(|one| self.resolved(one)).collect();
        for parameter in own.iter_mut().filter(|one| one["schema"].is_object()) {
            let is_form = match parameter["style"].as_str() {
                Some(style) => style == "form",
                None => parameter["in"] == "query" || parameter["in"] == "cookie",
            };
            if is_form && parameter["explode"].is_null() {
                parameter["explode"] = json!(true);
            }
        }
        own
    }

    fn resolved(self, value: &Value) -> Option<Value> {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let target = self.0.pointer(&percent_decoded(reference.strip_prefix('#')?))?;
                self.resolve(target).cloned()
            }
            None => Some(value.clone()),
        }
    }

    /// A form's body as Prism reads it: with a property for each name that is required, and with
    /// the style of lists, which is the one that they have anyhow.
    fn body(self, operation: &mut Value) {
        let Some(mut body) = operation.get("requestBody").and_then(|body| self.resolved(body))
        else {
            return;
        };
        for (name, media) in body["content"].as_object_mut().into_iter().flatten() {
            let is_form = name.starts_with("application/x-www-form-urlencoded");
            if !is_form && !name.starts_with("multipart/") {
                continue;
            }
            let Some(mut schema) = media.get("schema").and_then(|schema| self.resolved(schema))
            else {
                continue;
            };
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let Some(members) = schema.as_object_mut() else { continue };
            let properties = members.entry("properties").or_insert_with(|| json!({}));
            for name in required.iter().filter_map(Value::as_str) {
                if properties.get(name).is_none() {
                    properties[name] = json!({});
                }
            }
            let lists = properties.as_object().into_iter().flatten();
            let lists = lists.filter(|(_, property)| {
                self.resolved(property).is_some_and(|property| property["type"] == "array")
            });
            let lists: Vec<String> = lists.map(|(name, _)| name.clone()).collect();
            for name in lists {
                if media["encoding"].get(&name).is_none() {
                    media["encoding"][&name] = json!({"style": "form", "explode": true});
                }
            }
            media["schema"] = schema;
        }
        operation["requestBody"] = body;
    }

    /// Answers without media types that are none: Prism falls over them.
    fn answers(self, operation: &mut Value) {
        for (_, answer) in operation["responses"].as_object_mut().into_iter().flatten() {
            let Some(mut own) = self.resolved(answer) else { continue };
            if let Some(content) = own.get_mut("content").and_then(Value::as_object_mut) {
                content.retain(|name, _| name.contains('/'));
                *answer = own;
            }
        }
    }
}

fn operations(item: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let members = item.as_object_mut().into_iter().flatten();
    members.filter(|(name, value)| METHODS.contains(&name.as_str()) && value.is_object())
}

/// A path in which a parameter that stands right behind another one, and has one value only, is
/// that value: Prism finds no border between the two.
fn with_constants(path: &str, parameters: &[Value]) -> String {
    let mut path = path.to_owned();
    for parameter in parameters.iter().filter(|one| one["in"] == "path") {
        let values = parameter["schema"]["enum"].as_array().map(Vec::as_slice);
        if let (Some([Value::String(only)]), Some(name)) = (values, parameter["name"].as_str()) {
            path = path.replace(&format!("}}{{{name}}}"), &format!("}}{only}"));
        }
    }
    path
}

fn percent_decoded(pointer: &str) -> String {
    percent_encoding::percent_decode_str(pointer).decode_utf8_lossy().into_owned()
}
