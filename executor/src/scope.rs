//! The variables of one capability while it runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{
    Capability, Condition, ConditionError, MissingReference, OutputMapping, Template,
    VariableReference, VariableSource,
};
use serde_json::{Map, Value};

/// Variables, and the outputs that have set them since this scope was made.
///
/// Work that runs concurrently gets a [`snapshot`](Self::snapshot): it sees the variables as they were on
/// entry, and the outputs that it sets are [`merged`](Self::merge) when all have ended. All snapshots share
/// the variables on entry, so that running over a long list does not copy them for each item.
#[derive(Debug, Clone, Default)]
pub(crate) struct VariableScope<'p> {
    initial: Arc<Map<String, Value>>,
    /// The variables that were set since then, each with its complete value.
    own: Map<String, Value>,
    /// Optional parameters without a value. Their value is null, and inputs leave them out.
    absent: BTreeSet<String>,
    written: Vec<&'p OutputMapping>,
}

impl<'p> VariableScope<'p> {
    /// Creates the variables on entry to `capability`: those that it declares, then its inputs. Optional
    /// parameters that were not given are absent.
    pub(crate) fn from_capability(capability: &Capability, inputs: &Map<String, Value>) -> Self {
        let mut variables = Map::new();
        for (name, kind) in &capability.variables {
            variables.insert(name.clone(), kind.initial());
        }
        let mut absent = BTreeSet::new();
        for parameter in &capability.parameters {
            let name = &parameter.name;
            if !parameter.required && !inputs.contains_key(name) && !variables.contains_key(name) {
                variables.insert(name.clone(), Value::Null);
                absent.insert(name.clone());
            }
        }
        variables.extend(inputs.iter().map(|(name, value)| (name.clone(), value.clone())));
        Self { initial: Arc::new(variables), own: Map::new(), absent, written: Vec::new() }
    }

    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.own.get(name).or_else(|| self.initial.get(name))
    }

    /// Returns the value of a template; `None` when the template is exactly an absent parameter.
    ///
    /// # Errors
    /// Returns the first reference that cannot be resolved.
    pub(crate) fn render_optional(
        &self,
        template: &Template,
    ) -> Result<Option<Value>, MissingReference> {
        template.render_present(self)
    }

    /// Returns the value of a template; an absent parameter becomes null.
    ///
    /// # Errors
    /// Returns the first reference that cannot be resolved.
    pub(crate) fn render_required(&self, template: &Template) -> Result<Value, MissingReference> {
        template.render(self)
    }

    /// Returns true when a condition holds.
    ///
    /// # Errors
    /// When a reference has no value, or the outcome is not a boolean.
    pub(crate) fn evaluate_condition(&self, condition: &Condition) -> Result<bool, ConditionError> {
        condition.evaluate(self)
    }

    /// Returns the variables that a condition refers to.
    pub(crate) fn variables_of(&self, condition: &Condition) -> Map<String, Value> {
        let names = condition.references().iter().map(VariableReference::variable);
        let values = names.filter_map(|name| Some((name.to_owned(), self.get(name)?.clone())));
        values.collect()
    }

    /// Returns the minimum size of a template's value, in bytes: a template may name one value many times.
    pub(crate) fn estimate_size(&self, template: &Template) -> usize {
        let sizes = template.references().into_iter();
        let sizes = sizes.map(|reference| reference.resolve(self).map_or(0, size_of));
        sizes.fold(0, usize::saturating_add)
    }

    /// Sets an output.
    pub(crate) fn set(&mut self, output: &'p OutputMapping, value: Value) {
        let name = output.variable();
        if output.name.len() > 1 && !self.own.contains_key(name) {
            self.own.extend(self.initial.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        output.set(&mut self.own, value);
        self.absent.remove(name);
        self.written.push(output);
    }

    /// Sets a variable that is known only in this scope: the item of an iteration, or the error for a
    /// `catch`.
    pub(crate) fn set_local(&mut self, name: &str, value: Value) {
        self.own.insert(name.to_owned(), value);
    }

    /// Sets outputs of a step as its event recorded them, by dotted name.
    pub(crate) fn restore(
        &mut self,
        outputs: impl IntoIterator<Item = &'p OutputMapping>,
        recorded: &Map<String, Value>,
    ) {
        for output in outputs {
            if let Some(value) = recorded.get(&output.dotted()) {
                self.set(output, value.clone());
            }
        }
    }

    /// The same variables, for work that runs concurrently.
    pub(crate) fn snapshot(&mut self) -> Self {
        if !self.own.is_empty() {
            let entry = Arc::make_mut(&mut self.initial);
            entry.extend(std::mem::take(&mut self.own));
        }
        self.view()
    }

    /// Returns a [`snapshot`](Self::snapshot) of a scope in which nothing was set since its creation or its
    /// last snapshot.
    pub(crate) fn view(&self) -> Self {
        let entry = Arc::clone(&self.initial);
        Self {
            initial: entry,
            own: self.own.clone(),
            absent: self.absent.clone(),
            written: Vec::new(),
        }
    }

    /// Sets here the variables that outputs have set in a snapshot.
    pub(crate) fn merge(&mut self, other: &Self) {
        for &output in &other.written {
            // A missing value was replaced by a later output.
            if let Some(value) = other.find(output) {
                self.set(output, value.clone());
            }
        }
    }

    /// Returns the value of the path that `output` sets, if this scope itself has set it or a part of it.
    pub(crate) fn find_written(&self, output: &OutputMapping) -> Option<&Value> {
        let is_set = self.written.iter().any(|written| {
            written.name.starts_with(&output.name) || output.name.starts_with(&written.name)
        });
        self.find(output).filter(|_| is_set)
    }

    /// Returns the result of a capability without `output`: every variable that one of its steps may set
    /// and that has a value now.
    pub(crate) fn to_result(&self, capability: &Capability) -> Value {
        let mut result = Map::new();
        capability.for_each_step(|step| {
            for output in step.action.outputs() {
                if let Some(value) = self.get(output.variable()) {
                    result.insert(output.variable().to_owned(), value.clone());
                }
            }
        });
        Value::Object(result)
    }

    /// Returns the value of the path that `output` sets.
    fn find(&self, output: &OutputMapping) -> Option<&Value> {
        let (variable, members) = output.name.split_first()?;
        members.iter().try_fold(self.get(variable)?, |value, member| value.get(member))
    }
}

impl VariableSource for VariableScope<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
    }
}

/// Returns the minimum size of a value as JSON, in bytes: quotation marks are not counted.
pub(crate) fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of(item) + 1).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() + size_of(member) + 1).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use a2s::{Document, compile};
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        let source = br#"
a2s: 1.0.0
name: Twins
description: Two at once
domains: [api.example]
version: 1.0.0
checksum: "<checksum>"
authors: [{name: A}]
execution:
  type: parallel
  variables: {shared: {ids: object, note: string}}
  steps:
    - {id: one, format: GraphQL, task: {endpoint: "https://api.example/", query: "{a}"}, output_mapping: {ids.one: "$.data.a"}}
    - {id: two, format: GraphQL, task: {endpoint: "https://api.example/", query: "{a}"}, output_mapping: {ids.two: "$.data.a", extra: "$.data.a"}}
"#;
        let compilation = compile(source);
        compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
    }

    #[test]
    fn parallel_writes_meet_in_one_object_after_the_block() {
        let document = document();
        let capability = document.capability();
        let mut scope =
            VariableScope::from_capability(capability, json!({"note": "n"}).as_object().unwrap());
        let ids = |scope: &VariableScope<'_>| scope.get("ids").cloned();
        assert_eq!((ids(&scope), scope.get("note")), (Some(json!({})), Some(&json!("n"))));
        let steps = capability.execution.children();
        scope.set(&steps[0].action.outputs()[0], json!(0));
        let (mut one, mut two) = (scope.snapshot(), scope.snapshot());
        one.set(&steps[0].action.outputs()[0], json!(1));
        two.restore(steps[1].action.outputs(), json!({"ids.two": 2}).as_object().unwrap());
        assert_eq!(ids(&two), Some(json!({"one": 0, "two": 2})), "a sibling is not seen");
        assert_eq!(two.find_written(&steps[0].action.outputs()[0]), None);
        scope.merge(&one);
        scope.merge(&two);
        // Merging the second brings back nothing that the first has changed since.
        // `note` is an input and `extra` has no value: neither is part of the result.
        assert_eq!(scope.to_result(capability), json!({"ids": {"one": 1, "two": 2}}));
    }
}
