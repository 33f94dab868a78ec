//! Tokens and owners: who may do what in a registry and an executor.

use std::collections::BTreeSet;

use a2s::{CapabilityName, Secret};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{TokenScope, TokenSubject};

/// A request to create a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The subject of the token: 1 to 64 letters, digits and `. _ - @`, beginning with a letter or digit.
    pub name: TokenSubject,
    /// The scopes of the token; at least one.
    #[schema(value_type = Vec<TokenScope>, min_items = 1)]
    pub scopes: BTreeSet<TokenScope>,
    /// The lifetime of the token in seconds, at most 1,000 years; unlimited when absent.
    #[serde(
        default,
        deserialize_with = "super::whole_number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 31_536_000_000_u64)]
    pub expires_in_s: Option<u64>,
}

/// The data about a token; never the token itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenEntry {
    /// The subject of the token.
    pub name: TokenSubject,
    /// The scopes of the token.
    #[schema(value_type = Vec<TokenScope>)]
    pub scopes: BTreeSet<TokenScope>,
    /// The time at which it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The expiry; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// True when the token has expired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

/// A new token. The registry shows its value only once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The data about the token.
    #[serde(flatten)]
    pub entry: TokenEntry,
    /// The value for `Authorization: Bearer …`. It cannot be read again.
    #[serde(serialize_with = "super::secrets::reveal")]
    #[schema(value_type = String)]
    pub token: Secret,
}

/// All tokens, in order of name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The tokens, including expired ones.
    pub tokens: Vec<TokenEntry>,
}

/// Ask for the scopes of a token (RFC 7662).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IntrospectionRequest {
    /// The token.
    #[serde(serialize_with = "super::secrets::reveal")]
    #[schema(value_type = String)]
    pub token: Secret,
}

/// The scopes of a token (RFC 7662, section 2.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IntrospectionResponse {
    /// True when the token is valid. All other fields are absent when it is not.
    pub active: bool,
    /// The scopes, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The subject of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<TokenSubject>,
    /// The expiry, in seconds since 1970; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
}

/// A request to change the owners of a name. It has exactly one of the members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OwnerUpdate {
    /// Adds an owner.
    Add(TokenSubject),
    /// Removes an owner. The last owner cannot be removed.
    Remove(TokenSubject),
    /// Makes this subject the only owner.
    Transfer(TokenSubject),
}

/// The subjects that may publish under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OwnerList {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its owners, in order.
    pub owners: Vec<TokenSubject>,
}
