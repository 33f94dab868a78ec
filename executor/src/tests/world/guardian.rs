//! A guardian that does as the test says, and keeps what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};

use super::{PATIENCE, serve};
use crate::GuardianConfig;

type Decide = Box<dyn Fn(&Value) -> Value + Send>;

#[derive(Default)]
pub(crate) struct GuardianDouble {
    asked: Mutex<Vec<Value>>,
    /// What came with each question.
    headers: Mutex<Vec<HeaderMap>>,
    /// Gives the result of a question; everything is allowed without it.
    decide: Mutex<Option<Decide>>,
    /// The policy that it tells of.
    policy: Mutex<Option<&'static str>>,
}

impl GuardianDouble {
    pub(crate) fn decide(&self, decide: impl Fn(&Value) -> Value + Send + 'static) {
        *self.decide.lock().unwrap() = Some(Box::new(decide));
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// From now on it says that it has this policy.
    pub(crate) fn tell_policy(&self, policy: &'static str) {
        *self.policy.lock().unwrap() = Some(policy);
    }

    /// The `traceparent` of each question.
    pub(crate) fn traces(&self) -> Vec<Option<String>> {
        self.headers("traceparent")
    }

    /// A header of each question.
    pub(crate) fn headers(&self, name: &str) -> Vec<Option<String>> {
        let headers = self.headers.lock().unwrap();
        let value = |headers: &HeaderMap| Some(headers.get(name)?.to_str().unwrap().to_owned());
        headers.iter().map(value).collect()
    }
}

pub(crate) fn allow() -> Value {
    json!({"decision": "allow", "message": "fine"})
}

pub(crate) fn deny() -> Value {
    json!({"decision": "deny", "message": "not today", "reasonCode": ["test"]})
}

/// A guardian, and how it is asked.
pub(crate) async fn start_guardian() -> (Arc<GuardianDouble>, GuardianConfig) {
    let guardian = Arc::new(GuardianDouble::default());
    let routes = guardian_routes(Arc::clone(&guardian));
    let url = format!("http://{}/aos", serve(routes).await);
    let usual = GuardianConfig::new(url.parse().unwrap());
    // A test that takes it away wants to see what follows.
    (guardian, GuardianConfig { timeout: PATIENCE, retry_for: Duration::ZERO, ..usual })
}

/// What a guardian answers.
pub(crate) fn guardian_routes(guardian: Arc<GuardianDouble>) -> Router {
    Router::new().route("/aos", post(ask_guardian)).with_state(guardian)
}

async fn ask_guardian(
    State(guardian): State<Arc<GuardianDouble>>,
    headers: HeaderMap,
    axum::Json(question): axum::Json<Value>,
) -> axum::Json<Value> {
    if question["method"] == "ping" {
        let policy = *guardian.policy.lock().unwrap();
        let pong = json!({
            "status": "connected", "version": "1", "timestamp": "2026-01-02T03:04:05Z",
            "metadata": {"policy": policy},
        });
        return axum::Json(json!({"jsonrpc": "2.0", "id": question["id"], "result": pong}));
    }
    let result = match &*guardian.decide.lock().unwrap() {
        Some(decide) => decide(&question),
        None => allow(),
    };
    let id = question["id"].clone();
    guardian.asked.lock().unwrap().push(question);
    guardian.headers.lock().unwrap().push(headers);
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}
