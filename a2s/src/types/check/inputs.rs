//! Inputs: what a step maps to a task may fit the place where it goes.

use serde_json::Value;

use super::mismatch_message::{Input, describe_misfit};
use super::{Checker, input_node};
use crate::document::{Step, TaskInputs};
use crate::task::Place;
use crate::task::{BodyFormat, OpenApiTask, Task};
use crate::template::Template;
use crate::tree::Node;
use crate::types::assignable::{Form, Misfit, Reason, misfits};
use crate::types::{Book, Kinds, Type, variable_type};

/// What a place of a task takes.
struct Target<'n> {
    takes: Type<'n>,
    form: Form,
    /// Whether null is no value there, and one is needed.
    needed: bool,
}

impl<'n> Checker<'n, '_> {
    /// Checks the inputs of a step with a task.
    pub(super) fn check_inputs(
        &mut self,
        step: &'n Step,
        task: &'n Task,
        inputs: &'n TaskInputs,
        node: &'n Node,
    ) {
        for (place, template) in inputs {
            let Some((path, node)) = placed_node(step, node, place) else { continue };
            self.check_reads(template, node, &path);
            let Some(target) = self.target(task, place) else { continue };
            let value = self.names.template(template, &self.scope);
            let mut found = misfits(&value, &target.takes, target.form);
            if target.needed && found.is_empty() && *template == Template::Literal(Value::Null) {
                let wanted = target.takes.kinds().without(Kinds::NULL);
                let reason = Reason::Kind { found: Kinds::NULL, wanted };
                found.push(Misfit { way: Vec::new(), reason, certain: true, hearsay: false });
            }
            let input = Input { place, template, node, path: &path, form: target.form };
            for misfit in found {
                let Some((finding, read)) = describe_misfit(&input, &misfit) else { continue };
                let sources = read.map_or_else(Vec::new, |read| self.sources(read.variable()));
                self.report(finding, sources);
            }
        }
    }

    /// What a place takes; none when it is not known.
    fn target(&self, task: &'n Task, place: &Place) -> Option<Target<'n>> {
        match (task, place) {
            (Task::OpenApi(task), Place::Body) => self.body_target(task),
            (Task::OpenApi(task), _) => {
                let book = Book { schemas: (&**task).into(), fuel: self.names.fuel };
                let parameter = task.parameters.iter().find(|p| p.is_at(place))?;
                let form = match &parameter.content {
                    None => Form::Text,
                    Some(media_type) if media_type.is_json() => Form::Json,
                    Some(_) => return None,
                };
                let takes = Type::of_schema(&parameter.schema, book);
                // Null is not sent.
                let takes = if parameter.required { takes } else { takes.or_null() };
                Some(Target { takes, form, needed: parameter.required })
            }
            (Task::Graphql(task), _) => {
                let mut variables = task.variables.iter();
                let variable = variables.find(|v| Place::Variable(v.name.clone()) == *place)?;
                let takes = variable_type(&variable.kind);
                Some(Target { takes, form: Form::Json, needed: false })
            }
            (Task::Mcp(task), Place::Argument(name)) => {
                let book = Book { schemas: task.inputs(), fuel: self.names.fuel };
                let takes = Type::of_schema(task.argument_schema(name)?, book);
                Some(Target { takes, form: Form::Json, needed: false })
            }
            (Task::Mcp(_), _) => None,
        }
    }

    fn body_target(&self, task: &'n OpenApiTask) -> Option<Target<'n>> {
        let body = task.body.as_ref()?;
        let form = match body.format {
            BodyFormat::Json => Form::Json,
            BodyFormat::Form | BodyFormat::Multipart => Form::Fields,
            BodyFormat::Text | BodyFormat::Other => return None,
        };
        let takes =
            Type::of_schema(&body.schema, Book { schemas: task.into(), fuel: self.names.fuel });
        // Null is not sent.
        let takes = if body.required { takes } else { takes.or_null() };
        Some(Target { takes, form, needed: body.required })
    }
}

/// Where the input of a place stands: below the mapping of its group, or beside the others.
fn placed_node<'n>(step: &Step, node: &'n Node, place: &Place) -> Option<(String, &'n Node)> {
    let (group, name) = match place {
        Place::Body => return input_node(step, node, None, "body"),
        Place::Path(name) => ("pathParameters", name),
        Place::Query(name) => ("queryParameters", name),
        Place::Header(name) => ("headerParameters", name),
        Place::Cookie(name) => ("cookieParameters", name),
        Place::Variable(name) => return input_node(step, node, Some("variables"), name),
        Place::Argument(name) => return input_node(step, node, Some("arguments"), name),
    };
    input_node(step, node, Some(group), name).or_else(|| input_node(step, node, None, name))
}
