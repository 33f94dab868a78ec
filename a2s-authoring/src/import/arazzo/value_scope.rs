//! The values that a workflow knows: its inputs, and the outputs of its steps.

use std::collections::{BTreeMap, BTreeSet};

use a2s::ValueType;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::expression::{
    ExpressionPart, RuntimeExpression, is_expression, reference_path, split_expressions,
};
use crate::import::ImportWarning;
use crate::import::ref_resolver::{RefResolver, quote_for_message};
use crate::import::variable::{DocumentParameter, is_secret_name};
use crate::naming;

/// The values that are available to the steps of a workflow.
pub(super) struct WorkflowScope<'a> {
    source: RefResolver<'a>,
    /// The declared inputs, by name.
    declared: Option<&'a Map<String, Value>>,
    required: BTreeSet<&'a str>,
    /// The inputs that are used, by name: the parameters of the document.
    inputs: IndexMap<String, WorkflowInput>,
    steps: BTreeMap<String, StepOutputs>,
    pub(super) used_names: naming::UsedNames,
    pub(super) warnings: Vec<ImportWarning>,
    /// Set when all steps are read: values that are read from now on may be missing.
    all_steps_read: bool,
}

struct WorkflowInput {
    variable: DocumentParameter,
    /// Set when an operation has determined its type.
    type_is_known: bool,
}

/// The outputs of a step.
#[derive(Debug, Default)]
pub(super) struct StepOutputs {
    /// The text by which a reference reads each output, by name.
    pub(super) read: BTreeMap<String, String>,
    /// The types that are known, by name.
    pub(super) kinds: BTreeMap<String, ValueType>,
    /// The outputs that a later step reads.
    pub(super) needed: BTreeSet<String>,
    /// The outputs that are read anywhere.
    pub(super) used: BTreeSet<String>,
}

impl<'a> WorkflowScope<'a> {
    pub(super) fn new(source: RefResolver<'a>, workflow: &'a Value) -> Self {
        let schema = workflow.get("inputs").and_then(|inputs| source.resolve(inputs).ok());
        let demanded = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        Self {
            source,
            declared: schema.and_then(|s| s.get("properties")).and_then(Value::as_object),
            required: demanded.into_iter().flatten().filter_map(Value::as_str).collect(),
            inputs: IndexMap::new(),
            steps: BTreeMap::new(),
            used_names: naming::UsedNames::default(),
            warnings: Vec::new(),
            all_steps_read: false,
        }
    }

    /// Records that all steps were read.
    pub(super) fn close(&mut self) {
        self.all_steps_read = true;
    }

    /// Returns the parameters of the document, with those that a caller must provide first, and the
    /// warnings.
    pub(super) fn into_parameters(self) -> (Vec<DocumentParameter>, Vec<ImportWarning>) {
        let mut variables: Vec<DocumentParameter> =
            self.inputs.into_values().map(|input| input.variable).collect();
        variables.sort_by_key(|variable| !variable.required || variable.default.is_some());
        (variables, self.warnings)
    }

    /// Returns the parameters of the document by the names of the workflow's inputs.
    pub(super) fn inputs_by_name(&self) -> BTreeMap<String, DocumentParameter> {
        let own = self.inputs.iter().filter(|(name, _)| !name.starts_with(' '));
        own.map(|(name, input)| (name.clone(), input.variable.clone())).collect()
    }

    pub(super) fn add_warning(&mut self, place: &str, reason: impl Into<String>) {
        self.warnings.push(ImportWarning::new(place, reason));
    }

    /// Reports the fields of a workflow or a step that Arazzo 1.0 does not have, extensions aside.
    pub(super) fn warn_about_unknown_fields(&mut self, raw: &Value, known: &[&str], place: &str) {
        for name in raw.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&name.as_str()) && !name.starts_with("x-") {
                let name = quote_for_message(name);
                let reason =
                    format!("Arazzo 1.0 does not have the field `{name}`; the import drops it");
                self.add_warning(place, reason);
            }
        }
    }

    pub(super) fn add_step(&mut self, id: &str, outputs: StepOutputs) {
        self.steps.insert(id.to_owned(), outputs);
    }

    pub(super) fn outputs_of(&self, step: &str) -> Option<&StepOutputs> {
        self.steps.get(step)
    }

    /// Adds an input to the document that the workflow does not have, and returns its name.
    pub(super) fn add_input(
        &mut self,
        names: &[String],
        make: impl Fn(String) -> DocumentParameter,
    ) -> String {
        let name = self.used_names.reserve_one_of(names);
        let variable = make(name.clone());
        // No declared input begins with a space: the two kinds do not meet.
        self.inputs.insert(format!(" {name}"), WorkflowInput { variable, type_is_known: true });
        name
    }

    /// Converts the value: each expression becomes a template. `wanted` is the parameter that receives the
    /// whole value. `name` is the name of inputs that replace unsupported expressions.
    pub(super) fn value(
        &mut self,
        value: &Value,
        wanted: Option<&DocumentParameter>,
        name: &str,
        place: &str,
    ) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, wanted, name, place)),
            Value::Array(items) => {
                items.iter().map(|item| self.value(item, None, name, place)).collect()
            }
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| {
                    let name = format!("{name}_{}", naming::variable_name(key));
                    (key.clone(), self.value(value, None, &name, place))
                };
                Value::Object(members.iter().map(member).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(
        &mut self,
        text: &str,
        wanted: Option<&DocumentParameter>,
        name: &str,
        place: &str,
    ) -> String {
        if is_expression(text) && !text.contains(['{', '\n']) {
            return match self.reference(text, wanted, place) {
                Ok(reference) => format!("${{{reference}}}"),
                Err(reason) => self.replacement_input(text, &reason, wanted, name, place),
            };
        }
        let mut template = String::new();
        for piece in split_expressions(text) {
            match piece {
                ExpressionPart::Text(text) => template += &text.replace("${", "$${"),
                ExpressionPart::Expression(expression) => {
                    let inner = match self.reference(expression, None, place) {
                        Ok(reference) => format!("${{{reference}}}"),
                        Err(reason) => {
                            self.replacement_input(expression, &reason, None, name, place)
                        }
                    };
                    template.push_str(&inner);
                }
            }
        }
        template
    }

    /// Adds an input that replaces an unsupported expression.
    fn replacement_input(
        &mut self,
        expression: &str,
        reason: &str,
        wanted: Option<&DocumentParameter>,
        name: &str,
        place: &str,
    ) -> String {
        let variable = self.add_input(&[naming::variable_name(name)], |name| match wanted {
            Some(wanted) => DocumentParameter { name, ..wanted.clone() },
            None => DocumentParameter::new(name, None, true),
        });
        let message = format!(
            "`{}` {reason}; `{variable}` became an input instead",
            quote_for_message(expression)
        );
        self.add_warning(place, message);
        format!("${{{variable}}}")
    }

    /// Returns the reference for an expression, as written between `${` and `}`; otherwise the reason why
    /// the expression is not supported.
    pub(super) fn reference(
        &mut self,
        text: &str,
        wanted: Option<&DocumentParameter>,
        place: &str,
    ) -> Result<String, String> {
        match RuntimeExpression::parse(text) {
            Some(RuntimeExpression::Input(rest)) => self.input(rest, wanted, place),
            Some(RuntimeExpression::StepOutput { step, rest }) => self.output(step, rest, wanted),
            Some(_) | None => Err("is not available at this location".to_owned()),
        }
    }

    fn output(
        &mut self,
        step: &str,
        rest: &str,
        wanted: Option<&DocumentParameter>,
    ) -> Result<String, String> {
        let Some(outputs) = self.steps.get_mut(step) else {
            return Err(format!(
                "refers to the step `{}`, which does not come earlier",
                quote_for_message(step)
            ));
        };
        let (name, rest) = longest_prefix(outputs.read.keys().map(String::as_str), rest)
            .ok_or("refers to an output that the step does not have")?;
        let rest = reference_path(rest).ok_or("has a path that a reference cannot express")?;
        let name = name.to_owned();
        if let Some(kind) = outputs.kinds.get(&name).copied() {
            let nests = |kind| matches!(kind, ValueType::Object | ValueType::Array);
            let wanted = wanted.and_then(|wanted| wanted.kind).filter(|_| rest.is_empty());
            if let Some(wanted) = wanted.filter(|wanted| *wanted != kind)
                && (nests(wanted) || nests(kind))
            {
                let (kind, wanted) = (kind.describe(), wanted.describe());
                return Err(format!("is {kind}, but the operation accepts {wanted}"));
            }
            if rest.starts_with('.') && kind != ValueType::Object {
                return Err(format!("selects a name inside {}", kind.describe()));
            }
        }
        let reference = format!("{}{rest}", outputs.read[&name]);
        if !self.all_steps_read {
            outputs.needed.insert(name.clone());
        }
        outputs.used.insert(name);
        Ok(reference)
    }

    fn input(
        &mut self,
        rest: &str,
        wanted: Option<&DocumentParameter>,
        place: &str,
    ) -> Result<String, String> {
        let declared = self.declared.into_iter().flat_map(|declared| declared.keys());
        let (name, rest) = longest_prefix(declared.map(String::as_str), rest)
            .unwrap_or_else(|| rest.split_at(rest.find(['.', '[', '#']).unwrap_or(rest.len())));
        let rest = reference_path(rest).ok_or("has a path that a reference cannot express")?;
        if !self.inputs.contains_key(name) {
            let schema = self.declared.and_then(|declared| declared.get(name));
            let plain = naming::variable_name(name);
            let own = self.used_names.reserve_one_of(&[plain.clone(), format!("input_{plain}")]);
            let required = self.required.contains(name) || schema.is_none();
            let mut variable = DocumentParameter::new(own, None, required);
            variable.secret = is_secret_name(name, None);
            if let Some(schema) = schema {
                variable = variable.with_schema(self.source, schema);
            } else {
                self.add_warning(
                    place,
                    format!(
                        "the workflow does not declare the input `{}`",
                        quote_for_message(name)
                    ),
                );
            }
            self.inputs.insert(name.to_owned(), WorkflowInput { variable, type_is_known: false });
        }
        let input = &mut self.inputs[name];
        if let Some(wanted) = wanted.filter(|_| rest.is_empty()) {
            let before = input.variable.kind;
            input.set_type(wanted);
            if let (Some(before), after) = (before, input.variable.kind)
                && after != Some(before)
            {
                let message = match after {
                    Some(after) => format!(
                        "the workflow uses `{}` as {}, not {}",
                        quote_for_message(name),
                        after.describe(),
                        before.describe()
                    ),
                    None => format!(
                        "the workflow uses `{}` with different types",
                        quote_for_message(name)
                    ),
                };
                self.warnings.push(ImportWarning::new(place, message));
            }
        }
        Ok(format!("{}{rest}", self.inputs[name].variable.name))
    }
}

impl WorkflowInput {
    /// Applies the facts that an operation states about the value.
    fn set_type(&mut self, wanted: &DocumentParameter) {
        let variable = &mut self.variable;
        let narrow = |one, other| match (one, other) {
            (None, known) | (known, None) => known,
            (Some(ValueType::Number), Some(ValueType::Integer)) => Some(ValueType::Integer),
            (Some(one), Some(other)) if one == other => Some(one),
            (Some(_), Some(_)) => None,
        };
        variable.kind = if self.type_is_known {
            narrow(variable.kind, wanted.kind)
        } else {
            wanted.kind.or(variable.kind)
        };
        self.type_is_known = true;
        variable.description = variable.description.take().or_else(|| wanted.description.clone());
        variable.secret |= wanted.secret;
        let kind = variable.kind;
        let fits = |value: &Value| kind.is_none_or(|kind| kind.accepts(value));
        if !variable.choices.iter().all(fits) {
            variable.choices.clear();
        }
        let secret = variable.secret;
        variable.default = variable.default.take().filter(|value| fits(value) && !secret);
        variable.required |= wanted.required && variable.default.is_none();
    }
}

/// The longest of `names` that is a prefix of `text`, and the rest after it.
fn longest_prefix<'n, 't>(
    names: impl Iterator<Item = &'n str>,
    text: &'t str,
) -> Option<(&'t str, &'t str)> {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[', '#']);
    let found = names.filter(|name| text.strip_prefix(*name).is_some_and(ends));
    found.map(str::len).max().map(|length| text.split_at(length))
}
