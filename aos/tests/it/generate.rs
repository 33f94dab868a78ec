//! Messages of every kind, for property tests.

use aos::message::{
    A2aAgent, A2aContext, A2aMethod, A2aParty, A2aRole, A2aStep, Agent, AgentProvider,
    AgentTrigger, AgentTriggerEvent, AgentTriggerStep, CitationSource, ContentPart, DataPart,
    FileContent, FilePart, FileSource, FileWithBytes, FileWithUri, KnowledgeResult,
    KnowledgeRetrievalStep, KnowledgeStep, McpStep, MemoryStep, Message, MessageStep, MethodCall,
    Object, Organization, Ping, Request, RequestId, Role, Session, SiteSource, StepContext,
    TextPart, ToolArgumentDefinition, ToolArgumentValue, ToolCallRequest, ToolCallRequestStep,
    ToolCallResultStep, ToolDefinition, ToolResult, TriggerKind, User, ValueKind,
};
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

/// Any question that this crate can write.
pub(crate) fn requests() -> BoxedStrategy<Request> {
    (ids(), calls()).prop_map(|(id, call)| Request { id, call }).boxed()
}

fn ids() -> BoxedStrategy<RequestId> {
    prop_oneof![texts().prop_map(RequestId::from), any::<i64>().prop_map(RequestId::from)].boxed()
}

fn calls() -> BoxedStrategy<MethodCall> {
    prop_oneof![
        triggers(),
        messages(),
        tool_call_requests(),
        tool_call_results(),
        retrievals(),
        memories(),
        mcp_messages(),
        a2a_messages(),
        pings(),
    ]
    .boxed()
}

/// A question about a tool call.
pub(crate) fn tool_call_requests() -> BoxedStrategy<MethodCall> {
    let inputs = vec((texts(), values(), option::of(texts())), 0..4).prop_map(|inputs| {
        let input =
            |(name, value, id)| ToolArgumentValue { id, ..ToolArgumentValue::new(name, value) };
        inputs.into_iter().map(input).collect()
    });
    let call = (texts(), texts(), inputs).prop_map(|(execution_id, tool_id, inputs)| {
        ToolCallRequest::new(execution_id, tool_id, inputs)
    });
    (contexts(), call, option::of(texts()))
        .prop_map(|(context, call, reasoning)| {
            ToolCallRequestStep { reasoning, ..ToolCallRequestStep::new(context, call) }.into()
        })
        .boxed()
}

fn tool_call_results() -> BoxedStrategy<MethodCall> {
    (contexts(), texts(), vec(text_parts(), 0..3), any::<bool>(), objects(), option::of(texts()))
        .prop_map(|(context, execution_id, outputs, is_error, extra, tool_id)| {
            let result = ToolResult::new(outputs, is_error);
            ToolCallResultStep {
                tool_id,
                extra,
                ..ToolCallResultStep::new(context, execution_id, result)
            }
            .into()
        })
        .boxed()
}

fn triggers() -> BoxedStrategy<MethodCall> {
    (contexts(), texts(), texts(), vec(parts(), 0..3))
        .prop_map(|(context, kind, id, content)| {
            let event = AgentTriggerEvent::new(kind, id);
            AgentTriggerStep::new(
                context,
                AgentTrigger::new(TriggerKind::Autonomous, event, content),
            )
            .into()
        })
        .boxed()
}

fn messages() -> BoxedStrategy<MethodCall> {
    let roles = proptest::sample::select(Role::ALL);
    let sources = prop_oneof![
        (texts(), texts()).prop_map(|(id, name)| CitationSource::File(FileSource::new(id, name))),
        texts().prop_map(|url| CitationSource::Site(SiteSource::new(url))),
    ];
    (contexts(), texts(), roles, vec(parts(), 0..3), option::of(vec(sources, 0..3)))
        .prop_map(|(context, id, role, content, citations)| {
            MessageStep { citations, ..MessageStep::new(context, Message::new(id, role, content)) }
                .into()
        })
        .boxed()
}

fn retrievals() -> BoxedStrategy<MethodCall> {
    let results =
        vec((texts(), texts()).prop_map(|(id, content)| KnowledgeResult::new(id, content)), 0..3);
    (contexts(), results, option::of(texts()), option::of(vec(texts(), 0..3)))
        .prop_map(|(context, results, query, keywords)| {
            let step = KnowledgeStep { query, keywords, ..KnowledgeStep::new(results) };
            KnowledgeRetrievalStep::new(context, step).into()
        })
        .boxed()
}

fn memories() -> BoxedStrategy<MethodCall> {
    (contexts(), vec(texts(), 0..3), any::<bool>())
        .prop_map(|(context, memory, is_store)| {
            let step = Box::new(MemoryStep::new(context, memory));
            if is_store {
                MethodCall::MemoryStore(step)
            } else {
                MethodCall::MemoryContextRetrieval(step)
            }
        })
        .boxed()
}

fn mcp_messages() -> BoxedStrategy<MethodCall> {
    (objects(), option::of(contexts()), option::of(texts()))
        .prop_map(|(message, context, reasoning)| {
            McpStep { context, reasoning, ..McpStep::new(message) }.into()
        })
        .boxed()
}

fn a2a_messages() -> BoxedStrategy<MethodCall> {
    let methods = proptest::sample::select(&[
        A2aMethod::MessageSend,
        A2aMethod::MessageStream,
        A2aMethod::TaskGet,
        A2aMethod::TaskCancel,
        A2aMethod::TaskResubscribe,
        A2aMethod::PushConfigSet,
        A2aMethod::PushConfigGet,
    ]);
    let party = |role| {
        option::of(texts()).prop_map(move |name| {
            let agent = Some(A2aAgent { name, ..A2aAgent::new() });
            A2aParty { agent, role: Some(role), ..A2aParty::new() }
        })
    };
    (methods, objects(), party(A2aRole::Client), party(A2aRole::Server))
        .prop_map(|(method, payload, from, to)| {
            let context = A2aContext { from: Some(from), to: Some(to), ..A2aContext::new() };
            MethodCall::A2a(method, Box::new(A2aStep::new(payload, context)))
        })
        .boxed()
}

fn pings() -> BoxedStrategy<MethodCall> {
    (timestamps(), option::of(0..60_000_i64), option::of(objects()))
        .prop_map(|(timestamp, timeout, metadata)| {
            Ping { timestamp: Some(timestamp), timeout, metadata }.into()
        })
        .boxed()
}

fn contexts() -> BoxedStrategy<StepContext> {
    let extra = proptest::collection::btree_map("x-[a-z]{1,4}", objects(), 0..2);
    (
        agents(),
        texts(),
        option::of(objects()),
        texts(),
        texts(),
        timestamps(),
        option::of(users()),
        extra,
    )
        .prop_map(|(agent, session, metadata, turn, step, timestamp, user, extra)| {
            let session = Session { metadata, ..Session::new(session) };
            StepContext { user, extra, ..StepContext::new(agent, session, turn, step, timestamp) }
        })
        .boxed()
}

fn agents() -> BoxedStrategy<Agent> {
    (texts(), texts(), texts(), texts(), texts(), option::of(vec(tools(), 0..2)), objects())
        .prop_map(|(id, name, instructions, version, url, tools, extra)| {
            let provider = AgentProvider::new(name.clone(), url.clone());
            Agent { tools, extra, ..Agent::new(id, name, instructions, version, provider, url) }
        })
        .boxed()
}

fn tools() -> BoxedStrategy<ToolDefinition> {
    let kinds = option::of(proptest::sample::select(ValueKind::ALL));
    let arguments = vec((texts(), any::<bool>(), kinds), 0..2).prop_map(|arguments| {
        let argument = |(name, required, kind)| ToolArgumentDefinition {
            kind,
            ..ToolArgumentDefinition::new(name, required)
        };
        arguments.into_iter().map(argument).collect()
    });
    (texts(), texts(), option::of(arguments))
        .prop_map(|(name, id, arguments)| {
            ToolDefinition::new(name, id, "api_request".to_owned(), arguments, None)
        })
        .boxed()
}

fn users() -> BoxedStrategy<User> {
    (texts(), option::of(texts()), option::of(texts()))
        .prop_map(|(id, email, organization)| User {
            email,
            organization: organization.map(Organization::new),
            ..User::new(id)
        })
        .boxed()
}

fn parts() -> BoxedStrategy<ContentPart> {
    prop_oneof![
        text_parts().prop_map(ContentPart::Text),
        objects().prop_map(|data| ContentPart::Data(DataPart::new(data))),
        texts().prop_map(|bytes| ContentPart::File(FilePart::new(FileContent::Bytes(
            FileWithBytes::new(bytes)
        )))),
        texts().prop_map(|uri| ContentPart::File(FilePart::new(FileContent::Uri(
            FileWithUri::new(uri)
        )))),
    ]
    .boxed()
}

fn text_parts() -> BoxedStrategy<TextPart> {
    (texts(), option::of(objects()))
        .prop_map(|(text, metadata)| TextPart { metadata, ..TextPart::new(text) })
        .boxed()
}

fn timestamps() -> BoxedStrategy<Timestamp> {
    // The years that RFC 3339 can write.
    (0..253_402_300_799_i64, 0..1_000_000_000)
        .prop_map(|(seconds, nanos)| Timestamp::new(seconds, nanos).unwrap())
        .boxed()
}

/// Members with names that no object of the protocol has.
fn objects() -> BoxedStrategy<Object> {
    vec(("x-[a-z]{1,4}", values()), 0..3).prop_map(|members| members.into_iter().collect()).boxed()
}

fn values() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        proptest::num::f64::NORMAL.prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((texts(), inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
    .boxed()
}

fn texts() -> BoxedStrategy<String> {
    prop_oneof!["[a-z0-9-]{1,8}", any::<String>()].boxed()
}
