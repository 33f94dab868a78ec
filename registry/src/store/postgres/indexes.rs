//! Search indexes in PostgreSQL.

use async_trait::async_trait;

use super::Postgres;
use crate::store::indexes::{IndexId, IndexStore, MOST_INDEXES};
use crate::store::{Error, Seq};

#[async_trait]
impl IndexStore for Postgres {
    async fn name_index(&self) -> Result<IndexId, Error> {
        let mut transaction = self.begin_unlocked().await?;
        let id = sqlx::query_scalar(
            "INSERT INTO search_index (id, indexed) \
             VALUES (replace(gen_random_uuid()::text, '-', ''), 0) RETURNING id",
        )
        .fetch_one(&mut *transaction)
        .await?;
        sqlx::query(
            "DELETE FROM search_index WHERE number IN (SELECT number FROM search_index \
             WHERE number <= (SELECT max(number) FROM search_index) - $1 FOR UPDATE SKIP LOCKED)",
        )
        .bind(MOST_INDEXES)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(IndexId(id))
    }

    async fn indexed(&self, index: &IndexId) -> Result<Option<Seq>, Error> {
        let indexed = sqlx::query_scalar("SELECT indexed FROM search_index WHERE id = $1")
            .bind(&index.0)
            .fetch_optional(&self.pool)
            .await?;
        Ok(indexed.map(Seq))
    }

    async fn advance(&self, index: &IndexId, indexed: Seq) -> Result<(), Error> {
        sqlx::query("UPDATE search_index SET indexed = greatest(indexed, $1) WHERE id = $2")
            .bind(indexed.0)
            .bind(&index.0)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn forget_index(&self, index: &IndexId) -> Result<(), Error> {
        sqlx::query("DELETE FROM search_index WHERE id = $1")
            .bind(&index.0)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}
