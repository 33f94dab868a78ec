//! The params of each method: of text section 4.

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::codec::{
    self, InvalidMember, Object, ObjectMembers, ReadJson, WriteJson, objects, words, write_extra,
    write_optional,
};
use super::content::{CitationSource, ContentPart, TextPart};
use super::context::StepContext;

objects! {
    /// `steps/agentTrigger`: an event is about to start the agent (text 4.1).
    ///
    /// ```
    #[doc = include_str!("example_context.md")]
    /// use aos::message::{AgentTrigger, AgentTriggerEvent, AgentTriggerStep, ContentPart, Request, TextPart, TriggerKind};
    ///
    /// let event = AgentTriggerEvent::new("email".into(), "mail-7".into());
    /// let content = vec![ContentPart::Text(TextPart::new("Your flight was cancelled."))];
    /// let trigger = AgentTrigger::new(TriggerKind::Autonomous, event, content);
    /// let question = Request::new("question-1", AgentTriggerStep::new(context, trigger));
    ///
    /// let sent = serde_json::to_value(&question)?;
    /// assert_eq!(sent["method"], "steps/agentTrigger");
    /// assert_eq!(sent["params"]["trigger"]["event"]["type"], "email");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    AgentTriggerStep {
        required {
            /// The actor, the session and the time.
            context "context": StepContext,
            /// The trigger of the agent.
            trigger "trigger": AgentTrigger,
        }
    }

    /// The trigger of an agent (text 3.6).
    AgentTrigger {
        required {
            /// The kind of trigger.
            kind "type": TriggerKind,
            /// The event that caused it.
            event "event": AgentTriggerEvent,
            /// The content that the agent would get.
            content "content": Vec<ContentPart>,
        }
        optional {
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// The event that caused a trigger (text 3.6.1).
    AgentTriggerEvent {
        required {
            /// Its kind, for instance `email`.
            kind "type": String,
            /// Its id.
            id "id": String,
        }
    }

    /// `steps/message`: a message goes in or out (text 4.5).
    ///
    /// ```
    #[doc = include_str!("example_context.md")]
    /// use aos::message::{Message, MessageStep, ContentPart, Request, Role, SiteSource, CitationSource, TextPart};
    ///
    /// let text = vec![ContentPart::Text(TextPart::new("The next train leaves at nine."))];
    /// let answer = Message::new("message-2".into(), Role::Agent, text);
    /// let mut step = MessageStep::new(context, answer);
    /// step.citations = Some(vec![CitationSource::Site(SiteSource::new("https://trains.example".into()))]);
    /// let question = Request::new("question-1", step);
    ///
    /// let sent = serde_json::to_value(&question)?;
    /// assert_eq!(sent["method"], "steps/message");
    /// assert_eq!(sent["params"]["message"]["role"], "agent");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    MessageStep {
        required {
            /// The actor, the session and the time.
            context "context": StepContext,
            /// The message.
            message "message": Message,
        }
        optional {
            /// The sources that a message of the agent cites.
            citations "citations": Vec<CitationSource>,
            /// The agent's reason for this step.
            reasoning "reasoning": String,
        }
    }

    /// One message (text 3.3).
    Message {
        required {
            /// Its id, unique in the session.
            id "id": String,
            /// The author of the message.
            role "role": Role,
            /// Its content.
            content "content": Vec<ContentPart>,
        }
        optional {
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// `steps/toolCallRequest`: a tool is about to be called (text 4.6).
    ///
    /// ```
    #[doc = include_str!("example_context.md")]
    /// use aos::message::{Request, ToolArgumentValue, ToolCallRequest, ToolCallRequestStep};
    ///
    /// let inputs = vec![ToolArgumentValue::new("city".into(), "Paris".into())];
    /// let call = ToolCallRequest::new("execution-1".into(), "weather".into(), inputs);
    /// let mut step = ToolCallRequestStep::new(context, call);
    /// step.reasoning = Some("They asked for the weather.".into());
    /// let question = Request::new("question-1", step);
    ///
    /// let sent = serde_json::to_value(&question)?;
    /// assert_eq!(sent["method"], "steps/toolCallRequest");
    /// assert_eq!(sent["params"]["toolCallRequest"]["inputs"][0]["name"], "city");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ToolCallRequestStep {
        required {
            /// The actor, the session and the time.
            context "context": StepContext,
            /// The call.
            tool_call_request "toolCallRequest": ToolCallRequest,
        }
        optional {
            /// The agent's reason for this step.
            reasoning "reasoning": String,
        }
    }

    /// The call of a tool (text 3.15).
    ToolCallRequest {
        required {
            /// The execution; the result carries the same.
            execution_id "executionId": String,
            /// The tool.
            tool_id "toolId": String,
            /// The inputs of the call.
            inputs "inputs": Vec<ToolArgumentValue>,
        }
    }

    /// One input of a tool (text 3.15.1).
    ToolArgumentValue {
        required {
            /// The name of the argument.
            name "name": String,
            /// Its value: any JSON.
            value "value": Value,
        }
        optional {
            /// The id of the argument.
            id "id": String,
        }
    }

    /// The result of a tool (text 4.6.1.1).
    ToolResult {
        required {
            /// The output of the tool, as text.
            outputs "outputs": Vec<TextPart>,
            /// Set when the tool failed.
            is_error "isError": bool,
        }
    }

    /// `steps/knowledgeRetrieval`: knowledge is about to be used (text 4.2).
    ///
    /// ```
    #[doc = include_str!("example_context.md")]
    /// use aos::message::{KnowledgeResult, KnowledgeRetrievalStep, KnowledgeStep, Request};
    ///
    /// let found = vec![KnowledgeResult::new("timetable.csv".into(), "TGV,Paris,9:00".into())];
    /// let mut step = KnowledgeStep::new(found);
    /// step.query = Some("trains to Paris".into());
    /// let question = Request::new("question-1", KnowledgeRetrievalStep::new(context, step));
    ///
    /// let sent = serde_json::to_value(&question)?;
    /// assert_eq!(sent["method"], "steps/knowledgeRetrieval");
    /// assert_eq!(sent["params"]["knowledgeStep"]["results"][0]["id"], "timetable.csv");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    KnowledgeRetrievalStep {
        required {
            /// The actor, the session and the time.
            context "context": StepContext,
            /// The query and its results.
            knowledge_step "knowledgeStep": KnowledgeStep,
        }
        optional {
            /// The agent's reason for this step.
            reasoning "reasoning": String,
        }
    }

    /// A knowledge query and its results (text 3.14).
    KnowledgeStep {
        required {
            /// The results.
            results "results": Vec<KnowledgeResult>,
        }
        optional {
            /// The text of the query.
            query "query": String,
            /// The search words.
            keywords "keywords": Vec<String>,
        }
    }

    /// One result of a retrieval (text 3.14.1).
    KnowledgeResult {
        required {
            /// The id of its source.
            id "id": String,
            /// Its content.
            content "content": String,
        }
        optional {
            /// Its media type.
            mime_type "mimeType": String,
            /// Further data.
            metadata "metadata": Object,
        }
    }

    /// `steps/memoryStore` (text 4.3) and `steps/memoryContextRetrieval` (text 4.4).
    ///
    /// ```
    #[doc = include_str!("example_context.md")]
    /// use aos::message::{MethodCall, MemoryStep, Request};
    ///
    /// let step = MemoryStep::new(context, vec!["prefers trains".into()]);
    /// let write = Request::new("question-1", MethodCall::memory_store(step.clone()));
    /// let read = Request::new("question-2", MethodCall::memory_context_retrieval(step));
    ///
    /// let sent = serde_json::to_value(&write)?;
    /// assert_eq!((&sent["method"], &sent["params"]["memory"][0]), (&"steps/memoryStore".into(), &"prefers trains".into()));
    /// assert_eq!(serde_json::to_value(&read)?["method"], "steps/memoryContextRetrieval");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    MemoryStep {
        required {
            /// The actor, the session and the time.
            context "context": StepContext,
            /// The memories; structured ones as their JSON text.
            memory "memory": Vec<String>,
        }
        optional {
            /// The agent's reason for this step.
            reasoning "reasoning": String,
        }
    }
}

words! {
    /// The kind of a trigger.
    TriggerKind {
        /// A trigger that a person did not start.
        Autonomous "autonomous",
    }

    /// The author of a message.
    Role {
        /// The author is a person.
        User "user",
        /// The author is the agent.
        Agent "agent",
        /// The author is the system, for instance a guardrail.
        System "system",
    }

    /// The side of an agent in an A2A exchange.
    A2aRole {
        /// The agent sends requests.
        Client "client",
        /// The agent receives requests.
        Server "server",
    }
}

/// `steps/toolCallResult`: the result of a tool is about to be used (text 4.6).
///
/// ```
#[doc = include_str!("example_context.md")]
/// use aos::message::{Request, TextPart, ToolCallResultStep, ToolResult};
///
/// let result = ToolResult::new(vec![TextPart::new(r#"{"celsius":18}"#)], false);
/// let mut step = ToolCallResultStep::new(context, "execution-1", result);
/// step.tool_id = Some("weather".into());
/// let question = Request::new("question-2", step);
///
/// let sent = serde_json::to_value(&question)?;
/// assert_eq!(sent["method"], "steps/toolCallResult");
/// assert_eq!(sent["params"]["toolCallResult"]["executionId"], "execution-1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallResultStep {
    /// The actor, the session and the time.
    pub context: StepContext,
    /// The id of the execution, the same as in the request.
    pub execution_id: String,
    /// The result of the execution.
    pub result: ToolResult,
    /// The agent's reason for this step.
    pub reasoning: Option<String>,
    /// The tool. The text does not mention it and the schema allows it; without it, a guardian without
    /// state cannot know which tool the result belongs to.
    pub tool_id: Option<String>,
    /// Members that the text does not define, unchanged.
    pub extra: Object,
}

impl ToolCallResultStep {
    /// Creates a result without reasoning and without the tool's name.
    pub fn new(context: StepContext, execution_id: impl Into<String>, result: ToolResult) -> Self {
        let execution_id = execution_id.into();
        Self { context, execution_id, result, reasoning: None, tool_id: None, extra: Object::new() }
    }
}

/// Reads the result. The schema and the hooks put it into `toolCallResult`, the text has it at the top
/// level: both are read, and `toolCallResult` is written. If a message has both, they must be equal.
impl ReadJson for ToolCallResultStep {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        let (execution_id, result) = match members.optional::<Object>("toolCallResult")? {
            Some(nested) => {
                for name in ["executionId", "result"] {
                    if members.get(name).is_some_and(|flat| Some(flat) != nested.get(name)) {
                        return Err(InvalidMember::new("differs from the one in toolCallResult")
                            .in_member(name));
                    }
                }
                read_execution(&mut ObjectMembers::from(nested))
                    .map_err(|e| e.in_member("toolCallResult"))?
            }
            None if members.contains("executionId") || members.contains("result") => {
                read_execution(&mut members)?
            }
            None => return Err(InvalidMember::new("is missing").in_member("toolCallResult")),
        };
        Ok(Self {
            context: members.required("context")?,
            execution_id,
            result,
            reasoning: members.optional("reasoning")?,
            tool_id: members.optional("toolId")?,
            extra: members.into_remaining(),
        })
    }
}

fn read_execution(members: &mut ObjectMembers) -> Result<(String, ToolResult), InvalidMember> {
    Ok((members.required("executionId")?, members.required("result")?))
}

impl WriteJson for ToolCallResultStep {
    fn write<M: SerializeMap>(
        &self,
        map: &mut M,
        extent: codec::WriteExtent,
    ) -> Result<(), M::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct NestedResult<'a> {
            execution_id: &'a str,
            result: &'a ToolResult,
        }
        let nested = NestedResult { execution_id: &self.execution_id, result: &self.result };
        if extent.includes("context") {
            map.serialize_entry("context", &self.context)?;
        }
        map.serialize_entry("toolCallResult", &nested)?;
        write_optional(map, "reasoning", self.reasoning.as_ref())?;
        write_optional(map, "toolId", self.tool_id.as_ref())?;
        let known = ["context", "toolCallResult", "executionId", "result", "reasoning", "toolId"];
        write_extra(map, &known, &self.extra)
    }
}

impl Serialize for ToolCallResultStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        codec::serialize(self, serializer, codec::WriteExtent::Whole)
    }
}

/// `protocols/MCP`: an MCP message is about to be sent, or has come in (text 4.10).
///
/// ```
#[doc = include_str!("example_context.md")]
/// use aos::message::{McpStep, Object, Request};
/// use serde_json::json;
///
/// // Outbound: before the message goes to the server.
/// let call = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "slots", "arguments": {}}});
/// let call: Object = serde_json::from_value(call)?;
/// let outbound = Request::new("question-1", McpStep { context: Some(context), ..McpStep::new(call) });
///
/// // Inbound: before the answer of the server is used.
/// let answer: Object = serde_json::from_value(json!({"jsonrpc": "2.0", "id": 4, "result": {"content": "free at nine"}}))?;
/// let inbound = Request::new("question-2", McpStep::new(answer));
///
/// let sent = serde_json::to_value(&outbound)?;
/// assert_eq!(sent["method"], "protocols/MCP");
/// assert_eq!(sent["params"]["message"]["method"], "tools/call");
/// assert_eq!(serde_json::to_value(&inbound)?["params"]["message"]["result"]["content"], "free at nine");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct McpStep {
    /// The MCP message, unchanged.
    pub message: Object,
    /// The actor, the session and the time. The text does not mention it and the schema allows it; without
    /// it, a guardian cannot know the author of the message.
    pub context: Option<StepContext>,
    /// The agent's reason for this step.
    pub reasoning: Option<String>,
    /// Members that the text does not define, unchanged.
    pub extra: Object,
}

impl McpStep {
    /// Creates a message without context and reasoning.
    pub fn new(message: Object) -> Self {
        Self { message, context: None, reasoning: None, extra: Object::new() }
    }
}

/// Reads both forms: the text puts the MCP message into `message`; on the hooks page, it is the params
/// themselves.
impl ReadJson for McpStep {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        let is_bare = !members.contains("message")
            && members.get("jsonrpc").is_some_and(|version| version == "2.0")
            && (members.get("method").is_some_and(Value::is_string)
                || ["result", "error"]
                    .iter()
                    .any(|name| members.get(name).is_some_and(Value::is_object)));
        if is_bare {
            return Ok(Self::new(members.into_remaining()));
        }
        Ok(Self {
            message: members.required("message")?,
            context: members.optional("context")?,
            reasoning: members.optional("reasoning")?,
            extra: members.into_remaining(),
        })
    }
}

impl WriteJson for McpStep {
    fn write<M: SerializeMap>(
        &self,
        map: &mut M,
        extent: codec::WriteExtent,
    ) -> Result<(), M::Error> {
        map.serialize_entry("message", &self.message)?;
        if extent.includes("context") {
            write_optional(map, "context", self.context.as_ref())?;
        }
        write_optional(map, "reasoning", self.reasoning.as_ref())?;
        write_extra(map, &["message", "context", "reasoning"], &self.extra)
    }
}

impl Serialize for McpStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        codec::serialize(self, serializer, codec::WriteExtent::Whole)
    }
}

/// The step of an A2A message that is about to be sent, or has come in (text 4.8 and 4.9).
///
/// ```
/// use aos::message::{A2aAgent, A2aContext, A2aMethod, A2aParty, A2aRole, A2aStep, Method, Object, Request};
/// use serde_json::json;
///
/// let party = |name: &str, role| A2aParty {
///     agent: Some(A2aAgent { name: Some(name.into()), ..A2aAgent::new() }),
///     role: Some(role),
///     ..A2aParty::new()
/// };
/// let mut between = A2aContext::new();
/// between.from = Some(party("Travel desk", A2aRole::Client));
/// between.to = Some(party("Hotel", A2aRole::Server));
///
/// // The same for each of the seven methods, and for the answers to them.
/// for (method, name) in [
///     (A2aMethod::MessageSend, "message/send"),
///     (A2aMethod::MessageStream, "message/stream"),
///     (A2aMethod::TaskGet, "task/get"),
///     (A2aMethod::TaskCancel, "tasks/cancel"),
///     (A2aMethod::TaskResubscribe, "tasks/resubscribe"),
///     (A2aMethod::PushConfigSet, "task/pushNotificationConfig/set"),
///     (A2aMethod::PushConfigGet, "task/pushNotificationConfig/get"),
/// ] {
///     let payload: Object = serde_json::from_value(json!({"jsonrpc": "2.0", "id": 1, "params": {"id": "task-1"}}))?;
///     let question = Request::new("question-1", (method, A2aStep::new(payload, between.clone())));
///     let sent = serde_json::to_value(&question)?;
///     assert_eq!((&sent["method"], &sent["params"]["context"]["to"]["role"]), (&name.into(), &"server".into()));
/// }
/// // Two of them are `tasks/…` in the text. Both wordings are read.
/// assert_eq!(Method::from_name("tasks/get"), Method::from_name("task/get"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct A2aStep {
    /// The A2A message, unchanged.
    pub payload: Object,
    /// The two parties. The schema requires it and the tables of the text do not have it, so it is read as
    /// empty when it is missing. Absent in the older wording `protocols/A2A`.
    pub context: Option<A2aContext>,
    /// The agent's reason for this step.
    pub reasoning: Option<String>,
    /// Members that the text does not define, unchanged.
    pub extra: Object,
}

objects! {
    /// The two parties of an A2A message.
    #[derive(Default)]
    A2aContext {
        optional {
            /// The sender.
            from "from": A2aParty,
            /// The receiver.
            to "to": A2aParty,
        }
    }

    /// A party of an A2A exchange.
    #[derive(Default)]
    A2aParty {
        optional {
            /// The agent.
            agent "agent": A2aAgent,
            /// Its side: client or server.
            role "role": A2aRole,
        }
    }

    /// An agent as the other side sees it. The schema rejects a complete [`Agent`](super::Agent) here, so
    /// send only the known members of the other agent.
    #[derive(Default)]
    A2aAgent {
        optional {
            /// Its name.
            name "name": String,
            /// Its address.
            url "url": String,
            /// Its version.
            version "version": String,
        }
    }
}

impl A2aStep {
    /// Creates a message between two parties.
    pub fn new(payload: Object, context: A2aContext) -> Self {
        Self { payload, context: Some(context), reasoning: None, extra: Object::new() }
    }

    /// Reads `protocols/A2A {message, reasoning}`, the older notation.
    pub(super) fn read_wrapped(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        Ok(Self {
            payload: members.required("message")?,
            context: members.optional("context")?,
            reasoning: members.optional("reasoning")?,
            extra: members.into_remaining(),
        })
    }

    fn write_as<M: SerializeMap>(
        &self,
        payload: &'static str,
        map: &mut M,
        extent: codec::WriteExtent,
    ) -> Result<(), M::Error> {
        map.serialize_entry(payload, &self.payload)?;
        if extent.includes("context") {
            write_optional(map, "context", self.context.as_ref())?;
        }
        write_optional(map, "reasoning", self.reasoning.as_ref())?;
        write_extra(map, &[payload, "context", "reasoning"], &self.extra)
    }
}

/// An A2A step that is written in the older notation because it came in it.
pub(super) struct WrappedA2aStep<'a>(pub(super) &'a A2aStep);

impl WriteJson for WrappedA2aStep<'_> {
    fn write<M: SerializeMap>(
        &self,
        map: &mut M,
        extent: codec::WriteExtent,
    ) -> Result<(), M::Error> {
        self.0.write_as("message", map, extent)
    }
}

impl WriteJson for A2aStep {
    fn write<M: SerializeMap>(
        &self,
        map: &mut M,
        extent: codec::WriteExtent,
    ) -> Result<(), M::Error> {
        self.write_as("payload", map, extent)
    }
}

impl ReadJson for A2aStep {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        Ok(Self {
            payload: members.required("payload")?,
            context: Some(members.optional("context")?.unwrap_or_default()),
            reasoning: members.optional("reasoning")?,
            extra: members.into_remaining(),
        })
    }
}

impl Serialize for A2aStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        codec::serialize(self, serializer, codec::WriteExtent::Whole)
    }
}

/// `ping`: checks that the guardian responds (text 4.7).
///
/// ```
/// use aos::message::{Ping, Request};
///
/// let time = "2026-01-02T03:04:05Z".parse().ok();
/// let question = Request::new(1, Ping { timestamp: time, timeout: Some(2_000), metadata: None });
///
/// let sent = serde_json::to_value(&question)?;
/// assert_eq!((&sent["method"], &sent["timestamp"]), (&"ping".into(), &"2026-01-02T03:04:05Z".into()));
/// assert_eq!(sent["params"]["timeout"], 2_000);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ping {
    /// The time of the question. Schema and text put it in different locations, so it is written in both.
    pub timestamp: Option<Timestamp>,
    /// The time after which the guardian counts as lost, in milliseconds.
    pub timeout: Option<i64>,
    /// Further data.
    pub metadata: Option<Object>,
}
