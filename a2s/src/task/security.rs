//! Security: who may ask, and by which credentials.
//!
//! OpenAPI's words, which GraphQL and MCP tasks use as well. A document says where a credential goes; which
//! credential that is, and to which hosts it may go, the person says who stores it.

mod read;

use std::collections::BTreeMap;

use openapiv3 as oas;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{is_header_name, is_set_for_requests};
use crate::field_reader::shorten_for_message;

pub(super) use read::{SecurityReader, read_security};

/// The maximum length of the name of a scheme, in characters.
const MAX_NAME: usize = 100;

/// The kinds of stored credentials.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// A key. The scheme in the document states its location in requests.
    ApiKey,
    /// A user and a password (RFC 7617).
    Basic,
    /// A token (RFC 6750).
    Bearer,
    /// A client of OAuth 2.0 (RFC 6749), for which tokens are fetched.
    Oauth2,
}

impl CredentialKind {
    /// Returns the name that JSON uses: `api_key`, `basic`, `bearer` or `oauth2`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::Basic => "basic",
            Self::Bearer => "bearer",
            Self::Oauth2 => "oauth2",
        }
    }
}

/// A security scheme that a task requires, with its scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityRequirement {
    /// The name of the scheme, by which credentials are stored.
    pub name: String,
    /// The scopes that the credentials must have (OAuth 2.0 and `openIdConnect`), or roles.
    pub scopes: Vec<String>,
    /// The scheme; `None` when the specification does not define it correctly.
    pub scheme: Option<SecurityScheme>,
}

/// The method of presenting credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecurityScheme {
    /// A key at a location in the request.
    ApiKey {
        /// Its location in the request.
        location: ApiKeyLocation,
        /// The name of the header, query parameter or cookie.
        name: String,
    },
    /// The `Authorization` header.
    Http {
        /// The scheme: the first word of the header.
        scheme: HttpScheme,
        /// The kind of a bearer token, for a person.
        bearer_format: Option<String>,
    },
    /// OAuth 2.0.
    OAuth2(Box<OAuthFlows>),
    /// `openIdConnect`: OAuth 2.0 with metadata.
    OpenIdConnect {
        /// The address of its metadata, as written; may be relative to the server.
        url: String,
    },
    /// A client certificate (OpenAPI 3.1).
    MutualTls,
}

/// The location of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ApiKeyLocation {
    Header,
    Query,
    Cookie,
}

/// A scheme of the `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpScheme {
    /// A user name and a password (RFC 7617).
    Basic,
    /// A token (RFC 6750).
    Bearer,
    /// Another scheme of the IANA registry, in lower case: `digest`.
    Other(String),
}

/// The OAuth 2.0 flows that issue tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of RFC 6749")]
pub struct OAuthFlows {
    pub implicit: Option<OAuthFlow>,
    pub password: Option<OAuthFlow>,
    pub client_credentials: Option<OAuthFlow>,
    pub authorization_code: Option<OAuthFlow>,
}

/// An OAuth 2.0 flow that issues tokens. Addresses are as written; they may be relative to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthFlow {
    /// The address where a person grants access.
    pub authorization_url: Option<String>,
    /// The address that issues tokens.
    pub token_url: Option<String>,
    /// The address that renews tokens.
    pub refresh_url: Option<String>,
    /// The available scopes, each with a description of what it allows.
    pub scopes: BTreeMap<String, String>,
}

impl SecurityRequirement {
    /// Returns true when a credential can be stored under the name: 1 to 100 characters, without control
    /// characters. It does not begin with a dash or space, which a command line would misread, and is not a
    /// dot or two alone, which an address would misread.
    #[must_use]
    pub fn has_storable_name(&self) -> bool {
        is_scheme_name(&self.name)
    }

    /// Returns the kinds of stored credentials that meet the requirement, the best one first; empty when
    /// stored credentials cannot meet it.
    #[must_use]
    pub fn credential_kinds(&self) -> &'static [CredentialKind] {
        match &self.scheme {
            Some(scheme) if self.has_storable_name() => scheme.credential_kinds(),
            Some(_) | None => &[],
        }
    }
}

/// Returns true when credentials can be stored under a name: see
/// [`SecurityRequirement::has_storable_name`].
#[must_use]
pub fn is_scheme_name(name: &str) -> bool {
    let first = name.chars().next();
    // An address has no such segments, however they are spelt.
    if matches!(name, "." | "..") {
        return false;
    }
    first.is_some_and(|c| c != '-' && !c.is_whitespace())
        && name.chars().count() <= MAX_NAME
        && !name.chars().any(char::is_control)
}

impl SecurityScheme {
    /// Returns the kinds of stored credentials that this scheme can use, the best one first. A client
    /// certificate is configured and not stored.
    #[must_use]
    pub fn credential_kinds(&self) -> &'static [CredentialKind] {
        use CredentialKind::{ApiKey, Basic, Bearer, Oauth2};
        match self {
            Self::ApiKey { location: place, name } if can_carry(*place, name) => &[ApiKey],
            Self::Http { scheme: HttpScheme::Basic, .. } => &[Basic],
            Self::Http { scheme: HttpScheme::Bearer, .. } => &[Bearer],
            Self::OAuth2(flows) if flows.gives_tokens() => &[Oauth2, Bearer],
            // A person may have got a token in another way.
            Self::OAuth2(_) | Self::OpenIdConnect { .. } => &[Bearer],
            Self::ApiKey { .. }
            | Self::Http { scheme: HttpScheme::Other(_), .. }
            | Self::MutualTls => &[],
        }
    }

    /// Its name, for a person.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::ApiKey { location: ApiKeyLocation::Header, .. } => {
                "an API key in a header".to_owned()
            }
            Self::ApiKey { location: ApiKeyLocation::Query, .. } => {
                "an API key in the query".to_owned()
            }
            Self::ApiKey { location: ApiKeyLocation::Cookie, .. } => {
                "an API key in a cookie".to_owned()
            }
            Self::Http { scheme: HttpScheme::Basic, .. } => "HTTP basic".to_owned(),
            Self::Http { scheme: HttpScheme::Bearer, .. } => "a bearer token".to_owned(),
            Self::Http { scheme: HttpScheme::Other(name), .. } => {
                format!("HTTP {}", shorten_for_message(name))
            }
            Self::OAuth2(_) => "OAuth 2.0".to_owned(),
            Self::OpenIdConnect { .. } => "OpenID Connect".to_owned(),
            Self::MutualTls => "a client certificate".to_owned(),
        }
    }
}

impl OAuthFlows {
    /// The address where a client gets a token with only its own credentials (RFC 6749, section 4.4).
    #[must_use]
    pub fn client_token_url(&self) -> Option<&str> {
        self.client_credentials.as_ref()?.token_url.as_deref()
    }

    /// The address where a client renews a token (RFC 6749, section 6). Flows with a person come first,
    /// because they issue refresh tokens.
    #[must_use]
    pub fn refresh_token_url(&self) -> Option<&str> {
        let flows =
            [&self.authorization_code, &self.password, &self.implicit, &self.client_credentials];
        let mut flows = flows.into_iter().flatten();
        flows.find_map(|flow| flow.refresh_url.as_deref().or(flow.token_url.as_deref()))
    }

    /// Returns true when a program alone can get a token.
    fn gives_tokens(&self) -> bool {
        self.client_token_url().is_some() || self.refresh_token_url().is_some()
    }
}

/// Returns true when a key can stand at a location without affecting the framing of the message.
fn can_carry(place: ApiKeyLocation, name: &str) -> bool {
    match place {
        ApiKeyLocation::Header => {
            let name = name.to_ascii_lowercase();
            let holds_credentials =
                matches!(name.as_str(), "authorization" | "cookie" | "proxy-authorization");
            is_header_name(&name)
                && name != "accept"
                && (holds_credentials || !is_set_for_requests(&name))
        }
        ApiKeyLocation::Query => !name.is_empty() && !name.chars().any(char::is_control),
        // The name of a cookie is a token, as that of a header is (RFC 6265, section 4.1.1).
        ApiKeyLocation::Cookie => is_header_name(name),
    }
}

impl From<oas::SecurityScheme> for SecurityScheme {
    fn from(scheme: oas::SecurityScheme) -> Self {
        match scheme {
            oas::SecurityScheme::APIKey { location, name, .. } => {
                let place = match location {
                    oas::APIKeyLocation::Header => ApiKeyLocation::Header,
                    oas::APIKeyLocation::Query => ApiKeyLocation::Query,
                    oas::APIKeyLocation::Cookie => ApiKeyLocation::Cookie,
                };
                Self::ApiKey { location: place, name }
            }
            oas::SecurityScheme::HTTP { scheme, bearer_format, .. } => {
                let scheme = match scheme.to_ascii_lowercase().as_str() {
                    "basic" => HttpScheme::Basic,
                    "bearer" => HttpScheme::Bearer,
                    other => HttpScheme::Other(other.to_owned()),
                };
                Self::Http { scheme, bearer_format }
            }
            oas::SecurityScheme::OAuth2 { flows, .. } => Self::OAuth2(Box::new(flows.into())),
            oas::SecurityScheme::OpenIDConnect { open_id_connect_url: url, .. } => {
                Self::OpenIdConnect { url }
            }
        }
    }
}

impl From<oas::OAuth2Flows> for OAuthFlows {
    fn from(flows: oas::OAuth2Flows) -> Self {
        let flow = |authorization_url, token_url, refresh_url, scopes: indexmap::IndexMap<_, _>| {
            OAuthFlow {
                authorization_url,
                token_url,
                refresh_url,
                scopes: scopes.into_iter().collect(),
            }
        };
        Self {
            implicit: flows
                .implicit
                .map(|f| flow(Some(f.authorization_url), None, f.refresh_url, f.scopes)),
            password: flows
                .password
                .map(|f| flow(None, Some(f.token_url), f.refresh_url, f.scopes)),
            client_credentials: flows
                .client_credentials
                .map(|f| flow(None, Some(f.token_url), f.refresh_url, f.scopes)),
            authorization_code: flows.authorization_code.map(|f| {
                flow(Some(f.authorization_url), Some(f.token_url), f.refresh_url, f.scopes)
            }),
        }
    }
}
