//! The mocked services of an example: its own responses, and generated ones for the rest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2s::api::RunError;
use a2s::{Action, Example, Output, Step, StepPath, StepPiece, Task};
use jiff::Timestamp;
use serde_json::Value;

use super::{declared_response, mock_response};
use crate::clock::Clock;
use crate::engine::{Answer, Answers, Head, Question};
use crate::error::{Error, Kind};
use crate::plan::Plan;
use crate::request::{
    Contract, RawResponse, declared_status, join_misfits, prepare, read_response,
};

/// The most faults that are told of one example.
const MAX_FAULTS: usize = 10;

/// The answers of one example.
#[derive(Debug)]
pub(super) struct Script<'e> {
    plan: &'e Plan,
    lines: Vec<Line<'e>>,
    clock: Arc<dyn Clock>,
    deadline: Timestamp,
    notes: Mutex<Notes>,
}

/// An answer that the example has.
#[derive(Debug)]
struct Line<'e> {
    /// Its place, as written.
    key: &'e StepPath,
    /// The same with every block and capability on the way.
    way: Vec<StepPiece>,
    answer: &'e a2s::Answer,
}

/// What is found out on the way.
#[derive(Debug, Default)]
struct Notes {
    /// What the answers give, by their number, and the made-up ones, by the path of their step. The
    /// iterations of a step share it: an answer is read and checked once.
    lines: BTreeMap<usize, Arc<Reading>>,
    made_up: BTreeMap<String, Arc<Reading>>,
    faults: Vec<RunError>,
}

/// What a step makes of an answer.
#[derive(Debug)]
enum Reading {
    Answer(Answer),
    /// The step fails, as the answer wants it.
    Failure {
        error: Error,
        status: Option<u16>,
    },
    /// The answer cannot be that of its operation: the example fails, whatever the run does.
    Fault(Error),
}

impl Reading {
    /// Whether there is an answer at all.
    fn is_made(&self) -> bool {
        !matches!(self, Self::Fault(_))
    }
}

/// What a script knows when the walk is over.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) faults: Vec<RunError>,
    pub(super) made_up: Vec<String>,
    pub(super) unused: Vec<StepPath>,
}

impl<'e> Script<'e> {
    /// The script of an example, which may take so much time.
    ///
    /// # Errors
    /// When an answer is for no task step of the plan.
    pub(super) fn new(
        plan: &'e Plan,
        example: &'e Example,
        clock: &Arc<dyn Clock>,
        time: Duration,
    ) -> Result<Self, Error> {
        let lines = example.answers.iter().map(|(key, answer)| {
            let way = plan.whole_way(key).ok_or_else(|| {
                Error::new(Kind::ExampleAnswer, format!("there is no task step `{key}`"))
                    .hint("Answers are named by the ways to task steps, as the events of a run write them.")
            })?;
            Ok(Line { key, way, answer })
        });
        let lines = lines.collect::<Result<_, Error>>()?;
        let clock = Arc::clone(clock);
        let deadline = clock.now().saturating_add(time).unwrap_or(Timestamp::MAX);
        Ok(Self { plan, lines, clock, deadline, notes: Mutex::default() })
    }

    /// What was found out.
    pub(super) fn tell(self) -> Told {
        let notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lines = self.lines.iter().enumerate();
        let unused = lines.filter(|(number, _)| !notes.lines.contains_key(number));
        Told {
            faults: notes.faults,
            made_up: notes
                .made_up
                .into_iter()
                .filter(|(_, made)| made.is_made())
                .map(|(step, _)| step)
                .collect(),
            unused: unused.map(|(_, line)| line.key.clone()).collect(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer that the example has for a step: of several the one that names the most
    /// iterations, the outermost ones first.
    fn line(&self, path: &StepPath) -> Option<(usize, &Line<'e>)> {
        let fitting = self.lines.iter().enumerate().filter(|(_, line)| line.is_for(path));
        fitting.max_by_key(|(_, line)| {
            let named: Vec<bool> = line.way.iter().map(|piece| piece.iteration.is_some()).collect();
            (named.iter().filter(|named| **named).count(), named)
        })
    }

    /// What the step at `path` makes of its answer.
    fn reading(&self, path: &str, contract: &Contract) -> Arc<Reading> {
        let unknown = || {
            let error = Error::new(Kind::Internal, "the plan has no such step");
            Arc::new(Reading::Fault(error))
        };
        let (Ok(way), Some((_, step))) = (StepPath::new(path), self.plan.step_at(path)) else {
            return unknown();
        };
        // Held while an answer is read: another iteration waits instead of reading it, too.
        let mut notes = self.notes();
        if let Some((number, line)) = self.line(&way) {
            let read = || Arc::new(read_line(contract, line.answer));
            return Arc::clone(notes.lines.entry(number).or_insert_with(read));
        }
        let all = without_iterations(&way);
        let make = || Arc::new(make_up(contract, step, &all));
        Arc::clone(notes.made_up.entry(all.clone()).or_insert_with(make))
    }

    /// Keeps a fault, the first of its step; more of the same are of no interest.
    fn note(&self, error: &RunError) {
        let mut notes = self.notes();
        let known =
            notes.faults.iter().any(|one| one.step == error.step || one.message == error.message);
        if !known && notes.faults.len() < MAX_FAULTS {
            notes.faults.push(error.clone());
        }
    }
}

impl Answers for Script<'_> {
    fn answer(&self, question: &Question<'_>) -> Result<Answer, RunError> {
        let Question { step, contract, inputs } = *question;
        let failed = |error: &Error| error.to_run_error(Some(step), None, true);
        if self.clock.now() > self.deadline {
            let message = "the example takes too long";
            return Err(failed(&Error::new(Kind::BudgetExceeded, message)));
        }
        prepare(contract, inputs.truth).map_err(|error| failed(&Error::from(error)))?;
        match &*self.reading(step, contract) {
            Reading::Answer(answer) => Ok(answer.clone()),
            Reading::Failure { error, status } => {
                Err(RunError { status: *status, ..failed(error) })
            }
            Reading::Fault(error) => {
                let error = failed(error);
                self.note(&error);
                Err(error)
            }
        }
    }
}

impl Line<'_> {
    /// Whether it answers the step at a whole path.
    fn is_for(&self, path: &StepPath) -> bool {
        let pieces = path.pieces();
        pieces.len() == self.way.len()
            && self.way.iter().zip(pieces).all(|(own, piece)| {
                own.id == piece.id && (own.iteration.is_none() || own.iteration == piece.iteration)
            })
    }
}

fn without_iterations(path: &StepPath) -> String {
    let ids: Vec<_> = path.pieces().iter().map(|piece| piece.id.as_str()).collect();
    ids.join("/")
}

/// Reads an answer that the example has.
fn read_line(contract: &Contract, answer: &a2s::Answer) -> Reading {
    let response = match declared_response::to_response(contract.task(), answer) {
        Ok(response) => response,
        Err(reason) => return Reading::Fault(Error::new(Kind::ExampleAnswer, reason)),
    };
    if let Some(misfits) = misfits(contract, &response) {
        let message =
            format!("the answer of the example is not as the operation declares it: {misfits}");
        let hint = "Correct the answer in the example, or what the operation declares.";
        return Reading::Fault(Error::new(Kind::AnswerMisfit, message).hint(hint));
    }
    read(contract.task(), response)
}

fn read(task: &Task, response: RawResponse) -> Reading {
    let status = response.status;
    match read_response(task, &response) {
        Ok(body) => {
            Reading::Answer(Answer { body, head: Some(Head { status, headers: response.headers }) })
        }
        Err(error) => Reading::Failure { error: error.into(), status: Some(status) },
    }
}

/// What of an answer is not as declared. A service may always fail in a way that is not declared,
/// and say nothing of it.
fn misfits(contract: &Contract, response: &RawResponse) -> Option<String> {
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
    let misfits = contract.check_answer(response, &value);
    (!misfits.is_empty()).then(|| join_misfits(&misfits))
}

/// Makes up an answer that fits the operation, and from which the step can take what it has to.
fn make_up(contract: &Contract, step: &Step, path: &str) -> Reading {
    let Action::Task { outputs, .. } = &step.action else {
        return Reading::Fault(Error::new(Kind::Internal, "a step that is no task was run as one"));
    };
    let mut reason = None;
    for response in mock_response::responses(contract.task(), outputs) {
        if let Some(misfits) = misfits(contract, &response) {
            reason.get_or_insert(misfits);
            continue;
        }
        match read(contract.task(), response) {
            Reading::Answer(answer) => match find_miss(&answer, outputs) {
                None => return Reading::Answer(answer),
                Some(miss) => reason = Some(miss),
            },
            Reading::Failure { error, .. } | Reading::Fault(error) => {
                reason.get_or_insert(error.message);
            }
        }
    }
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("no answer can be made up from what the operation declares{reason}");
    let hint = format!("Write one in the example: `answers: {{{}: {{body: …}}}}`.", key_of(path));
    Reading::Fault(Error::new(Kind::ExampleAnswer, message).hint(hint))
}

/// How an example may write the key of a path.
fn key_of(path: &str) -> String {
    if path.contains('/') { format!("{path:?}") } else { path.to_owned() }
}

fn find_miss(answer: &Answer, outputs: &[Output]) -> Option<String> {
    outputs.iter().find_map(|output| answer.take(output).err()).map(|error| error.message)
}
