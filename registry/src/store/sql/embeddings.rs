//! The cache of vectors.

use std::collections::BTreeMap;

use a2s::Digest;
use async_trait::async_trait;

use super::SqlStore;
use crate::embed::Embedding;
use crate::store::Error;
use crate::store::embeddings::{EmbeddingStore, MAX_EMBEDDINGS, pack, unpack};

#[async_trait]
impl EmbeddingStore for SqlStore {
    async fn load_embeddings(&self, keys: &[Digest]) -> Result<BTreeMap<Digest, Embedding>, Error> {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = self
            .readers
            .query("SELECT key, vector FROM embedding WHERE key {among_hex $1}")
            .bind_list(keys.iter().map(Digest::to_hex))
            .fetch_all()
            .await?;
        let rows = BTreeMap::from_iter(rows);
        let found = keys.iter().filter_map(|key| {
            // A vector that was broken by hand is as good as none.
            Some((*key, unpack(rows.get(key.as_bytes().as_slice())?)?))
        });
        Ok(found.collect())
    }

    async fn save_embeddings(&self, new: &[(Digest, Embedding)]) -> Result<(), Error> {
        // Each key once, and in one order for all who write, so that none waits for another in a
        // circle.
        let new: BTreeMap<_, _> = new.iter().map(|(key, vector)| (key, vector)).collect();
        let mut transaction = self.begin_unlocked().await?;
        for (key, vector) in new {
            transaction
                .query(
                    "INSERT INTO embedding (key, vector) VALUES ($1, $2) \
                     ON CONFLICT (key) DO UPDATE SET vector = excluded.vector",
                )
                .bind(key.as_bytes().as_slice())
                .bind(pack(vector))
                .execute()
                .await?;
        }
        transaction
            .query(
                "DELETE FROM embedding WHERE id IN (SELECT id FROM embedding \
                 WHERE id <= (SELECT max(id) FROM embedding) - $1 {FOR UPDATE SKIP LOCKED})",
            )
            .bind(MAX_EMBEDDINGS)
            .execute()
            .await?;
        transaction.commit().await?;
        Ok(())
    }
}
