//! `official-joke-api.appspot.com`: jokes.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::MockServiceBuilder;

/// The joke service. It knows one joke.
#[must_use]
pub fn jokes() -> MockServiceBuilder {
    let router = Router::new().route("/random_joke", get(random_joke));
    MockServiceBuilder::for_host("official-joke-api.appspot.com", router)
}

async fn random_joke() -> Json<Value> {
    Json(json!({
        "type": "programming",
        "setup": "Why did the borrow checker leave the party?",
        "punchline": "Somebody else was still holding its drink.",
        "id": 7
    }))
}
