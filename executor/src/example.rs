//! Runs the examples of a document without services: each request gets the response from the example, or
//! one that is generated from the declaration of the operation.
//!
//! Everything else is as in a run. Requests are prepared and checked against their schemas, responses are
//! read as if they came over the network, and steps process them as usual.

mod declared_response;
mod diff;
mod mock_response;
mod mock_script;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use a2s::{CapabilityExample, Dependency, Digest, Document, StepPath};
use a2s_api::{EventKind, RunError, RunEvent};
use serde_json::Value;

use crate::clock::{Clock, RandomSource, milliseconds_between, new_run_id};
use crate::config::Limits;
use crate::engine::EvaluationPool;
use crate::error::{Error, ErrorKind};
use crate::journal::run_state::RunProgress;
use crate::plan::ExecutionPlan;
use crate::registry_client::RunDocuments;
use crate::run::dry_run::DryRun;
use mock_script::MockScript;

pub use diff::OutputDifference;

/// The maximum time of one example.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The maximum size of the outputs of an example's steps, in bytes.
const MAX_VARIABLE_BYTES: usize = 16 << 20;
/// The session of an example.
const SESSION: &str = "example";

/// A capability with all that it uses, ready to be tried. Needs neither network nor database.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use std::sync::Arc;
/// let source = br#"
/// a2s: 1.1.0
/// name: CountDogs
/// description: Counts the dogs of a town
/// domains: [dogs.example]
/// version: "1.0.0"
/// authors: [{name: Jane Smith}]
/// execution:
///   type: sequence
///   steps:
///     - id: count
///       format: OpenAPI
///       task:
///         openapi: 3.0.3
///         info: {title: Dogs, version: "1"}
///         servers: [{url: "https://dogs.example"}]
///         paths: {/dogs: {get: {responses: {200: {description: The dogs}}}}}
///       output_mapping: {dogs: "$.count"}
/// examples:
///   - answers: {count: {body: {count: 3}}}
///     output: {dogs: 4}
/// "#;
/// # #[derive(Debug)]
/// # struct System;
/// # impl executor::Clock for System { fn now(&self) -> jiff::Timestamp { jiff::Timestamp::UNIX_EPOCH } }
/// # impl executor::RandomSource for System { fn random_bytes(&self) -> [u8; 16] { [7; 16] } }
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let document = Arc::new(a2s::compile(source).document.expect("a good document"));
/// let trial = executor::ExampleRunner::new(&document, &BTreeMap::new(), |_| None).expect("it uses nothing");
///
/// let example = &document.capability().examples[0];
/// let outcome = trial.run(example, Arc::new(System), Arc::new(System)).await;
/// assert!(!outcome.is_success());
/// # });
/// ```
#[derive(Debug)]
pub struct ExampleRunner {
    plan: ExecutionPlan,
    limits: Limits,
}

/// The result of an example.
#[derive(Debug)]
pub struct ExampleResult {
    /// The reasons for its failure; empty when it passed.
    pub failures: Vec<ExampleFailure>,
    /// The paths of the steps that received a generated response, in order. A step of a `for_each` occurs
    /// once.
    pub generated_steps: Vec<String>,
    /// Responses of the example that no step used.
    pub unused_answers: Vec<StepPath>,
    /// The events, as in the journal of a run.
    pub events: Vec<RunEvent>,
    /// The duration.
    pub duration_ms: u64,
}

/// The reason for the failure of an example.
#[derive(Debug, Clone, PartialEq)]
pub enum ExampleFailure {
    /// The run failed, or a response of the example is not possible for its operation.
    Error(RunError),
    /// The result differs from the expected one.
    Output(Vec<OutputDifference>),
}

impl ExampleRunner {
    /// Prepares a capability for its examples. `documents` contains the direct and indirect dependencies of
    /// `root` by digest, and perhaps more; `choose` selects the document for a dependency.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DependencyRefused`] when a dependency is missing or does not fit, and
    /// [`ErrorKind::BudgetExceeded`] when the plan is too large.
    pub fn new(
        root: &Arc<Document>,
        documents: &BTreeMap<Digest, Arc<Document>>,
        choose: impl Fn(&Dependency) -> Option<Digest>,
    ) -> Result<Self, Error> {
        let limits = Limits {
            max_run_time: MAX_TIME,
            max_variable_bytes: MAX_VARIABLE_BYTES,
            ..Limits::default()
        };
        let mut library = RunDocuments::new(root.digest());
        let mut waiting = VecDeque::from([root]);
        while let Some(document) = waiting.pop_front() {
            if library.documents.contains_key(&document.digest()) {
                continue;
            }
            let name = &document.capability().name;
            if library.documents.len() == limits.max_documents {
                let message =
                    format!("`{name}` requires more than {} documents", limits.max_documents);
                return Err(Error::new(ErrorKind::BudgetExceeded, message));
            }
            let mut choices = BTreeMap::new();
            for dependency in &document.capability().dependencies {
                let used = choose(dependency).and_then(|digest| documents.get(&digest));
                let Some(used) = used else {
                    let used = &dependency.capability;
                    let message =
                        format!("`{name}` uses `{used}`, but no matching version is available");
                    return Err(Error::new(ErrorKind::DependencyRefused, message));
                };
                choices.insert(dependency.capability.clone(), used.digest());
                waiting.push_back(used);
            }
            library.resolved.0.insert(document.digest(), choices);
            library.documents.insert(document.digest(), Arc::clone(document));
        }
        let plan = ExecutionPlan::new(&library, limits.max_steps)?;
        Ok(Self { plan, limits })
    }

    /// Runs one example of the capability. `clock` times it and bounds its duration; `ids` creates
    /// generated values of a run, such as idempotency keys.
    pub async fn run(
        &self,
        example: &CapabilityExample,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
    ) -> ExampleResult {
        let began = clock.now();
        let mut outcome = self.walk(example, &clock, ids).await;
        outcome.duration_ms = milliseconds_between(began, clock.now());
        outcome
    }

    async fn walk(
        &self,
        example: &CapabilityExample,
        clock: &Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
    ) -> ExampleResult {
        let refused =
            |error: &Error| ExampleResult::from_error(error.to_run_error(None, None, true));
        if let Err(error) = self.plan.check_inputs(&example.inputs) {
            return refused(&error);
        }
        let script = MockScript::new(&self.plan, example, clock, self.limits.max_run_time);
        let script = match script {
            Ok(script) => script,
            Err(error) => return refused(&error),
        };
        let rehearsal = DryRun {
            run: new_run_id(clock, &ids),
            session: SESSION,
            plan: &self.plan,
            progress: &RunProgress::default(),
            inputs: &self.plan.root.with_defaults(&example.inputs),
            answers: &script,
            evaluations: &EvaluationPool::new(self.limits.evaluation_timeout),
            limits: &self.limits,
            clock: Arc::clone(clock),
            ids,
        };
        let events = rehearsal.walk().await;
        let report = script.into_report();
        let mut failures: Vec<_> = report.failures.into_iter().map(ExampleFailure::Error).collect();
        let (output, error) = match events.last().map(|event| &event.kind) {
            Some(EventKind::RunFinished { output, error, .. }) => (output.as_ref(), error.clone()),
            Some(EventKind::RunWaiting { error }) => (None, Some(error.clone())),
            _ => {
                let error = Error::new(ErrorKind::Internal, "the run of the example did not end");
                (None, Some(error.to_run_error(None, None, true)))
            }
        };
        let known = |error: &RunError| {
            let is_it = |fault: &ExampleFailure| matches!(fault, ExampleFailure::Error(one) if one.step == error.step && one.code == error.code);
            failures.iter().any(is_it)
        };
        if let Some(error) = error.filter(|error| !known(error)) {
            failures.push(ExampleFailure::Error(error));
        }
        if let (Some(expected), Some(output), true) = (&example.output, output, failures.is_empty())
        {
            let differences = diff::compare(expected, output);
            if !differences.is_empty() {
                failures.push(ExampleFailure::Output(differences));
            }
        }
        let (generated, unused) = (report.generated_steps, report.unused_answers);
        ExampleResult {
            failures,
            generated_steps: generated,
            unused_answers: unused,
            events,
            duration_ms: 0,
        }
    }
}

impl ExampleResult {
    /// Returns true when the example passes.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }

    /// The result of the run, when it succeeded. Secret values read `(secret)`.
    #[must_use]
    pub fn output(&self) -> Option<&Value> {
        match &self.events.last()?.kind {
            EventKind::RunFinished { output, .. } => output.as_ref(),
            _ => None,
        }
    }

    fn from_error(error: RunError) -> Self {
        let failures = vec![ExampleFailure::Error(error)];
        Self {
            failures,
            generated_steps: Vec::new(),
            unused_answers: Vec::new(),
            events: Vec::new(),
            duration_ms: 0,
        }
    }
}

#[cfg(test)]
mod tests;
