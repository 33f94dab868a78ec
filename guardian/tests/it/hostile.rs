//! Messages that nobody should send.

mod change;
mod judge;

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::Request as HttpRequest;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::hooks;
use crate::world::{World, call, result};
use change::{change, changes, strange_messages, turn, turns};
use judge::Judge;

const POLICY: &str = "
version: 1
default: allow
rules:
  - {id: a, tool: 'b*', when: \"has(inputs.city) && inputs.city.contains('a')\", decision: deny}
  - {id: b, decision: modify, modify: {set: {'x.y[*].z': 1}, remove: ['body.a'], redact: [{pattern: email}, {pattern: card}, {pattern: key}]}}
  - {id: c, when: \"texts.exists(t, t.startsWith('no'))\", decision: deny}
  - {id: d, on: toolCallRequest, limit: {spend: 'has(inputs.n) ? inputs.n : 1', most: 50, per: session}, decision: deny}
  - {id: e, host: '*.example', user: '*', decision: approve}
";

/// Every example of the published page, one message of each method in each documented form, and
/// calls and results that rules are about.
fn seeds() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/message");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    // One is an answer: the fuzzer reads those, too.
    let files = files.iter().filter(|path| !path.ends_with("answer.json"));
    let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let own = [
        call("bank", &json!({"city": "Paris", "body": {"a": 1, "card": "4111 1111 1111 1111"}})),
        result("bank", &["{\"x\":{\"y\":[{}]}}", "plain a@b.example"]),
    ];
    let own = own.map(|request| serde_json::from_slice(&request.to_vec()).unwrap());
    files.map(read).chain(hooks::examples()).chain(own).collect()
}

/// What comes in: messages with changed bytes or changed JSON, JSON that resembles them, and noise.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let seeds = seeds();
    let bytes: Vec<_> = seeds.iter().map(|seed| seed.to_string().into_bytes()).collect();
    let changed = (prop::sample::select(bytes), changes()).prop_map(|(mut body, list)| {
        list.iter().for_each(|one| change(&mut body, one));
        body
    });
    let turned =
        (prop::sample::select(seeds), turns()).prop_map(|(message, list)| turn(message, &list));
    prop_oneof![
        3 => changed,
        4 => turned,
        2 => strange_messages(),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
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

/// Whatever comes, the answer is JSON-RPC with the right id and code, and what the schema does not
/// know is never decided about, so never allowed.
#[test]
fn a_malformed_message_is_never_allowed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = World::new(POLICY);
    let router = world.app.router();
    let judge = Judge::new();
    for seed in seeds() {
        assert_eq!(judge.judge(seed.to_string().as_bytes()).code, None, "{seed}");
    }
    // The same messages each time: one that fails is there when it is tried again.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let bodies = bodies();
    let (mut malformed, mut stricter, mut decisions) = (0, 0, BTreeMap::new());
    let mut faults = Vec::new();
    for _ in 0..10_000 {
        let body = bodies.new_tree(&mut runner).unwrap().current();
        let due = judge.judge(&body);
        let (status, answer) = runtime.block_on(ask(router.clone(), body.clone()));
        let mut check = |holds: bool, what: &str| {
            if !holds && faults.len() < 5 {
                faults.push(format!("{what}: {}\n  {answer}\n  {due:?}", body.escape_ascii()));
            }
        };
        check(status == 200, "the status");
        check(judge.faults(&answer).is_empty(), "the form of the answer");
        let code = answer["error"]["code"].as_i64();
        // A member that is there twice, and depth, are found before anything else is read.
        let is_unread = code == Some(-32700);
        let id = if is_unread { &Value::Null } else { &due.id };
        check(answer.get("id") == Some(id), "the id");
        match due.code {
            Some(due) => {
                malformed += 1;
                check(code == Some(due) || is_unread, "the code");
            }
            None if code.is_some() => {
                stricter += 1;
                check(is_unread || code == Some(-32602), "the code");
            }
            None => {
                let said = &answer["result"];
                let word = said["decision"].as_str().or_else(|| said["status"].as_str());
                *decisions.entry(word.unwrap_or_default().to_owned()).or_insert(0) += 1;
                check(said["reasonCode"][0] != "internal_error", "the reason");
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Of each kind there were enough to tell.
    assert!((5_000..8_500).contains(&malformed), "{malformed} of the messages were malformed");
    assert!(stricter < 500, "{stricter} messages that the schema knows were refused");
    for word in ["allow", "deny", "modify", "connected"] {
        assert!(decisions.get(word).is_some_and(|count| 20 < *count), "{decisions:?}");
    }
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
