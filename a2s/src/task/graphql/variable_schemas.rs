//! The types of GraphQL variables: from their types alone, and from the schema of the service when
//! the task carries it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use apollo_compiler::ast::{self, Type};
use apollo_compiler::parser::Parser;
use apollo_compiler::schema::ExtendedType;
use apollo_compiler::validation::{DiagnosticList, Valid};
use apollo_compiler::{ExecutableDocument, Name, Schema};
use serde_json::{Map, Value, json};

use super::MAX_DEPTH;
use crate::diagnostic::did_you_mean;
use crate::task::Problem;

/// The maximum length of a schema, in bytes.
const MAX_SCHEMA: usize = 512 << 10;
/// The maximum number of tokens in a schema.
const MAX_SCHEMA_TOKENS: usize = 200_000;
/// The maximum number of tokens of a query that is checked against a schema. The check compares each pair
/// of fields.
const MAX_QUERY_TOKENS: usize = 4_000;
/// The stack size of the validator, in bytes. The validator is recursive.
const STACK: usize = 32 << 20;

/// The JSON Schemas (2020-12) of an operation's variables.
pub(super) struct VariableSchemas {
    /// The schemas, in the order of the variables in the operation.
    pub(super) schemas: Vec<Value>,
    /// The schemas that they reference as `#/$defs/…`; null when there are none.
    pub(super) definitions: Value,
}

/// Reads the schema of the service from its text.
pub(super) fn read_schema(text: &str) -> Result<Valid<Schema>, Problem> {
    if text.len() > MAX_SCHEMA {
        let message =
            format!("the schema has {} bytes; at most {MAX_SCHEMA} are allowed", text.len());
        return Err((message, "Keep only the types that the query uses.".to_owned()));
    }
    let mut text = Cow::Borrowed(text);
    if text.contains("@oneOf") && !text.contains("directive @oneOf") {
        // It is built into the language, and not yet into the parser.
        text.to_mut().push_str("\ndirective @oneOf on INPUT_OBJECT\n");
    }
    stacker::grow(STACK, || {
        let mut parser = Parser::new().recursion_limit(MAX_DEPTH).token_limit(MAX_SCHEMA_TOKENS);
        let schema = parser.parse_schema(&*text, "schema.graphql");
        let schema = schema
            .map_err(|invalid| refused("the schema is not valid GraphQL", &invalid.errors, None));
        schema?.validate().map_err(|invalid| {
            let schema = &invalid.partial;
            refused("the schema is not valid", &invalid.errors, Some(schema))
        })
    })
}

/// Checks a query against the schema: its fields, arguments and types exist and fit.
pub(super) fn check_query(
    schema: &Valid<Schema>,
    query: &str,
) -> Result<Valid<ExecutableDocument>, Problem> {
    let query_error = |errors: &DiagnosticList| {
        refused("the query does not match the schema", errors, Some(schema))
    };
    stacker::grow(STACK, || {
        let mut parser = Parser::new().recursion_limit(MAX_DEPTH).token_limit(MAX_QUERY_TOKENS);
        let document = parser.parse_executable(schema, query, "query.graphql");
        let document = document.map_err(|invalid| query_error(&invalid.errors))?;
        document.validate(schema).map_err(|invalid| query_error(&invalid.errors))
    })
}

/// Creates the problem for the first error. The hint suggests a similar name of the schema.
fn refused(what: &str, errors: &DiagnosticList, schema: Option<&Schema>) -> Problem {
    let Some(first) = errors.iter().next() else {
        return (what.to_owned(), crate::error_code::BAD_GRAPHQL.remedy.to_owned());
    };
    let place = first.line_column_range().map_or_else(
        || crate::error_code::BAD_GRAPHQL.remedy.to_owned(),
        |range| format!("Correct line {} at column {}.", range.start.line, range.start.column),
    );
    let text = first.error.to_string();
    let hint = match schema.and_then(|schema| suggest_name(schema, &text)) {
        Some(close) => format!("Did you mean `{close}`? {place}"),
        None => place,
    };
    (format!("{what}: {}", crate::field_reader::shorten_for_message(&text)), hint)
}

/// Finds the name of the schema that is closest to the unknown name in an error of the parser.
fn suggest_name<'s>(schema: &'s Schema, error: &str) -> Option<&'s str> {
    let quoted: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
    let (unknown, names) = match quoted.as_slice() {
        [owner, field, ..] if error.contains("does not have a field") => {
            (*field, list_members(schema.types.get(*owner)?))
        }
        [name, owner, ..] if error.contains("does not exist on") => {
            (*name, list_members(schema.types.get(*owner)?))
        }
        [argument, coordinate, ..] if error.contains("is not supported by") => {
            let (owner, field) = coordinate.split_once('.')?;
            let field = find_field(schema.types.get(owner)?, field)?;
            let names = field.arguments.iter().map(|argument| argument.name.as_str());
            (*argument, names.collect())
        }
        [name, ..] if error.contains("cannot find type") => {
            (*name, schema.types.keys().map(Name::as_str).collect())
        }
        _ => return None,
    };
    did_you_mean(unknown, names)
}

/// Lists the fields or values of a type.
fn list_members(of: &ExtendedType) -> Vec<&str> {
    match of {
        ExtendedType::Object(object) => object.fields.keys().map(Name::as_str).collect(),
        ExtendedType::Interface(interface) => interface.fields.keys().map(Name::as_str).collect(),
        ExtendedType::InputObject(input) => input.fields.keys().map(Name::as_str).collect(),
        ExtendedType::Enum(of) => of.values.keys().map(Name::as_str).collect(),
        ExtendedType::Scalar(_) | ExtendedType::Union(_) => Vec::new(),
    }
}

/// Finds a field of an object or interface.
fn find_field<'s>(of: &'s ExtendedType, name: &str) -> Option<&'s ast::FieldDefinition> {
    match of {
        ExtendedType::Object(object) => object.fields.get(name).map(|field| &***field),
        ExtendedType::Interface(interface) => interface.fields.get(name).map(|field| &***field),
        ExtendedType::InputObject(_)
        | ExtendedType::Enum(_)
        | ExtendedType::Scalar(_)
        | ExtendedType::Union(_) => None,
    }
}

/// The schemas of the variables of an operation. A type without a schema accepts anything.
pub(super) fn variables(
    operation: &ast::OperationDefinition,
    schema: Option<&Valid<Schema>>,
) -> VariableSchemas {
    let mut types = TypeSchemaWriter { schema, named: BTreeSet::new(), waiting: Vec::new() };
    let schemas =
        operation.variables.iter().map(|variable| types.type_schema(&variable.ty)).collect();
    let mut definitions = Map::new();
    while let Some(name) = types.waiting.pop() {
        let definition = types.input_object(&name);
        definitions.insert(name.to_string(), definition);
    }
    let definitions = if definitions.is_empty() { Value::Null } else { Value::Object(definitions) };
    VariableSchemas { schemas, definitions }
}

struct TypeSchemaWriter<'s> {
    schema: Option<&'s Valid<Schema>>,
    named: BTreeSet<Name>,
    waiting: Vec<Name>,
}

impl TypeSchemaWriter<'_> {
    fn type_schema(&mut self, declared: &Type) -> Value {
        match declared {
            Type::NonNullNamed(name) => self.named(name),
            Type::Named(name) => or_null(self.named(name)),
            Type::NonNullList(item) => self.list(item),
            Type::List(item) => or_null(self.list(item)),
        }
    }

    /// Returns the schema of a list. It also accepts a single item, which becomes a list of one item
    /// (GraphQL, "Input Coercion" of lists).
    fn list(&mut self, item: &Type) -> Value {
        let list = json!({ "type": "array", "items": self.type_schema(item) });
        let alone = match item {
            Type::Named(name) | Type::NonNullNamed(name) => self.named(name),
            Type::List(item) | Type::NonNullList(item) => self.list(item),
        };
        if alone == json!(true) { alone } else { json!({ "anyOf": [list, alone] }) }
    }

    fn named(&mut self, name: &Name) -> Value {
        match name.as_str() {
            "String" => return json!({ "type": "string" }),
            "ID" => return json!({ "type": ["string", "integer"] }),
            "Int" => {
                return json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX });
            }
            "Float" => return json!({ "type": "number" }),
            "Boolean" => return json!({ "type": "boolean" }),
            _ => {}
        }
        match self.schema.and_then(|schema| schema.types.get(name)) {
            Some(ExtendedType::Enum(choices)) => {
                let names: Vec<&str> = choices.values.keys().map(Name::as_str).collect();
                json!({ "enum": names })
            }
            Some(ExtendedType::InputObject(_)) => {
                if self.named.insert(name.clone()) {
                    self.waiting.push(name.clone());
                }
                json!({ "$ref": format!("#/$defs/{name}") })
            }
            // The service defines the values of its scalars.
            _ => json!(true),
        }
    }

    fn input_object(&mut self, name: &Name) -> Value {
        let found = self.schema.and_then(|schema| schema.types.get(name));
        let Some(ExtendedType::InputObject(object)) = found else { return json!(true) };
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (field, definition) in &object.fields {
            let mut schema = self.type_schema(&definition.ty);
            if let (Value::Object(members), Some(text)) = (&mut schema, &definition.description)
                && text.len() <= 1_000
            {
                members.insert("description".to_owned(), json!(text.trim()));
            }
            properties.insert(field.to_string(), schema);
            if definition.ty.is_non_null() && definition.default_value.is_none() {
                required.push(field.as_str());
            }
        }
        let mut schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        if object.directives.has("oneOf") {
            schema["minProperties"] = json!(1);
            schema["maxProperties"] = json!(1);
        }
        schema
    }
}

fn or_null(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            if let Some(kind) = members.get("type").and_then(Value::as_str).map(str::to_owned) {
                members.insert("type".to_owned(), json!([kind, "null"]));
            } else if let Some(Value::Array(kinds)) = members.get_mut("type") {
                kinds.push(json!("null"));
            } else if let Some(Value::Array(values)) = members.get_mut("enum") {
                values.push(Value::Null);
            } else {
                return json!({ "anyOf": [schema, {"type": "null"}] });
            }
            schema
        }
        _ => schema,
    }
}
