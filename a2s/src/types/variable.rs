//! The types of GraphQL variables.

use serde_json::{Value, json};

use super::{InferredType, JsonTypes};

/// The type that a variable of a declared type, such as `[String!]!`, accepts. Enumerations, input objects
/// and scalars of the service are not known, except for null.
pub(crate) fn variable_type<'s>(declared: &str) -> InferredType<'s> {
    match declared.strip_suffix('!') {
        Some(required) => present_type(required),
        None => present_type(declared).or_null(),
    }
}

fn present_type<'s>(declared: &str) -> InferredType<'s> {
    if let Some(item) = item_of(declared) {
        // A single value becomes a list of one item (GraphQL, "Input Coercion" of lists).
        return variable_type(item).list().or(present_type(item.trim_end_matches('!')));
    }
    InferredType::Kinds(match declared {
        "String" => JsonTypes::STRING,
        "ID" => JsonTypes::STRING.or(JsonTypes::INTEGER),
        "Int" => JsonTypes::INTEGER,
        "Float" => JsonTypes::NUMBER,
        "Boolean" => JsonTypes::BOOLEAN,
        _ => JsonTypes::ANY.without(JsonTypes::NULL),
    })
}

/// The JSON Schema of a variable's value, when it is given.
pub(crate) fn variable_schema(declared: &str) -> Value {
    let present = declared.trim_end_matches('!');
    if let Some(item) = item_of(present) {
        return json!({"type": "array", "items": item_schema(item)});
    }
    match present {
        "String" => json!({"type": "string"}),
        "ID" => json!({"type": ["string", "integer"]}),
        "Int" => json!({"type": "integer"}),
        "Float" => json!({"type": "number"}),
        "Boolean" => json!({"type": "boolean"}),
        _ => json!({}),
    }
}

/// Returns the schema of an item of a list, which may be null.
fn item_schema(declared: &str) -> Value {
    let mut schema = variable_schema(declared);
    if !declared.ends_with('!')
        && let Some(types) = schema.get_mut("type")
    {
        let mut all = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        all.push(json!("null"));
        *types = Value::Array(all);
    }
    schema
}

/// Returns the item type of a list type: `Int!` of `[Int!]`.
fn item_of(declared: &str) -> Option<&str> {
    declared.strip_prefix('[')?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_are_read() {
        assert_eq!(variable_type("Int!").kinds(), JsonTypes::INTEGER);
        assert_eq!(variable_type("ID").kinds().to_string(), "a string, a whole number or null");
        assert_eq!(variable_type("[Int!]!").kinds(), JsonTypes::ARRAY.or(JsonTypes::INTEGER));
        assert_eq!(variable_type("Color!").kinds(), JsonTypes::ANY.without(JsonTypes::NULL));
        assert_eq!(
            variable_schema("[[String]!]!"),
            json!({"type": "array", "items": {"type": "array", "items": {"type": ["string", "null"]}}})
        );
        assert_eq!(variable_schema("[Color]"), json!({"type": "array", "items": {}}));
    }
}
