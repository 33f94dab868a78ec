//! The schemas that the `$ref`s of a task point into.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::sample_value::{required_sample, samples};
use super::{OpenApiTask, OpenApiVersion};

/// A resolver of the `$ref`s in a task's schemas. The variant is the location of the schemas.
#[derive(Debug, Clone, Copy)]
pub enum SchemaResolver<'s> {
    /// In an OpenAPI specification.
    OpenApi(&'s OpenApiTask),
    /// In a self-contained JSON Schema, such as the `inputSchema` of an MCP tool.
    Json(&'s Value),
    /// Below `#/$defs/`, as the variables of a GraphQL task refer to them.
    Definitions(&'s Value),
}

impl<'s> From<&'s OpenApiTask> for SchemaResolver<'s> {
    fn from(task: &'s OpenApiTask) -> Self {
        Self::OpenApi(task)
    }
}

impl<'s> SchemaResolver<'s> {
    /// Returns the target of a `$ref` such as `#/components/schemas/Pet` or `#/$defs/Pet`, exactly as
    /// written: the target may contain further `$ref`s, or be one. Only pointers into the task itself
    /// resolve: the resolver fetches nothing.
    #[must_use]
    pub fn resolve(self, reference: &str) -> Option<&'s Value> {
        match self {
            Self::OpenApi(task) => task.schema_at(reference),
            Self::Json(root) => {
                let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8();
                root.pointer(&pointer.ok()?)
            }
            Self::Definitions(definitions) => definitions.get(reference.strip_prefix("#/$defs/")?),
        }
    }

    /// Returns true when the keywords have the meaning of OpenAPI 3.0, and not of JSON Schema 2020-12.
    #[must_use]
    pub fn is_openapi_3_0(self) -> bool {
        matches!(self, Self::OpenApi(task) if task.version == OpenApiVersion::V3_0)
    }

    /// Returns sample values for a schema of a request: like [`samples`](Self::samples), including parts
    /// that are never in a response.
    #[must_use]
    pub fn request_samples(schema: &Value) -> Vec<Value> {
        let mut schema = schema.clone();
        show_write_only(&mut schema);
        SchemaResolver::Json(&schema).samples(&schema).collect()
    }

    /// Returns the sample value for a schema of a request that has the required parts only.
    #[must_use]
    pub fn required_request_sample(schema: &Value) -> Value {
        let mut schema = schema.clone();
        show_write_only(&mut schema);
        required_sample(SchemaResolver::Json(&schema), &schema)
    }

    /// Returns sample values for a schema of a response, the most detailed first. The same schema always
    /// has the same samples. The samples probably fit the schema, but the caller must check it: the schema
    /// may contain more than this method reads, or contradict itself. The iterator is lazy, because the
    /// first sample is enough in most cases.
    pub fn samples(self, schema: &'s Value) -> impl Iterator<Item = Value> + 's {
        samples(self, schema)
    }
}

/// Removes the keyword `writeOnly`, which excludes members from responses.
fn show_write_only(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("writeOnly").is_some_and(Value::is_boolean) {
                members.shift_remove("writeOnly");
            }
            members.values_mut().for_each(show_write_only);
        }
        Value::Array(items) => items.iter_mut().for_each(show_write_only),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_lead_into_the_schema_itself_and_nowhere_else() {
        let root = json!({"$defs": {"a b": {"type": "string"}}, "properties": {"c": true}});
        let at = |reference| SchemaResolver::Json(&root).resolve(reference);
        assert_eq!(at("#/$defs/a%20b"), Some(&json!({"type": "string"})));
        assert_eq!(at("#/properties/c"), Some(&json!(true)));
        assert_eq!(at("#"), Some(&root));
        for nowhere in ["#/$defs/b", "https://a.example/#/$defs/a%20b", "a", "", "#a", "#/%ff"] {
            assert_eq!(at(nowhere), None, "{nowhere}");
        }
    }
}
