//! The life of names and versions, over HTTP.

use a2s_api::Caller;
use a2s_api::{DeprecateRequest, ForgetResponse, LifecycleResponse, OwnerList, OwnerUpdate};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::request::{
    AuthorizedCaller, CapabilityNameParam, JsonBody, NameAndSelector, Publish, QueryParams,
};
use crate::Error;
use crate::catalog::YankAction;
use crate::mirror::MirrorSource;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct YankParams {
    /// Set to yank the version even if published versions break.
    #[serde(default)]
    force: bool,
}

/// Yank a version
///
/// Searches and ranges do not find it any more; requests for the exact version still do. When published
/// versions would break, the registry refuses with A2S224 and names them. With `force` it yanks all the same,
/// and the response lists them.
#[utoipa::path(
    post, path = "/v1/capabilities/{name}/{version}/yank", tag = "capabilities",
    security(("token" = [])),
    params(
        ("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"),
        ("version" = a2s_api::schema::Version, Path, description = "A version `1.2.0`"),
        YankParams,
    ),
    responses(
        (status = 200, description = "The version is yanked", body = LifecycleResponse),
        (status = 403, description = "The token lacks the required scope, or others own the name"),
        (status = 409, description = "Published versions would break (A2S224)"),
    ),
)]
pub(super) async fn yank_version(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    NameAndSelector(name, selector): NameAndSelector,
    QueryParams(YankParams { force }): QueryParams<YankParams>,
    headers: HeaderMap,
) -> Result<Json<LifecycleResponse>, Error> {
    let mirror = read_mirror(&headers, &caller)?;
    let action = if force { YankAction::ForceYank } else { YankAction::Yank };
    Ok(Json(app.catalog.writer.yank(&name, &selector, action, &caller, mirror.as_ref()).await?))
}

/// Bring a yanked version back
#[utoipa::path(
    post, path = "/v1/capabilities/{name}/{version}/unyank", tag = "capabilities",
    security(("token" = [])),
    params(
        ("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"),
        ("version" = a2s_api::schema::Version, Path, description = "A version `1.2.0`"),
    ),
    responses(
        (status = 200, description = "The version is not yanked", body = LifecycleResponse),
        (status = 403, description = "The token lacks the required scope, or others own the name"),
    ),
)]
pub(super) async fn unyank_version(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    NameAndSelector(name, selector): NameAndSelector,
    headers: HeaderMap,
) -> Result<Json<LifecycleResponse>, Error> {
    let mirror = read_mirror(&headers, &caller)?;
    let (writer, action) = (&app.catalog.writer, YankAction::Unyank);
    Ok(Json(writer.yank(&name, &selector, action, &caller, mirror.as_ref()).await?))
}

/// Deprecate a version
///
/// It is found and runs as before. Responses to searches, plans and runs, and to documents that depend on
/// it, contain the deprecation. With `undo` it is not deprecated any more.
#[utoipa::path(
    post, path = "/v1/capabilities/{name}/{version}/deprecate", tag = "capabilities",
    security(("token" = [])), request_body = DeprecateRequest,
    params(
        ("name" = a2s::CapabilityName, Path, description = "Name in PascalCase"),
        ("version" = a2s_api::schema::Version, Path, description = "A version `1.2.0`"),
    ),
    responses(
        (status = 200, description = "The deprecation is updated", body = LifecycleResponse),
        (status = 403, description = "The token lacks the required scope, or others own the name"),
        (status = 422),
        (status = 415),
    ),
)]
pub(super) async fn deprecate_version(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    NameAndSelector(name, selector): NameAndSelector,
    headers: HeaderMap,
    JsonBody(request): JsonBody<DeprecateRequest>,
) -> Result<Json<LifecycleResponse>, Error> {
    let mirror = read_mirror(&headers, &caller)?;
    let mirror = mirror.as_ref();
    Ok(Json(app.catalog.writer.deprecate(&name, &selector, request, &caller, mirror).await?))
}

/// Reads the source of a mirror that changes a version, with the checksum that the mirror states for the
/// version.
fn read_mirror(headers: &HeaderMap, caller: &Caller) -> Result<Option<MirrorSource>, Error> {
    let mirror = MirrorSource::from_headers(headers, caller)?;
    if mirror.as_ref().is_some_and(|mirror| mirror.checksum.is_none()) {
        let message = "a mirror must name the version in `A2S-Mirror-Checksum`";
        return Err(Error::MalformedParameter(message.to_owned()));
    }
    Ok(mirror)
}

/// List the owners of a name
///
/// The first publisher of a free name owns it; only owners and admins publish, yank and deprecate under it.
#[utoipa::path(
    get, path = "/v1/capabilities/{name}/owners", tag = "capabilities",
    params(("name" = a2s::CapabilityName, Path, description = "Name in PascalCase")),
    responses(
        (status = 200, description = "The owners", body = OwnerList),
    ),
)]
pub(super) async fn list_owners(
    State(app): App,
    CapabilityNameParam(name): CapabilityNameParam,
) -> Result<Json<OwnerList>, Error> {
    Ok(Json(app.catalog.writer.list_owners(&name).await?))
}

/// Change the owners of a name
///
/// Adds an owner, removes an owner, or makes one the only owner. An owner is the name of a token, or
/// `owner` for the owner's token.
#[utoipa::path(
    post, path = "/v1/capabilities/{name}/owners", tag = "capabilities",
    security(("token" = [])), request_body = OwnerUpdate,
    params(("name" = a2s::CapabilityName, Path, description = "Name in PascalCase")),
    responses(
        (status = 200, description = "The new owners", body = OwnerList),
        (status = 403, description = "The token lacks the required scope, or others own the name"),
        (status = 404, description = "Unknown capability or unknown token"),
        (status = 409, description = "The name would have no owner"),
        (status = 415),
    ),
)]
pub(super) async fn change_owners(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    CapabilityNameParam(name): CapabilityNameParam,
    headers: HeaderMap,
    JsonBody(change): JsonBody<OwnerUpdate>,
) -> Result<Json<OwnerList>, Error> {
    if MirrorSource::from_headers(&headers, &caller)?.is_some() {
        return Err(Error::MalformedParameter("a mirror cannot change owners".to_owned()));
    }
    Ok(Json(app.catalog.writer.change_owners(&name, &change, &caller).await?))
}

/// Forget the accepted intents of a capability
///
/// Removes what a registry with `--learn` has learned for the capability from successful runs. Searches do
/// not use it any more.
#[utoipa::path(
    delete, path = "/v1/capabilities/{name}/learned", tag = "capabilities",
    security(("token" = [])),
    params(("name" = a2s::CapabilityName, Path, description = "Name in PascalCase")),
    responses(
        (status = 200, description = "The capability has no accepted intents", body = ForgetResponse),
        (status = 403, description = "The token lacks the required scope, or others own the name"),
    ),
)]
pub(super) async fn forget_intents(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Publish>,
    CapabilityNameParam(name): CapabilityNameParam,
    headers: HeaderMap,
) -> Result<Json<ForgetResponse>, Error> {
    if MirrorSource::from_headers(&headers, &caller)?.is_some() {
        return Err(Error::MalformedParameter("a mirror cannot remove intents".to_owned()));
    }
    Ok(Json(app.catalog.writer.forget_intents(&name, &caller).await?))
}
