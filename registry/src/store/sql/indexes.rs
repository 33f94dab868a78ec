//! Search indexes, in SQL that every engine reads alike: see [`super`], which is the engine that this is
//! compiled for.

use async_trait::async_trait;

use super::Engine;
use crate::store::indexes::{IndexId, IndexStore, MOST_INDEXES};
use crate::store::{Error, Seq};

#[async_trait]
impl IndexStore for Engine {
    async fn name_index(&self) -> Result<IndexId, Error> {
        let mut transaction = self.begin().await?;
        let id = sqlx::query_scalar(concat!(
            "INSERT INTO search_index (id, indexed) VALUES (",
            random_id!(),
            ", 0) RETURNING id"
        ))
        .fetch_one(&mut *transaction)
        .await?;
        sqlx::query(
            "DELETE FROM search_index WHERE number <= (SELECT max(number) FROM search_index) - $1",
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
            .fetch_optional(self.readers())
            .await?;
        Ok(indexed.map(Seq))
    }

    async fn advance(&self, index: &IndexId, indexed: Seq) -> Result<(), Error> {
        sqlx::query("UPDATE search_index SET indexed = $1 WHERE id = $2 AND indexed < $1")
            .bind(indexed.0)
            .bind(&index.0)
            .execute(self.writer())
            .await?;
        Ok(())
    }

    async fn forget_index(&self, index: &IndexId) -> Result<(), Error> {
        sqlx::query("DELETE FROM search_index WHERE id = $1")
            .bind(&index.0)
            .execute(self.writer())
            .await?;
        Ok(())
    }
}
