//! `POST /aos`, the approvals and the signs of life.

mod approvals;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use crate::App;
use crate::error::RejectionCode;

pub(crate) use approvals::openapi;

/// Returns the routes of the protocol, without authentication of the caller.
pub(crate) fn protocol_routes(app: App) -> Router {
    let limit = app.config.max_body_bytes;
    let aos =
        Router::new().route("/aos", post(receive_message)).layer(DefaultBodyLimit::max(limit));
    aos.with_state(Arc::new(app))
}

/// Returns the routes of the approvals, which check the token themselves.
pub(crate) fn approval_routes(app: App) -> Router {
    approvals::routes(app)
}

/// Returns all routes: the protocol, the approvals and the health checks.
pub(crate) fn router(app: App) -> Router {
    let life = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(read_readiness))
        .with_state(Arc::new(app.clone()));
    protocol_routes(app.clone()).merge(approval_routes(app)).merge(life)
}

async fn read_readiness(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    if app.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "audit log not available\n")
    }
}

async fn receive_message(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if !is_json(&headers) {
        return reject(&app, RejectionCode::MediaType);
    }
    match body {
        Ok(body) => respond(StatusCode::OK, app.handle_message(body).await),
        Err(_) => reject(&app, RejectionCode::TooLarge),
    }
}

/// Responds to a request that is rejected before it is read.
fn reject(app: &App, code: RejectionCode) -> Response {
    let status = StatusCode::from_u16(code.mapping().status).unwrap_or(StatusCode::BAD_REQUEST);
    respond(status, app.reject(code).to_vec())
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}
