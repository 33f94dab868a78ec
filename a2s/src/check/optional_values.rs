//! Optional parameters without a default: where they are read, there may be no value.

use std::collections::BTreeSet;

use crate::document::{Capability, CapabilityStep, Step, TaskStep, find_input, find_task_input};
use crate::error_code;
use crate::field_reader::{DiagnosticSink, shorten_for_message};
use crate::task::InputLocation;
use crate::task::Task;
use crate::template::{Template, VariableReference};
use crate::tree::{NodePath, NodeValue, TreeNode};

/// The consequence when a parameter in an input has no value.
#[derive(Clone, Copy)]
enum AbsenceEffect<'t> {
    /// The task requires the whole input, so no run without the value can succeed.
    LacksInput(&'t InputLocation),
    /// The step fails.
    FailsStep,
    /// The request does not contain the input.
    OmitsInput(&'t InputLocation),
    /// The text contains `null`.
    WritesNull,
}

/// Reports each input of a task or capability step that needs a value and may have none, at the text that
/// reads it. `is_set` returns true when a step has surely set a name.
pub(super) fn check_absent(
    capability: &Capability,
    step: &Step,
    root: &TreeNode<'_>,
    is_set: &dyn Fn(&str) -> bool,
    findings: &mut DiagnosticSink,
) {
    let Some(node) = root.at(&step.pointer) else { return };
    let mut checker = AbsenceChecker { capability, is_set, findings };
    if let Some(TaskStep { task, inputs, .. }) = step.action.as_task() {
        for (place, template) in inputs {
            if let Some((path, node)) = find_task_input(step, node, place) {
                checker.check_input((task, place), template, node, &NodePath::Start(&path));
            }
        }
    }
    if let Some(CapabilityStep { inputs, .. }) = step.action.as_capability() {
        for (name, template) in inputs {
            if let Some((path, node)) = find_input(step, node, None, name) {
                checker.check_value(template, node, &NodePath::Start(&path));
            }
        }
    }
}

struct AbsenceChecker<'c, 'f> {
    capability: &'c Capability,
    is_set: &'f dyn Fn(&str) -> bool,
    findings: &'f mut DiagnosticSink,
}

impl AbsenceChecker<'_, '_> {
    /// Checks an input of a task, which was read from `node`.
    fn check_input(
        &mut self,
        (task, place): (&Task, &InputLocation),
        template: &Template,
        node: &TreeNode<'_>,
        path: &NodePath<'_>,
    ) {
        let is_needed = is_needed(task, place);
        match template {
            Template::Reference(reference) if is_needed && reference.is_plain() => {
                self.report(reference, AbsenceEffect::LacksInput(place), node, path);
            }
            Template::Reference(reference) if is_needed => {
                self.report(reference, AbsenceEffect::FailsStep, node, path);
            }
            Template::Text(_) if place.omits_incomplete_text() => {
                let omits = AbsenceEffect::OmitsInput(place);
                let effect = if is_needed { AbsenceEffect::FailsStep } else { omits };
                self.check_text(template, &|_| effect, node, path);
            }
            other => self.check_value(other, node, path),
        }
    }

    /// Checks a value or a part of it. An absent value that stands alone is left out.
    fn check_value(&mut self, template: &Template, node: &TreeNode<'_>, path: &NodePath<'_>) {
        match (template, &node.kind) {
            (Template::Text(_), _) => {
                let effect = |reference: &VariableReference| match reference.is_plain() {
                    true => AbsenceEffect::WritesNull,
                    false => AbsenceEffect::FailsStep,
                };
                self.check_text(template, &effect, node, path);
            }
            (Template::Array(items), NodeValue::Array(nodes)) => {
                for (at, (item, node)) in items.iter().zip(nodes).enumerate() {
                    self.check_value(item, node, &NodePath::Item(path, at));
                }
            }
            (Template::Object(members), NodeValue::Object(nodes)) => {
                for node in nodes {
                    if let Some(member) = members.get(&*node.key) {
                        self.check_value(member, &node.value, &NodePath::Member(path, &node.key));
                    }
                }
            }
            _ => {}
        }
    }

    /// Reports each parameter in a text once.
    fn check_text<'t>(
        &mut self,
        text: &'t Template,
        effect: &dyn Fn(&VariableReference) -> AbsenceEffect<'t>,
        node: &TreeNode<'_>,
        path: &NodePath<'_>,
    ) {
        let mut reported = BTreeSet::new();
        for reference in text.references() {
            if reported.insert(reference.variable()) {
                self.report(reference, effect(reference), node, path);
            }
        }
    }

    /// Reports the effect if `reference` reads an optional parameter that may have no value.
    fn report(
        &mut self,
        reference: &VariableReference,
        effect: AbsenceEffect<'_>,
        node: &TreeNode<'_>,
        path: &NodePath<'_>,
    ) {
        let Some(parameter) = self.capability.parameter(reference.variable()) else { return };
        let name = parameter.name.as_str();
        if parameter.required || parameter.default.is_some() || (self.is_set)(name) {
            return;
        }
        let (code, location) = (error_code::ABSENT_INPUT, (path, node.position));
        let message = match effect {
            AbsenceEffect::LacksInput(place) => {
                let message = format!("`{place}` requires a value, but `{name}` is optional");
                return self.findings.error(code, location, message);
            }
            AbsenceEffect::FailsStep => {
                format!("`{name}` is optional; without a value, the step fails here")
            }
            AbsenceEffect::OmitsInput(place) => {
                let place = place.to_string();
                let place = shorten_for_message(&place);
                format!("`{name}` is optional; without a value, `{place}` is not sent")
            }
            AbsenceEffect::WritesNull => {
                format!("`{name}` is optional; without a value, the text contains `null`")
            }
        };
        self.findings.warning(code, location, message);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::compile;

    /// The remarks about optional parameters in the inputs of `POST /{p}`, with their paths.
    fn remarks(inputs: &Value) -> Vec<String> {
        let parameter = |name: &str, place: &str, required: bool| json!({"name": name, "in": place, "required": required, "schema": {"type": "string"}});
        let task = json!({
            "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
            "servers": [{"url": "https://api.example"}],
            "paths": {"/{p}": {"post": {
                "parameters": [
                    parameter("p", "path", true), parameter("q", "query", false),
                    parameter("X-T", "header", false), parameter("X-R", "header", true),
                    parameter("c", "cookie", false),
                ],
                "requestBody": {"content": {"application/json": {"schema": {}}}},
                "responses": {"200": {"description": ""}},
            }}},
        });
        let mut mapping = json!({"pathParameters": {"p": "x"}, "headerParameters": {"X-R": "r"}});
        for (group, values) in inputs.as_object().unwrap() {
            match values.as_object().filter(|_| group != "body") {
                Some(members) => {
                    members.iter().for_each(|(name, value)| mapping[group][name] = value.clone());
                }
                None => mapping[group] = values.clone(),
            }
        }
        let document = json!({
            "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"],
            "version": "1.0.0", "checksum": "<checksum>", "authors": [{"name": "A"}],
            "parameters": [
                {"name": "count", "required": false}, {"name": "set", "default": "d"},
                {"name": "always"},
            ],
            "execution": {"type": "sequence", "steps": [
                {"id": "one", "format": "OpenAPI", "task": task, "input_mapping": mapping},
            ]},
        });
        let compilation = compile(document.to_string().as_bytes());
        let found = compilation.diagnostics.into_iter().filter(|found| found.code == "A2S048");
        let start = "execution.steps[0].input_mapping.";
        let shown = |path: &str| path.strip_prefix(start).map(str::to_owned).unwrap();
        found
            .map(|found| {
                let severity = if found.is_error() { "error " } else { "" };
                format!("{severity}{}: {}", shown(&found.path), found.message)
            })
            .collect()
    }

    #[test]
    fn each_text_that_would_contain_null_has_its_own_remark() {
        let null = "`count` is optional; without a value, the text contains `null`";
        let found = remarks(&json!({
            "pathParameters": {"p": "no. ${count}"},
            "body": {
                "c": "${count}", "t": "count ${count} ${count}", "n": {"l": ["${count}", "${count} of ${set}"]},
                "${count}": "${always} and ${set}",
            },
        }));
        assert_eq!(
            found,
            [
                format!("pathParameters.p: {null}"),
                format!("body.t: {null}"),
                format!("body.n.l[1]: {null}"),
            ]
        );
        assert_eq!(remarks(&json!({"body": "${count}!"})), [format!("body: {null}")]);
        let fails = "body.m: `count` is optional; without a value, the step fails here";
        assert_eq!(remarks(&json!({"body": {"m": "in ${count.m}"}})), [fails]);
    }

    #[test]
    fn a_parameter_that_is_not_sent_has_a_remark_at_its_text() {
        let omitted = |place: &str| {
            format!("{place}: `count` is optional; without a value, `{place}` is not sent")
        };
        let found = remarks(&json!({
            "queryParameters": {"q": "n ${count}"},
            "headerParameters": {"X-T": "Bearer ${count}"},
            "cookieParameters": {"c": "${count}-${always}"},
        }));
        let places = ["headerParameters.X-T", "queryParameters.q", "cookieParameters.c"];
        assert_eq!(found, places.map(omitted));
        let required = remarks(&json!({"headerParameters": {"X-R": "Bearer ${count}"}}));
        let fails = "`count` is optional; without a value, the step fails here";
        assert_eq!(required, [format!("headerParameters.X-R: {fails}")]);
        let whole = remarks(&json!({"headerParameters": {"X-R": "${count}", "X-T": "${count}"}}));
        let needed = "requires a value, but `count` is optional";
        let place = "headerParameters.X-R";
        assert_eq!(whole, [format!("error {place}: `{place}` {needed}")]);
    }
}
