//! `api.github.com`: repositories.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::MockServiceBuilder;

/// The code service. Every repository exists except those of `nobody`; that of `unlicensed` has no licence.
/// It rejects a caller without a name and an unknown version of the API.
#[must_use]
pub fn code() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "api.github.com",
        Router::new().route("/repos/{owner}/{repo}", get(show_repository)),
    )
}

async fn show_repository(
    headers: HeaderMap,
    Path((owner, repo)): Path<(String, String)>,
) -> Response {
    let refuse = |status: StatusCode, message: &str| {
        let body = json!({ "message": message, "status": status.as_u16().to_string() });
        (status, Json(body)).into_response()
    };
    if !headers.contains_key(header::USER_AGENT) {
        return refuse(StatusCode::FORBIDDEN, "Say who you are in the header User-Agent.");
    }
    if headers.get("x-github-api-version").is_some_and(|version| version != "2022-11-28") {
        return refuse(StatusCode::BAD_REQUEST, "That version of the API does not exist.");
    }
    if owner == "nobody" {
        return refuse(StatusCode::NOT_FOUND, "Not Found");
    }
    let license = (owner != "unlicensed").then(|| json!({ "key": "mit", "spdx_id": "MIT" }));
    let body = json!({
        "id": 42,
        "name": repo,
        "full_name": format!("{owner}/{repo}"),
        "description": format!("What {owner} keeps in {repo}"),
        "html_url": format!("https://github.com/{owner}/{repo}"),
        "language": "Rust",
        "stargazers_count": 1234,
        "forks_count": 56,
        "open_issues_count": 7,
        "pushed_at": "2026-05-04T03:02:01Z",
        "license": license
    });
    Json(body).into_response()
}
