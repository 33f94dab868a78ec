//! Extractors of requests. Every refusal is one of our errors.

use std::marker::PhantomData;
use std::sync::Arc;

use a2s::{CapabilityName, Domain};
use a2s_api::{AuthError, Caller, CallerHeaders, Principal, TokenScope, TokenSubject};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use serde::de::DeserializeOwned;

use super::{HttpState, MAX_REQUEST_BYTES};
use crate::Error;
use crate::catalog::VersionSelection;

/// The scope that a route requires of a token.
pub(super) trait RequiredScope {
    /// The required scope.
    const SCOPE: TokenScope;
}

macro_rules! needs {
    ($($name:ident = $scope:expr;)*) => {
        $(#[derive(Debug)] pub(super) enum $name {}
        impl RequiredScope for $name { const SCOPE: TokenScope = $scope; })*
    };
}

needs! {
    Publish = TokenScope::Publish;
    Admin = TokenScope::Admin;
    Service = TokenScope::Service;
}

/// The caller of a route, whose token has the required scope.
#[derive(Debug)]
pub(super) struct AuthorizedCaller<N>(pub(super) Caller, pub(super) PhantomData<N>);

impl<N: RequiredScope> FromRequestParts<Arc<HttpState>> for AuthorizedCaller<N> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let headers = &parts.headers;
        let shown = CallerHeaders::from_headers(|name| {
            headers.get_all(name).iter().map(HeaderValue::as_bytes)
        });
        // The middleware in front may cache the access of a token. The registry knows its tokens,
        // so a revoked one ends at once.
        Ok(Self(app.auth_guard.authorize(None, shown, N::SCOPE).await?, PhantomData))
    }
}

/// The caller of a route that requires no token; `None` without a known token.
#[derive(Debug)]
pub(super) struct OptionalCaller(pub(super) Option<Principal>);

impl FromRequestParts<Arc<HttpState>> for OptionalCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let headers = &parts.headers;
        let shown = CallerHeaders::from_headers(|name| {
            headers.get_all(name).iter().map(HeaderValue::as_bytes)
        });
        match app.auth_guard.authenticate(None, shown).await {
            Ok(caller) => Ok(Self(Some(caller.principal()))),
            Err(AuthError::MissingToken | AuthError::UnknownToken) => Ok(Self(None)),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

/// The name of a token in the path.
#[derive(Debug)]
pub(super) struct TokenName(pub(super) TokenSubject);

impl FromRequestParts<Arc<HttpState>> for TokenName {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let Path(name) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| Error::MalformedParameter(error.body_text()))?;
        TokenSubject::new(&name).map(Self).map_err(Error::MalformedParameter)
    }
}

/// The name in the path.
#[derive(Debug)]
pub(super) struct CapabilityNameParam(pub(super) CapabilityName);

impl FromRequestParts<Arc<HttpState>> for CapabilityNameParam {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let Path(name) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| Error::MalformedParameter(error.body_text()))?;
        Ok(Self(parse_name(&name)?))
    }
}

/// The name and the version or range in the path.
#[derive(Debug)]
pub(super) struct NameAndSelector(pub(super) CapabilityName, pub(super) VersionSelection);

impl FromRequestParts<Arc<HttpState>> for NameAndSelector {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let Path((name, selector)) = Path::<(String, String)>::from_request_parts(parts, app)
            .await
            .map_err(|error| Error::MalformedParameter(error.body_text()))?;
        Ok(Self(parse_name(&name)?, VersionSelection::parse(&selector)?))
    }
}

/// The host in the path.
#[derive(Debug)]
pub(super) struct HostParam(pub(super) Domain);

impl FromRequestParts<Arc<HttpState>> for HostParam {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let Path(host) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|error| Error::MalformedParameter(error.body_text()))?;
        // A text that is not a host has no service.
        let missing = || Error::ServiceMissing(host.chars().take(80).collect());
        Domain::new(&host).map(Self).map_err(|_| missing())
    }
}

/// Parses the name of a capability. An invalid name counts as an unknown capability.
fn parse_name(text: &str) -> Result<CapabilityName, Error> {
    CapabilityName::new(text).map_err(|_| Error::CapabilityMissing(text.chars().take(80).collect()))
}

/// The members of the query string.
#[derive(Debug)]
pub(super) struct QueryParams<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<HttpState>> for QueryParams<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<HttpState>) -> Result<Self, Error> {
        let Query(params) = Query::<T>::from_request_parts(parts, app)
            .await
            .map_err(|error| Error::MalformedParameter(error.body_text()))?;
        Ok(Self(params))
    }
}

/// A document, still as bytes.
#[derive(Debug)]
pub(super) struct DocumentBody(pub(super) Vec<u8>);

impl FromRequest<Arc<HttpState>> for DocumentBody {
    type Rejection = Error;

    async fn from_request(request: Request, app: &Arc<HttpState>) -> Result<Self, Error> {
        // Every JSON document is YAML; the compiler detects the kind.
        check_media_type(request.headers(), |subtype| {
            matches!(subtype, "yaml" | "x-yaml" | "json") || subtype.ends_with("+json")
        })?;
        let bytes = read_body(request, app, app.catalog.writer.limits.document_bytes).await?;
        Ok(Self(bytes.into()))
    }
}

/// The JSON object in a body of at most `LIMIT` bytes.
#[derive(Debug)]
pub(super) struct JsonBody<T, const LIMIT: usize = MAX_REQUEST_BYTES>(pub(super) T);

impl<T: DeserializeOwned, const LIMIT: usize> FromRequest<Arc<HttpState>> for JsonBody<T, LIMIT> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &Arc<HttpState>) -> Result<Self, Error> {
        check_media_type(request.headers(), |subtype| {
            subtype == "json" || subtype.ends_with("+json")
        })?;
        let bytes = read_body(request, app, LIMIT).await?;
        // A list would be read as the members of the object, in their order.
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(Error::MalformedBody("the body is a list, not an object".to_owned()));
        }
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Error::MalformedBody(format!("the body is invalid: {error}")))
    }
}

/// A body without a media type is accepted as the expected type.
fn check_media_type(headers: &HeaderMap, takes: impl Fn(&str) -> bool) -> Result<(), Error> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or("(not text)");
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("application" | "text", subtype)) if takes(subtype) => Ok(()),
        _ => Err(Error::UnsupportedMedia(essence.chars().take(80).collect())),
    }
}

async fn read_body(request: Request, app: &Arc<HttpState>, limit: usize) -> Result<Bytes, Error> {
    Bytes::from_request(request, app).await.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            Error::BodyTooLarge { limit }
        }
        other => Error::MalformedBody(format!("the body ended early: {}", other.body_text())),
    })
}
