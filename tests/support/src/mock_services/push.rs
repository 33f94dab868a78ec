//! `ntfy.sh`: push notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::MockServiceBuilder;

/// A mock of the push notifications of `ntfy.sh`. It accepts topics of letters, digits, `_` and `-`, and
/// rejects others.
#[must_use]
pub fn push_notifications() -> MockServiceBuilder {
    let router = Router::new().route("/", post(publish)).with_state(Arc::new(AtomicU64::new(0)));
    MockServiceBuilder::for_host("ntfy.sh", router)
}

async fn publish(State(last): State<Arc<AtomicU64>>, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let topic = message["topic"].as_str().unwrap_or_default();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if topic.is_empty() || !topic.chars().all(word) {
        let body = json!({ "code": 40009, "http": 400, "error": "invalid request: topic invalid" });
        return (StatusCode::BAD_REQUEST, Json(body)).into_response();
    }
    let number = last.fetch_add(1, Ordering::Relaxed) + 1;
    let time = 1_780_000_000 + number;
    let body = json!({
        "id": format!("msg{number:09}"),
        "time": time,
        "expires": time + 43_200,
        "event": "message",
        "topic": topic,
        "title": message["title"],
        "message": message["message"],
        "priority": message["priority"]
    });
    Json(body).into_response()
}
