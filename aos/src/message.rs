//! The messages of the protocol. Every documented form is read, and one form is written.
//!
//! A message is read from bytes in three steps, each with its own error code: bounded JSON in which each
//! member name is unique, the JSON-RPC envelope, and the params of the method. Where schema, text and hooks
//! page disagree, the types define the written form, and the documentation of [`Request::from_slice`] lists
//! the other forms that are read.

mod codec;
mod content;
mod context;
mod error;
mod response;
mod step;
mod withdrawal;

use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use codec::{InvalidMember, Limits, Object, SyntaxError, parse_json};
pub use content::{
    CitationSource, ContentPart, DataContent, DataPart, FileContent, FilePart, FileSource,
    FileWithBytes, FileWithUri, SiteSource, TextPart,
};
pub use context::{
    Agent, AgentProvider, LlmProvider, McpServer, Model, ModelKind, Organization, Resource,
    Session, StepContext, ToolArgumentDefinition, ToolDefinition, ToolOutputDefinition, User,
    ValueKind,
};
pub use error::{RequestError, RequestRejection, code};
pub use response::{
    Decision, DecisionResponse, ErrorObject, Pong, PongStatus, Response, ResponseBody,
    ResponseError,
};
pub use step::{
    A2aAgent, A2aContext, A2aParty, A2aRole, A2aStep, AgentTrigger, AgentTriggerEvent,
    AgentTriggerStep, KnowledgeResult, KnowledgeRetrievalStep, KnowledgeStep, McpStep, MemoryStep,
    Message, MessageStep, Ping, Role, ToolArgumentValue, ToolCallRequest, ToolCallRequestStep,
    ToolCallResultStep, ToolResult, TriggerKind,
};
pub use withdrawal::ApprovalWithdrawal;

use codec::{read, words};
use step::WrappedA2aStep;

/// One question to a guardian.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The id; the response has the same id.
    pub id: RequestId,
    /// The method and its params.
    pub call: MethodCall,
}

/// The id of a question: a string or an integer. `null` and fractions are rejected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A string, for instance a UUID.
    Text(String),
    /// An integer.
    Number(i64),
}

/// A method and its params.
///
/// The variants are boxed. Create them with `From`: `MethodCall::from(step)`, for A2A from the method and
/// the step. Two hooks are about memory: [`MethodCall::memory_store`] and
/// [`MethodCall::memory_context_retrieval`]. The JSON of a call is that of its params.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MethodCall {
    /// `steps/agentTrigger`: before an event starts the agent.
    AgentTrigger(Box<AgentTriggerStep>),
    /// `steps/message`: before a message of a person reaches the agent, or a message of the agent is sent.
    Message(Box<MessageStep>),
    /// `steps/toolCallRequest`: before a tool is called.
    ToolCallRequest(Box<ToolCallRequestStep>),
    /// `steps/toolCallResult`: before the result of a tool is used.
    ToolCallResult(Box<ToolCallResultStep>),
    /// `steps/knowledgeRetrieval`: before knowledge that was found is used.
    KnowledgeRetrieval(Box<KnowledgeRetrievalStep>),
    /// `steps/memoryStore`: before memory is written.
    MemoryStore(Box<MemoryStep>),
    /// `steps/memoryContextRetrieval`: before memory that was read is used.
    MemoryContextRetrieval(Box<MemoryStep>),
    /// `protocols/MCP`: before an MCP message is sent, or before a received one is used.
    Mcp(Box<McpStep>),
    /// An A2A method: before an A2A message is sent, or before a received one is used.
    #[serde(serialize_with = "write_a2a")]
    A2a(A2aMethod, Box<A2aStep>),
    /// `ping`: checks that the guardian is available.
    Ping(Ping),
}

words! {
    /// The methods of the protocol, with their names.
    Method {
        /// Before an event starts the agent.
        AgentTrigger "steps/agentTrigger",
        /// Before a message is received or sent.
        Message "steps/message",
        /// Before a tool is called.
        ToolCallRequest "steps/toolCallRequest",
        /// Before the result of a tool is used.
        ToolCallResult "steps/toolCallResult",
        /// Before knowledge that was found is used.
        KnowledgeRetrieval "steps/knowledgeRetrieval",
        /// Before memory is written.
        MemoryStore "steps/memoryStore",
        /// Before memory that was read is used.
        MemoryContextRetrieval "steps/memoryContextRetrieval",
        /// Before an MCP message is sent or used.
        Mcp "protocols/MCP",
        /// A2A: send a message.
        A2aMessageSend "message/send",
        /// A2A: send a message and follow the response.
        A2aMessageStream "message/stream",
        /// A2A: read a task.
        A2aTaskGet "task/get",
        /// A2A: cancel a task.
        A2aTaskCancel "tasks/cancel",
        /// A2A: follow a task again.
        A2aTaskResubscribe "tasks/resubscribe",
        /// A2A: set the address for notifications of a task.
        A2aPushConfigSet "task/pushNotificationConfig/set",
        /// A2A: read the address for notifications of a task.
        A2aPushConfigGet "task/pushNotificationConfig/get",
        /// A2A in the older notation, which is only read.
        A2aWrapped "protocols/A2A",
        /// Checks that the guardian is available.
        Ping "ping",
    }
}

/// The A2A methods among [`Method`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum A2aMethod {
    /// `message/send`.
    MessageSend,
    /// `message/stream`.
    MessageStream,
    /// `task/get` in the schema and in messages that are written; `tasks/get` in the text.
    TaskGet,
    /// `tasks/cancel`.
    TaskCancel,
    /// `tasks/resubscribe`.
    TaskResubscribe,
    /// `task/pushNotificationConfig/set` in the schema and in messages that are written; `tasks/…` in the
    /// text.
    PushConfigSet,
    /// `task/pushNotificationConfig/get` in the schema and in messages that are written; `tasks/…` in the
    /// text.
    PushConfigGet,
    /// `protocols/A2A`, the older notation, which is only read.
    Wrapped,
}

impl Method {
    /// Finds the method with a name, in any documented spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "tasks/get" => Some(Self::A2aTaskGet),
            "tasks/pushNotificationConfig/set" => Some(Self::A2aPushConfigSet),
            "tasks/pushNotificationConfig/get" => Some(Self::A2aPushConfigGet),
            _ => Self::ALL.iter().copied().find(|method| method.as_str() == name),
        }
    }
}

impl From<A2aMethod> for Method {
    fn from(method: A2aMethod) -> Self {
        match method {
            A2aMethod::MessageSend => Self::A2aMessageSend,
            A2aMethod::MessageStream => Self::A2aMessageStream,
            A2aMethod::TaskGet => Self::A2aTaskGet,
            A2aMethod::TaskCancel => Self::A2aTaskCancel,
            A2aMethod::TaskResubscribe => Self::A2aTaskResubscribe,
            A2aMethod::PushConfigSet => Self::A2aPushConfigSet,
            A2aMethod::PushConfigGet => Self::A2aPushConfigGet,
            A2aMethod::Wrapped => Self::A2aWrapped,
        }
    }
}

impl Request {
    /// Creates a question.
    pub fn new(id: impl Into<RequestId>, call: impl Into<MethodCall>) -> Self {
        Self { id: id.into(), call: call.into() }
    }

    /// Returns the method of the question.
    pub fn method(&self) -> Method {
        self.call.method()
    }

    /// Reads a question.
    ///
    /// Besides the form that is written, these are read: an agent without `url`; a tool result without the
    /// `toolCallResult` around it; a bare MCP message as the params of `protocols/MCP`; `tasks/…` for
    /// `task/…`; `payload` and `context` of an A2A message next to `params`, or without `context`;
    /// `protocols/A2A`; a ping with its timestamp in either location or without one; a data part that is an
    /// array; parts without `kind`; `null` for an absent member; a time without an offset (UTC). Unknown
    /// members are kept.
    ///
    /// # Errors
    /// [`RequestRejection`] contains the error and its location, and makes the error response.
    pub fn from_slice(bytes: &[u8], limits: Limits) -> Result<Self, RequestRejection> {
        match parse_json(bytes, limits) {
            Ok(value) => Self::from_value(value),
            Err(error) => Err(RequestRejection { id: None, error: error.into() }),
        }
    }

    /// Reads a question that is already JSON; otherwise like [`Request::from_slice`].
    ///
    /// # Errors
    /// Fails like [`Request::from_slice`].
    pub fn from_value(value: Value) -> Result<Self, RequestRejection> {
        let invalid = |id: Option<RequestId>, reason: &str| {
            Err(RequestRejection { id, error: RequestError::InvalidRequest(reason.to_owned()) })
        };
        let mut envelope = match value {
            Value::Object(envelope) => envelope,
            Value::Array(_) => return invalid(None, "batches are not supported, send one request"),
            _ => return invalid(None, "must be an object"),
        };
        let id = envelope.get("id").and_then(RequestId::from_value);
        if envelope.get("jsonrpc").is_none_or(|version| version != "2.0") {
            return invalid(id, "jsonrpc must be \"2.0\"");
        }
        let Some(Value::String(name)) = envelope.shift_remove("method") else {
            return invalid(id, "method must be a string");
        };
        let Some(id) = id else {
            return invalid(None, "id must be a string or an integer");
        };
        let params = envelope.shift_remove("params");
        if params
            .as_ref()
            .is_some_and(|params| !params.is_object() && !params.is_array() && !params.is_null())
        {
            return invalid(Some(id), "params must be an object");
        }
        let reject = |error| RequestRejection { id: Some(id.clone()), error };
        let method =
            Method::from_name(&name).ok_or_else(|| reject(RequestError::MethodNotFound(name)))?;
        let call = MethodCall::read(method, params, envelope)
            .map_err(|e| reject(RequestError::InvalidParams(e)))?;
        Ok(Self { id, call })
    }

    /// Returns the question as JSON text.
    pub fn to_vec(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a message is JSON by construction")
    }

    /// Returns this question with the part replaced that a guardian may change at this hook: the `inputs`
    /// of a tool call, `outputs` and `isError` of its result, the `content` of a message or trigger, the
    /// `results` of a retrieval, the `memory`, the MCP or A2A message. Other differences in `modified`, for
    /// instance its context, are ignored.
    ///
    /// # Errors
    /// Fails when the modification is about something else: another method, another execution, another
    /// tool. The text names the difference.
    pub fn with_modification(&self, modified: Self) -> Result<Self, String> {
        let (was, is) = (self.method(), modified.method());
        let differs = |what: &str| Err(format!("{what} differs from the original"));
        let mut call = self.call.clone();
        match (&mut call, modified.call) {
            (MethodCall::AgentTrigger(mine), MethodCall::AgentTrigger(theirs)) => {
                mine.trigger.content = theirs.trigger.content
            }
            (MethodCall::Message(mine), MethodCall::Message(theirs))
                if mine.message.role == theirs.message.role =>
            {
                mine.message.content = theirs.message.content;
            }
            (MethodCall::Message(_), MethodCall::Message(_)) => return differs("the role"),
            (MethodCall::ToolCallRequest(mine), MethodCall::ToolCallRequest(theirs)) => {
                let (mine, theirs) = (&mut mine.tool_call_request, theirs.tool_call_request);
                if mine.execution_id != theirs.execution_id {
                    return differs("executionId");
                }
                if mine.tool_id != theirs.tool_id {
                    return differs("toolId");
                }
                mine.inputs = theirs.inputs;
            }
            (MethodCall::ToolCallResult(mine), MethodCall::ToolCallResult(theirs)) => {
                if mine.execution_id != theirs.execution_id {
                    return differs("executionId");
                }
                mine.result = theirs.result;
            }
            (MethodCall::KnowledgeRetrieval(mine), MethodCall::KnowledgeRetrieval(theirs)) => {
                mine.knowledge_step.results = theirs.knowledge_step.results;
            }
            (MethodCall::MemoryStore(mine), MethodCall::MemoryStore(theirs))
            | (
                MethodCall::MemoryContextRetrieval(mine),
                MethodCall::MemoryContextRetrieval(theirs),
            ) => {
                mine.memory = theirs.memory;
            }
            (MethodCall::Mcp(mine), MethodCall::Mcp(theirs)) => mine.message = theirs.message,
            (MethodCall::A2a(was, mine), MethodCall::A2a(is, theirs)) if *was == is => {
                mine.payload = theirs.payload
            }
            _ if was == is => return Err(format!("{was} cannot be modified")),
            _ => return Err(format!("the method is {is}, but the request has {was}")),
        }
        Ok(Self { id: self.id.clone(), call })
    }
}

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("jsonrpc", "2.0")?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("method", &self.method())?;
        if let MethodCall::Ping(Ping { timestamp: Some(timestamp), .. }) = &self.call {
            map.serialize_entry("timestamp", timestamp)?;
        }
        map.serialize_entry("params", &self.call)?;
        map.end()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn write_a2a<S: Serializer>(
    method: &A2aMethod,
    step: &A2aStep,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match method {
        A2aMethod::Wrapped => WrappedA2aStep::from(step).serialize(serializer),
        _ => step.serialize(serializer),
    }
}

impl MethodCall {
    /// Returns the method of this call.
    pub fn method(&self) -> Method {
        match self {
            Self::AgentTrigger(_) => Method::AgentTrigger,
            Self::Message(_) => Method::Message,
            Self::ToolCallRequest(_) => Method::ToolCallRequest,
            Self::ToolCallResult(_) => Method::ToolCallResult,
            Self::KnowledgeRetrieval(_) => Method::KnowledgeRetrieval,
            Self::MemoryStore(_) => Method::MemoryStore,
            Self::MemoryContextRetrieval(_) => Method::MemoryContextRetrieval,
            Self::Mcp(_) => Method::Mcp,
            Self::A2a(method, _) => (*method).into(),
            Self::Ping(_) => Method::Ping,
        }
    }

    /// Returns the `params` of its message, as JSON.
    pub fn to_params(&self) -> Value {
        // Plain data can always be written.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The params without the context: the act alone, without actor, session and time.
    pub fn to_params_without_context(&self) -> Value {
        let mut params = self.to_params();
        if let Value::Object(members) = &mut params {
            members.shift_remove("context");
        }
        params
    }

    /// The actor, the session and the time. A ping and an A2A message do not have this context; an MCP
    /// message may have it.
    pub fn context(&self) -> Option<&StepContext> {
        match self {
            Self::AgentTrigger(step) => Some(&step.context),
            Self::Message(step) => Some(&step.context),
            Self::ToolCallRequest(step) => Some(&step.context),
            Self::ToolCallResult(step) => Some(&step.context),
            Self::KnowledgeRetrieval(step) => Some(&step.context),
            Self::MemoryStore(step) | Self::MemoryContextRetrieval(step) => Some(&step.context),
            Self::Mcp(step) => step.context.as_ref(),
            Self::A2a(..) | Self::Ping(_) => None,
        }
    }

    fn read(
        method: Method,
        params: Option<Value>,
        mut envelope: Object,
    ) -> Result<Self, InvalidMember> {
        let a2a = match method {
            Method::AgentTrigger => return read_params(params).map(Self::AgentTrigger),
            Method::Message => return read_params(params).map(Self::Message),
            Method::ToolCallRequest => return read_params(params).map(Self::ToolCallRequest),
            Method::ToolCallResult => return read_params(params).map(Self::ToolCallResult),
            Method::KnowledgeRetrieval => return read_params(params).map(Self::KnowledgeRetrieval),
            Method::MemoryStore => return read_params(params).map(Self::MemoryStore),
            Method::MemoryContextRetrieval => {
                return read_params(params).map(Self::MemoryContextRetrieval);
            }
            Method::Mcp => {
                return Ok(match params {
                    Some(Value::Object(message)) if McpStep::is_bare_message(&message) => {
                        McpStep::new(message).into()
                    }
                    params => Self::Mcp(read_params(params)?),
                });
            }
            Method::Ping => return read_ping(params, envelope).map(Self::Ping),
            Method::A2aMessageSend => A2aMethod::MessageSend,
            Method::A2aMessageStream => A2aMethod::MessageStream,
            Method::A2aTaskGet => A2aMethod::TaskGet,
            Method::A2aTaskCancel => A2aMethod::TaskCancel,
            Method::A2aTaskResubscribe => A2aMethod::TaskResubscribe,
            Method::A2aPushConfigSet => A2aMethod::PushConfigSet,
            Method::A2aPushConfigGet => A2aMethod::PushConfigGet,
            Method::A2aWrapped => {
                let step: WrappedA2aStep<'_> = read_params(params)?;
                return Ok((A2aMethod::Wrapped, step.into()).into());
            }
        };
        // One table of the text lists payload and context next to params, not inside.
        let mut step: A2aStep = if params.is_none() && envelope.contains_key("payload") {
            envelope.retain(|name, _| ["payload", "context", "reasoning"].contains(&name.as_str()));
            read(Value::Object(envelope))?
        } else {
            read_params(params)?
        };
        step.context.get_or_insert_default();
        Ok((a2a, step).into())
    }
}

fn read_params<T: DeserializeOwned>(params: Option<Value>) -> Result<T, InvalidMember> {
    params
        .map_or_else(|| Err(InvalidMember::new("is missing")), read)
        .map_err(|e| e.in_member("params"))
}

fn read_ping(params: Option<Value>, mut envelope: Object) -> Result<Ping, InvalidMember> {
    let outer = envelope.shift_remove("timestamp").map(|time| ("timestamp".to_owned(), time));
    let outer: Ping = read(Value::Object(outer.into_iter().collect()))?;
    let params: Option<Object> = read_params(Some(params.unwrap_or_default()))?;
    let ping: Ping = read_params(Some(Value::Object(params.unwrap_or_default())))?;
    Ok(Ping { timestamp: ping.timestamp.or(outer.timestamp), ..ping })
}

impl RequestId {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => number.as_i64().map(Self::Number),
            _ => None,
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl From<String> for RequestId {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl MethodCall {
    /// Creates the call before memory is written.
    pub fn memory_store(step: MemoryStep) -> Self {
        Self::MemoryStore(Box::new(step))
    }

    /// Creates the call before memory that was read is used.
    pub fn memory_context_retrieval(step: MemoryStep) -> Self {
        Self::MemoryContextRetrieval(Box::new(step))
    }
}

impl From<(A2aMethod, A2aStep)> for MethodCall {
    fn from((method, step): (A2aMethod, A2aStep)) -> Self {
        Self::A2a(method, Box::new(step))
    }
}

macro_rules! from_step {
    ($($step:ident => $call:ident,)+) => { $(
        impl From<$step> for MethodCall {
            fn from(step: $step) -> Self {
                Self::$call(step.into())
            }
        }
    )+ };
}

from_step! {
    AgentTriggerStep => AgentTrigger,
    MessageStep => Message,
    ToolCallRequestStep => ToolCallRequest,
    ToolCallResultStep => ToolCallResult,
    KnowledgeRetrievalStep => KnowledgeRetrieval,
    McpStep => Mcp,
    Ping => Ping,
}
