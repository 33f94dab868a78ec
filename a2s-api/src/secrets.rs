//! Credentials for services, and the data about stored credentials.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use a2s::{ApiKeyLocation, CapabilityName, CredentialKind, Domain, Secret};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::auth::{Principal, TokenSubject};

/// A credential that a client sends to the executor to store. The executor never sends it back.
///
/// Its JSON form contains the secrets, because that is its purpose. Its `Debug` form contains none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Credential {
    /// A key. The scheme in the document states its location in requests.
    ApiKey {
        /// The key.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = super::schema::SecretText)]
        value: Secret,
        /// The only allowed location of the key: `header:NAME`, `query:NAME` or `cookie:NAME`. When it is
        /// absent, the key may be at any location that a document names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, pattern = "^(header|query|cookie):[!-~]+$")]
        place: Option<KeyLocation>,
    },
    /// A user and a password.
    Basic {
        /// The user name, without a colon.
        #[schema(min_length = 1, max_length = 8192, pattern = r"^[^:\x00-\x1f\x7f-\x9f]*$")]
        user: String,
        /// The password.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = super::schema::SecretText)]
        password: Secret,
    },
    /// A token.
    Bearer {
        /// The token.
        #[serde(serialize_with = "reveal")]
        #[schema(
            value_type = String,
            format = Password,
            min_length = 4,
            max_length = 8192,
            pattern = "^[ -~]*$"
        )]
        token: Secret,
    },
    /// A client of OAuth 2.0.
    Oauth2 {
        /// Its id.
        #[schema(min_length = 1, max_length = 8192, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
        client_id: String,
        /// Its secret.
        #[serde(serialize_with = "reveal")]
        #[schema(value_type = super::schema::SecretText)]
        client_secret: Secret,
        /// The token that renews access tokens. Without it, the client requests access tokens with its own
        /// credentials.
        #[serde(default, serialize_with = "reveal_some", skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<super::schema::SecretText>)]
        refresh_token: Option<Secret>,
        /// The hosts to which the executor may send the secret and the refresh token. When the list is
        /// empty, only the host of the API is allowed. A document cannot add other hosts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        token_hosts: Vec<Domain>,
        /// The method of client authentication.
        #[serde(default)]
        client_authentication: ClientAuthentication,
    },
}

/// The method of client authentication in OAuth 2.0 (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthentication {
    /// HTTP basic authentication, which every server accepts.
    #[default]
    Basic,
    /// The fields `client_id` and `client_secret` in the body.
    Body,
}

/// The location of a key in a request: `header:X-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLocation {
    location: ApiKeyLocation,
    name: String,
}

impl KeyLocation {
    /// The maximum length of a name, in bytes.
    const MAX_NAME: usize = 200;

    /// Creates the location that a scheme of a document names.
    #[must_use]
    pub fn new(place: ApiKeyLocation, name: impl Into<String>) -> Self {
        Self { location: place, name: name.into() }
    }

    /// True when both are the same location. Header names are case-insensitive (RFC 9110, section 5.1).
    #[must_use]
    pub fn is_same_location(&self, other: &Self) -> bool {
        let is_name = match self.location {
            ApiKeyLocation::Header => self.name.eq_ignore_ascii_case(&other.name),
            ApiKeyLocation::Query | ApiKeyLocation::Cookie => self.name == other.name,
        };
        self.location == other.location && is_name
    }
}

impl fmt::Display for KeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.location {
            ApiKeyLocation::Header => "header",
            ApiKeyLocation::Query => "query",
            ApiKeyLocation::Cookie => "cookie",
        };
        write!(f, "{place}:{}", self.name)
    }
}

impl FromStr for KeyLocation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write the location as `header:NAME`, `query:NAME` or `cookie:NAME`";
        let (place, name) = text.split_once(':').ok_or(FORM)?;
        let place = match place {
            "header" => ApiKeyLocation::Header,
            "query" => ApiKeyLocation::Query,
            "cookie" => ApiKeyLocation::Cookie,
            _ => return Err(FORM),
        };
        let fits =
            (1..=Self::MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
        if fits { Ok(Self::new(place, name)) } else { Err(FORM) }
    }
}

impl Serialize for KeyLocation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KeyLocation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
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

/// A party that may use a credential: a token with all its end users (`ci`), one of these end users
/// (`ci/ann`), or everybody (`*`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialSubject {
    /// Every principal.
    Everybody,
    /// A token, or one end user of it.
    Principal(Principal),
}

impl CredentialSubject {
    fn includes(&self, principal: &Principal) -> bool {
        match self {
            Self::Everybody => true,
            Self::Principal(named) => {
                named.token == principal.token
                    && (named.end_user.is_none() || named.end_user == principal.end_user)
            }
        }
    }
}

impl fmt::Display for CredentialSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("*"),
            Self::Principal(principal) => principal.fmt(f),
        }
    }
}

impl FromStr for CredentialSubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" { Ok(Self::Everybody) } else { text.parse().map(Self::Principal) }
    }
}

impl Serialize for CredentialSubject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CredentialSubject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The runs that may use a credential. The owner's runs can always use it. Other runs can use it when one
/// of these grants matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialUsers {
    /// Runs of these subjects: `TOKEN`, `TOKEN/END USER`, or `*` for everybody.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub subjects: BTreeSet<CredentialSubject>,
    /// Steps of capabilities whose names these publishers own in the registry.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub publishers: BTreeSet<TokenSubject>,
    /// Steps of these capabilities, in every version.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<CapabilityName>,
}

impl CredentialUsers {
    /// The maximum number of grants of one credential.
    pub const MAX: usize = 1_000;

    /// Returns the number of grants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.subjects.len() + self.publishers.len() + self.capabilities.len()
    }

    /// True when there is no grant, so only the owner's runs use the credential.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty() && self.publishers.is_empty() && self.capabilities.is_empty()
    }

    /// Returns true when a run of `principal` may use the credential for a step of `capability`, whose name
    /// belongs to `publishers`.
    #[must_use]
    pub fn allows(
        &self,
        principal: &Principal,
        capability: &CapabilityName,
        publishers: &[TokenSubject],
    ) -> bool {
        principal.is_owner()
            || self.subjects.iter().any(|subject| subject.includes(principal))
            || self.capabilities.contains(capability)
            || publishers.iter().any(|publisher| self.publishers.contains(publisher))
    }
}

/// The data about a stored credential, without its secret values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredCredential {
    /// The host of the credential, with its port unless it is the default port.
    pub host: Domain,
    /// The name of the security scheme in documents.
    pub scheme: String,
    /// Its kind.
    pub kind: CredentialKind,
    /// The time at which it was set.
    #[schema(value_type = String, format = DateTime)]
    pub set_at: Timestamp,
    /// The runs that may use it in addition to the owner's.
    #[serde(default)]
    pub users: CredentialUsers,
}

/// The stored credentials, by host and scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredCredentials {
    /// The stored credentials, without their secret values.
    pub secrets: Vec<StoredCredential>,
}

/// Serializes the text of a secret. Use it only for the fields that carry a secret to its storage.
pub(crate) fn reveal<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

/// Serializes the text of a secret that may be missing.
#[expect(clippy::ref_option, reason = "this is how serde hands a field over")]
pub(crate) fn reveal_some<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => serializer.serialize_some(secret.expose_secret()),
        None => serializer.serialize_none(),
    }
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

    #[test]
    fn a_credential_is_for_the_owner_and_for_what_is_granted() {
        let users = |json: &str| serde_json::from_str::<CredentialUsers>(json).unwrap();
        let allow = |users: &CredentialUsers, principal: &str, publishers: &[&str]| {
            let publishers: Vec<TokenSubject> =
                publishers.iter().map(|p| p.parse().unwrap()).collect();
            let capability = CapabilityName::new("PostTweet").unwrap();
            users.allows(&principal.parse().unwrap(), &capability, &publishers)
        };
        let none = CredentialUsers::default();
        assert!(allow(&none, "owner", &[]) && !allow(&none, "ci", &["ci"]));
        assert!(
            !allow(&none, "owner/ann", &[]),
            "an end user of the owner's token is not the owner"
        );
        let token = users(r#"{"subjects": ["ci"]}"#);
        assert!(allow(&token, "ci", &[]) && allow(&token, "ci/ann", &[]));
        assert!(!allow(&token, "cd", &[]));
        let end_user = users(r#"{"subjects": ["ci/ann"]}"#);
        assert!(allow(&end_user, "ci/ann", &[]));
        assert!(!allow(&end_user, "ci", &[]) && !allow(&end_user, "ci/bob", &[]));
        assert!(allow(&users(r#"{"subjects": ["*"]}"#), "any/body", &[]));
        assert!(allow(&users(r#"{"capabilities": ["PostTweet"]}"#), "bob", &[]));
        assert!(!allow(&users(r#"{"capabilities": ["GetTweet"]}"#), "bob", &[]));
        let publisher = users(r#"{"publishers": ["ann"]}"#);
        assert!(allow(&publisher, "bob", &["x", "ann"]) && !allow(&publisher, "ann", &["x"]));
        for wrong in [r#"{"subjects": ["a b"]}"#, r#"{"users": []}"#, r#"{"publishers": ["*"]}"#] {
            assert!(serde_json::from_str::<CredentialUsers>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_may_be_for_one_place_alone() {
        let text = r#"{"kind":"api_key","value":"canary","place":"header:X-Key"}"#;
        let credential: Credential = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&credential).unwrap(), text);
        let place = |text: &str| text.parse::<KeyLocation>();
        assert!(place("header:X-Key").unwrap().is_same_location(&place("header:x-key").unwrap()));
        assert!(!place("query:Key").unwrap().is_same_location(&place("query:key").unwrap()));
        assert!(!place("query:key").unwrap().is_same_location(&place("cookie:key").unwrap()));
        for wrong in ["", "header", "header:", "body:x", "query:a\nb"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
