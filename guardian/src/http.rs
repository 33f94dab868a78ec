//! `POST /aos`: a message in, a decision out.

mod approvals;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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
use crate::audit::{Entry, Step};
use crate::error::Code;
use crate::policy::{Approval, ApprovalTrace, Opened, Ruling};

pub(crate) use approvals::openapi;

/// Above this a message is judged on a thread of its own, so that it does not hold up others.
const INLINE_BYTES: usize = 32 << 10;

/// How deep a message may nest.
const MAX_DEPTH: usize = 64;

/// The protocol and the approvals, to be merged into another service.
pub(crate) fn routes(app: App) -> Router {
    let limit = app.config.max_body_bytes;
    let approvals = approvals::routes(app.clone());
    let aos = Router::new().route("/aos", post(answer)).layer(DefaultBodyLimit::max(limit));
    aos.with_state(Arc::new(app)).merge(approvals)
}

/// The same and the signs of life.
pub(crate) fn router(app: App) -> Router {
    let life = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(read_readiness))
        .with_state(Arc::new(app.clone()));
    routes(app).merge(life)
}

async fn read_readiness(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    if app.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no audit log\n")
    }
}

async fn answer(
    State(app): State<Arc<App>>,
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
        let judging = Arc::clone(&app);
        let judged = tokio::task::spawn_blocking(move || judge(&judging, &body)).await;
        judged.unwrap_or_else(|_| broken(&app, None))
    };
    match judged {
        Judged::At(response) => respond(StatusCode::OK, &response),
        Judged::Decided(decided) => {
            let Decided { request, ruling, entries } = *decided;
            let written = app.audit.append(entries).await.is_ok();
            app.note_audit(written);
            let answer = if written {
                ruling.answer
            } else {
                // Nothing comes of it, so nothing is used up by it.
                app.memory().undo(&ruling.traces);
                deny(Code::AuditUnavailable)
            };
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
    At(Box<AosResponse>),
    /// This is the answer once it is in the log.
    Decided(Box<Decided>),
}

/// A decision that is not written yet.
struct Decided {
    request: Request,
    ruling: Ruling,
    entries: Vec<Entry>,
}

fn judge(app: &App, body: &[u8]) -> Judged {
    let limits = Limits { bytes: app.config.max_body_bytes, depth: MAX_DEPTH };
    let request = match Request::from_slice(body, limits) {
        Ok(request) => request,
        Err(rejection) => {
            app.metrics.count_rejection(Code::of_error(rejection.error.code()));
            tracing::debug!(error = %rejection, "a message is refused");
            return Judged::At(Box::new(rejection.to_response()));
        }
    };
    if let Call::Ping(_) = request.call {
        let status = if app.is_ready() { PongStatus::Connected } else { PongStatus::Error };
        let mut pong = Pong::new(status, env!("CARGO_PKG_VERSION").to_owned(), app.now());
        // So that an agent can tell whether what it was told before would be told again.
        let policy = app.policy().digest().into();
        pong.metadata = Some(Object::from_iter([("policy".to_owned(), policy)]));
        let response = AosResponse { id: Some(request.id), body: Body::Pong(pong) };
        return Judged::At(Box::new(response));
    }
    // Whatever fails in here, the agent gets a denial: an error would let one that fails open go on.
    let decided = catch_unwind(AssertUnwindSafe(|| decide(app, &request)));
    match decided {
        Ok((ruling, entries)) => Judged::Decided(Box::new(Decided { request, ruling, entries })),
        Err(_) => broken(app, Some(request.id)),
    }
}

fn decide(app: &App, request: &Request) -> (Ruling, Vec<Entry>) {
    let (policy, now) = (app.policy(), app.now());
    let mut opened = Opened::default();
    let ruling = policy.decide_within(request, &mut opened, &app.memory, now);
    let shadow = app.shadow_policy().map(|shadow| {
        let ruling = shadow.decide_within(request, &mut opened, &app.shadow_memory, now);
        (ruling, shadow)
    });
    if let Some((would, _)) = &shadow {
        app.metrics.count_shadow(request.method(), &ruling.answer.decision, &would.answer.decision);
    }
    let shadow = shadow.as_ref().map(|(ruling, policy)| (ruling, policy.as_ref()));
    let step = Step { request, ruling: &ruling, policy: &policy, shadow };
    let entries = Entry::of_step(now, &step, &mut opened);
    if let Some(ApprovalTrace::Asked(asked)) = &ruling.traces.approval
        && let Some(entry) = entries.last()
    {
        // Who is asked sees what the log has, which is redacted.
        app.memory().set(Approval { subject: entry.subject(), ..(**asked).clone() });
    }
    (ruling, entries)
}

fn broken(app: &App, id: Option<Id>) -> Judged {
    tracing::error!("judging a message panicked, the step is denied");
    app.metrics.count_rejection(Code::Internal);
    Judged::At(Box::new(AosResponse { id, body: Body::Decision(deny(Code::Internal)) }))
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

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}
