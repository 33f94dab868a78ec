//! Changing the part of a message that its hook covers: set, remove, redact.

use std::borrow::Cow;

use aos::message::{Call, Data, Limits, Object, Part, TextPart, ToolArgumentValue, parse_json};
use serde_json::Value;

use super::path::Path;
use super::redaction::Pattern;

/// What a rule changes, in this order.
#[derive(Clone, Debug, Default)]
pub(super) struct Modification {
    pub(super) set: Vec<(Path, Value)>,
    pub(super) remove: Vec<Path>,
    pub(super) redact: Vec<Redaction>,
}

/// One redaction: a pattern everywhere or at a place, or whatever is at a place.
#[derive(Clone, Debug)]
pub(super) struct Redaction {
    pub(super) path: Option<Path>,
    pub(super) pattern: Option<Pattern>,
    pub(super) replacement: String,
}

/// The texts of one message as the JSON that they are, read once for all rules. It belongs to that
/// message, and to no other.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    texts: Vec<Option<Reading>>,
}

/// What a text is.
#[derive(Debug)]
enum Reading {
    Plain,
    /// A member that is there twice is dropped on reading, and would stay in the text unseen.
    Json {
        value: Value,
        is_ambiguous: bool,
    },
}

impl Opened {
    /// The text of a place in the order of the message.
    fn at(&mut self, place: usize) -> &mut Option<Reading> {
        if self.texts.len() <= place {
            self.texts.resize_with(place + 1, || None);
        }
        &mut self.texts[place]
    }
}

impl Reading {
    fn of(text: &str) -> Self {
        let limits = Limits { bytes: usize::MAX, depth: usize::MAX };
        let (value, is_ambiguous) = match parse_json(text.as_bytes(), limits) {
            Ok(value) => (value, false),
            Err(_) => (serde_json::from_str(text).unwrap_or_default(), true),
        };
        match value {
            Value::Object(_) | Value::Array(_) => Self::Json { value, is_ambiguous },
            _ => Self::Plain,
        }
    }
}

impl Modification {
    /// Change the covered part of a message. Whether anything was changed.
    pub(super) fn apply(&self, call: &mut Call, opened: &mut Opened) -> bool {
        let mut place = 0;
        for_each_piece(call, &mut |piece| match piece {
            Piece::Json(value) => self.change(value),
            Piece::Inputs(inputs) => self.change_inputs(inputs),
            Piece::Text(text) => {
                place += 1;
                self.change_text(text, opened.at(place - 1))
            }
        })
    }

    fn change(&self, value: &mut Value) -> bool {
        let mut changed = false;
        for (path, new) in &self.set {
            changed |= path.set(value, new);
        }
        for path in &self.remove {
            changed |= path.remove(value);
        }
        for redaction in &self.redact {
            changed |= redaction.apply(value);
        }
        changed
    }

    /// The inputs are a list of dotted names: a path begins with one of them, and a place that no
    /// input has becomes a new input.
    fn change_inputs(&self, inputs: &mut Vec<ToolArgumentValue>) -> bool {
        let mut changed = false;
        for (path, new) in &self.set {
            let mut is_known = false;
            for (input, inner) in inputs_on_the_way(inputs, path) {
                is_known = true;
                changed |= inner.set(&mut input.value, new);
            }
            if let (false, Some(name)) = (is_known, path.as_name()) {
                inputs.push(ToolArgumentValue::new(name, new.clone()));
                changed = true;
            }
        }
        for path in &self.remove {
            let before = inputs.len();
            inputs.retain(|input| !path.as_name().is_some_and(|name| covers(&name, &input.name)));
            changed |= inputs.len() < before;
            for (input, inner) in inputs_on_the_way(inputs, path) {
                changed |= inner.remove(&mut input.value);
            }
        }
        for redaction in &self.redact {
            match &redaction.path {
                None => {
                    for input in inputs.iter_mut() {
                        changed |= redaction.apply(&mut input.value);
                    }
                }
                Some(path) => {
                    let name = path.as_name();
                    for input in inputs.iter_mut() {
                        if name.as_ref().is_some_and(|name| covers(name, &input.name)) {
                            changed |= redaction.apply_here(&mut input.value);
                        } else if let Some(inner) = path.inside(&input.name) {
                            changed |= inner
                                .edit(&mut input.value, &mut |value| redaction.apply_here(value));
                        }
                    }
                }
            }
        }
        changed
    }

    /// A text that is JSON is changed as JSON, so that it stays JSON; any other as text.
    fn change_text(&self, text: &mut String, reading: &mut Option<Reading>) -> bool {
        if let Reading::Json { value, is_ambiguous } =
            reading.get_or_insert_with(|| Reading::of(text))
        {
            let changed = self.change(value) | std::mem::take(is_ambiguous);
            if changed {
                *text = value.to_string();
            }
            return changed;
        }
        let wide = self.redact.iter().filter(|redaction| redaction.path.is_none());
        let changed =
            wide.fold(false, |changed, redaction| redaction.apply_to_text(text) | changed);
        if changed {
            // What is left may be JSON.
            *reading = None;
        }
        changed
    }
}

impl Redaction {
    fn apply(&self, value: &mut Value) -> bool {
        match &self.path {
            None => self.apply_here(value),
            Some(path) => path.edit(value, &mut |value| self.apply_here(value)),
        }
    }

    fn apply_here(&self, value: &mut Value) -> bool {
        if self.pattern.is_none() {
            let new = Value::String(self.replacement.clone());
            let differs = *value != new;
            *value = new;
            return differs;
        }
        match value {
            Value::String(text) => self.apply_to_text(text),
            Value::Number(number) => {
                let mut text = number.to_string();
                let changed = self.apply_to_text(&mut text);
                if changed {
                    *value = Value::String(text);
                }
                changed
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |changed, item| self.apply_here(item) | changed)
            }
            Value::Object(members) => self.apply_to_members(members),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Names are searched too: an address may be the key of an object.
    fn apply_to_members(&self, members: &mut Object) -> bool {
        let mut changed =
            members.values_mut().fold(false, |changed, value| self.apply_here(value) | changed);
        if members.keys().any(|name| self.apply_to_text(&mut name.clone())) {
            for (mut name, value) in std::mem::take(members) {
                self.apply_to_text(&mut name);
                let mut free = name.clone();
                let mut count = 2;
                while members.contains_key(&free) {
                    free = format!("{name} ({count})");
                    count += 1;
                }
                members.insert(free, value);
            }
            changed = true;
        }
        changed
    }

    fn apply_to_text(&self, text: &mut String) -> bool {
        let Some(pattern) = &self.pattern else { return false };
        match pattern.redact(text, &self.replacement) {
            Cow::Owned(redacted) if redacted != *text => {
                *text = redacted;
                true
            }
            _ => false,
        }
    }
}

/// Whether a place covers an input: it is the input, or an object that the input is in.
fn covers(place: &str, input: &str) -> bool {
    input.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The inputs in which a path goes on, with what is left of it.
fn inputs_on_the_way<'a>(
    inputs: &'a mut [ToolArgumentValue],
    path: &'a Path,
) -> impl Iterator<Item = (&'a mut ToolArgumentValue, Path)> {
    inputs.iter_mut().filter_map(|input| path.inside(&input.name).map(|inner| (input, inner)))
}

/// One piece of the part that a hook covers.
enum Piece<'a> {
    Json(&'a mut Value),
    Inputs(&'a mut Vec<ToolArgumentValue>),
    Text(&'a mut String),
}

fn for_each_piece(call: &mut Call, change: &mut dyn FnMut(Piece<'_>) -> bool) -> bool {
    match call {
        Call::ToolCallRequest(step) => change(Piece::Inputs(&mut step.tool_call_request.inputs)),
        Call::ToolCallResult(step) => {
            let outputs = step.result.outputs.iter_mut().map(|part: &mut TextPart| &mut part.text);
            for_each_text(outputs, change)
        }
        Call::AgentTrigger(step) => for_each_part(&mut step.trigger.content, change),
        Call::Message(step) => for_each_part(&mut step.message.content, change),
        Call::KnowledgeRetrieval(step) => for_each_text(
            step.knowledge_step.results.iter_mut().map(|result| &mut result.content),
            change,
        ),
        Call::MemoryStore(step) | Call::MemoryContextRetrieval(step) => {
            for_each_text(step.memory.iter_mut(), change)
        }
        Call::Mcp(step) => change_object(&mut step.message, change),
        Call::A2a(_, step) => change_object(&mut step.payload, change),
        Call::Ping(_) => false,
    }
}

fn for_each_text<'a>(
    texts: impl Iterator<Item = &'a mut String>,
    change: &mut dyn FnMut(Piece<'_>) -> bool,
) -> bool {
    texts.fold(false, |changed, text| change(Piece::Text(text)) | changed)
}

fn for_each_part(parts: &mut [Part], change: &mut dyn FnMut(Piece<'_>) -> bool) -> bool {
    parts.iter_mut().fold(false, |changed, part| {
        changed
            | match part {
                Part::Text(part) => change(Piece::Text(&mut part.text)),
                Part::Data(part) => match &mut part.data {
                    Data::Object(object) => change_object(object, change),
                    Data::Array(items) => {
                        let mut value = Value::Array(std::mem::take(items));
                        let changed = change(Piece::Json(&mut value));
                        // A list stays a list: whatever it was replaced by is its one item.
                        *items = if let Value::Array(items) = value { items } else { vec![value] };
                        changed
                    }
                },
                // The content of a file is not text that could be read here.
                Part::File(_) => false,
            }
    })
}

fn change_object(object: &mut Object, change: &mut dyn FnMut(Piece<'_>) -> bool) -> bool {
    let mut value = Value::Object(std::mem::take(object));
    let changed = change(Piece::Json(&mut value));
    if let Value::Object(changed) = value {
        *object = changed;
    }
    changed
}
