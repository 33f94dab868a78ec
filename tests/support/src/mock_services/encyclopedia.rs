//! `en.wikipedia.org`: summaries of articles.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::MockServiceBuilder;

/// The encyclopedia: an article about everything but `Nothing`.
#[must_use]
pub fn encyclopedia() -> MockServiceBuilder {
    let route = "/api/rest_v1/page/summary/{title}";
    MockServiceBuilder::for_host("en.wikipedia.org", Router::new().route(route, get(summarise)))
}

async fn summarise(Path(title): Path<String>) -> Response {
    if title == "Nothing" {
        let body = json!({ "status": 404, "title": "Not found.", "type": "Internal error" });
        return (StatusCode::NOT_FOUND, Json(body)).into_response();
    }
    let page = format!("https://en.wikipedia.org/wiki/{}", title.replace(' ', "_"));
    let body = json!({
        "type": "standard",
        "title": title,
        "description": "Subject of an article",
        "extract": format!("{title} is a subject that people like to read about."),
        "lang": "en",
        "content_urls": { "desktop": { "page": page } }
    });
    Json(body).into_response()
}
