//! `a2s runs replay`: the differences between a recorded run and its replay.

use a2s_api::{ReplayRequest, ReplayResponse, ReplayTarget, StepDiff, ValueDiff};
use serde_json::Value;

use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::commands::run::format_value;
use crate::commands::version_spec::VersionSpec;
use crate::output::{BAD, BOLD, CommandOutput, DIM, GOOD, NAME, WARN, count};

pub(super) async fn replay_run(
    id: &str,
    against: Option<&str>,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let against = against.map(VersionSpec::parse).transpose()?;
    let against = against.map(|target| ReplayTarget {
        name: target.name,
        version: target.range,
        digest: None,
    });
    let request = ReplayRequest { against };
    let replay: ReplayResponse = client.post(&["v1", "executions", id, "replay"], &request).await?;
    if output.is_json() {
        output.json_line(&replay);
    } else {
        print(&replay, output);
    }
    if replay.unchanged { Ok(()) } else { Err(CliError::already_printed(CliExitCode::Bad)) }
}

fn print(replay: &ReplayResponse, output: &mut CommandOutput) {
    let ReplayResponse {
        run,
        recorded,
        against,
        unchanged: same,
        compared,
        steps,
        result,
        more_differences: more,
    } = replay;
    let other = if against == recorded {
        String::new()
    } else {
        format!(" against {NAME}{}{NAME:#} {}", against.name, against.version)
    };
    output.line(format_args!(
        "{BOLD}replay{BOLD:#} {NAME}{}{NAME:#} {}{other}  {DIM}{run}{DIM:#}",
        recorded.name, recorded.version
    ));
    for step in steps {
        let drift = match step.change {
            StepDiff::Changed => String::new(),
            StepDiff::New => format!(" {WARN}new: runs now, but did not run before{WARN:#}"),
            StepDiff::Gone => format!(" {WARN}missing: ran before, but does not run now{WARN:#}"),
        };
        output.line(format_args!("  {BOLD}{}{BOLD:#}{drift}", step.step));
        step.differences.iter().for_each(|difference| print_difference(difference, output));
    }
    if !result.is_empty() {
        output.line(format_args!("  {BOLD}result{BOLD:#}"));
        result.iter().for_each(|difference| print_difference(difference, output));
    }
    if *more > 0 {
        output.line(format_args!("  {DIM}and {more} more differences{DIM:#}"));
    }
    let steps_compared = count(*compared, "step");
    if *same {
        output.line(format_args!(
            "{GOOD}no difference{GOOD:#} {DIM}{steps_compared} compared{DIM:#}"
        ));
    } else {
        let differ = steps.len();
        output.line(format_args!(
            "{BAD}different{BAD:#} {DIM}{differ} of {steps_compared} differ{DIM:#}"
        ));
    }
}

fn print_difference(difference: &ValueDiff, output: &mut CommandOutput) {
    let value =
        |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), format_value);
    let ValueDiff { path: at, before: was, after: is } = difference;
    output.line(format_args!(
        "    {at} {DIM}was{DIM:#} {} {DIM}is{DIM:#} {}",
        value(was),
        value(is)
    ));
}
