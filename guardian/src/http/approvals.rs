//! What waits for a person, over HTTP, for those who have the guardian's token.

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::error::Code;
use crate::policy::{Approval, Decided};

const MAX_BODY: usize = 16 << 10;

/// The routes of approvals.
pub(super) fn routes(app: App) -> Router {
    let (routes, _) = described().split_for_parts();
    routes.layer(DefaultBodyLimit::max(MAX_BODY)).with_state(app)
}

/// Their description.
pub(crate) fn openapi() -> OpenApi {
    let (_, description) = described().split_for_parts();
    description
}

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals))
        .routes(routes!(approve))
        .routes(routes!(reject))
}

/// What waits for a person, or was decided and is not used yet.
#[derive(Debug, Serialize, ToSchema)]
struct Approvals {
    approvals: Vec<Approval>,
}

/// Who decides, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Words {
    /// Who decides, as they call themselves.
    by: Option<String>,
    /// Why.
    reason: Option<String>,
}

/// List what waits for a person
#[utoipa::path(
    get, path = "/v1/approvals", tag = "guardian", security(("token" = [])),
    responses(
        (status = 200, description = "What waits, and what was decided and is not used yet", body = Approvals),
        (status = 401, description = "The token is missing or another"),
    ),
)]
async fn list_approvals(State(app): State<App>, headers: HeaderMap) -> Response {
    match check_token(&app, &headers) {
        Ok(()) => axum::Json(Approvals { approvals: app.approvals() }).into_response(),
        Err(code) => problem(code),
    }
}

/// Approve what waits: it may be done once, within its time
#[utoipa::path(
    post, path = "/v1/approvals/{id}/approve", tag = "guardian", security(("token" = [])),
    params(("id" = String, Path, description = "The id that the denial has told")),
    request_body(content = Option<Words>, content_type = "application/json"),
    responses(
        (status = 200, description = "The approval", body = Approval),
        (status = 400, description = "The body is not understood"),
        (status = 401, description = "The token is missing or another"),
        (status = 404, description = "It is unknown, decided already, or over"),
        (status = 503, description = "The audit log cannot be written"),
    ),
)]
async fn approve(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    decide(&app, &id, &headers, body, true).await
}

/// Reject what waits: it is denied until its time is over
#[utoipa::path(
    post, path = "/v1/approvals/{id}/reject", tag = "guardian", security(("token" = [])),
    params(("id" = String, Path, description = "The id that the denial has told")),
    request_body(content = Option<Words>, content_type = "application/json"),
    responses(
        (status = 200, description = "The approval", body = Approval),
        (status = 400, description = "The body is not understood"),
        (status = 401, description = "The token is missing or another"),
        (status = 404, description = "It is unknown, decided already, or over"),
        (status = 503, description = "The audit log cannot be written"),
    ),
)]
async fn reject(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    decide(&app, &id, &headers, body, false).await
}

async fn decide(
    app: &App,
    id: &str,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    is_approved: bool,
) -> Response {
    let decided = async {
        check_token(app, headers)?;
        let body = body.map_err(|_| Code::TooLarge)?;
        let words = match body.is_empty() {
            true => Words::default(),
            false => serde_json::from_slice(&body).map_err(|_| Code::BadDecision)?,
        };
        app.settle(id, Decided { is_approved, by: words.by, reason: words.reason }).await
    };
    match decided.await {
        Ok(approval) => axum::Json(approval).into_response(),
        Err(code) => problem(code),
    }
}

/// Whoever may ask whether a step is allowed may not say that it is.
fn check_token(app: &App, headers: &HeaderMap) -> Result<(), Code> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    // The name of the scheme is in any case (RFC 9110, section 11.1).
    let given = given.and_then(|value| value.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let given = given.map(|(_, token)| token.trim());
    let token = app.config.token.as_ref();
    let is_known = given.is_some_and(|given| token.is_some_and(|token| token.matches(given)));
    if is_known { Ok(()) } else { Err(Code::Unauthorized) }
}

/// Problem details (RFC 9457).
fn problem(code: Code) -> Response {
    let row = code.row();
    // To an agent this is told as a denial; here nobody would learn of it.
    let status = if code == Code::AuditUnavailable { 503 } else { row.status };
    let body = json!({
        "type": "about:blank", "title": row.text, "status": status, "code": row.name, "detail": row.text,
    });
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
