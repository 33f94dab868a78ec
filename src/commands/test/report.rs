//! The report about examples, for people and for machines.

use a2s::{CapabilityExample, Document};
use a2s_api::{EventKind, RunError};
use executor::{ExampleFailure, ExampleResult, OutputDifference};
use serde_json::{Value, json};

use super::{ExecutorPanic, TestedDocument};
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, WARN, count, sanitize, shorten};

/// The maximum length of a shown value in a difference, in characters.
const MAX_VALUE: usize = 120;
/// The maximum number of steps that a note lists.
const MAX_LISTED: usize = 8;

/// The numbers of examples by result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExampleCounts {
    passed: usize,
    failed: usize,
    /// The number of documents that could not be tested.
    bad: usize,
    /// The number of documents without examples.
    without: usize,
    /// Set when documents without examples count as bad.
    are_required: bool,
    left_out: usize,
}

impl ExampleCounts {
    pub(super) fn is_good(self) -> bool {
        self.failed == 0 && self.bad == 0 && !(self.are_required && self.without > 0)
    }

    pub(super) fn print(self, output: &mut CommandOutput) {
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
            words.push(format!("{} not tested", count(bad, "document")));
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

/// Returns the title of an example.
pub(super) fn title(number: usize, example: &CapabilityExample) -> String {
    example.title.clone().unwrap_or_else(|| format!("example {}", number + 1))
}

/// Prints all results of the examples of a document, and counts them.
pub(super) fn print(
    tested: &TestedDocument,
    require_examples: bool,
    counts: &mut ExampleCounts,
    output: &mut CommandOutput,
) {
    counts.left_out += tested.left_out;
    counts.are_required |= require_examples;
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
    for (number, outcome) in &tested.results {
        let passed = outcome.as_ref().is_ok_and(ExampleResult::is_success);
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

/// Prints the result of an example, and below it the reason.
pub(in super::super) fn print_outcome(
    document: &Document,
    number: usize,
    outcome: &Result<ExampleResult, ExecutorPanic>,
    output: &mut CommandOutput,
) {
    let capability = document.capability();
    let Some(example) = capability.examples.get(number) else { return };
    let passed = outcome.as_ref().is_ok_and(ExampleResult::is_success);
    let (style, word) = if passed { (GOOD, "ok    ") } else { (BAD, "FAILED") };
    let time = outcome.as_ref().map_or(0, |outcome| outcome.duration_ms);
    output.line(format_args!(
        "{style}{word}{style:#}  {NAME}{}{NAME:#}: {}  {DIM}{time} ms{DIM:#}",
        capability.name,
        sanitize(&title(number, example))
    ));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(ExecutorPanic) => {
            output.line(format_args!(
                "        the executor failed: this is a defect, please report it"
            ));
            return;
        }
    };
    for fault in &outcome.failures {
        match fault {
            ExampleFailure::Error(error) => print_error(error, output),
            ExampleFailure::Output(differences) => {
                output.line(format_args!("        the output differs from the example"));
                differences.iter().for_each(|one| print_difference(one, output));
                print_handled(outcome, output);
            }
        }
    }
    if !outcome.generated_steps.is_empty() {
        let steps = listed(&outcome.generated_steps);
        output.line(format_args!("        {DIM}generated answers: {steps}{DIM:#}"));
    }
    if !outcome.unused_answers.is_empty() {
        let keys: Vec<String> = outcome.unused_answers.iter().map(ToString::to_string).collect();
        output.line(format_args!(
            "        {WARN}note{WARN:#}: the run did not use the answers of {}",
            listed(&keys)
        ));
    }
}

fn print_error(error: &RunError, output: &mut CommandOutput) {
    let place =
        error.step.as_ref().map_or_else(String::new, |step| format!("{}: ", sanitize(step)));
    let RunError { code, message, hint, .. } = error;
    output.line(format_args!("        {place}{BAD}{code}{BAD:#} {}", sanitize(message)));
    if !hint.is_empty() {
        output.line(format_args!("          {DIM}help:{DIM:#} {}", sanitize(hint)));
    }
}

/// Prints the failures that the capability handled and continued after: the output may differ because of
/// them.
fn print_handled(outcome: &ExampleResult, output: &mut CommandOutput) {
    let mut messages: Vec<&str> = Vec::new();
    for event in &outcome.events {
        let EventKind::StepFailed { error, .. } = &event.kind else { continue };
        if messages.len() < MAX_LISTED && !messages.contains(&&*error.message) {
            messages.push(&error.message);
            let step = error.step.as_deref().unwrap_or_default();
            output.line(format_args!(
                "        {WARN}note{WARN:#}: {} failed, and the run continued: {}",
                sanitize(step),
                sanitize(&error.message)
            ));
        }
    }
}

fn print_difference(
    OutputDifference { path, expected, found }: &OutputDifference,
    output: &mut CommandOutput,
) {
    let write = |value: &Option<Value>| match value {
        Some(value) => shorten(&value.to_string(), MAX_VALUE).into_owned(),
        None => "nothing".to_owned(),
    };
    output.line(format_args!("          {}", sanitize(path)));
    output.line(format_args!("            {GOOD}expected{GOOD:#}  {}", write(expected)));
    output.line(format_args!("            {BAD}came{BAD:#}      {}", write(found)));
}

fn listed(steps: &[String]) -> String {
    let more = if steps.len() > MAX_LISTED { ", …" } else { "" };
    let shown: Vec<_> = steps.iter().take(MAX_LISTED).map(|step| sanitize(step)).collect();
    format!("{}{more}", shown.join(", "))
}

fn print_none(tested: &TestedDocument, require_examples: bool, output: &mut CommandOutput) {
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

fn print_bad(
    tested: &TestedDocument,
    failure: &crate::cli_error::CliError,
    output: &mut CommandOutput,
) {
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
    output.line(format_args!("{BAD}bad{BAD:#}     {}", sanitize(&subject.origin)));
    if failure.diagnostics.is_empty() {
        output.line(format_args!(
            "        {BAD}{}{BAD:#} {}",
            failure.code,
            sanitize(&failure.message)
        ));
        if let Some(hint) = &failure.hint {
            output.line(format_args!("          {DIM}help:{DIM:#} {}", sanitize(hint)));
        }
        return;
    }
    let errors = failure.diagnostics.iter().filter(|found| found.is_error());
    output.print_diagnostics(&subject.origin, &subject.source, errors);
}

fn to_json(
    tested: &TestedDocument,
    number: usize,
    title: &str,
    outcome: &Result<ExampleResult, ExecutorPanic>,
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
        Err(ExecutorPanic) => {
            line["passed"] = json!(false);
            line["failures"] = json!([{ "message": "the executor failed" }]);
        }
        Ok(outcome) => {
            line["passed"] = json!(outcome.is_success());
            line["duration_ms"] = json!(outcome.duration_ms);
            line["failures"] = outcome.failures.iter().map(fault_to_json).collect();
            line["made_up"] = json!(outcome.generated_steps);
            let unused = outcome.unused_answers.iter().map(ToString::to_string);
            line["unused"] = unused.collect();
        }
    }
    line
}

fn fault_to_json(fault: &ExampleFailure) -> Value {
    match fault {
        ExampleFailure::Error(error) => json!({ "error": error }),
        ExampleFailure::Output(differences) => {
            let differences =
                differences.iter().map(|OutputDifference { path, expected, found }| {
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
