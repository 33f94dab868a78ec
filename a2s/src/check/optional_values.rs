//! Optional parameters without a default: where they are read, there may be no value.

use crate::document::{Action, Capability, Parameter, Step};
use crate::error_code;
use crate::field_reader::Findings;
use crate::task::Place;
use crate::task::Task;
use crate::template::{Reference, Template};

/// How a value that may be absent is used at one place.
enum Use<'t> {
    /// It is the whole value of an input that the task cannot do without.
    Needed(&'t Reference, &'t Place),
    /// It stands inside a text, where it would be `null`.
    InText(&'t Reference),
    /// A part of it is read, and there would be none.
    Part(&'t Reference),
}

/// The parameter that `reference` reads, when it may have no value.
fn absent<'c>(capability: &'c Capability, reference: &Reference) -> Option<&'c Parameter> {
    let parameter = capability.parameter(reference.variable())?;
    (!parameter.required && parameter.default.is_none()).then_some(parameter)
}

/// Reports the inputs of a task or capability step that cannot be without a value. `is_set` tells
/// whether a step has surely set a name; `site` finds the place of a reference.
pub(super) fn check_absent(
    capability: &Capability,
    step: &Step,
    is_set: &dyn Fn(&str) -> bool,
    site: &dyn Fn(&Reference) -> crate::field_reader::Site,
    findings: &mut Findings,
) {
    let mut uses = Vec::new();
    match &step.action {
        Action::Task { task, inputs, .. } => {
            for (place, template) in inputs {
                match template {
                    Template::Reference(reference)
                        if is_needed(task, place) && reference.is_plain() =>
                    {
                        uses.push(Use::Needed(reference, place));
                    }
                    other => gather(other, &mut uses),
                }
            }
        }
        Action::Capability { inputs, .. } => {
            inputs.values().for_each(|template| gather(template, &mut uses));
        }
        Action::Block(_) => {}
    }
    for found in uses {
        let (Use::Needed(reference, _) | Use::InText(reference) | Use::Part(reference)) = found;
        let Some(parameter) = absent(capability, reference) else { continue };
        let name = &parameter.name;
        if is_set(name) {
            continue;
        }
        let crate::field_reader::Site { path, position } = site(reference);
        let code = error_code::ABSENT_INPUT;
        match found {
            Use::Needed(_, place) => {
                let message = format!("`{place}` is required, and `{name}` is optional");
                findings.error(code, &path, position, message);
            }
            Use::InText(_) => {
                let message = format!("`{name}` is optional; without a value the text says `null`");
                findings.warning(code, &path, position, message);
            }
            Use::Part(_) => {
                let message = format!("`{name}` is optional; without a value the step fails here");
                findings.warning(code, &path, position, message);
            }
        }
    }
}

fn gather<'t>(template: &'t Template, uses: &mut Vec<Use<'t>>) {
    match template {
        Template::Literal(_) => {}
        Template::Reference(reference) if reference.is_plain() => {}
        Template::Reference(reference) => uses.push(Use::Part(reference)),
        Template::Text(_) => uses.extend(template.references().into_iter().map(Use::InText)),
        Template::Array(items) => items.iter().for_each(|item| gather(item, uses)),
        Template::Object(members) => members.values().for_each(|member| gather(member, uses)),
    }
}

fn is_needed(task: &Task, place: &Place) -> bool {
    match task {
        Task::OpenApi(operation) => match place {
            Place::Body => operation.body.as_ref().is_some_and(|body| body.required),
            _ => operation.parameters.iter().any(|p| p.required && p.is_at(place)),
        },
        Task::Graphql(operation) => operation
            .variables
            .iter()
            .any(|v| v.required && Place::Variable(v.name.clone()) == *place),
        Task::Mcp(tool) => tool.required().any(|name| Place::Argument(name.to_owned()) == *place),
    }
}
