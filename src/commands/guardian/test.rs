//! `a2s guardian test`: a policy held to cases.

use std::path::Path;

use guardian::policy_tests::{CaseResult, ExpectationMismatch, MAX_BYTES, PolicyTestSuite};
use guardian::{Policy, PolicyErrors};
use serde_json::json;

use crate::cli::TestPolicyArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, WARN, count, sanitize, shorten};
use crate::settings::policy_failure;

/// The maximum length of a shown value in a difference, in characters.
const MAX_VALUE: usize = 120;

pub(super) fn test(arguments: &TestPolicyArgs, output: &mut CommandOutput) -> Result<(), CliError> {
    let policy = read(&arguments.policy, Policy::parse)?;
    let cases = read(&arguments.cases, PolicyTestSuite::parse)?;
    if !cases.has_user()
        && let Some(rule) = policy.rules_by_user().next()
        && !output.is_json()
    {
        output.line(format_args!(
            "{WARN}warning{WARN:#} the rule {rule} depends on the user, but no case has `user`: \
             without a user, a rule that denies applies, and a rule that allows does not"
        ));
    }
    let (mut passed, mut failed) = (0_usize, 0_usize);
    for outcome in cases.run(&policy, arguments.filter.as_deref()) {
        *(if outcome.has_passed() { &mut passed } else { &mut failed }) += 1;
        if output.is_json() {
            output.json_line(&to_json(&outcome));
        } else {
            print(&outcome, output);
        }
    }
    let left_out = cases.len() - passed - failed;
    if output.is_json() {
        let summary = json!({ "passed": passed, "failed": failed, "left_out": left_out });
        output.json_line(&json!({ "summary": summary }));
    } else {
        let left = match left_out {
            0 => String::new(),
            some => format!(", {} left out", count(some, "case")),
        };
        let (style, word) = if failed == 0 { (GOOD, "good") } else { (BAD, "bad ") };
        output
            .line(format_args!("{style}{word}{style:#}    {passed} passed, {failed} failed{left}"));
    }
    if failed == 0 { Ok(()) } else { Err(CliError::already_printed(CliExitCode::Bad)) }
}

/// Reads a file up to its largest allowed size, and parses it.
pub(super) fn read<T>(
    path: &Path,
    parse: fn(&str) -> Result<T, PolicyErrors>,
) -> Result<T, CliError> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| CliError::file_error(path, &error))?;
    let read = file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| CliError::file_error(path, &error))?;
    parse(&text).map_err(|faults| policy_failure(path, &faults))
}

fn print(outcome: &CaseResult, output: &mut CommandOutput) {
    let (style, word) = if outcome.has_passed() { (GOOD, "ok    ") } else { (BAD, "FAILED") };
    output.line(format_args!("{style}{word}{style:#}  {NAME}{}{NAME:#}", sanitize(&outcome.name)));
    for one in &outcome.differences {
        let ExpectationMismatch { step, what, expected, found, message } = one;
        let (expected, found) = (expected.to_string(), found.to_string());
        output.line(format_args!(
            "        step {step}: {what} is {}, expected {}",
            sanitize(&shorten(&found, MAX_VALUE)),
            sanitize(&shorten(&expected, MAX_VALUE))
        ));
        if *what == "decision" && !message.is_empty() {
            output.line(format_args!(
                "          {DIM}{}{DIM:#}",
                sanitize(&shorten(message, MAX_VALUE))
            ));
        }
    }
}

fn to_json(outcome: &CaseResult) -> serde_json::Value {
    let differences = outcome.differences.iter().map(|one| {
        json!({
            "step": one.step, "what": one.what, "expected": one.expected, "found": one.found,
            "message": one.message,
        })
    });
    json!({
        "case": outcome.name,
        "passed": outcome.has_passed(),
        "differences": differences.collect::<Vec<_>>(),
    })
}
