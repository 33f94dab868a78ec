//! What becomes of the answers of guardians.

use a2s_api::SearchHit;
use aos::{GuardianClient, Options};
use serde_json::{Value, json};
use test_support::{modify, serve_guardian};
use uuid::Uuid;

use super::*;

/// A guard with a guardian that answers so, until the test is over.
pub(crate) async fn guard(answer: fn(Value) -> Value) -> Guard {
    let client = GuardianClient::new(serve_guardian(answer).await, Options::default()).unwrap();
    let time = "2026-01-02T03:04:05Z".parse().unwrap();
    let outside = ClockAndIds::new(move || time, || Uuid::from_u128(7));
    Guard::new(Some(GuardianChain::new("stand-in", client)), outside)
}

const SCENE: GuardContext<'static> = GuardContext { session: "s", turn: "t", step: "p" };

fn hits() -> Vec<SearchHit> {
    let hit = |name: &str| -> SearchHit {
        serde_json::from_value(json!({
            "id": name, "score": 1.0, "description": format!("Does {name}"), "usage_count": 0,
            "success_rate": null, "complexity": "low", "required_permissions": [], "name": name,
            "version": "1.0.0", "checksum": format!("sha256:{}", "0".repeat(64)), "parameters": [],
            "similarity": 1.0, "explanation": [],
        }))
        .unwrap()
    };
    vec![hit("One"), hit("Two")]
}

#[tokio::test]
async fn a_message_is_used_as_the_guardian_wants_it() {
    let changed = guard(|question| {
        assert_eq!(question["method"], "steps/message");
        assert_eq!(question["params"]["message"]["role"], "user");
        assert_eq!(question["params"]["context"]["session"]["id"], "s");
        modify(question, |params| params["message"]["content"][0]["text"] = json!("Rome"))
    });
    let guarded = changed.await.check_message(SCENE, Role::User, "Paris".to_owned()).await;
    assert_eq!(guarded.outcome, Ok("Rome".to_owned()));
    assert_eq!(guarded.decisions[0].decision, "modify");
    assert_eq!(guarded.decisions[0].guardian.as_deref(), Some("stand-in"));

    let denied = guard(|_| json!({"decision": "deny", "message": "No.", "reasonCode": ["why"]}));
    let guarded = denied.await.check_message(SCENE, Role::Agent, "Paris".to_owned()).await;
    assert_eq!(guarded.outcome, Err(GuardDenial { message: "No.".to_owned(), by_guardian: true }));
    assert_eq!(guarded.decisions[0].reason_codes, ["why"]);
}

#[tokio::test]
async fn what_cannot_be_followed_is_a_denial() {
    let picture = guard(|question| {
        modify(question, |params| {
            params["message"]["content"] =
                json!([{"kind": "file", "file": {"uri": "https://pictures.example/1.png"}}]);
        })
    });
    let guarded = picture.await.check_message(SCENE, Role::User, "Paris".to_owned()).await;
    assert!(guarded.outcome.is_err_and(|denial| !denial.by_guardian));
    assert_eq!(guarded.decisions[0].decision, "deny");

    let invented = guard(|question| {
        modify(question, |params| {
            params["knowledgeStep"]["results"][0]["id"] = json!("Three@1.0.0")
        })
    });
    let guarded = invented.await.check_search_hits(SCENE, "numbers", hits()).await;
    let denial = guarded.outcome.unwrap_err();
    assert!(denial.message.contains("`Three@1.0.0`"), "{denial}");
}

#[tokio::test]
async fn hits_are_taken_away_and_told_otherwise() {
    let guarding = guard(|question| {
        let step = &question["params"]["knowledgeStep"];
        assert_eq!(
            (&step["query"], &step["results"][0]["id"]),
            (&json!("numbers"), &json!("One@1.0.0"))
        );
        modify(question, |params| {
            let results = params["knowledgeStep"]["results"].as_array_mut().unwrap();
            results.remove(0);
            results[0]["content"] = json!("Counts to two");
        })
    });
    let kept = guarding.await.check_search_hits(SCENE, "numbers", hits()).await.outcome.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].name.as_str(), kept[0].description.as_str()), ("Two", "Counts to two"));
}

#[tokio::test]
async fn an_mcp_message_is_used_as_the_guardian_wants_it() {
    let guarding = guard(|question| {
        assert_eq!(question["method"], "protocols/MCP");
        modify(question, |params| params["message"]["params"]["arguments"]["city"] = json!("Rome"))
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {"city": "Paris"}}});
    let Value::Object(message) = message else { return };
    let used = guarding.await.check_mcp(SCENE, message).await.outcome.unwrap();
    assert_eq!(used["params"]["arguments"]["city"], "Rome");
}

#[tokio::test]
async fn an_a2a_message_is_asked_about_with_both_its_ends() {
    const PEER: MessageDirection<'static> =
        MessageDirection::OutboundRequest { name: "Hotel", url: "http://hotel.test/" };
    let message = || -> Object { serde_json::from_value(json!({"params": {"id": "1"}})).unwrap() };
    let changed = guard(|question| {
        assert_eq!(question["method"], "tasks/cancel");
        let context = &question["params"]["context"];
        assert_eq!(
            context["from"],
            json!({"agent": {"name": "A2S agent", "version": env!("CARGO_PKG_VERSION")}, "role": "client"})
        );
        assert_eq!(context["to"]["agent"], json!({"name": "Hotel", "url": "http://hotel.test/"}));
        modify(question, |params| params["payload"]["params"]["id"] = json!("2"))
    });
    let changed = changed.await;
    let asked = changed.check_a2a(A2aMethod::TaskCancel, PEER, message(), |_| Ok(())).await;
    assert_eq!(asked.outcome.unwrap()["params"]["id"], "2");
    assert_eq!(asked.decisions[0].hook, "tasks/cancel");

    let unfit = |_: &Object| Err("it changes the id or the method of the request".to_owned());
    let asked = changed.check_a2a(A2aMethod::TaskCancel, PEER, message(), unfit).await;
    let denial = asked.outcome.unwrap_err();
    assert!(!denial.by_guardian && denial.message.contains("the id or the method"), "{denial}");

    let denied = guard(|_| json!({"decision": "deny", "message": "No.", "reasonCode": []})).await;
    let asked = denied
        .check_a2a(A2aMethod::TaskGet, MessageDirection::OutboundResponse, message(), |_| Ok(()))
        .await;
    assert_eq!(asked.outcome.unwrap_err().message, "No.");
    assert_eq!(asked.decisions[0].hook, "task/get");
}
