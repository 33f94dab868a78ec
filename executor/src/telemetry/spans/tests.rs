use std::collections::BTreeSet;

use a2s_api::StepWarning;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::journal::run_state::tests::{any_kind, journal};
use crate::telemetry::context::RunTrace;

fn kind(value: serde_json::Value) -> EventKind {
    serde_json::from_value(value).unwrap()
}

fn started(step: &str, what: &str) -> EventKind {
    kind(json!({"type": "step_started", "step": step, "kind": what}))
}

fn decided(step: &str, phase: &str, decision: &str) -> EventKind {
    kind(json!({
        "type": "decided", "step": step, "execution_id": uuid::Uuid::nil(),
        "decision": {
            "phase": phase, "decision": decision, "source": "guardian",
            "message": "too much", "reason_codes": ["policy.x"],
            "changes": [{"name": "body", "from": "s3cret", "to": "other"}],
        },
    }))
}

fn sending(step: &str, attempt: u32) -> EventKind {
    kind(json!({
        "type": "sending", "step": step, "execution_id": uuid::Uuid::nil(), "attempt": attempt,
        "method": "POST", "url": "https://api.example:8443/pay?to=s3cret&n=1",
        "upstream": "http://127.0.0.1:9/base", "request_digest": a2s::Digest::of_bytes(b""),
        "repeat_safe": false,
    }))
}

fn received(step: &str, attempt: u32, status: u16) -> EventKind {
    kind(json!({
        "type": "received", "step": step, "attempt": attempt, "status": status, "bytes": 7,
        "duration_ms": 1,
    }))
}

fn retrying(step: &str, attempt: u32) -> EventKind {
    kind(json!({
        "type": "retrying", "step": step, "attempt": attempt, "reason": "s3cret", "pause_ms": 5,
    }))
}

fn finished(step: &str) -> EventKind {
    kind(json!({
        "type": "step_finished", "step": step, "outputs": {"x": "s3cret"}, "duration_ms": 4,
    }))
}

fn failed(step: &str, error: ErrorKind) -> EventKind {
    let error = crate::Error::new(error, "s3cret").to_run_error(Some(step), None, true);
    EventKind::StepFailed { step: step.to_owned(), error, duration_ms: 4 }
}

fn ended() -> EventKind {
    kind(
        json!({"type": "run_finished", "status": "succeeded", "output": "s3cret", "duration_ms": 9}),
    )
}

fn trace(kinds: impl IntoIterator<Item = EventKind>) -> ExportedTrace {
    let trace = trace_of(&journal(kinds.into_iter().chain([ended()]))).unwrap();
    assert!(!format!("{trace:?}").contains("s3cret"), "{trace:#?}");
    trace
}

/// A line for each span, below its parent: name, step, begin and end in seconds, what went wrong,
/// and its events.
fn tree(trace: &ExportedTrace) -> Vec<String> {
    let depth = |span: &Span| {
        let mut above = Vec::from_iter(span.parent);
        while let Some(parent) = trace.spans.iter().find(|one| above.last() == Some(&one.id)) {
            above.extend(parent.parent);
            if parent.parent.is_none() {
                break;
            }
        }
        above.len()
    };
    let line = |span: &Span| {
        let step = match find(span, "a2s.step") {
            Some(AttributeValue::Text(step)) => format!(" {step}"),
            _ => String::new(),
        };
        let error = span.error.as_ref().map_or_else(String::new, |error| format!(" !{error}"));
        let events: Vec<_> = span.events.iter().map(|event| event.name).collect();
        let events = if events.is_empty() { String::new() } else { format!(" {events:?}") };
        let (start, end) = (span.start.as_second(), span.end.unwrap().as_second());
        let indent = "  ".repeat(depth(span));
        format!("{indent}{}{step} {start}-{end}{error}{events}", span.name)
    };
    trace.spans.iter().map(line).collect()
}

fn find<'s>(span: &'s Span, name: &str) -> Option<&'s AttributeValue> {
    span.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn span<'t>(trace: &'t ExportedTrace, name: &str) -> &'t Span {
    trace.spans.iter().find(|span| span.name == name).unwrap()
}

/// The first call of a tool.
fn call(trace: &ExportedTrace) -> &Span {
    trace.spans.iter().find(|span| span.name.starts_with("execute_tool ")).unwrap()
}

#[track_caller]
fn says(span: &Span, expected: &[(&str, serde_json::Value)]) {
    for (name, expected) in expected {
        let told = match find(span, name) {
            Some(AttributeValue::Text(text)) => json!(text),
            Some(AttributeValue::Texts(texts)) => json!(texts),
            Some(AttributeValue::Number(number)) => json!(number),
            Some(AttributeValue::Truth(truth)) => json!(truth),
            None => json!(null),
        };
        assert_eq!(told, *expected, "{name} of {span:#?}");
    }
}

#[test]
fn a_session_and_what_is_said_of_messages_belong_to_the_step() {
    let opened = |revision: serde_json::Value, failure: serde_json::Value| {
        kind(json!({
            "type": "session_opened", "step": "ask", "attempt": 1, "host": "mcp.example",
            "revision": revision, "duration_ms": 3, "failure": failure,
        }))
    };
    let silent = json!({"code": "A2S353", "message": "s3cret"});
    let trace = trace([
        started("ask", "task"),
        decided("ask", "request", "allow"),
        decided("ask", "mcp_outbound", "allow"),
        opened(json!(null), silent),
        opened(json!("2025-11-25"), json!(null)),
        sending("ask", 1),
        received("ask", 1, 200),
        decided("ask", "mcp_inbound", "allow"),
        decided("ask", "result", "allow"),
        finished("ask"),
    ]);
    let call = call(&trace);
    let names: Vec<_> = call.events.iter().map(|event| event.name).collect();
    assert_eq!(names, ["acs.decision", "acs.decision", "a2s.session", "a2s.session"]);
    let told = |at: usize, name: &str| {
        let found = call.events[at].attributes.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| format!("{value:?}"))
    };
    assert!(told(2, "error.type").unwrap().contains("A2S353"));
    assert_eq!(told(2, "mcp.protocol.version"), None);
    assert!(told(3, "mcp.protocol.version").unwrap().contains("2025-11-25"));
    let result = span(&trace, "acs.tool.result");
    assert_eq!(result.events.len(), 2, "{result:#?}");
}

/// The stable conventions for HTTP clients.
#[test]
fn a_request_is_named_by_its_method_and_says_where_it_goes() {
    let sent = |method: &str| {
        let mut value = serde_json::to_value(sending("read", 2)).unwrap();
        value["method"] = json!(method);
        let trace = trace([started("read", "task"), kind(value), received("read", 2, 503)]);
        trace.spans.into_iter().find(|span| span.kind == SpanKind::Client).unwrap()
    };
    let known = sent("POST");
    assert_eq!(known.name, "POST");
    says(
        &known,
        &[
            ("http.request.method", json!("POST")),
            ("http.request.resend_count", json!(1)),
            ("url.full", json!("https://api.example:8443/pay?to=REDACTED&n=REDACTED")),
            ("server.address", json!("api.example")),
            ("server.port", json!(8443)),
            ("http.response.status_code", json!(503)),
            ("error.type", json!("503")),
        ],
    );
    let other = sent("BREW");
    assert_eq!(other.name, "HTTP");
    says(
        &other,
        &[
            ("http.request.method", json!("_OTHER")),
            ("http.request.method_original", json!("BREW")),
        ],
    );
}

#[test]
fn a_request_that_the_service_refused_is_an_error() {
    let attempt = |status| {
        let events = [
            started("read", "task"),
            sending("read", 1),
            received("read", 1, status),
            finished("read"),
        ];
        span(&trace(events), "POST").error.clone()
    };
    for (status, error) in [(200, None), (302, None), (400, Some("400")), (503, Some("503"))] {
        assert_eq!(attempt(status).as_deref(), error, "{status}");
    }
}

#[test]
fn a_step_is_a_span_with_its_attempts_and_decisions_below_it() {
    let trace = trace([
        started("pay", "task"),
        decided("pay", "request", "modify"),
        sending("pay", 1),
        retrying("pay", 1),
        sending("pay", 2),
        received("pay", 2, 503),
        retrying("pay", 2),
        sending("pay", 3),
        received("pay", 3, 200),
        decided("pay", "result", "allow"),
        finished("pay"),
    ]);
    assert_eq!(
        tree(&trace),
        [
            "acs.turn 0-12",
            "  execute_tool Dogs.pay pay 1-11 [\"acs.decision\", \"a2s.retry\", \"a2s.retry\"]",
            "    POST 3-4 !_OTHER",
            "    POST 5-6 !503",
            "    POST 8-9",
            "    acs.tool.result 9-11 [\"acs.decision\"]",
        ]
    );
    let call = call(&trace);
    says(
        call,
        &[
            ("gen_ai.operation.name", json!("execute_tool")),
            ("gen_ai.tool.name", json!("Dogs.pay")),
            ("gen_ai.tool.type", json!("extension")),
            ("gen_ai.agent.name", json!("A2S executor")),
            ("acs.capability", json!("Dogs")),
            ("acs.tool.version", json!("1.0.0")),
            ("gen_ai.tool.call.id", json!(uuid::Uuid::nil())),
        ],
    );
    assert_eq!(
        call.events[0].attributes,
        [
            ("acs.decision", text("modify")),
            ("acs.evaluator", text("off")),
            ("a2s.decision.source", text("guardian")),
            ("acs.reasoning", text("too much")),
            ("acs.reason_codes", AttributeValue::Texts(vec!["policy.x".to_owned()])),
            ("a2s.decision.changes", AttributeValue::Number(1)),
        ]
    );
    // A plain yes needs no reason.
    let yes = &span(&trace, "acs.tool.result").events[0].attributes;
    assert!(!yes.iter().any(|(name, _)| *name == "acs.reasoning"), "{yes:?}");
    says(
        span(&trace, "acs.tool.result"),
        &[
            ("gen_ai.tool.name", json!("Dogs.pay")),
            ("acs.exit_status", json!("success")),
            ("acs.duration_ms", json!(4)),
            ("acs.request_id_ref", json!(uuid::Uuid::nil())),
        ],
    );
    let last = &trace.spans[4];
    assert_eq!((last.kind, last.id), (SpanKind::Client, trace.context.attempt("pay", 3)));
    says(
        last,
        &[
            ("http.request.method", json!("POST")),
            ("http.request.resend_count", json!(2)),
            ("http.response.status_code", json!(200)),
            ("http.response.body.size", json!(7)),
            ("url.full", json!("https://api.example:8443/pay?to=REDACTED&n=REDACTED")),
            ("server.address", json!("api.example")),
            ("server.port", json!(8443)),
            ("a2s.upstream", json!("127.0.0.1")),
            ("error.type", json!(null)),
        ],
    );
    says(
        &trace.spans[0],
        &[("acs.turn.id", json!(uuid::Uuid::from_u128(1))), ("acs.turn.step_count", json!(1))],
    );
}

#[test]
fn steps_stand_below_the_steps_around_them() {
    let uses = json!({
        "name": "Cats", "version": "2.0.0", "checksum": a2s::Digest::of_bytes(b"cats"),
    });
    let capability =
        json!({"type": "step_started", "step": "p/b", "kind": "capability", "capability": uses});
    let trace = trace([
        started("p", "parallel"),
        started("p/a", "task"),
        kind(capability),
        kind(json!({"type": "items_taken", "step": "p/a", "items": 2})),
        started("p/a[0]", "task"),
        started("p/b/get", "task"),
        started("p/a[1]", "task"),
        failed("p/a[1]", ErrorKind::GuardianDeniedRequest),
        finished("p/a[0]"),
        started("p/a[1]/mend", "task"),
        finished("p/a[1]/mend"),
        kind(json!({"type": "error_handled", "step": "p/a[1]", "handler": "catch"})),
        kind(json!({"type": "step_skipped", "step": "p/b/other", "reason": "s3cret"})),
        finished("p/b/get"),
        finished("p/b"),
        finished("p/a"),
        finished("p"),
    ]);
    assert_eq!(
        tree(&trace),
        [
            "acs.turn 0-18",
            "  a2s.parallel p 1-17",
            "    a2s.for_each p/a 2-16",
            "    a2s.capability p/b 3-15 [\"a2s.skipped\"]",
            "      execute_tool Dogs.a p/a[0] 5-9",
            "      execute_tool Cats.get p/b/get 6-14",
            "      execute_tool Dogs.a p/a[1] 7-8 !A2S340",
            "        execute_tool Dogs.mend p/a[1]/mend 10-11",
        ]
    );
    // What runs a tool for each item calls none itself.
    says(&trace.spans[2], &[("gen_ai.operation.name", json!(null)), ("a2s.items", json!(2))]);
    // A tool is named after the capability whose document has it, as the guardian names it.
    says(&trace.spans[5], &[("gen_ai.tool.name", json!("Cats.get"))]);
    says(&trace.spans[4], &[("gen_ai.tool.name", json!("Dogs.a"))]);
    says(&trace.spans[6], &[("a2s.handled", json!("catch"))]);
    says(&trace.spans[3], &[("a2s.capability.name", json!("Cats"))]);
}

#[test]
fn a_run_that_is_resumed_goes_on_with_its_trace() {
    let before = [started("a", "task"), sending("a", 1)];
    let again = [EventKind::RunResumed {}, sending("a", 2), received("a", 2, 200), finished("a")];
    let trace = trace(before.into_iter().chain(again));
    assert_eq!(
        tree(&trace),
        [
            "acs.turn 0-7 [\"a2s.resumed\"]",
            "  execute_tool Dogs.a a 1-6",
            "    POST 2-3 !interrupted",
            "    POST 4-5",
        ]
    );
}

#[test]
fn what_a_person_decides_ends_a_step_that_waited() {
    let waiting =
        crate::Error::new(ErrorKind::UnknownOutcome, "s3cret").to_run_error(None, None, false);
    let trace = trace([
        started("a", "task"),
        sending("a", 1),
        EventKind::RunWaiting { error: waiting },
        kind(
            json!({"type": "step_resolved", "step": "a", "decision": "set", "outputs": {"x": "s3cret"}}),
        ),
        EventKind::RunResumed {},
    ]);
    assert_eq!(
        tree(&trace),
        [
            "acs.turn 0-6 [\"a2s.waiting\", \"a2s.resumed\"]",
            "  execute_tool Dogs.a a 1-4 [\"a2s.resolved\"]",
            "    POST 2-4 !interrupted",
        ]
    );
}

#[test]
fn how_a_tool_ended_is_told_in_the_words_of_the_standard() {
    for (error, status) in [
        (ErrorKind::GuardianDeniedResult, "blocked"),
        (ErrorKind::StepTimeout, "timeout"),
        (ErrorKind::StatusError, "failure"),
    ] {
        let trace =
            trace([started("a", "task"), decided("a", "result", "deny"), failed("a", error)]);
        let result = span(&trace, "acs.tool.result");
        says(result, &[("acs.exit_status", json!(status)), ("error.type", json!(error.code().id))]);
    }
}

#[test]
fn a_span_has_so_many_events_and_counts_the_others() {
    let warning = StepWarning { code: "A2S365".to_owned(), message: "s3cret".to_owned() };
    let warned = EventKind::Warned { step: "a".to_owned(), warning };
    let many = std::iter::repeat_n(warned, 200);
    let trace = trace([started("a", "task")].into_iter().chain(many));
    let call = call(&trace);
    assert_eq!((call.events.len(), call.dropped_events), (128, 72));
}

#[test]
fn trace_needs_a_start_and_spans_an_end() {
    assert_eq!(trace_of(&[]), None);
    let events = journal([started("a", "task")]);
    assert_eq!(trace_of(&events[1..]), None);
    assert_eq!(trace_of(&events).unwrap().spans, []);
}

#[test]
fn trace_of_the_caller_is_parent_and_decides_sampling() {
    for (flags, sampled) in [("01", true), ("00", false)] {
        let mut events = journal([ended()]);
        let EventKind::RunStarted(started) = &mut events[0].kind else { unreachable!() };
        started.trace = Some(Box::new(a2s_api::TraceContext {
            traceparent: format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}"),
            tracestate: Some("a=1".to_owned()),
        }));
        let trace = trace_of(&events).unwrap();
        assert_eq!(trace.is_sampled(), sampled);
        let root = &trace.spans[0];
        assert_eq!(root.kind, SpanKind::Server);
        assert_eq!(root.parent.unwrap().to_string(), "00f067aa0ba902b7");
        assert_eq!(trace.context.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    }
    let own = trace([]);
    let run = uuid::Uuid::from_u128(1);
    assert_eq!(own.context, RunTrace::from_caller(run, None, true));
    assert_eq!(own.context.trace.to_string(), run.simple().to_string());
}

proptest! {
    #[test]
    fn whatever_happened_spans_are_a_tree(kinds in prop::collection::vec(any_kind(), 0..60)) {
        let goes_on = |kind: &EventKind| !matches!(kind, EventKind::RunFinished { .. });
        let events = journal(kinds.into_iter().filter(goes_on).chain([ended()]));
        let trace = trace_of(&events).unwrap();
        let mut known = BTreeSet::new();
        for span in &trace.spans {
            prop_assert!(span.start <= span.end.unwrap());
            let is_root = span.id == trace.context.root();
            prop_assert_eq!(span.parent.is_none(), is_root);
            prop_assert!(span.parent.is_none_or(|parent| known.contains(&parent)), "{:?}", span);
            prop_assert!(known.insert(span.id), "{:?} twice", span.id);
            prop_assert!(span.id.0 != [0; 8]);
        }
        // The same events are the same trace, and those before a crash are its beginning.
        prop_assert_eq!(trace_of(&events), Some(trace));
    }
}
