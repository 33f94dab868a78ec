//! Runs that wait for a person: counted, and told to whoever is to be alarmed.

use std::sync::{Arc, Mutex};

use a2s_api::RunStatus;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::world::{World, events, read, sequence, serve, start, task};
use crate::{App, OtlpExport, Secret};

/// Whoever is alarmed: refuses the first of what it gets.
#[derive(Default)]
struct Siren {
    heard: Mutex<Vec<(Option<String>, Value)>>,
    changed: Notify,
}

async fn siren() -> (Arc<Siren>, url::Url) {
    let siren = Arc::new(Siren::default());
    let heard = Arc::clone(&siren);
    let hear = move |headers: HeaderMap, body: String| async move {
        let key = headers.get("key").map(|key| key.to_str().unwrap().to_owned());
        let mut all = heard.heard.lock().unwrap();
        all.push((key, serde_json::from_str(&body).unwrap()));
        heard.changed.notify_one();
        if all.len() == 1 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
    };
    let address = serve(Router::new().route("/alarm", post(hear))).await;
    (siren, format!("http://{address}/alarm").parse().unwrap())
}

/// An executor with a capability that sends what is not safe to repeat.
async fn open(world: &World) -> App {
    let steps = json!([task("send", "POST /hold/send", json!({}), json!({"held": "$.value"}))]);
    world.registry.publish("Send", "1.0.0", &json!({"execution": sequence(steps)}));
    world.open().await
}

/// Starts a run, ends its executor while the request is under way, and opens another one, at which the
/// run waits for a person.
async fn wait_for_a_person(world: &World, app: App) -> (App, Uuid) {
    let id = start(&app, "Send", json!({})).await;
    world.service.arrived("POST /hold/send", 1).await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    (app, id)
}

#[tokio::test]
async fn a_run_that_waits_is_counted_and_somebody_is_alarmed() {
    let mut world = World::new().await;
    let (siren, endpoint) = siren().await;
    let headers = vec![("key".to_owned(), Secret::new("k"))];
    world.config.telemetry.alarm = Some(OtlpExport { endpoint, headers });
    let app = open(&world).await;
    assert!(world.metrics().contains("\nruns_waiting 0\n"), "{}", world.metrics());
    let (_app, id) = wait_for_a_person(&world, app).await;
    // It is sent again, as it was refused at first.
    while siren.heard.lock().unwrap().len() < 2 {
        siren.changed.notified().await;
    }
    let heard = siren.heard.lock().unwrap().clone();
    assert_eq!(heard[0], heard[1]);
    let (key, alarm) = &heard[1];
    assert_eq!(key.as_deref(), Some("k"));
    assert_eq!(
        (&alarm["type"], &alarm["run"], &alarm["capability"], &alarm["code"], &alarm["step"]),
        (&json!("run_waiting"), &json!(id), &json!("Send"), &json!("A2S371"), &json!("send"))
    );
    assert!(world.metrics().contains("\nruns_waiting 1\n"), "{}", world.metrics());
}

#[tokio::test]
async fn a_receiver_of_alarms_that_never_answers_holds_up_no_run() {
    let mut world = World::new().await;
    // Nobody reads what arrives here.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    world.config.telemetry.alarm = Some(OtlpExport { endpoint, headers: Vec::new() });
    let app = open(&world).await;
    let (app, _) = wait_for_a_person(&world, app).await;
    let id = start(&app, "Send", json!({})).await;
    world.service.release("send");
    events(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Succeeded);
}
