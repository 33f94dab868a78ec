//! Values that are kept between runs, over HTTP.

use a2s_api::{AuthError, AuthenticatedCaller, Caller, TokenScope};
use a2s_api::{StateEntry, StateFor, StateList};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::read_json;
use crate::App;
use crate::error::{Error, ErrorKind};
use crate::session_state::StateOwner;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_state))
        .routes(routes!(set_state, delete_state))
        .routes(routes!(list_session_state))
        .routes(routes!(set_session_state, delete_session_state))
}

/// List the values that are remembered for all runs of the caller, or for the runs of all callers
#[utoipa::path(
    get, path = "/v1/state", tag = "executor", security(("token" = [])),
    params(("for" = Option<StateFor>, Query, description = "`everybody`: the values for all runs of all callers")),
    responses(
        (status = 200, description = "The values, by name", body = StateList),
    ),
)]
async fn list_state(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    query: StateQuery,
) -> Result<Json<StateList>, Error> {
    list(&app, &holder(&caller, query)?).await
}

/// Remember a value for all runs of the caller, or of all principals
///
/// Runs use the value of their principal first. Only the scope `admin` may write values for all principals.
#[utoipa::path(
    put, path = "/v1/state/{name}", tag = "executor", security(("token" = [])),
    params(
        ("name" = a2s_api::schema::InputName, Path, description = "The input that the value is for"),
        ("for" = Option<StateFor>, Query, description = "`everybody`: the value for all runs of all callers; requires `admin`"),
    ),
    request_body(content = serde_json::Value, description = "The value, as JSON"),
    responses(
        (status = 200, description = "The remembered value", body = StateEntry),
    ),
)]
async fn set_state(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(name): Path<String>,
    query: StateQuery,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StateEntry>, Error> {
    let holder = writable_holder(&caller, query)?;
    set(&app, &caller, &holder, &name, body).await
}

/// Forget a value for all runs of the caller, or of all principals
#[utoipa::path(
    delete, path = "/v1/state/{name}", tag = "executor", security(("token" = [])),
    params(
        ("name" = a2s_api::schema::InputName, Path, description = "The input that the value is for"),
        ("for" = Option<StateFor>, Query, description = "`everybody`: the value for all runs of all callers; requires `admin`"),
    ),
    responses(
        (status = 204, description = "The value is deleted"),
    ),
)]
async fn delete_state(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(name): Path<String>,
    query: StateQuery,
) -> Result<StatusCode, Error> {
    remove(&app, &writable_holder(&caller, query)?, &name).await
}

/// List the values that are remembered for the runs of a session of the caller
#[utoipa::path(
    get, path = "/v1/sessions/{session}/state", tag = "executor", security(("token" = [])),
    params(("session" = String, Path, description = "The session, as named in runs")),
    responses(
        (status = 200, description = "The values, by name", body = StateList),
    ),
)]
async fn list_session_state(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path(session): Path<String>,
) -> Result<Json<StateList>, Error> {
    list(&app, &StateOwner::from_session(&caller.principal(), &session)?).await
}

/// Remember a value for the runs of a session of the caller
#[utoipa::path(
    put, path = "/v1/sessions/{session}/state/{name}", tag = "executor", security(("token" = [])),
    params(
        ("session" = String, Path, description = "The session, as named in runs"),
        ("name" = a2s_api::schema::InputName, Path, description = "The input that the value is for"),
    ),
    request_body(content = serde_json::Value, description = "The value, as JSON"),
    responses(
        (status = 200, description = "The remembered value", body = StateEntry),
    ),
)]
async fn set_session_state(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path((session, name)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StateEntry>, Error> {
    set(&app, &caller, &StateOwner::from_session(&caller.principal(), &session)?, &name, body).await
}

/// Forget a value for the runs of a session of the caller
#[utoipa::path(
    delete, path = "/v1/sessions/{session}/state/{name}", tag = "executor", security(("token" = [])),
    params(
        ("session" = String, Path, description = "The session, as named in runs"),
        ("name" = a2s_api::schema::InputName, Path, description = "The input that the value is for"),
    ),
    responses(
        (status = 204, description = "The value is deleted"),
    ),
)]
async fn delete_session_state(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path((session, name)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    remove(&app, &StateOwner::from_session(&caller.principal(), &session)?, &name).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HolderQuery {
    #[serde(rename = "for")]
    holder: Option<StateFor>,
}

type StateQuery = Result<Query<HolderQuery>, QueryRejection>;

/// Returns the owner of the values that a request without a session refers to.
fn holder(caller: &Caller, query: StateQuery) -> Result<StateOwner, Error> {
    let Query(HolderQuery { holder }) =
        query.map_err(|rejection| Error::new(ErrorKind::BadRequest, rejection.body_text()))?;
    Ok(match holder {
        None | Some(StateFor::Caller) => StateOwner::Principal(caller.principal()),
        Some(StateFor::Everybody) => StateOwner::Everybody,
    })
}

/// Returns the same owner for a write. Only administrators may write values for all principals.
fn writable_holder(caller: &Caller, query: StateQuery) -> Result<StateOwner, Error> {
    let holder = holder(caller, query)?;
    if holder == StateOwner::Everybody && !caller.has_scope(TokenScope::Admin) {
        let refusal =
            AuthError::MissingScope { subject: caller.subject.clone(), scope: TokenScope::Admin };
        return Err(Error::new(ErrorKind::Forbidden, refusal.to_string()));
    }
    Ok(holder)
}

async fn list(app: &App, holder: &StateOwner) -> Result<Json<StateList>, Error> {
    let entries = app.runs().states().list(holder).await?;
    Ok(Json(StateList { entries }))
}

async fn set(
    app: &App,
    caller: &Caller,
    holder: &StateOwner,
    name: &str,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StateEntry>, Error> {
    let value: Value = read_json(body)?;
    app.runs().remember(&caller.principal(), holder, name, value).await.map(Json)
}

async fn remove(app: &App, holder: &StateOwner, name: &str) -> Result<StatusCode, Error> {
    app.runs().states().remove(holder, name).await.map(|()| StatusCode::NO_CONTENT)
}
