//! Tokens, in SQL.

use std::collections::BTreeSet;

use a2s::api::Action;
use a2s::{Digest, Scope, Subject};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::Sqlite;
use super::life::insert_event;
use crate::store::Error;
use crate::store::life::{Actor, Deed};
use crate::store::tokens::{MOST_TOKENS, Made, TokenRow, TokenStore};

#[async_trait]
impl TokenStore for Sqlite {
    async fn make_token(
        &self,
        token: &TokenRow,
        digest: Digest,
        by: &Actor,
    ) -> Result<Made, Error> {
        let mut transaction = self.begin().await?;
        let (all, same): (u32, u32) =
            sqlx::query_as("SELECT count(*), count(CASE WHEN name = ? THEN 1 END) FROM token")
                .bind(token.name.as_str())
                .fetch_one(&mut *transaction)
                .await?;
        if same > 0 {
            return Ok(Made::NameTaken);
        }
        if all >= MOST_TOKENS {
            return Ok(Made::TooMany);
        }
        let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
        let scopes = scopes.join(" ");
        sqlx::query(
            "INSERT INTO token (name, digest, scopes, created_at, expires_at) \
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(token.name.as_str())
        .bind(digest.as_bytes().as_slice())
        .bind(&scopes)
        .bind(token.created_at.as_millisecond())
        .bind(token.expires_at.map(Timestamp::as_millisecond))
        .execute(&mut *transaction)
        .await?;
        let mut detail = serde_json::json!({ "scopes": token.scopes });
        if let Some(expires_at) = token.expires_at {
            detail["expires_at"] = serde_json::json!(expires_at);
        }
        let (action, detail) = (Action::CreateToken, Some(detail));
        let subject = Some(&token.name);
        let deed = Deed { action, name: None, release: None, subject, detail };
        insert_event(&mut transaction, by, deed).await?;
        transaction.commit().await?;
        Ok(Made::New)
    }

    async fn revoke_token(&self, name: &Subject, by: &Actor) -> Result<bool, Error> {
        let mut transaction = self.begin().await?;
        let deleted = sqlx::query("DELETE FROM token WHERE name = ?")
            .bind(name.as_str())
            .execute(&mut *transaction)
            .await?
            .rows_affected();
        if deleted == 0 {
            return Ok(false);
        }
        let (action, subject) = (Action::RevokeToken, Some(name));
        let deed = Deed { action, name: None, release: None, subject, detail: None };
        insert_event(&mut transaction, by, deed).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn token(&self, digest: Digest) -> Result<Option<TokenRow>, Error> {
        let row = sqlx::query("SELECT * FROM token WHERE digest = ?")
            .bind(digest.as_bytes().as_slice())
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(to_token).transpose()
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, Error> {
        let rows =
            sqlx::query("SELECT * FROM token ORDER BY name").fetch_all(&self.readers).await?;
        rows.iter().map(to_token).collect()
    }
}

fn to_token(row: &SqliteRow) -> Result<TokenRow, Error> {
    let (name, scopes): (String, String) = (row.try_get("name")?, row.try_get("scopes")?);
    let scopes: Result<BTreeSet<Scope>, _> = scopes.split_whitespace().map(str::parse).collect();
    let time = |at| Timestamp::from_millisecond(at).map_err(Error::unavailable);
    Ok(TokenRow {
        name: Subject::new(&name).map_err(Error::unavailable)?,
        scopes: scopes.map_err(Error::unavailable)?,
        created_at: time(row.try_get("created_at")?)?,
        expires_at: row.try_get::<Option<i64>, _>("expires_at")?.map(time).transpose()?,
    })
}
