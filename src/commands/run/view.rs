//! A run as a person watches it: one line for each thing that happens.

use a2s_api::{
    DecisionRecord, DecisionSource, ErrorHandlerKind, EventSummary, GuardianPhase, RequestChange,
    RequestPurpose, Run, RunChange, RunError, RunEvent, RunStarted, RunStatus, SentRequest,
    StepChange, StepResolution, StepWarning, TriggerEvent, WaitReason,
};
use anstyle::Style;
use serde_json::Value;
use uuid::Uuid;

use crate::output::{BAD, BOLD, CommandOutput, DIM, GOOD, NAME, WARN, sanitize};

/// The maximum length of a shown value, in characters; `--json` shows all of it.
const MAX_SHOWN: usize = 160;

/// Prints events line by line, and names the step of a line when steps run in parallel.
#[derive(Debug, Default)]
pub(crate) struct EventPrinter {
    /// The step of the last line.
    current: Option<String>,
}

impl EventPrinter {
    pub(crate) fn print(&mut self, event: &RunEvent, output: &mut CommandOutput) {
        let summary = event.kind.summary();
        if let EventSummary::Step(step, _) | EventSummary::Request(step, _) = summary
            && is_shown(&summary)
        {
            if self.current.as_deref() != Some(step) && !names_its_step(&summary) {
                output.line(format_args!("  {}{BOLD}{step}{BOLD:#} {DIM}…{DIM:#}", indent(step)));
            }
            self.current = Some(step.to_owned());
        }
        print_event(event, output);
    }
}

/// Returns true when an event is shown at all.
fn is_shown(summary: &EventSummary<'_>) -> bool {
    !matches!(
        summary,
        EventSummary::Step(_, StepChange::Finished { outputs, .. }) if outputs.is_empty()
    )
}

/// Returns true when the line of an event names its step.
fn names_its_step(summary: &EventSummary<'_>) -> bool {
    use StepChange::{Resolved, Skipped, Started};
    matches!(summary, EventSummary::Step(_, Resolved(_) | Skipped(_) | Started { .. }))
}

/// Prints one event.
pub(crate) fn print_event(event: &RunEvent, output: &mut CommandOutput) {
    match event.kind.summary() {
        EventSummary::Run(RunChange::Started(started)) => print_start(event.run, started, output),
        EventSummary::Run(RunChange::Queued) => {
            output.line(format_args!("  {WARN}queued{WARN:#}, waits for a free slot"));
        }
        EventSummary::Run(RunChange::Resumed) => {
            output.line(format_args!("  {WARN}resumed{WARN:#}"));
        }
        EventSummary::Run(RunChange::Waiting(_) | RunChange::Finished { .. }) => {}
        EventSummary::Step(step, change) => print_step_change(step, change, output),
        EventSummary::Request(step, change) => {
            output.line(format_args!("  {}  {}", indent(step), request_text(change)));
        }
    }
}

fn print_start(run: Uuid, started: &RunStarted, output: &mut CommandOutput) {
    let RunStarted { capability, guardians, notices, inputs, recalled, trigger, decisions, .. } =
        started;
    output.line(format_args!(
        "{BOLD}run{BOLD:#} {NAME}{}{NAME:#} {}  {DIM}{run}{DIM:#}",
        capability.name, capability.version
    ));
    for notice in notices {
        output.line(format_args!("  {WARN}warning{WARN:#}: {}", sanitize(&notice.to_string())));
    }
    if let Some(TriggerEvent { kind, id }) = trigger.as_deref() {
        output.line(format_args!("  started by {kind} {id}"));
    }
    for (name, scope) in recalled {
        let value = inputs.get(name).map(format_value).unwrap_or_default();
        output.line(format_args!("  {name} = {value} {DIM}({} state){DIM:#}", scope.as_str()));
    }
    decisions.iter().for_each(|decision| print_decision("", decision, output));
    if guardians.is_empty() {
        output.line(format_args!("  {WARN}unguarded{WARN:#}: no guardian is configured"));
    }
    for guardian in guardians.iter().filter(|guardian| guardian.can_fail_open()) {
        let (name, fail) = (sanitize(&guardian.guardian), guardian.describe_fail_mode());
        output.line(format_args!(
            "  {WARN}fail open{WARN:#}: steps pass when the guardian does not respond \
             {DIM}({name}: {fail}){DIM:#}"
        ));
    }
}

fn print_step_change(step: &str, change: StepChange<'_>, output: &mut CommandOutput) {
    let at = format!("  {}", indent(step));
    match change {
        StepChange::Started { kind, .. } => {
            output.line(format_args!("{at}{BOLD}{step}{BOLD:#} {DIM}{kind}{DIM:#}"));
        }
        StepChange::Resolved(resolution) => {
            let decided = match resolution {
                StepResolution::Repeat => "is repeated",
                StepResolution::Skip => "counts as finished, without outputs",
                StepResolution::Set => "counts as finished, with the given outputs",
            };
            output.line(format_args!("{at}{BOLD}{step}{BOLD:#} {WARN}{decided}{WARN:#}"));
        }
        StepChange::Skipped(reason) => {
            output.line(format_args!("{at}{DIM}{step} skipped: {reason}{DIM:#}"));
        }
        StepChange::BranchTaken(value) => {
            output.line(format_args!("{at}  condition is {BOLD}{value}{BOLD:#}"));
        }
        StepChange::ItemsTaken(items) => {
            output.line(format_args!("{at}  {DIM}for each of {items}{DIM:#}"));
        }
        StepChange::Decided { decision, .. } => print_decision(step, decision, output),
        StepChange::Warned(warning) => {
            output.line(format_args!("{at}  {}", warning_text(warning)));
        }
        StepChange::Finished { outputs, .. } => {
            for (name, value) in outputs {
                let value = format_value(value);
                output.line(format_args!("{at}  {GOOD}✓{GOOD:#} {name} = {value}"));
            }
        }
        StepChange::Failed { error, .. } => {
            output.line(format_args!("{at}  {BAD}✗ {}{BAD:#} {}", error.code, error.message));
        }
        StepChange::ErrorHandled(handler) => {
            let goes_on = match handler {
                ErrorHandlerKind::Continue => "continues without it",
                ErrorHandlerKind::Catch => "caught, continues",
            };
            output.line(format_args!("{at}  {WARN}{goes_on}{WARN:#}"));
        }
        StepChange::ApprovalRequested { about, id, expires_at, .. } => {
            output.line(format_args!(
                "{at}  {WARN}waits for approval{}{WARN:#}: {}",
                about.describe(),
                approve_command(id, expires_at)
            ));
        }
    }
}

/// Returns the text about a request, without indentation.
fn request_text(change: RequestChange<'_>) -> String {
    match change {
        RequestChange::Requesting { purpose, method, url } => {
            let purpose = match purpose {
                RequestPurpose::Token => "for a token",
                RequestPurpose::Session => "for a session",
            };
            format!("{DIM}→ {method} {url} {purpose}{DIM:#}")
        }
        RequestChange::Sending(request) => {
            let SentRequest { method, url, upstream, .. } = request;
            let elsewhere = upstream.map_or_else(String::new, |to| format!(" via {to}"));
            format!("→ {method} {url}{DIM}{elsewhere}{}{DIM:#}", request.repetition())
        }
        RequestChange::Throttled { host, reason, wait_ms } => {
            let time = wait_ms.map_or_else(String::new, |time| format!(" {time} ms"));
            let why = match reason {
                WaitReason::Concurrency => "until another request has ended",
                WaitReason::Rate => "because of the rate limit",
                WaitReason::RetryAfter => "because the service requested it (Retry-After)",
            };
            format!("{DIM}waits{time} for {host}, {why}{DIM:#}")
        }
        RequestChange::TokenRequested { host, scheme, renewed, duration_ms, failure } => {
            let what = if renewed { "a new token" } else { "a token" };
            match failure {
                None => format!("{DIM}{what} for {scheme} from {host} in {duration_ms} ms{DIM:#}"),
                Some(StepWarning { code, message }) => {
                    format!("{WARN}no token for {scheme} from {host}: {code}{WARN:#} {message}")
                }
            }
        }
        RequestChange::SessionOpened { host, revision, duration_ms, failure } => match failure {
            None => {
                let revision = sanitize(revision.unwrap_or_default());
                format!("{DIM}session with {host} (MCP {revision}) in {duration_ms} ms{DIM:#}")
            }
            Some(StepWarning { code, message }) => {
                format!("{WARN}no session with {host}: {code}{WARN:#} {message}")
            }
        },
        RequestChange::Received { status, bytes, duration_ms } => {
            format!("← {status} {DIM}{bytes} bytes in {duration_ms} ms{DIM:#}")
        }
        RequestChange::Retrying { reason, pause_ms, .. } => retry_text(reason, pause_ms),
    }
}

/// Returns the text about a problem that does not stop a step.
pub(crate) fn warning_text(warning: &StepWarning) -> String {
    format!("{WARN}! {}{WARN:#} {}", warning.code, sanitize(&warning.message))
}

/// Returns the text about an attempt that another one follows.
pub(crate) fn retry_text(reason: &str, pause_ms: u64) -> String {
    format!("{WARN}again in {pause_ms} ms{WARN:#}: {}", sanitize(reason))
}

/// Returns the style in which the decision of a guardian is shown.
pub(crate) fn decision_style(decision: &str) -> Style {
    match decision {
        "allow" => GOOD,
        "deny" => BAD,
        _ => WARN,
    }
}

/// Returns the command that approves the request, with the time until which it works.
pub(crate) fn approve_command(id: &str, expires_at: Option<jiff::Timestamp>) -> String {
    let until = expires_at.map_or_else(String::new, |at| format!(", until {at:.0}"));
    format!("`a2s guardian approve {}`{until}", sanitize(id))
}

/// Prints the result of a run.
pub(crate) fn print_result(run: &Run, output: &mut CommandOutput) {
    let (style, word) = match run.status {
        RunStatus::Succeeded => (GOOD, "succeeded"),
        RunStatus::Failed => (BAD, "failed"),
        RunStatus::Denied => (BAD, "denied"),
        RunStatus::Cancelled => (WARN, "cancelled"),
        RunStatus::Waiting => (WARN, "waiting"),
        RunStatus::Queued => (WARN, "queued"),
        RunStatus::Running => (WARN, "running"),
    };
    let took = run.finished_at.map_or_else(String::new, |end| {
        format!("in {} ms", end.duration_since(run.started_at).as_millis())
    });
    output.line(format_args!("{style}{word}{style:#} {DIM}{took}  {}{DIM:#}", run.id));
    if let Some(result) = &run.output {
        match serde_json::to_string_pretty(result) {
            Ok(text) => text.lines().for_each(|line| output.line(format_args!("  {line}"))),
            Err(_) => output.line(format_args!("  {result}")),
        }
    }
    if let Some(error) = &run.error {
        print_error(error, output);
    }
}

fn print_error(error: &RunError, output: &mut CommandOutput) {
    let step = error.step.as_ref().map_or_else(String::new, |step| format!("{step}: "));
    output.line(format_args!("  {BAD}{}{BAD:#} {step}{}", error.code, error.message));
    output.line(format_args!("  {DIM}help:{DIM:#} {}", error.hint));
    let again = if error.repeat_safe {
        "Running it again is safe."
    } else {
        "The run may have changed something already; check this before you run it again."
    };
    output.line(format_args!("  {DIM}{again}{DIM:#}"));
}

fn print_decision(step: &str, decision: &DecisionRecord, output: &mut CommandOutput) {
    let when = match decision.phase {
        GuardianPhase::Request => "before",
        GuardianPhase::Result => "after ",
        GuardianPhase::Trigger => "event ",
        GuardianPhase::Memory => "memory",
        GuardianPhase::McpOutbound => "MCP out",
        GuardianPhase::McpInbound => "MCP in ",
    };
    print_verdict(&format!("  {}", indent(step)), &format!("guardian {when}"), decision, output);
}

/// Prints the decision of a guardian, after its name and phase.
pub(super) fn print_verdict(
    indent: &str,
    who: &str,
    decision: &DecisionRecord,
    output: &mut CommandOutput,
) {
    let style = decision_style(&decision.decision);
    let source = match decision.source {
        DecisionSource::Guardian | DecisionSource::Unguarded => "",
        DecisionSource::FailedClosed => " (no usable response, failed closed)",
        DecisionSource::FailedOpen => " (no usable response, failed open)",
    };
    // The one of the same process is the guardian where nothing else is said.
    let name = decision.guardian.as_deref().filter(|name| *name != "builtin");
    let name = name.map_or_else(String::new, |name| format!(" by {}", sanitize(name)));
    let message =
        if decision.message.is_empty() { String::new() } else { format!(": {}", decision.message) };
    output.line(format_args!(
        "{indent}  {DIM}{who}{DIM:#} {style}{}{style:#}{name}{source}{DIM}{message}{DIM:#}",
        decision.decision
    ));
    for change in &decision.changes {
        output.line(format_args!(
            "{indent}    {} {DIM}was{DIM:#} {} {DIM}is{DIM:#} {}",
            change.name,
            format_value(&change.from),
            format_value(&change.to)
        ));
    }
}

/// Returns two spaces for each level of steps.
fn indent(step: &str) -> String {
    "  ".repeat(step.matches('/').count())
}

/// Formats a value on one line with a limited length. Control characters, which could affect the terminal,
/// stay escaped as in JSON.
pub(crate) fn format_value(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_SHOWN {
        return text;
    }
    text.chars().take(MAX_SHOWN - 1).chain(['…']).collect()
}
