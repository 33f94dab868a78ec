//! The schemas of one specification.

use a2s::{OpenApiTask, OpenApiVersion};
use jsonschema::Draft;
use serde_json::{Map, Value, json};

/// The most references that are followed one after another.
const MAX_HOPS: usize = 20;

/// The schemas of a task.
#[derive(Clone, Copy)]
pub(super) struct Schemas<'t>(pub(super) &'t OpenApiTask);

impl<'t> Schemas<'t> {
    /// What a schema is, without a reference at its top.
    pub(super) fn resolve(self, schema: &'t Value) -> &'t Value {
        let mut schema = schema;
        for _ in 0..MAX_HOPS {
            let target = schema.get("$ref").and_then(Value::as_str);
            match target.and_then(|target| self.0.schema_at(target)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    /// Why a value does not fit a schema.
    pub(super) fn refuse(self, schema: &Value, value: &Value) -> Option<String> {
        if schema.is_null() {
            return None;
        }
        let mut root = self.0.specification.as_object().cloned().unwrap_or_default();
        root.insert("components".to_owned(), (*self.0.components).clone());
        root.insert("allOf".to_owned(), json!([schema]));
        let (draft, root) = match self.0.version {
            // A dialect of its own, which is JSON Schema draft 4 but for `nullable`.
            OpenApiVersion::V3_0 => (Draft::Draft4, nullable(&Value::Object(root))),
            OpenApiVersion::V3_1 => (Draft::Draft202012, Value::Object(root)),
        };
        let validator = jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            .build(&root)
            .map_err(|error| format!("the schema cannot be read: {error}"));
        match validator {
            Ok(validator) => {
                let error = validator.iter_errors(value).next()?;
                Some(format!("{error} at `{}`", error.instance_path()))
            }
            Err(error) => Some(error),
        }
    }

    /// The types that a schema names, those of what it refers to included.
    pub(super) fn types(self, schema: &'t Value) -> Vec<&'t str> {
        match self.resolve(schema).get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The value that a text of a path, query, header or form stands for.
    pub(super) fn read(self, schema: &'t Value, text: &str) -> Value {
        let text_itself = || Value::String(text.to_owned());
        match self.types(schema).first() {
            Some(&("integer" | "number" | "boolean")) => match serde_json::from_str(text) {
                Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
                Ok(_) | Err(_) => text_itself(),
            },
            _ => text_itself(),
        }
    }
}

/// The same with `nullable: true` as draft 4 says it.
fn nullable(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut members: Map<_, _> =
                members.iter().map(|(key, member)| (key.clone(), nullable(member))).collect();
            if members.get("nullable") == Some(&Value::Bool(true)) {
                members.remove("nullable");
                return json!({ "anyOf": [{ "type": "null" }, members] });
            }
            Value::Object(members)
        }
        Value::Array(items) => items.iter().map(nullable).collect(),
        scalar => scalar.clone(),
    }
}
