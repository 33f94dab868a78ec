//! Security events of runs: what is written into a file and sent to an endpoint.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s::Secret;
use a2s_api::{EventKind, RunStatus};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::world::{
    World, allow, assert_succeeded, call, cancel, deny, run, sequence, serve, task, wait_for,
};
use crate::config::{OcsfFile, OtlpExport};
use crate::{App, FailMode};

const GRACE: Duration = Duration::from_secs(10);

/// An endpoint: what it got, and the statuses that it is to answer with; 200 when there are none.
#[derive(Default)]
struct Endpoint {
    got: Mutex<Vec<(HeaderMap, Vec<Value>)>>,
    statuses: Mutex<VecDeque<u16>>,
}

impl Endpoint {
    async fn of(world: &mut World, statuses: &[u16]) -> Arc<Self> {
        let endpoint = Arc::new(Self::default());
        endpoint.statuses.lock().unwrap().extend(statuses);
        let routes = Router::new().fallback(Self::take).with_state(Arc::clone(&endpoint));
        let address = serve(routes).await;
        world.config.telemetry.ocsf_endpoint = Some(OtlpExport {
            endpoint: format!("http://{address}/events").parse().unwrap(),
            headers: vec![("x-api-key".to_owned(), Secret::new("open-sesame"))],
        });
        endpoint
    }

    async fn take(
        State(endpoint): State<Arc<Self>>,
        headers: HeaderMap,
        axum::Json(events): axum::Json<Vec<Value>>,
    ) -> StatusCode {
        endpoint.got.lock().unwrap().push((headers, events));
        let status = endpoint.statuses.lock().unwrap().pop_front();
        StatusCode::from_u16(status.unwrap_or(200)).unwrap()
    }
}

/// Makes a file the receiver of a world.
fn file_of(world: &mut World) -> PathBuf {
    let path = world.file("events.jsonl");
    world.config.telemetry.ocsf_file = Some(OcsfFile::new(path.clone()));
    path
}

fn read(path: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What is told, sorted: of two runs, one may be told before the other.
fn messages(events: &[Value]) -> Vec<&str> {
    let mut messages: Vec<_> =
        events.iter().map(|event| event["message"].as_str().unwrap()).collect();
    messages.sort_unstable();
    messages
}

fn sorted(mut events: Vec<Value>) -> Vec<Value> {
    events.sort_by_key(|event| event["metadata"]["uid"].to_string());
    events
}

fn metric(world: &World, sink: &str, status: &str) -> u64 {
    let start = format!("security_events_total{{sink=\"{sink}\",status=\"{status}\"}} ");
    let metrics = world.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |count| count.parse().unwrap())
}

async fn open(world: &World) -> App {
    let inputs = json!({"body": {"text": "${words}", "pin": "${pin}"}});
    world.registry.publish_newer(
        "Say",
        &json!({
            "a2s": "1.1.0",
            "parameters": [{"name": "pin", "type": "string", "secret": true}],
            "execution": sequence(json!([task("say", "POST /say", inputs, json!({"x": "$"}))])),
        }),
    );
    world.open().await
}

fn inputs() -> Value {
    json!({"words": "plain words", "pin": "48151623"})
}

#[tokio::test]
async fn file_and_endpoint_get_every_step_and_denial_without_values() {
    let mut world = World::new().await;
    let path = file_of(&mut world);
    let endpoint = Endpoint::of(&mut world, &[]).await;
    let app = open(&world).await;
    assert_succeeded(&run(&app, "Say", inputs()).await);
    world.guardian.decide(|question| match question["method"].as_str() {
        Some("steps/toolCallRequest") => deny(),
        _ => allow(),
    });
    assert_eq!(run(&app, "Say", inputs()).await.status, RunStatus::Denied);
    app.shutdown(GRACE).await;

    let events = read(&path);
    assert_eq!(
        messages(&events),
        [
            "Say.say failed: A2S340",
            "Say.say succeeded",
            "The guardian denied the request of Say.say",
        ]
    );
    let finding = events.iter().find(|event| event["class_uid"] == 2004).unwrap();
    assert_eq!(finding["finding_info"]["desc"], "not today");
    let got = endpoint.got.lock().unwrap();
    let sent: Vec<_> = got.iter().flat_map(|(_, events)| events.clone()).collect();
    assert_eq!(sorted(sent), sorted(events.clone()));
    assert_eq!(got[0].0["x-api-key"], "open-sesame");
    assert_eq!(got[0].0["content-type"], "application/json");
    let told = json!(events).to_string();
    for value in ["plain words", "48151623"] {
        assert!(!told.contains(value), "{told}");
    }
    for sink in ["file", "http"] {
        assert_eq!((metric(&world, sink, "exported"), metric(&world, sink, "dropped")), (3, 0));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn events_and_memories_are_told_although_there_is_no_run() {
    let mut world = World::new().await;
    let path = file_of(&mut world);
    let app = open(&world).await;
    let put = async |value: Value| {
        call(&app, Method::PUT, "/v1/state/words", &[], value).await.status.as_u16()
    };
    assert_eq!(put(json!("hello")).await, 200);
    world.guardian.decide(|_| deny());
    assert_eq!(put(json!("hello again")).await, 403);
    let execution = json!({"name": "Say", "inputs": {"pin": "48151623"}, "wait": true});
    let body = json!({"event": {"type": "email", "id": "m1"}, "execution": execution});
    let refused = call(&app, Method::POST, "/v1/triggers", &[], body).await.problem();
    assert_eq!(refused.1, "A2S345");
    world.guardian.decide(|question| match question["method"].as_str() {
        Some("steps/memoryContextRetrieval") => deny(),
        _ => allow(),
    });
    let body = json!({"name": "Say", "inputs": {"pin": "48151623"}, "wait": true});
    let refused = call(&app, Method::POST, "/v1/executions", &[], body).await.problem();
    assert_eq!(refused.1, "A2S344");
    app.shutdown(GRACE).await;
    let events = read(&path);
    assert_eq!(
        messages(&events),
        [
            "The guardian denied steps/agentTrigger",
            "The guardian denied steps/memoryContextRetrieval",
            "The guardian denied steps/memoryStore",
            "steps/agentTrigger: deny",
            "steps/memoryContextRetrieval: deny",
            "steps/memoryStore: allow",
            "steps/memoryStore: deny",
        ]
    );
    let told = json!(events).to_string();
    assert!(!told.contains("hello") && !told.contains("48151623"), "{told}");
}

#[tokio::test]
async fn a_run_that_waits_is_told_so_far_and_then_the_rest() {
    let mut world = World::new().await;
    let path = file_of(&mut world);
    let steps = json!([
        task("look", "GET /echo/a", json!({}), json!({"x": "$.value"})),
        task("pay", "POST /hold/pay", json!({"body": {}}), json!({"y": "$.value"})),
    ]);
    world.registry.publish("Pay", "1.0.0", &json!({"execution": sequence(steps)}));
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/pay").await;
    world.crash(app).await;
    world.pass(Duration::from_secs(60));
    let app = world.open().await;
    wait_for(&app, id, |kind| matches!(kind, EventKind::RunWaiting { .. })).await;
    app.shutdown(GRACE).await;
    assert_eq!(messages(&read(&path)), ["Pay.look succeeded"]);
    let app = world.open().await;
    cancel(&app, id).await.run();
    app.shutdown(GRACE).await;
    assert_eq!(messages(&read(&path)), ["Pay.look succeeded", "Pay.pay: stopped"]);
}

#[tokio::test]
async fn a_guardian_that_is_silent_and_lets_pass_is_told() {
    let mut world = World::new().await;
    let path = file_of(&mut world);
    let guardian = world.guarded_by();
    guardian.endpoint = World::silent();
    guardian.fail = FailMode::Open.into();
    let app = open(&world).await;
    assert_succeeded(&run(&app, "Say", inputs()).await);
    app.shutdown(GRACE).await;
    let events = read(&path);
    let severities: Vec<_> = events.iter().map(|event| event["severity"].clone()).collect();
    assert_eq!(severities, ["Medium", "Medium", "Informational"]);
}

#[tokio::test]
async fn busy_endpoint_is_retried_and_refusing_one_is_not() {
    for (statuses, exported, attempts) in
        [(&[503, 200][..], 1, 2), (&[400], 0, 1), (&[503, 503, 503], 0, 3)]
    {
        let mut world = World::new().await;
        let endpoint = Endpoint::of(&mut world, statuses).await;
        let app = open(&world).await;
        assert_succeeded(&run(&app, "Say", inputs()).await);
        app.shutdown(GRACE).await;
        let counts = (metric(&world, "http", "exported"), metric(&world, "http", "dropped"));
        assert_eq!(counts, (exported, 1 - exported), "{statuses:?}");
        assert_eq!(endpoint.got.lock().unwrap().len(), attempts, "{statuses:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_changes_nothing_for_a_run() {
    let mut world = World::new().await;
    world.config.telemetry.ocsf_endpoint =
        Some(OtlpExport { endpoint: World::nowhere(), headers: Vec::new() });
    let app = open(&world).await;
    assert_succeeded(&run(&app, "Say", inputs()).await);
    app.shutdown(GRACE).await;
    assert_eq!((metric(&world, "http", "exported"), metric(&world, "http", "dropped")), (0, 1));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn run_goes_on_when_the_event_file_fails() {
    let mut world = World::new().await;
    let path = file_of(&mut world);
    // The file is full from the first line on, and there is a folder where it is to be put.
    world.config.telemetry.ocsf_file =
        Some(OcsfFile { max_bytes: 1, max_rotated_files: 1, path: path.clone() });
    std::fs::create_dir_all(path.with_file_name("events.jsonl.1/in-use")).unwrap();
    let app = open(&world).await;
    for _ in 0..2 {
        assert_succeeded(&run(&app, "Say", inputs()).await);
    }
    app.shutdown(GRACE).await;
    assert_eq!((metric(&world, "file", "exported"), metric(&world, "file", "dropped")), (1, 1));
    assert_eq!(read(&path).len(), 1);
}
