//! Search indexes.

use async_trait::async_trait;

use database::Transaction;

use super::SqlStore;
use crate::bm25::SparseVector;
use crate::store::embeddings::{pack, unpack};
use crate::store::indexes::{CopyChange, IndexId, IndexStore, MAX_INDEXES, PointRow};
use crate::store::{CapabilityId, ChangeSeq, Error};

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

    async fn list_index_copies(&self) -> Result<Vec<(String, ChangeSeq)>, Error> {
        let copies: Vec<(String, i64)> = self
            .readers
            .query(
                "SELECT identity, indexed FROM search_index WHERE identity IS NOT NULL \
                 ORDER BY number DESC",
            )
            .fetch_all()
            .await?;
        Ok(copies.into_iter().map(|(identity, indexed)| (identity, ChangeSeq(indexed))).collect())
    }

    async fn load_index_points(
        &self,
        index: &IndexId,
        after: CapabilityId,
        limit: u32,
    ) -> Result<Option<Vec<(CapabilityId, PointRow)>>, Error> {
        let rows: Vec<(i64, Vec<u8>, Vec<u8>, String)> = self
            .readers
            .query(
                "SELECT search_point.capability, dense, sparse, facts FROM search_point \
                 JOIN search_index ON search_index.number = search_point.search_index \
                 JOIN capability ON capability.id = search_point.capability \
                 WHERE search_index.id = $1 AND search_point.capability > $2 \
                 AND capability.head IS NOT NULL ORDER BY search_point.capability LIMIT $3",
            )
            .bind(&index.0)
            .bind(after.0)
            .bind(i64::from(limit))
            .fetch_all()
            .await?;
        let to_row = |(capability, dense, sparse, facts): (i64, Vec<u8>, Vec<u8>, String)| {
            let row = PointRow { dense: unpack(&dense)?, sparse: unpack_sparse(&sparse)?, facts };
            Some((CapabilityId(capability), row))
        };
        Ok(rows.into_iter().map(to_row).collect())
    }

    async fn save_index_points(
        &self,
        index: &IndexId,
        changes: &[CopyChange],
    ) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_unlocked().await?;
        save_changes(&mut transaction, index, changes).await?;
        Ok(transaction.commit().await?)
    }

    async fn save_index_copy(
        &self,
        index: &IndexId,
        identity: &str,
        changes: &[CopyChange],
    ) -> Result<(), Error> {
        let mut transaction = self.begin_unlocked().await?;
        save_changes(&mut transaction, index, changes).await?;
        transaction
            .query("UPDATE search_index SET identity = $1 WHERE id = $2")
            .bind(identity)
            .bind(&index.0)
            .execute()
            .await?;
        Ok(transaction.commit().await?)
    }
}

async fn save_changes(
    transaction: &mut Transaction<'_>,
    index: &IndexId,
    changes: &[CopyChange],
) -> Result<(), Error> {
    for CopyChange { capability, as_of, row } in changes {
        let query = match row {
            Some(row) => transaction
                .query(
                    "INSERT INTO search_point \
                     (search_index, capability, as_of, dense, sparse, facts) \
                     SELECT number, $2, $3, $4, $5, $6 FROM search_index WHERE id = $1 \
                     ON CONFLICT (search_index, capability) DO UPDATE SET as_of = excluded.as_of, \
                     dense = excluded.dense, sparse = excluded.sparse, facts = excluded.facts \
                     WHERE search_point.as_of <= excluded.as_of",
                )
                .bind(&index.0)
                .bind(capability.0)
                .bind(as_of.0)
                .bind(pack(&row.dense))
                .bind(pack_sparse(&row.sparse))
                .bind(&row.facts),
            None => transaction
                .query(
                    "DELETE FROM search_point WHERE capability = $2 AND as_of <= $3 AND \
                     search_index IN (SELECT number FROM search_index WHERE id = $1)",
                )
                .bind(&index.0)
                .bind(capability.0)
                .bind(as_of.0),
        };
        query.execute().await?;
    }
    Ok(())
}

fn pack_sparse(vector: &SparseVector) -> Vec<u8> {
    let terms = vector.indices.iter().zip(&vector.values);
    terms.flat_map(|(term, weight)| [term.to_le_bytes(), weight.to_le_bytes()]).flatten().collect()
}

fn unpack_sparse(bytes: &[u8]) -> Option<SparseVector> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    let (pairs, half) = numbers.as_chunks::<2>();
    let pairs =
        pairs.iter().map(|[term, weight]| (u32::from_le_bytes(*term), f32::from_le_bytes(*weight)));
    let (indices, values): (Vec<_>, Vec<_>) = pairs.unzip();
    let is_sound = rest.is_empty()
        && half.is_empty()
        && indices.is_sorted_by(|a, b| a < b)
        && values.iter().all(|weight| weight.is_finite());
    is_sound.then_some(SparseVector { indices, values })
}
