//! Tokens.

use a2s::Digest;
use a2s_api::RegistryAction;
use a2s_api::TokenSubject;
use async_trait::async_trait;
use jiff::Timestamp;

use super::SqlStore;
use super::lifecycle::insert_event;
use crate::store::Error;
use crate::store::lifecycle::{AuditActor, AuditDetail};
use crate::store::row_mapping::to_token;
use crate::store::tokens::{MAX_TOKENS, TokenResult, TokenRow, TokenStore};

#[async_trait]
impl TokenStore for SqlStore {
    async fn insert_token(
        &self,
        token: &TokenRow,
        digest: Digest,
        by: &AuditActor,
    ) -> Result<TokenResult, Error> {
        let mut transaction = self.begin().await?;
        let (all, same): (i64, i64) = transaction
            .query("SELECT count(*), count(CASE WHEN name = $1 THEN 1 END) FROM token")
            .bind(token.name.as_str())
            .fetch_one()
            .await?;
        if same > 0 {
            return Ok(TokenResult::NameTaken);
        }
        if all >= i64::from(MAX_TOKENS) {
            return Ok(TokenResult::TooMany);
        }
        transaction
            .query(
                "INSERT INTO token (name, digest, scopes, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5)",
            )
            .bind(token.name.as_str())
            .bind(digest.as_bytes().as_slice())
            .bind(token.scopes_text())
            .bind(token.created_at.as_millisecond())
            .bind(token.expires_at.map(Timestamp::as_millisecond))
            .execute()
            .await?;
        let (action, detail) = (RegistryAction::CreateToken, Some(token.detail()));
        let subject = Some(&token.name);
        let entry = AuditDetail { action, name: None, release: None, subject, detail };
        insert_event(&mut transaction, by, entry).await?;
        transaction.commit().await?;
        Ok(TokenResult::Created)
    }

    async fn revoke_token(&self, name: &TokenSubject, by: &AuditActor) -> Result<bool, Error> {
        let mut transaction = self.begin().await?;
        let deleted = transaction
            .query("DELETE FROM token WHERE name = $1")
            .bind(name.as_str())
            .execute()
            .await?;
        if deleted == 0 {
            return Ok(false);
        }
        let (action, subject) = (RegistryAction::RevokeToken, Some(name));
        let entry = AuditDetail { action, name: None, release: None, subject, detail: None };
        insert_event(&mut transaction, by, entry).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn find_token(&self, digest: Digest) -> Result<Option<TokenRow>, Error> {
        let row = self
            .readers
            .query("SELECT * FROM token WHERE digest = $1")
            .bind(digest.as_bytes().as_slice())
            .fetch_optional()
            .await?;
        row.as_ref().map(to_token).transpose()
    }

    async fn list_tokens(&self) -> Result<Vec<TokenRow>, Error> {
        let rows = self.readers.query("SELECT * FROM token ORDER BY name").fetch_all().await?;
        rows.iter().map(to_token).collect()
    }
}
