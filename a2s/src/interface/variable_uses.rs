//! The uses of a capability's inputs: the places of tasks where they end up.

use std::collections::BTreeMap;

use crate::document::{OnError, Step, StepBlock, TaskStep};
use serde_json::{Value, json};

use super::agreement::{intersect_schemas, put_definitions, take_definitions};
use super::schema::{SchemaDirection, SchemaWriter};
use super::sent::{content_schema, field_schema, form_schema, require_value, required_names};
use crate::task::InputLocation;
use crate::task::{
    BodyFormat, GraphqlTask, ParameterLocation, RequestBody, SchemaResolver, Task,
    VariableDefinition,
};
use crate::template::Template;
use crate::types::{InferredType, SchemaContext, TypeEnv, variable_schema};

/// The maximum number of uses of one name that are compared.
const MAX_USES: usize = 20;

/// The schemas of the locations to which each variable is sent as a complete value.
pub(super) struct VariableUses<'u, 'n> {
    names: &'u TypeEnv<'n>,
    writer: SchemaWriter<'n>,
    by_name: BTreeMap<&'n str, Vec<Value>>,
}

impl<'u, 'n> VariableUses<'u, 'n> {
    pub(super) fn new(names: &'u TypeEnv<'n>) -> Self {
        let mut uses = Self {
            names,
            writer: SchemaWriter::new(SchemaDirection::In),
            by_name: BTreeMap::new(),
        };
        uses.gather_block(&names.capability.execution);
        uses
    }

    /// The schema that all uses of a name agree on.
    pub(super) fn schema(&self, name: &str) -> Value {
        self.by_name.get(name).map_or(json!({}), |uses| intersect_schemas(uses))
    }

    fn gather_block(&mut self, block: &'n StepBlock) {
        for step in block.children() {
            self.gather(step);
        }
    }

    fn gather(&mut self, step: &'n Step) {
        if let Some(TaskStep { task, inputs, .. }) = step.action.as_task() {
            for (place, template) in inputs {
                self.gather_input(task, place, template);
            }
        }
        if let Some(block) = step.action.as_block() {
            self.gather_block(block);
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
                let mut items = items.map_or(json!({}), |uses| intersect_schemas(&uses));
                let definitions = take_definitions(&mut items);
                let mut list = json!({"type": "array", "items": items});
                put_definitions(&mut list, definitions);
                self.add(reference.variable(), list);
            }
        }
    }

    fn gather_input(&mut self, task: &'n Task, place: &InputLocation, template: &'n Template) {
        match (task, place) {
            (Task::OpenApi(task), InputLocation::Body) => {
                let Some(body) = &task.body else { return };
                let book = SchemaContext { schemas: (&**task).into(), budget: self.names.budget };
                self.gather_body(body, template, &InferredType::from_schema(&body.schema, book));
            }
            (Task::OpenApi(task), _) => {
                let parameter = task.parameters.iter().find(|p| p.is_at(place));
                let (Some(parameter), Some(name)) = (parameter, whole(template)) else { return };
                let book = SchemaContext { schemas: (&**task).into(), budget: self.names.budget };
                let mut schema =
                    self.writer.write(&InferredType::from_schema(&parameter.schema, book));
                if parameter.required {
                    require_value(&mut schema, parameter.content.is_none());
                }
                if parameter.location == ParameterLocation::Path && schema["type"] == "string" {
                    let least = schema["minLength"].as_u64().unwrap_or(0).max(1);
                    schema["minLength"] = json!(least);
                }
                if let (Value::Object(members), Some(text)) = (&mut schema, &parameter.description)
                    && text.len() <= 1_000
                {
                    members.entry("description").or_insert_with(|| json!(text));
                }
                self.add(name, schema);
            }
            (Task::Graphql(task), _) => {
                let mut variables = task.variables.iter();
                let variable =
                    variables.find(|v| InputLocation::Variable(v.name.clone()) == *place);
                if let (Some(variable), Some(name)) = (variable, whole(template)) {
                    let schema = self.variable_schema(task, variable);
                    self.add(name, schema);
                }
            }
            (Task::Mcp(task), InputLocation::Argument(name)) => {
                let Some(schema) = task.argument_schema(name) else { return };
                let book = SchemaContext { schemas: task.inputs(), budget: self.names.budget };
                self.gather_below(template, &InferredType::from_schema(schema, book));
            }
            (Task::Mcp(_), _) => {}
        }
    }

    /// Gathers the uses inside a body.
    fn gather_body(
        &mut self,
        body: &'n RequestBody,
        template: &'n Template,
        takes: &InferredType<'n>,
    ) {
        match (body.format, template) {
            (BodyFormat::Json, _) => match whole(template).filter(|_| body.required) {
                Some(name) => {
                    let mut schema = self.writer.write(takes);
                    require_value(&mut schema, false);
                    self.add(name, schema);
                }
                None => self.gather_below(template, takes),
            },
            (BodyFormat::Form | BodyFormat::Multipart, Template::Object(members)) => {
                let described = SchemaWriter::new(SchemaDirection::In).write(takes);
                let required = required_names(&described);
                for (name, member) in members {
                    let takes = takes.nested(name);
                    let Some(variable) = whole(member) else {
                        self.gather_below(member, &takes);
                        continue;
                    };
                    let schema = self.writer.write(&takes);
                    let field = body.fields.get(name);
                    let is_required = required.contains(name.as_str());
                    let schema = field_schema(schema, body.format, field, is_required);
                    self.add(variable, schema);
                }
            }
            (format, _) => {
                let Some(name) = whole(template) else { return };
                let schema = self.writer.write(takes);
                let schema = match format {
                    BodyFormat::Form | BodyFormat::Multipart => form_schema(schema, body),
                    _ => content_schema(schema, body),
                };
                self.add(name, schema);
            }
        }
    }

    /// The schema of a GraphQL variable's value, when it is given.
    fn variable_schema(
        &mut self,
        task: &'n GraphqlTask,
        variable: &'n VariableDefinition,
    ) -> Value {
        if !variable.schema.is_object() {
            return variable_schema(&variable.kind);
        }
        let schemas = SchemaResolver::Definitions(&task.definitions);
        let book = SchemaContext { schemas, budget: self.names.budget };
        let mut schema = self.writer.write(&InferredType::from_schema(&variable.schema, book));
        require_value(&mut schema, false);
        prefer_lists(&mut schema);
        schema
    }

    /// Gathers the uses inside a body or an argument, or inside a part of it that accepts values of this
    /// type.
    fn gather_below(&mut self, template: &'n Template, takes: &InferredType<'n>) {
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
                    self.gather_below(member, &takes.nested(name));
                }
            }
            Template::Array(items) => {
                let takes = takes.item_type();
                items.iter().for_each(|item| self.gather_below(item, &takes));
            }
            Template::Literal(_) | Template::Text(_) => {}
        }
    }

    fn add(&mut self, name: &'n str, mut schema: Value) {
        let uses = self.by_name.entry(name).or_default();
        if let Value::Object(members) = &mut schema {
            // The default of a service is not a default of the capability.
            members.shift_remove("default");
        }
        if uses.len() < MAX_USES && !uses.contains(&schema) {
            uses.push(schema);
        }
    }
}

/// The variable of a template that is exactly one variable.
fn whole(template: &Template) -> Option<&str> {
    match template {
        Template::Reference(reference) if reference.is_plain() => Some(reference.variable()),
        _ => None,
    }
}

/// Shows only the list where a service also accepts one item in place of a list (GraphQL, "Input Coercion"
/// of lists).
fn prefer_lists(schema: &mut Value) {
    if let Some([list, alone]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
        && list.get("items").is_some_and(|items| items == alone || is_or_null(items, alone))
    {
        *schema = list.clone();
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(prefer_lists),
        Value::Array(items) => items.iter_mut().for_each(prefer_lists),
        _ => {}
    }
}

/// Returns true when a schema equals the other once null is excluded.
fn is_or_null(schema: &Value, other: &Value) -> bool {
    let mut schema = schema.clone();
    require_value(&mut schema, false);
    schema == *other
}
