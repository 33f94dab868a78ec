//! Optional parameters without a default: where they are read, there may be no value.

use crate::diagnostic::SourceLocation;
use crate::document::{Capability, Parameter, Step, TaskStep};
use crate::error_code;
use crate::field_reader::DiagnosticSink;
use crate::task::InputLocation;
use crate::task::Task;
use crate::template::{Template, VariableReference};

/// The use of a value that may be absent, at one location.
enum OptionalUse<'t> {
    /// The value is a whole input, which the task requires.
    Needed(&'t VariableReference, &'t InputLocation),
    /// The value is inside a text, where it would become `null`.
    InText(&'t VariableReference),
    /// A part of the value is read, but the part would not exist.
    Part(&'t VariableReference),
}

/// Returns the parameter that `reference` reads, if it may have no value.
fn find_optional_parameter<'c>(
    capability: &'c Capability,
    reference: &VariableReference,
) -> Option<&'c Parameter> {
    let parameter = capability.parameter(reference.variable())?;
    (!parameter.required && parameter.default.is_none()).then_some(parameter)
}

/// Reports the inputs of a task or capability step that need a value and may have none. `is_set` returns
/// true when a step has surely set a name; `site` finds the location of a reference.
pub(super) fn check_absent(
    capability: &Capability,
    step: &Step,
    is_set: &dyn Fn(&str) -> bool,
    site: &dyn Fn(&VariableReference) -> SourceLocation,
    findings: &mut DiagnosticSink,
) {
    let mut uses = Vec::new();
    if let Some(TaskStep { task, inputs, .. }) = step.action.as_task() {
        for (place, template) in inputs {
            match template {
                Template::Reference(reference)
                    if is_needed(task, place) && reference.is_plain() =>
                {
                    uses.push(OptionalUse::Needed(reference, place));
                }
                other => gather(other, &mut uses),
            }
        }
    } else {
        step.action.input_templates().into_iter().for_each(|template| gather(template, &mut uses));
    }
    for found in uses {
        let (OptionalUse::Needed(reference, _)
        | OptionalUse::InText(reference)
        | OptionalUse::Part(reference)) = found;
        let Some(parameter) = find_optional_parameter(capability, reference) else { continue };
        let name = &parameter.name;
        if is_set(name) {
            continue;
        }
        let location = site(reference);
        let code = error_code::ABSENT_INPUT;
        match found {
            OptionalUse::Needed(_, place) => {
                let message = format!("`{place}` requires a value, but `{name}` is optional");
                findings.error(code, location, message);
            }
            OptionalUse::InText(_) => {
                let message =
                    format!("`{name}` is optional; without a value, the text contains `null`");
                findings.warning(code, location, message);
            }
            OptionalUse::Part(_) => {
                let message = format!("`{name}` is optional; without a value, the step fails here");
                findings.warning(code, location, message);
            }
        }
    }
}

fn gather<'t>(template: &'t Template, uses: &mut Vec<OptionalUse<'t>>) {
    match template {
        Template::Literal(_) => {}
        Template::Reference(reference) if reference.is_plain() => {}
        Template::Reference(reference) => uses.push(OptionalUse::Part(reference)),
        Template::Text(_) => {
            uses.extend(template.references().into_iter().map(OptionalUse::InText))
        }
        Template::Array(items) => items.iter().for_each(|item| gather(item, uses)),
        Template::Object(members) => members.values().for_each(|member| gather(member, uses)),
    }
}

fn is_needed(task: &Task, place: &InputLocation) -> bool {
    match task {
        Task::OpenApi(operation) => match place {
            InputLocation::Body => operation.body.as_ref().is_some_and(|body| body.required),
            _ => operation.parameters.iter().any(|p| p.required && p.is_at(place)),
        },
        Task::Graphql(operation) => operation
            .variables
            .iter()
            .any(|v| v.required && InputLocation::Variable(v.name.clone()) == *place),
        Task::Mcp(tool) => {
            tool.required().any(|name| InputLocation::Argument(name.to_owned()) == *place)
        }
    }
}
