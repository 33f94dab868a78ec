//! One step of a workflow.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::expression::RuntimeExpression;
use super::inputs::{parameters_of, task_inputs};
use super::operation_lookup::{FoundOperation, find_by_id, find_by_path};
use super::success_criteria::{self, SuccessCriterion};
use super::value_scope::{StepOutputs, WorkflowScope};
use super::{ArazzoImporter, actions};
use crate::import::openapi::{ExtractError, ExtractOptions, ExtractedOperation};
use crate::import::ref_resolver::quote_for_message;
use crate::import::{ImportRejection, jsonpath};
use crate::naming;

/// The fields of a step in Arazzo 1.0.
const STEP_FIELDS: [&str; 11] = [
    "description",
    "stepId",
    "operationId",
    "operationPath",
    "workflowId",
    "parameters",
    "requestBody",
    "successCriteria",
    "onSuccess",
    "onFailure",
    "outputs",
];

/// A step of a document, before its task is written.
pub(super) struct DraftStep<'a> {
    /// Its id in the document, which is also the variable that holds its outputs.
    pub(super) id: String,
    /// Its id in the workflow.
    own_id: &'a str,
    pub(super) action: StepCall<'a>,
    pub(super) inputs: Map<String, Value>,
    /// The outputs by name, each with its source in the response.
    outputs: Vec<(String, OutputOrigin)>,
    pub(super) retry: Option<Value>,
    /// The condition for the next step to run, and the id of the step that checks it.
    pub(super) condition: Option<(String, String)>,
}

pub(super) enum StepCall<'a> {
    Task(Box<ExtractedOperation<'a>>),
    Capability { name: String, dependency: Value, domains: Vec<String> },
}

/// The source of an output in the response.
enum OutputOrigin {
    Body(String),
    Header(String),
    Status,
}

impl<'a> DraftStep<'a> {
    pub(super) fn read(
        importer: &ArazzoImporter<'a>,
        workflow: &'a Value,
        raw: &'a Value,
        scope: &mut WorkflowScope<'a>,
    ) -> Result<Self, ExtractError> {
        let own_id = raw.get("stepId").and_then(Value::as_str).unwrap_or_default();
        let place = format!("steps.{}", quote_for_message(own_id));
        let plain = naming::variable_name(if own_id.is_empty() { "step" } else { own_id });
        let id = scope.used_names.reserve_one_of(&[plain.clone(), format!("step_{plain}")]);
        let mut step = Self {
            id,
            own_id,
            action: StepCall::find(importer, raw, &place, scope)?,
            inputs: Map::new(),
            outputs: Vec::new(),
            retry: None,
            condition: None,
        };
        scope.warn_about_unknown_fields(raw, &STEP_FIELDS, &place);
        let parameters = parameters_of(importer.source, workflow, raw);
        match &step.action {
            StepCall::Task(cut) => {
                step.inputs = task_inputs(cut, &parameters, raw, &step.id, &place, scope);
                step.retry = actions::retry(importer.source, raw, workflow, &place, scope);
            }
            StepCall::Capability { .. } => {
                let used = raw.get("workflowId").and_then(Value::as_str).unwrap_or_default();
                let known = importer.find_imported(used).map(|used| &used.inputs);
                for (name, _, value) in &parameters {
                    let Some(input) = known.and_then(|known| known.get(*name)) else {
                        let message =
                            format!("the workflow has no input `{}`", quote_for_message(name));
                        scope.add_warning(&place, message);
                        continue;
                    };
                    let value =
                        scope.value(value, Some(input), &format!("{}_{name}", step.id), &place);
                    step.inputs.insert(input.name.clone(), value);
                }
            }
        }
        step.read_outputs(importer, raw, &place, scope);
        step.read_criteria(raw, &place, scope);
        Ok(step)
    }

    fn read_outputs(
        &mut self,
        importer: &ArazzoImporter<'a>,
        raw: &'a Value,
        place: &str,
        scope: &mut WorkflowScope<'a>,
    ) {
        let mut known = StepOutputs::default();
        let mut taken = naming::UsedNames::default();
        let declared = raw.get("outputs").and_then(Value::as_object);
        for (name, text) in declared.into_iter().flatten() {
            let Some(text) = text.as_str() else {
                let name = quote_for_message(name);
                let reason = format!(
                    "the output `{name}` is not a runtime expression of Arazzo 1.0; the import drops it"
                );
                scope.add_warning(place, reason);
                continue;
            };
            let expression = RuntimeExpression::parse_output(text);
            if let Some(RuntimeExpression::Input(_) | RuntimeExpression::StepOutput { .. }) =
                expression
            {
                // Another name of something that is known already.
                match scope.reference(text, None, place) {
                    Ok(reference) => {
                        known.read.insert(name.clone(), reference);
                    }
                    Err(reason) => {
                        scope.add_warning(place, format!("`{}` {reason}", quote_for_message(text)))
                    }
                }
                continue;
            }
            let Some(how) = self.output(expression, importer, raw, place, scope) else {
                let message = format!(
                    "the output `{}` is `{}`, which cannot be imported",
                    quote_for_message(name),
                    quote_for_message(text)
                );
                scope.add_warning(place, message);
                continue;
            };
            let kind = match (&self.action, expression, &how) {
                (
                    StepCall::Task(cut),
                    Some(RuntimeExpression::Body(pointer)),
                    OutputOrigin::Body(_),
                ) => {
                    let tokens = pointer.strip_prefix('/').map(|rest| rest.split('/'));
                    let tokens: Vec<&str> = tokens.into_iter().flatten().collect();
                    cut.kind_at(&tokens)
                }
                _ => None,
            };
            known.kinds.extend(kind.map(|kind| (name.clone(), kind)));
            let member = taken.reserve(&naming::variable_name(name));
            known.read.insert(name.clone(), format!("{}.{member}", self.id));
            self.outputs.push((member, how));
        }
        // Outputs of a used workflow may be read without being declared again.
        if let StepCall::Capability { .. } = self.action {
            let used = raw.get("workflowId").and_then(Value::as_str).unwrap_or_default();
            for (name, member) in
                importer.find_imported(used).into_iter().flat_map(|used| &used.outputs)
            {
                if known.read.contains_key(name) {
                    continue;
                }
                let own = taken.reserve(&naming::variable_name(name));
                known.read.insert(name.clone(), format!("{}.{own}", self.id));
                let query = jsonpath::of_member(member).unwrap_or_else(|| "$".to_owned());
                self.outputs.push((own, OutputOrigin::Body(query)));
            }
        }
        scope.add_step(self.own_id, known);
    }

    fn output(
        &self,
        expression: Option<RuntimeExpression<'_>>,
        importer: &ArazzoImporter<'a>,
        raw: &'a Value,
        place: &str,
        scope: &mut WorkflowScope<'a>,
    ) -> Option<OutputOrigin> {
        match (&self.action, expression?) {
            (StepCall::Task(cut), RuntimeExpression::Body(pointer)) => {
                pointer_to_query(cut, pointer, place, scope).map(OutputOrigin::Body)
            }
            (StepCall::Task(_), RuntimeExpression::Header(name)) => {
                let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
                let fits = name.len() <= 100 && name.chars().all(token);
                fits.then(|| OutputOrigin::Header(name.to_owned()))
            }
            (StepCall::Task(_), RuntimeExpression::Status) => Some(OutputOrigin::Status),
            (StepCall::Capability { .. }, RuntimeExpression::WorkflowOutput(name)) => {
                let used = raw.get("workflowId").and_then(Value::as_str).unwrap_or_default();
                let member = importer.find_imported(used)?.outputs.get(name)?;
                jsonpath::of_member(member).map(OutputOrigin::Body)
            }
            _ => None,
        }
    }

    /// Reads the success criteria. Each value of the response that they use becomes an output of the step.
    fn read_criteria(&mut self, raw: &'a Value, place: &str, scope: &mut WorkflowScope<'a>) {
        let mut conditions = Vec::new();
        let criteria = raw.get("successCriteria").and_then(Value::as_array);
        for raw in criteria.into_iter().flatten() {
            let mut looked_at: Vec<(String, OutputOrigin)> = Vec::new();
            let criterion = success_criteria::read(raw, |text| {
                let how = match (&self.action, RuntimeExpression::parse_output(text)) {
                    (StepCall::Task(cut), Some(RuntimeExpression::Body(pointer))) => {
                        pointer_to_query(cut, pointer, place, scope).map(OutputOrigin::Body)
                    }
                    (StepCall::Task(_), Some(RuntimeExpression::Header(name))) => {
                        Some(OutputOrigin::Header(name.to_owned()))
                    }
                    (StepCall::Task(_), Some(RuntimeExpression::Status)) => {
                        Some(OutputOrigin::Status)
                    }
                    (
                        _,
                        Some(RuntimeExpression::Input(_) | RuntimeExpression::StepOutput { .. }),
                    ) => {
                        return scope.reference(text, None, place);
                    }
                    _ => None,
                };
                let how = how.ok_or_else(|| {
                    format!("`{}` is not available there", quote_for_message(text))
                })?;
                let member = format!("criterion{}", self.outputs.len() + looked_at.len() + 1);
                let reference = format!("{}.{member}", self.id);
                looked_at.push((member, how));
                Ok(reference)
            });
            match criterion {
                // A step fails by any other status than success.
                SuccessCriterion::Status(met) if met.iter().any(|status| *status < 300) => {}
                SuccessCriterion::Status(_) => {
                    scope.add_warning(
                        place,
                        "a step succeeds only with a status of 2xx, but its criterion requires another status",
                    );
                }
                SuccessCriterion::Condition(condition) => {
                    self.outputs.extend(looked_at);
                    conditions.push(condition);
                }
                SuccessCriterion::Other(reason) => {
                    let condition =
                        raw.get("condition").and_then(Value::as_str).unwrap_or_default();
                    let message = format!(
                        "the import drops the criterion `{}`: {reason}",
                        quote_for_message(condition)
                    );
                    scope.add_warning(place, message);
                }
            }
        }
        let condition = match conditions.len() {
            0 => return,
            1 => conditions.remove(0),
            _ => conditions.iter().map(|c| format!("({c})")).collect::<Vec<_>>().join(" && "),
        };
        self.condition = Some((condition, scope.used_names.reserve(&format!("{}-met", self.id))));
    }

    /// Builds the output mapping of the step. Outputs that no later step reads are optional. When the
    /// workflow itself has outputs, outputs that nothing reads are left out.
    pub(super) fn output_mapping(
        &self,
        scope: &WorkflowScope<'_>,
        has_output: bool,
    ) -> Map<String, Value> {
        let known = scope.outputs_of(self.own_id);
        let is_among = |names: &BTreeSet<String>, member: &str| {
            let reference = format!("{}.{member}", self.id);
            let mut read = names.iter().filter_map(|name| known?.read.get(name));
            read.any(|read| *read == reference)
        };
        let is_needed = |member: &str| known.is_some_and(|known| is_among(&known.needed, member));
        let is_kept = |(member, _): &&(String, OutputOrigin)| {
            let is_used = known.is_some_and(|known| is_among(&known.used, member));
            let in_condition = self.condition.as_ref();
            let is_checked = in_condition.is_some_and(|(condition, _)| {
                condition.contains(&format!("${{{}.{member}}}", self.id))
            });
            !has_output || is_used || is_checked
        };
        let output = |(member, how): &(String, OutputOrigin)| {
            let value = match how {
                OutputOrigin::Body(query) if query == "$" || is_needed(member) => json!(query),
                OutputOrigin::Body(query) => json!({ "path": query, "optional": true }),
                OutputOrigin::Header(name) => {
                    json!({ "from": "header", "path": name, "optional": true })
                }
                OutputOrigin::Status => json!({ "from": "status" }),
            };
            (format!("{}.{member}", self.id), value)
        };
        self.outputs.iter().filter(is_kept).map(output).collect()
    }
}

impl<'a> StepCall<'a> {
    fn find(
        importer: &ArazzoImporter<'a>,
        raw: &'a Value,
        place: &str,
        scope: &mut WorkflowScope<'a>,
    ) -> Result<Self, ExtractError> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        if let Some(id) = text("workflowId") {
            let Some(used) = importer.find_imported(id) else {
                let reason = format!(
                    "it uses the workflow `{}`, which is not imported",
                    quote_for_message(id)
                );
                return Err(ExtractError::new(place, reason));
            };
            let name = used.document.name.clone();
            let checksum = used.document.checksum;
            let dependency =
                json!({ "capability": name, "version": "^1.0.0", "checksum": checksum });
            return Ok(Self::Capability { name, dependency, domains: used.domains.clone() });
        }
        let named = text("operationId").or_else(|| text("operationPath")).unwrap_or_default();
        let found = match (text("operationId"), text("operationPath")) {
            (Some(id), _) => find_by_id(importer, id),
            (None, Some(path)) => find_by_path(importer, path),
            (None, None) if raw.get("channelPath").is_some() => {
                return Err(ExtractError::new(
                    place,
                    "the step uses a channel (`channelPath`); Arazzo 1.0 has only operations and workflows",
                ));
            }
            (None, None) => {
                return Err(ExtractError::new(
                    place,
                    "the step does not name an operation or a workflow",
                ));
            }
        }
        .map_err(|refused: Option<ImportRejection>| {
            let none = "none of the descriptions contains the operation";
            let none = || (format!("{none} `{}`", quote_for_message(named)), None);
            let (reason, hint) = refused.map_or_else(none, |r| (r.reason, r.hint));
            ExtractError { hint, ..ExtractError::new(place, reason) }
        })?;
        let FoundOperation { operation, base, matches } = found;
        if let Some((number, list)) = matches {
            let named = quote_for_message(named);
            let message =
                format!("`{named}` names {number} operations: {list}; the import uses the first");
            scope.add_warning(place, message);
        }
        let body = raw.get("requestBody");
        let media_type = body.and_then(|body| body.get("contentType")).and_then(Value::as_str);
        let server = importer.options.server.as_ref();
        let options = ExtractOptions { server, base, media_type, without: &[] };
        let cut = ExtractedOperation::extract(operation, options).map_err(|flaw| ExtractError {
            location: format!("{place}: {}", flaw.location),
            ..flaw
        })?;
        Ok(Self::Task(Box::new(cut)))
    }
}

/// The JSONPath for a pointer into the response.
fn pointer_to_query<'a>(
    cut: &ExtractedOperation<'a>,
    pointer: &str,
    at: &str,
    scope: &mut WorkflowScope<'a>,
) -> Option<String> {
    let token = pointer.strip_prefix('/').unwrap_or(pointer);
    let looks_like_path = token.contains(['.', '[']) && !token.contains('/');
    if looks_like_path && !cut.has_response_member(token) {
        // `#/a.b` names one member `a.b`; nearly always, the way `a`, then `b` is meant.
        let path = format!("$.{}", token.replace("[]", "[*]"));
        if a2s::JsonPathQuery::parse(&path).is_ok() {
            scope.add_warning(
                at,
                format!("the import reads `#{}` as the path `{path}`", quote_for_message(pointer)),
            );
            return Some(path);
        }
    }
    jsonpath::of_pointer(pointer)
}
