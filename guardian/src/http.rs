//! `POST /aos`, the approvals, the log and the signs of life.

mod approvals;
mod log;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::json;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

pub use log::{GuardianRecordList, LogVerification};

use crate::App;
use crate::bearer_token::TokenDigest;
use crate::error::RejectionCode;

/// Returns the routes of the protocol, without authentication of the caller.
pub(crate) fn protocol_routes(app: App) -> Router {
    let limit = app.config.max_body_bytes;
    let aos =
        Router::new().route("/aos", post(receive_message)).layer(DefaultBodyLimit::max(limit));
    aos.with_state(Arc::new(app))
}

/// Returns the routes of the approvals and of the log, which check the token themselves.
pub(crate) fn api_routes(app: App) -> Router {
    let (routes, _) = described_routes().split_for_parts();
    routes.with_state(app)
}

/// Returns the OpenAPI description of these routes.
pub(crate) fn openapi() -> OpenApi {
    let (_, description) = described_routes().split_for_parts();
    description
}

fn described_routes() -> OpenApiRouter<App> {
    approvals::routes().merge(log::routes())
}

/// Returns all routes: the protocol, the approvals and the health checks.
pub(crate) fn router(app: App) -> Router {
    let life = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(read_readiness))
        .with_state(Arc::new(app.clone()));
    protocol_routes(app.clone()).merge(api_routes(app)).merge(life)
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

fn is_json(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The guardian's token, which a route requires: a client that may ask for a decision may not approve, or
/// read the log.
struct ApproverToken;

impl FromRequestParts<App> for ApproverToken {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        match has_token(&parts.headers, app.config.token.as_ref()) {
            true => Ok(Self),
            false => Err(problem(RejectionCode::Unauthorized)),
        }
    }
}

/// Returns true when a request has this token.
fn has_token(headers: &HeaderMap, token: Option<&TokenDigest>) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    // The name of the scheme is in any case (RFC 9110, section 11.1).
    let given = given.and_then(|value| value.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let given = given.map(|(_, token)| token.trim());
    given.is_some_and(|given| token.is_some_and(|token| token.matches(given)))
}

/// Builds a response with problem details (RFC 9457).
fn problem(code: RejectionCode) -> Response {
    problem_with_detail(code, code.mapping().text)
}

/// Builds a response with problem details about one occurrence.
fn problem_with_detail(code: RejectionCode, detail: &str) -> Response {
    let row = code.mapping();
    // An agent gets a denial for this; here only the status reports it.
    let status = if code == RejectionCode::AuditUnavailable { 503 } else { row.status };
    let body = json!({
        "type": "about:blank", "title": row.text, "status": status, "code": row.name, "detail": detail,
    });
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
