//! Input mappings of tasks: each value gets its place in the request.

use std::collections::BTreeSet;

use super::StepDecoder;
use crate::diagnostic::did_you_mean;
use crate::document::TaskInputs;
use crate::error_code;
use crate::field_reader::{DocumentField, shorten_for_message};
use crate::task::InputLocation;
use crate::task::{ParameterLocation, Task};
use crate::template::Template;

/// The inputs of a task that is being read.
struct DecodedInputs {
    placed: TaskInputs,
    /// The locations of inputs that have another error. They are not reported as missing, too.
    misplaced: BTreeSet<InputLocation>,
}

impl<'n> StepDecoder<'n, '_> {
    /// Assigns each input to its location in the request. Reports inputs without a location, and missing
    /// inputs.
    pub(super) fn decode_inputs(
        &mut self,
        task: &Task,
        mapping: Option<DocumentField<'n>>,
        step: &DocumentField<'n>,
    ) -> TaskInputs {
        let mut inputs = DecodedInputs { placed: TaskInputs::new(), misplaced: BTreeSet::new() };
        for (key, entry) in mapping.map_or_else(Vec::new, |mapping| self.entries(&mapping)) {
            match (task, key) {
                (Task::OpenApi(operation), "body") => {
                    if operation.body.is_none() {
                        self.findings.error_with_hint(
                            error_code::UNKNOWN_INPUT,
                            entry.at_key(),
                            "the operation does not accept a body",
                            "Add `requestBody` to the operation, or remove the input.",
                        );
                    }
                    let template = Template::decode(entry.node, &entry.path, self.findings);
                    inputs.placed.insert(InputLocation::Body, template);
                }
                (Task::OpenApi(_), _) => match ParameterLocation::from_group(key) {
                    Some(group) => {
                        for (name, entry) in self.entries(&entry) {
                            self.place_input(task, Some(group), name, &entry, &mut inputs);
                        }
                    }
                    None => self.place_input(task, None, key, &entry, &mut inputs),
                },
                (Task::Graphql(_), "variables") => {
                    for (name, entry) in self.entries(&entry) {
                        self.place_input(task, None, name, &entry, &mut inputs);
                    }
                }
                (Task::Graphql(_), _) => {
                    self.findings.error_with_hint(
                        error_code::UNKNOWN_INPUT,
                        entry.at_key(),
                        format!(
                            "a GraphQL step accepts `variables`, not `{}`",
                            shorten_for_message(key)
                        ),
                        "Write the values below `variables`.",
                    );
                    // Missing ones are known only after the values are moved there.
                    inputs.misplaced.extend(required_places(task));
                }
                (Task::Mcp(_), "arguments") => {
                    for (name, entry) in self.entries(&entry) {
                        self.place_input(task, None, name, &entry, &mut inputs);
                    }
                }
                (Task::Mcp(_), _) => {
                    self.findings.error_with_hint(
                        error_code::UNKNOWN_INPUT,
                        entry.at_key(),
                        format!(
                            "an MCP step accepts `arguments`, not `{}`",
                            shorten_for_message(key)
                        ),
                        "Write the values below `arguments`.",
                    );
                    inputs.misplaced.extend(required_places(task));
                }
            }
        }
        for place in required_places(task) {
            if !inputs.placed.contains_key(&place) && !inputs.misplaced.contains(&place) {
                let message = format!("the step does not map `{place}`, which the task requires");
                let hint = format!("Add it to `input_mapping`: `{place}`.");
                self.findings.error_with_hint(
                    error_code::MISSING_INPUT,
                    step.at_value(),
                    message,
                    hint,
                );
            }
        }
        inputs.placed
    }

    /// Assigns one named input to its location: a parameter of the operation, a variable of the query, or
    /// an argument of the tool.
    fn place_input(
        &mut self,
        task: &Task,
        group: Option<ParameterLocation>,
        name: &str,
        entry: &DocumentField<'n>,
        inputs: &mut DecodedInputs,
    ) {
        let template = Template::decode(entry.node, &entry.path, self.findings);
        if let Task::Mcp(tool) = task
            && tool.accepts_other_arguments()
        {
            inputs.placed.insert(InputLocation::Argument(name.to_owned()), template);
            return;
        }
        let places = parameter_places(task);
        let called: Vec<&InputLocation> =
            places.iter().filter(|place| place_is_called(place, name)).collect();
        let fitting: Vec<&InputLocation> = called
            .iter()
            .copied()
            .filter(|place| group.is_none_or(|group| group.holds(place)))
            .collect();
        match fitting.as_slice() {
            [place] => {
                if inputs.placed.insert((*place).clone(), template).is_some() {
                    let message = format!("`{place}` is mapped twice");
                    self.findings.error(error_code::DUPLICATE_KEY, entry.at_key(), message);
                }
            }
            [] => {
                let (hint, meant) = suggest_place(&called, &places, name);
                let message = format!(
                    "the task does not accept an input `{}` here",
                    shorten_for_message(name)
                );
                self.findings.error_with_hint(
                    error_code::UNKNOWN_INPUT,
                    entry.at_key(),
                    message,
                    hint,
                );
                inputs.misplaced.extend(meant.cloned());
            }
            [_, _, ..] => {
                let list: Vec<_> = fitting.iter().map(|place| format!("`{place}`")).collect();
                let message = format!("`{name}` is ambiguous: it could be {}", list.join(" or "));
                let hint = format!("Write it under {}.", groups_of(&fitting));
                self.findings.error_with_hint(
                    error_code::AMBIGUOUS_INPUT,
                    entry.at_key(),
                    message,
                    hint,
                );
                inputs.misplaced.extend(fitting.into_iter().cloned());
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
