//! GraphQL: one document for each operation of a file, checked against the schema of the service;
//! without a file, one for each field at the top of the schema.

mod introspection;
mod operations;
mod schema_subset;

use std::borrow::Cow;
use std::collections::BTreeMap;

use a2s::{Domain, ValueType};
use apollo_compiler::ast::{Type, Value as Literal};
use apollo_compiler::executable::{Field, Operation, Selection, SelectionSet};
use apollo_compiler::parser::{Parser, SourceSpan};
use apollo_compiler::schema::ExtendedType;
use apollo_compiler::validation::{DiagnosticList, Valid};
use apollo_compiler::{ExecutableDocument, Name, Schema};
use serde_json::{Map, Value, json};
use url::Url;

use self::operations::WrittenOperations;
use super::draft::{self, DocumentHeader, DraftAuthor};
use super::ref_resolver::quote_for_message;
use super::schema::is_exact;
use super::variable::{DocumentParameter, is_secret_name};
use super::{ImportError, ImportRejection, ImportResult, ImportWarning, name_prefix};
use crate::{naming, sanitize};

/// The maximum depth of nesting in a schema or an operation.
const MAX_DEPTH: usize = 100;
/// The maximum number of tokens in a schema.
const MAX_SCHEMA_TOKENS: usize = 10_000_000;
/// The maximum number of tokens in a file with operations of the user.
const MAX_TOKENS: usize = 200_000;
/// The maximum number of values of an `enum`.
const MAX_CHOICES: usize = 100;
/// The maximum number of fields below a single top-level field that become outputs. With more fields, the
/// top-level field is the output.
const MAX_OUTPUTS: usize = 40;
/// The stack size of the validator, in bytes. The validator is recursive.
const STACK: usize = 32 << 20;

/// The options of an import of GraphQL operations.
#[derive(Debug, Clone)]
pub struct GraphqlOptions {
    /// The endpoint to which operations are posted.
    pub endpoint: Url,
    /// The prefix of every name.
    pub prefix: Option<String>,
    /// The author of the documents.
    pub author: Option<String>,
}

/// Creates a document for each operation in `operations`, which must be valid for the schema.
///
/// The schema is text in the schema language, or the response to an introspection query as JSON. Without
/// `operations`, the import writes an operation for each top-level field of the schema.
///
/// # Errors
/// Fails when the schema or the operations are not valid, or when the endpoint is not a usable address.
pub fn import_graphql(
    schema: &str,
    operations: Option<&str>,
    options: &GraphqlOptions,
) -> Result<ImportResult, ImportError> {
    let domain = domain_of(&options.endpoint)?;
    let prefix = name_prefix(options.prefix.as_deref(), options.author.as_deref())?;
    let schema = schema.trim_start_matches('\u{feff}');
    // A schema in the schema language does not begin with a bracket.
    let (schema, remarks) = if schema.trim_start().starts_with(['{', '[']) {
        introspection::to_sdl(schema)?
    } else {
        (schema.to_owned(), Vec::new())
    };
    stacker::grow(STACK, || {
        let (schema, remark) = read_schema(&schema)?;
        let (written, most) = match operations {
            Some(_) => (WrittenOperations::default(), MAX_TOKENS),
            // The operations of the import are as many as the schema has fields.
            None => (operations::write_operations(&schema), MAX_SCHEMA_TOKENS),
        };
        let operations = operations.unwrap_or(&written.text);
        let document = read_operations(&schema, operations, most)?;
        if document.operations.is_empty() {
            let hint = "Write an operation into the file: `query Name { … }`.";
            return Err(ImportError::new("the file has no operation", hint));
        }
        let import = GraphqlImporter {
            schema: &schema,
            document: &document,
            text: operations,
            options,
            prefix,
            domain,
            warning: remark,
            selection_warnings: &written.warnings,
        };
        Ok(ImportResult { remarks, ..import.all() })
    })
}

/// Returns the host that receives the requests.
fn domain_of(endpoint: &Url) -> Result<String, ImportError> {
    let refuse = |reason: String| {
        let hint =
            "Give the address that accepts queries, such as `https://api.example.com/graphql`.";
        ImportError::new(reason, hint)
    };
    let plain = matches!(endpoint.scheme(), "http" | "https")
        && endpoint.username().is_empty()
        && endpoint.password().is_none()
        && endpoint.query().is_none()
        && endpoint.fragment().is_none();
    if !plain {
        return Err(refuse("the endpoint is not a plain HTTP address".to_owned()));
    }
    let port = endpoint.port().map_or_else(String::new, |port| format!(":{port}"));
    let host = endpoint.host_str().unwrap_or_default();
    let domain = Domain::new(&format!("{host}{port}"));
    domain
        .map(String::from)
        .map_err(|error| refuse(format!("the host of the endpoint cannot be used: {error}")))
}

/// The schema, and a warning about its errors. Published schemas contain duplicate definitions, for
/// example; the first one counts.
fn read_schema(text: &str) -> Result<(Valid<Schema>, Option<ImportWarning>), ImportError> {
    let refuse = |errors: &DiagnosticList| {
        let hint = "Get the schema of the service again, as SDL or as the response to an introspection query.";
        ImportError::new(format!("the schema is not valid: {}", describe_errors(errors)), hint)
    };
    let mut text = Cow::Borrowed(text);
    if text.contains("@oneOf") && !text.contains("directive @oneOf") {
        // The directive is a part of the language (GraphQL, September 2025); the parser does not know it.
        text.to_mut().push_str("\ndirective @oneOf on INPUT_OBJECT\n");
    }
    let mut parser = Parser::new().recursion_limit(MAX_DEPTH).token_limit(MAX_SCHEMA_TOKENS);
    let (schema, remark) = match parser.parse_schema(&*text, "schema") {
        Ok(schema) => (schema, None),
        Err(invalid) => {
            let unreadable = invalid.errors.iter().any(|error| {
                let error = error.error.to_string();
                error.starts_with("syntax error") || error.starts_with("parser limit")
            });
            if unreadable {
                return Err(refuse(&invalid.errors));
            }
            let reason = format!("the schema is not valid: {}", describe_errors(&invalid.errors));
            (invalid.partial, Some(ImportWarning::new("schema", reason)))
        }
    };
    let schema = schema.validate().map_err(|invalid| refuse(&invalid.errors))?;
    Ok((schema, remark))
}

fn read_operations(
    schema: &Valid<Schema>,
    text: &str,
    max_tokens: usize,
) -> Result<Valid<ExecutableDocument>, ImportError> {
    let refuse = |errors: &DiagnosticList| {
        let hint = "Correct the operations; they must be valid for the schema.";
        ImportError::new(format!("the operations are not valid: {}", describe_errors(errors)), hint)
    };
    let mut parser = Parser::new().recursion_limit(MAX_DEPTH).token_limit(max_tokens);
    let document = parser.parse_executable(schema, text, "operations");
    let document = document.map_err(|invalid| refuse(&invalid.errors))?;
    document.validate(schema).map_err(|invalid| refuse(&invalid.errors))
}

/// Describes the first errors with their locations.
fn describe_errors(errors: &DiagnosticList) -> String {
    const MOST: usize = 5;
    let mut shown = Vec::new();
    for error in errors.iter().take(MOST) {
        let place = error.line_column_range().map_or_else(String::new, |range| {
            format!("line {}, column {}: ", range.start.line, range.start.column)
        });
        shown.push(place + &sanitize::clean_line(&error.error.to_string(), 200));
    }
    let more = errors.len().saturating_sub(MOST);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    shown.join("; ") + &more
}

struct GraphqlImporter<'a> {
    schema: &'a Valid<Schema>,
    document: &'a Valid<ExecutableDocument>,
    text: &'a str,
    options: &'a GraphqlOptions,
    /// The prefix of every name.
    prefix: String,
    domain: String,
    /// The warning about errors in the schema.
    warning: Option<ImportWarning>,
    /// The warnings about what an operation does not select, by the name of the operation.
    selection_warnings: &'a BTreeMap<String, Vec<ImportWarning>>,
}

impl GraphqlImporter<'_> {
    fn all(&self) -> ImportResult {
        let mut imported = ImportResult::default();
        let mut taken = naming::UsedNames::for_file_names();
        let mut operations: Vec<_> = self.document.operations.iter().collect();
        operations.sort_by_key(|operation| operation.location().map(|at| at.offset()));
        for operation in operations {
            let own = match &operation.name {
                Some(name) => naming::capability_name(name),
                None => operation
                    .selection_set
                    .fields()
                    .next()
                    .and_then(|field| naming::capability_name(field.response_key())),
            };
            let own = own.unwrap_or_else(|| "Operation".to_owned());
            let name = taken.reserve(&format!("{}{own}", self.prefix));
            let label = format!(
                "{} {}",
                operation.operation_type,
                quote_for_message(operation.name.as_deref().unwrap_or("without a name"))
            );
            if operation.is_subscription() {
                let reason =
                    "a step cannot be a subscription: a step is one request and one response";
                imported.refused.push(ImportRejection::new(&label, "", reason));
                continue;
            }
            let at = operation.location();
            imported.add(&label, || self.import(operation, at, &name, &label));
        }
        imported
    }

    fn import(
        &self,
        operation: &Operation,
        at: Option<SourceSpan>,
        name: &str,
        label: &str,
    ) -> Result<super::ImportedDocument, ImportRejection> {
        let mut taken = naming::UsedNames::default();
        let mut remarks: Vec<ImportWarning> = self.warning.iter().cloned().collect();
        let written = operation.name.as_ref();
        let unselected = written.and_then(|name| self.selection_warnings.get(name.as_str()));
        remarks.extend(unselected.into_iter().flatten().cloned());
        let (mut variables, mut inputs) = (Vec::new(), Map::new());
        for definition in &operation.variables {
            let variable = taken.reserve(&naming::variable_name(&definition.name));
            let variable = self.variable(operation, definition, variable, &mut remarks);
            inputs.insert(definition.name.to_string(), variable.template());
            variables.push(variable);
        }
        variables.sort_by_key(|variable: &DocumentParameter| {
            !variable.required || variable.default.is_some()
        });
        let outputs = outputs(operation, &mut taken);
        let newer = outputs.values().any(Value::is_object);
        // If an error removes what the capability is for, all of the data is dropped.
        let mut fields = operation.selection_set.fields();
        let several = operation.selection_set.selections.len() > 1;
        let sure =
            fields.next().is_some_and(|only| only.ty().is_non_null() && !only.ty().is_list());
        let partial = operation.is_query() && (several || sure);

        let mut task = Map::new();
        task.insert("endpoint".to_owned(), json!(self.options.endpoint.as_str()));
        task.insert("query".to_owned(), json!(self.query(operation, at)));
        if partial {
            task.insert("partial_data".to_owned(), json!(true));
        }
        let mut step = Map::new();
        step.insert("id".to_owned(), json!(naming::step_id(name)));
        step.insert("format".to_owned(), json!("GraphQL"));
        step.insert("task".to_owned(), Value::Object(task));
        if !inputs.is_empty() {
            step.insert("input_mapping".to_owned(), json!({ "variables": inputs }));
        }
        step.insert("output_mapping".to_owned(), Value::Object(outputs));

        let header = DocumentHeader {
            name: name.to_owned(),
            description: self.describe(operation, at, label),
            domains: vec![self.domain.clone()],
            author: DraftAuthor::of(self.options.author.as_deref(), None, &self.domain),
            parameters: variables,
            dependencies: Vec::new(),
        };
        let comment =
            format!("Imported: {label} at {}", quote_for_message(self.options.endpoint.as_str()));
        let finish = |schema: Result<&str, &str>| {
            draft::finish(label, &comment, &header.examples(), |_, warnings| {
                warnings.extend(remarks.iter().cloned());
                let mut step = step.clone();
                match schema {
                    Ok(schema) => step["task"]["schema"] = json!(schema),
                    Err(reason) => warnings.push(warn_without_schema(reason)),
                }
                let newer = newer || partial || schema.is_ok();
                header.document(json!({ "type": "sequence", "steps": [step] }), None, newer)
            })
        };
        let needed = schema_subset::used_part_of_schema(self.schema, self.document, operation);
        // A part of the schema that cannot be used is left out, with a warning.
        let reason = match needed {
            Ok(schema) => match finish(Ok(&schema)) {
                Ok(document) => return Ok(document),
                Err(refusal) => format!("it does not compile: {}", refusal.reason),
            },
            Err(size) => format!("it has {size} bytes, more than {}", schema_subset::MAX_TEXT),
        };
        finish(Err(&reason))
    }

    /// Returns the operation as written, and the fragments that it uses.
    fn query(&self, operation: &Operation, at: Option<SourceSpan>) -> String {
        let written = |span: Option<SourceSpan>| {
            let span = span?;
            Some(self.text.get(span.offset()..span.end_offset())?.trim().to_owned())
        };
        let mut query = written(at).unwrap_or_else(|| operation.to_string());
        let mut used: Vec<&Name> = Vec::new();
        collect_fragment_spreads(&operation.selection_set, &mut used);
        let mut next = 0;
        while let Some(name) = used.get(next).copied() {
            next += 1;
            let Some(fragment) = self.document.fragments.get(name) else { continue };
            collect_fragment_spreads(&fragment.selection_set, &mut used);
            query += "\n\n";
            query += &written(fragment.location()).unwrap_or_else(|| fragment.to_string());
        }
        query.replace('\r', "") + "\n"
    }

    /// The comment above an operation; without one, the schema's description of its first field.
    fn describe(&self, operation: &Operation, at: Option<SourceSpan>, label: &str) -> String {
        let before = at.and_then(|at| self.text.get(..at.offset())).unwrap_or_default();
        let mut comment: Vec<&str> = before
            .lines()
            .rev()
            .map(str::trim)
            .map_while(|line| line.strip_prefix('#'))
            .map(|line| line.trim_start_matches('#').trim())
            .collect();
        comment.reverse();
        let first = operation.selection_set.fields().next();
        let description = first.and_then(|field| field.definition.description.as_deref());
        let otherwise = format!("{label} at {}", self.domain);
        let comment = comment.join(" ");
        if sanitize::description(&comment, 200).is_some() {
            return draft::describe(Some(&comment), None, &otherwise);
        }
        draft::describe(None, description, &otherwise)
    }

    fn variable(
        &self,
        operation: &Operation,
        definition: &apollo_compiler::ast::VariableDefinition,
        name: String,
        remarks: &mut Vec<ImportWarning>,
    ) -> DocumentParameter {
        let required = definition.ty.is_non_null() && definition.default_value.is_none();
        let described = describe_variable(operation, self.document, &definition.name);
        let kind = self.schema.types.get(definition.ty.inner_named_type());
        let of_type = kind.filter(|kind| !kind.is_built_in()).and_then(|kind| kind.description());
        let of_type = of_type.map(|text| text.as_str());
        let mut variable = DocumentParameter::new(name, described.or(of_type), required);
        variable.secret = is_secret_name(&definition.name, described);
        variable.kind = match &*definition.ty {
            Type::List(_) | Type::NonNullList(_) => Some(ValueType::Array),
            Type::Named(named) | Type::NonNullNamed(named) => match (named.as_str(), kind) {
                ("Int", _) => Some(ValueType::Integer),
                ("Float", _) => Some(ValueType::Number),
                ("String", _) => Some(ValueType::String),
                // A text, or a whole number.
                ("ID", _) => None,
                ("Boolean", _) => Some(ValueType::Boolean),
                (_, Some(ExtendedType::InputObject(_))) => Some(ValueType::Object),
                (_, Some(ExtendedType::Enum(choices))) => {
                    if choices.values.len() <= MAX_CHOICES {
                        variable.choices =
                            choices.values.keys().map(|key| json!(key.as_str())).collect();
                    } else {
                        let reason = format!(
                            "`{named}` has more than {MAX_CHOICES} values; the import does not list them"
                        );
                        remarks.push(ImportWarning::new(&format!("${}", definition.name), reason));
                    }
                    Some(ValueType::String)
                }
                _ => None,
            },
        };
        if let Some(default) = definition.default_value.as_deref().and_then(literal) {
            let fits =
                variable.kind.is_none_or(|kind| kind.accepts(&default)) && is_exact(&default);
            if fits && !variable.secret && !default.is_null() {
                variable.default = Some(default);
            }
        }
        variable
    }
}

/// The warning about a document without the part of the schema that its operation uses.
fn warn_without_schema(reason: &str) -> ImportWarning {
    let reason = format!(
        "the document has no `schema`, so its inputs and outputs have no types: the part of the schema that the operation uses cannot be included, because {reason}"
    );
    ImportWarning::new("schema", reason)
}

/// Collects the names of the fragments that a selection spreads, each once.
fn collect_fragment_spreads<'d>(selections: &'d SelectionSet, used: &mut Vec<&'d Name>) {
    for selection in &selections.selections {
        match selection {
            Selection::Field(field) => collect_fragment_spreads(&field.selection_set, used),
            Selection::InlineFragment(inline) => {
                collect_fragment_spreads(&inline.selection_set, used)
            }
            Selection::FragmentSpread(spread) => {
                if !used.contains(&&spread.fragment_name) {
                    used.push(&spread.fragment_name);
                }
            }
        }
    }
}

/// The schema's description of the first argument whose value is exactly this variable.
fn describe_variable<'d>(
    operation: &'d Operation,
    document: &'d ExecutableDocument,
    variable: &Name,
) -> Option<&'d str> {
    operation.all_fields(document).find_map(|field| {
        let argument = field.arguments.iter().find(
            |argument| matches!(&*argument.value, Literal::Variable(name) if name == variable),
        )?;
        let definition = field.definition.argument_by_name(&argument.name)?;
        definition.description.as_deref()
    })
}

/// The outputs that a capability takes from the response: the top-level fields, or the fields below the
/// only top-level field.
fn outputs(operation: &Operation, taken: &mut naming::UsedNames) -> Map<String, Value> {
    let top = plain_fields(&operation.selection_set).unwrap_or_default();
    let mut outputs = Map::new();
    if top.is_empty() {
        outputs.insert(taken.reserve("data"), json!("$.data"));
        return outputs;
    }
    if let [only] = top.as_slice()
        && !only.ty().is_list()
        && let Some(below) = plain_fields(&only.selection_set)
        && (1..=MAX_OUTPUTS).contains(&below.len())
    {
        let key = only.response_key();
        for field in below {
            let sure =
                only.ty().is_non_null() && is_always_selected(only) && is_always_selected(field);
            let query = format!("$.data.{key}.{}", field.response_key());
            add_output(field, &query, sure, taken, &mut outputs);
        }
        return outputs;
    }
    for field in top {
        let query = format!("$.data.{}", field.response_key());
        add_output(field, &query, is_always_selected(field), taken, &mut outputs);
    }
    outputs
}

fn add_output(
    field: &Field,
    query: &str,
    sure: bool,
    taken: &mut naming::UsedNames,
    outputs: &mut Map<String, Value>,
) {
    let plain = naming::variable_name(field.response_key());
    let name = taken.reserve_one_of(&[plain.clone(), format!("result_{plain}")]);
    let value = if sure { json!(query) } else { json!({ "path": query, "optional": true }) };
    outputs.insert(name, value);
}

/// Returns true when a field is in every response: it has no directive that may leave it out.
fn is_always_selected(field: &Field) -> bool {
    field.directives.is_empty()
}

/// The fields of a selection; `None` when it contains anything else.
fn plain_fields(selections: &SelectionSet) -> Option<Vec<&Field>> {
    selections.selections.iter().map(|selection| Some(&**selection.as_field()?)).collect()
}

/// Converts a constant to JSON.
fn literal(value: &Literal) -> Option<Value> {
    Some(match value {
        Literal::Null => Value::Null,
        Literal::Enum(name) => json!(name.as_str()),
        Literal::Variable(_) => return None,
        Literal::String(text) => json!(text),
        Literal::Float(number) => serde_json::from_str(number.as_str()).ok()?,
        Literal::Int(number) => serde_json::from_str(number.as_str()).ok()?,
        Literal::Boolean(flag) => json!(flag),
        Literal::List(items) => items.iter().map(|item| literal(item)).collect::<Option<_>>()?,
        Literal::Object(members) => {
            let member = |(name, value): &(Name, apollo_compiler::Node<Literal>)| {
                Some((name.to_string(), literal(value)?))
            };
            Value::Object(members.iter().map(member).collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests;
