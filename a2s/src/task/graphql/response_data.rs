//! The data that an operation gets, as the schema of the service declares it.

use apollo_compiler::ast::Type;
use apollo_compiler::executable::{Field, Selection, SelectionSet};
use apollo_compiler::schema::ExtendedType;
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

/// The maximum number of fields of a response that are described.
const MAX_FIELDS: usize = 2_000;
/// The maximum number of values of an enumeration that are listed.
const MAX_VALUES: usize = 100;

/// The JSON Schema of the data of an operation; null when the document does not contain the operation. With
/// `partial`, everything may be missing: the service returned what it could get.
pub(super) fn data_schema(
    schema: &Valid<Schema>,
    document: &Valid<ExecutableDocument>,
    operation: Option<&str>,
    partial: bool,
) -> Value {
    let Ok(operation) = document.operations.get(operation) else { return Value::Null };
    let mut reader = ResponseSchemaReader { schema, document, partial, left: MAX_FIELDS };
    reader.object(&[(&operation.selection_set, true)])
}

struct ResponseSchemaReader<'s> {
    schema: &'s Valid<Schema>,
    document: &'s Valid<ExecutableDocument>,
    partial: bool,
    left: usize,
}

/// The fields of a response by name. The flag is true when one of the fields with the name is always
/// present.
type Fields<'s> = IndexMap<&'s str, (Vec<&'s Field>, bool)>;

impl<'s> ResponseSchemaReader<'s> {
    fn object(&mut self, sets: &[(&'s SelectionSet, bool)]) -> Value {
        let mut fields = Fields::new();
        for (set, is_sure) in sets {
            self.gather(set, *is_sure, &mut fields, 0);
        }
        let mut required = Vec::new();
        let mut properties = Map::new();
        for (name, (fields, is_sure)) in fields {
            let Some(first) = fields.first() else { continue };
            let Some(left) = self.left.checked_sub(1) else { break };
            self.left = left;
            let value = self.value(&fields);
            let value = typed(&first.definition.ty, value, self.partial);
            properties.insert(name.to_owned(), value);
            if is_sure && !self.partial {
                required.push(name);
            }
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    fn gather(&self, set: &'s SelectionSet, is_sure: bool, fields: &mut Fields<'s>, depth: usize) {
        if depth > super::MAX_DEPTH {
            return;
        }
        for selection in &set.selections {
            let is_plain = selection.directives().is_empty();
            match selection {
                Selection::Field(field) => {
                    let entry = fields.entry(field.response_key().as_str());
                    let (all, sure) = entry.or_insert_with(|| (Vec::new(), false));
                    all.push(field);
                    *sure |= is_sure && is_plain;
                }
                // Whether it applies depends on the type of the value.
                Selection::InlineFragment(inline) => {
                    let same = inline.type_condition.as_ref().is_none_or(|ty| *ty == set.ty);
                    let is_sure = is_sure && is_plain && same;
                    self.gather(&inline.selection_set, is_sure, fields, depth + 1);
                }
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = self.document.fragments.get(&spread.fragment_name) {
                        let below = &fragment.selection_set;
                        let is_sure = is_sure && is_plain && below.ty == set.ty;
                        self.gather(below, is_sure, fields, depth + 1);
                    }
                }
            }
        }
    }

    /// Returns the schema of a value that is neither a list nor null.
    fn value(&mut self, fields: &[&'s Field]) -> Value {
        let Some(first) = fields.first() else { return json!({}) };
        if fields.iter().any(|field| !field.selection_set.selections.is_empty()) {
            let sets: Vec<_> = fields.iter().map(|field| (&field.selection_set, true)).collect();
            return self.object(&sets);
        }
        let name = first.definition.ty.inner_named_type();
        match (name.as_str(), self.schema.types.get(name)) {
            ("String" | "ID", _) => json!({"type": "string"}),
            ("Int", _) => json!({"type": "integer"}),
            ("Float", _) => json!({"type": "number"}),
            ("Boolean", _) => json!({"type": "boolean"}),
            (_, Some(ExtendedType::Enum(choices))) if choices.values.len() <= MAX_VALUES => {
                let names: Vec<&str> = choices.values.keys().map(|name| name.as_str()).collect();
                json!({"type": "string", "enum": names})
            }
            (_, Some(ExtendedType::Enum(_))) => json!({"type": "string"}),
            _ => json!({}),
        }
    }
}

/// The schema of a field of this type; `value` is the schema of its innermost values.
fn typed(ty: &Type, value: Value, partial: bool) -> Value {
    let (schema, is_required) = match ty {
        Type::NonNullNamed(_) => (value, true),
        Type::Named(_) => (value, false),
        Type::NonNullList(item) => (list(item, value, partial), true),
        Type::List(item) => (list(item, value, partial), false),
    };
    if is_required && !partial { schema } else { or_null(schema) }
}

fn list(item: &Type, value: Value, partial: bool) -> Value {
    json!({"type": "array", "items": typed(item, value, partial)})
}

fn or_null(mut schema: Value) -> Value {
    if let Some(name) = schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        schema["type"] = json!([name, "null"]);
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
    schema
}
