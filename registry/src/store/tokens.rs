//! Tokens, known by their digests alone.

use std::collections::BTreeSet;

use a2s::Digest;
use a2s_api::{TokenScope, TokenSubject};
use async_trait::async_trait;
use jiff::Timestamp;

use super::Error;
use super::lifecycle::AuditActor;

/// The maximum number of tokens.
pub(crate) const MAX_TOKENS: u32 = 1_000;

/// A token without its secret.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenRow {
    pub(crate) name: TokenSubject,
    pub(crate) scopes: BTreeSet<TokenScope>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

impl TokenRow {
    /// Returns the scopes as they are stored: words, separated by spaces.
    pub(super) fn scopes_text(&self) -> String {
        let scopes: Vec<_> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        scopes.join(" ")
    }

    /// The detail of the audit entry for a new token.
    pub(super) fn detail(&self) -> serde_json::Value {
        let mut detail = serde_json::json!({ "scopes": self.scopes });
        if let Some(expires_at) = self.expires_at {
            detail["expires_at"] = serde_json::json!(expires_at);
        }
        detail
    }
}

/// The result of storing a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenResult {
    Created,
    /// A token with this name exists; nothing changed.
    NameTaken,
    /// The store has [`MAX_TOKENS`] tokens already; nothing changed.
    TooMany,
}

/// A store of tokens. It writes each change together with the actor.
#[async_trait]
pub(crate) trait TokenStore: Send + Sync {
    /// Stores a token under the SHA-256 of its secret.
    async fn insert_token(
        &self,
        token: &TokenRow,
        digest: Digest,
        by: &AuditActor,
    ) -> Result<TokenResult, Error>;

    /// Deletes a token. Returns false when no token has this name.
    async fn revoke_token(&self, name: &TokenSubject, by: &AuditActor) -> Result<bool, Error>;

    /// Returns the token with this digest.
    async fn find_token(&self, digest: Digest) -> Result<Option<TokenRow>, Error>;

    /// Returns all tokens, in order of name.
    async fn list_tokens(&self) -> Result<Vec<TokenRow>, Error>;
}
