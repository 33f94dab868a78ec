//! A guardian for tests, which answers as a function says.

use agent::{ClockAndIds, Guard};
use aos::{GuardianClient, Options};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

/// The result that the guardian gives for a request.
pub(crate) type Answer = fn(Value) -> Value;

/// Returns a guard with a guardian that answers like this, until the test is over.
pub(crate) async fn guard(answer: Answer) -> Guard {
    let reply = move |Json(question): Json<Value>| async move {
        let id = question["id"].clone();
        Json(json!({"jsonrpc": "2.0", "id": id, "result": answer(question)}))
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let router = Router::new().route("/", post(reply));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = GuardianClient::new(url, Options::default()).unwrap();
    let time = "2026-01-02T03:04:05Z".parse().unwrap();
    let clock = ClockAndIds::new(move || time, || Uuid::from_u128(7));
    Guard::new(Some(aos::GuardianChain::new("stand-in", client)), clock)
}

/// Returns the response that allows the request with changed parameters.
pub(crate) fn modify(question: Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut modified = question;
    change(&mut modified["params"]);
    json!({"decision": "modify", "message": "In other words.", "modifiedRequest": modified})
}
