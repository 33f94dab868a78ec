//! The variables of one capability while it runs.

use a2s::{Capability, Output};
use serde_json::{Map, Value};

/// Variables, and which outputs set them since this scope was made.
///
/// A step of a parallel block gets a [`snapshot`](Self::snapshot): it sees the variables as they
/// were on entry, and what it sets is [`merged`](Self::merge) when the block has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope<'p> {
    variables: Map<String, Value>,
    written: Vec<(&'p Output, Value)>,
}

impl<'p> Scope<'p> {
    /// The variables on entry to `capability`: those that it declares, then its inputs.
    pub(crate) fn enter(capability: &Capability, inputs: &Map<String, Value>) -> Self {
        let declared = capability.variables.iter().map(|(name, kind)| (name, kind.initial()));
        let given = inputs.iter().map(|(name, value)| (name, value.clone()));
        let variables = declared.chain(given).map(|(name, value)| (name.clone(), value)).collect();
        Self { variables, written: Vec::new() }
    }

    /// The variables, to be read.
    pub(crate) fn variables(&self) -> &Map<String, Value> {
        &self.variables
    }

    /// Sets an output.
    pub(crate) fn set(&mut self, output: &'p Output, value: Value) {
        output.set(&mut self.variables, value.clone());
        self.written.push((output, value));
    }

    /// Sets the outputs of a step as its event recorded them, by dotted name.
    pub(crate) fn restore(&mut self, outputs: &'p [Output], recorded: &Map<String, Value>) {
        for output in outputs {
            if let Some(value) = recorded.get(&output.dotted()) {
                self.set(output, value.clone());
            }
        }
    }

    /// The same variables for a step that runs beside others.
    pub(crate) fn snapshot(&self) -> Self {
        Self { variables: self.variables.clone(), written: Vec::new() }
    }

    /// Sets here what was set in a snapshot.
    pub(crate) fn merge(&mut self, other: Self) {
        for (output, value) in other.written {
            self.set(output, value);
        }
    }

    /// The result of a capability without `output`: every variable that a step of it may set and
    /// that has a value now.
    pub(crate) fn result(&self, capability: &Capability) -> Value {
        let mut result = Map::new();
        capability.for_each_step(|step| {
            for output in step.action.outputs() {
                if let Some(value) = self.variables.get(output.variable()) {
                    result.insert(output.variable().to_owned(), value.clone());
                }
            }
        });
        Value::Object(result)
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
        let mut scope = Scope::enter(capability, json!({"note": "n"}).as_object().unwrap());
        assert_eq!(json!(scope.variables()), json!({"ids": {}, "note": "n"}));
        let steps = capability.execution.children();
        scope.set(&steps[0].action.outputs()[0], json!(0));
        let (mut one, mut two) = (scope.snapshot(), scope.snapshot());
        one.set(&steps[0].action.outputs()[0], json!(1));
        two.restore(steps[1].action.outputs(), json!({"ids.two": 2}).as_object().unwrap());
        assert_eq!(two.variables()["ids"], json!({"one": 0, "two": 2}), "a sibling is not seen");
        scope.merge(one);
        scope.merge(two);
        // Merging the second brings back nothing that the first has changed since.
        // `note` is an input and `extra` has no value: neither is part of the result.
        assert_eq!(scope.result(capability), json!({"ids": {"one": 1, "two": 2}}));
    }
}
