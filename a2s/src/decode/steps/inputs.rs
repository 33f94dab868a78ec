//! Input mappings of tasks: each value gets its place in the request.

use std::collections::BTreeSet;

use super::bounded_entries;
use crate::diagnostic::did_you_mean;
use crate::document::TaskInputs;
use crate::error_code;
use crate::field_reader::{DiagnosticSink, DocumentField, shorten_for_message};
use crate::task::InputLocation;
use crate::task::{ParameterLocation, Task};
use crate::template::Template;

/// Assigns each input of a task to its location in the request. Reports inputs without a location, and
/// missing inputs.
pub(super) fn decode_inputs(
    task: &Task,
    mapping: Option<DocumentField<'_>>,
    step: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> TaskInputs {
    let entries = mapping.map_or_else(Vec::new, |mapping| bounded_entries(&mapping, findings));
    let mut inputs =
        InputDecoder { task, placed: TaskInputs::new(), misplaced: BTreeSet::new(), findings };
    for (key, entry) in entries {
        match task {
            Task::OpenApi(operation) if key == "body" => {
                inputs.place_body(operation.body.is_some(), &entry);
            }
            Task::OpenApi(_) => match ParameterLocation::from_group(key) {
                Some(group) => inputs.place_all(Some(group), &entry),
                None => inputs.place(None, key, &entry),
            },
            Task::Graphql(_) => inputs.place_below("a GraphQL step", "variables", key, &entry),
            Task::Mcp(_) => inputs.place_below("an MCP step", "arguments", key, &entry),
        }
    }
    inputs.report_missing(step);
    inputs.placed
}

/// The decoder of the inputs of one task.
struct InputDecoder<'t, 'f> {
    task: &'t Task,
    placed: TaskInputs,
    /// The locations of inputs that have another error. They are not reported as missing, too.
    misplaced: BTreeSet<InputLocation>,
    findings: &'f mut DiagnosticSink,
}

impl InputDecoder<'_, '_> {
    fn place_body(&mut self, is_accepted: bool, entry: &DocumentField<'_>) {
        if !is_accepted {
            let message = "the operation does not accept a body";
            let hint = "Add `requestBody` to the operation, or remove the input.";
            let code = error_code::UNKNOWN_INPUT;
            self.findings.error_with_hint(code, entry.at_key(), message, hint);
        }
        let template = Template::decode(entry.node, &entry.path, self.findings);
        self.placed.insert(InputLocation::Body, template);
    }

    /// Assigns the inputs below `key`, which must be the only group that the kind of step accepts.
    fn place_below(&mut self, step: &str, group: &str, key: &str, entry: &DocumentField<'_>) {
        if key == group {
            return self.place_all(None, entry);
        }
        let message = format!("{step} accepts `{group}`, not `{}`", shorten_for_message(key));
        let hint = format!("Write the values below `{group}`.");
        self.findings.error_with_hint(error_code::UNKNOWN_INPUT, entry.at_key(), message, hint);
        // Missing ones are known only after the values are moved there.
        self.misplaced.extend(required_places(self.task));
    }

    fn place_all(&mut self, group: Option<ParameterLocation>, entry: &DocumentField<'_>) {
        for (name, entry) in bounded_entries(entry, self.findings) {
            self.place(group, name, &entry);
        }
    }

    /// Assigns one named input to its location: a parameter of the operation, a variable of the query, or
    /// an argument of the tool.
    fn place(&mut self, group: Option<ParameterLocation>, name: &str, entry: &DocumentField<'_>) {
        let template = Template::decode(entry.node, &entry.path, self.findings);
        if let Task::Mcp(tool) = self.task
            && tool.accepts_other_arguments()
        {
            self.placed.insert(InputLocation::Argument(name.to_owned()), template);
            return;
        }
        let places = parameter_places(self.task);
        let called: Vec<&InputLocation> =
            places.iter().filter(|place| place_is_called(place, name)).collect();
        let fits = |place: &&InputLocation| group.is_none_or(|group| group.holds(place));
        let fitting: Vec<&InputLocation> = called.iter().copied().filter(fits).collect();
        match fitting.as_slice() {
            [place] => {
                if self.placed.insert((*place).clone(), template).is_some() {
                    let message = format!("`{place}` is mapped twice");
                    self.findings.error(error_code::DUPLICATE_KEY, entry.at_key(), message);
                }
            }
            [] => {
                let (hint, meant) = suggest_place(&called, &places, name);
                let name = shorten_for_message(name);
                let message = format!("the task does not accept an input `{name}` here");
                let code = error_code::UNKNOWN_INPUT;
                self.findings.error_with_hint(code, entry.at_key(), message, hint);
                self.misplaced.extend(meant.cloned());
            }
            [_, _, ..] => {
                let list: Vec<_> = fitting.iter().map(|place| format!("`{place}`")).collect();
                let message = format!("`{name}` is ambiguous: it could be {}", list.join(" or "));
                let hint = format!("Write it under {}.", groups_of(&fitting));
                let code = error_code::AMBIGUOUS_INPUT;
                self.findings.error_with_hint(code, entry.at_key(), message, hint);
                self.misplaced.extend(fitting.into_iter().cloned());
            }
        }
    }

    fn report_missing(&mut self, step: &DocumentField<'_>) {
        for place in required_places(self.task) {
            if !self.placed.contains_key(&place) && !self.misplaced.contains(&place) {
                let message = format!("the step does not map `{place}`, which the task requires");
                let hint = format!("Add it to `input_mapping`: `{place}`.");
                let code = error_code::MISSING_INPUT;
                self.findings.error_with_hint(code, step.at_value(), message, hint);
            }
        }
    }
}

/// The hint for an input `name` without a location, and the location that the author probably meant.
fn suggest_place<'p>(
    called: &[&'p InputLocation],
    places: &'p [InputLocation],
    name: &str,
) -> (String, Option<&'p InputLocation>) {
    if let Some(place) = called.first() {
        return (format!("Write it under {}.", groups_of(&[place])), Some(place));
    }
    let close = did_you_mean(name, places.iter().map(place_name));
    let meant = close.and_then(|close| places.iter().find(|place| place_name(place) == close));
    let hint = match meant {
        Some(place) => format!("Did you mean `{}`?", place_name(place)),
        None if places.is_empty() => "The task does not accept inputs.".to_owned(),
        None => {
            let list: Vec<_> = places.iter().map(|place| format!("`{place}`")).collect();
            format!("Known inputs are {}.", list.join(", "))
        }
    };
    (hint, meant)
}

/// Lists the mappings that contain these locations: "`pathParameters` or `queryParameters`".
fn groups_of(places: &[&InputLocation]) -> String {
    let groups: Vec<_> = places
        .iter()
        .map(|place| match place {
            InputLocation::Path(_) => "`pathParameters`",
            InputLocation::Query(_) => "`queryParameters`",
            InputLocation::Header(_) => "`headerParameters`",
            InputLocation::Cookie(_) => "`cookieParameters`",
            InputLocation::Variable(_) => "`variables`",
            InputLocation::Argument(_) => "`arguments`",
            InputLocation::Body => "`body`",
        })
        .collect();
    groups.join(" or ")
}

/// Returns every named location of a task.
fn parameter_places(task: &Task) -> Vec<InputLocation> {
    match task {
        Task::OpenApi(operation) => {
            operation.parameters.iter().map(|parameter| parameter.input_location()).collect()
        }
        Task::Graphql(operation) => {
            operation.variables.iter().map(|v| InputLocation::Variable(v.name.clone())).collect()
        }
        Task::Mcp(tool) => {
            tool.arguments().map(|name| InputLocation::Argument(name.to_owned())).collect()
        }
    }
}

/// Returns the locations that a request of the task requires.
fn required_places(task: &Task) -> Vec<InputLocation> {
    match task {
        Task::OpenApi(operation) => {
            let body = operation.body.as_ref().is_some_and(|body| body.required);
            operation
                .parameters
                .iter()
                .filter(|parameter| parameter.required && !parameter.is_idempotency_key())
                .map(|parameter| parameter.input_location())
                .chain(body.then_some(InputLocation::Body))
                .collect()
        }
        Task::Graphql(operation) => operation
            .variables
            .iter()
            .filter(|variable| variable.required)
            .map(|variable| InputLocation::Variable(variable.name.clone()))
            .collect(),
        Task::Mcp(tool) => {
            tool.required().map(|name| InputLocation::Argument(name.to_owned())).collect()
        }
    }
}

fn place_name(place: &InputLocation) -> &str {
    match place {
        InputLocation::Path(name)
        | InputLocation::Query(name)
        | InputLocation::Header(name)
        | InputLocation::Cookie(name)
        | InputLocation::Variable(name)
        | InputLocation::Argument(name) => name,
        InputLocation::Body => "body",
    }
}

/// Compares header names without regard to case (RFC 9110, 5.1), and all other names exactly.
fn place_is_called(place: &InputLocation, name: &str) -> bool {
    match place {
        InputLocation::Header(header) => header.eq_ignore_ascii_case(name),
        _ => place_name(place) == name,
    }
}
