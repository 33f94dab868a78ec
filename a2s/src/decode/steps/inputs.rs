//! Input mappings of tasks: each value gets its place in the request.

use std::collections::BTreeSet;

use super::Decoder;
use crate::diagnostic::did_you_mean;
use crate::document::TaskInputs;
use crate::error_code;
use crate::field_reader::{Taken, short};
use crate::task::Place;
use crate::task::{ParameterPlace, Task};
use crate::template::Template;

/// The inputs of a task while they are read.
struct Inputs {
    placed: TaskInputs,
    /// The places of inputs that are wrong in another way: they are not missing as well.
    meant: BTreeSet<Place>,
}

impl<'n> Decoder<'n, '_> {
    /// Gives each input its place in the request, and reports those that have none and those that
    /// are missing.
    pub(super) fn decode_inputs(
        &mut self,
        task: &Task,
        mapping: Option<Taken<'n>>,
        step: &Taken<'n>,
    ) -> TaskInputs {
        let mut inputs = Inputs { placed: TaskInputs::new(), meant: BTreeSet::new() };
        for (key, entry) in mapping.map_or_else(Vec::new, |mapping| self.entries(&mapping)) {
            match (task, key) {
                (Task::OpenApi(operation), "body") => {
                    if operation.body.is_none() {
                        self.findings.error_with_hint(
                            error_code::UNKNOWN_INPUT,
                            &entry.path,
                            entry.key,
                            "the operation takes no body",
                            "Add `requestBody` to the operation, or remove the input.",
                        );
                    }
                    let template = Template::decode(entry.node, &entry.path, self.findings);
                    inputs.placed.insert(Place::Body, template);
                }
                (Task::OpenApi(_), _) => match ParameterPlace::of_group(key) {
                    Some(group) => {
                        for (name, entry) in self.entries(&entry) {
                            self.place(task, Some(group), name, &entry, &mut inputs);
                        }
                    }
                    None => self.place(task, None, key, &entry, &mut inputs),
                },
                (Task::Graphql(_), "variables") => {
                    for (name, entry) in self.entries(&entry) {
                        self.place(task, None, name, &entry, &mut inputs);
                    }
                }
                (Task::Graphql(_), _) => {
                    self.findings.error_with_hint(
                        error_code::UNKNOWN_INPUT,
                        &entry.path,
                        entry.key,
                        format!("a GraphQL step takes `variables`, not `{}`", short(key)),
                        "Write the values below `variables`.",
                    );
                    // Which of them are missing is only known once they stand there.
                    inputs.meant.extend(required_places(task));
                }
                (Task::Mcp(_), "arguments") => {
                    for (name, entry) in self.entries(&entry) {
                        self.place(task, None, name, &entry, &mut inputs);
                    }
                }
                (Task::Mcp(_), _) => {
                    self.findings.error_with_hint(
                        error_code::UNKNOWN_INPUT,
                        &entry.path,
                        entry.key,
                        format!("an MCP step takes `arguments`, not `{}`", short(key)),
                        "Write the values below `arguments`.",
                    );
                    inputs.meant.extend(required_places(task));
                }
            }
        }
        for place in required_places(task) {
            if !inputs.placed.contains_key(&place) && !inputs.meant.contains(&place) {
                let message = format!("the task needs `{place}`, which the step does not map");
                let hint = format!("Add it to `input_mapping`: `{place}`.");
                let at = step.node.position;
                self.findings.error_with_hint(
                    error_code::MISSING_INPUT,
                    &step.path,
                    at,
                    message,
                    hint,
                );
            }
        }
        inputs.placed
    }

    /// Places one named input: a parameter of the operation, a variable of the query, or an argument
    /// of the tool.
    fn place(
        &mut self,
        task: &Task,
        group: Option<ParameterPlace>,
        name: &str,
        entry: &Taken<'n>,
        inputs: &mut Inputs,
    ) {
        let template = Template::decode(entry.node, &entry.path, self.findings);
        if let Task::Mcp(tool) = task
            && tool.takes_others()
        {
            inputs.placed.insert(Place::Argument(name.to_owned()), template);
            return;
        }
        let places = parameter_places(task);
        let called: Vec<&Place> =
            places.iter().filter(|place| place_is_called(place, name)).collect();
        let fitting: Vec<&Place> = called
            .iter()
            .copied()
            .filter(|place| group.is_none_or(|group| group.holds(place)))
            .collect();
        match fitting.as_slice() {
            [place] => {
                if inputs.placed.insert((*place).clone(), template).is_some() {
                    let message = format!("`{place}` is mapped twice");
                    let at = entry.key;
                    self.findings.error(error_code::DUPLICATE_KEY, &entry.path, at, message);
                }
            }
            [] => {
                let (hint, meant) = suggest_place(&called, &places, name);
                let message = format!("the task takes no input `{}` here", short(name));
                let at = entry.key;
                self.findings.error_with_hint(
                    error_code::UNKNOWN_INPUT,
                    &entry.path,
                    at,
                    message,
                    hint,
                );
                inputs.meant.extend(meant.cloned());
            }
            [_, _, ..] => {
                let list: Vec<_> = fitting.iter().map(|place| format!("`{place}`")).collect();
                let message = format!("`{name}` could be {}", list.join(" or "));
                let hint = format!("Write it under {}.", groups_of(&fitting));
                let at = entry.key;
                self.findings.error_with_hint(
                    error_code::AMBIGUOUS_INPUT,
                    &entry.path,
                    at,
                    message,
                    hint,
                );
                inputs.meant.extend(fitting.into_iter().cloned());
            }
        }
    }
}

/// What to do about an input `name` that has no place, and the place that was meant.
fn suggest_place<'p>(
    called: &[&'p Place],
    places: &'p [Place],
    name: &str,
) -> (String, Option<&'p Place>) {
    if let Some(place) = called.first() {
        return (format!("Write it under {}.", groups_of(&[place])), Some(place));
    }
    let close = did_you_mean(name, places.iter().map(place_name));
    let meant = close.and_then(|close| places.iter().find(|place| place_name(place) == close));
    let hint = match meant {
        Some(place) => format!("Did you mean `{}`?", place_name(place)),
        None if places.is_empty() => "The task takes no inputs.".to_owned(),
        None => {
            let list: Vec<_> = places.iter().map(|place| format!("`{place}`")).collect();
            format!("It takes {}.", list.join(", "))
        }
    };
    (hint, meant)
}

/// The mappings that hold these places: "`pathParameters` or `queryParameters`".
fn groups_of(places: &[&Place]) -> String {
    let groups: Vec<_> = places
        .iter()
        .map(|place| match place {
            Place::Path(_) => "`pathParameters`",
            Place::Query(_) => "`queryParameters`",
            Place::Header(_) => "`headerParameters`",
            Place::Cookie(_) => "`cookieParameters`",
            Place::Variable(_) => "`variables`",
            Place::Argument(_) => "`arguments`",
            Place::Body => "`body`",
        })
        .collect();
    groups.join(" or ")
}

/// Every named place of a task.
fn parameter_places(task: &Task) -> Vec<Place> {
    match task {
        Task::OpenApi(operation) => {
            operation.parameters.iter().map(|parameter| parameter.input_place()).collect()
        }
        Task::Graphql(operation) => {
            operation.variables.iter().map(|v| Place::Variable(v.name.clone())).collect()
        }
        Task::Mcp(tool) => tool.arguments().map(|name| Place::Argument(name.to_owned())).collect(),
    }
}

/// The places without which the task cannot be sent.
fn required_places(task: &Task) -> Vec<Place> {
    match task {
        Task::OpenApi(operation) => {
            let body = operation.body.as_ref().is_some_and(|body| body.required);
            operation
                .parameters
                .iter()
                .filter(|parameter| parameter.required && !parameter.is_idempotency_key())
                .map(|parameter| parameter.input_place())
                .chain(body.then_some(Place::Body))
                .collect()
        }
        Task::Graphql(operation) => operation
            .variables
            .iter()
            .filter(|variable| variable.required)
            .map(|variable| Place::Variable(variable.name.clone()))
            .collect(),
        Task::Mcp(tool) => tool.required().map(|name| Place::Argument(name.to_owned())).collect(),
    }
}

fn place_name(place: &Place) -> &str {
    match place {
        Place::Path(name)
        | Place::Query(name)
        | Place::Header(name)
        | Place::Cookie(name)
        | Place::Variable(name)
        | Place::Argument(name) => name,
        Place::Body => "body",
    }
}

/// Header names do not tell case apart (RFC 9110, 5.1); all others do.
fn place_is_called(place: &Place, name: &str) -> bool {
    match place {
        Place::Header(header) => header.eq_ignore_ascii_case(name),
        _ => place_name(place) == name,
    }
}
