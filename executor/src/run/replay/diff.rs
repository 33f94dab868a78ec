//! The differences of a replay from its recording. Pure.

use std::collections::{BTreeMap, BTreeSet};

use a2s_api::{
    CapabilityRef, EventKind, ReplayResponse, ReplayedStep, RunEvent, RunStatus, StepDiff,
    ValueDiff,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::ErrorKind;
use crate::journal::recorded_exchange::ExchangeRequest;
use crate::journal::run_state::{RecordedStep, RunProgress};

/// The most differences that are reported for one replay.
const MAX_DIFFERENCES: usize = 200;

/// One side of the comparison: the recording, or the replay.
pub(super) struct ReplaySide {
    /// The steps in the order of their start.
    order: Vec<String>,
    steps: RunProgress,
    questions: BTreeMap<String, ExchangeRequest>,
    status: RunStatus,
    output: Option<Value>,
    /// The code of the error that ended the run.
    error: Option<String>,
}

/// The end of a step.
#[derive(Debug, PartialEq)]
enum StepEnd<'s> {
    /// The step was not run, or not to its end, for a reason outside the step.
    NotRun,
    /// The step finished with these outputs.
    Finished(&'s Map<String, Value>),
    /// The step failed with this code and message.
    Failed(&'s str, &'s str),
}

impl ReplaySide {
    /// The side that events describe, with the requests of the task steps.
    pub(super) fn from_events(
        events: &[RunEvent],
        questions: BTreeMap<String, ExchangeRequest>,
    ) -> Self {
        let mut order = Vec::new();
        let (mut status, mut output, mut error) = (RunStatus::Running, None, None);
        for event in events {
            match &event.kind {
                EventKind::StepStarted { step, .. } => order.push(step.clone()),
                EventKind::RunFinished { status: ended, output: result, error: why, .. } => {
                    status = *ended;
                    output.clone_from(result);
                    error = why.as_ref().map(|why| why.code.clone());
                }
                EventKind::RunWaiting { error: why } => {
                    status = RunStatus::Waiting;
                    error = Some(why.code.clone());
                }
                _ => {}
            }
        }
        let mut seen = BTreeSet::new();
        order.retain(|step| seen.insert(step.clone()));
        Self { order, steps: RunProgress::from_events(events), questions, status, output, error }
    }

    /// Adds steps that counted as done.
    pub(super) fn with_finished(mut self, done: RunProgress) -> Self {
        self.steps.steps.extend(done.steps);
        self
    }

    fn end_of_step(&self, step: &str) -> StepEnd<'_> {
        let Some(recorded) = self.steps.steps.get(step) else { return StepEnd::NotRun };
        match recorded {
            RecordedStep { outputs: Some(outputs), .. } => StepEnd::Finished(outputs),
            RecordedStep { error: Some(error), .. }
                if ErrorKind::from_code(&error.code) != Some(ErrorKind::Cancelled) =>
            {
                StepEnd::Failed(&error.code, &error.message)
            }
            _ => StepEnd::NotRun,
        }
    }
}

/// Returns the differences between a recording and its replay. `refused` contains the inputs that the
/// version of the replay does not accept.
pub(super) fn compare_runs(
    run: Uuid,
    recorded: CapabilityRef,
    against: CapabilityRef,
    then: &ReplaySide,
    now: &ReplaySide,
    refused: &Map<String, Value>,
) -> ReplayResponse {
    let known: BTreeSet<&String> = then.order.iter().collect();
    let new = now.order.iter().filter(|step| !known.contains(step));
    let all: Vec<&String> = then.order.iter().chain(new).collect();
    let mut found = DiffCollector { list: Vec::new(), left: MAX_DIFFERENCES, more: 0 };
    let mut steps = Vec::new();
    let mut compared = 0;
    for step in all {
        let (was, is) = (then.end_of_step(step), now.end_of_step(step));
        if was == StepEnd::NotRun && is == StepEnd::NotRun {
            continue;
        }
        compared += 1;
        let before = found.more;
        compare_questions(then.questions.get(step), now.questions.get(step), &mut found);
        compare_step_ends(&was, &is, &mut found);
        let drift = match (&was, &is) {
            (StepEnd::NotRun, _) => StepDiff::New,
            (_, StepEnd::NotRun) => StepDiff::Gone,
            _ => StepDiff::Changed,
        };
        let differences = found.take_found();
        if drift != StepDiff::Changed || !differences.is_empty() || found.more > before {
            steps.push(ReplayedStep { step: step.clone(), change: drift, differences });
        }
    }
    for (name, value) in refused {
        found.add(format!("inputs.{name}"), Some(value), None);
    }
    if then.status != now.status {
        let text = |status: RunStatus| Value::from(status.as_str());
        found.add("status".to_owned(), Some(&text(then.status)), Some(&text(now.status)));
    }
    if then.error != now.error {
        let text = |error: &Option<String>| error.clone().map(Value::from);
        found.add("error".to_owned(), text(&then.error).as_ref(), text(&now.error).as_ref());
    }
    compare_values("output", then.output.as_ref(), now.output.as_ref(), &mut found);
    let result = found.take_found();
    let more = found.more;
    let same = more == 0 && steps.is_empty() && result.is_empty();
    ReplayResponse {
        run,
        recorded,
        against,
        unchanged: same,
        compared,
        steps,
        result,
        more_differences: more,
    }
}

fn compare_questions(
    was: Option<&ExchangeRequest>,
    is: Option<&ExchangeRequest>,
    found: &mut DiffCollector,
) {
    // A step that is not a task has no request; one in one run only is reported as a whole.
    let (Some(was), Some(is)) = (was, is) else { return };
    if was.operation != is.operation {
        let text = |asked: &ExchangeRequest| Value::from(asked.operation.clone());
        found.add("operation".to_owned(), Some(&text(was)), Some(&text(is)));
    }
    compare_members("inputs", &was.inputs, &is.inputs, found);
}

fn compare_step_ends(was: &StepEnd<'_>, is: &StepEnd<'_>, found: &mut DiffCollector) {
    let none = Map::new();
    let outputs = |ended: &StepEnd<'_>| match ended {
        StepEnd::Finished(outputs) => (*outputs).clone(),
        StepEnd::NotRun | StepEnd::Failed(..) => none.clone(),
    };
    let error = |ended: &StepEnd<'_>| match ended {
        StepEnd::Failed(code, message) => Some(Value::from(format!("{code}: {message}"))),
        StepEnd::NotRun | StepEnd::Finished(_) => None,
    };
    let is_same_failure =
        matches!((was, is), (StepEnd::Failed(was, _), StepEnd::Failed(is, _)) if was == is);
    if !is_same_failure && (error(was).is_some() || error(is).is_some()) {
        found.add("error".to_owned(), error(was).as_ref(), error(is).as_ref());
    }
    // Missing outputs of a failed step add nothing.
    if matches!((was, is), (StepEnd::Finished(_), StepEnd::Finished(_))) {
        compare_members("outputs", &outputs(was), &outputs(is), found);
    }
}

fn compare_members(
    at: &str,
    was: &Map<String, Value>,
    is: &Map<String, Value>,
    found: &mut DiffCollector,
) {
    let new = is.keys().filter(|name| !was.contains_key(*name));
    for name in was.keys().chain(new) {
        compare_values(&format!("{at}.{name}"), was.get(name), is.get(name), found);
    }
}

/// Compares two values, down to the smallest part that differs.
fn compare_values(at: &str, was: Option<&Value>, is: Option<&Value>, found: &mut DiffCollector) {
    match (was, is) {
        (was, is) if was == is => {}
        (Some(Value::Object(was)), Some(Value::Object(is))) => {
            compare_members(at, was, is, found);
        }
        (Some(Value::Array(was)), Some(Value::Array(is))) => {
            for index in 0..was.len().max(is.len()) {
                let at = format!("{at}[{index}]");
                compare_values(&at, was.get(index), is.get(index), found);
            }
        }
        (was, is) => found.add(at.to_owned(), was, is),
    }
}

/// A collector of differences.
struct DiffCollector {
    list: Vec<ValueDiff>,
    /// The number of differences that may still be reported.
    left: usize,
    /// The number of differences that were not reported.
    more: usize,
}

impl DiffCollector {
    fn add(&mut self, at: String, was: Option<&Value>, is: Option<&Value>) {
        match self.left.checked_sub(1) {
            None => self.more += 1,
            Some(left) => {
                self.left = left;
                self.list.push(ValueDiff { path: at, before: was.cloned(), after: is.cloned() });
            }
        }
    }

    /// Takes the differences found since the last call.
    fn take_found(&mut self) -> Vec<ValueDiff> {
        std::mem::take(&mut self.list)
    }
}
