//! A task with what its description says of values: what may be sent, and what may come back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use a2s::{
    EvaluationCost, GraphqlTask, InputLocation, McpTask, MediaType, OpenApiTask,
    OperationParameter, Task,
};
use http::HeaderValue;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::openapi::{BodyView, accepted_types, find_input, is_sent};
use super::schema::{SchemaCheck, SchemaViolation, ValueDirection, WrittenForm};
use super::{PrepareError, RawResponse};

/// The most tasks of a run for which compiled schemas are kept.
const MAX_CONTRACTS: usize = 256;

/// A check that is compiled when it is first needed; `None` when there is nothing to check.
type LazyCheck = OnceLock<Option<SchemaCheck>>;

/// A task, and the schemas of its values. They are compiled when they are first needed.
#[derive(Debug)]
pub(crate) struct TaskContract {
    task: Arc<Task>,
    /// The checks of the parameters, variables or arguments, in the order of the task.
    inputs: Vec<LazyCheck>,
    /// The check of the body, or of all arguments together.
    body: LazyCheck,
    /// The checks of the media types of each response, in the order of the task.
    responses: Vec<LazyCheck>,
    /// The media types that the service is asked for.
    accepted: OnceLock<HeaderValue>,
}

/// The contracts of one run, by task.
#[derive(Debug, Default)]
pub(crate) struct ContractCache(Mutex<BTreeMap<usize, Arc<TaskContract>>>);

impl ContractCache {
    /// Returns the contract of a task. Steps with the same task share one.
    pub(crate) fn contract_for(&self, task: &Arc<Task>) -> Arc<TaskContract> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A contract keeps its task, so no other one gets its address.
        let address = Arc::as_ptr(task).addr();
        if let Some(contract) = kept.get(&address) {
            return Arc::clone(contract);
        }
        let contract = Arc::new(TaskContract::new(Arc::clone(task)));
        if kept.len() < MAX_CONTRACTS {
            kept.insert(address, Arc::clone(&contract));
        }
        contract
    }
}

impl TaskContract {
    /// Creates the contract of a task. Nothing is compiled yet.
    pub(crate) fn new(task: Arc<Task>) -> Self {
        let (inputs, answers) = match &*task {
            Task::OpenApi(task) => (task.parameters.len(), declared_responses(task).count()),
            Task::Graphql(task) => (task.variables.len(), 0),
            Task::Mcp(task) => (task.arguments().count(), 1),
        };
        let lazy = |count| std::iter::repeat_with(LazyCheck::new).take(count).collect();
        let (inputs, answers) = (lazy(inputs), lazy(answers));
        Self { inputs, responses: answers, body: LazyCheck::new(), accepted: OnceLock::new(), task }
    }

    /// Returns the task.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// Returns the `Accept` header of its operation.
    pub(super) fn accepted_types(&self, task: &OpenApiTask) -> HeaderValue {
        self.accepted.get_or_init(|| accepted_types(task)).clone()
    }

    /// Checks the inputs of a request against their schemas.
    ///
    /// # Errors
    /// Returns [`PrepareError::Violation`] for the first one that does not fit.
    pub(super) fn check_inputs(
        &self,
        inputs: &IndexMap<InputLocation, Value>,
    ) -> Result<(), PrepareError> {
        match &*self.task {
            Task::OpenApi(task) => self.check_operation(task, inputs),
            Task::Graphql(task) => self.check_variables(task, inputs),
            Task::Mcp(task) => self.check_arguments(task, inputs),
        }
    }

    fn check_operation(
        &self,
        task: &OpenApiTask,
        inputs: &IndexMap<InputLocation, Value>,
    ) -> Result<(), PrepareError> {
        for (parameter, check) in task.parameters.iter().zip(&self.inputs) {
            let value = find_input(inputs, parameter).filter(|value| is_sent(parameter, value));
            let Some(value) = value else { continue };
            let check = check.get_or_init(|| {
                SchemaCheck::from_task_schema(task, &parameter.schema, ValueDirection::Request)
            });
            let Some(check) = check else { continue };
            let spelling = if is_exact(parameter) { WrittenForm::Exact } else { WrittenForm::Text };
            require_no_violations(
                || parameter.input_location(),
                check.violations_as_written(value, |_| spelling),
            )?;
        }
        let value = inputs.get(&InputLocation::Body).filter(|value| !value.is_null());
        let (Some(body), Some(value)) = (&task.body, value) else { return Ok(()) };
        let Some(seen) = BodyView::from_body(task, body, value) else { return Ok(()) };
        let check = self.body.get_or_init(|| {
            SchemaCheck::from_task_schema(task, &body.schema, ValueDirection::Request)
        });
        let violations = |check: &SchemaCheck| {
            check.violations_as_written(&seen.value, |at| seen.written_form(at))
        };
        require_no_violations(
            || InputLocation::Body,
            check.as_ref().map_or_else(Vec::new, violations),
        )
    }

    fn check_variables(
        &self,
        task: &GraphqlTask,
        inputs: &IndexMap<InputLocation, Value>,
    ) -> Result<(), PrepareError> {
        for (variable, check) in task.variables.iter().zip(&self.inputs) {
            let place = InputLocation::Variable(variable.name.clone());
            let Some(value) = inputs.get(&place) else { continue };
            let check = check.get_or_init(|| {
                let mut schema = json!({ "allOf": [&variable.schema] });
                if !task.definitions.is_null() {
                    schema["$defs"] = task.definitions.clone();
                }
                SchemaCheck::from_json_schema(&schema)
            });
            require_no_violations(
                || place,
                check.as_ref().map_or_else(Vec::new, |check| check.violations(value)),
            )?;
        }
        Ok(())
    }

    /// Checks each argument against its own schema, which gives the best message, and then all arguments
    /// together.
    fn check_arguments(
        &self,
        task: &McpTask,
        inputs: &IndexMap<InputLocation, Value>,
    ) -> Result<(), PrepareError> {
        let check = |check: &SchemaCheck, value: &Value| check.violations(value);
        for (name, lazy) in task.arguments().zip(&self.inputs) {
            let place = InputLocation::Argument(name.to_owned());
            let (Some(value), Some(schema)) = (inputs.get(&place), task.argument_schema(name))
            else {
                continue;
            };
            let compiled = lazy.get_or_init(|| {
                SchemaCheck::from_task_schema(task.inputs(), schema, ValueDirection::Request)
            });
            require_no_violations(
                || place,
                compiled.as_ref().map_or_else(Vec::new, |own| check(own, value)),
            )?;
        }
        let whole = self.body.get_or_init(|| {
            SchemaCheck::from_task_schema(
                task.inputs(),
                &task.input_schema,
                ValueDirection::Request,
            )
        });
        let Some(whole) = whole else { return Ok(()) };
        let arguments = inputs.iter().filter_map(|(place, value)| match place {
            InputLocation::Argument(name) => Some((name.clone(), value.clone())),
            _ => None,
        });
        let violations = check(whole, &Value::Object(arguments.collect()));
        if violations.is_empty() { Ok(()) } else { Err(PrepareError::Arguments(violations)) }
    }

    /// The differences of a response from the declaration of the operation: in its status, its media type,
    /// or its value. Empty for a GraphQL task, because its service is responsible for its own types.
    pub(crate) fn check_response(
        &self,
        response: &RawResponse,
        value: &Value,
    ) -> Vec<SchemaViolation> {
        match self.find_response_check(response) {
            Ok(check) => check.map_or_else(Vec::new, |check| check.violations(value)),
            Err(violation) => vec![violation],
        }
    }

    /// Returns the cost of [`check_response`](Self::check_response).
    pub(crate) fn response_cost(&self, response: &RawResponse, value: &Value) -> EvaluationCost {
        let check = self.find_response_check(response).ok().flatten();
        check.map_or(EvaluationCost::Cheap, |check| check.evaluation_cost(value))
    }

    /// Returns the check for the value of a response, if it has one.
    ///
    /// # Errors
    /// Returns the status or the media type of the response, when the operation does not declare it.
    fn find_response_check(
        &self,
        response: &RawResponse,
    ) -> Result<Option<&SchemaCheck>, SchemaViolation> {
        let task = match &*self.task {
            Task::OpenApi(task) => task,
            Task::Graphql(_) => return Ok(None),
            Task::Mcp(task) => return Ok(self.content_check(task)),
        };
        let Some(status) = declared_status(task, response.status) else {
            let reason = format!("has the status {}, which is not declared", response.status);
            return Err(SchemaViolation::of_whole_value(reason, "responses"));
        };
        let is_bodiless = declared_for_status(task, response.status).next().is_none();
        let rule = || format!("responses/{status}/content");
        if response.body.is_empty() {
            let may_be_empty = is_bodiless
                || task.method == a2s::HttpMethod::Head
                || matches!(response.status, 204 | 205);
            let reason = "is empty, which is not declared".to_owned();
            return if may_be_empty {
                Ok(None)
            } else {
                Err(SchemaViolation::of_whole_value(reason, &rule()))
            };
        }
        if is_bodiless {
            return Ok(None);
        }
        let Some(came) = response.media_type() else { return Ok(None) };
        let Some(one) = find_declaration(task, response.status, &came) else {
            let reason = format!("is of the media type {}, which is not declared", came.essence());
            return Err(SchemaViolation::of_whole_value(reason, &rule()));
        };
        let Some(check) = self.responses.get(one.index).filter(|_| came.is_json()) else {
            return Ok(None);
        };
        let compile =
            || SchemaCheck::from_task_schema(&**task, one.schema, ValueDirection::Response);
        Ok(check.get_or_init(compile).as_ref())
    }

    /// Returns the check of a tool's `outputSchema`.
    fn content_check(&self, task: &McpTask) -> Option<&SchemaCheck> {
        let compile = || {
            SchemaCheck::from_task_schema(
                task.outputs(),
                &task.output_schema,
                ValueDirection::Response,
            )
        };
        self.responses.first()?.get_or_init(compile).as_ref()
    }
}

/// Returns true when sending a parameter preserves the types of its value.
fn is_exact(parameter: &OperationParameter) -> bool {
    parameter.content.as_ref().is_some_and(MediaType::is_json)
}

fn require_no_violations(
    place: impl FnOnce() -> InputLocation,
    violations: Vec<SchemaViolation>,
) -> Result<(), PrepareError> {
    if violations.is_empty() {
        Ok(())
    } else {
        Err(PrepareError::Violation { place: place(), violations })
    }
}

/// A response that an operation declares.
pub(super) struct DeclaredResponse<'t> {
    /// The index among all responses of the operation.
    index: usize,
    status: &'t str,
    /// Its media type, or a range of them.
    pub(super) media_type: MediaType,
    /// The schema; null when there is none.
    pub(super) schema: &'t Value,
}

/// The declaration of an operation for a response of a status and a media type; the type itself takes
/// precedence over a range of types.
pub(super) fn find_declaration<'t>(
    task: &'t OpenApiTask,
    status: u16,
    came: &MediaType,
) -> Option<DeclaredResponse<'t>> {
    let covering = declared_for_status(task, status).filter(|one| one.media_type.covers(came));
    covering.min_by_key(|one| one.media_type.is_range())
}

/// Returns the media types that an operation declares for a status, in its order.
pub(crate) fn media_types_of(task: &OpenApiTask, status: u16) -> Vec<MediaType> {
    declared_for_status(task, status).map(|one| one.media_type).collect()
}

/// Returns the responses that an operation declares for a status.
fn declared_for_status(
    task: &OpenApiTask,
    status: u16,
) -> impl Iterator<Item = DeclaredResponse<'_>> {
    let status = declared_status(task, status);
    declared_responses(task).filter(move |one| Some(one.status) == status)
}

/// Returns every response with a media type, in the order of the task.
fn declared_responses(task: &OpenApiTask) -> impl Iterator<Item = DeclaredResponse<'_>> {
    let answers = task.responses.iter().flat_map(|(status, response)| {
        let content = response.get("content").and_then(Value::as_object);
        content.into_iter().flatten().filter_map(|(text, media)| {
            let media_type = MediaType::parse(text)?;
            let schema = media.get("schema").unwrap_or(&Value::Null);
            Some((status.as_str(), media_type, schema))
        })
    });
    let numbered = answers.enumerate();
    numbered.map(|(index, (status, media_type, schema))| DeclaredResponse {
        index,
        status,
        media_type,
        schema,
    })
}

/// Returns the most exact declaration of a status: the status itself, its class (`2XX`), or `default`.
pub(crate) fn declared_status(task: &OpenApiTask, status: u16) -> Option<&str> {
    let declared = |is_wanted: fn(&str, u16) -> bool| {
        let mut statuses = task.responses.iter().map(|(status, _)| status.as_str());
        statuses.find(|text| is_wanted(text, status))
    };
    declared(|text, status| text.len() == 3 && text.parse() == Ok(status))
        .or_else(|| declared(is_class_of))
        .or_else(|| declared(|text, _| text.eq_ignore_ascii_case("default")))
}

/// Returns true when a text is the class of a status: `2XX`.
fn is_class_of(text: &str, status: u16) -> bool {
    let &[digit, b'x' | b'X', b'x' | b'X'] = text.as_bytes() else { return false };
    u16::from(digit) == u16::from(b'0') + status / 100
}

#[cfg(test)]
mod tests;
