//! The mocked services of an example: its own responses, and generated ones for the rest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2s::{CapabilityExample, OutputMapping, Step, StepPath, StepPathSegment, Task, TaskStep};
use a2s_api::RunError;
use jiff::Timestamp;
use serde_json::Value;

use super::{declared_response, mock_response};
use crate::clock::Clock;
use crate::engine::{CannedResponses, TaskRequest};
use crate::error::{Error, ErrorKind};
use crate::plan::ExecutionPlan;
use crate::request::{
    RawResponse, TaskContract, declared_status, join_violations, prepare, read_response,
};
use crate::step_result::{ResponseHead, StepResult};

/// The most faults that are reported for one example.
const MAX_FAILURES: usize = 10;

/// The responses of one example.
#[derive(Debug)]
pub(super) struct MockScript<'e> {
    plan: &'e ExecutionPlan,
    responses: Vec<ScriptedResponse<'e>>,
    clock: Arc<dyn Clock>,
    deadline: Timestamp,
    findings: Mutex<MockFindings>,
}

/// A response that the example defines.
#[derive(Debug)]
struct ScriptedResponse<'e> {
    /// The path of the step, as written in the example.
    key: &'e StepPath,
    /// The same path with every enclosing block and capability.
    path: Vec<StepPathSegment>,
    answer: &'e a2s::ExampleResponse,
}

/// The findings during the walk.
#[derive(Debug, Default)]
struct MockFindings {
    /// The outcomes of the responses of the example, by their number, and of generated responses, by the
    /// path of their step. The iterations of a step share one, so a response is read and checked once.
    used: BTreeMap<usize, Arc<MockOutcome>>,
    generated: BTreeMap<String, Arc<MockOutcome>>,
    failures: Vec<RunError>,
}

/// The outcome of a response for a step.
#[derive(Debug)]
enum MockOutcome {
    Answer(StepResult),
    /// The step fails, as the response requires.
    Failure {
        error: Error,
        status: Option<u16>,
    },
    /// The response is not possible for its operation: the example fails, whatever the run does.
    InvalidScript(Error),
}

impl MockOutcome {
    /// Returns true when there is a response at all.
    fn has_response(&self) -> bool {
        !matches!(self, Self::InvalidScript(_))
    }
}

/// The findings of a script after the walk.
#[derive(Debug)]
pub(super) struct ScriptReport {
    pub(super) failures: Vec<RunError>,
    pub(super) generated_steps: Vec<String>,
    pub(super) unused_answers: Vec<StepPath>,
}

impl<'e> MockScript<'e> {
    /// Creates the script of an example with a time limit.
    ///
    /// # Errors
    /// Fails when a response does not belong to a task step of the plan.
    pub(super) fn new(
        plan: &'e ExecutionPlan,
        example: &'e CapabilityExample,
        clock: &Arc<dyn Clock>,
        time: Duration,
    ) -> Result<Self, Error> {
        let lines = example.answers.iter().map(|(key, answer)| {
            let way = plan.full_path(key).ok_or_else(|| {
                Error::new(ErrorKind::ExampleAnswer, format!("unknown task step `{key}`"))
                    .with_hint("Use the path of a task step as the name of an answer, as in the events of a run.")
            })?;
            Ok(ScriptedResponse { key, path: way, answer })
        });
        let lines = lines.collect::<Result<_, Error>>()?;
        let clock = Arc::clone(clock);
        let deadline = clock.now().saturating_add(time).unwrap_or(Timestamp::MAX);
        Ok(Self { plan, responses: lines, clock, deadline, findings: Mutex::default() })
    }

    /// The findings.
    pub(super) fn into_report(self) -> ScriptReport {
        let notes = self.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lines = self.responses.iter().enumerate();
        let unused = lines.filter(|(number, _)| !notes.used.contains_key(number));
        ScriptReport {
            failures: notes.failures,
            generated_steps: notes
                .generated
                .into_iter()
                .filter(|(_, made)| made.has_response())
                .map(|(step, _)| step)
                .collect(),
            unused_answers: unused.map(|(_, line)| line.key.clone()).collect(),
        }
    }

    fn lock_findings(&self) -> MutexGuard<'_, MockFindings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the response that the example defines for a step. If several match, it is the one that names
    /// the most iterations, and the outermost ones first.
    fn find_response(&self, path: &StepPath) -> Option<(usize, &ScriptedResponse<'e>)> {
        let fitting = self.responses.iter().enumerate().filter(|(_, line)| line.matches_step(path));
        fitting.max_by_key(|(_, line)| {
            let named: Vec<bool> =
                line.path.iter().map(|piece| piece.iteration.is_some()).collect();
            (named.iter().filter(|named| **named).count(), named)
        })
    }

    /// The outcome of the response for the step at `path`.
    fn outcome_of(&self, path: &str, contract: &TaskContract) -> Arc<MockOutcome> {
        let unknown = || {
            let error = Error::new(ErrorKind::Internal, "the plan does not contain the step");
            Arc::new(MockOutcome::InvalidScript(error))
        };
        let (Ok(way), Some((_, step))) = (StepPath::new(path), self.plan.find_step(path)) else {
            return unknown();
        };
        // Held while an answer is read: another iteration waits instead of reading it, too.
        let mut notes = self.lock_findings();
        if let Some((number, line)) = self.find_response(&way) {
            let read = || Arc::new(read_scripted(contract, line.answer));
            return Arc::clone(notes.used.entry(number).or_insert_with(read));
        }
        let all = without_iterations(&way);
        let make = || Arc::new(generate_outcome(contract, step, &all));
        Arc::clone(notes.generated.entry(all.clone()).or_insert_with(make))
    }

    /// Records a failure, but only the first one of each step.
    fn record_failure(&self, error: &RunError) {
        let mut notes = self.lock_findings();
        let known =
            notes.failures.iter().any(|one| one.step == error.step || one.message == error.message);
        if !known && notes.failures.len() < MAX_FAILURES {
            notes.failures.push(error.clone());
        }
    }
}

impl CannedResponses for MockScript<'_> {
    fn respond(&self, question: &TaskRequest<'_>) -> Result<StepResult, RunError> {
        let TaskRequest { step, contract, inputs } = *question;
        let failed = |error: &Error| error.to_run_error(Some(step), None, true);
        if self.clock.now() > self.deadline {
            let message = "the example exceeded its time limit";
            return Err(failed(&Error::new(ErrorKind::BudgetExceeded, message)));
        }
        prepare(contract, inputs.actual()).map_err(|error| failed(&Error::from(error)))?;
        match &*self.outcome_of(step, contract) {
            MockOutcome::Answer(answer) => Ok(answer.clone()),
            MockOutcome::Failure { error, status } => {
                Err(RunError { status: *status, ..failed(error) })
            }
            MockOutcome::InvalidScript(error) => {
                let error = failed(error);
                self.record_failure(&error);
                Err(error)
            }
        }
    }
}

impl ScriptedResponse<'_> {
    /// Returns true when it is the response for the step at a full path.
    fn matches_step(&self, path: &StepPath) -> bool {
        let pieces = path.segments();
        pieces.len() == self.path.len()
            && self.path.iter().zip(pieces).all(|(own, piece)| {
                own.id == piece.id && (own.iteration.is_none() || own.iteration == piece.iteration)
            })
    }
}

fn without_iterations(path: &StepPath) -> String {
    let ids: Vec<_> = path.segments().iter().map(|piece| piece.id.as_str()).collect();
    ids.join("/")
}

/// Reads a response that the example defines.
fn read_scripted(contract: &TaskContract, answer: &a2s::ExampleResponse) -> MockOutcome {
    let response = match declared_response::to_response(contract.task(), answer) {
        Ok(response) => response,
        Err(reason) => {
            return MockOutcome::InvalidScript(Error::new(ErrorKind::ExampleAnswer, reason));
        }
    };
    if let Some(violations) = describe_violations(contract, &response) {
        let message = format!(
            "the answer of the example does not match its declaration in the operation: {violations}"
        );
        let hint = "Correct the answer in the example, or the declaration of the operation.";
        return MockOutcome::InvalidScript(
            Error::new(ErrorKind::ResponseSchemaViolation, message).with_hint(hint),
        );
    }
    read(contract.task(), response)
}

fn read(task: &Task, response: RawResponse) -> MockOutcome {
    let status = response.status;
    match read_response(task, &response) {
        Ok(body) => {
            let head = ResponseHead { status, headers: response.headers };
            MockOutcome::Answer(StepResult::new(body, Some(head)))
        }
        Err(error) => MockOutcome::Failure { error: error.into(), status: Some(status) },
    }
}

/// The differences between a response and its declaration. A service may always fail with an undeclared
/// status and an undeclared body.
fn describe_violations(contract: &TaskContract, response: &RawResponse) -> Option<String> {
    let is_success = (200..300).contains(&response.status);
    if let (Task::OpenApi(task), false) = (contract.task(), is_success)
        && (response.body.is_empty() || declared_status(task, response.status).is_none())
    {
        return None;
    }
    if let (Task::Mcp(_), false) = (contract.task(), is_success) {
        return None;
    }
    let value = match read_response(contract.task(), response) {
        Ok(value) => value,
        Err(_) if is_success => return None,
        Err(_) => serde_json::from_slice(&response.body).unwrap_or(Value::Null),
    };
    let violations = contract.check_response(response, &value);
    (!violations.is_empty()).then(|| join_violations(&violations))
}

/// Generates a response that fits the operation and contains the outputs that the step requires.
fn generate_outcome(contract: &TaskContract, step: &Step, path: &str) -> MockOutcome {
    let Some(TaskStep { outputs, .. }) = step.action.as_task() else {
        return MockOutcome::InvalidScript(Error::new(
            ErrorKind::Internal,
            "a step was run as a task, but is not a task",
        ));
    };
    let mut reason = None;
    for response in mock_response::generate_responses(contract.task(), outputs) {
        if let Some(violations) = describe_violations(contract, &response) {
            reason.get_or_insert(violations);
            continue;
        }
        match read(contract.task(), response) {
            MockOutcome::Answer(answer) => match find_missing_output(&answer, outputs) {
                None => return MockOutcome::Answer(answer),
                Some(miss) => reason = Some(miss),
            },
            MockOutcome::Failure { error, .. } | MockOutcome::InvalidScript(error) => {
                reason.get_or_insert(error.message);
            }
        }
    }
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message =
        format!("no answer can be generated from the declaration of the operation{reason}");
    let hint =
        format!("Write an answer in the example: `answers: {{{}: {{body: …}}}}`.", key_of(path));
    MockOutcome::InvalidScript(Error::new(ErrorKind::ExampleAnswer, message).with_hint(hint))
}

/// The form in which an example may write the key of a path.
fn key_of(path: &str) -> String {
    if path.contains('/') { format!("{path:?}") } else { path.to_owned() }
}

fn find_missing_output(answer: &StepResult, outputs: &[OutputMapping]) -> Option<String> {
    outputs.iter().find_map(|output| answer.extract_output(output).err()).map(|error| error.message)
}
