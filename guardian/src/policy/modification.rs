//! Changing the part of a message that its hook covers: set, remove, redact.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aos::message::{Call, Data, Limits, Object, Part, ToolArgumentValue, parse_json};
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

/// Texts as the JSON that they are: each is read once for all rules and for the log.
#[derive(Debug, Default)]
pub(crate) struct Opened(BTreeMap<String, Reading>);

/// What a text is.
#[derive(Debug)]
enum Reading {
    Plain,
    Json {
        value: Value,
        /// A member that is there twice is dropped on reading, and would stay in the text unseen.
        is_ambiguous: bool,
        /// Without escapes every name and every text of the value stands in the text as it is.
        has_escapes: bool,
    },
}

impl Opened {
    /// The array or object that a text is, if it was read.
    pub(crate) fn find(&self, text: &str) -> Option<&Value> {
        match self.0.get(text)? {
            Reading::Json { value, .. } => Some(value),
            Reading::Plain => None,
        }
    }

    fn read(&mut self, text: &str) -> &mut Reading {
        if !self.0.contains_key(text) {
            self.0.insert(text.to_owned(), Reading::of(text));
        }
        self.0.get_mut(text).expect("it was just put there")
    }

    /// A text has become another one, and what was read of it with it.
    fn rename(&mut self, text: &str, new: &str) {
        if let Some(reading) = self.0.remove(text) {
            self.0.insert(new.to_owned(), reading);
        }
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
            Value::Object(_) | Value::Array(_) => {
                Self::Json { value, is_ambiguous, has_escapes: text.contains('\\') }
            }
            _ => Self::Plain,
        }
    }
}

impl Modification {
    /// Change the covered part of a message. Whether anything was changed.
    pub(super) fn apply(&self, call: &mut Cow<'_, Call>, opened: &mut Opened) -> bool {
        let mut covered = Covered::of(call);
        let changed = match &mut covered {
            Covered::Inputs(inputs) => self.change_inputs(inputs),
            Covered::Texts(texts) => texts
                .iter_mut()
                .fold(false, |changed, text| self.change_text(text, opened) | changed),
            Covered::Parts(parts) => parts
                .iter_mut()
                .fold(false, |changed, part| self.change_part(part, opened) | changed),
            Covered::Object(object) => self.change_object(object),
            Covered::Nothing => false,
        };
        if changed {
            covered.put_into(call.to_mut());
        }
        changed
    }

    fn change_part(&self, part: &mut Part, opened: &mut Opened) -> bool {
        match part {
            Part::Text(part) => self.change_text(&mut part.text, opened),
            Part::Data(part) => match &mut part.data {
                Data::Object(object) => self.change_object(object),
                Data::Array(items) => {
                    let mut value = Value::Array(std::mem::take(items));
                    let changed = self.change(&mut value, None);
                    // A list stays a list: whatever it was replaced by is its one item.
                    *items = if let Value::Array(items) = value { items } else { vec![value] };
                    changed
                }
            },
            // The content of a file is not text that could be read here.
            Part::File(_) => false,
        }
    }

    fn change_object(&self, object: &mut Object) -> bool {
        let mut value = Value::Object(std::mem::take(object));
        let changed = self.change(&mut value, None);
        if let Value::Object(changed) = value {
            *object = changed;
        }
        changed
    }

    /// `text` is what the value was read from, if it was, and has no escapes.
    fn change(&self, value: &mut Value, text: Option<&str>) -> bool {
        let mut changed = false;
        for (path, new) in &self.set {
            changed |= path.set(value, new);
        }
        for path in &self.remove {
            changed |= path.remove(value);
        }
        for redaction in &self.redact {
            let is_foreign = !changed && text.is_some_and(|text| redaction.is_foreign_to(text));
            changed |= !is_foreign && redaction.apply(value);
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
    fn change_text(&self, text: &mut String, opened: &mut Opened) -> bool {
        if let Reading::Json { value, is_ambiguous, has_escapes } = opened.read(text) {
            let plain = Some(text.as_str()).filter(|_| !*has_escapes);
            let changed = self.change(value, plain) | std::mem::take(is_ambiguous);
            if changed {
                let new = value.to_string();
                *has_escapes = new.contains('\\');
                opened.rename(text, &new);
                *text = new;
            }
            return changed;
        }
        let wide = self.redact.iter().filter(|redaction| redaction.path.is_none());
        wide.fold(false, |changed, redaction| redaction.apply_to_text(text) | changed)
    }
}

impl Redaction {
    /// Whether it surely finds nothing in JSON that has this text, and no escapes.
    fn is_foreign_to(&self, text: &str) -> bool {
        let mut names = self.path.iter().flat_map(Path::names);
        let is_email = matches!(self.pattern, Some(Pattern::Email));
        names.any(|name| !text.contains(name)) || (is_email && !text.contains('@'))
    }

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
        if members.keys().any(|name| self.redacted(name).is_some()) {
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
        let Some(redacted) = self.redacted(text) else { return false };
        *text = redacted;
        true
    }

    /// The text as it becomes, if it becomes another one.
    fn redacted(&self, text: &str) -> Option<String> {
        match self.pattern.as_ref()?.redact(text, &self.replacement) {
            Cow::Owned(redacted) if redacted != text => Some(redacted),
            _ => None,
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

/// The part of a message that its hook covers. It is taken out to be changed, since most rules change
/// nothing, and the rest of a message need not be copied for them.
enum Covered {
    Inputs(Vec<ToolArgumentValue>),
    Texts(Vec<String>),
    Parts(Vec<Part>),
    Object(Object),
    Nothing,
}

impl Covered {
    fn of(call: &Call) -> Self {
        match call {
            Call::ToolCallRequest(step) => Self::Inputs(step.tool_call_request.inputs.clone()),
            Call::ToolCallResult(step) => {
                Self::Texts(step.result.outputs.iter().map(|part| part.text.clone()).collect())
            }
            Call::KnowledgeRetrieval(step) => {
                let results = step.knowledge_step.results.iter();
                Self::Texts(results.map(|result| result.content.clone()).collect())
            }
            Call::MemoryStore(step) | Call::MemoryContextRetrieval(step) => {
                Self::Texts(step.memory.clone())
            }
            Call::AgentTrigger(step) => Self::Parts(step.trigger.content.clone()),
            Call::Message(step) => Self::Parts(step.message.content.clone()),
            Call::Mcp(step) => Self::Object(step.message.clone()),
            Call::A2a(_, step) => Self::Object(step.payload.clone()),
            Call::Ping(_) => Self::Nothing,
        }
    }

    /// Back into the message that it is of.
    fn put_into(self, call: &mut Call) {
        match (call, self) {
            (Call::ToolCallRequest(step), Self::Inputs(inputs)) => {
                step.tool_call_request.inputs = inputs;
            }
            (Call::ToolCallResult(step), Self::Texts(texts)) => {
                let parts = step.result.outputs.iter_mut();
                parts.zip(texts).for_each(|(part, text)| part.text = text);
            }
            (Call::KnowledgeRetrieval(step), Self::Texts(texts)) => {
                let results = step.knowledge_step.results.iter_mut();
                results.zip(texts).for_each(|(result, text)| result.content = text);
            }
            (Call::MemoryStore(step) | Call::MemoryContextRetrieval(step), Self::Texts(texts)) => {
                step.memory = texts;
            }
            (Call::AgentTrigger(step), Self::Parts(parts)) => step.trigger.content = parts,
            (Call::Message(step), Self::Parts(parts)) => step.message.content = parts,
            (Call::Mcp(step), Self::Object(object)) => step.message = object,
            (Call::A2a(_, step), Self::Object(object)) => step.payload = object,
            (_, _) => {}
        }
    }
}
