//! The facts that a message hides or does not state. Pure.
//!
//! A fact is known, also known to be empty, or unknown: its shown value is masked, cut or stale, or a message
//! about a request leaves it out. `context.hidden.paths` names hidden facts as JSON pointers in the
//! vocabulary of conditions, such as `/inputs/body/account`. A text with the placeholder of a secret is
//! hidden even if no pointer names it, so a forged placeholder never makes a fact known.

use aos::message::{ContentPart, DataContent, Method, MethodCall, Object};
use bounded_cel::{ReadKind, ReadPath};
use serde_json::Value;

use super::message_facts::{RuleNames, VARIABLES};
use super::path::MessagePath;

/// The placeholder of a secret, as it is shown and as it is in an address.
const PLACEHOLDERS: [&str; 2] = ["(secret)", "%28secret%29"];
/// The maximum number of paths. Beyond it, whole variables are unknown.
const MAX_PATHS: usize = 512;
/// The members of a prepared request, except the body.
const REQUEST_MEMBERS: [&str; 6] = ["method", "url", "host", "path", "query", "headers"];
/// The members that contain another one of the request.
const DERIVED_MEMBERS: [(&str, &[&str]); 3] =
    [("path", &["segments", "url"]), ("query", &["url"]), ("host", &["url"])];

/// The path of a fact: the name of a variable, then members and items.
type FactPath = Vec<String>;

/// A result in three-valued logic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    True,
    False,
    /// The result depends on a fact that is unknown, which this names.
    Unknown(String),
}

impl Truth {
    /// Returns true when both are true, and false when one of them is false.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, other) => other,
            (unknown, _) => unknown,
        }
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// The unknown facts of a message.
#[derive(Debug, Default)]
pub(super) struct UnknownFacts {
    paths: Vec<FactPath>,
    /// The paths that the message itself names.
    stated: Vec<FactPath>,
    has_user: bool,
}

impl UnknownFacts {
    pub(super) fn from_call(call: &MethodCall) -> Self {
        let mut facts = Self { stated: stated_paths(call), ..Self::default() };
        facts.collect(call);
        facts
    }

    /// Returns the unknown facts of a message after a change. The values at `set` are known from now on, and
    /// the request that the message shows is no longer the one that it leads to.
    pub(super) fn after_change<'p>(
        mut self,
        call: &MethodCall,
        set: impl Iterator<Item = &'p MessagePath>,
    ) -> Self {
        let names: Vec<_> = set.filter_map(|path| input_name(call, path)).collect();
        let is_set = |path: &FactPath| {
            path.split_first().is_some_and(|(root, rest)| {
                root == "inputs" && names.iter().any(|name| rest.starts_with(name))
            })
        };
        self.stated.retain(|path| !is_set(path));
        self.paths.clear();
        self.collect(call);
        if states_request(call) {
            self.add(call, vec!["request".to_owned()]);
        }
        self
    }

    fn collect(&mut self, call: &MethodCall) {
        self.has_user = RuleNames::from_call(call).has_user();
        for path in self.stated.clone() {
            self.add(call, path);
        }
        if states_request(call) {
            self.add_unstated_members(call);
        }
        self.add_placeholders(call);
    }

    /// Returns true when a part that an expression reads is unknown.
    pub(super) fn covers(&self, read: &ReadPath) -> bool {
        let Some(root) = read.segments.first() else { return false };
        if !self.has_user && (root == "user" || root == "caller") {
            return true;
        }
        if !self.paths.iter().any(|path| path.first() == Some(root)) {
            return false;
        }
        let is_inputs = root == "inputs";
        // The dotted name of an input is available nested, too.
        let split = |segment: &str| -> Vec<String> {
            segment.split(|c: char| is_inputs && c == '.').map(str::to_owned).collect()
        };
        let mut read_path: FactPath = read.segments.iter().flat_map(|s| split(s)).collect();
        let is_existence = match &read.kind {
            ReadKind::Value => false,
            ReadKind::Existence => true,
            ReadKind::Containment(name) => {
                let is_object = matches!(
                    read_path.iter().map(String::as_str).collect::<Vec<_>>()[..],
                    ["inputs"] | ["request", "headers"]
                );
                if is_object {
                    read_path.extend(split(name));
                }
                is_object
            }
        };
        self.paths.iter().any(|path| {
            read_path.starts_with(path) || (!is_existence && path.starts_with(&read_path))
        })
    }

    /// Returns true when a name of the message is unknown: `["capability", "host"]`.
    pub(super) fn covers_name(&self, path: [&str; 2]) -> bool {
        let mut names =
            self.paths.iter().filter(|unknown| unknown.first().is_some_and(|s| s == path[0]));
        names.any(|unknown| unknown.iter().zip(path).all(|(a, b)| a == b))
    }

    /// Returns true for a fact that is unknown only because the message has no user.
    pub(super) fn is_absent_user(&self, fact: &str) -> bool {
        !self.has_user && (fact.starts_with("user") || fact.starts_with("caller"))
    }

    /// Returns the parts that the message names as hidden in what a change of it covers: its inputs, its
    /// texts, or its MCP or A2A message. Placeholders are not among them.
    pub(super) fn hidden_parts(&self, call: &MethodCall) -> HiddenParts {
        let mut parts = Vec::new();
        for path in &self.stated {
            let [root, rest @ ..] = path.as_slice() else { continue };
            match (call, root.as_str()) {
                (MethodCall::Mcp(_) | MethodCall::A2a(..), _) => {
                    let in_params =
                        if root == "params" { Some(path.clone()) } else { params_path(call, path) };
                    parts.extend(in_params.map(|path| path.into_iter().skip(2).collect()));
                }
                (MethodCall::ToolCallRequest(_), "inputs") => parts.push(rest.to_vec()),
                (MethodCall::ToolCallRequest(_), _) => {}
                (_, "outputs" | "texts" | "params") => {
                    parts.push(rest.iter().take(usize::from(root != "params")).cloned().collect());
                }
                _ => {}
            }
        }
        HiddenParts(parts)
    }

    fn add(&mut self, call: &MethodCall, mut path: FactPath) {
        match path.first().map(String::as_str) {
            Some("outputs" | "texts") => path.truncate(2),
            Some("inputs") => path = split_dots(&path),
            Some("request") if path.get(1).is_some_and(|name| name == "headers") => {
                path.iter_mut().for_each(|name| name.make_ascii_lowercase());
            }
            _ => {}
        }
        if MAX_PATHS <= self.paths.len() {
            path.truncate(1);
        }
        if self.paths.contains(&path) {
            return;
        }
        if let [root, member] = &path[..]
            && root == "request"
        {
            let derived = DERIVED_MEMBERS.iter().filter(|(name, _)| name == member);
            for name in derived.flat_map(|(_, names)| *names) {
                self.add(call, vec!["request".to_owned(), (*name).to_owned()]);
            }
        }
        let in_params = params_path(call, &path);
        self.paths.push(path);
        self.paths.extend(in_params);
    }

    /// Adds the members of the request that the message does not state.
    fn add_unstated_members(&mut self, call: &MethodCall) {
        let request = call.context().and_then(|context| context.extra.get("request"));
        let Some(request) = request else {
            return self.add(call, vec!["request".to_owned()]);
        };
        let is_stated = |name: &str| request.get(name).is_some_and(|value| !value.is_null());
        let mut add = |names: &[&str]| {
            let path = ["request"].iter().chain(names).map(|name| (*name).to_owned());
            self.add(call, path.collect());
        };
        for name in REQUEST_MEMBERS.into_iter().filter(|name| !is_stated(name)) {
            add(&[name]);
        }
        let Some(body) = request.get("body").and_then(Value::as_object) else {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let is_bodiless = ["GET", "HEAD", "OPTIONS", "TRACE"]
                .iter()
                .any(|name| name.eq_ignore_ascii_case(method));
            if !is_bodiless {
                add(&["body"]);
            }
            return;
        };
        let bytes = body.get("bytes").and_then(Value::as_u64);
        let is_cut = body.get("truncated") == Some(&Value::Bool(true));
        if is_cut || (bytes != Some(0) && !body.get("text").is_some_and(Value::is_string)) {
            add(&["body", "text"]);
        }
        if bytes.is_none() {
            add(&["body", "bytes"]);
        }
        if !body.get("checksum").is_some_and(Value::is_string) {
            add(&["body", "checksum"]);
        }
    }

    /// Adds the paths of the texts that contain the placeholder.
    fn add_placeholders(&mut self, call: &MethodCall) {
        let mut found = Vec::new();
        let mut search = |path: &[&str], value: &Value| {
            let mut path = path.iter().map(|name| (*name).to_owned()).collect();
            find_placeholders(value, &mut path, &mut found);
        };
        if let Some(context) = call.context() {
            for name in ["request", "capability"] {
                for (member, value) in context.extra.get(name).into_iter().flatten() {
                    search(&[name, member], value);
                }
            }
            for (member, value) in context.session.metadata.iter().flatten() {
                search(&["metadata", member], value);
            }
        }
        match call {
            MethodCall::ToolCallRequest(step) => {
                for input in &step.tool_call_request.inputs {
                    search(&["inputs", &input.name], &input.value);
                }
            }
            MethodCall::Mcp(step) => {
                let is_call = step.message.contains_key("params");
                for (member, value) in &step.message {
                    search(&["params", "message", member], value);
                }
                if is_call && let Some(arguments) = arguments_of(&step.message) {
                    arguments.iter().for_each(|(name, value)| search(&["inputs", name], value));
                }
            }
            MethodCall::A2a(_, step) => {
                for (member, value) in &step.payload {
                    search(&["params", "payload", member], value);
                }
                if !found.is_empty() {
                    // Not by `add`, which hides the whole payload.
                    self.paths.push(vec!["texts".to_owned()]);
                }
            }
            MethodCall::ToolCallResult(step) => {
                let texts = step.result.outputs.iter().map(|part| part.text.as_str());
                for at in hidden_texts(texts) {
                    found.push(vec!["outputs".to_owned(), at.to_string()]);
                    found.push(vec!["texts".to_owned(), at.to_string()]);
                }
            }
            MethodCall::KnowledgeRetrieval(step) => {
                let results = step.knowledge_step.results.iter();
                found.extend(text_paths(results.map(|result| result.content.as_str())));
            }
            MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step) => {
                found.extend(text_paths(step.memory.iter().map(String::as_str)));
            }
            MethodCall::AgentTrigger(step) => found.extend(part_paths(&step.trigger.content)),
            MethodCall::Message(step) => found.extend(part_paths(&step.message.content)),
            MethodCall::Ping(_) => {}
        }
        if super::message_facts::reasoning(call).is_some_and(has_placeholder) {
            found.push(vec!["reasoning".to_owned()]);
        }
        for path in found {
            // The checksum and the length are those of the masked body.
            if matches!(&path[..], [root, body, text] if [root, body, text] == ["request", "body", "text"])
            {
                for name in ["checksum", "bytes"] {
                    self.add(call, ["request", "body", name].map(str::to_owned).into());
                }
            }
            self.add(call, path);
        }
    }
}

/// The hidden parts of a value, relative to it.
#[derive(Clone, Debug, Default)]
pub(super) struct HiddenParts(Vec<FactPath>);

impl HiddenParts {
    /// Returns the parts of a value that is hidden as a whole.
    pub(super) fn all() -> Self {
        Self(vec![Vec::new()])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hidden parts of a member.
    pub(super) fn enter(&self, name: &str) -> Self {
        // The dots of a name are levels, as in the paths of inputs.
        let mut parts = self.0.clone();
        for name in name.split('.').filter(|_| !self.is_empty()) {
            parts.retain_mut(|part| match part.first() {
                None => true,
                Some(first) if first == name => {
                    part.remove(0);
                    true
                }
                Some(_) => false,
            });
        }
        Self(parts)
    }

    /// Returns the hidden parts of an item.
    pub(super) fn enter_item(&self, index: usize) -> Self {
        if self.is_empty() { Self::default() } else { self.enter(&index.to_string()) }
    }

    /// Returns true when the value itself is hidden.
    pub(super) fn has_all(&self) -> bool {
        self.0.iter().any(Vec::is_empty)
    }
}

/// Returns true when a text contains the placeholder of a secret.
pub(super) fn has_placeholder(text: &str) -> bool {
    PLACEHOLDERS.iter().any(|placeholder| text.contains(placeholder))
}

/// Returns true when a text is the placeholder and nothing else.
pub(super) fn is_placeholder(text: &str) -> bool {
    PLACEHOLDERS.contains(&text)
}

/// Returns true when a text in the value, or a name, contains the placeholder.
pub(super) fn contains_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => has_placeholder(text),
        Value::Array(items) => items.iter().any(contains_placeholder),
        Value::Object(members) => {
            members.iter().any(|(name, value)| has_placeholder(name) || contains_placeholder(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns true when the message is about a request that will be sent: a tool call, or an MCP message of a
/// step. Other MCP messages, such as those of a client to an agent, lead to no request.
fn states_request(call: &MethodCall) -> bool {
    match call {
        MethodCall::ToolCallRequest(_) => true,
        MethodCall::Mcp(step) => {
            let states = |name: &str| {
                step.context.as_ref().is_some_and(|context| context.extra.contains_key(name))
            };
            step.message.contains_key("method")
                && (step.extra.contains_key("executionId")
                    || states("capability")
                    || states("request"))
        }
        _ => false,
    }
}

/// Returns the paths in `context.hidden`. Whatever cannot be read hides everything.
fn stated_paths(call: &MethodCall) -> Vec<FactPath> {
    let Some(hidden) = call.context().and_then(|context| context.extra.get("hidden")) else {
        return Vec::new();
    };
    let pointers = hidden.get("paths").and_then(Value::as_array);
    let paths = pointers.and_then(|pointers| {
        let read = |pointer: &Value| parse_pointer(pointer.as_str()?);
        pointers.iter().map(read).collect::<Option<Vec<_>>>()
    });
    paths.unwrap_or_else(|| VARIABLES.iter().map(|name| vec![(*name).to_owned()]).collect())
}

/// Parses a JSON pointer (RFC 6901) to a part of a variable.
fn parse_pointer(pointer: &str) -> Option<FactPath> {
    let names = pointer.strip_prefix('/')?.split('/');
    let mut path: FactPath = names.map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    if path[0] == "inputs" {
        path = split_dots(&path);
    }
    VARIABLES.contains(&path[0].as_str()).then_some(path)
}

/// Splits dotted names of inputs into levels.
fn split_dots(path: &[String]) -> FactPath {
    path.iter().flat_map(|name| name.split('.')).map(str::to_owned).collect()
}

/// Returns the name of the input that a change sets.
fn input_name(call: &MethodCall, path: &MessagePath) -> Option<FactPath> {
    let name = path.to_dotted_name()?;
    let name = match call {
        MethodCall::ToolCallRequest(_) => name.as_str(),
        MethodCall::Mcp(_) => name.strip_prefix("params.arguments.")?,
        _ => return None,
    };
    Some(name.split('.').map(str::to_owned).collect())
}

/// Returns the location of a fact in `params`.
fn params_path(call: &MethodCall, path: &[String]) -> Option<FactPath> {
    let (root, rest) = path.split_first()?;
    let content: &[&str] = match call.method() {
        Method::ToolCallRequest => &["toolCallRequest"],
        Method::ToolCallResult => &["toolCallResult"],
        Method::KnowledgeRetrieval => &["knowledgeStep"],
        Method::MemoryStore | Method::MemoryContextRetrieval => &["memory"],
        Method::AgentTrigger => &["trigger"],
        Method::Message | Method::Mcp | Method::A2aWrapped => &["message"],
        _ => &["payload"],
    };
    let (location, rest): (Vec<&str>, &[String]) = match (root.as_str(), call) {
        ("params", _) | ("method", _) => return None,
        ("inputs", MethodCall::Mcp(_)) => (vec!["message", "params", "arguments"], rest),
        ("inputs", _) => (vec!["toolCallRequest", "inputs"], &[]),
        ("outputs" | "texts", MethodCall::ToolCallResult(_)) => {
            (vec!["toolCallResult", "result", "outputs"], &[])
        }
        ("request", _) => match rest.first().map(String::as_str) {
            Some("segments") => return None,
            // They are in the spelling of the agent there.
            Some("headers") => (vec!["context", "request", "headers"], &[]),
            _ => (vec!["context", "request"], rest),
        },
        ("metadata", _) => (vec!["context", "session", "metadata"], rest),
        ("capability", _) => (vec!["context", "capability"], rest),
        ("user" | "caller" | "agent" | "session" | "turn" | "step", _) => (vec!["context"], &[]),
        ("reasoning", _) => (vec!["reasoning"], &[]),
        _ => (content.to_vec(), &[]),
    };
    let path = ["params"].into_iter().chain(location).map(str::to_owned);
    Some(path.chain(rest.iter().cloned()).collect())
}

fn arguments_of(message: &Object) -> Option<&Object> {
    message.get("params")?.get("arguments")?.as_object()
}

/// Adds the path of every text in the value that contains the placeholder. A name that contains it hides the
/// whole object.
fn find_placeholders(value: &Value, path: &mut FactPath, found: &mut Vec<FactPath>) {
    match value {
        Value::String(text) if has_placeholder(text) => found.push(path.clone()),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push(at.to_string());
                find_placeholders(item, path, found);
                path.pop();
            }
        }
        Value::Object(members) => {
            if members.keys().any(|name| has_placeholder(name)) {
                found.push(path.clone());
                return;
            }
            for (name, value) in members {
                path.push(name.clone());
                find_placeholders(value, path, found);
                path.pop();
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the numbers of the texts that contain the placeholder.
fn hidden_texts<'t>(texts: impl Iterator<Item = &'t str>) -> impl Iterator<Item = usize> {
    texts.enumerate().filter(|(_, text)| has_placeholder(text)).map(|(at, _)| at)
}

fn text_paths<'t>(texts: impl Iterator<Item = &'t str>) -> impl Iterator<Item = FactPath> {
    hidden_texts(texts).map(|at| vec!["texts".to_owned(), at.to_string()])
}

/// Returns the paths of the parts of a message whose text or data contains the placeholder.
fn part_paths(parts: &[ContentPart]) -> impl Iterator<Item = FactPath> {
    let is_hidden = |part: &ContentPart| match part {
        ContentPart::Text(part) => Some(has_placeholder(&part.text)),
        ContentPart::Data(part) => Some(match &part.data {
            DataContent::Object(members) => members
                .iter()
                .any(|(name, value)| has_placeholder(name) || contains_placeholder(value)),
            DataContent::Array(items) => items.iter().any(contains_placeholder),
        }),
        ContentPart::File(_) => None,
    };
    let hidden = parts.iter().filter_map(is_hidden).enumerate();
    hidden.filter(|(_, hidden)| *hidden).map(|(at, _)| vec!["texts".to_owned(), at.to_string()])
}
