//! The routes of stored credentials. Values come in, and never go out.

use a2s::Domain;
use a2s_api::{Credential, CredentialUsers, StoredCredential, StoredCredentials};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::{body_error, read_json};
use crate::App;
use crate::error::{Error, ErrorKind};

/// List the stored credentials
///
/// Hosts, schemes, kinds and times. The values are not shown.
#[utoipa::path(
    get, path = "/v1/secrets", tag = "executor", security(("token" = [])),
    responses(
        (status = 200, description = "The stored credentials", body = StoredCredentials),
    ),
)]
pub(super) async fn list_secrets(State(app): State<App>) -> Result<Json<StoredCredentials>, Error> {
    let secrets = app.runs().vault().list().await?;
    Ok(Json(StoredCredentials { secrets }))
}

/// Store a credential
///
/// It replaces the stored one. It is bound to the host and to the name of the security scheme in documents,
/// and is sealed before it is written.
#[utoipa::path(
    put, path = "/v1/secrets/{host}/{scheme}", tag = "executor", security(("token" = [])),
    params(
        ("host" = Domain, Path, description = "A host name, with its port unless it is the default port"),
        ("scheme" = a2s_api::schema::SchemeName, Path, description = "The name of the security scheme in documents"),
    ),
    request_body = Credential,
    responses(
        (status = 200, description = "The credential is stored and replaced another one", body = StoredCredential),
        (status = 201, description = "The credential is stored", body = StoredCredential),
    ),
)]
pub(super) async fn set_secret(
    State(app): State<App>,
    Path((host, scheme)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<StoredCredential>), Error> {
    let host = read_host(&host)?;
    let body = body.map_err(|rejection| body_error(&rejection))?;
    // The words of the parser could quote the value.
    let credential: Credential = serde_json::from_slice(&body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message =
            format!("the body is not a credential: see line {line}, column {column} of the body");
        Error::new(ErrorKind::BadRequest, message)
    })?;
    let (stored, created) = app.runs().vault().set(host, &scheme, &credential).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(stored)))
}

/// Set the runs that may use a credential
///
/// The runs of the owner may always use it. The grants replace the earlier ones; without grants, only the
/// runs of the owner may use it.
#[utoipa::path(
    put, path = "/v1/secrets/{host}/{scheme}/users", tag = "executor", security(("token" = [])),
    params(
        ("host" = Domain, Path, description = "The host"),
        ("scheme" = a2s_api::schema::SchemeName, Path, description = "The name of the security scheme"),
    ),
    request_body = CredentialUsers,
    responses(
        (status = 200, description = "The credential with its users", body = StoredCredential),
    ),
)]
pub(super) async fn set_secret_users(
    State(app): State<App>,
    Path((host, scheme)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<StoredCredential>, Error> {
    let users: CredentialUsers = read_json(body)?;
    app.runs().vault().set_users(&read_host(&host)?, &scheme, users).await.map(Json)
}

/// Delete a credential
#[utoipa::path(
    delete, path = "/v1/secrets/{host}/{scheme}", tag = "executor", security(("token" = [])),
    params(
        ("host" = Domain, Path, description = "The host"),
        ("scheme" = a2s_api::schema::SchemeName, Path, description = "The name of the security scheme"),
    ),
    responses(
        (status = 204, description = "The credential is deleted"),
    ),
)]
pub(super) async fn delete_secret(
    State(app): State<App>,
    Path((host, scheme)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    app.runs().vault().remove(&read_host(&host)?, &scheme).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn read_host(text: &str) -> Result<Domain, Error> {
    Domain::new(text).map_err(|error| Error::new(ErrorKind::BadRequest, error.to_string()))
}
