//! One workflow.

use std::collections::BTreeMap;

use a2s::MAX_STEPS;
use serde_json::{Map, Value, json};

use super::expression::is_expression;
use super::step::{DraftStep, StepCall};
use super::value_scope::WorkflowScope;
use super::{ArazzoImporter, workflow_id};
use crate::import::draft::{self, DocumentHeader, DraftAuthor};
use crate::import::openapi::ExtractError;
use crate::import::ref_resolver::quote_for_message;
use crate::import::schema::SchemaDetail;
use crate::import::variable::DocumentParameter;
use crate::import::{ImportRejection, ImportWarning, ImportedDocument};
use crate::{naming, sanitize};

/// The fields of a workflow in Arazzo 1.0.
const WORKFLOW_FIELDS: [&str; 10] = [
    "workflowId",
    "summary",
    "description",
    "inputs",
    "dependsOn",
    "steps",
    "successActions",
    "failureActions",
    "outputs",
    "parameters",
];

/// A workflow that was imported.
pub(super) struct ImportedWorkflow {
    pub(super) document: ImportedDocument,
    pub(super) domains: Vec<String>,
    /// The parameters of the document, by the names of the workflow's inputs.
    pub(super) inputs: BTreeMap<String, DocumentParameter>,
    /// The members of the document's result, by the names of the workflow's outputs.
    pub(super) outputs: BTreeMap<String, String>,
}

pub(super) fn import(
    importer: &ArazzoImporter<'_>,
    index: usize,
    label: &str,
) -> Result<ImportedWorkflow, ImportRejection> {
    let raw = importer.raw[index];
    let refuse = |ExtractError { location: place, reason, hint }: ExtractError| {
        let refusal = ImportRejection::new(label, &place, reason);
        match hint {
            Some(hint) => refusal.with_hint(hint),
            None => refusal,
        }
    };
    let mut scope = WorkflowScope::new(importer.source, raw);
    scope.warn_about_unknown_fields(raw, &WORKFLOW_FIELDS, "");
    let mut steps = Vec::new();
    let listed = raw.get("steps").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if listed.len() > MAX_STEPS {
        let reason = format!("a document has at most {MAX_STEPS} steps, not {}", listed.len());
        return Err(ImportRejection::new(label, "steps", reason));
    }
    for step in listed {
        steps.push(DraftStep::read(importer, raw, step, &mut scope).map_err(refuse)?);
    }
    if steps.is_empty() {
        return Err(ImportRejection::new(label, "steps", "the workflow has no steps"));
    }
    if raw.get("dependsOn").is_some() {
        scope.add_warning("dependsOn", "the import drops the order of workflows");
    }
    scope.close();
    let (output, outputs) = output_of(raw, &mut scope);
    warn_about_conditions(&steps, &mut scope);
    let mappings: Vec<Map<String, Value>> =
        steps.iter().map(|step| step.output_mapping(&scope, output.is_some())).collect();
    let inputs = scope.inputs_by_name();
    let (parameters, remarks) = scope.into_parameters();

    let mut domains: Vec<String> = Vec::new();
    let mut dependencies: Vec<Value> = Vec::new();
    for step in &steps {
        match &step.action {
            StepCall::Task(cut) => domains.extend(cut.domains().map(str::to_owned)),
            StepCall::Capability { dependency, domains: more, .. } => {
                domains.extend(more.iter().cloned());
                if !dependencies.contains(dependency) {
                    dependencies.push(dependency.clone());
                }
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    domains.retain(|domain| seen.insert(domain.clone()));
    let info = importer.source.get("info");
    let text_of = |key: &str| raw.get(key).and_then(Value::as_str);
    let otherwise = format!("Workflow {}", quote_for_message(workflow_id(raw)));
    let header = DocumentHeader {
        name: importer.names[index].clone(),
        description: draft::describe(text_of("summary"), text_of("description"), &otherwise),
        domains: domains.clone(),
        author: DraftAuthor::of(importer.options.author.as_deref(), info, "Imported"),
        parameters,
        dependencies,
    };
    let title = info.and_then(|info| info.get("title")).and_then(Value::as_str);
    let comment = match title {
        Some(title) => format!("Imported from {}: {label}", sanitize::clean_line(title, 80)),
        None => format!("Imported: {label}"),
    };
    let newer = mappings.iter().flat_map(Map::values).any(Value::is_object)
        || steps.iter().any(|step| step.retry.is_some());
    let document = draft::finish(label, &comment, &header.examples(), |detail, warnings| {
        warnings.extend(remarks.iter().cloned());
        let execution = build_execution(&steps, &mappings, detail, warnings);
        header.document(execution, output.clone(), newer)
    })?;
    Ok(ImportedWorkflow { document, domains, inputs, outputs })
}

/// Builds the top-level `output`, and maps the names of the workflow's outputs to the names in it.
fn output_of(
    raw: &Value,
    scope: &mut WorkflowScope<'_>,
) -> (Option<Value>, BTreeMap<String, String>) {
    let (mut output, mut names) = (Map::new(), BTreeMap::new());
    let mut taken = naming::UsedNames::default();
    let declared = raw.get("outputs").and_then(Value::as_object);
    for (name, value) in declared.into_iter().flatten() {
        let place = format!("outputs.{}", quote_for_message(name));
        let value = match value.as_str().filter(|text| is_expression(text)) {
            Some(text) => match scope.reference(text, None, &place) {
                Ok(reference) => json!(format!("${{{reference}}}")),
                Err(reason) => {
                    scope.add_warning(&place, format!("`{}` {reason}", quote_for_message(text)));
                    continue;
                }
            },
            None => scope.value(value, None, name, &place),
        };
        let own = taken.reserve(&naming::variable_name(name));
        output.insert(own.clone(), value);
        names.insert(name.clone(), own);
    }
    ((!output.is_empty()).then(|| Value::Object(output)), names)
}

fn warn_about_conditions(steps: &[DraftStep<'_>], scope: &mut WorkflowScope<'_>) {
    for (index, step) in steps.iter().enumerate() {
        if step.condition.is_none() {
            continue;
        }
        let message = if index + 1 < steps.len() {
            "if its criterion is not met, the steps after it do not run"
        } else {
            "this is the last step; its criterion is not checked"
        };
        scope.add_warning(&format!("steps.{}", step.id), message);
    }
}

/// The steps. The steps after a criterion run only when it is met.
fn build_execution(
    steps: &[DraftStep<'_>],
    mappings: &[Map<String, Value>],
    detail: SchemaDetail,
    warnings: &mut Vec<ImportWarning>,
) -> Value {
    let mut execution = Map::new();
    execution.insert("type".to_owned(), json!("sequence"));
    let first = steps.iter().position(|step| step.condition.is_some());
    let branches = first.map_or(&[][..], |first| &steps[first + 1..]);
    if !branches.is_empty() {
        // They may not run, and are read all the same.
        let shared: Map<String, Value> =
            branches.iter().map(|step| (step.id.clone(), json!("object"))).collect();
        execution.insert("variables".to_owned(), json!({ "shared": shared }));
    }
    let mut written: Vec<Value> = Vec::new();
    for (index, (step, mapping)) in steps.iter().zip(mappings).enumerate().rev() {
        if let Some((condition, id)) = &step.condition
            && index + 1 < steps.len()
        {
            written.reverse();
            let rest = std::mem::take(&mut written);
            written.push(json!({
                "id": id,
                "type": "condition",
                "condition": condition,
                "if_true": { "steps": rest },
            }));
        }
        written.push(step_value(step, mapping, detail, warnings));
    }
    written.reverse();
    execution.insert("steps".to_owned(), json!(written));
    Value::Object(execution)
}

fn step_value(
    step: &DraftStep<'_>,
    mapping: &Map<String, Value>,
    detail: SchemaDetail,
    warnings: &mut Vec<ImportWarning>,
) -> Value {
    let mut value = Map::new();
    value.insert("id".to_owned(), json!(step.id));
    match &step.action {
        StepCall::Task(cut) => {
            value.insert("format".to_owned(), json!("OpenAPI"));
            warnings.extend(cut.remarks().iter().cloned());
            value.insert("task".to_owned(), cut.task(detail, warnings));
        }
        StepCall::Capability { name, .. } => {
            value.insert("type".to_owned(), json!("capability"));
            value.insert("use".to_owned(), json!(name));
        }
    }
    if !step.inputs.is_empty() {
        value.insert("input_mapping".to_owned(), Value::Object(step.inputs.clone()));
    }
    if !mapping.is_empty() {
        value.insert("output_mapping".to_owned(), Value::Object(mapping.clone()));
    }
    if let Some(retry) = &step.retry {
        value.insert("retry".to_owned(), retry.clone());
    }
    Value::Object(value)
}
