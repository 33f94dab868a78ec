//! What a condition can read of a message.

use std::collections::BTreeSet;

use aos::message::{Call, Data, Object, Part, StepContext};
use serde_json::{Value, json};

use super::expression::{Expression, Variables};

/// The variables of `when`, in the order in which they are documented.
pub(super) const VARIABLES: [&str; 15] = [
    "method",
    "tool",
    "inputs",
    "outputs",
    "is_error",
    "texts",
    "reasoning",
    "session",
    "metadata",
    "agent",
    "user",
    "capability",
    "turn",
    "step",
    "params",
];

/// What is known of one message, made when first asked for and kept for all rules. It is for one call:
/// [`Facts::clear`] when that changes.
#[derive(Debug, Default)]
pub(super) struct Facts {
    variables: Variables,
    /// The names of those that are made.
    made: BTreeSet<String>,
    names: Option<Names>,
    /// Whether the inputs can be read in one way only.
    are_inputs_clear: Option<bool>,
}

/// What a rule can ask for by name. What a message does not say is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) tool: String,
    /// Whether it names a tool: a tool may have an empty name.
    pub(super) says_tool: bool,
    pub(super) capability: String,
    /// With its port, if it has one.
    pub(super) host: String,
    pub(super) user: String,
    pub(super) email: String,
    pub(super) agent: String,
    pub(super) session: String,
}

impl Facts {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the inputs can be read in one way only.
    pub(super) fn are_inputs_clear(&mut self, call: &Call) -> bool {
        *self.are_inputs_clear.get_or_insert_with(|| are_inputs_clear(call))
    }

    /// The variables that an expression reads, and perhaps others.
    pub(super) fn variables(&mut self, call: &Call, expression: &Expression) -> &Variables {
        for name in expression.variables() {
            if !self.made.contains(name) {
                self.variables.set(name, &make(call, name));
                self.made.insert(name.to_owned());
            }
        }
        &self.variables
    }

    /// What rules can ask for by name.
    pub(super) fn names(&mut self, call: &Call) -> &Names {
        self.names.get_or_insert_with(|| names(call))
    }
}

/// What a message says of what rules can ask for by name.
pub(super) fn names(call: &Call) -> Names {
    let tool = tool_of(call);
    let (says_tool, tool) = (tool.is_some(), tool.unwrap_or_default().to_owned());
    let Some(context) = call.context() else {
        return Names { tool, says_tool, ..Names::default() };
    };
    let capability = context.extra.get("capability");
    let member = |name: &str| {
        let member = capability.and_then(|members| members.get(name)?.as_str());
        member.unwrap_or_default().to_owned()
    };
    let user = context.user.as_ref();
    Names {
        tool,
        says_tool,
        capability: member("name"),
        host: member("host"),
        user: user.map(|user| user.id.clone()).unwrap_or_default(),
        email: user.and_then(|user| user.email.clone()).unwrap_or_default(),
        agent: context.agent.id.clone(),
        session: context.session.id.clone(),
    }
}

/// Whether nothing happens, whatever is decided: somebody plans a run.
pub(super) fn is_preview(call: &Call) -> bool {
    let capability = call.context().and_then(|context| context.extra.get("capability"));
    capability.and_then(|members| members.get("preview")) == Some(&Value::Bool(true))
}

/// Whether the inputs can be read in one way only. Two inputs of one name, or `body` beside
/// `body.city`, would let a condition see another value than the tool does.
fn are_inputs_clear(call: &Call) -> bool {
    let Call::ToolCallRequest(step) = call else { return true };
    let inputs = &step.tool_call_request.inputs;
    let names: BTreeSet<_> = inputs.iter().map(|input| input.name.as_str()).collect();
    let is_inside =
        |name: &str| name.match_indices('.').any(|(dot, _)| names.contains(&name[..dot]));
    names.len() == inputs.len() && !names.iter().any(|name| is_inside(name))
}

/// The tool that a message is about, if it says so.
pub(crate) fn tool_of(call: &Call) -> Option<&str> {
    match call {
        Call::ToolCallRequest(step) => Some(&step.tool_call_request.tool_id),
        Call::ToolCallResult(step) => step.tool_id.as_deref(),
        Call::Mcp(step)
            if step.message.get("method").is_some_and(|method| method == "tools/call") =>
        {
            step.message.get("params")?.get("name")?.as_str()
        }
        _ => None,
    }
}

fn make(call: &Call, name: &str) -> Value {
    let context = call.context();
    match name {
        "method" => call.method().as_str().into(),
        "tool" => tool_of(call).unwrap_or_default().into(),
        "inputs" => inputs(call),
        "outputs" => match call {
            Call::ToolCallResult(step) => {
                step.result.outputs.iter().map(|part| part.text.as_str()).collect()
            }
            _ => json!([]),
        },
        "is_error" => matches!(call, Call::ToolCallResult(step) if step.result.is_error).into(),
        "texts" => texts(call).into(),
        "reasoning" => reasoning(call).unwrap_or_default().into(),
        "session" => json!({"id": context.map_or("", |c| &c.session.id)}),
        "metadata" => context.and_then(|c| c.session.metadata.clone()).unwrap_or_default().into(),
        "agent" => agent(context),
        "user" => user(context),
        "capability" => capability(context),
        "turn" => context.map_or("", |c| &c.turn_id).into(),
        "step" => context.map_or("", |c| &c.step_id).into(),
        _ => call.to_params(),
    }
}

/// The inputs by name. A dotted name such as `pathParameters.city` is there under that name and
/// nested, so that a condition may say `inputs.pathParameters.city`.
fn inputs(call: &Call) -> Value {
    let mut inputs = Object::new();
    match call {
        Call::ToolCallRequest(step) => {
            for input in &step.tool_call_request.inputs {
                nest(&mut inputs, &input.name, &input.value);
            }
            for input in &step.tool_call_request.inputs {
                inputs.insert(input.name.clone(), input.value.clone());
            }
        }
        Call::Mcp(step) => {
            let arguments = step.message.get("params").and_then(|params| params.get("arguments"));
            inputs = arguments.and_then(Value::as_object).cloned().unwrap_or_default();
        }
        _ => {}
    }
    inputs.into()
}

fn nest(inputs: &mut Object, name: &str, value: &Value) {
    match name.split_once('.') {
        None => drop(inputs.insert(name.to_owned(), value.clone())),
        Some((first, rest)) => {
            let inner = inputs.entry(first).or_insert_with(|| Object::new().into());
            if let Value::Object(inner) = inner {
                nest(inner, rest, value);
            }
        }
    }
}

/// Every text that a person would read in the message.
pub(crate) fn texts(call: &Call) -> Vec<String> {
    let of_part = |part: &Part| match part {
        Part::Text(part) => Some(part.text.clone()),
        Part::Data(part) => match &part.data {
            Data::Object(object) => Some(Value::Object(object.clone()).to_string()),
            Data::Array(items) => Some(Value::Array(items.clone()).to_string()),
        },
        Part::File(_) => None,
    };
    match call {
        Call::AgentTrigger(step) => step.trigger.content.iter().filter_map(of_part).collect(),
        Call::Message(step) => step.message.content.iter().filter_map(of_part).collect(),
        Call::ToolCallResult(step) => {
            step.result.outputs.iter().map(|part| part.text.clone()).collect()
        }
        Call::KnowledgeRetrieval(step) => {
            step.knowledge_step.results.iter().map(|r| r.content.clone()).collect()
        }
        Call::MemoryStore(step) | Call::MemoryContextRetrieval(step) => step.memory.clone(),
        Call::A2a(_, step) => {
            let mut texts = Vec::new();
            let error = step.payload.get("error").and_then(|error| error.get("message")?.as_str());
            texts.extend(error.map(str::to_owned));
            step.payload.values().for_each(|value| add_parts(value, &mut texts));
            texts
        }
        Call::ToolCallRequest(_) | Call::Mcp(_) | Call::Ping(_) => Vec::new(),
    }
}

/// Adds the texts of all parts in an A2A message, in their order: of what is said, of a task with
/// its history and artifacts, and of what a stream tells. Wherever `parts` stand they are read, as
/// both versions of the protocol write them, so that none is read by the agent alone.
fn add_parts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::Array(parts) if name == "parts" => {
                        parts.iter().for_each(|part| add_part(part, texts));
                    }
                    value => add_parts(value, texts),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_parts(item, texts)),
        _ => {}
    }
}

/// Adds the text of a part, and its data as JSON.
fn add_part(part: &Value, texts: &mut Vec<String>) {
    texts.extend(part.get("text").and_then(Value::as_str).map(str::to_owned));
    let data = part.get("data").filter(|data| !data.is_null());
    texts.extend(data.map(Value::to_string));
}

fn reasoning(call: &Call) -> Option<&str> {
    match call {
        Call::Message(step) => step.reasoning.as_deref(),
        Call::ToolCallRequest(step) => step.reasoning.as_deref(),
        Call::ToolCallResult(step) => step.reasoning.as_deref(),
        Call::KnowledgeRetrieval(step) => step.reasoning.as_deref(),
        Call::MemoryStore(step) | Call::MemoryContextRetrieval(step) => step.reasoning.as_deref(),
        Call::Mcp(step) => step.reasoning.as_deref(),
        Call::A2a(_, step) => step.reasoning.as_deref(),
        Call::AgentTrigger(_) | Call::Ping(_) => None,
    }
}

/// Absent texts are empty, so that a condition need not test for each of them.
fn agent(context: Option<&StepContext>) -> Value {
    let Some(agent) = context.map(|c| &c.agent) else {
        return json!({"id": "", "name": "", "version": "", "url": "", "provider": ""});
    };
    let (id, name, version, url, provider) =
        (&agent.id, &agent.name, &agent.version, &agent.url, &agent.provider.name);
    json!({"id": id, "name": name, "version": version, "url": url, "provider": provider})
}

fn user(context: Option<&StepContext>) -> Value {
    let user = context.and_then(|c| c.user.as_ref());
    let id = user.map_or("", |user| &user.id);
    let name = user.and_then(|user| user.name.as_deref()).unwrap_or_default();
    let email = user.and_then(|user| user.email.as_deref()).unwrap_or_default();
    let organization = user.and_then(|user| user.organization.as_ref()).map_or("", |o| &o.id);
    json!({"id": id, "name": name, "email": email, "organization": organization})
}

/// Which published capability runs, or is planned: a member of the context that the A2S executor
/// adds.
fn capability(context: Option<&StepContext>) -> Value {
    let mut capability =
        json!({"name": "", "version": "", "digest": "", "run": "", "preview": false});
    let given = context.and_then(|c| c.extra.get("capability"));
    for (name, value) in given.into_iter().flatten() {
        capability[name] = value.clone();
    }
    capability
}
