//! Arazzo: one document for each workflow.

mod actions;
mod expression;
mod inputs;
mod operation_lookup;
mod step;
mod success_criteria;
mod value_scope;
mod workflow;

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;

use super::openapi::{SpecOperation, operations};
use super::ref_resolver::{RefResolver, quote_for_message};
use super::{ImportError, ImportRejection, ImportResult, name_prefix};
use crate::naming;

/// The maximum number of workflows in a document.
const MAX_WORKFLOWS: usize = 1_000;
/// The maximum number of descriptions that a document refers to.
const MAX_SOURCES: usize = 20;
/// The maximum depth of workflows that use one another.
const MAX_WORKFLOW_DEPTH: usize = 8;

/// The options of an import of workflows.
#[derive(Debug, Clone, Default)]
pub struct ArazzoOptions {
    /// The prefix of every name.
    pub prefix: Option<String>,
    /// The author of the documents.
    pub author: Option<String>,
    /// The address of the services, in place of those in the descriptions.
    pub server: Option<Url>,
}

/// A description that workflows refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceDescription {
    /// The name that steps refer to it by.
    pub name: String,
    /// The location: an address, or a path relative to the Arazzo document.
    pub url: String,
}

/// The content of a [`SourceDescription`].
#[derive(Debug, Clone)]
pub struct ArazzoSource {
    /// The OpenAPI description.
    pub description: Value,
    /// The address of the description; relative addresses of services are relative to it.
    pub base: Option<Url>,
}

/// Lists the OpenAPI descriptions that an Arazzo document refers to.
///
/// # Errors
/// Fails when the value is not an Arazzo 1.0 document, or refers to too many descriptions.
pub fn arazzo_sources(document: &Value) -> Result<Vec<SourceDescription>, ImportError> {
    open(document)?;
    let named = |raw: &Value| {
        let text = |key: &str| raw.get(key).and_then(Value::as_str).map(str::to_owned);
        let is_openapi = raw.get("type").is_none_or(|kind| kind == "openapi");
        Some(SourceDescription { name: text("name")?, url: text("url")? }).filter(|_| is_openapi)
    };
    let sources = document.get("sourceDescriptions").and_then(Value::as_array);
    let sources: Vec<_> = sources.into_iter().flatten().filter_map(named).collect();
    if sources.len() > MAX_SOURCES {
        let message = format!(
            "it refers to {} descriptions; at most {MAX_SOURCES} are supported",
            sources.len()
        );
        return Err(ImportError::new(message, "Split the document."));
    }
    Ok(sources)
}

/// Creates a document for each workflow of an Arazzo 1.0 document. `sources` contains the descriptions that
/// [`arazzo_sources`] lists, except those that could not be read.
///
/// # Errors
/// Fails when the value is not an Arazzo 1.0 document, or has no workflows.
pub fn import_arazzo(
    document: &Value,
    sources: &BTreeMap<String, ArazzoSource>,
    options: &ArazzoOptions,
) -> Result<ImportResult, ImportError> {
    let source = open(document)?;
    let prefix = name_prefix(options.prefix.as_deref(), options.author.as_deref())?;
    let raw = document.get("workflows").and_then(Value::as_array);
    let raw: Vec<&Value> = raw.into_iter().flatten().collect();
    if raw.len() > MAX_WORKFLOWS {
        let message = format!(
            "the document has {} workflows; at most {MAX_WORKFLOWS} are supported",
            raw.len()
        );
        return Err(ImportError::new(message, "Split the document."));
    }
    if raw.is_empty() {
        let hint = "Use a document with at least one entry under `workflows`.";
        return Err(ImportError::new("the document has no workflows", hint));
    }
    let mut taken = naming::UsedNames::for_file_names();
    let names = raw.iter().map(|workflow| {
        let id = workflow_id(workflow);
        let own = naming::capability_name(id).unwrap_or_else(|| "Workflow".to_owned());
        taken.reserve(&format!("{prefix}{own}"))
    });
    let names: Vec<String> = names.collect();
    let services = sources.iter().map(|(name, ArazzoSource { description, base })| {
        let (operations, refused) = operations(RefResolver::new(description));
        (name.as_str(), SourceService { operations, rejections: refused, base: base.as_ref() })
    });
    let mut importer = ArazzoImporter {
        source,
        services: services.collect(),
        options,
        raw: &raw,
        names: &names,
        done: BTreeMap::new(),
    };
    for index in 0..raw.len() {
        importer.import(index, 0);
    }
    let mut imported = ImportResult::default();
    for outcome in importer.done.into_values() {
        match outcome {
            Ok(workflow) => imported.documents.push(workflow.document),
            Err(refusal) => imported.refused.push(refusal),
        }
    }
    Ok(imported)
}

fn open(document: &Value) -> Result<RefResolver<'_>, ImportError> {
    let hint = "Use a file with an Arazzo 1.0 document in JSON or YAML.";
    match document.get("arazzo") {
        Some(version) => {
            let version = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
            if version == "1.0" || version.starts_with("1.0.") {
                return Ok(RefResolver::new(document));
            }
            let message =
                format!("this is Arazzo {}; only 1.0 is supported", quote_for_message(&version));
            let hint = if version.starts_with("1.") {
                "If the document uses only fields of Arazzo 1.0, write `arazzo: 1.0.1`, and import it again."
            } else {
                hint
            };
            Err(ImportError::new(message, hint))
        }
        None => Err(ImportError::new(
            "this is not an Arazzo document: the field `arazzo` is missing",
            hint,
        )),
    }
}

fn workflow_id(workflow: &Value) -> &str {
    workflow.get("workflowId").and_then(Value::as_str).unwrap_or_default()
}

/// The operations of an OpenAPI description.
struct SourceService<'a> {
    operations: Vec<SpecOperation<'a>>,
    /// The operations that cannot be read.
    rejections: Vec<ImportRejection>,
    base: Option<&'a Url>,
}

/// Imports workflows. A workflow that others use is imported first.
struct ArazzoImporter<'a> {
    source: RefResolver<'a>,
    services: BTreeMap<&'a str, SourceService<'a>>,
    options: &'a ArazzoOptions,
    raw: &'a [&'a Value],
    names: &'a [String],
    /// The outcome for each workflow, by index.
    done: BTreeMap<usize, Result<workflow::ImportedWorkflow, ImportRejection>>,
}

impl<'a> ArazzoImporter<'a> {
    fn import(&mut self, index: usize, depth: usize) {
        if self.done.contains_key(&index) {
            return;
        }
        let label = format!("workflow {}", quote_for_message(workflow_id(self.raw[index])));
        if depth > MAX_WORKFLOW_DEPTH {
            let reason = format!(
                "workflows use one another in a chain of more than {MAX_WORKFLOW_DEPTH}, or in a cycle"
            );
            self.done.insert(index, Err(ImportRejection::new(&label, "", reason)));
            return;
        }
        let steps = self.raw[index].get("steps").and_then(Value::as_array);
        for used in steps.into_iter().flatten().filter_map(|step| step.get("workflowId")?.as_str())
        {
            if let Some(used) = self.raw.iter().position(|workflow| workflow_id(workflow) == used) {
                self.import(used, depth + 1);
            }
        }
        if !self.done.contains_key(&index) {
            let outcome = workflow::import(self, index, &label);
            self.done.insert(index, outcome);
        }
    }

    /// Returns the imported workflow with this id; `None` when it is not imported.
    fn find_imported(&self, id: &str) -> Option<&workflow::ImportedWorkflow> {
        let index = self.raw.iter().position(|workflow| workflow_id(workflow) == id)?;
        self.done.get(&index)?.as_ref().ok()
    }
}

#[cfg(test)]
mod tests;
