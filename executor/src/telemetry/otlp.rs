//! Spans in the words of OTLP (protobuf). Pure.

use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use prost::Message as _;

use super::span::{AttributeValue, Attributes, SpanEvent, SpanKind};
use super::spans::ExportedTrace;

/// The flag of a span that states whether its parent is remote.
const KNOWS_REMOTE: u32 = 0x100;
/// The flag of a span with a remote parent.
const IS_REMOTE: u32 = 0x200;

/// The semantic conventions that the attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// A span that is ready to be sent.
pub(super) type ReadySpan = Span;

/// The spans of a trace, each after its parent.
pub(super) fn ready_spans(trace: ExportedTrace) -> Vec<ReadySpan> {
    let ExportedTrace { context, spans } = trace;
    let ready = |span: super::span::Span| ReadySpan {
        trace_id: context.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        trace_state: context.state.clone().unwrap_or_default(),
        parent_span_id: span.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        flags: u32::from(context.sampled)
            | KNOWS_REMOTE
            | if span.parent == context.parent && span.parent.is_some() { IS_REMOTE } else { 0 },
        name: span.name,
        kind: kind(span.kind).into(),
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end.unwrap_or(span.start)),
        attributes: attributes(span.attributes),
        dropped_attributes_count: 0,
        events: span.events.into_iter().map(event).collect(),
        dropped_events_count: span.dropped_events,
        links: Vec::new(),
        dropped_links_count: 0,
        // Only what failed has a status: whether the rest is good is not for a library to say.
        status: span.error.map(|code| Status { message: code, code: StatusCode::Error.into() }),
    };
    spans.into_iter().map(ready).collect()
}

/// Returns the body of one export.
pub(super) fn encode(service: &str, spans: Vec<ReadySpan>) -> Vec<u8> {
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let version = text(env!("CARGO_PKG_VERSION"));
    let resource = Resource {
        attributes: attributes(vec![("service.name", text(service)), ("service.version", version)]),
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "a2s-executor".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scoped = ScopeSpans { scope: Some(scope), spans, schema_url: SCHEMA.to_owned() };
    let spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scoped],
        schema_url: SCHEMA.to_owned(),
    };
    ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()
}

/// The number of spans that a receiver rejected, according to its response.
pub(super) fn count_rejected(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    u64::try_from(rejected).unwrap_or(0)
}

fn kind(kind: SpanKind) -> span::SpanKind {
    match kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
    }
}

fn event(event: SpanEvent) -> span::Event {
    span::Event {
        time_unix_nano: nanoseconds(event.at),
        name: event.name.to_owned(),
        attributes: attributes(event.attributes),
        dropped_attributes_count: 0,
    }
}

fn attributes(attributes: Attributes) -> Vec<KeyValue> {
    let pair = |(key, value): (&str, AttributeValue)| KeyValue {
        key: key.to_owned(),
        value: Some(any(value)),
        ..KeyValue::default()
    };
    attributes.into_iter().map(pair).collect()
}

fn any(value: AttributeValue) -> AnyValue {
    let text = |text| AnyValue { value: Some(Any::StringValue(text)) };
    match value {
        AttributeValue::Text(one) => text(one),
        AttributeValue::Texts(many) => {
            let values = many.into_iter().map(text).collect();
            AnyValue { value: Some(Any::ArrayValue(ArrayValue { values })) }
        }
        AttributeValue::Number(number) => AnyValue { value: Some(Any::IntValue(number)) },
        AttributeValue::Truth(truth) => AnyValue { value: Some(Any::BoolValue(truth)) },
    }
}

/// Returns the nanoseconds since 1970; zero for earlier times.
fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}
