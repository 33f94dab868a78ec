//! Runs that an event starts.

use a2s_api::{EventKind, RunStatus};
use axum::http::Method;
use serde_json::{Value, json};

use super::world::{Answer, World, allow, assert_succeeded, call, deny, events, sequence, task};
use crate::App;

const TRIGGER: &str = "steps/agentTrigger";

/// A capability that tells somebody what a mail says, with a secret.
async fn open(world: &World) -> App {
    let inputs = json!({"body": {"text": "${subject}", "pin": "${pin}"}});
    world.registry.publish_newer(
        "Tell",
        &json!({
            "parameters": [
                {"name": "subject", "type": "string"},
                {"name": "pin", "type": "string", "secret": true},
            ],
            "execution": sequence(json!([task("tell", "POST /say", inputs, json!({"x": "$"}))])),
            "output": "${subject}",
        }),
    );
    world.open().await
}

async fn trigger(app: &App, id: &str, inputs: Value) -> Answer {
    let execution = json!({"name": "Tell", "inputs": inputs, "session": "mail", "wait": true});
    let body = json!({"event": {"type": "email", "id": id}, "execution": execution});
    call(app, Method::POST, "/v1/triggers", &[], body).await
}

fn mail(subject: &str) -> Value {
    json!({"subject": subject, "pin": "48151623"})
}

/// A guardian that wants another content of events.
fn modify(content: Value) -> impl Fn(&Value) -> Value + Send + 'static {
    move |question| {
        if question["method"] != TRIGGER {
            return allow();
        }
        let mut modified = question.clone();
        modified["params"]["trigger"]["content"] = content.clone();
        json!({"decision": "modify", "message": "less", "modifiedRequest": modified})
    }
}

fn data(inputs: Value) -> Value {
    json!([{"kind": "data", "data": inputs}])
}

#[tokio::test]
async fn trigger_guardian_sees_the_event_without_secrets() {
    let world = World::new().await;
    let app = open(&world).await;
    let run = trigger(&app, "m1", mail("hello")).await.run();
    assert_succeeded(&run);
    let asked = world.guardian.asked();
    assert_eq!((asked.len(), &asked[0]["method"]), (3, &json!(TRIGGER)));
    let params = &asked[0]["params"];
    assert_eq!(
        params["trigger"],
        json!({
            "type": "autonomous",
            "event": {"type": "email", "id": "m1"},
            "content": data(json!({"subject": "hello", "pin": "(secret)"})),
        })
    );
    assert_eq!(params["context"]["session"]["id"], "mail");
    for member in ["turnId", "session"] {
        assert_eq!(params["context"][member], asked[1]["params"]["context"][member], "{member}");
    }
    assert_eq!(params["context"]["capability"]["checksum"], json!(run.checksum));
    let EventKind::RunStarted(started) = events(&app, run.id).await.remove(0).kind else {
        panic!("no beginning");
    };
    assert_eq!(json!(started.trigger), json!({"type": "email", "id": "m1"}));
    assert_eq!(json!(started.decisions)[0]["phase"], "trigger");
}

#[tokio::test]
async fn an_event_that_is_delivered_again_starts_nothing_again() {
    let world = World::new().await;
    let app = open(&world).await;
    let first = trigger(&app, "m1", mail("hello")).await.run();
    let again = trigger(&app, "m1", mail("hello")).await.run();
    assert_eq!(first.id, again.id);
    assert_ne!(trigger(&app, "m2", mail("hello")).await.run().id, first.id);
    let (status, code, _) = trigger(&app, "m1", mail("other")).await.problem();
    assert_eq!((status, code.as_str()), (422, "A2S303"));
    assert_eq!(world.service.count("POST /say"), 2);
    let asked = world.guardian.asked();
    assert_eq!(asked.iter().filter(|question| question["method"] == TRIGGER).count(), 2);
}

#[tokio::test]
async fn a_denied_event_starts_nothing_and_may_come_again() {
    let world = World::new().await;
    let app = open(&world).await;
    world.guardian.decide(|_| deny());
    let (status, code, problem) = trigger(&app, "m1", mail("hello")).await.problem();
    assert_eq!((status, code.as_str()), (403, "A2S345"));
    assert!(problem.detail.contains("not today"), "{}", problem.detail);
    let list = call(&app, Method::GET, "/v1/executions", &[], Value::Null).await.body;
    assert_eq!(list["executions"], json!([]));
    world.guardian.decide(|_| allow());
    assert_eq!(trigger(&app, "m1", mail("hello")).await.run().status, RunStatus::Succeeded);
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_run_has_the_inputs_that_the_guardian_made_of_the_event() {
    let world = World::new().await;
    let app = open(&world).await;
    world.guardian.decide(modify(data(json!({"subject": "safe", "pin": "(secret)"}))));
    let run = trigger(&app, "m1", mail("hello")).await.run();
    assert_eq!(run.output, Some(json!("safe")));
    // The secret stands where it stood.
    assert_eq!(world.service.asked()[0].1, json!({"text": "safe", "pin": "48151623"}));
    for (content, code) in [
        (data(json!({"subject": "(secret)", "pin": "(secret)"})), "A2S343"),
        (data(json!({"subject": 7, "pin": "(secret)"})), "A2S343"),
        (data(json!({"subject": "a", "pin": "(secret)", "more": 1})), "A2S343"),
        (data(json!({"pin": "(secret)"})), "A2S320"),
        (json!([{"kind": "text", "text": "safe"}]), "A2S343"),
        (json!([]), "A2S343"),
    ] {
        world.guardian.decide(modify(content.clone()));
        let refused = trigger(&app, "m2", mail("hello")).await.problem();
        assert_eq!(refused.1, code, "{content}");
    }
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn what_is_no_event_is_refused_before_anybody_is_asked() {
    let world = World::new().await;
    let app = open(&world).await;
    let execution = json!({"name": "Tell", "inputs": mail("hello")});
    for (event, execution) in [
        (json!({"type": "", "id": "1"}), execution.clone()),
        (json!({"type": "email", "id": "a b"}), execution.clone()),
        (json!({"type": "email", "id": "1".repeat(101)}), execution.clone()),
        (json!({"type": "email", "id": "1", "more": 1}), execution.clone()),
        (json!({"type": "email"}), execution.clone()),
        (json!({"type": "email", "id": "1"}), json!({"plan": "token"})),
        (json!({"type": "email", "id": "1"}), json!({"name": "Tell", "wat": 1})),
    ] {
        let body = json!({"event": event, "execution": execution});
        let refused = call(&app, Method::POST, "/v1/triggers", &[], body.clone()).await.problem();
        assert_eq!((refused.0, refused.1.as_str()), (400, "A2S300"), "{body}");
    }
    let (_, code, _) = trigger(&app, "1", json!({"subject": 7, "pin": "x"})).await.problem();
    assert_eq!(code, "A2S324");
    assert!(world.guardian.asked().is_empty());
}
