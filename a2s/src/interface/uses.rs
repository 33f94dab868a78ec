//! What the inputs of a capability are used for: the places of tasks where they end up.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keyword::ANNOTATIONS;
use super::schema::{Direction, Writer};
use crate::document::{Action, Block, OnError, Place, Step};
use crate::task::Task;
use crate::template::Template;
use crate::types::{Book, Names, Type, variable_schema};

/// The most uses of one name that are compared.
const MAX_USES: usize = 20;

/// The schemas of the places where each variable ends up as a whole.
pub(super) struct Uses<'u, 'n> {
    names: &'u Names<'n>,
    writer: Writer,
    by_name: BTreeMap<&'n str, Vec<Value>>,
}

impl<'u, 'n> Uses<'u, 'n> {
    pub(super) fn of(names: &'u Names<'n>) -> Self {
        let mut uses = Self { names, writer: Writer::new(Direction::In), by_name: BTreeMap::new() };
        uses.gather_block(&names.capability.execution);
        uses
    }

    /// What all uses of a name agree on.
    pub(super) fn schema(&self, name: &str) -> Value {
        self.by_name.get(name).map_or(json!({}), |uses| agree(uses))
    }

    fn gather_block(&mut self, block: &'n Block) {
        for step in block.children() {
            self.gather(step);
        }
    }

    fn gather(&mut self, step: &'n Step) {
        match &step.action {
            Action::Task { task, inputs, .. } => {
                for (place, template) in inputs {
                    self.gather_input(task, place, template);
                }
            }
            Action::Capability { .. } => {}
            Action::Block(block) => self.gather_block(block),
        }
        if let OnError::Catch { steps, .. } = &step.control.on_error {
            steps.iter().for_each(|step| self.gather(step));
        }
        if let Some(for_each) = &step.control.for_each {
            // The list holds what its items are used for.
            let items = self.by_name.remove(for_each.name.as_str());
            if let Template::Reference(reference) = &for_each.items
                && reference.is_plain()
            {
                let items = items.map_or(json!({}), |uses| agree(&uses));
                self.add(reference.variable(), json!({"type": "array", "items": items}));
            }
        }
    }

    fn gather_input(&mut self, task: &'n Task, place: &Place, template: &'n Template) {
        match (task, place) {
            (Task::OpenApi(task), Place::Body) => {
                let Some(schema) = task.body.as_ref().and_then(|body| body.value_schema()) else {
                    return;
                };
                let book = Book { schemas: (&**task).into(), fuel: self.names.fuel };
                self.gather_below(template, &Type::of_schema(schema, book));
            }
            (Task::OpenApi(task), _) => {
                let parameter = task.parameters.iter().find(|p| p.is_at(place));
                let (Some(parameter), Some(name)) = (parameter, whole(template)) else { return };
                let book = Book { schemas: (&**task).into(), fuel: self.names.fuel };
                let mut schema = self.writer.write(&Type::of_schema(&parameter.schema, book));
                if let (Value::Object(members), Some(text)) = (&mut schema, &parameter.description)
                    && text.len() <= 1_000
                {
                    members.entry("description").or_insert_with(|| json!(text));
                }
                self.add(name, schema);
            }
            (Task::Graphql(task), _) => {
                let mut variables = task.variables.iter();
                let variable = variables.find(|v| Place::Variable(v.name.clone()) == *place);
                if let (Some(variable), Some(name)) = (variable, whole(template)) {
                    self.add(name, variable_schema(&variable.kind));
                }
            }
            (Task::Mcp(task), Place::Argument(name)) => {
                let Some(schema) = task.argument_schema(name) else { return };
                let book = Book { schemas: task.inputs(), fuel: self.names.fuel };
                self.gather_below(template, &Type::of_schema(schema, book));
            }
            (Task::Mcp(_), _) => {}
        }
    }

    /// Gathers the uses inside a body or an argument, or a part of it that takes values of this
    /// type.
    fn gather_below(&mut self, template: &'n Template, takes: &Type<'n>) {
        if takes.is_unknown() {
            return;
        }
        match template {
            Template::Reference(_) => {
                if let Some(name) = whole(template) {
                    let schema = self.writer.write(takes);
                    self.add(name, schema);
                }
            }
            Template::Object(members) => {
                for (name, member) in members {
                    self.gather_below(member, &takes.below(name));
                }
            }
            Template::Array(items) => {
                let takes = takes.each();
                items.iter().for_each(|item| self.gather_below(item, &takes));
            }
            Template::Literal(_) | Template::Text(_) => {}
        }
    }

    fn add(&mut self, name: &'n str, mut schema: Value) {
        let uses = self.by_name.entry(name).or_default();
        if let Value::Object(members) = &mut schema {
            // What a service assumes when nothing is sent is no default of the capability.
            members.shift_remove("default");
        }
        if uses.len() < MAX_USES && !uses.contains(&schema) {
            uses.push(schema);
        }
    }
}

/// The variable that a template is, and nothing else.
fn whole(template: &Template) -> Option<&str> {
    match template {
        Template::Reference(reference) if reference.is_plain() => Some(reference.variable()),
        _ => None,
    }
}

/// What several schemas agree on: the whole of one if they differ in words only, else the type.
fn agree(uses: &[Value]) -> Value {
    let said: Vec<&Value> = uses.iter().filter(|schema| **schema != json!({})).collect();
    let Some((first, rest)) = said.split_first() else { return json!({}) };
    let core = |schema: &Value| -> Map<String, Value> {
        let members = schema.as_object().cloned().unwrap_or_default();
        members.into_iter().filter(|(key, _)| !ANNOTATIONS.contains(&key.as_str())).collect()
    };
    if rest.iter().all(|other| core(other) == core(first)) {
        return (*first).clone();
    }
    match first.get("type") {
        Some(kind) if rest.iter().all(|other| other.get("type") == Some(kind)) => {
            json!({"type": kind})
        }
        _ => json!({}),
    }
}
