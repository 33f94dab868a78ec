//! Guardians that do as a test says.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Json, Router};
use serde_json::{Value, json};
use url::Url;

use crate::serve;

type Decide = Box<dyn Fn(&Value) -> Value + Send>;

/// A guardian that allows everything until a test sets another decision, and records what it is asked.
#[derive(Default)]
pub struct RecordingGuardian {
    asked: Mutex<Vec<Value>>,
    /// The headers of each question.
    headers: Mutex<Vec<HeaderMap>>,
    decide: Mutex<Option<Decide>>,
    /// The policy in its response to a ping.
    policy: Mutex<Option<&'static str>>,
    /// The withdrawals of approvals in its pings.
    withdrawals: Mutex<Vec<Value>>,
    /// Set when its status in the response to a ping is `error`.
    is_unready: AtomicBool,
}

impl fmt::Debug for RecordingGuardian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingGuardian").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl RecordingGuardian {
    /// Sets the function that makes the result of each question.
    pub fn decide(&self, decide: impl Fn(&Value) -> Value + Send + 'static) {
        *self.decide.lock().unwrap() = Some(Box::new(decide));
    }

    /// The questions so far, pings aside.
    #[must_use]
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// The withdrawals of approvals so far.
    #[must_use]
    pub fn withdrawals(&self) -> Vec<Value> {
        self.withdrawals.lock().unwrap().clone()
    }

    /// Sets the readiness that the guardian states.
    pub fn set_ready(&self, is_ready: bool) {
        self.is_unready.store(!is_ready, Ordering::SeqCst);
    }

    /// Sets the policy that the guardian states.
    pub fn set_policy(&self, policy: &'static str) {
        *self.policy.lock().unwrap() = Some(policy);
    }

    /// A header of each question.
    #[must_use]
    pub fn headers(&self, name: &str) -> Vec<Option<String>> {
        let headers = self.headers.lock().unwrap();
        let value = |headers: &HeaderMap| Some(headers.get(name)?.to_str().unwrap().to_owned());
        headers.iter().map(value).collect()
    }

    /// The routes of the guardian: every path takes questions.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(ask).with_state(Arc::clone(self))
    }
}

async fn ask(
    State(guardian): State<Arc<RecordingGuardian>>,
    headers: HeaderMap,
    Json(question): Json<Value>,
) -> Json<Value> {
    if question["method"] == "ping" {
        let policy = *guardian.policy.lock().unwrap();
        let withdrawn = question["params"]["metadata"]["withdrawnApprovals"].as_array();
        guardian.withdrawals.lock().unwrap().extend(withdrawn.into_iter().flatten().cloned());
        let is_unready = guardian.is_unready.load(Ordering::SeqCst);
        let pong = json!({
            "status": if is_unready { "error" } else { "connected" }, "version": "1", "timestamp": "2026-01-02T03:04:05Z",
            "metadata": {"policy": policy},
        });
        return rpc_result(&question, pong);
    }
    let result = match &*guardian.decide.lock().unwrap() {
        Some(decide) => decide(&question),
        None => allow(),
    };
    let response = rpc_result(&question, result);
    guardian.asked.lock().unwrap().push(question);
    guardian.headers.lock().unwrap().push(headers);
    response
}

/// Serves a guardian that makes the result for each question with `answer`, and returns its address.
pub async fn serve_guardian(answer: fn(Value) -> Value) -> Url {
    let reply = move |Json(question): Json<Value>| async move {
        rpc_result(&question, answer(question.clone()))
    };
    let address = serve(Router::new().fallback(reply)).await;
    format!("http://{address}/").parse().unwrap()
}

/// A decision that allows a step.
#[must_use]
pub fn allow() -> Value {
    json!({"decision": "allow", "message": "fine"})
}

/// A decision that denies a step.
#[must_use]
pub fn deny() -> Value {
    json!({"decision": "deny", "message": "not today", "reasonCode": ["test"]})
}

/// A decision that allows `question` with changed parameters.
pub fn modify(mut question: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut question["params"]);
    json!({"decision": "modify", "message": "In other words.", "modifiedRequest": question})
}

/// The JSON-RPC response to `question` with this result.
#[expect(clippy::needless_pass_by_value, reason = "the result is moved into the response")]
pub fn rpc_result(question: &Value, result: Value) -> Json<Value> {
    Json(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
}
