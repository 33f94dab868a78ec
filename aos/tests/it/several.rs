//! Several guardians in a row.

use aos::message::MethodCall;
use aos::{FailMode, GuardianChain, GuardianError, Verdict, VerdictSource};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

use crate::client::{Reply, client, guardian, modify, tool_call};

type Heard = Arc<Mutex<Vec<Value>>>;

/// A guardian that keeps the value that it was asked about, and answers so.
async fn listening(heard: &Heard, reply: fn(&Value) -> Reply) -> aos::GuardianClient {
    let heard = Arc::clone(heard);
    let url = guardian(move |question| {
        let value = question["params"]["toolCallRequest"]["inputs"][0]["value"].clone();
        heard.lock().unwrap().push(value);
        reply(&question)
    })
    .await;
    client(url, FailMode::Closed)
}

fn allow(_: &Value) -> Reply {
    Reply::Result(json!({"decision": "allow", "message": "fine"}))
}

fn deny(_: &Value) -> Reply {
    Reply::Result(json!({"decision": "deny", "message": "no", "reasonCode": ["n"]}))
}

/// Adds to the value what stands for this guardian.
fn change(question: &Value, mark: &str) -> Reply {
    let pointer = "/params/toolCallRequest/inputs/0/value";
    let value = format!("{}{mark}", question.pointer(pointer).unwrap().as_str().unwrap());
    modify(question, pointer, json!(value))
}

fn value_of(verdict: &Verdict) -> &Value {
    let Verdict::Modify(request) = verdict else { panic!("{verdict:?}") };
    let MethodCall::ToolCallRequest(step) = &request.call else { panic!("{request:?}") };
    &step.tool_call_request.inputs[0].value
}

#[tokio::test]
async fn each_judges_what_the_one_before_it_left() {
    let heard = Heard::default();
    let guardians = GuardianChain::new("a", listening(&heard, |q| change(q, " A")).await)
        .and("b", listening(&heard, allow).await)
        .and("c", listening(&heard, |q| change(q, " C")).await);
    let consultation = guardians.ask(&tool_call()).await;
    assert_eq!(*heard.lock().unwrap(), ["Paris", "Paris A", "Paris A"]);
    assert_eq!(value_of(&consultation.verdict), "Paris A C");
    let names: Vec<_> = consultation.outcomes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let outcome = consultation.into_outcome();
    assert_eq!(value_of(&outcome.verdict), "Paris A C");
    assert_eq!(
        (outcome.message.as_str(), outcome.origin),
        ("better so better so", VerdictSource::Guardian)
    );
}

#[tokio::test]
async fn the_first_denial_ends_it() {
    let heard = Heard::default();
    let guardians = GuardianChain::new("a", listening(&heard, |q| change(q, " A")).await)
        .and("b", listening(&heard, deny).await)
        .and("c", listening(&heard, allow).await);
    let consultation = guardians.ask(&tool_call()).await;
    assert_eq!(consultation.verdict, Verdict::Deny);
    assert_eq!(heard.lock().unwrap().len(), 2, "who comes after a denial is not asked");
    assert_eq!(consultation.outcomes.len(), 2);
    let outcome = consultation.into_outcome();
    assert_eq!((outcome.message.as_str(), outcome.reason_codes), ("no", vec!["n".to_owned()]));
}

#[tokio::test]
async fn each_fails_as_it_is_told_and_it_is_seen() {
    let heard = Heard::default();
    let broken = guardian(|_| Reply::Http(503, "text/plain", Vec::new())).await;
    let open = GuardianChain::new("broken", client(broken.clone(), FailMode::Open))
        .and("well", listening(&heard, allow).await);
    let consultation = open.ask(&tool_call()).await;
    assert_eq!((&consultation.verdict, heard.lock().unwrap().len()), (&Verdict::Allow, 1));
    assert_eq!(
        consultation.outcomes[0].1.origin,
        VerdictSource::FailedOpen(GuardianError::Status(503))
    );
    assert_eq!(consultation.outcomes[1].1.origin, VerdictSource::Guardian);
    let outcome = consultation.into_outcome();
    assert_eq!(outcome.origin, VerdictSource::FailedOpen(GuardianError::Status(503)));
    assert_eq!(outcome.reason_codes, ["guardian_status"]);

    let closed = GuardianChain::new("well", listening(&heard, allow).await)
        .and("broken", client(broken, FailMode::Closed));
    let consultation = closed.ask(&tool_call()).await;
    assert_eq!(consultation.verdict, Verdict::Deny);
    assert_eq!(
        consultation.into_outcome().origin,
        VerdictSource::FailedClosed(GuardianError::Status(503))
    );
}

#[tokio::test]
async fn where_all_allow_the_last_has_the_word() {
    let heard = Heard::default();
    let guardians = GuardianChain::new("a", listening(&heard, allow).await)
        .and("b", listening(&heard, allow).await);
    let outcome = guardians.ask(&tool_call()).await.into_outcome();
    assert_eq!((outcome.verdict, outcome.message.as_str()), (Verdict::Allow, "fine"));
}

#[tokio::test]
async fn impossible_modification_is_a_denial() {
    let heard = Heard::default();
    let guardians = GuardianChain::new("a", listening(&heard, |q| change(q, " A")).await)
        .and("b", listening(&heard, |q| change(q, " B")).await)
        .and("c", listening(&heard, allow).await);
    let mut shown = Vec::new();
    let (call, headers) = (tool_call(), HeaderMap::new());
    let consultation = guardians.ask_and_apply(&call, &headers, |modified| {
        let value = value_of(&Verdict::Modify(Box::new(modified.clone()))).clone();
        shown.push(value.clone());
        if value == "Paris A B" { Err("too long".to_owned()) } else { Ok(()) }
    });
    let consultation = consultation.await;
    assert_eq!(shown, ["Paris A", "Paris A B"]);
    assert_eq!(*heard.lock().unwrap(), ["Paris", "Paris A"]);
    assert_eq!(consultation.verdict, Verdict::Deny);
    let (name, outcome) = consultation.outcomes.last().unwrap();
    assert_eq!((name.as_str(), outcome.reason_codes.len()), ("b", 1));
    let failure = GuardianError::Modification("too long".to_owned());
    assert_eq!(outcome.origin, VerdictSource::FailedClosed(failure));
}
