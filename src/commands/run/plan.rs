//! A plan as a person reads it.

use a2s_api::{
    ErrorHandlerKind, PlanResponse, PlannedCredential, PlannedForEach, PlannedStep,
    PlannedStepKind, StepPreview,
};
use serde_json::{Map, Value};

use super::format_value;
use super::view::print_verdict;
use crate::output::{BOLD, CommandOutput, DIM, NAME, WARN, sanitize};

/// The maximum number of iterations that are shown separately.
const MAX_ITEMS: usize = 10;

/// Prints the plan of a run.
pub(crate) fn print_plan(plan: &PlanResponse, output: &mut CommandOutput) {
    let root = &plan.capability;
    output.line(format_args!(
        "{BOLD}plan{BOLD:#} {NAME}{}{NAME:#} {}  {DIM}{}{DIM:#}",
        root.name, root.version, root.checksum
    ));
    for pin in &plan.dependencies {
        output.line(format_args!(
            "  uses {NAME}{}{NAME:#} {}  {DIM}{}{DIM:#}",
            pin.name, pin.version, pin.checksum
        ));
    }
    for notice in &plan.notices {
        output.line(format_args!("  {WARN}warning{WARN:#}: {}", sanitize(&notice.to_string())));
    }
    print_steps(&plan.steps, 1, output);
    for (host, upstream) in &plan.hosts {
        let elsewhere = upstream.as_ref().map_or_else(String::new, |to| format!(" via {to}"));
        output.line(format_args!("  sends requests to {host}{DIM}{elsewhere}{DIM:#}"));
    }
    for credential in &plan.credentials {
        let PlannedCredential { host, scheme, hint, .. } = credential;
        match hint {
            None => {
                output.line(format_args!("  sends the credential {NAME}{scheme}{NAME:#} to {host}"))
            }
            Some(hint) => {
                output
                    .line(format_args!("  {WARN}lacks a credential{WARN:#}: {scheme} for {host}"));
                output.line(format_args!("    {hint}"));
            }
        }
    }
    if plan.guardians.is_empty() {
        output.line(format_args!("  guardian {WARN}off{WARN:#}"));
    }
    for guarding in &plan.guardians {
        let (name, fail) = (sanitize(&guarding.guardian), guarding.describe_fail_mode());
        let policy = plan.policies.get(&guarding.guardian);
        let policy = policy.map_or_else(String::new, |policy| format!("  policy {policy}"));
        let policy = sanitize(&policy);
        output.line(format_args!("  guardian {name}, fails {fail}{DIM}{policy}{DIM:#}"));
    }
    if !plan.permissions.is_empty() {
        let held: Vec<_> = plan.permissions.iter().map(ToString::to_string).collect();
        output.line(format_args!("  requires {}", held.join(", ")));
    }
    for (name, scope) in &plan.recalled {
        output.line(format_args!("  {name} is remembered {DIM}({} state){DIM:#}", scope.as_str()));
    }
    if !plan.missing.is_empty() {
        output.line(format_args!("  {WARN}still needed{WARN:#}: {}", plan.missing.join(", ")));
    }
    print_token(plan, output);
}

/// Prints the command that runs exactly this plan, or the reason why this is not possible.
fn print_token(plan: &PlanResponse, output: &mut CommandOutput) {
    if let Some(digest) = &plan.digest {
        output.line(format_args!("  {DIM}digest of the plan: {digest}{DIM:#}"));
    }
    if let Some((token, expires_at)) = plan.token.as_ref().zip(plan.expires_at) {
        let token = sanitize(token);
        output.line(format_args!("to run exactly this plan, once, until {expires_at:.0}:"));
        output.line(format_args!("  {BOLD}a2s run --plan {token}{BOLD:#}"));
    }
    if let Some(why) = &plan.no_token_reason {
        output.line(format_args!("{WARN}cannot be run as a plan{WARN:#}: {}", sanitize(why)));
    }
}

fn print_steps(steps: &[PlannedStep], depth: usize, output: &mut CommandOutput) {
    for step in steps {
        print_step(step, depth, output);
    }
}

fn print_step(step: &PlannedStep, depth: usize, output: &mut CommandOutput) {
    let indent = "  ".repeat(depth);
    let (name, notes) = (&step.step, describe_notes(step));
    let mut heading = |kind: &str, what: &str| {
        let space = if what.is_empty() { "" } else { " " };
        output.line(format_args!(
            "{indent}{BOLD}{name}{BOLD:#} {DIM}{kind}{DIM:#}{space}{}{DIM}{notes}{DIM:#}",
            sanitize(what)
        ));
    };
    match &step.kind {
        PlannedStepKind::Task { format, inputs, .. } => {
            heading(format, &step.kind.request_line().unwrap_or_default());
            print_inputs(inputs, &indent, output);
            if let Some(preview) = &step.preview {
                print_preview(preview, &indent, output);
            }
        }
        PlannedStepKind::Capability { capability, inputs, steps } => {
            heading("capability", capability.name.as_str());
            print_inputs(inputs, &indent, output);
            print_steps(steps, depth + 1, output);
        }
        PlannedStepKind::Sequence { steps } => {
            heading("sequence", "");
            print_steps(steps, depth + 1, output);
        }
        PlannedStepKind::Parallel { steps } => {
            heading("parallel", "");
            print_steps(steps, depth + 1, output);
        }
        PlannedStepKind::Condition { condition, if_true, if_false } => {
            heading("if", condition);
            print_steps(if_true, depth + 1, output);
            if !if_false.is_empty() {
                output.line(format_args!("{indent}{DIM}else{DIM:#}"));
                print_steps(if_false, depth + 1, output);
            }
        }
    }
    if !step.catch.is_empty() {
        output.line(format_args!("{indent}{DIM}on failure{DIM:#}"));
        print_steps(&step.catch, depth + 1, output);
    }
}

/// Prints the decisions of the guardian on a step before there is a run.
fn print_preview(preview: &StepPreview, indent: &str, output: &mut CommandOutput) {
    match preview {
        StepPreview::Decided { decisions } => {
            for decision in decisions {
                print_verdict(indent, "guardian would", decision, output);
            }
        }
        StepPreview::Unknown { needs } => output.line(format_args!(
            "{indent}  {DIM}guardian preview not possible yet, unknown: {}{DIM:#}",
            sanitize(&needs.join(", "))
        )),
        StepPreview::NotAsked { reason } => output.line(format_args!(
            "{indent}  {WARN}no guardian preview{WARN:#}: {}",
            sanitize(reason)
        )),
        StepPreview::Each { items } => {
            let allows = |preview: &StepPreview| match preview {
                StepPreview::Decided { decisions } => {
                    decisions.iter().all(|decision| decision.decision == "allow")
                }
                StepPreview::Unknown { .. }
                | StepPreview::NotAsked { .. }
                | StepPreview::Each { .. } => false,
            };
            let (allowed, others): (Vec<_>, Vec<_>) =
                items.iter().partition(|item| allows(&item.preview));
            if items.is_empty() {
                output.line(format_args!("{indent}  {DIM}no guardian preview, no items{DIM:#}"));
            }
            if !allowed.is_empty() {
                let (count, all) = (allowed.len(), items.len());
                output.line(format_args!("{indent}  guardian would allow {count} of {all}"));
            }
            for item in others.iter().take(MAX_ITEMS) {
                output.line(format_args!("{indent}  {}", sanitize(&item.step)));
                print_preview(&item.preview, &format!("{indent}  "), output);
            }
            if let Some(more @ 1..) = others.len().checked_sub(MAX_ITEMS) {
                output.line(format_args!("{indent}  {DIM}and {more} more{DIM:#}"));
            }
        }
    }
}

/// Describes the special settings of a step.
fn describe_notes(step: &PlannedStep) -> String {
    let mut notes = String::new();
    let mut note = |text: String| {
        notes.push_str("  ");
        notes.push_str(&text);
    };
    if let Some(PlannedForEach { items, name, max_items, max_concurrency }) = &step.for_each {
        let concurrency = if *max_concurrency > 1 {
            format!(", {max_concurrency} at a time")
        } else {
            String::new()
        };
        note(format!(
            "for each {name} of {}, at most {max_items}{concurrency}",
            format_value(items)
        ));
    }
    if let Some(most) = step.max_concurrency {
        note(format!("{most} at a time"));
    }
    if let Some(attempts) = step.max_attempts {
        note(format!("up to {attempts} attempts"));
    }
    if let Some(timeout) = step.timeout_ms {
        note(format!("within {timeout} ms"));
    }
    if step.on_error == Some(ErrorHandlerKind::Continue) {
        note("may fail".to_owned());
    }
    notes
}

fn print_inputs(inputs: &Map<String, Value>, indent: &str, output: &mut CommandOutput) {
    for (place, value) in inputs {
        output.line(format_args!("{indent}  {} = {}", sanitize(place), format_value(value)));
    }
}
