//! The params of each method: of text section 4.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::codec::{self, InvalidMember, NestedError, Object, objects, take, words};
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
            #[serde(deserialize_with = "text_parts")]
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

/// Reads the outputs of a tool, which must be text.
fn text_parts<'de, D: Deserializer<'de>>(parts: D) -> Result<Vec<TextPart>, D::Error> {
    let text = |(index, part)| match part {
        ContentPart::Text(part) => Ok(part),
        ContentPart::File(_) | ContentPart::Data(_) => {
            let invalid = InvalidMember::new("must be \"text\"").in_member("kind");
            Err(D::Error::custom(NestedError::from(invalid.in_member(&format!("[{index}]")))))
        }
    };
    Vec::<ContentPart>::deserialize(parts)?.into_iter().enumerate().map(text).collect()
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
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Object")]
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
impl TryFrom<Object> for ToolCallResultStep {
    type Error = NestedError;

    fn try_from(mut members: Object) -> Result<Self, NestedError> {
        let nested: Option<Object> = take(&mut members, "toolCallResult")?;
        let flat = ["executionId", "result"].into_iter();
        let flat: Object = flat.filter_map(|name| members.shift_remove_entry(name)).collect();
        let (mut execution, location) = match nested {
            Some(nested) => {
                if let Some((name, _)) =
                    flat.iter().find(|(name, value)| nested.get(*name) != Some(*value))
                {
                    let differs = InvalidMember::new("differs from the one in toolCallResult");
                    return Err(differs.in_member(name).into());
                }
                (nested, "toolCallResult")
            }
            None if flat.is_empty() => {
                return Err(InvalidMember::new("is missing").in_member("toolCallResult").into());
            }
            None => (flat, ""),
        };
        Ok(Self {
            execution_id: take(&mut execution, "executionId").map_err(|e| e.in_member(location))?,
            result: take(&mut execution, "result").map_err(|e| e.in_member(location))?,
            context: take(&mut members, "context")?,
            reasoning: take(&mut members, "reasoning")?,
            tool_id: take(&mut members, "toolId")?,
            extra: members,
        })
    }
}

impl Serialize for ToolCallResultStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            context: &'a StepContext,
            tool_call_result: NestedResult<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            reasoning: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_id: Option<&'a str>,
            #[serde(flatten)]
            extra: &'a Object,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct NestedResult<'a> {
            execution_id: &'a str,
            result: &'a ToolResult,
        }
        let Self { context, execution_id, result, reasoning, tool_id, extra } = self;
        Params {
            context,
            tool_call_result: NestedResult { execution_id, result },
            reasoning: reasoning.as_deref(),
            tool_id: tool_id.as_deref(),
            extra,
        }
        .serialize(serializer)
    }
}

objects! {
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
    McpStep {
        required {
            /// The MCP message, unchanged.
            message "message": Object,
        }
        optional {
            /// The actor, the session and the time. The text does not mention it and the schema allows it;
            /// without it, a guardian cannot know the author of the message.
            context "context": StepContext,
            /// The agent's reason for this step.
            reasoning "reasoning": String,
        }
    }
}

impl McpStep {
    /// Returns true when the params are an MCP message themselves, as on the hooks page. The text puts the
    /// MCP message into `message`.
    pub(super) fn is_bare_message(params: &Object) -> bool {
        !params.contains_key("message")
            && params.get("jsonrpc").is_some_and(|version| version == "2.0")
            && (params.get("method").is_some_and(Value::is_string)
                || ["result", "error"]
                    .iter()
                    .any(|name| params.get(*name).is_some_and(Value::is_object)))
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
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct A2aStep {
    /// The A2A message, unchanged.
    pub payload: Object,
    /// The two parties. The schema requires it and the tables of the text do not have it, so it is read as
    /// empty when it is missing. Absent in the older wording `protocols/A2A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<A2aContext>,
    /// The agent's reason for this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Members that the text does not define, unchanged.
    #[serde(flatten)]
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
}

/// A step in the older notation `protocols/A2A {message, reasoning}`. It is written because it came in it.
#[derive(Deserialize, Serialize)]
pub(super) struct WrappedA2aStep<'a> {
    message: Cow<'a, Object>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Cow<'a, A2aContext>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(flatten)]
    extra: Cow<'a, Object>,
}

impl<'a> From<&'a A2aStep> for WrappedA2aStep<'a> {
    fn from(step: &'a A2aStep) -> Self {
        Self {
            message: Cow::Borrowed(&step.payload),
            context: step.context.as_ref().map(Cow::Borrowed),
            reasoning: step.reasoning.as_deref().map(Cow::Borrowed),
            extra: Cow::Borrowed(&step.extra),
        }
    }
}

impl From<WrappedA2aStep<'_>> for A2aStep {
    fn from(step: WrappedA2aStep<'_>) -> Self {
        Self {
            payload: step.message.into_owned(),
            context: step.context.map(Cow::into_owned),
            reasoning: step.reasoning.map(Cow::into_owned),
            extra: step.extra.into_owned(),
        }
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
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Ping {
    /// The time of the question. Schema and text put it in different locations, so it is written in both.
    #[serde(default, deserialize_with = "codec::optional_timestamp")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// The time after which the guardian counts as lost, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Further data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}
