//! A task with what its description says of values: what may be sent, and what may come back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use a2s::{
    EvaluationCost, GraphqlTask, McpTask, MediaType, OpenApiTask, OperationParameter, Place, Task,
};
use http::HeaderValue;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::openapi::{Seen, accepted_types, input, is_sent};
use super::schema::{Check, Direction, Misfit, Spelling};
use super::{Error, RawResponse};

/// The most tasks of a run for which compiled schemas are kept.
const MAX_KEPT: usize = 256;

/// A check that is compiled when it is first needed; none where nothing is asked for.
type Lazy = OnceLock<Option<Check>>;

/// A task, and the schemas of its values. They are compiled when they are first needed.
#[derive(Debug)]
pub(crate) struct Contract {
    task: Arc<Task>,
    /// One for each parameter, variable or argument, in the order of the task.
    inputs: Vec<Lazy>,
    /// Of the body, or of all arguments together.
    body: Lazy,
    /// One for each media type of each response, in the order of the task.
    answers: Vec<Lazy>,
    /// The media types that the service is asked for.
    accepted: OnceLock<HeaderValue>,
}

/// The contracts of one run, by task.
#[derive(Debug, Default)]
pub(crate) struct Contracts(Mutex<BTreeMap<usize, Arc<Contract>>>);

impl Contracts {
    /// The contract of a task. A task that several steps share has one.
    pub(crate) fn of(&self, task: &Arc<Task>) -> Arc<Contract> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A contract keeps its task, so no other one gets its address.
        let address = Arc::as_ptr(task).addr();
        if let Some(contract) = kept.get(&address) {
            return Arc::clone(contract);
        }
        let contract = Arc::new(Contract::new(Arc::clone(task)));
        if kept.len() < MAX_KEPT {
            kept.insert(address, Arc::clone(&contract));
        }
        contract
    }
}

impl Contract {
    /// The contract of a task. Nothing is compiled yet.
    pub(crate) fn new(task: Arc<Task>) -> Self {
        let (inputs, answers) = match &*task {
            Task::OpenApi(task) => (task.parameters.len(), declared(task).count()),
            Task::Graphql(task) => (task.variables.len(), 0),
            Task::Mcp(task) => (task.arguments().count(), 1),
        };
        let lazy = |count| std::iter::repeat_with(Lazy::new).take(count).collect();
        let (inputs, answers) = (lazy(inputs), lazy(answers));
        Self { inputs, answers, body: Lazy::new(), accepted: OnceLock::new(), task }
    }

    /// The task.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// The header `Accept` of its operation.
    pub(super) fn accepted_types(&self, task: &OpenApiTask) -> HeaderValue {
        self.accepted.get_or_init(|| accepted_types(task)).clone()
    }

    /// Holds the inputs of a request to their schemas.
    ///
    /// # Errors
    /// [`Error::Misfit`] for the first one that does not fit.
    pub(super) fn check_inputs(&self, inputs: &IndexMap<Place, Value>) -> Result<(), Error> {
        match &*self.task {
            Task::OpenApi(task) => self.check_operation(task, inputs),
            Task::Graphql(task) => self.check_variables(task, inputs),
            Task::Mcp(task) => self.check_arguments(task, inputs),
        }
    }

    fn check_operation(
        &self,
        task: &OpenApiTask,
        inputs: &IndexMap<Place, Value>,
    ) -> Result<(), Error> {
        for (parameter, check) in task.parameters.iter().zip(&self.inputs) {
            let value = input(inputs, parameter).filter(|value| is_sent(parameter, value));
            let Some(value) = value else { continue };
            let check =
                check.get_or_init(|| Check::of_schema(task, &parameter.schema, Direction::Request));
            let Some(check) = check else { continue };
            let spelling = if is_exact(parameter) { Spelling::Exact } else { Spelling::Text };
            fits(|| parameter.input_place(), check.misfits_as_spelled(value, |_| spelling))?;
        }
        let value = inputs.get(&Place::Body).filter(|value| !value.is_null());
        let (Some(body), Some(value)) = (&task.body, value) else { return Ok(()) };
        let Some(seen) = Seen::of(task, body, value) else { return Ok(()) };
        let check =
            self.body.get_or_init(|| Check::of_schema(task, &body.schema, Direction::Request));
        let misfits = |check: &Check| check.misfits_as_spelled(&seen.value, |at| seen.spelling(at));
        fits(|| Place::Body, check.as_ref().map_or_else(Vec::new, misfits))
    }

    fn check_variables(
        &self,
        task: &GraphqlTask,
        inputs: &IndexMap<Place, Value>,
    ) -> Result<(), Error> {
        for (variable, check) in task.variables.iter().zip(&self.inputs) {
            let place = Place::Variable(variable.name.clone());
            let Some(value) = inputs.get(&place) else { continue };
            let check = check.get_or_init(|| {
                let mut schema = json!({ "allOf": [&variable.schema] });
                if !task.definitions.is_null() {
                    schema["$defs"] = task.definitions.clone();
                }
                Check::of_json_schema(&schema)
            });
            fits(|| place, check.as_ref().map_or_else(Vec::new, |check| check.misfits(value)))?;
        }
        Ok(())
    }

    /// Checks each argument against its own schema, which gives the best message, and then all arguments
    /// together.
    fn check_arguments(
        &self,
        task: &McpTask,
        inputs: &IndexMap<Place, Value>,
    ) -> Result<(), Error> {
        let check = |check: &Check, value: &Value| check.misfits(value);
        for (name, lazy) in task.arguments().zip(&self.inputs) {
            let place = Place::Argument(name.to_owned());
            let (Some(value), Some(schema)) = (inputs.get(&place), task.argument_schema(name))
            else {
                continue;
            };
            let compiled =
                lazy.get_or_init(|| Check::of_schema(task.inputs(), schema, Direction::Request));
            fits(|| place, compiled.as_ref().map_or_else(Vec::new, |own| check(own, value)))?;
        }
        let whole = self.body.get_or_init(|| {
            Check::of_schema(task.inputs(), &task.input_schema, Direction::Request)
        });
        let Some(whole) = whole else { return Ok(()) };
        let arguments = inputs.iter().filter_map(|(place, value)| match place {
            Place::Argument(name) => Some((name.clone(), value.clone())),
            _ => None,
        });
        let misfits = check(whole, &Value::Object(arguments.collect()));
        if misfits.is_empty() { Ok(()) } else { Err(Error::Arguments(misfits)) }
    }

    /// The differences of a response from the declaration of the operation: in its status, its media type,
    /// or its value. Empty for a GraphQL task, because its service is responsible for its own types.
    pub(crate) fn check_answer(&self, response: &RawResponse, value: &Value) -> Vec<Misfit> {
        match self.find_answer_check(response) {
            Ok(check) => check.map_or_else(Vec::new, |check| check.misfits(value)),
            Err(misfit) => vec![misfit],
        }
    }

    /// The cost of [`check_answer`](Self::check_answer).
    pub(crate) fn answer_cost(&self, response: &RawResponse, value: &Value) -> EvaluationCost {
        let check = self.find_answer_check(response).ok().flatten();
        check.map_or(EvaluationCost::Cheap, |check| check.evaluation_cost(value))
    }

    /// The check for the value of an answer, if it has one.
    ///
    /// # Errors
    /// The status or the media type of the answer, where the operation does not declare it.
    fn find_answer_check(&self, response: &RawResponse) -> Result<Option<&Check>, Misfit> {
        let task = match &*self.task {
            Task::OpenApi(task) => task,
            Task::Graphql(_) => return Ok(None),
            Task::Mcp(task) => return Ok(self.content_check(task)),
        };
        let Some(status) = declared_status(task, response.status) else {
            let reason = format!("has the status {}, which is not declared", response.status);
            return Err(Misfit::of_whole(reason, "responses"));
        };
        let is_bodiless = declared_for(task, response.status).next().is_none();
        let rule = || format!("responses/{status}/content");
        if response.body.is_empty() {
            let may_be_empty = is_bodiless
                || task.method == a2s::Method::Head
                || matches!(response.status, 204 | 205);
            let reason = "is empty, which is not declared".to_owned();
            return if may_be_empty { Ok(None) } else { Err(Misfit::of_whole(reason, &rule())) };
        }
        if is_bodiless {
            return Ok(None);
        }
        let Some(came) = response.media_type() else { return Ok(None) };
        let Some(one) = declaration_of(task, response.status, &came) else {
            let reason = format!("is of the media type {}, which is not declared", came.essence());
            return Err(Misfit::of_whole(reason, &rule()));
        };
        let Some(check) = self.answers.get(one.index).filter(|_| came.is_json()) else {
            return Ok(None);
        };
        let compile = || Check::of_schema(&**task, one.schema, Direction::Response);
        Ok(check.get_or_init(compile).as_ref())
    }

    /// The check of a tool's `outputSchema`.
    fn content_check(&self, task: &McpTask) -> Option<&Check> {
        let compile = || Check::of_schema(task.outputs(), &task.output_schema, Direction::Response);
        self.answers.first()?.get_or_init(compile).as_ref()
    }
}

/// Returns true when sending a parameter preserves the types of its value.
fn is_exact(parameter: &OperationParameter) -> bool {
    parameter.content.as_ref().is_some_and(MediaType::is_json)
}

fn fits(place: impl FnOnce() -> Place, misfits: Vec<Misfit>) -> Result<(), Error> {
    if misfits.is_empty() { Ok(()) } else { Err(Error::Misfit { place: place(), misfits }) }
}

/// An answer that an operation declares.
pub(super) struct Declared<'t> {
    /// Its number among all of the operation.
    index: usize,
    status: &'t str,
    /// Its media type, or a range of them.
    media_type: MediaType,
    /// Its schema; null when there is none.
    pub(super) schema: &'t Value,
}

/// The declaration of an operation for a response of a status and a media type; the type itself takes
/// precedence over a range of types.
pub(super) fn declaration_of<'t>(
    task: &'t OpenApiTask,
    status: u16,
    came: &MediaType,
) -> Option<Declared<'t>> {
    let covering = declared_for(task, status).filter(|one| one.media_type.covers(came));
    covering.min_by_key(|one| one.media_type.is_range())
}

/// The media types that an operation declares for a status, in its order.
pub(crate) fn media_types_of(task: &OpenApiTask, status: u16) -> Vec<MediaType> {
    declared_for(task, status).map(|one| one.media_type).collect()
}

/// The answers that an operation declares for a status.
fn declared_for(task: &OpenApiTask, status: u16) -> impl Iterator<Item = Declared<'_>> {
    let status = declared_status(task, status);
    declared(task).filter(move |one| Some(one.status) == status)
}

/// Every answer with a media type, in the order of the task.
fn declared(task: &OpenApiTask) -> impl Iterator<Item = Declared<'_>> {
    let answers = task.responses.iter().flat_map(|(status, response)| {
        let content = response.get("content").and_then(Value::as_object);
        content.into_iter().flatten().filter_map(|(text, media)| {
            let media_type = MediaType::parse(text)?;
            let schema = media.get("schema").unwrap_or(&Value::Null);
            Some((status.as_str(), media_type, schema))
        })
    });
    let numbered = answers.enumerate();
    numbered.map(|(index, (status, media_type, schema))| Declared {
        index,
        status,
        media_type,
        schema,
    })
}

/// The most exact declaration of a status: itself, its class (`2XX`), or `default`.
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
