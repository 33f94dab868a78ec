//! A run as a person watches it: one line for each thing that happens.

use a2s_api::{
    DecisionRecord, DecisionSource, ErrorHandlerKind, EventKind, GuardianPhase, RequestPurpose,
    Run, RunError, RunEvent, RunStarted, RunStatus, StepResolution, StepWarning, TriggerEvent,
    WaitReason,
};
use serde_json::Value;

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
        let kind = &event.kind;
        if let Some(step) = kind.step().filter(|_| is_shown(kind)) {
            if self.current.as_deref() != Some(step) && !names_its_step(kind) {
                output.line(format_args!("  {}{BOLD}{step}{BOLD:#} {DIM}…{DIM:#}", indent(step)));
            }
            self.current = Some(step.to_owned());
        }
        print_event(event, output);
    }
}

/// Returns true when an event is shown at all.
fn is_shown(kind: &EventKind) -> bool {
    !matches!(kind, EventKind::StepFinished { outputs, .. } if outputs.is_empty())
}

/// Returns true when the line of an event names its step.
fn names_its_step(kind: &EventKind) -> bool {
    use EventKind::{StepResolved, StepSkipped, StepStarted};
    matches!(kind, StepStarted { .. } | StepSkipped { .. } | StepResolved { .. })
}

/// Prints one event.
pub(crate) fn print_event(event: &RunEvent, output: &mut CommandOutput) {
    match &event.kind {
        EventKind::RunStarted(started) => {
            let RunStarted {
                capability,
                guardians: guarding,
                notices,
                inputs,
                recalled,
                trigger,
                decisions,
                ..
            } = &**started;
            let id = event.run;
            output.line(format_args!(
                "{BOLD}run{BOLD:#} {NAME}{}{NAME:#} {}  {DIM}{id}{DIM:#}",
                capability.name, capability.version
            ));
            for notice in notices {
                output.line(format_args!(
                    "  {WARN}warning{WARN:#}: {}",
                    sanitize(&notice.to_string())
                ));
            }
            if let Some(TriggerEvent { kind, id }) = trigger.as_deref() {
                output.line(format_args!("  started by {kind} {id}"));
            }
            for (name, scope) in recalled {
                let value = inputs.get(name).map(format_value).unwrap_or_default();
                output.line(format_args!(
                    "  {name} = {value} {DIM}({} state){DIM:#}",
                    scope.as_str()
                ));
            }
            decisions.iter().for_each(|decision| print_decision("", decision, output));
            if guarding.is_empty() {
                output.line(format_args!("  {WARN}unguarded{WARN:#}: no guardian is configured"));
            }
            for guarding in guarding.iter().filter(|guarding| guarding.can_fail_open()) {
                let (name, fail) = (sanitize(&guarding.guardian), guarding.describe_fail_mode());
                output.line(format_args!(
                    "  {WARN}fail open{WARN:#}: steps pass when the guardian does not respond \
                     {DIM}({name}: {fail}){DIM:#}"
                ));
            }
        }
        EventKind::RunQueued {} => {
            output.line(format_args!("  {WARN}queued{WARN:#}, waits for a free slot"));
        }
        EventKind::RunResumed {} => output.line(format_args!("  {WARN}resumed{WARN:#}")),
        EventKind::StepResolved { step, decision, .. } => {
            let decided = match decision {
                StepResolution::Repeat => "is repeated",
                StepResolution::Skip => "counts as finished, without outputs",
                StepResolution::Set => "counts as finished, with the given outputs",
            };
            output.line(format_args!(
                "  {}{BOLD}{step}{BOLD:#} {WARN}{decided}{WARN:#}",
                indent(step)
            ));
        }
        EventKind::StepStarted { step, kind, .. } => {
            output.line(format_args!("  {}{BOLD}{step}{BOLD:#} {DIM}{kind}{DIM:#}", indent(step)));
        }
        EventKind::BranchTaken { step, value } => {
            output.line(format_args!("  {}  condition is {BOLD}{value}{BOLD:#}", indent(step)));
        }
        EventKind::ItemsTaken { step, items } => {
            output.line(format_args!("  {}  {DIM}for each of {items}{DIM:#}", indent(step)));
        }
        EventKind::Decided { step, decision, .. } => print_decision(step, decision, output),
        EventKind::Requesting { step, purpose, method, url, .. } => {
            let purpose = match purpose {
                RequestPurpose::Token => "for a token",
                RequestPurpose::Session => "for a session",
            };
            output.line(format_args!("  {}  {DIM}→ {method} {url} {purpose}{DIM:#}", indent(step)));
        }
        EventKind::Sending { step, method, url, upstream, redirect: Some(number), .. } => {
            let elsewhere = upstream.as_ref().map_or_else(String::new, |to| format!(" via {to}"));
            output.line(format_args!(
                "  {}  → {method} {url}{DIM}{elsewhere} (redirect {number}){DIM:#}",
                indent(step)
            ));
        }
        EventKind::Sending { step, attempt, method, url, upstream, .. } => {
            let again = if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
            let elsewhere = upstream.as_ref().map_or_else(String::new, |to| format!(" via {to}"));
            output.line(format_args!(
                "  {}  → {method} {url}{DIM}{elsewhere}{again}{DIM:#}",
                indent(step)
            ));
        }
        EventKind::Throttled { step, host, reason, wait_ms } => {
            let time = wait_ms.map_or_else(String::new, |time| format!(" {time} ms"));
            let why = match reason {
                WaitReason::Concurrency => "until another request has ended",
                WaitReason::Rate => "because of the rate limit",
                WaitReason::RetryAfter => "because the service requested it (Retry-After)",
            };
            output.line(format_args!(
                "  {}  {DIM}waits{time} for {host}, {why}{DIM:#}",
                indent(step)
            ));
        }
        EventKind::TokenRequested { step, host, scheme, renewed, duration_ms, failure, .. } => {
            let what = if *renewed { "a new token" } else { "a token" };
            match failure {
                None => output.line(format_args!(
                    "  {}  {DIM}{what} for {scheme} from {host} in {duration_ms} ms{DIM:#}",
                    indent(step)
                )),
                Some(StepWarning { code, message }) => output.line(format_args!(
                    "  {}  {WARN}no token for {scheme} from {host}: {code}{WARN:#} {message}",
                    indent(step)
                )),
            }
        }
        EventKind::SessionOpened { step, host, revision, duration_ms, failure, .. } => {
            match failure {
                None => output.line(format_args!(
                    "  {}  {DIM}session with {host} (MCP {}) in {duration_ms} ms{DIM:#}",
                    indent(step),
                    sanitize(revision.as_deref().unwrap_or_default())
                )),
                Some(StepWarning { code, message }) => output.line(format_args!(
                    "  {}  {WARN}no session with {host}: {code}{WARN:#} {message}",
                    indent(step)
                )),
            }
        }
        EventKind::Received { step, status, bytes, duration_ms, .. } => {
            output.line(format_args!(
                "  {}  ← {status} {DIM}{bytes} bytes in {duration_ms} ms{DIM:#}",
                indent(step)
            ));
        }
        EventKind::Warned { step, warning } => {
            output.line(format_args!(
                "  {}  {WARN}! {}{WARN:#} {}",
                indent(step),
                warning.code,
                warning.message
            ));
        }
        EventKind::Retrying { step, reason, pause_ms, .. } => {
            output.line(format_args!(
                "  {}  {WARN}again in {pause_ms} ms{WARN:#}: {reason}",
                indent(step)
            ));
        }
        EventKind::StepFinished { step, outputs, .. } => {
            for (name, value) in outputs {
                output.line(format_args!(
                    "  {}  {GOOD}✓{GOOD:#} {name} = {}",
                    indent(step),
                    format_value(value)
                ));
            }
        }
        EventKind::StepSkipped { step, reason } => {
            output.line(format_args!("  {}{DIM}{step} skipped: {reason}{DIM:#}", indent(step)));
        }
        EventKind::StepFailed { step, error, .. } => {
            output.line(format_args!(
                "  {}  {BAD}✗ {}{BAD:#} {}",
                indent(step),
                error.code,
                error.message
            ));
        }
        EventKind::ErrorHandled { step, handler: by } => {
            let goes_on = match by {
                ErrorHandlerKind::Continue => "continues without it",
                ErrorHandlerKind::Catch => "caught, continues",
            };
            output.line(format_args!("  {}  {WARN}{goes_on}{WARN:#}", indent(step)));
        }
        EventKind::ApprovalRequested { step, about, id, expires_at, .. } => {
            output.line(format_args!(
                "  {}  {WARN}waits for approval{}{WARN:#}: {}",
                indent(step),
                about.describe(),
                approve_command(id, *expires_at)
            ));
        }
        EventKind::RunWaiting { .. } | EventKind::RunFinished { .. } => {}
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
    let style = match &*decision.decision {
        "allow" => GOOD,
        "deny" => BAD,
        _ => WARN,
    };
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
