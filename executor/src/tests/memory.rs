//! What a guardian's word does to what is remembered.

use a2s_api::{DecisionRecord, EventKind, RunStatus};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::world::{World, allow, call, deny, events, sequence, task};
use crate::{App, FailMode};

const READ: &str = "steps/memoryContextRetrieval";
const WRITE: &str = "steps/memoryStore";

/// A capability that needs `city` and `days`, and asks the service for the city.
async fn open(world: &World) -> App {
    let inputs = json!({"pathParameters": {"city": "${city}"}});
    world.registry.publish_newer(
        "Echo",
        &json!({
            "parameters": [{"name": "city", "type": "string"}, {"name": "days", "type": "integer"}],
            "execution": sequence(json!([task("step", "GET /echo/{city}", inputs, json!({"x": "$"}))])),
            "output": {"city": "${city}", "days": "${days}"},
        }),
    );
    let app = world.open().await;
    assert_eq!(put(&app, "/v1/state/city", json!("Paris")).await, (200, json!("Paris")));
    assert_eq!(put(&app, "/v1/sessions/mine/state/days", json!(3)).await, (200, json!(3)));
    app
}

/// The status, and the value that is remembered or the code of the error.
async fn put(app: &App, path: &str, value: Value) -> (u16, Value) {
    let mut answer = call(app, Method::PUT, path, &[], value).await;
    let member = if answer.status == StatusCode::OK { "value" } else { "code" };
    (answer.status.as_u16(), answer.body[member].take())
}

async fn remembered(app: &App) -> Value {
    call(app, Method::GET, "/v1/state", &[], Value::Null).await.body["entries"][0]["value"].clone()
}

/// What comes of a run that needs what is remembered: its result, and what its journal has of the
/// guardian.
async fn run(app: &App) -> Result<(Value, Option<DecisionRecord>), (u16, String, String)> {
    let body = json!({"name": "Echo", "session": "mine", "wait": true});
    let answer = call(app, Method::POST, "/v1/executions", &[], body).await;
    if !answer.status.is_success() {
        let (status, code, problem) = answer.problem();
        return Err((status, code, problem.detail));
    }
    let ended = answer.run();
    assert_eq!(ended.status, RunStatus::Succeeded, "{ended:?}");
    let EventKind::RunStarted(started) = events(app, ended.id).await.remove(0).kind else {
        panic!("no beginning");
    };
    Ok((ended.output.unwrap(), started.decisions.into_iter().next()))
}

/// A guardian that changes the memories of a question of `method`.
fn modify(method: &'static str, memory: Value) -> impl Fn(&Value) -> Value + Send + 'static {
    move |question| {
        if question["method"] != method {
            return allow();
        }
        let mut modified = question.clone();
        modified["params"]["memory"] = memory.clone();
        json!({"decision": "modify", "message": "less", "modifiedRequest": modified})
    }
}

fn memory(name: &str, value: impl Into<Value>) -> String {
    json!({"name": name, "value": value.into()}).to_string()
}

#[tokio::test]
async fn guardian_is_asked_before_state_is_written_or_read() {
    let world = World::new().await;
    let app = open(&world).await;
    let (output, decision) = run(&app).await.unwrap();
    assert_eq!(output, json!({"city": "Paris", "days": 3}));
    assert_eq!(decision.unwrap().decision, "allow");
    let asked = world.guardian.asked();
    let methods: Vec<_> = asked.iter().map(|question| &question["method"]).collect();
    assert_eq!(methods, [WRITE, WRITE, READ, "steps/toolCallRequest", "steps/toolCallResult"]);
    let [all, mine, read, tool, _] = &asked[..] else { unreachable!() };
    assert_eq!(all["params"]["memory"], json!([memory("city", "Paris")]));
    assert_eq!(all["params"]["context"]["session"]["id"], "urn:a2s:principal:owner");
    assert_eq!(mine["params"]["context"]["session"]["id"], "mine");
    assert_eq!(read["params"]["memory"], json!([memory("city", "Paris"), memory("days", 3)]));
    // The same turn as the steps behind it, with the same capability and checksum.
    let of = |question: &Value, pointer: &str| {
        question["params"]["context"].pointer(pointer).cloned().unwrap()
    };
    for pointer in ["/session/id", "/turnId", "/capability/checksum", "/capability/run"] {
        assert_eq!(of(read, pointer), of(tool, pointer), "{pointer}");
    }
    // What the caller gives is no memory.
    let given = json!({"name": "Echo", "inputs": {"city": "Oslo", "days": 1}, "wait": true});
    call(&app, Method::POST, "/v1/executions", &[], given).await.run();
    let asked = world.guardian.asked();
    assert_eq!(asked.iter().filter(|question| question["method"] == READ).count(), 1);
}

#[tokio::test]
async fn what_may_not_be_used_starts_no_run() {
    let world = World::new().await;
    let app = open(&world).await;
    world.guardian.decide(|question| if question["method"] == READ { deny() } else { allow() });
    let (status, code, detail) = run(&app).await.unwrap_err();
    assert_eq!((status, code.as_str()), (403, "A2S344"));
    assert!(detail.contains("not today"), "{detail}");
    let list = call(&app, Method::GET, "/v1/executions", &[], Value::Null).await.body;
    assert_eq!(list["executions"], json!([]));
    assert_eq!(world.service.count("GET /echo/Paris"), 0);
}

#[tokio::test]
async fn a_run_uses_what_the_guardian_makes_of_memory() {
    let world = World::new().await;
    let app = open(&world).await;
    let both = json!([memory("city", "Rome"), memory("days", 3)]);
    world.guardian.decide(modify(READ, both));
    let (output, decision) = run(&app).await.unwrap();
    assert_eq!(output, json!({"city": "Rome", "days": 3}));
    let decision = decision.unwrap();
    let [change] = &decision.changes[..] else { panic!("{decision:?}") };
    assert_eq!((change.name.as_str(), &change.to), ("city", &json!("Rome")));
    assert!(!json!(decision).to_string().contains("Paris"));
    // It is for this run alone.
    assert_eq!(remembered(&app).await, "Paris");
    assert_eq!(world.service.count("GET /echo/Paris"), 0);
    assert_eq!(world.service.count("GET /echo/Rome"), 1);
}

#[tokio::test]
async fn a_modification_that_cannot_be_used_is_a_denial() {
    let world = World::new().await;
    let app = open(&world).await;
    for (made, code) in [
        (json!([memory("city", "Rome")]), "A2S344"),
        (json!([memory("city", "Rome"), memory("days", "three")]), "A2S343"),
        (json!([memory("city", "Rome"), memory("days", 1), memory("more", 1)]), "A2S343"),
        (json!(["city is Rome"]), "A2S343"),
        (json!("city"), "A2S343"),
    ] {
        world.guardian.decide(modify(READ, made.clone()));
        let refused = run(&app).await.unwrap_err();
        assert_eq!((refused.0, refused.1.as_str()), (403, code), "{made}: {}", refused.2);
    }
}

#[tokio::test]
async fn what_is_remembered_is_what_the_guardian_lets_be() {
    let world = World::new().await;
    let app = open(&world).await;
    world.guardian.decide(|_| deny());
    assert_eq!(put(&app, "/v1/state/city", json!("Oslo")).await, (403, json!("A2S344")));
    assert_eq!(remembered(&app).await, "Paris");
    world.guardian.decide(modify(WRITE, json!([memory("city", "O.")])));
    assert_eq!(put(&app, "/v1/state/city", json!("Oslo")).await, (200, json!("O.")));
    assert_eq!(remembered(&app).await, "O.");
    for made in [json!([]), json!([memory("town", "O.")])] {
        world.guardian.decide(modify(WRITE, made));
        assert_eq!(put(&app, "/v1/state/city", json!("Oslo")).await, (403, json!("A2S343")));
    }
    assert_eq!(remembered(&app).await, "O.");
    // What could not be remembered anyway is not asked about.
    let asked = world.guardian.asked().len();
    assert_eq!(put(&app, "/v1/state/a.b", json!(1)).await, (400, json!("A2S300")));
    assert_eq!(world.guardian.asked().len(), asked);
}

#[tokio::test]
async fn a_silent_guardian_holds_memory_back_unless_steps_may_pass() {
    let mut world = World::new().await;
    let app = open(&world).await;
    app.shutdown(std::time::Duration::ZERO).await;
    let guardian = world.guarded_by();
    guardian.http().url = "http://127.0.0.1:1/aos".parse().unwrap();
    let app = world.open().await;
    assert_eq!(put(&app, "/v1/state/city", json!("Oslo")).await, (503, json!("A2S342")));
    let refused = run(&app).await.unwrap_err();
    assert_eq!((refused.0, refused.1.as_str()), (503, "A2S342"));
    assert_eq!(remembered(&app).await, "Paris");
    app.shutdown(std::time::Duration::ZERO).await;
    let guardian = world.guarded_by();
    guardian.fail = FailMode::Open.into();
    let app = world.open().await;
    assert_eq!(put(&app, "/v1/state/city", json!("Oslo")).await, (200, json!("Oslo")));
    let (output, decision) = run(&app).await.unwrap();
    assert_eq!(output["city"], "Oslo");
    assert_eq!(json!(decision.unwrap().source), "failed_open");
}
