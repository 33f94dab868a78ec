//! `api.frankfurter.dev`: exchange rates.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::MockServiceBuilder;

/// The value of one euro.
const RATES: [(&str, f64); 4] = [("EUR", 1.0), ("USD", 1.25), ("GBP", 0.8), ("JPY", 160.0)];

/// The exchange. It knows EUR, USD, GBP and JPY; it rejects other codes with 422.
#[must_use]
pub fn currency() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "api.frankfurter.dev",
        Router::new().route("/v2/rate/{base}/{quote}", get(show_rate)),
    )
}

async fn show_rate(Path((base, quote)): Path<(String, String)>) -> Response {
    let rate = |code: &str| RATES.iter().find(|(known, _)| *known == code).map(|(_, rate)| rate);
    let (Some(from), Some(to)) = (rate(&base), rate(&quote)) else {
        let body = json!({ "status": 422, "message": "invalid currency" });
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response();
    };
    let rate = (to / from * 10_000.0).round() / 10_000.0;
    Json(json!({ "date": "2026-06-01", "base": base, "quote": quote, "rate": rate }))
        .into_response()
}
