//! OpenAPI: one document for each operation.

mod body;
mod extract_operation;
mod omission;
mod operation;
mod parameter;
mod response;
mod server;

use a2s::did_you_mean;
use serde::Serialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::draft::{self, DocumentHeader, DraftAuthor};
use super::ref_resolver::{RefResolver, quote_for_message};
use super::variable::DocumentParameter;
use super::{
    ImportError, ImportRejection, ImportResult, ImportStop, ImportWarning, ImportedDocument,
    name_prefix,
};
use crate::{naming, sanitize};

pub(super) use body::OperationBody;
pub(super) use extract_operation::{ExtractError, ExtractOptions, ExtractedOperation};
pub(super) use operation::{SpecOperation, operations};
pub(super) use parameter::ParameterIn;

/// The maximum number of parameters of a document.
const MAX_PARAMETERS: usize = 100;
/// The maximum length of a listed path, in characters.
const MAX_PATH: usize = 400;

/// Options for the import of operations.
#[derive(Debug, Clone, Default)]
pub struct OpenApiOptions {
    /// The operations to import: by `operationId`, as `GET /users/{id}`, or by the names of their
    /// documents. When the list is empty, all operations are imported.
    pub operations: Vec<String>,
    /// The prefix of every name.
    pub prefix: Option<String>,
    /// The address of the service, in place of the one in the description.
    pub server: Option<Url>,
    /// The address that the description was read from: the base of relative addresses.
    pub base: Option<Url>,
    /// The author of the documents, in place of the contact in the description.
    pub author: Option<String>,
    /// The names of optional parameters (query, header, cookie) that the documents do not get.
    pub without: Vec<String>,
    /// Ends the import early.
    pub stop: ImportStop,
}

/// An operation of a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationSummary {
    /// `operationId`, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `GET`, `POST`, ….
    pub method: String,
    /// The path template.
    pub path: String,
    /// The name that its document gets.
    pub name: String,
    /// The function that it performs.
    pub description: String,
}

/// Lists the operations of an OpenAPI description, with the names that their documents get.
///
/// # Errors
/// When the value is not an OpenAPI description of a supported version.
pub fn list_openapi(
    description: &Value,
    options: &OpenApiOptions,
) -> Result<Vec<OperationSummary>, ImportError> {
    let source = open(description)?;
    let prefix = name_prefix(options.prefix.as_deref(), options.author.as_deref())?;
    let (operations, _) = operations(source);
    let names = document_names(&operations, &prefix);
    let summaries = operations.iter().zip(names).map(|(operation, name)| OperationSummary {
        id: operation.id().map(quote_for_message),
        method: operation.method.to_ascii_uppercase(),
        path: sanitize::clean_line(operation.path, MAX_PATH),
        name,
        description: description_of(source, operation),
    });
    Ok(summaries.collect())
}

/// Creates a document for each operation of an OpenAPI description, 3.0 or 3.1.
///
/// # Errors
/// Fails when the value is not an OpenAPI description of a supported version, or does not have the
/// requested operations. Errors in single operations are in [`ImportResult::refused`].
pub fn import_openapi(
    description: &Value,
    options: &OpenApiOptions,
) -> Result<ImportResult, ImportError> {
    let source = open(description)?;
    let prefix = name_prefix(options.prefix.as_deref(), options.author.as_deref())?;
    let (operations, refused) = operations(source);
    let names = document_names(&operations, &prefix);
    let webhooks = source.get("webhooks");
    let chosen = select_operations(&operations, &refused, &names, &options.operations, webhooks)?;
    omission::check_names(&options.without, chosen.iter().map(|index| operations[*index]))?;
    let mut imported = ImportResult::default();
    let webhooks = list_requests_of_service(webhooks);
    imported.remarks.extend(webhooks.map(|names| warn_about_requests("webhooks", &names)));
    if options.operations.is_empty() {
        imported.refused = refused;
    }
    for index in chosen {
        if options.stop.is_set() {
            return Err(ImportError::new(
                "the import was stopped",
                "Import fewer operations at once.",
            ));
        }
        let (operation, name) = (operations[index], &names[index]);
        imported.add(&operation.label(), || import_operation(operation, name, options));
    }
    Ok(imported)
}

/// Lists the names of callbacks or webhooks: requests that the service sends.
fn list_requests_of_service(owner: Option<&Value>) -> Option<String> {
    const MAX_LISTED: usize = 5;
    let names = owner?.as_object()?.keys().filter(|name| !name.starts_with("x-"));
    let names: Vec<String> = names.map(|name| format!("`{}`", quote_for_message(name))).collect();
    let listed = names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count > MAX_LISTED => Some(format!("{listed} and {} more", count - MAX_LISTED)),
        _ => Some(listed),
    }
}

/// The warning about callbacks or webhooks, which no document can describe.
fn warn_about_requests(place: &str, names: &str) -> ImportWarning {
    let reason = format!(
        "the import drops {names}: the service sends these requests, and a document describes requests to the service"
    );
    ImportWarning::new(place, reason)
}

/// Opens the description, if its version is supported.
pub(super) fn open(description: &Value) -> Result<RefResolver<'_>, ImportError> {
    let text = |key: &str| match description.get(key)? {
        Value::String(version) => Some(quote_for_message(version)),
        Value::Number(version) => Some(version.to_string()),
        _ => None,
    };
    match (text("openapi"), text("swagger")) {
        (Some(version), _) if version.starts_with("3.0") || version.starts_with("3.1") => {
            Ok(RefResolver::new(description))
        }
        (Some(version), _) => Err(ImportError::new(
            format!("this is OpenAPI {version}; only 3.0 and 3.1 are supported"),
            "Get the description in OpenAPI 3.0 or 3.1.",
        )),
        (None, Some(version)) => Err(ImportError::new(
            format!("this is Swagger {version}; only OpenAPI 3.0 and 3.1 are supported"),
            "Convert it first, with `npx swagger2openapi FILE` or at https://converter.swagger.io, and import the result.",
        )),
        (None, None) => Err(ImportError::new(
            "this is not an OpenAPI description: the field `openapi` is missing",
            "Use a file or an address of an OpenAPI description in JSON or YAML.",
        )),
    }
}

/// Selects the requested operations. Returns their indexes, in the order of the description.
fn select_operations(
    operations: &[SpecOperation<'_>],
    refused: &[ImportRejection],
    names: &[String],
    wanted: &[String],
    webhooks: Option<&Value>,
) -> Result<Vec<usize>, ImportError> {
    if wanted.is_empty() {
        if operations.is_empty() {
            if let Some(first) = refused.first() {
                let message = format!(
                    "none of the {} operations of the description can be imported; the first error: {}: {}",
                    refused.len(),
                    first.source,
                    first.reason
                );
                let hint = first.hint.clone().unwrap_or_default();
                return Err(ImportError::new(message, hint));
            }
            let hint = "Use a description with at least one path and operation.";
            let message = match list_requests_of_service(webhooks) {
                Some(names) => format!(
                    "the description has no operations, only webhooks ({names}), which the service sends"
                ),
                None => "the description has no operations".to_owned(),
            };
            return Err(ImportError::new(message, hint));
        }
        return Ok((0..operations.len()).collect());
    }
    let mut chosen = Vec::new();
    for name in wanted {
        let by_id = operations.iter().position(|operation| operation.id() == Some(name));
        let by_path = || operations.iter().position(|operation| operation.is_at(name));
        let by_name = || names.iter().position(|known| known == name);
        let Some(index) = by_id.or_else(by_path).or_else(by_name) else {
            let ids = operations.iter().filter_map(SpecOperation::id);
            let names = names.iter().map(String::as_str);
            let hint = match did_you_mean(name, ids).or_else(|| did_you_mean(name, names)) {
                Some(close) => format!("Did you mean `{}`?", quote_for_message(close)),
                None => "List the operations with `a2s import openapi SPEC --list`; name an operation without an id as in `GET /users/{id}`.".to_owned(),
            };
            let message = format!("the description has no operation `{}`", quote_for_message(name));
            return Err(ImportError::new(message, hint));
        };
        if !chosen.contains(&index) {
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    Ok(chosen)
}

/// Returns the names of the documents of all operations. An operation that is imported alone has the same
/// name.
fn document_names(operations: &[SpecOperation<'_>], prefix: &str) -> Vec<String> {
    let mut taken = naming::UsedNames::for_file_names();
    let name = |operation: &SpecOperation<'_>| {
        let own = operation.id().and_then(naming::capability_name);
        let own = own.unwrap_or_else(|| operation.name_by_path());
        taken.reserve(&format!("{prefix}{own}"))
    };
    operations.iter().map(name).collect()
}

fn description_of(source: RefResolver<'_>, operation: &SpecOperation<'_>) -> String {
    /// A text that says something.
    fn text<'v>(of: &'v Value, key: &str) -> Option<&'v str> {
        of.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    }
    let nearest = |key: &str| text(operation.raw, key).or_else(|| text(operation.item, key));
    let title = source.get("info").and_then(|info| info.get("title")).and_then(Value::as_str);
    let otherwise = match title {
        Some(title) => format!("{} of {}", operation.label(), sanitize::clean_line(title, 80)),
        None => operation.label(),
    };
    let (summary, detail) = (nearest("summary"), nearest("description"));
    draft::describe(summary, detail, &otherwise)
}

fn import_operation(
    operation: SpecOperation<'_>,
    name: &str,
    options: &OpenApiOptions,
) -> Result<ImportedDocument, ImportRejection> {
    let source = operation.source;
    let label = operation.label();
    let extract = ExtractOptions {
        server: options.server.as_ref(),
        base: options.base.as_ref(),
        media_type: None,
        without: &options.without,
    };
    let cut = ExtractedOperation::extract(operation, extract).map_err(
        |ExtractError { location: place, reason, hint }| {
            let refusal = ImportRejection::new(&label, &place, reason);
            match hint {
                Some(hint) => refusal.with_hint(hint),
                None => refusal,
            }
        },
    )?;
    let plan = OperationMapping::from_operation(&cut);
    let header = DocumentHeader {
        name: name.to_owned(),
        description: description_of(source, &operation),
        domains: cut.domains().map(str::to_owned).collect(),
        author: DraftAuthor::of(options.author.as_deref(), source.get("info"), cut.domain()),
        parameters: plan.variables.clone(),
        dependencies: Vec::new(),
    };
    let title = source.get("info").and_then(|info| info.get("title")).and_then(Value::as_str);
    let comment = match title {
        Some(title) => format!("Imported from {}: {label}", sanitize::clean_line(title, 80)),
        None => format!("Imported: {label}"),
    };
    let callbacks = list_requests_of_service(operation.raw.get("callbacks"));
    let callbacks = callbacks
        .map(|names| warn_about_requests(&format!("{}.callbacks", operation.location()), &names));
    draft::finish(&label, &comment, &header.examples(), |detail, remarks| {
        remarks.extend(callbacks.iter().cloned());
        remarks.extend(cut.remarks().iter().cloned());
        remarks.extend(plan.warnings.iter().cloned());
        let mut step = Map::new();
        step.insert("id".to_owned(), json!(naming::step_id(name)));
        step.insert("format".to_owned(), json!("OpenAPI"));
        step.insert("task".to_owned(), cut.task(detail, remarks));
        if !plan.inputs.is_empty() {
            step.insert("input_mapping".to_owned(), Value::Object(plan.inputs.clone()));
        }
        if !plan.outputs.is_empty() {
            step.insert("output_mapping".to_owned(), Value::Object(plan.outputs.clone()));
        }
        let newer = plan.outputs.values().any(Value::is_object);
        header.document(json!({ "type": "sequence", "steps": [step] }), None, newer)
    })
}

/// The mapping of a document's parameters to one operation, and its outputs.
struct OperationMapping {
    variables: Vec<DocumentParameter>,
    inputs: Map<String, Value>,
    outputs: Map<String, Value>,
    warnings: Vec<ImportWarning>,
}

impl OperationMapping {
    fn from_operation(cut: &ExtractedOperation<'_>) -> Self {
        let mut taken = naming::UsedNames::default();
        let (mut variables, mut inputs) = (Vec::new(), Map::new());
        let mut remarks = Vec::new();
        for parameter in cut.parameters() {
            let is_key = parameter.is_idempotency_key();
            if is_key {
                // The executor creates a new one for each step of each run.
                let Some(rule) = parameter.key_conflict(cut.source()) else { continue };
                let reason = format!(
                    "the schema of the header rejects the keys that the executor makes (`{rule}`), so the caller gives the key"
                );
                remarks.push(ImportWarning::new(&parameter.name, reason));
            }
            let value = match &parameter.constant {
                Some(constant) => json!(constant.replace("${", "$${")),
                None => {
                    let plain = naming::variable_name(&parameter.name);
                    let longer = format!("{}_{plain}", parameter.location.as_str());
                    let mut variable =
                        parameter.variable(cut.source(), taken.reserve_one_of(&[plain, longer]));
                    variable.required |= is_key;
                    let template = variable.template();
                    variables.push(variable);
                    template
                }
            };
            let group =
                inputs.entry(parameter.location.mapping_group()).or_insert_with(|| json!({}));
            group[parameter.name.as_str()] = value;
        }
        if let Some(body) = cut.body() {
            let room = MAX_PARAMETERS.saturating_sub(variables.len());
            let (more, value) = body.plan(cut.source(), room, &mut taken);
            variables.extend(more);
            inputs.insert("body".to_owned(), value);
        }
        if variables.len() > MAX_PARAMETERS {
            let mut dropped = Vec::new();
            while variables.len() > MAX_PARAMETERS
                && let Some(last) = variables.iter().rposition(|variable| !variable.required)
            {
                dropped.push(variables.remove(last));
            }
            for variable in &dropped {
                let template = variable.template();
                for group in inputs.values_mut().filter_map(Value::as_object_mut) {
                    group.retain(|_, value| *value != template);
                }
                inputs.retain(|_, value| *value != template && *value != json!({}));
                let reason = format!(
                    "a document has at most {MAX_PARAMETERS} parameters; the import drops this optional parameter"
                );
                remarks.push(ImportWarning::new(&variable.name, reason));
            }
        }
        let outputs = cut.outputs(&mut taken, &mut remarks);
        // Those that a caller must give come first.
        variables.sort_by_key(|variable| !variable.required || variable.default.is_some());
        Self { variables, inputs, outputs, warnings: remarks }
    }
}

#[cfg(test)]
mod tests;
