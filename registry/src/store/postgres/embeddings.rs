//! The cache of vectors in PostgreSQL.

use std::collections::BTreeMap;

use a2s::Digest;
use async_trait::async_trait;
use sqlx::Row as _;

use super::PostgresStore;
use crate::embed::Embedding;
use crate::store::Error;
use crate::store::embeddings::{EmbeddingStore, MAX_EMBEDDINGS, pack, unpack};
use crate::store::row_mapping::RowColumns as _;

#[async_trait]
impl EmbeddingStore for PostgresStore {
    async fn load_embeddings(&self, keys: &[Digest]) -> Result<BTreeMap<Digest, Embedding>, Error> {
        let keys: Vec<_> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let rows = sqlx::query(
            "SELECT encode(key, 'hex') AS key, vector FROM embedding WHERE key = ANY($1)",
        )
        .bind(keys)
        .fetch_all(&self.pool)
        .await?;
        let mut found = BTreeMap::new();
        for row in rows {
            let key = row.text("key")?.parse().map_err(Error::unavailable)?;
            // A vector that was broken by hand is as good as none.
            if let Some(vector) = unpack(row.try_get("vector")?) {
                found.insert(key, vector);
            }
        }
        Ok(found)
    }

    async fn save_embeddings(&self, new: &[(Digest, Embedding)]) -> Result<(), Error> {
        // Each key once, and in one order for all who write, so that none waits for another in a
        // circle.
        let new: BTreeMap<_, _> =
            new.iter().map(|(key, vector)| (key.as_bytes().to_vec(), pack(vector))).collect();
        let (keys, vectors): (Vec<_>, Vec<_>) = new.into_iter().unzip();
        let mut transaction = self.begin_unlocked().await?;
        sqlx::query(
            "INSERT INTO embedding (key, vector) SELECT * FROM unnest($1::bytea[], $2::bytea[]) \
             ON CONFLICT (key) DO UPDATE SET vector = excluded.vector",
        )
        .bind(keys)
        .bind(vectors)
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "DELETE FROM embedding WHERE id IN (SELECT id FROM embedding \
             WHERE id <= (SELECT max(id) FROM embedding) - $1 FOR UPDATE SKIP LOCKED)",
        )
        .bind(MAX_EMBEDDINGS)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }
}
