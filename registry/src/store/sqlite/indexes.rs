//! Search indexes in SQLite.

use async_trait::async_trait;

use super::{Error, Sqlite};
use crate::store::Seq;
use crate::store::indexes::{IndexId, IndexStore, MOST_INDEXES};

#[async_trait]
impl IndexStore for Sqlite {
    async fn name_index(&self) -> Result<IndexId, Error> {
        let mut transaction = self.begin().await?;
        let id = sqlx::query_scalar(
            "INSERT INTO search_index (id, indexed) VALUES (lower(hex(randomblob(16))), 0) \
             RETURNING id",
        )
        .fetch_one(&mut *transaction)
        .await?;
        sqlx::query(
            "DELETE FROM search_index WHERE number <= (SELECT max(number) FROM search_index) - ?",
        )
        .bind(MOST_INDEXES)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(IndexId(id))
    }

    async fn indexed(&self, index: &IndexId) -> Result<Option<Seq>, Error> {
        let indexed = sqlx::query_scalar("SELECT indexed FROM search_index WHERE id = ?")
            .bind(&index.0)
            .fetch_optional(&self.readers)
            .await?;
        Ok(indexed.map(Seq))
    }

    async fn advance(&self, index: &IndexId, indexed: Seq) -> Result<(), Error> {
        sqlx::query("UPDATE search_index SET indexed = max(indexed, ?) WHERE id = ?")
            .bind(indexed.0)
            .bind(&index.0)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    async fn forget_index(&self, index: &IndexId) -> Result<(), Error> {
        sqlx::query("DELETE FROM search_index WHERE id = ?")
            .bind(&index.0)
            .execute(&self.writer)
            .await?;
        Ok(())
    }
}
