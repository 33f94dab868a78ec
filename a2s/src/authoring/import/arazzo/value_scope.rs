//! The values that a workflow knows: its inputs, and the outputs of its steps.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::expression::{Expression, Piece, pieces, way};
use crate::authoring::import::Remark;
use crate::authoring::import::ref_resolver::{Source, shown};
use crate::authoring::import::variable::{Variable, names_a_secret};
use crate::authoring::naming;
use crate::document::ValueType;

/// The values that are available to the steps of a workflow.
pub(super) struct Scope<'a> {
    source: Source<'a>,
    /// The declared inputs, by name.
    declared: Option<&'a Map<String, Value>>,
    demanded: BTreeSet<&'a str>,
    /// The inputs that are used, by name: the parameters of the document.
    inputs: IndexMap<String, Input>,
    steps: BTreeMap<String, Outputs>,
    pub(super) taken: naming::Taken,
    pub(super) remarks: Vec<Remark>,
    /// Set when all steps are read: values that are read from now on may be missing.
    closed: bool,
}

struct Input {
    variable: Variable,
    /// Set when an operation has determined its type.
    settled: bool,
}

/// The outputs of a step.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// The text by which a reference reads each output, by name.
    pub(super) read: BTreeMap<String, String>,
    /// The types that are known, by name.
    pub(super) kinds: BTreeMap<String, ValueType>,
    /// The outputs that a later step reads.
    pub(super) needed: BTreeSet<String>,
    /// The outputs that are read anywhere.
    pub(super) used: BTreeSet<String>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(source: Source<'a>, workflow: &'a Value) -> Self {
        let schema = workflow.get("inputs").and_then(|inputs| source.resolve(inputs).ok());
        let demanded = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        Self {
            source,
            declared: schema.and_then(|s| s.get("properties")).and_then(Value::as_object),
            demanded: demanded.into_iter().flatten().filter_map(Value::as_str).collect(),
            inputs: IndexMap::new(),
            steps: BTreeMap::new(),
            taken: naming::Taken::default(),
            remarks: Vec::new(),
            closed: false,
        }
    }

    /// Says that all steps were read.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The parameters of the document: those that a caller must give first.
    pub(super) fn into_parameters(self) -> (Vec<Variable>, Vec<Remark>) {
        let mut variables: Vec<Variable> =
            self.inputs.into_values().map(|input| input.variable).collect();
        variables.sort_by_key(|variable| !variable.required || variable.default.is_some());
        (variables, self.remarks)
    }

    /// The parameters of the document by the names of the workflow's inputs.
    pub(super) fn inputs_by_name(&self) -> BTreeMap<String, Variable> {
        let own = self.inputs.iter().filter(|(name, _)| !name.starts_with(' '));
        own.map(|(name, input)| (name.clone(), input.variable.clone())).collect()
    }

    pub(super) fn remark(&mut self, place: &str, reason: impl Into<String>) {
        self.remarks.push(Remark::new(place, reason));
    }

    pub(super) fn add_step(&mut self, id: &str, outputs: Outputs) {
        self.steps.insert(id.to_owned(), outputs);
    }

    pub(super) fn outputs_of(&self, step: &str) -> Option<&Outputs> {
        self.steps.get(step)
    }

    /// A new input of the document that the workflow does not have.
    pub(super) fn add_input(
        &mut self,
        names: &[String],
        make: impl Fn(String) -> Variable,
    ) -> String {
        let name = self.taken.take_one_of(names);
        let variable = make(name.clone());
        // No declared input begins with a space: the two kinds do not meet.
        self.inputs.insert(format!(" {name}"), Input { variable, settled: true });
        name
    }

    /// The value with every expression as a template. `wanted` is what stands at the place where
    /// the whole value goes; `name` is for inputs in place of what cannot be carried over.
    pub(super) fn value(
        &mut self,
        value: &Value,
        wanted: Option<&Variable>,
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

    fn text(&mut self, text: &str, wanted: Option<&Variable>, name: &str, place: &str) -> String {
        if text.starts_with('$') && !text.starts_with("$$") && !text.contains(['{', '\n']) {
            return match self.reference(text, wanted, place) {
                Ok(reference) => format!("${{{reference}}}"),
                Err(reason) => self.instead(text, &reason, wanted, name, place),
            };
        }
        let mut template = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => template += &text.replace("${", "$${"),
                Piece::Expression(expression) => {
                    let inner = match self.reference(expression, None, place) {
                        Ok(reference) => format!("${{{reference}}}"),
                        Err(reason) => self.instead(expression, &reason, None, name, place),
                    };
                    template.push_str(&inner);
                }
            }
        }
        template
    }

    /// An input in place of an expression that cannot be carried over.
    fn instead(
        &mut self,
        expression: &str,
        reason: &str,
        wanted: Option<&Variable>,
        name: &str,
        place: &str,
    ) -> String {
        let variable = self.add_input(&[naming::variable_name(name)], |name| match wanted {
            Some(wanted) => Variable { name, ..wanted.clone() },
            None => Variable::new(name, None, true),
        });
        let told =
            format!("`{}` {reason}; `{variable}` became an input instead", shown(expression));
        self.remark(place, told);
        format!("${{{variable}}}")
    }

    /// The reference that an expression means, as it stands between `${` and `}`; else why there is
    /// none.
    pub(super) fn reference(
        &mut self,
        text: &str,
        wanted: Option<&Variable>,
        place: &str,
    ) -> Result<String, String> {
        match Expression::parse(text) {
            Some(Expression::Input(rest)) => self.input(rest, wanted, place),
            Some(Expression::StepOutput { step, rest }) => self.output(step, rest, wanted),
            Some(_) | None => Err("is not known where it stands".to_owned()),
        }
    }

    fn output(
        &mut self,
        step: &str,
        rest: &str,
        wanted: Option<&Variable>,
    ) -> Result<String, String> {
        let Some(outputs) = self.steps.get_mut(step) else {
            return Err(format!(
                "speaks of the step `{}`, which does not stand before",
                shown(step)
            ));
        };
        let (name, rest) = longest(outputs.read.keys().map(String::as_str), rest)
            .ok_or("speaks of an output that the step does not have")?;
        let rest = way(rest).ok_or("goes a way that no reference can write")?;
        let name = name.to_owned();
        if let Some(kind) = outputs.kinds.get(&name).copied() {
            let nests = |kind| matches!(kind, ValueType::Object | ValueType::Array);
            let wanted = wanted.and_then(|wanted| wanted.kind).filter(|_| rest.is_empty());
            if let Some(wanted) = wanted.filter(|wanted| *wanted != kind)
                && (nests(wanted) || nests(kind))
            {
                let (kind, wanted) = (kind.describe(), wanted.describe());
                return Err(format!("is {kind}, and the operation takes {wanted}"));
            }
            if rest.starts_with('.') && kind != ValueType::Object {
                return Err(format!("goes into {} by a name", kind.describe()));
            }
        }
        let reference = format!("{}{rest}", outputs.read[&name]);
        if !self.closed {
            outputs.needed.insert(name.clone());
        }
        outputs.used.insert(name);
        Ok(reference)
    }

    fn input(
        &mut self,
        rest: &str,
        wanted: Option<&Variable>,
        place: &str,
    ) -> Result<String, String> {
        let declared = self.declared.into_iter().flat_map(|declared| declared.keys());
        let (name, rest) = longest(declared.map(String::as_str), rest)
            .unwrap_or_else(|| rest.split_at(rest.find(['.', '[', '#']).unwrap_or(rest.len())));
        let rest = way(rest).ok_or("goes a way that no reference can write")?;
        if !self.inputs.contains_key(name) {
            let schema = self.declared.and_then(|declared| declared.get(name));
            let plain = naming::variable_name(name);
            let own = self.taken.take_one_of(&[plain.clone(), format!("input_{plain}")]);
            let required = self.demanded.contains(name) || schema.is_none();
            let mut variable = Variable::new(own, None, required);
            variable.secret = names_a_secret(name, None);
            if let Some(schema) = schema {
                variable = variable.with_schema(self.source, schema);
            } else {
                self.remark(
                    place,
                    format!("the workflow does not declare the input `{}`", shown(name)),
                );
            }
            self.inputs.insert(name.to_owned(), Input { variable, settled: false });
        }
        let input = &mut self.inputs[name];
        if let Some(wanted) = wanted.filter(|_| rest.is_empty()) {
            let before = input.variable.kind;
            input.settle(wanted);
            if let (Some(before), after) = (before, input.variable.kind)
                && after != Some(before)
            {
                let told = match after {
                    Some(after) => format!(
                        "where `{}` is used, it is {}, not {}",
                        shown(name),
                        after.describe(),
                        before.describe()
                    ),
                    None => format!("`{}` is used with different types", shown(name)),
                };
                self.remarks.push(Remark::new(place, told));
            }
        }
        Ok(format!("{}{rest}", self.inputs[name].variable.name))
    }
}

impl Input {
    /// Takes over what an operation says about the value that it is used as.
    fn settle(&mut self, wanted: &Variable) {
        let variable = &mut self.variable;
        let narrow = |one, other| match (one, other) {
            (None, known) | (known, None) => known,
            (Some(ValueType::Number), Some(ValueType::Integer)) => Some(ValueType::Integer),
            (Some(one), Some(other)) if one == other => Some(one),
            (Some(_), Some(_)) => None,
        };
        variable.kind = if self.settled {
            narrow(variable.kind, wanted.kind)
        } else {
            wanted.kind.or(variable.kind)
        };
        self.settled = true;
        variable.description = variable.description.take().or_else(|| wanted.description.clone());
        variable.secret |= wanted.secret;
        let kind = variable.kind;
        let fits = |value: &Value| kind.is_none_or(|kind| kind.admits(value));
        if !variable.choices.iter().all(fits) {
            variable.choices.clear();
        }
        let secret = variable.secret;
        variable.default = variable.default.take().filter(|value| fits(value) && !secret);
        variable.required |= wanted.required && variable.default.is_none();
    }
}

/// The longest of `names` that is a prefix of `text`, and the rest after it.
fn longest<'n, 't>(
    names: impl Iterator<Item = &'n str>,
    text: &'t str,
) -> Option<(&'t str, &'t str)> {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[', '#']);
    let found = names.filter(|name| text.strip_prefix(*name).is_some_and(ends));
    found.map(str::len).max().map(|length| text.split_at(length))
}
