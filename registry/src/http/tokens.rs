//! Tokens, over HTTP.

use a2s_api::{IntrospectionRequest, IntrospectionResponse, NewToken, TokenList, TokenRequest};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use super::request::{Admin, AuthorizedCaller, JsonBody, Service, TokenName};
use crate::Error;

/// Create a token
///
/// The response contains the token, this one time only. The token has only scopes that the caller's token
/// has as well. It acts under its name, which owns the capabilities that it publishes.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", security(("token" = [])),
    request_body = TokenRequest,
    responses(
        (status = 201, description = "The token", body = NewToken),
        (status = 409, description = "A token with this name exists already"),
        (status = 422),
        (status = 415),
    ),
)]
pub(super) async fn create_token(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Admin>,
    JsonBody(request): JsonBody<TokenRequest>,
) -> Result<(StatusCode, Json<NewToken>), Error> {
    Ok((StatusCode::CREATED, Json(app.tokens.create(request, &caller).await?)))
}

/// List tokens
///
/// The name, scopes and times of each, without the token itself. The owner's token is not in the list.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", security(("token" = [])),
    responses(
        (status = 200, description = "All tokens", body = TokenList),
    ),
)]
pub(super) async fn list_tokens(
    State(app): App,
    _: AuthorizedCaller<Admin>,
) -> Result<Json<TokenList>, Error> {
    Ok(Json(TokenList { tokens: app.tokens.list().await? }))
}

/// Revoke a token
///
/// It has no access to this registry from now on, and no access to other services within ten seconds. Its
/// name keeps what it owns; a new token of the same name acts for the same owner.
#[utoipa::path(
    delete, path = "/v1/tokens/{name}", tag = "tokens", security(("token" = [])),
    params(("name" = a2s_api::TokenSubject, Path, description = "The name of the token")),
    responses(
        (status = 204, description = "The token is revoked"),
    ),
)]
pub(super) async fn revoke_token(
    State(app): App,
    AuthorizedCaller(caller, _): AuthorizedCaller<Admin>,
    TokenName(name): TokenName,
) -> Result<StatusCode, Error> {
    app.tokens.revoke(&name, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read the scopes of a token
///
/// For services that receive tokens of this registry (RFC 7662, in JSON). Needs a token of the scope
/// `service`.
#[utoipa::path(
    post, path = "/v1/tokens/introspect", tag = "tokens", security(("token" = [])),
    request_body = IntrospectionRequest,
    responses(
        (status = 200, description = "The scopes of the token, if it is valid", body = IntrospectionResponse),
        (status = 415),
    ),
)]
pub(super) async fn introspect_token(
    State(app): App,
    _: AuthorizedCaller<Service>,
    JsonBody(request): JsonBody<IntrospectionRequest>,
) -> Result<Json<IntrospectionResponse>, Error> {
    Ok(Json(app.tokens.introspect(&request.token).await?))
}
