use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::pre_run_decisions::DecisionSubject;
use super::*;
use crate::journal::run_state::tests::{any_kind, journal};

fn kind(value: Value) -> EventKind {
    serde_json::from_value(value).unwrap()
}

fn started(step: &str) -> EventKind {
    kind(json!({"type": "step_started", "step": step, "kind": "task"}))
}

fn decided(step: &str, phase: &str, decision: &str, source: &str) -> EventKind {
    kind(json!({
        "type": "decided", "step": step, "execution_id": Uuid::from_u128(9),
        "decision": {
            "phase": phase, "decision": decision, "source": source, "message": "because",
            "reason_codes": ["policy.x"],
            "changes": [{"name": "body", "from": "s3cret", "to": "s3cret"}],
        },
    }))
}

fn sending(step: &str, method: &str) -> EventKind {
    kind(json!({
        "type": "sending", "step": step, "execution_id": Uuid::from_u128(9), "attempt": 1,
        "method": method, "url": "https://api.example/pay?to=s3cret",
        "upstream": "http://127.0.0.1:9/base", "request_digest": a2s::Digest::of_bytes(b""),
        "repeat_safe": false,
    }))
}

fn received(step: &str, status: u16) -> EventKind {
    kind(json!({
        "type": "received", "step": step, "attempt": 1, "status": status, "bytes": 7, "duration_ms": 1,
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

fn waiting() -> EventKind {
    let error =
        crate::Error::new(ErrorKind::UnknownOutcome, "s3cret").to_run_error(None, None, false);
    EventKind::RunWaiting { error }
}

fn ended() -> EventKind {
    kind(
        json!({"type": "run_finished", "status": "succeeded", "output": "s3cret", "duration_ms": 9}),
    )
}

fn product() -> OcsfProduct {
    OcsfProduct { service: "test".to_owned() }
}

fn to_json(events: &[OcsfEvent]) -> Vec<Value> {
    let lines: Vec<_> = events.iter().map(|event| line(event).unwrap()).collect();
    assert!(
        lines.iter().all(|line| !line.contains("s3cret") && !line.contains('\n')),
        "{lines:#?}"
    );
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Value> {
    to_json(&events_of_run(&journal(kinds), &product()))
}

/// Class, activity, severity and message of each event.
fn summary(events: &[Value]) -> Vec<String> {
    let line = |event: &Value| {
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        format!("{} {} {}", event["type_uid"], text("severity"), text("message"))
    };
    events.iter().map(line).collect()
}

#[test]
fn tool_step_is_ocsf_activity_and_denial_a_finding() {
    let events = told([
        started("pay"),
        decided("pay", "request", "modify", "guardian"),
        sending("pay", "PUT"),
        received("pay", 200),
        decided("pay", "result", "allow", "guardian"),
        finished("pay"),
        ended(),
    ]);
    assert_eq!(
        summary(&events),
        [
            "200401 Low The guardian changed the request of Dogs.pay",
            "600303 Informational Dogs.pay succeeded"
        ]
    );
    let step = &events[1];
    let run = Uuid::from_u128(1);
    for (pointer, expected) in [
        ("/category_uid", json!(6)),
        ("/class_uid", json!(6003)),
        ("/activity_id", json!(3)),
        ("/type_name", json!("API Activity: Update")),
        ("/time", json!(6_000)),
        ("/status_id", json!(1)),
        ("/metadata/version", json!("1.5.0")),
        ("/metadata/correlation_uid", json!(run)),
        ("/metadata/sequence", json!(7)),
        ("/metadata/profiles", json!(["trace"])),
        ("/actor/user/type", json!("AI Agent")),
        ("/actor/session/uid", json!("s")),
        ("/api/operation", json!("Dogs.pay")),
        ("/api/service/uid", json!(a2s::Digest::of_bytes(b"doc"))),
        ("/api/request/uid", json!(Uuid::from_u128(9))),
        ("/api/response/code", json!(200)),
        ("/src_endpoint/svc_name", json!("test")),
        ("/dst_endpoint/hostname", json!("api.example")),
        ("/dst_endpoint/proxy_endpoint/hostname", json!("127.0.0.1")),
        ("/http_request/url/path", json!("/pay")),
        ("/http_request/http_method", json!("PUT")),
        ("/http_response/code", json!(200)),
        ("/trace/uid", json!(run.simple().to_string())),
        ("/trace/span/start_time", json!(1_000)),
        ("/unmapped/aos/attempts", json!(1)),
        ("/unmapped/aos/decisions/0/method", json!("steps/toolCallRequest")),
        ("/unmapped/aos/decisions/0/changed", json!(["body"])),
        ("/unmapped/aos/decisions/1/method", json!("steps/toolCallResult")),
        ("/unmapped/aos/decisions/1/decision", json!("allow")),
    ] {
        assert_eq!(step.pointer(pointer), Some(&expected), "{pointer} of {step:#}");
    }
    // It leads to the span that a trace has.
    let trace = RunTrace::from_caller(run, None, true);
    assert_eq!(step["trace"]["span"]["uid"], trace.step("pay").to_string());
}

#[test]
fn a_denial_is_of_high_severity_and_says_why() {
    let events = told([
        started("pay"),
        decided("pay", "request", "deny", "guardian"),
        failed("pay", ErrorKind::GuardianDeniedRequest),
        ended(),
    ]);
    assert_eq!(
        summary(&events),
        [
            "200401 High The guardian denied the request of Dogs.pay",
            "600399 Informational Dogs.pay failed: A2S340",
        ]
    );
    let finding = &events[0];
    for (pointer, expected) in [
        ("/class_uid", json!(2004)),
        ("/category_uid", json!(2)),
        ("/severity_id", json!(4)),
        ("/status", json!("New")),
        ("/is_alert", json!(true)),
        ("/action", json!("Denied")),
        ("/disposition", json!("Blocked")),
        ("/finding_info/title", json!("The guardian denied the request of Dogs.pay")),
        ("/finding_info/desc", json!("because")),
        ("/finding_info/types", json!(["policy.x"])),
        ("/finding_info/uid", finding["metadata"]["uid"].clone()),
        ("/evidences/0/api/operation", json!("Dogs.pay")),
        ("/metadata/profiles", json!(["trace", "security_control"])),
    ] {
        assert_eq!(finding.pointer(pointer), Some(&expected), "{pointer} of {finding:#}");
    }
    let step = &events[1];
    assert_eq!((&step["status_id"], &step["status_code"]), (&json!(2), &json!("A2S340")));
    assert_eq!(step["status_detail"], ErrorKind::GuardianDeniedRequest.code().title);
    assert_eq!(step.get("http_request"), None);
}

#[test]
fn what_is_said_of_an_mcp_message_is_told_as_that() {
    let opened = kind(json!({
        "type": "session_opened", "step": "ask", "attempt": 1, "host": "mcp.example",
        "revision": "2025-11-25", "duration_ms": 3,
    }));
    let events = told([
        started("ask"),
        decided("ask", "request", "allow", "guardian"),
        decided("ask", "mcp_outbound", "modify", "guardian"),
        opened,
        sending("ask", "POST"),
        received("ask", 200),
        decided("ask", "mcp_inbound", "deny", "guardian"),
        failed("ask", ErrorKind::GuardianDeniedResult),
        ended(),
    ]);
    assert_eq!(
        summary(&events),
        [
            "200401 Low The guardian changed the MCP message of Dogs.ask",
            "200401 High The guardian denied the MCP response of Dogs.ask",
            "600399 Informational Dogs.ask failed: A2S341",
        ]
    );
    let methods: Vec<_> = events[2]["unmapped"]["aos"]["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|decision| decision["method"].as_str().unwrap())
        .collect();
    assert_eq!(methods, ["steps/toolCallRequest", "protocols/MCP", "protocols/MCP"]);
    assert_eq!(events[0]["unmapped"]["aos"]["decisions"][0]["method"], "protocols/MCP");
    assert_eq!(events[1]["evidences"][0]["dst_endpoint"]["hostname"], "api.example");
}

#[test]
fn silence_is_told_apart_from_a_no() {
    for (decision, source, expected) in [
        (
            "deny",
            "failed_closed",
            Some(
                "High The guardian gave no usable response and therefore denied the request of Dogs.a",
            ),
        ),
        (
            "allow",
            "failed_open",
            Some(
                "Medium The guardian gave no usable response and therefore allowed the request of Dogs.a",
            ),
        ),
        ("allow", "guardian", None),
        ("unguarded", "unguarded", None),
    ] {
        let events = told([started("a"), decided("a", "request", decision, source)]);
        let expected: Vec<_> = expected.iter().map(|text| format!("200401 {text}")).collect();
        assert_eq!(summary(&events), expected, "{decision} {source}");
    }
}

#[test]
fn what_a_tool_does_is_told_as_far_as_its_method_tells_it() {
    for (method, activity) in
        [("GET", "Read"), ("PATCH", "Update"), ("DELETE", "Delete"), ("POST", "Tool Call")]
    {
        let events = told([started("a"), sending("a", method), finished("a")]);
        assert_eq!(events[0]["activity_name"], activity);
        let id = events[0]["activity_id"].as_u64().unwrap();
        assert_eq!(events[0]["type_uid"], 600_300 + id);
    }
}

#[test]
fn each_iteration_is_told_and_the_list_is_not() {
    let items = kind(json!({"type": "items_taken", "step": "a", "items": 1}));
    let events =
        told([started("a"), items, started("a[0]"), finished("a[0]"), finished("a"), ended()]);
    let steps: Vec<_> = events.iter().map(|event| &event["unmapped"]["aos"]["stepId"]).collect();
    assert_eq!(steps, ["a[0]"]);
}

#[test]
fn what_was_told_when_a_run_waited_is_not_told_again() {
    let before = [
        started("a"),
        decided("a", "request", "modify", "guardian"),
        finished("a"),
        started("b"),
        decided("b", "request", "modify", "guardian"),
        sending("b", "POST"),
        waiting(),
    ];
    let set = kind(json!({"type": "step_resolved", "step": "b", "decision": "set"}));
    let after = [set, EventKind::RunResumed {}, ended()];
    let then = told(before.clone());
    assert_eq!(
        summary(&then),
        [
            "200401 Low The guardian changed the request of Dogs.a",
            "600399 Informational Dogs.a succeeded",
            "200401 Low The guardian changed the request of Dogs.b",
        ]
    );
    let later = told(before.into_iter().chain(after));
    assert_eq!(summary(&later), ["600399 Informational Dogs.b: set by a person"]);
    // All that was decided about the step is there, whenever that was.
    assert_eq!(later[0]["unmapped"]["aos"]["decisions"][0]["decision"], "modify");
}

#[test]
fn what_was_under_way_when_a_run_ended_is_told() {
    let events = told([started("a"), sending("a", "POST"), started("idle"), ended()]);
    assert_eq!(summary(&events), ["600399 Informational Dogs.a: stopped"]);
    assert_eq!((&events[0]["status_id"], &events[0]["status"]), (&json!(99), &json!("Stopped")));
}

#[test]
fn what_is_decided_without_a_run_is_told_too() {
    let event = a2s_api::TriggerEvent { kind: "email".to_owned(), id: "m1".to_owned() };
    let tell = |decision: &str, matter| {
        let EventKind::Decided { decision, .. } = decided("a", "trigger", decision, "guardian")
        else {
            unreachable!()
        };
        to_json(&standalone_events(
            &StandaloneDecision {
                principal: &"mailer/ann".parse().unwrap(),
                id: Uuid::from_u128(5),
                subject: matter,
                is_rejected: decision.decision == "deny",
                decisions: std::slice::from_ref(&decision),
                session: "mail",
                capability: None,
                caller: None,
                at: Timestamp::from_second(7).unwrap(),
            },
            &product(),
        ))
    };
    assert_eq!(
        summary(&tell("deny", DecisionSubject::Event(&event))),
        [
            "600399 Informational steps/agentTrigger: deny",
            "200401 High The guardian denied steps/agentTrigger",
        ]
    );
    let stored = tell("allow", DecisionSubject::Remembered);
    assert_eq!(summary(&stored), ["600399 Informational steps/memoryStore: allow"]);
    assert_eq!((&stored[0]["status"], &stored[0]["time"]), (&json!("Success"), &json!(7_000)));
}

#[test]
fn nothing_is_told_of_events_without_a_beginning() {
    assert_eq!(events_of_run(&[], &product()), []);
    assert_eq!(events_of_run(&journal([ended()])[1..], &product()), []);
}

proptest! {
    #[test]
    fn whatever_happened_ids_are_unique_and_classes_right(
        kinds in prop::collection::vec(any_kind(), 0..60),
    ) {
        let events = journal(kinds);
        let mut known = BTreeSet::new();
        let mut told = Vec::new();
        // Told at every rest, nothing is told twice, and nothing is left out.
        for end in 1..=events.len() {
            let is_rest = matches!(events[end - 1].kind, EventKind::RunWaiting { .. });
            if is_rest || end == events.len() {
                told.extend(events_of_run(&events[..end], &product()));
            }
        }
        for event in &told {
            let event = serde_json::to_value(event).unwrap();
            let number = |name: &str| event[name].as_u64().unwrap();
            prop_assert_eq!(number("type_uid"), number("class_uid") * 100 + number("activity_id"));
            prop_assert_eq!(number("class_uid") / 1000, number("category_uid"));
            prop_assert!(known.insert(event["metadata"]["uid"].to_string()), "{event:#} twice");
        }
        let once: Vec<_> = events.iter().filter(|event| !matches!(event.kind, EventKind::RunWaiting { .. })).cloned().collect();
        prop_assert_eq!(events_of_run(&once, &product()).len(), told.len());
    }
}
