//! Changing the part of a message that its hook covers: set, remove, redact.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aos::message::{
    ContentPart, DataContent, Limits, MethodCall, Object, ToolArgumentValue, parse_json,
};
use serde_json::Value;

use super::path::MessagePath;
use super::redaction::RedactionPattern;
use super::unknown_facts::{
    HiddenParts, UnknownFacts, contains_placeholder, has_placeholder, is_placeholder,
};

/// The changes of a rule, in this order.
#[derive(Clone, Debug, Default)]
pub(super) struct Modification {
    pub(super) set: Vec<(MessagePath, Value)>,
    pub(super) remove: Vec<MessagePath>,
    pub(super) redact: Vec<Redaction>,
}

/// A redaction: a pattern everywhere or at a path, or every value at a path.
#[derive(Clone, Debug)]
pub(super) struct Redaction {
    pub(super) path: Option<MessagePath>,
    pub(super) pattern: Option<RedactionPattern>,
    pub(super) replacement: String,
    /// Set when the redaction is for a record, which may show the placeholder of a secret.
    pub(super) is_for_record: bool,
}

/// The parsed JSON of texts. Each text is parsed once for all rules and for the log.
#[derive(Debug, Default)]
pub(crate) struct ParsedTexts(BTreeMap<String, ParsedText>);

/// The parsed form of a text.
#[derive(Debug)]
enum ParsedText {
    Plain,
    Json {
        value: Value,
        /// Set when a member occurs twice. Parsing drops one of them, but the text would still contain it.
        is_ambiguous: bool,
        /// Set when the text has escapes. Without them, the text contains every name and every text of the
        /// value literally.
        has_escapes: bool,
    },
}

impl ParsedTexts {
    /// Returns the array or object in a text, if it was parsed.
    pub(crate) fn get(&self, text: &str) -> Option<&Value> {
        match self.0.get(text)? {
            ParsedText::Json { value, .. } => Some(value),
            ParsedText::Plain => None,
        }
    }

    fn read(&mut self, text: &str) -> &mut ParsedText {
        if !self.0.contains_key(text) {
            self.0.insert(text.to_owned(), ParsedText::parse(text));
        }
        self.0.get_mut(text).expect("it was just put there")
    }

    /// Moves the parsed form of a text to its new text.
    fn rename(&mut self, text: &str, new: &str) {
        if let Some(reading) = self.0.remove(text) {
            self.0.insert(new.to_owned(), reading);
        }
    }
}

impl ParsedText {
    fn parse(text: &str) -> Self {
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
    /// Changes the part of a message that its hook covers. Returns true when anything changed.
    pub(super) fn apply(&self, call: &mut Cow<'_, MethodCall>, opened: &mut ParsedTexts) -> bool {
        let unknown = UnknownFacts::from_call(call);
        let Some(changed) = self.modified_part(call, opened, &unknown) else { return false };
        changed.put_into(call.to_mut());
        true
    }

    /// Returns the paths whose values the change determines.
    pub(super) fn known_paths(&self) -> impl Iterator<Item = &MessagePath> {
        self.set.iter().map(|(path, _)| path).chain(&self.remove)
    }

    /// Returns the new content of the covered part, if it changes.
    pub(super) fn modified_part(
        &self,
        call: &MethodCall,
        opened: &mut ParsedTexts,
        unknown: &UnknownFacts,
    ) -> Option<ModifiedPart> {
        let hidden = &unknown.hidden_parts(call);
        match call {
            MethodCall::ToolCallRequest(step) => {
                let mut inputs = step.tool_call_request.inputs.clone();
                self.change_inputs(&mut inputs, hidden).then_some(ModifiedPart::Inputs(inputs))
            }
            MethodCall::ToolCallResult(step) => self.modified_texts(
                step.result.outputs.iter().map(|part| &part.text),
                opened,
                hidden,
            ),
            MethodCall::KnowledgeRetrieval(step) => {
                let results = step.knowledge_step.results.iter();
                self.modified_texts(results.map(|result| &result.content), opened, hidden)
            }
            MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step) => {
                self.modified_texts(step.memory.iter(), opened, hidden)
            }
            MethodCall::AgentTrigger(step) => {
                self.modified_parts(&step.trigger.content, opened, hidden)
            }
            MethodCall::Message(step) => self.modified_parts(&step.message.content, opened, hidden),
            MethodCall::Mcp(step) => self.modified_object(&step.message, hidden),
            MethodCall::A2a(_, step) => self.modified_object(&step.payload, hidden),
            MethodCall::Ping(_) => None,
        }
    }

    fn modified_texts<'t>(
        &self,
        texts: impl Iterator<Item = &'t String>,
        opened: &mut ParsedTexts,
        hidden: &HiddenParts,
    ) -> Option<ModifiedPart> {
        let texts = texts.enumerate();
        let texts = texts
            .map(|(at, text)| self.modified_text(text, opened, hidden.enter_item(at).has_all()));
        let texts: Vec<_> = texts.collect();
        texts.iter().any(Option::is_some).then_some(ModifiedPart::Texts(texts))
    }

    fn modified_parts(
        &self,
        parts: &[ContentPart],
        opened: &mut ParsedTexts,
        hidden: &HiddenParts,
    ) -> Option<ModifiedPart> {
        let mut parts = parts.to_vec();
        // The content of a file is not text that could be read here.
        let texts = parts.iter_mut().filter(|part| !matches!(part, ContentPart::File(_)));
        let changed = texts.enumerate().fold(false, |changed, (at, part)| {
            self.change_part(part, opened, hidden.enter_item(at).has_all()) | changed
        });
        changed.then_some(ModifiedPart::Parts(parts))
    }

    fn modified_object(&self, object: &Object, hidden: &HiddenParts) -> Option<ModifiedPart> {
        let mut object = object.clone();
        self.change_object(&mut object, hidden).then_some(ModifiedPart::Object(object))
    }

    fn change_part(
        &self,
        part: &mut ContentPart,
        opened: &mut ParsedTexts,
        is_hidden: bool,
    ) -> bool {
        let hidden = if is_hidden { HiddenParts::all() } else { HiddenParts::default() };
        match part {
            ContentPart::Text(part) => {
                let changed = self.modified_text(&part.text, opened, is_hidden);
                changed.map(|text| part.text = text).is_some()
            }
            ContentPart::Data(part) => match &mut part.data {
                DataContent::Object(object) => self.change_object(object, &hidden),
                DataContent::Array(items) => {
                    let mut value = Value::Array(std::mem::take(items));
                    let changed = self.change(&mut value, None, &hidden);
                    // A list stays a list: whatever it was replaced by is its one item.
                    *items = if let Value::Array(items) = value { items } else { vec![value] };
                    changed
                }
            },
            ContentPart::File(_) => false,
        }
    }

    fn change_object(&self, object: &mut Object, hidden: &HiddenParts) -> bool {
        let mut value = Value::Object(std::mem::take(object));
        let changed = self.change(&mut value, None, hidden);
        if let Value::Object(changed) = value {
            *object = changed;
        }
        changed
    }

    /// Changes a value. `text` is the text that the value was parsed from, if there is one without escapes.
    fn change(&self, value: &mut Value, text: Option<&str>, hidden: &HiddenParts) -> bool {
        let mut changed = false;
        for (path, new) in &self.set {
            changed |= path.set(value, new);
        }
        for path in &self.remove {
            changed |= path.remove(value);
        }
        for redaction in &self.redact {
            let is_foreign = !changed && text.is_some_and(|text| redaction.cannot_match(text));
            changed |= !is_foreign && redaction.apply(value, hidden);
        }
        changed
    }

    /// Changes the inputs, which are a list of dotted names. A path begins with one of them. A path that
    /// matches no input becomes a new input.
    fn change_inputs(&self, inputs: &mut Vec<ToolArgumentValue>, hidden: &HiddenParts) -> bool {
        let mut changed = false;
        for (path, new) in &self.set {
            let mut is_known = false;
            for (input, inner) in inputs_of_path(inputs, path) {
                is_known = true;
                changed |= inner.set(&mut input.value, new);
            }
            if let (false, Some(name)) = (is_known, path.to_dotted_name()) {
                inputs.push(ToolArgumentValue::new(name, new.clone()));
                changed = true;
            }
        }
        for path in &self.remove {
            let before = inputs.len();
            inputs.retain(|input| {
                !path.to_dotted_name().is_some_and(|name| covers_input(&name, &input.name))
            });
            changed |= inputs.len() < before;
            for (input, inner) in inputs_of_path(inputs, path) {
                changed |= inner.remove(&mut input.value);
            }
        }
        for redaction in &self.redact {
            match &redaction.path {
                None => {
                    for input in inputs.iter_mut() {
                        changed |= redaction.apply(&mut input.value, &hidden.enter(&input.name));
                    }
                }
                Some(path) => {
                    let name = path.to_dotted_name();
                    for input in inputs.iter_mut() {
                        let hidden = &hidden.enter(&input.name);
                        if name.as_ref().is_some_and(|name| covers_input(name, &input.name)) {
                            changed |= redaction.apply_to_value(&mut input.value, hidden);
                        } else if let Some(inner) = path.relative_to(&input.name) {
                            changed |= inner.edit_values(
                                &mut input.value,
                                hidden,
                                &mut |value, hidden| redaction.apply_to_value(value, hidden),
                            );
                        }
                    }
                }
            }
        }
        changed
    }

    /// Returns the changed text, or `None` if the text does not change. JSON is changed as JSON, so that it
    /// stays JSON; any other text is changed as text. Of a hidden text, placeholders show what is hidden; if
    /// there are none, all of it is.
    fn modified_text(
        &self,
        text: &str,
        opened: &mut ParsedTexts,
        is_hidden: bool,
    ) -> Option<String> {
        if let ParsedText::Json { value, is_ambiguous, has_escapes } = opened.read(text) {
            let is_all_hidden = is_hidden && !contains_placeholder(value);
            let hidden = if is_all_hidden { HiddenParts::all() } else { HiddenParts::default() };
            let plain = Some(text).filter(|_| !*has_escapes && !is_all_hidden);
            if !(self.change(value, plain, &hidden) | std::mem::take(is_ambiguous)) {
                return None;
            }
            let new = value.to_string();
            *has_escapes = new.contains('\\');
            opened.rename(text, &new);
            return Some(new);
        }
        let wide = self.redact.iter().filter(|redaction| redaction.path.is_none());
        wide.fold(None, |changed, redaction| {
            let text = changed.as_deref().unwrap_or(text);
            let redacted = if is_hidden && redaction.pattern.is_some() {
                Some(redaction.replacement.clone()).filter(|new| new != text)
            } else {
                redaction.redact_text(text)
            };
            redacted.or(changed)
        })
    }
}

impl Redaction {
    /// Returns true when the redaction surely finds nothing in JSON with this text, which has no escapes.
    fn cannot_match(&self, text: &str) -> bool {
        let mut names = self.path.iter().flat_map(MessagePath::names);
        let is_email = matches!(self.pattern, Some(RedactionPattern::Email));
        names.any(|name| !text.contains(name))
            || (is_email && !text.contains('@') && !has_placeholder(text))
    }

    /// Returns the redaction as it is applied to records.
    pub(super) fn for_record(&self) -> Self {
        Self { is_for_record: true, ..self.clone() }
    }

    fn apply(&self, value: &mut Value, hidden: &HiddenParts) -> bool {
        match &self.path {
            None => self.apply_to_value(value, hidden),
            Some(path) => path.edit_values(value, hidden, &mut |value, hidden| {
                self.apply_to_value(value, hidden)
            }),
        }
    }

    fn apply_to_value(&self, value: &mut Value, hidden: &HiddenParts) -> bool {
        let is_leaf = matches!(value, Value::String(_) | Value::Number(_));
        if self.pattern.is_none() || (is_leaf && hidden.has_all()) {
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
                items.iter_mut().enumerate().fold(false, |changed, (at, item)| {
                    self.apply_to_value(item, &hidden.enter_item(at)) | changed
                })
            }
            Value::Object(members) => self.apply_to_members(members, hidden),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Redacts the members of an object, including their names: an address may be the key of an object.
    fn apply_to_members(&self, members: &mut Object, hidden: &HiddenParts) -> bool {
        let mut changed = members.iter_mut().fold(false, |changed, (name, value)| {
            self.apply_to_value(value, &hidden.enter(name)) | changed
        });
        if members.keys().any(|name| self.redact_text(name).is_some()) {
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
        let Some(redacted) = self.redact_text(text) else { return false };
        *text = redacted;
        true
    }

    /// Returns the redacted text, or `None` if the text does not change. A match may be hidden in a text with
    /// a placeholder, so all of the text is replaced.
    fn redact_text(&self, text: &str) -> Option<String> {
        let pattern = self.pattern.as_ref()?;
        if has_placeholder(text) && text != self.replacement {
            let stays = self.is_for_record && is_placeholder(text);
            return (!stays).then(|| self.replacement.clone());
        }
        match pattern.redact(text, &self.replacement) {
            Cow::Owned(redacted) if redacted != text => Some(redacted),
            _ => None,
        }
    }
}

/// Returns true when a location covers an input: it is the input, or an object that contains the input.
fn covers_input(place: &str, input: &str) -> bool {
    input.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the inputs that a path leads into, each with the rest of the path.
fn inputs_of_path<'a>(
    inputs: &'a mut [ToolArgumentValue],
    path: &'a MessagePath,
) -> impl Iterator<Item = (&'a mut ToolArgumentValue, MessagePath)> {
    inputs.iter_mut().filter_map(|input| path.relative_to(&input.name).map(|inner| (input, inner)))
}

/// The new content of the part of a message that its hook covers. Most rules change nothing, so unchanged
/// content is not copied.
pub(super) enum ModifiedPart {
    Inputs(Vec<ToolArgumentValue>),
    /// The new content of each text of the message, if it changes.
    Texts(Vec<Option<String>>),
    Parts(Vec<ContentPart>),
    Object(Object),
}

impl ModifiedPart {
    /// Puts the changed part into its message.
    pub(super) fn put_into(self, call: &mut MethodCall) {
        match (call, self) {
            (MethodCall::ToolCallRequest(step), Self::Inputs(inputs)) => {
                step.tool_call_request.inputs = inputs;
            }
            (MethodCall::ToolCallResult(step), Self::Texts(texts)) => {
                put_texts(step.result.outputs.iter_mut().map(|part| &mut part.text), texts);
            }
            (MethodCall::KnowledgeRetrieval(step), Self::Texts(texts)) => {
                let results = step.knowledge_step.results.iter_mut();
                put_texts(results.map(|result| &mut result.content), texts);
            }
            (
                MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step),
                Self::Texts(texts),
            ) => {
                put_texts(step.memory.iter_mut(), texts);
            }
            (MethodCall::AgentTrigger(step), Self::Parts(parts)) => step.trigger.content = parts,
            (MethodCall::Message(step), Self::Parts(parts)) => step.message.content = parts,
            (MethodCall::Mcp(step), Self::Object(object)) => step.message = object,
            (MethodCall::A2a(_, step), Self::Object(object)) => step.payload = object,
            (_, _) => {}
        }
    }
}

fn put_texts<'t>(old: impl Iterator<Item = &'t mut String>, new: Vec<Option<String>>) {
    for (old, new) in old.zip(new) {
        if let Some(new) = new {
            *old = new;
        }
    }
}
