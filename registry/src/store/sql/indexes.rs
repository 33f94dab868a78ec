//! Search indexes.

use async_trait::async_trait;

use super::SqlStore;
use crate::store::indexes::{IndexId, IndexStore, MAX_INDEXES};
use crate::store::{ChangeSeq, Error};

#[async_trait]
impl IndexStore for SqlStore {
    async fn create_index_id(&self) -> Result<IndexId, Error> {
        let mut transaction = self.begin().await?;
        let id = transaction
            .query("INSERT INTO search_index (id, indexed) VALUES ({random_id}, 0) RETURNING id")
            .fetch_value()
            .await?;
        transaction.query(
            "DELETE FROM search_index WHERE number <= (SELECT max(number) FROM search_index) - $1",
        )
        .bind(MAX_INDEXES)
        .execute()
        .await?;
        transaction.commit().await?;
        Ok(IndexId(id))
    }

    async fn load_indexed_seq(&self, index: &IndexId) -> Result<Option<ChangeSeq>, Error> {
        let indexed = self
            .readers
            .query("SELECT indexed FROM search_index WHERE id = $1")
            .bind(&index.0)
            .fetch_optional_value()
            .await?;
        Ok(indexed.map(ChangeSeq))
    }

    async fn advance_index(&self, index: &IndexId, indexed: ChangeSeq) -> Result<(), Error> {
        self.writer
            .query("UPDATE search_index SET indexed = $1 WHERE id = $2 AND indexed < $1")
            .bind(indexed.0)
            .bind(&index.0)
            .execute()
            .await?;
        Ok(())
    }

    async fn delete_index(&self, index: &IndexId) -> Result<(), Error> {
        self.writer
            .query("DELETE FROM search_index WHERE id = $1")
            .bind(&index.0)
            .execute()
            .await?;
        Ok(())
    }
}
