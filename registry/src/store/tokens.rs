//! Tokens, known by their digests alone.

use std::collections::BTreeSet;

use a2s::{Digest, TokenScope, TokenSubject};
use async_trait::async_trait;
use jiff::Timestamp;

use super::Error;
use super::lifecycle::AuditActor;

/// The most tokens there are at once.
pub(crate) const MAX_TOKENS: u32 = 1_000;

/// A token without what its holder shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenRow {
    pub(crate) name: TokenSubject,
    pub(crate) scopes: BTreeSet<TokenScope>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

impl TokenRow {
    /// The scopes as they are stored: words, separated by spaces.
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
    /// There is one of this name; nothing changed.
    NameTaken,
    /// There are [`MAX_TOKENS`]; nothing changed.
    TooMany,
}

/// A database of tokens. Each change is written together with who made it.
#[async_trait]
pub(crate) trait TokenStore: Send + Sync {
    /// Keeps a token by the SHA-256 of what its holder shows.
    async fn insert_token(
        &self,
        token: &TokenRow,
        digest: Digest,
        by: &AuditActor,
    ) -> Result<TokenResult, Error>;

    /// Forgets a token; false when there is none of this name.
    async fn revoke_token(&self, name: &TokenSubject, by: &AuditActor) -> Result<bool, Error>;

    /// The token with this digest.
    async fn find_token(&self, digest: Digest) -> Result<Option<TokenRow>, Error>;

    /// All tokens, in order of name.
    async fn list_tokens(&self) -> Result<Vec<TokenRow>, Error>;
}
