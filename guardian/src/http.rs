//! `POST /aos`: a message in, a decision out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aos::message::{
    Answer, Body, Call, Decision, ErrorObject, Id, Limits, Object, Pong, PongStatus, Request,
    Response as AosResponse,
};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::json;

use crate::App;
use crate::audit::Entry;
use crate::error::Code;

/// Above this a message is judged on a thread of its own, so that it does not hold up others.
const INLINE_BYTES: usize = 32 << 10;

/// How deep a message may nest.
const MAX_DEPTH: usize = 64;

/// The protocol alone, to be merged into another service.
pub(crate) fn routes(app: App) -> Router {
    let limit = app.config.max_body_bytes;
    Router::new().route("/aos", post(answer)).layer(DefaultBodyLimit::max(limit)).with_state(app)
}

/// The protocol and the signs of life.
pub(crate) fn router(app: App) -> Router {
    let life = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(read_readiness))
        .with_state(app.clone());
    routes(app).merge(life)
}

async fn read_readiness(State(app): State<App>) -> (StatusCode, &'static str) {
    if app.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no audit log\n")
    }
}

async fn answer(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if !is_json(&headers) {
        return refuse(&app, Code::MediaType);
    }
    let Ok(body) = body else { return refuse(&app, Code::TooLarge) };
    // A short message is judged in less time than it takes to hand it over.
    let judged = if body.len() <= INLINE_BYTES {
        judge(&app, &body)
    } else {
        let judging = app.clone();
        let judged = tokio::task::spawn_blocking(move || judge(&judging, &body)).await;
        judged.unwrap_or_else(|_| Judged::At(broken(&app, None)))
    };
    match judged {
        Judged::At(response) => respond(StatusCode::OK, &response),
        Judged::Decided { request, answer, entry } => {
            let written = app.audit.append(entry).await.is_ok();
            app.note_audit(written);
            let answer = if written { answer } else { deny(Code::AuditUnavailable) };
            app.metrics.count_decision(request.method(), &answer.decision);
            respond(
                StatusCode::OK,
                &AosResponse { id: Some(request.id), body: Body::Decision(answer) },
            )
        }
    }
}

/// What judging a message comes to.
enum Judged {
    /// This is the answer.
    At(AosResponse),
    /// This is the answer once the entry is in the log.
    Decided { request: Box<Request>, answer: Answer, entry: Entry },
}

fn judge(app: &App, body: &[u8]) -> Judged {
    let limits = Limits { bytes: app.config.max_body_bytes, depth: MAX_DEPTH };
    let request = match Request::from_slice(body, limits) {
        Ok(request) => request,
        Err(rejection) => {
            app.metrics.count_rejection(Code::of_error(rejection.error.code()));
            tracing::debug!(error = %rejection, "a message is refused");
            return Judged::At(rejection.to_response());
        }
    };
    if let Call::Ping(_) = request.call {
        let status = if app.is_ready() { PongStatus::Connected } else { PongStatus::Error };
        let mut pong = Pong::new(status, env!("CARGO_PKG_VERSION").to_owned(), app.now());
        // So that an agent can tell whether what it was told before would be told again.
        let policy = app.policy().digest().into();
        pong.metadata = Some(Object::from_iter([("policy".to_owned(), policy)]));
        return Judged::At(AosResponse { id: Some(request.id), body: Body::Pong(pong) });
    }
    // Whatever fails in here, the agent gets a denial: an error would let one that fails open go on.
    let decided = catch_unwind(AssertUnwindSafe(|| {
        let policy = app.policy();
        let ruling = policy.decide(&request);
        let entry = Entry::of_decision(app.now(), &request, &ruling, &policy);
        (ruling.answer, entry)
    }));
    match decided {
        Ok((answer, entry)) => Judged::Decided { request: Box::new(request), answer, entry },
        Err(_) => Judged::At(broken(app, Some(request.id))),
    }
}

fn broken(app: &App, id: Option<Id>) -> AosResponse {
    tracing::error!("judging a message panicked, the step is denied");
    app.metrics.count_rejection(Code::Internal);
    AosResponse { id, body: Body::Decision(deny(Code::Internal)) }
}

fn deny(code: Code) -> Answer {
    let row = code.row();
    Answer { reason_codes: vec![row.name.to_owned()], ..Answer::new(Decision::Deny, row.text) }
}

/// A request that is refused before it is read.
fn refuse(app: &App, code: Code) -> Response {
    app.metrics.count_rejection(code);
    let row = code.row();
    let error = ErrorObject::standard(row.error, json!({"code": row.name, "reason": row.text}));
    let status = StatusCode::from_u16(row.status).unwrap_or(StatusCode::BAD_REQUEST);
    respond(status, &AosResponse { id: None, body: Body::Error(error) })
}

fn respond(status: StatusCode, response: &AosResponse) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], response.to_vec()).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}
