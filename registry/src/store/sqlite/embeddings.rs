//! The cache of vectors in SQLite.

use std::collections::BTreeMap;

use a2s::Digest;
use async_trait::async_trait;
use sqlx::Row as _;

use super::{Error, SqliteStore};
use crate::embed::Embedding;
use crate::store::embeddings::{EmbeddingStore, MAX_EMBEDDINGS, pack, unpack};

#[async_trait]
impl EmbeddingStore for SqliteStore {
    async fn load_embeddings(&self, keys: &[Digest]) -> Result<BTreeMap<Digest, Embedding>, Error> {
        let keys = keys.iter().map(Digest::to_hex).collect::<Vec<_>>();
        let rows = sqlx::query(
            "SELECT lower(hex(key)) AS key, vector FROM embedding \
             WHERE key IN (SELECT unhex(value) FROM json_each(?))",
        )
        .bind(serde_json::Value::from(keys).to_string())
        .fetch_all(&self.readers)
        .await?;
        let mut found = BTreeMap::new();
        for row in rows {
            let key = row.try_get::<String, _>("key")?.parse().map_err(Error::unavailable)?;
            // A vector that was broken by hand is as good as none.
            if let Some(vector) = unpack(row.try_get("vector")?) {
                found.insert(key, vector);
            }
        }
        Ok(found)
    }

    async fn save_embeddings(&self, new: &[(Digest, Embedding)]) -> Result<(), Error> {
        let mut transaction = self.begin().await?;
        for (key, vector) in new {
            sqlx::query(
                "INSERT INTO embedding (key, vector) VALUES (?, ?) \
                 ON CONFLICT (key) DO UPDATE SET vector = excluded.vector",
            )
            .bind(key.as_bytes().as_slice())
            .bind(pack(vector))
            .execute(&mut *transaction)
            .await?;
        }
        sqlx::query("DELETE FROM embedding WHERE id <= (SELECT max(id) FROM embedding) - ?")
            .bind(MAX_EMBEDDINGS)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }
}
