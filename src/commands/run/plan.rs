//! A plan as a person reads it.

use a2s::api::{PlanAnswer, PlannedStep, PlannedStepKind};

use crate::output::{BOLD, DIM, NAME, Output, WARN};

/// Prints what a run would do.
pub(crate) fn print_plan(plan: &PlanAnswer, output: &mut Output) {
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
    print_steps(&plan.steps, 1, output);
    for (host, upstream) in &plan.hosts {
        let elsewhere = upstream.as_ref().map_or_else(String::new, |to| format!(" via {to}"));
        output.line(format_args!("  talks to {host}{DIM}{elsewhere}{DIM:#}"));
    }
    output
        .line(format_args!("  guardian {}, fails {}", plan.guarding.guardian, plan.guarding.fail));
    if !plan.missing.is_empty() {
        output.line(format_args!("  {WARN}still needed{WARN:#}: {}", plan.missing.join(", ")));
    }
}

fn print_steps(steps: &[PlannedStep], depth: usize, output: &mut Output) {
    let indent = "  ".repeat(depth);
    for step in steps {
        let name = &step.step;
        match &step.kind {
            PlannedStepKind::Task { format, method, url, inputs } => {
                output.line(format_args!(
                    "{indent}{BOLD}{name}{BOLD:#} {DIM}{format}{DIM:#} {method} {url}"
                ));
                for (place, value) in inputs {
                    output.line(format_args!("{indent}  {place} = {value}"));
                }
            }
            PlannedStepKind::Capability { capability, inputs, steps } => {
                output.line(format_args!(
                    "{indent}{BOLD}{name}{BOLD:#} {DIM}capability{DIM:#} {}",
                    capability.name
                ));
                for (name, value) in inputs {
                    output.line(format_args!("{indent}  {name} = {value}"));
                }
                print_steps(steps, depth + 1, output);
            }
            PlannedStepKind::Sequence { steps } => {
                output.line(format_args!("{indent}{BOLD}{name}{BOLD:#} {DIM}sequence{DIM:#}"));
                print_steps(steps, depth + 1, output);
            }
            PlannedStepKind::Parallel { steps } => {
                output.line(format_args!("{indent}{BOLD}{name}{BOLD:#} {DIM}parallel{DIM:#}"));
                print_steps(steps, depth + 1, output);
            }
            PlannedStepKind::Condition { condition, if_true, if_false } => {
                output
                    .line(format_args!("{indent}{BOLD}{name}{BOLD:#} {DIM}if{DIM:#} {condition}"));
                print_steps(if_true, depth + 1, output);
                if !if_false.is_empty() {
                    output.line(format_args!("{indent}{DIM}else{DIM:#}"));
                    print_steps(if_false, depth + 1, output);
                }
            }
        }
    }
}
