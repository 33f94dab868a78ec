//! Messages that nobody should send.

use aos::message::{Limits, Request};
use axum::body::{Body, to_bytes};
use axum::http::Request as HttpRequest;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{World, call, message, result};

const POLICY: &str = "
version: 1
default: allow
rules:
  - {id: a, tool: 'b*', when: \"has(inputs.city) && inputs.city.contains('a')\", decision: deny}
  - {id: b, decision: modify, modify: {set: {'x.y[*].z': 1}, remove: ['body.a'], redact: [{pattern: email}, {pattern: card}, {pattern: key}]}}
  - {id: c, when: \"texts.exists(t, t.startsWith('no'))\", decision: deny}
";

/// A change of the bytes of a message.
#[derive(Clone, Debug)]
enum Change {
    Byte(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
    Double(prop::sample::Index, u8),
    /// Put one of the words that mean something in its place.
    Word(prop::sample::Index, &'static str),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let words = [
        "null",
        "{}",
        "[]",
        "\"\"",
        "\"id\":",
        "\"jsonrpc\":",
        "1e999",
        "-0",
        "\\u0000",
        "\u{feff}",
        "{\"a\":",
        "],",
    ];
    let change = prop_oneof![
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        2 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => any::<prop::sample::Index>().prop_map(Change::Cut),
        2 => (any::<prop::sample::Index>(), 1..40_u8).prop_map(|(at, length)| Change::Double(at, length)),
        2 => (any::<prop::sample::Index>(), prop::sample::select(words.to_vec())).prop_map(|(at, word)| Change::Word(at, word)),
    ];
    prop::collection::vec(change, 1..5)
}

fn change(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Change::Double(at, length) => {
            let at = at.index(bytes.len());
            let end = bytes.len().min(at + usize::from(*length));
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        Change::Word(at, word) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, word.bytes());
        }
    }
}

async fn ask(router: axum::Router, body: Vec<u8>) -> (u16, Value) {
    let request = HttpRequest::post("/aos")
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (
        status,
        serde_json::from_slice(&to_bytes(response.into_body(), 1 << 22).await.unwrap()).unwrap(),
    )
}

/// Whatever comes, the answer is JSON-RPC, and what is no message is never allowed.
#[test]
fn a_malformed_message_is_never_allowed() {
    let seeds = [
        call("bank", &json!({"city": "Paris", "body": {"a": 1, "card": "4111 1111 1111 1111"}})),
        result("bank", &["{\"x\":{\"y\":[{}]}}", "plain a@b.example"]),
        message("steps/memoryStore", json!({"memory": ["no", "yes"]})),
        message(
            "steps/message",
            json!({"message": {"id": "1", "role": "user", "content": [{"kind": "text", "text": "hi"}]}}),
        ),
        message(
            "protocols/MCP",
            json!({"message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}}),
        ),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = World::new(POLICY);
    let router = world.app.router();
    let mut runner = TestRunner::new(Config { cases: 2000, ..Config::default() });
    let malformed = std::cell::Cell::new(0);
    let outcome = runner.run(&(prop::sample::select(seeds.to_vec()), changes()), |(seed, list)| {
        let mut body = seed.to_vec();
        list.iter().for_each(|one| change(&mut body, one));
        let read = Request::from_slice(&body, Limits::default());
        let (status, answer) = runtime.block_on(ask(router.clone(), body));
        prop_assert_eq!(status, 200);
        prop_assert_eq!(&answer["jsonrpc"], "2.0");
        prop_assert!(answer.get("id").is_some());
        match read {
            Ok(request) => {
                prop_assert_eq!(&answer["id"], &serde_json::to_value(&request.id).unwrap());
                let decision = answer["result"]["decision"].as_str().unwrap_or_default();
                prop_assert!(["allow", "deny", "modify"].contains(&decision), "{}", answer);
                prop_assert_ne!(&answer["result"]["reasonCode"][0], "internal_error");
            }
            Err(rejection) => {
                malformed.set(malformed.get() + 1);
                prop_assert!(answer.get("result").is_none(), "{}", answer);
                prop_assert_eq!(answer["error"]["code"].as_i64(), Some(rejection.error.code()));
            }
        }
        Ok(())
    });
    outcome.unwrap();
    assert!(1000 < malformed.get(), "only {} of the messages were malformed", malformed.get());
    world.records();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A condition is compiled or refused; what is compiled does not bring the process down.
    #[test]
    fn any_condition_is_compiled_or_refused(
        when in "([a-z.()!+<'\"\\\\r\\[\\] ]|inputs|tool|true|&&|==|'a'|//|r'|\\.exists\\(x, ){0,40}"
    ) {
        let text = format!("version: 1\ndefault: allow\nrules: [{{id: r, decision: deny, when: {}}}]", json!(when));
        if let Ok(policy) = guardian::Policy::parse(&text) {
            policy.decide(&call("t", &json!({"a": 1})));
        }
    }

    #[test]
    fn any_text_is_a_policy_or_told_why(text in "(version|default|rules|allow|deny|id|when|: |- |\n|  |[a-z0-9{}\\[\\],'\"&*!|>#]){0,60}") {
        if let Err(faults) = guardian::Policy::parse(&text) {
            prop_assert!(!faults.0.is_empty());
        }
    }
}
