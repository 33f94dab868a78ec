//! The parts of a message that a condition can read.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aos::message::{Agent, ContentPart, DataContent, MethodCall, Object, StepContext};
use bounded_cel::{CelValue, CelVariables};
use serde_json::Value;

use super::expression::{CelExpression, CelNumber, FUNCTION_SET};
use super::request_facts;
use super::unknown_facts::{Truth, UnknownFacts};

/// The variables of `when`, in the order in which they are documented.
pub(super) const VARIABLES: [&str; 17] = [
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
    "caller",
    "capability",
    "request",
    "turn",
    "step",
    "params",
];

/// The facts about one message, computed at first use and kept for all rules.
#[derive(Debug)]
pub(super) struct MessageFacts<'c> {
    call: &'c MethodCall,
    unknown: &'c UnknownFacts,
    names: RuleNames<'c>,
    variables: CelVariables<'c>,
    /// True when the inputs can be read in only one way; none before the first check.
    are_inputs_clear: Option<bool>,
}

/// The names in a message that rules can match. A name that the message does not state is empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleNames<'c> {
    pub(super) tool: &'c str,
    /// Set when it names a tool: a tool may have an empty name.
    pub(super) has_tool: bool,
    pub(super) capability: &'c str,
    /// The host, with its port if it has one.
    pub(super) host: &'c str,
    pub(super) user: &'c str,
    pub(super) email: &'c str,
    /// The token that acts for the user, when the two differ.
    pub(super) caller: &'c str,
    pub(super) agent: &'c str,
    pub(super) session: &'c str,
}

impl<'c> MessageFacts<'c> {
    pub(super) fn new(call: &'c MethodCall, unknown: &'c UnknownFacts) -> Self {
        let (names, variables) = (RuleNames::from_call(call), CelVariables::new(FUNCTION_SET));
        Self { call, unknown, names, variables, are_inputs_clear: None }
    }

    pub(super) fn call(&self) -> &'c MethodCall {
        self.call
    }

    /// Returns the names that rules can match.
    pub(super) fn names(&self) -> &RuleNames<'c> {
        &self.names
    }

    pub(super) fn unknown(&self) -> &'c UnknownFacts {
        self.unknown
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// It fails on this message.
    pub(super) fn evaluate_bool(&mut self, condition: &CelExpression) -> Result<Truth, String> {
        let unknown = self.unknown;
        condition.evaluate_bool(self.variables(condition)?, unknown)
    }

    /// Evaluates an expression to a number, or to the name of an unknown fact that the number depends on.
    ///
    /// # Errors
    /// It fails on this message.
    pub(super) fn evaluate_number(
        &mut self,
        expression: &CelExpression,
    ) -> Result<Result<CelNumber, String>, String> {
        let unknown = self.unknown;
        expression.evaluate_number(self.variables(expression)?, unknown)
    }

    /// Returns the variables that an expression reads, and possibly others.
    fn variables(&mut self, expression: &CelExpression) -> Result<&CelVariables<'c>, String> {
        for name in expression.variables() {
            if name == "inputs" && !self.are_inputs_clear() {
                return Err("an input occurs twice".to_owned());
            }
            if !self.variables.has(name) {
                self.variables.set(name, build_variable(self.call, name));
            }
        }
        Ok(&self.variables)
    }

    fn are_inputs_clear(&mut self) -> bool {
        *self.are_inputs_clear.get_or_insert_with(|| are_inputs_clear(self.call))
    }
}

impl<'c> RuleNames<'c> {
    /// Reads the names that rules can match from a message.
    pub(super) fn from_call(call: &'c MethodCall) -> Self {
        let tool = tool_of(call);
        let (says_tool, tool) = (tool.is_some(), tool.unwrap_or_default());
        let (user, caller) = (user_of(call), caller_of(call).unwrap_or_default());
        let email = match call.context() {
            Some(context) => context.user.as_ref().and_then(|user| user.email.as_deref()),
            None => a2a_member(call, "user", "email"),
        };
        let (user, email) = (user.unwrap_or_default(), email.unwrap_or_default());
        let Some(context) = call.context() else {
            return Self { tool, has_tool: says_tool, user, email, caller, ..Self::default() };
        };
        let capability = context.extra.get("capability");
        let member = |name: &str| {
            let member = capability.and_then(|members| members.get(name)?.as_str());
            member.unwrap_or_default()
        };
        Self {
            tool,
            has_tool: says_tool,
            capability: member("name"),
            host: member("host"),
            user,
            email,
            caller,
            agent: &context.agent.id,
            session: &context.session.id,
        }
    }
}

impl RuleNames<'_> {
    /// Returns true when the message states the user that the agent acts for.
    pub(super) fn has_user(&self) -> bool {
        !self.user.trim().is_empty()
    }
}

/// Returns the id of the user of a message, if the message states one. A2A messages contain it as an extra
/// member of their context.
pub(crate) fn user_of(call: &MethodCall) -> Option<&str> {
    match call.context() {
        Some(context) => context.user.as_ref().map(|user| user.id.as_str()),
        None => a2a_member(call, "user", "id"),
    }
}

/// Returns the id of the token that acts for the user, if the message states one.
pub(crate) fn caller_of(call: &MethodCall) -> Option<&str> {
    match call.context() {
        Some(context) => context.extra.get("caller")?.get("id")?.as_str(),
        None => a2a_member(call, "caller", "id"),
    }
}

fn a2a_member<'c>(call: &'c MethodCall, object: &str, member: &str) -> Option<&'c str> {
    let MethodCall::A2a(_, step) = call else { return None };
    step.context.as_ref()?.extra.get(object)?.get(member)?.as_str()
}

/// Returns true when the message only plans a run: nothing is executed, whatever the decision.
pub(super) fn is_preview(call: &MethodCall) -> bool {
    let capability = call.context().and_then(|context| context.extra.get("capability"));
    capability.and_then(|members| members.get("preview")) == Some(&Value::Bool(true))
}

/// Returns true when the agent will ask again about the request that a change leads to.
pub(super) fn asks_again(call: &MethodCall) -> bool {
    let request = call.context().and_then(|context| context.extra.get("request"));
    request.and_then(|members| members.get("asksAgain")) == Some(&Value::Bool(true))
}

/// Returns true when the agent states that the step changes nothing.
pub(crate) fn is_read_only(call: &MethodCall) -> bool {
    let capability = call.context().and_then(|context| context.extra.get("capability"));
    capability.and_then(|members| members.get("readOnly")) == Some(&Value::Bool(true))
}

/// Returns true when the inputs can be read in only one way. Two inputs of one name, or `body` next to
/// `body.city`, would let a condition see another value than the tool does.
fn are_inputs_clear(call: &MethodCall) -> bool {
    let MethodCall::ToolCallRequest(step) = call else { return true };
    let inputs = &step.tool_call_request.inputs;
    let names: BTreeSet<_> = inputs.iter().map(|input| input.name.as_str()).collect();
    let is_inside =
        |name: &str| name.match_indices('.').any(|(dot, _)| names.contains(&name[..dot]));
    names.len() == inputs.len() && !names.iter().any(|name| is_inside(name))
}

/// Returns the tool of a message, if the message names one.
pub(crate) fn tool_of(call: &MethodCall) -> Option<&str> {
    match call {
        MethodCall::ToolCallRequest(step) => Some(&step.tool_call_request.tool_id),
        MethodCall::ToolCallResult(step) => step.tool_id.as_deref(),
        MethodCall::Mcp(step)
            if step.message.get("method").is_some_and(|method| method == "tools/call") =>
        {
            step.message.get("params")?.get("name")?.as_str()
        }
        _ => None,
    }
}

fn build_variable<'c>(call: &'c MethodCall, name: &str) -> CelValue<'c> {
    let context = call.context();
    match name {
        "method" => call.method().as_str().into(),
        "tool" => tool_of(call).unwrap_or_default().into(),
        "inputs" => inputs(call),
        "outputs" => {
            let outputs = match call {
                MethodCall::ToolCallResult(step) => step.result.outputs.as_slice(),
                _ => &[],
            };
            CelValue::list(outputs.iter().map(|part| part.text.as_str()))
        }
        "is_error" => {
            matches!(call, MethodCall::ToolCallResult(step) if step.result.is_error).into()
        }
        "texts" => CelValue::list(texts(call)),
        "reasoning" => reasoning(call).unwrap_or_default().into(),
        "session" => CelValue::object([("id", context.map_or("", |c| &c.session.id))]),
        "metadata" => CelValue::object(
            context.and_then(|c| c.session.metadata.as_ref()).into_iter().flatten(),
        ),
        "agent" => agent(context),
        "user" => user(call),
        "caller" => CelValue::object([("id", caller_of(call).unwrap_or_default())]),
        "capability" => capability(context),
        "request" => request_facts::request(context),
        "turn" => context.map_or("", |c| &c.turn_id).into(),
        "step" => context.map_or("", |c| &c.step_id).into(),
        _ => call.to_params().into(),
    }
}

/// Returns the inputs by name. A dotted name such as `pathParameters.city` is available under that name and
/// nested, so that a condition may use `inputs.pathParameters.city`.
fn inputs(call: &MethodCall) -> CelValue<'_> {
    match call {
        MethodCall::ToolCallRequest(step) => {
            let mut inputs = Object::new();
            for input in &step.tool_call_request.inputs {
                insert_nested(&mut inputs, &input.name, &input.value);
            }
            for input in &step.tool_call_request.inputs {
                inputs.insert(input.name.clone(), input.value.clone());
            }
            CelValue::object(inputs)
        }
        MethodCall::Mcp(step) => {
            let arguments = step.message.get("params").and_then(|params| params.get("arguments"));
            CelValue::object(arguments.and_then(Value::as_object).into_iter().flatten())
        }
        _ => CelValue::object(Object::new()),
    }
}

fn insert_nested(inputs: &mut Object, name: &str, value: &Value) {
    match name.split_once('.') {
        None => drop(inputs.insert(name.to_owned(), value.clone())),
        Some((first, rest)) => {
            let inner = inputs.entry(first).or_insert_with(|| Object::new().into());
            if let Value::Object(inner) = inner {
                insert_nested(inner, rest, value);
            }
        }
    }
}

/// Returns every text in the message that a person would read.
pub(crate) fn texts(call: &MethodCall) -> Vec<Cow<'_, str>> {
    match call {
        MethodCall::AgentTrigger(step) => step.trigger.content.iter().filter_map(text_of).collect(),
        MethodCall::Message(step) => step.message.content.iter().filter_map(text_of).collect(),
        MethodCall::ToolCallResult(step) => {
            step.result.outputs.iter().map(|part| part.text.as_str().into()).collect()
        }
        MethodCall::KnowledgeRetrieval(step) => {
            step.knowledge_step.results.iter().map(|r| r.content.as_str().into()).collect()
        }
        MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step) => {
            step.memory.iter().map(Cow::from).collect()
        }
        MethodCall::A2a(_, step) => {
            let mut texts = Vec::new();
            let error = step.payload.get("error").and_then(|error| error.get("message")?.as_str());
            texts.extend(error.map(Cow::from));
            step.payload.values().for_each(|value| add_parts(value, &mut texts));
            texts
        }
        MethodCall::ToolCallRequest(_) | MethodCall::Mcp(_) | MethodCall::Ping(_) => Vec::new(),
    }
}

fn text_of(part: &ContentPart) -> Option<Cow<'_, str>> {
    match part {
        ContentPart::Text(part) => Some(part.text.as_str().into()),
        ContentPart::Data(part) => match &part.data {
            DataContent::Object(object) => Some(Value::Object(object.clone()).to_string().into()),
            DataContent::Array(items) => Some(Value::Array(items.clone()).to_string().into()),
        },
        ContentPart::File(_) => None,
    }
}

/// Adds the texts of all parts in an A2A message, in their order: of a message, of a task with its history
/// and artifacts, and of a stream event. It reads every `parts`, in the forms of both versions of the
/// protocol, so that the agent reads none that the guardian does not see.
fn add_parts<'m>(value: &'m Value, texts: &mut Vec<Cow<'m, str>>) {
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
fn add_part<'m>(part: &'m Value, texts: &mut Vec<Cow<'m, str>>) {
    texts.extend(part.get("text").and_then(Value::as_str).map(Cow::from));
    let data = part.get("data").filter(|data| !data.is_null());
    texts.extend(data.map(|data| data.to_string().into()));
}

pub(super) fn reasoning(call: &MethodCall) -> Option<&str> {
    match call {
        MethodCall::Message(step) => step.reasoning.as_deref(),
        MethodCall::ToolCallRequest(step) => step.reasoning.as_deref(),
        MethodCall::ToolCallResult(step) => step.reasoning.as_deref(),
        MethodCall::KnowledgeRetrieval(step) => step.reasoning.as_deref(),
        MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step) => {
            step.reasoning.as_deref()
        }
        MethodCall::Mcp(step) => step.reasoning.as_deref(),
        MethodCall::A2a(_, step) => step.reasoning.as_deref(),
        MethodCall::AgentTrigger(_) | MethodCall::Ping(_) => None,
    }
}

/// Returns the variable for the agent. Absent texts are empty, so that a condition need not test for each
/// of them.
fn agent(context: Option<&StepContext>) -> CelValue<'_> {
    let agent = context.map(|context| &context.agent);
    let text = |of: fn(&Agent) -> &String| agent.map_or("", |agent| of(agent));
    CelValue::object([
        ("id", text(|agent| &agent.id)),
        ("name", text(|agent| &agent.name)),
        ("version", text(|agent| &agent.version)),
        ("url", text(|agent| &agent.url)),
        ("provider", text(|agent| &agent.provider.name)),
    ])
}

fn user(call: &MethodCall) -> CelValue<'_> {
    let names = RuleNames::from_call(call);
    let user = call.context().and_then(|context| context.user.as_ref());
    CelValue::object([
        ("id", names.user),
        ("name", user.and_then(|user| user.name.as_deref()).unwrap_or_default()),
        ("email", names.email),
        ("organization", user.and_then(|user| user.organization.as_ref()).map_or("", |o| &o.id)),
    ])
}

/// The published capability that runs, or is planned: a member of the context that the A2S executor adds.
fn capability(context: Option<&StepContext>) -> CelValue<'_> {
    let members = context.and_then(|c| c.extra.get("capability"));
    let absent = ["name", "version", "run"].map(|name| (name, CelValue::from("")));
    // Executors called the checksum `digest` before, and policies that do so still hold.
    let checksum =
        members.and_then(|members| members.get("checksum").or_else(|| members.get("digest")));
    let checksum = ["checksum", "digest"]
        .map(|name| (name, checksum.map_or_else(|| CelValue::from(""), CelValue::from)));
    let given = members.into_iter().flatten();
    let given = given.map(|(name, value)| (name.as_str(), CelValue::from(value)));
    let preview = [("preview", CelValue::from(false))];
    CelValue::object(absent.into_iter().chain(checksum).chain(preview).chain(given))
}
