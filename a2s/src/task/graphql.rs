//! GraphQL tasks: an endpoint and one operation.

mod response_data;
mod sample;
mod selection;
mod variable_schemas;

use std::collections::BTreeMap;

use apollo_compiler::parser::Parser;
use apollo_compiler::{Node, ast};
use serde_json::Value;
use url::Url;

use super::security::{SecurityRequirement, read_security};
use super::{HeaderRules, Problem, decode_headers, decode_url};
use crate::diagnostic::{SourceLocation, did_you_mean};
use crate::error_code;
use crate::field_reader::{DiagnosticSink, DocumentField, ObjectReader, shorten_for_message};
pub(crate) use selection::{FieldSelection, SelectedField};

/// The maximum length of a query, in bytes.
const MAX_QUERY: usize = 64 << 10;
/// The maximum nesting depth of selections.
const MAX_DEPTH: usize = 50;
/// The maximum number of tokens of a query.
const MAX_TOKENS: usize = 20_000;

/// One query or mutation.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphqlTask {
    /// The address that requests are posted to.
    pub endpoint: Url,
    /// The GraphQL document, as written.
    pub query: String,
    /// The name of the operation, when it has one; sent as `operationName`.
    pub operation_name: Option<String>,
    /// True when it changes something.
    pub is_mutation: bool,
    /// The variables that it declares.
    pub variables: Vec<VariableDefinition>,
    /// Headers that the document sets; never `Authorization`, `Cookie`, `Host` or framing ones.
    pub headers: BTreeMap<String, String>,
    /// The authentication alternatives, as in an OpenAPI task (a2s 1.1).
    pub security: Vec<Vec<SecurityRequirement>>,
    /// The schemas that the schemas of the variables reference as `#/$defs/…`; null when there are none.
    pub definitions: Value,
    /// The JSON Schema (2020-12) of the data in a response, as the `schema` of the task declares it; null
    /// without such a schema.
    pub data: Value,
    /// True when a request first names the query by its SHA-256, and sends it when the service asks for it
    /// (automatic persisted queries).
    pub persisted_query: bool,
    /// True when data next to errors is a response, and not a failure.
    pub partial_data: bool,
}

/// A variable of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableDefinition {
    /// Its name, without `$`.
    pub name: String,
    /// Its type, as written: `String!`.
    pub kind: String,
    /// True when a request without it is rejected: a type with `!` and no default.
    pub required: bool,
    /// The JSON Schema (2020-12) of its values, as far as its type is known. With a `schema` in the task,
    /// enumerations and input objects are known, too.
    pub schema: Value,
}

impl GraphqlTask {
    /// A placeholder for a task that could not be read, in a document with errors.
    pub(crate) fn substitute() -> Self {
        Self {
            endpoint: Url::parse("https://unreadable.invalid/").expect("this is a URL"),
            query: String::new(),
            operation_name: None,
            is_mutation: false,
            variables: Vec::new(),
            headers: BTreeMap::new(),
            security: Vec::new(),
            definitions: Value::Null,
            data: Value::Null,
            persisted_query: false,
            partial_data: false,
        }
    }

    /// The selection of the operation; `None` when the query cannot be read.
    pub(crate) fn selection(&self) -> Option<FieldSelection> {
        let document = read_query(&self.query).ok()?;
        let operation = choose_operation(&document, self.operation_name.as_deref()).ok()?;
        Some(FieldSelection::new(&document, operation))
    }
}

/// Reads a GraphQL task, and returns it with the location of its address. Errors go to `findings`.
pub(crate) fn decode_graphql(
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<(GraphqlTask, SourceLocation)> {
    let mut fields = ObjectReader::open(field, "a GraphQL task", findings)?;
    let endpoint = fields.require("endpoint", findings);
    let query = fields.require("query", findings);
    let name = fields.take("operationName");
    let headers = fields.take("headers");
    let security = fields.take_since_1_1("security", findings);
    let schemes = fields.take_since_1_1("securitySchemes", findings);
    let schema = fields.take_since_1_1("schema", findings);
    let persisted_query = fields.take_since_1_1("persisted_query", findings);
    let partial_data = fields.take_since_1_1("partial_data", findings);
    fields.finish(findings);
    let code = error_code::BAD_GRAPHQL;
    let security = read_security(field, security.as_ref(), schemes.as_ref(), code, findings);

    let endpoint = endpoint.and_then(|field| {
        let url = decode_url(field.string(findings)?);
        Some((accept(url, &field, findings)?, field.at_value()))
    });
    let headers = headers.map_or_else(BTreeMap::new, |headers| {
        decode_headers(&headers, HeaderRules { code, own: |_| false }, findings)
    });
    let query_field = query?;
    let text = query_field.string(findings)?;
    let document = accept(read_query(text), &query_field, findings)?;
    let name_text = match &name {
        Some(field) => Some(field.string(findings)?),
        None => None,
    };
    let operation = choose_operation(&document, name_text);
    let operation = accept(operation, name.as_ref().unwrap_or(&query_field), findings)?;
    let (endpoint, site) = endpoint?;
    let schema = match &schema {
        None => None,
        Some(field) => {
            let read = variable_schemas::read_schema(field.string(findings)?);
            let read = accept(read, field, findings)?;
            let fits = variable_schemas::check_query(&read, text);
            Some((read, accept(fits, &query_field, findings)?))
        }
    };
    let flag = |field: &Option<DocumentField<'_>>, findings: &mut DiagnosticSink| match field {
        None => Some(false),
        Some(field) => field.boolean(findings),
    };
    let persisted_query = flag(&persisted_query, findings)?;
    let partial_data = flag(&partial_data, findings)?;
    let variable_schemas::VariableSchemas { schemas, definitions } =
        variable_schemas::variables(operation, schema.as_ref().map(|(read, _)| read));
    let data = schema.as_ref().map_or(Value::Null, |(read, document)| {
        response_data::data_schema(read, document, operation.name.as_deref(), partial_data)
    });
    let task = GraphqlTask {
        endpoint,
        query: text.to_owned(),
        operation_name: operation.name.as_ref().map(|name| name.as_str().to_owned()),
        is_mutation: operation.operation_type == ast::OperationType::Mutation,
        variables: define_variables(operation, schemas),
        headers,
        security,
        definitions,
        data,
        persisted_query,
        partial_data,
    };
    Some((task, site))
}

/// Returns the result of reading `field`. Reports the problem when there is one.
fn accept<T>(
    result: Result<T, Problem>,
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<T> {
    result
        .map_err(|(message, hint)| {
            findings.error_with_hint(error_code::BAD_GRAPHQL, field.at_value(), message, hint);
        })
        .ok()
}

/// Returns the variables that an operation declares, each with its schema.
fn define_variables(
    operation: &ast::OperationDefinition,
    schemas: Vec<Value>,
) -> Vec<VariableDefinition> {
    let define = |(variable, schema): (&Node<ast::VariableDefinition>, Value)| VariableDefinition {
        name: variable.name.as_str().to_owned(),
        kind: variable.ty.to_string(),
        required: variable.ty.is_non_null() && variable.default_value.is_none(),
        schema,
    };
    operation.variables.iter().zip(schemas).map(define).collect()
}

fn read_query(text: &str) -> Result<ast::Document, Problem> {
    if text.len() > MAX_QUERY {
        let message =
            format!("the query has {} bytes; at most {MAX_QUERY} are allowed", text.len());
        return Err((message, "Select fewer fields in one step.".to_owned()));
    }
    let parsed = Parser::new()
        .recursion_limit(MAX_DEPTH)
        .token_limit(MAX_TOKENS)
        .parse_ast(text, "query.graphql");
    parsed.map_err(|invalid| {
        let first = invalid.errors.iter().next();
        let reason = first
            .as_ref()
            .map_or_else(String::new, |first| in_plain_words(&first.error.to_string()));
        let hint = match first.and_then(|first| first.line_column_range()) {
            Some(range) => format!(
                "Correct line {} of the query at column {}.",
                range.start.line, range.start.column
            ),
            None => error_code::BAD_GRAPHQL.remedy.to_owned(),
        };
        (format!("the query is not valid GraphQL: {reason}"), hint)
    })
}

/// Returns the parser's message with the tokens themselves in place of their names.
fn in_plain_words(reason: &str) -> String {
    const TOKENS: [(&str, &str); 11] = [
        ("L_CURLY", "`{`"),
        ("R_CURLY", "`}`"),
        ("L_PAREN", "`(`"),
        ("R_PAREN", "`)`"),
        ("L_BRACK", "`[`"),
        ("R_BRACK", "`]`"),
        ("COLON", "`:`"),
        ("EQ", "`=`"),
        ("DOLLAR", "`$`"),
        ("EOF", "the end"),
        ("syntax error: ", ""),
    ];
    TOKENS.iter().fold(reason.to_owned(), |text, (token, words)| text.replace(token, words))
}

/// Returns the operation that is sent: the only one, or the one that `operationName` names.
fn choose_operation<'d>(
    document: &'d ast::Document,
    name: Option<&str>,
) -> Result<&'d ast::OperationDefinition, Problem> {
    let mut operations: Vec<&ast::OperationDefinition> = Vec::new();
    for definition in &document.definitions {
        match definition {
            ast::Definition::OperationDefinition(operation) => operations.push(operation),
            ast::Definition::FragmentDefinition(_) => {}
            _ => {
                return Err((
                    "a query must contain only operations and fragments, not types".to_owned(),
                    "Remove the type definitions.".to_owned(),
                ));
            }
        }
    }
    let names: Vec<_> = operations.iter().filter_map(|o| Some(o.name.as_ref()?.as_str())).collect();
    let list = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let chosen = match (name, operations.as_slice()) {
        (Some(name), _) => {
            let found = operations.iter().find(|o| o.name.as_ref().is_some_and(|n| *n == name));
            let hint = match did_you_mean(name, names.iter().copied()) {
                Some(close) => format!("Did you mean `{close}`?"),
                None if names.is_empty() => "Leave `operationName` out.".to_owned(),
                None => format!("Known names are {}.", list()),
            };
            *found.ok_or_else(|| {
                (format!("the query has no operation `{}`", shorten_for_message(name)), hint)
            })?
        }
        (None, [operation]) => *operation,
        (None, []) => {
            let hint = "Write an operation: `query { … }` or `mutation { … }`.".to_owned();
            return Err(("the query has no operation".to_owned(), hint));
        }
        (None, _) => {
            let hint = format!("Name one in `operationName`; it has {}.", list());
            return Err(("the query has several operations".to_owned(), hint));
        }
    };
    if chosen.operation_type == ast::OperationType::Subscription {
        let message = "a step cannot be a subscription: a step is one request and one response";
        return Err((message.to_owned(), "Use a query or a mutation.".to_owned()));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests;
