//! The routes. A handler unpacks a request, calls [`crate::run::RunService`], and wraps the answer.

mod secrets;
mod state;
mod triggers;
mod trust;
mod usage;

use std::time::Duration;

use a2s::CapabilityName;
use a2s_api::{AuthError, AuthenticatedCaller, Caller, CallerHeaders, Principal, TokenScope};
use a2s_api::{
    ExchangeList, ExecutionList, ExecutionRequest, HostList, ItemPreview, PROBLEM_JSON,
    PlanRequest, PlanResponse, Problem, ReplayRequest, ReplayResponse, ResumeRequest, Run,
    RunStatus, StateFor, TriggerEvent,
};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Extension, Path, Query, Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use futures::StreamExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::error::{Error, ErrorKind};
use crate::run::{RunFilter, StartRequest};
use crate::telemetry::read_headers;

/// The maximum size of the body of a request, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The maximum number of characters in an idempotency key.
const MAX_IDEMPOTENCY_KEY: usize = 255;
/// Runs on a page, when the request has no limit.
const DEFAULT_PAGE: usize = 20;
/// The maximum number of runs on a page.
const MAX_PAGE: usize = 100;
/// The interval of messages that keep proxies from closing an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(OpenApi)]
#[openapi(
    modifiers(&BearerSecurity),
    tags((name = "executor", description = "Plan and run capabilities")),
    components(schemas(a2s_api::RunEvent, a2s_api::schema::InputName,
        a2s_api::schema::SchemeName, a2s_api::schema::Version, a2s_api::UsageUnit, ItemPreview,
        StateFor)),
)]
struct ApiDocument;

struct BearerSecurity;

impl Modify for BearerSecurity {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// Creates the routes under `/v1`.
pub(crate) fn router(app: App) -> Router {
    let guard = |routes: OpenApiRouter<App>, scope| {
        let layer = middleware::from_fn_with_state((app.clone(), scope), require_scope);
        routes.split_for_parts().0.route_layer(layer)
    };
    let router =
        guard(run_routes(), TokenScope::Execute).merge(guard(key_routes(), TokenScope::Admin));
    router.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).with_state(app)
}

/// The routes for liveness and readiness.
pub(crate) fn probes(app: App) -> Router {
    let (router, _) = probe_routes().split_for_parts();
    router.with_state(app)
}

/// The OpenAPI document of the routes.
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    let mut openapi = routes().merge(probe_routes()).into_openapi();
    a2s_api::add_error_responses(&mut openapi);
    openapi
}

fn routes() -> OpenApiRouter<App> {
    run_routes().merge(key_routes())
}

/// The routes for runs.
fn run_routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(start_execution, list_executions))
        .routes(routes!(triggers::trigger_execution))
        .routes(routes!(get_execution, delete_execution))
        .routes(routes!(stream_events))
        .routes(routes!(cancel_execution))
        .routes(routes!(resume_execution))
        .routes(routes!(list_exchanges))
        .routes(routes!(replay_execution))
        .routes(routes!(create_plan))
        .routes(routes!(list_hosts))
        .routes(routes!(usage::count_usage))
        .merge(state::routes())
}

/// The routes for all runs: credentials, and remembered checksums, which show the runs of all tenants.
fn key_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(secrets::list_secrets))
        .routes(routes!(secrets::set_secret, secrets::delete_secret))
        .routes(routes!(secrets::set_secret_users))
        .routes(routes!(trust::list_trust))
        .routes(routes!(trust::accept_trust, trust::forget_trust))
}

fn probe_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(check_health)).routes(routes!(check_readiness))
}

/// Start a run
///
/// Responds at once with the run as it begins, or with the finished run when `wait` is true. With the token
/// of a plan, the executor runs exactly the plan that it showed, once. When anything would differ, the
/// response is 409 with the code A2S378 and all differences, and the token stays unused. The same
/// `Idempotency-Key` with the same request gives the same run, however often it is sent. Where no executor
/// has room, the run is `queued` until one has and it is its tenant's turn.
#[utoipa::path(
    post, path = "/v1/executions", tag = "executor", security(("token" = [])),
    params(
        (
            "Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible characters",
            min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
        ),
        ("traceparent" = Option<String>, Header, description = "The trace that the run continues (W3C Trace Context)"),
        ("tracestate" = Option<String>, Header, description = "The data that tracing systems have added to the trace"),
    ),
    request_body = ExecutionRequest,
    responses(
        (status = 200, description = "The run, finished or waiting for a person", body = Run),
        (status = 202, description = "The run, in progress or waiting for a free slot", body = Run),
        (status = 429, description = "Too many runs of this caller wait for a free slot; `Retry-After` states when to try again"),
        (status = 404),
        (status = 409),
        (status = 410),
        (status = 422),
        (status = 502),
    ),
)]
async fn start_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Run>), Error> {
    let request: ExecutionRequest = read_json(body)?;
    let mut keys = headers.get_all("idempotency-key").iter();
    let key = keys.next().map(read_key).transpose()?;
    if keys.next().is_some() {
        let message = "the header `Idempotency-Key` is there more than once";
        return Err(Error::new(ErrorKind::BadRequest, message));
    }
    start_run(app, caller, request, None, key, &headers).await
}

/// Starts a run, for an event if there is one.
async fn start_run(
    app: App,
    caller: Caller,
    request: ExecutionRequest,
    event: Option<TriggerEvent>,
    key: Option<String>,
    headers: &HeaderMap,
) -> Result<(StatusCode, Json<Run>), Error> {
    let wait = request.wait;
    let trace = read_headers(headers);
    let start = StartRequest { request, event, key, trace, caller };
    // A task of its own: a caller who goes away in the middle leaves no half-started run.
    let started = tokio::spawn({
        let app = app.clone();
        async move { app.runs().start(start).await }
    });
    let run =
        started.await.map_err(|_| Error::new(ErrorKind::Internal, "the run was not started"))??;
    let run = if wait { app.runs().wait_until_at_rest(run.id).await? } else { run };
    let status = if run.status.is_in_progress() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(run)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<usize>,
    before: Option<Uuid>,
    status: Option<RunStatus>,
    name: Option<CapabilityName>,
    tenant: Option<Principal>,
}

/// List runs, newest first, without their steps
///
/// The list contains the runs of the caller; with the scope `admin`, those of all principals.
#[utoipa::path(
    get, path = "/v1/executions", tag = "executor", security(("token" = [])),
    params(
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 100, description = "The maximum number of runs: 1 to 100, 20 by default"),
        ("before" = Option<Uuid>, Query, description = "Only runs that started before this one: `next` of the previous page"),
        ("status" = Option<RunStatus>, Query, description = "Only runs in this state"),
        ("name" = Option<CapabilityName>, Query, description = "Only runs of this capability"),
        ("tenant" = Option<Principal>, Query, description = "Only runs of this principal: the name of a token, `owner`, or `token/end user`; runs of other principals require `admin`"),
    ),
    responses(
        (status = 200, description = "A page of runs", body = ExecutionList),
    ),
)]
async fn list_executions(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ExecutionList>, Error> {
    let Query(ListQuery { limit, before, status, name, tenant }) =
        query.map_err(|rejection| Error::new(ErrorKind::BadRequest, rejection.body_text()))?;
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::new(ErrorKind::BadRequest, format!("`limit` must be 1 to {MAX_PAGE}")));
    }
    let filter = RunFilter { before, status, name, tenant };
    app.runs().list(filter, limit, &caller).await.map(Json)
}

/// Read a run
#[utoipa::path(
    get, path = "/v1/executions/{id}", tag = "executor", security(("token" = [])),
    params(("id" = Uuid, Path, description = "The run")),
    responses(
        (status = 200, description = "The run", body = Run),
    ),
)]
async fn get_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
) -> Result<Json<Run>, Error> {
    app.runs().show(read_id(&id)?, &caller).await.map(Json)
}

/// Delete a run that has ended
///
/// Its events are deleted, and its idempotency key may be used again.
#[utoipa::path(
    delete, path = "/v1/executions/{id}", tag = "executor", security(("token" = [])),
    params(("id" = Uuid, Path, description = "The run")),
    responses(
        (status = 204, description = "The run is deleted"),
        (status = 409),
    ),
)]
async fn delete_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    app.runs().delete(read_id(&id)?, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Follow the events of a run
///
/// Server-sent events: `id` is the number of the event, `event` its type, `data` the event as JSON. With
/// the header Last-Event-ID, the stream continues after that event, without gaps and without repetitions.
/// It ends when the run has ended or waits for a person. Status 204 means that the run is in such a state
/// and that no events are left.
#[utoipa::path(
    get, path = "/v1/executions/{id}/events", tag = "executor", security(("token" = [])),
    params(
        ("id" = Uuid, Path, description = "The run"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event that the client received"),
    ),
    responses(
        (status = 200, description = "The events: the data of each is an `Event`", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The client has received all events already"),
        (status = 429),
    ),
)]
async fn stream_events(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = read_id(&id)?;
    let after = match headers.get("last-event-id").map(|id| (id, id.to_str())) {
        None => 0,
        // The description of the API states a 64-bit integer with a sign.
        Some((_, Ok(id))) if let Ok(id @ 0..) = id.trim().parse::<i64>() => id.unsigned_abs(),
        Some((id, _)) => {
            let message = format!("`Last-Event-ID` must be a number, not {id:?}");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
    };
    let Some(events) = app.runs().follow(run, after, &caller).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    // An error breaks the connection off: clients take an orderly end for the end of the run, and come back
    // with the last id after any other one.
    let events = events.map(|event| {
        let event = event?;
        let value = serde_json::to_value(&*event)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        let kind = value.get("type").and_then(serde_json::Value::as_str).unwrap_or_default();
        let message = sse::Event::default().id(event.seq.to_string()).event(kind);
        Ok::<_, Error>(message.data(value.to_string()))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// Cancel a run
///
/// No new step begins. A request that may not be aborted is awaited and recorded first.
#[utoipa::path(
    post, path = "/v1/executions/{id}/cancel", tag = "executor", security(("token" = [])),
    params(("id" = Uuid, Path, description = "The run")),
    responses(
        (status = 202, description = "The run as it is now", body = Run),
        (status = 409),
    ),
)]
async fn cancel_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Run>), Error> {
    let run = app.runs().cancel(read_id(&id)?, &caller).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

/// Go on with a run that waits
///
/// A run waits when it has sent a request with an unknown outcome, and repeating the request is not safe. A
/// person asks the service and states the outcome here. Outputs that are set pass the guardian
/// (`steps/toolCallResult`) before they are used: where it denies them, the run stays as it is.
#[utoipa::path(
    post, path = "/v1/executions/{id}/resume", tag = "executor", security(("token" = [])),
    params(("id" = Uuid, Path, description = "The run")),
    request_body = ResumeRequest,
    responses(
        (status = 202, description = "The run as it is now", body = Run),
        (status = 409),
        (status = 422),
        (status = 502),
    ),
)]
async fn resume_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Run>), Error> {
    let id = read_id(&id)?;
    let request: ResumeRequest = read_json(body)?;
    // A task of its own: a caller who goes away in the middle leaves nothing half-done.
    let resolved = tokio::spawn(async move { app.runs().resume(id, request, &caller).await });
    let run = resolved
        .await
        .map_err(|_| Error::new(ErrorKind::Internal, "the run was not resumed"))??;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

/// List the requests and responses of a run
///
/// They are what a replay uses: the last request of each step with its inputs, and the response that the
/// guardian allowed. Secret values are masked. A large response is left out.
#[utoipa::path(
    get, path = "/v1/executions/{id}/exchanges", tag = "executor", security(("token" = [])),
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "The exchanges, by step", body = ExchangeList)),
)]
async fn list_exchanges(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
) -> Result<Json<ExchangeList>, Error> {
    app.runs().exchanges(read_id(&id)?, &caller).await.map(Json)
}

/// Replay a run
///
/// Walks the plan of the run, or that of another version, with the recorded responses, and reports the
/// differences from the recording. No service and no guardian is asked.
#[utoipa::path(
    post, path = "/v1/executions/{id}/replay", tag = "executor", security(("token" = [])),
    params(("id" = Uuid, Path, description = "The run")),
    request_body = ReplayRequest,
    responses(
        (status = 200, description = "The differences", body = ReplayResponse),
        (status = 409),
        (status = 422),
        (status = 502),
    ),
)]
async fn replay_execution(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(id): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ReplayResponse>, Error> {
    let id = read_id(&id)?;
    let request: ReplayRequest = read_json(body)?;
    app.runs().replay(id, &request, &caller).await.map(Json)
}

/// Show what a run would do, without running it
///
/// All known values are filled in; values that depend on earlier responses stay templates. The token of the
/// response runs exactly this plan, once, within 15 minutes, for the same caller. With `preview`, the
/// guardian is asked for the decisions that it would make.
#[utoipa::path(
    post, path = "/v1/plans", tag = "executor", security(("token" = [])),
    request_body = PlanRequest,
    responses(
        (status = 200, description = "The plan", body = PlanResponse),
        (status = 404),
        (status = 409),
        (status = 422),
        (status = 502),
    ),
)]
async fn create_plan(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<PlanResponse>, Error> {
    let request: PlanRequest = read_json(body)?;
    app.runs().plan(&request, &caller.principal()).await.map(Json)
}

/// List the hosts that requests were sent to, with their state
#[utoipa::path(
    get, path = "/v1/hosts", tag = "executor", security(("token" = [])),
    responses((status = 200, description = "The hosts, by name", body = HostList)),
)]
async fn list_hosts(State(app): State<App>) -> Json<HostList> {
    Json(HostList { hosts: app.runs().hosts() })
}

/// Check that the process is alive
#[utoipa::path(
    get, path = "/healthz", tag = "executor",
    responses((status = 200, description = "The executor is alive", body = String, content_type = "text/plain")),
)]
async fn check_health() -> &'static str {
    "ok\n"
}

/// Check that runs can be started
#[utoipa::path(
    get, path = "/readyz", tag = "executor",
    responses(
        (status = 200, description = "The executor is ready for runs", body = String, content_type = "text/plain"),
        (status = 503, description = "The executor is not ready for runs", body = String, content_type = "text/plain"),
    ),
)]
async fn check_readiness(State(app): State<App>) -> Response {
    match app.check_ready().await {
        Ok(()) => "ok\n".into_response(),
        Err(error) => {
            let problem = Problem { status: 503, ..error.to_problem() };
            problem_response(&problem)
        }
    }
}

/// Admits callers with the required scope, and passes their identity to the handlers.
async fn require_scope(
    State((app, scope)): State<(App, TokenScope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let shown =
        CallerHeaders::from_headers(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes));
    let known = request.extensions().get::<AuthenticatedCaller>();
    let refusal = match app.runs().auth().authorize(known, shown, scope).await {
        Ok(caller) => {
            request.extensions_mut().insert(AuthenticatedCaller(caller));
            return next.run(request).await;
        }
        Err(refusal) => refusal,
    };
    let kind = match &refusal {
        AuthError::MissingToken | AuthError::UnknownToken => ErrorKind::Unauthorized,
        AuthError::MissingScope { .. } => ErrorKind::Forbidden,
        AuthError::InvalidEndUser(_) | AuthError::RepeatedHeader(_) => ErrorKind::BadRequest,
        AuthError::Unavailable(_) => ErrorKind::CallerUnknown,
    };
    let mut response = Error::new(kind, refusal.to_string()).into_response();
    if kind == ErrorKind::Unauthorized {
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        problem_response(&self.to_problem())
    }
}

fn problem_response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let later = problem.retry_after().map(|seconds| [(RETRY_AFTER, seconds)]);
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], later, Json(problem)).into_response()
}

fn read_json<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Error> {
    let body = body.map_err(|rejection| body_error(&rejection))?;
    serde_json::from_slice(&body)
        .map_err(|error| Error::new(ErrorKind::BadRequest, format!("the body is invalid: {error}")))
}

fn body_error(rejection: &BytesRejection) -> Error {
    let kind = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::BodyTooLarge,
        _ => ErrorKind::BadRequest,
    };
    Error::new(kind, rejection.body_text())
}

fn read_id(text: &str) -> Result<Uuid, Error> {
    text.parse()
        .map_err(|_| Error::new(ErrorKind::RunNotFound, format!("`{text}` is not the id of a run")))
}

fn read_key(header: &HeaderValue) -> Result<String, Error> {
    let key = header.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY {
        let message = format!(
            "`Idempotency-Key` must have 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters"
        );
        return Err(Error::new(ErrorKind::BadRequest, message));
    }
    Ok(key.to_owned())
}
