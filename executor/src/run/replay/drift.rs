//! The differences of a replay from its recording. Pure.

use std::collections::{BTreeMap, BTreeSet};

use a2s::api::{
    CapabilityRef, Event, EventKind, ReplayResponse, ReplayedStep, RunStatus, StepDiff, ValueDiff,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::Kind;
use crate::journal::recorded_exchange::Asked;
use crate::journal::run_state::{Progress, Recorded};

/// The most differences that are reported for one replay.
const MAX_DIFFERENCES: usize = 200;

/// One side of the comparison: the recording, or the replay.
pub(super) struct Side {
    /// Steps in the order of their beginning.
    order: Vec<String>,
    steps: Progress,
    questions: BTreeMap<String, Asked>,
    status: RunStatus,
    output: Option<Value>,
    /// The code of the error that the run ended with.
    error: Option<String>,
}

/// The end of a step.
#[derive(Debug, PartialEq)]
enum Ended<'s> {
    /// It was not run, or not to its end, because of something else.
    NotRun,
    /// It set these.
    Finished(&'s Map<String, Value>),
    /// It failed with this code.
    Failed(&'s str, &'s str),
}

impl Side {
    /// The side that events describe, with the requests of the task steps.
    pub(super) fn of(events: &[Event], questions: BTreeMap<String, Asked>) -> Self {
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
        Self { order, steps: Progress::of(events), questions, status, output, error }
    }

    /// The same with steps that counted as done.
    pub(super) fn with_done(mut self, done: Progress) -> Self {
        self.steps.steps.extend(done.steps);
        self
    }

    fn ended(&self, step: &str) -> Ended<'_> {
        let Some(recorded) = self.steps.steps.get(step) else { return Ended::NotRun };
        match recorded {
            Recorded { outputs: Some(outputs), .. } => Ended::Finished(outputs),
            Recorded { error: Some(error), .. }
                if Kind::of_code(&error.code) != Some(Kind::Cancelled) =>
            {
                Ended::Failed(&error.code, &error.message)
            }
            _ => Ended::NotRun,
        }
    }
}

/// The differences between a recording and its replay. `refused` are the inputs that the version of
/// the replay does not take.
pub(super) fn compare(
    run: Uuid,
    recorded: CapabilityRef,
    against: CapabilityRef,
    then: &Side,
    now: &Side,
    refused: &Map<String, Value>,
) -> ReplayResponse {
    let known: BTreeSet<&String> = then.order.iter().collect();
    let new = now.order.iter().filter(|step| !known.contains(step));
    let all: Vec<&String> = then.order.iter().chain(new).collect();
    let mut found = Found { list: Vec::new(), left: MAX_DIFFERENCES, more: 0 };
    let mut steps = Vec::new();
    let mut compared = 0;
    for step in all {
        let (was, is) = (then.ended(step), now.ended(step));
        if was == Ended::NotRun && is == Ended::NotRun {
            continue;
        }
        compared += 1;
        let before = found.more;
        compare_questions(then.questions.get(step), now.questions.get(step), &mut found);
        compare_ends(&was, &is, &mut found);
        let drift = match (&was, &is) {
            (Ended::NotRun, _) => StepDiff::New,
            (_, Ended::NotRun) => StepDiff::Gone,
            _ => StepDiff::Changed,
        };
        let differences = found.take();
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
    let result = found.take();
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

fn compare_questions(was: Option<&Asked>, is: Option<&Asked>, found: &mut Found) {
    // A step that is no task asks nothing, and one that runs only once is told of as a whole.
    let (Some(was), Some(is)) = (was, is) else { return };
    if was.operation != is.operation {
        let text = |asked: &Asked| Value::from(asked.operation.clone());
        found.add("operation".to_owned(), Some(&text(was)), Some(&text(is)));
    }
    compare_members("inputs", &was.inputs, &is.inputs, found);
}

fn compare_ends(was: &Ended<'_>, is: &Ended<'_>, found: &mut Found) {
    let none = Map::new();
    let outputs = |ended: &Ended<'_>| match ended {
        Ended::Finished(outputs) => (*outputs).clone(),
        Ended::NotRun | Ended::Failed(..) => none.clone(),
    };
    let error = |ended: &Ended<'_>| match ended {
        Ended::Failed(code, message) => Some(Value::from(format!("{code}: {message}"))),
        Ended::NotRun | Ended::Finished(_) => None,
    };
    let is_same_failure =
        matches!((was, is), (Ended::Failed(was, _), Ended::Failed(is, _)) if was == is);
    if !is_same_failure && (error(was).is_some() || error(is).is_some()) {
        found.add("error".to_owned(), error(was).as_ref(), error(is).as_ref());
    }
    // What a step that failed would have set is no news.
    if matches!((was, is), (Ended::Finished(_), Ended::Finished(_))) {
        compare_members("outputs", &outputs(was), &outputs(is), found);
    }
}

fn compare_members(at: &str, was: &Map<String, Value>, is: &Map<String, Value>, found: &mut Found) {
    let new = is.keys().filter(|name| !was.contains_key(*name));
    for name in was.keys().chain(new) {
        compare_values(&format!("{at}.{name}"), was.get(name), is.get(name), found);
    }
}

/// Down to the smallest part that differs.
fn compare_values(at: &str, was: Option<&Value>, is: Option<&Value>, found: &mut Found) {
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

/// Differences as they are found.
struct Found {
    list: Vec<ValueDiff>,
    /// The number of differences that may still be reported.
    left: usize,
    /// The number of differences that were not reported.
    more: usize,
}

impl Found {
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
    fn take(&mut self) -> Vec<ValueDiff> {
        std::mem::take(&mut self.list)
    }
}
