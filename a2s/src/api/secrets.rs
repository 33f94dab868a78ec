//! Credentials for services: what is stored, and what is told of it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::name::Domain;
use crate::secret::{Secret, reveal, reveal_some};

/// The kinds of credentials that are stored.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// A key that goes where the document's scheme says.
    ApiKey,
    /// A user and a password (RFC 7617).
    Basic,
    /// A token (RFC 6750).
    Bearer,
    /// A client of OAuth 2.0 (RFC 6749), for which tokens are fetched.
    Oauth2,
}

impl CredentialKind {
    /// `api_key`, `basic`, `bearer` or `oauth2`.
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

/// A credential, as it is sent to be stored. It is never sent back.
///
/// Written out as JSON it has its secrets in it: that is its purpose, and `Debug` shows none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Credential {
    /// A key that goes where the document's scheme says.
    ApiKey {
        /// The key.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = String, format = Password)]
        value: Secret,
    },
    /// A user and a password.
    Basic {
        /// The user; no colon.
        user: String,
        /// The password.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = String, format = Password)]
        password: Secret,
    },
    /// A token.
    Bearer {
        /// The token.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = String, format = Password)]
        token: Secret,
    },
    /// A client of OAuth 2.0.
    Oauth2 {
        /// Its id.
        client_id: String,
        /// Its secret.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = String, format = Password)]
        client_secret: Secret,
        /// The token that access tokens are renewed with; without one the client asks for itself.
        #[serde(default, serialize_with = "reveal_some", skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = Password)]
        refresh_token: Option<Secret>,
        /// The hosts that secret and refresh token may be sent to; the host of the API alone when
        /// there are none. Whatever a document says, they go nowhere else.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schema(value_type = Vec<String>)]
        token_hosts: Vec<Domain>,
        /// How the client says who it is.
        #[serde(default)]
        client_authentication: ClientAuthentication,
    },
}

/// How a client of OAuth 2.0 says who it is (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// By HTTP basic, which every server takes.
    #[default]
    Basic,
    /// By `client_id` and `client_secret` in the body.
    Body,
}

impl Credential {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> CredentialKind {
        match self {
            Self::ApiKey { .. } => CredentialKind::ApiKey,
            Self::Basic { .. } => CredentialKind::Basic,
            Self::Bearer { .. } => CredentialKind::Bearer,
            Self::Oauth2 { .. } => CredentialKind::Oauth2,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.kind().as_str())
    }
}

/// What is told of a stored credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredCredential {
    /// The host that it is for, with its port when that is not the usual one.
    #[schema(value_type = String)]
    pub host: Domain,
    /// The name of the security scheme in documents.
    pub scheme: String,
    /// Its kind.
    pub kind: CredentialKind,
    /// When it was set.
    #[schema(value_type = String, format = DateTime)]
    pub set_at: Timestamp,
}

/// The stored credentials, by host and scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredCredentials {
    /// What is told of each.
    pub secrets: Vec<StoredCredential>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_shows_its_kind_alone_and_comes_back_whole() {
        let text = r#"{"kind":"oauth2","client_id":"me","client_secret":"canary1","refresh_token":"canary2","client_authentication":"body"}"#;
        let credential: Credential = serde_json::from_str(text).unwrap();
        assert_eq!(format!("{credential:?}"), "Credential(oauth2)");
        assert_eq!(serde_json::to_string(&credential).unwrap(), text);
        let wrong = r#"{"kind":"api_key","value":"x","values":"y"}"#;
        assert!(serde_json::from_str::<Credential>(wrong).is_err());
    }
}
