//! The routes of remembered checksums.

use a2s::CapabilityName;
use a2s_api::AuthenticatedCaller;
use a2s_api::{CapabilityRef, TrustList, TrustRequest, TrustedVersion};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use semver::Version;
use serde::Deserialize;

use super::read_json;
use crate::App;
use crate::error::{Error, ErrorKind};

/// The number of versions on a page, unless the request states another one.
const DEFAULT_PAGE: usize = 100;
/// The maximum number of versions on a page.
const MAX_PAGE: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    limit: Option<usize>,
    after: Option<String>,
}

/// List the remembered checksums of versions
///
/// The executor remembers the checksum that each version had when it was first run or planned, and
/// refuses another one with the code A2S395.
#[utoipa::path(
    get, path = "/v1/trust", tag = "executor", security(("token" = [])),
    params(
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "The maximum number of versions on a page: 1 to 1,000, 100 by default"),
        ("after" = Option<String>, Query, max_length = 357, pattern = "^[A-Z][A-Za-z0-9]{0,99}@(0|[1-9]\\d{0,15})(\\.(0|[1-9]\\d{0,15})){2}(-[A-Za-z-][0-9A-Za-z-]*(\\.[A-Za-z-][0-9A-Za-z-]*)*)?$", description = "`next` of the previous page: NAME@VERSION"),
    ),
    responses(
        (status = 200, description = "The checksums, by name and version", body = TrustList),
    ),
)]
pub(super) async fn list_trust(
    State(app): State<App>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<TrustList>, Error> {
    let Query(PageQuery { limit, after }) =
        query.map_err(|rejection| Error::new(ErrorKind::BadRequest, rejection.body_text()))?;
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::new(ErrorKind::BadRequest, format!("`limit` must be 1 to {MAX_PAGE}")));
    }
    let after = match &after {
        Some(text) => {
            let (name, version) = text.split_once('@').unwrap_or((text, ""));
            Some(read_version(name, version)?)
        }
        None => None,
    };
    let after = after.as_ref().map(|(name, version)| (name, version));
    app.runs().trust().list(after, limit).await.map(Json)
}

/// Accept a checksum for a version
///
/// It replaces the remembered checksum. The response and the list contain the principal who accepted it.
#[utoipa::path(
    put, path = "/v1/trust/{name}/{version}", tag = "executor", security(("token" = [])),
    params(
        ("name" = CapabilityName, Path, description = "The capability"),
        ("version" = a2s_api::schema::Version, Path, description = "Its version"),
    ),
    request_body = TrustRequest,
    responses(
        (status = 200, description = "The remembered checksum", body = TrustedVersion),
    ),
)]
pub(super) async fn accept_trust(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path((name, version)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<TrustedVersion>, Error> {
    let TrustRequest { checksum } = read_json(body)?;
    let (name, version) = read_version(&name, &version)?;
    let pin = CapabilityRef { name, version, checksum };
    app.runs().trust().accept(pin, &caller.principal()).await.map(Json)
}

/// Forget the checksum of a version
///
/// The next checksum that is run or planned is remembered.
#[utoipa::path(
    delete, path = "/v1/trust/{name}/{version}", tag = "executor", security(("token" = [])),
    params(
        ("name" = CapabilityName, Path, description = "The capability"),
        ("version" = a2s_api::schema::Version, Path, description = "Its version"),
    ),
    responses(
        (status = 204, description = "The checksum is forgotten"),
    ),
)]
pub(super) async fn forget_trust(
    State(app): State<App>,
    Extension(AuthenticatedCaller(caller)): Extension<AuthenticatedCaller>,
    Path((name, version)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    let (name, version) = read_version(&name, &version)?;
    app.runs().trust().forget(&name, &version, &caller.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn read_version(name: &str, version: &str) -> Result<(CapabilityName, Version), Error> {
    let name = CapabilityName::new(name);
    let name = name.map_err(|error| Error::new(ErrorKind::BadRequest, error.to_string()))?;
    let version = version.parse().map_err(|error| {
        Error::new(ErrorKind::BadRange, format!("the version of `{name}` is malformed: {error}"))
    })?;
    Ok((name, version))
}
