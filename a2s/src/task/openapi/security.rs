//! Security: who may ask, and by which credentials.

use std::collections::BTreeMap;

use openapiv3 as oas;

use super::decode::Decoder;
use super::spot::Spot;
use crate::decode::short;

/// The most ways to be let in.
const MAX_WAYS: usize = 500;
/// The most schemes of one way.
const MAX_SCHEMES: usize = 50;

/// A scheme that a way to be let in wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityRequirement {
    /// The name of the scheme, by which credentials are stored.
    pub name: String,
    /// The scopes that the credentials must have (OAuth 2.0 and `openIdConnect`), or roles.
    pub scopes: Vec<String>,
    /// What the scheme is; none when the specification does not define it, or not well.
    pub scheme: Option<SecurityScheme>,
}

/// How credentials are presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecurityScheme {
    /// A key at a place of the request.
    ApiKey {
        /// Where it goes.
        place: ApiKeyPlace,
        /// The name of the header, query parameter or cookie.
        name: String,
    },
    /// The `Authorization` header.
    Http {
        /// Its first word.
        scheme: HttpScheme,
        /// What kind of token a bearer token is, for a person.
        bearer_format: Option<String>,
    },
    /// OAuth 2.0.
    OAuth2(Box<OAuthFlows>),
    /// `openIdConnect`: OAuth 2.0 with metadata.
    OpenIdConnect {
        /// Where its metadata is, as written; may be relative to the server.
        url: String,
    },
    /// A client certificate (OpenAPI 3.1).
    MutualTls,
}

/// Where an API key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ApiKeyPlace {
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
    /// Another one of the IANA registry, in lower case: `digest`.
    Other(String),
}

/// The ways to get a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of RFC 6749")]
pub struct OAuthFlows {
    pub implicit: Option<OAuthFlow>,
    pub password: Option<OAuthFlow>,
    pub client_credentials: Option<OAuthFlow>,
    pub authorization_code: Option<OAuthFlow>,
}

/// A way to get a token. Addresses are as written; they may be relative to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthFlow {
    /// Where a person grants access.
    pub authorization_url: Option<String>,
    /// Where tokens are given out.
    pub token_url: Option<String>,
    /// Where they are renewed.
    pub refresh_url: Option<String>,
    /// The scopes there are, each with what it allows.
    pub scopes: BTreeMap<String, String>,
}

impl<'n> Decoder<'n, '_> {
    /// The ways to be let in to the operation, else to the whole API.
    pub(super) fn decode_security(
        &mut self,
        operation: &Spot<'n>,
    ) -> Vec<Vec<SecurityRequirement>> {
        let root = self.root.clone();
        // An empty list says that nothing is wanted, so only a missing one is inherited.
        let holder = if operation.get("security").is_some() { operation } else { &root };
        let alternatives = self.list(holder, "security");
        if alternatives.len() > MAX_WAYS {
            let count = alternatives.len();
            let message = format!("`security` has {count} alternatives; {MAX_WAYS} is the most");
            self.error(holder, message, "Keep the one that is used.");
            return Vec::new();
        }
        let mut known = BTreeMap::new();
        let mut security = Vec::new();
        for alternative in alternatives {
            let requirements = alternative.entries();
            if requirements.len() > MAX_SCHEMES {
                let count = requirements.len();
                let message =
                    format!("{count} security schemes at once; {MAX_SCHEMES} is the most");
                self.error(&alternative, message, "Keep those that are used.");
                return Vec::new();
            }
            let mut wanted = Vec::new();
            for (name, scopes) in requirements {
                let scheme = match known.get(name) {
                    Some(scheme) => Option::clone(scheme),
                    None => {
                        let scheme = self.decode_scheme(name, &scopes);
                        known.insert(name, scheme.clone());
                        scheme
                    }
                };
                let scopes = scopes.items().into_iter();
                let scopes = scopes.filter_map(|scope| scope.node.as_str().map(str::to_owned));
                wanted.push(SecurityRequirement {
                    name: name.to_owned(),
                    scopes: scopes.collect(),
                    scheme,
                });
            }
            security.push(wanted);
        }
        if !security.is_empty() && security.iter().all(|wanted| !wanted.is_empty()) {
            self.unsupported(&root, "the operation wants credentials, and none are sent yet");
        }
        security
    }

    /// The scheme `name`; a warning at `place`, or at the scheme itself, when it is not well
    /// defined.
    fn decode_scheme(&mut self, name: &str, place: &Spot<'n>) -> Option<SecurityScheme> {
        let schemes = self.root.get("components").and_then(|all| all.get("securitySchemes"));
        let Some(holder) = schemes.and_then(|schemes| schemes.get(name)) else {
            let message = format!("no security scheme `{}` is defined", short(name));
            self.warn(place, message, "Define it under `components.securitySchemes`.");
            return None;
        };
        let found = holder.follow(&self.root);
        let found = found.map_err(|(message, _)| message).and_then(|scheme| {
            if scheme.text("type") == Some("mutualTLS") {
                return Ok(SecurityScheme::MutualTls);
            }
            let typed = serde_json::from_value::<oas::SecurityScheme>(scheme.to_value());
            typed.map(SecurityScheme::from).map_err(|error| error.to_string())
        });
        match found {
            Ok(scheme) => Some(scheme),
            Err(reason) => {
                let message =
                    format!("the security scheme `{}` is malformed: {reason}", short(name));
                let hint = "Write it as the OpenAPI specification has it.";
                self.warn(&holder, message, hint);
                None
            }
        }
    }
}

impl From<oas::SecurityScheme> for SecurityScheme {
    fn from(scheme: oas::SecurityScheme) -> Self {
        match scheme {
            oas::SecurityScheme::APIKey { location, name, .. } => {
                let place = match location {
                    oas::APIKeyLocation::Header => ApiKeyPlace::Header,
                    oas::APIKeyLocation::Query => ApiKeyPlace::Query,
                    oas::APIKeyLocation::Cookie => ApiKeyPlace::Cookie,
                };
                Self::ApiKey { place, name }
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
