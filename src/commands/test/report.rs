//! The report about examples, for people and for machines.

use a2s::api::{EventKind, RunError};
use a2s::{Document, Example};
use executor::{Difference, Fault, Outcome};
use serde_json::{Value, json};

use super::{Panicked, Tested};
use crate::output::{BAD, DIM, GOOD, NAME, Output, WARN, count, plain, shorten};

/// The longest value that is shown of a difference, in characters.
const MAX_VALUE: usize = 120;
/// The most steps that a note lists.
const MAX_LISTED: usize = 8;

/// How many examples are how.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    passed: usize,
    failed: usize,
    /// Documents that could not be tried.
    bad: usize,
    /// Documents without examples.
    without: usize,
    /// Whether those count as bad.
    are_wanted: bool,
    left_out: usize,
}

impl Counts {
    pub(super) fn is_good(self) -> bool {
        self.failed == 0 && self.bad == 0 && !(self.are_wanted && self.without > 0)
    }

    pub(super) fn print(self, output: &mut Output) {
        let Self { passed, failed, bad, without, left_out, .. } = self;
        if output.is_json() {
            let mut summary = json!({ "passed": passed, "failed": failed, "bad": bad, "without_examples": without });
            if left_out > 0 {
                summary["left_out"] = json!(left_out);
            }
            output.json_line(&json!({ "summary": summary }));
            return;
        }
        let mut words = vec![format!("{passed} passed"), format!("{failed} failed")];
        if bad > 0 {
            words.push(format!("{} not tried", count(bad, "document")));
        }
        if without > 0 {
            words.push(format!("{without} without examples"));
        }
        if left_out > 0 {
            words.push(format!("{left_out} left out"));
        }
        let (style, word) = if self.is_good() { (GOOD, "good") } else { (BAD, "bad ") };
        output.line(format_args!("{style}{word}{style:#}    {}", words.join(", ")));
    }
}

/// What an example is called.
pub(super) fn title(number: usize, example: &Example) -> String {
    example.title.clone().unwrap_or_else(|| format!("example {}", number + 1))
}

/// Prints everything about the examples of a document, and counts them.
pub(super) fn print(
    tested: &Tested,
    require_examples: bool,
    counts: &mut Counts,
    output: &mut Output,
) {
    counts.left_out += tested.left_out;
    counts.are_wanted |= require_examples;
    if let Some(failure) = tested.failure() {
        counts.bad += 1;
        print_bad(tested, failure, output);
        return;
    }
    let Ok(document) = &tested.subject.document else { return };
    let capability = document.capability();
    if capability.examples.is_empty() {
        counts.without += 1;
        print_none(tested, require_examples, output);
        return;
    }
    for (number, outcome) in &tested.tried {
        let passed = outcome.as_ref().is_ok_and(Outcome::passed);
        *(if passed { &mut counts.passed } else { &mut counts.failed }) += 1;
        let Some(example) = capability.examples.get(*number) else { continue };
        let title = title(*number, example);
        if output.is_json() {
            output.json_line(&to_json(tested, *number, &title, outcome));
            continue;
        }
        print_outcome(document, *number, outcome, output);
    }
}

/// Prints how an example did, and below that why.
pub(in super::super) fn print_outcome(
    document: &Document,
    number: usize,
    outcome: &Result<Outcome, Panicked>,
    output: &mut Output,
) {
    let capability = document.capability();
    let Some(example) = capability.examples.get(number) else { return };
    let passed = outcome.as_ref().is_ok_and(Outcome::passed);
    let (style, word) = if passed { (GOOD, "ok    ") } else { (BAD, "FAILED") };
    let time = outcome.as_ref().map_or(0, |outcome| outcome.duration_ms);
    output.line(format_args!(
        "{style}{word}{style:#}  {NAME}{}{NAME:#}: {}  {DIM}{time} ms{DIM:#}",
        capability.name,
        plain(&title(number, example))
    ));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Panicked) => {
            output
                .line(format_args!("        the executor broke down: a defect, please report it"));
            return;
        }
    };
    for fault in &outcome.failures {
        match fault {
            Fault::Error(error) => print_error(error, output),
            Fault::Output(differences) => {
                output.line(format_args!("        the output is another one"));
                differences.iter().for_each(|one| print_difference(one, output));
                print_handled(outcome, output);
            }
        }
    }
    if !outcome.made_up.is_empty() {
        let steps = listed(&outcome.made_up);
        output.line(format_args!("        {DIM}made-up answers: {steps}{DIM:#}"));
    }
    if !outcome.unused.is_empty() {
        let keys: Vec<String> = outcome.unused.iter().map(ToString::to_string).collect();
        output.line(format_args!(
            "        {WARN}note{WARN:#}: nobody asked for the answers of {}",
            listed(&keys)
        ));
    }
}

fn print_error(error: &RunError, output: &mut Output) {
    let place = error.step.as_ref().map_or_else(String::new, |step| format!("{}: ", plain(step)));
    let RunError { code, message, hint, .. } = error;
    output.line(format_args!("        {place}{BAD}{code}{BAD:#} {}", plain(message)));
    if !hint.is_empty() {
        output.line(format_args!("          {DIM}help:{DIM:#} {}", plain(hint)));
    }
}

/// The failures that the capability went on behind: the output may be another one because of them.
fn print_handled(outcome: &Outcome, output: &mut Output) {
    let mut told: Vec<&str> = Vec::new();
    for event in &outcome.events {
        let EventKind::StepFailed { error, .. } = &event.kind else { continue };
        if told.len() < MAX_LISTED && !told.contains(&&*error.message) {
            told.push(&error.message);
            let step = error.step.as_deref().unwrap_or_default();
            output.line(format_args!(
                "        {WARN}note{WARN:#}: {} failed, and the run went on: {}",
                plain(step),
                plain(&error.message)
            ));
        }
    }
}

fn print_difference(Difference { path, expected, found }: &Difference, output: &mut Output) {
    let write = |value: &Option<Value>| match value {
        Some(value) => shorten(&value.to_string(), MAX_VALUE).into_owned(),
        None => "nothing".to_owned(),
    };
    output.line(format_args!("          {}", plain(path)));
    output.line(format_args!("            {GOOD}expected{GOOD:#}  {}", write(expected)));
    output.line(format_args!("            {BAD}came{BAD:#}      {}", write(found)));
}

fn listed(steps: &[String]) -> String {
    let more = if steps.len() > MAX_LISTED { ", …" } else { "" };
    let shown: Vec<_> = steps.iter().take(MAX_LISTED).map(|step| plain(step)).collect();
    format!("{}{more}", shown.join(", "))
}

fn print_none(tested: &Tested, require_examples: bool, output: &mut Output) {
    let Ok(document) = &tested.subject.document else { return };
    let name = &document.capability().name;
    if output.is_json() {
        let file = &tested.subject.origin;
        output.json_line(&json!({ "target": file, "name": name, "examples": 0 }));
        return;
    }
    let (style, word) = if require_examples { (BAD, "FAILED") } else { (DIM, "-     ") };
    output.line(format_args!("{style}{word}{style:#}  {NAME}{name}{NAME:#}: no examples"));
}

fn print_bad(tested: &Tested, failure: &crate::cli_error::Failure, output: &mut Output) {
    let subject = &tested.subject;
    if output.is_json() {
        let mut line = json!({ "target": subject.origin });
        if failure.diagnostics.is_empty() {
            line["error"] = failure.to_json()["error"].take();
        } else {
            line["issues"] = json!(failure.diagnostics);
        }
        output.json_line(&line);
        return;
    }
    output.line(format_args!("{BAD}bad{BAD:#}     {}", plain(&subject.origin)));
    if failure.diagnostics.is_empty() {
        output.line(format_args!(
            "        {BAD}{}{BAD:#} {}",
            failure.code,
            plain(&failure.message)
        ));
        if let Some(hint) = &failure.hint {
            output.line(format_args!("          {DIM}help:{DIM:#} {}", plain(hint)));
        }
        return;
    }
    let errors = failure.diagnostics.iter().filter(|found| found.is_error());
    output.diagnostics(&subject.origin, &subject.source, errors);
}

fn to_json(
    tested: &Tested,
    number: usize,
    title: &str,
    outcome: &Result<Outcome, Panicked>,
) -> Value {
    let Ok(document) = &tested.subject.document else { return Value::Null };
    let capability = document.capability();
    let mut line = json!({
        "target": tested.subject.origin,
        "name": capability.name,
        "version": capability.version,
        "checksum": document.digest(),
        "example": number,
        "title": title,
    });
    match outcome {
        Err(Panicked) => {
            line["passed"] = json!(false);
            line["failures"] = json!([{ "message": "the executor broke down" }]);
        }
        Ok(outcome) => {
            line["passed"] = json!(outcome.passed());
            line["duration_ms"] = json!(outcome.duration_ms);
            line["failures"] = outcome.failures.iter().map(fault_to_json).collect();
            line["made_up"] = json!(outcome.made_up);
            let unused = outcome.unused.iter().map(ToString::to_string);
            line["unused"] = unused.collect();
        }
    }
    line
}

fn fault_to_json(fault: &Fault) -> Value {
    match fault {
        Fault::Error(error) => json!({ "error": error }),
        Fault::Output(differences) => {
            let differences = differences.iter().map(|Difference { path, expected, found }| {
                let mut line = json!({ "path": path });
                if let Some(expected) = expected {
                    line["expected"] = expected.clone();
                }
                if let Some(found) = found {
                    line["found"] = found.clone();
                }
                line
            });
            json!({ "output": differences.collect::<Value>() })
        }
    }
}
