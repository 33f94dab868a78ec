//! What is remembered between runs, over HTTP.

use a2s::api::{PROBLEM_JSON, Problem, StateEntry, StateList};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::read_json;
use crate::App;
use crate::error::Error;
use crate::state::Holder;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_state))
        .routes(routes!(set_state, remove_state))
        .routes(routes!(list_session_state))
        .routes(routes!(set_session_state, remove_session_state))
}

/// List what is remembered for all runs
#[utoipa::path(
    get, path = "/v1/state", tag = "executor", security(("token" = [])),
    responses((status = 200, description = "The values, by name", body = StateList)),
)]
async fn list_state(State(app): State<App>) -> Result<Json<StateList>, Error> {
    list(&app, &Holder::Everybody).await
}

/// Remember a value for all runs
#[utoipa::path(
    put, path = "/v1/state/{name}", tag = "executor", security(("token" = [])),
    params(("name" = String, Path, description = "The input that it is for")),
    request_body(content = Object, description = "The value, as JSON"),
    responses(
        (status = 200, description = "What is remembered now", body = StateEntry),
        (status = "4XX", description = "The request is refused", body = Problem, content_type = PROBLEM_JSON),
    ),
)]
async fn set_state(
    State(app): State<App>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StateEntry>, Error> {
    set(&app, &Holder::Everybody, &name, body).await
}

/// Forget a value for all runs
#[utoipa::path(
    delete, path = "/v1/state/{name}", tag = "executor", security(("token" = [])),
    params(("name" = String, Path, description = "The input that it is for")),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = "4XX", description = "The request is refused", body = Problem, content_type = PROBLEM_JSON),
    ),
)]
async fn remove_state(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<StatusCode, Error> {
    remove(&app, &Holder::Everybody, &name).await
}

/// List what is remembered for the runs of a session
#[utoipa::path(
    get, path = "/v1/sessions/{session}/state", tag = "executor", security(("token" = [])),
    params(("session" = String, Path, description = "The session, as runs name it")),
    responses(
        (status = 200, description = "The values, by name", body = StateList),
        (status = "4XX", description = "The request is refused", body = Problem, content_type = PROBLEM_JSON),
    ),
)]
async fn list_session_state(
    State(app): State<App>,
    Path(session): Path<String>,
) -> Result<Json<StateList>, Error> {
    list(&app, &Holder::session(&session)?).await
}

/// Remember a value for the runs of a session
#[utoipa::path(
    put, path = "/v1/sessions/{session}/state/{name}", tag = "executor", security(("token" = [])),
    params(
        ("session" = String, Path, description = "The session, as runs name it"),
        ("name" = String, Path, description = "The input that it is for"),
    ),
    request_body(content = Object, description = "The value, as JSON"),
    responses(
        (status = 200, description = "What is remembered now", body = StateEntry),
        (status = "4XX", description = "The request is refused", body = Problem, content_type = PROBLEM_JSON),
    ),
)]
async fn set_session_state(
    State(app): State<App>,
    Path((session, name)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StateEntry>, Error> {
    set(&app, &Holder::session(&session)?, &name, body).await
}

/// Forget a value for the runs of a session
#[utoipa::path(
    delete, path = "/v1/sessions/{session}/state/{name}", tag = "executor", security(("token" = [])),
    params(
        ("session" = String, Path, description = "The session, as runs name it"),
        ("name" = String, Path, description = "The input that it is for"),
    ),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = "4XX", description = "The request is refused", body = Problem, content_type = PROBLEM_JSON),
    ),
)]
async fn remove_session_state(
    State(app): State<App>,
    Path((session, name)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    remove(&app, &Holder::session(&session)?, &name).await
}

async fn list(app: &App, holder: &Holder) -> Result<Json<StateList>, Error> {
    let entries = app.runs().states().list(holder).await?;
    Ok(Json(StateList { entries }))
}

async fn set(
    app: &App,
    holder: &Holder,
    name: &str,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StateEntry>, Error> {
    let value: Value = read_json(body)?;
    app.runs().remember(holder, name, value).await.map(Json)
}

async fn remove(app: &App, holder: &Holder, name: &str) -> Result<StatusCode, Error> {
    app.runs().states().remove(holder, name).await.map(|()| StatusCode::NO_CONTENT)
}
