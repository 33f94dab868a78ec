//! Accepted intents.

use std::collections::BTreeMap;

use a2s::{CapabilityName, Digest};
use a2s_api::RegistryAction;
use async_trait::async_trait;
use database::Transaction;
use jiff::Timestamp;

use super::lifecycle::Ownership;
use super::{SqlStore, lifecycle};
use crate::learned_intents::{AcceptedIntent, LearnedMean, MAX_VECTORS};
use crate::store::embeddings::{pack, unpack};
use crate::store::learning::{ForgetResult, LearningStore, NewIntent};
use crate::store::lifecycle::{AuditActor, AuditDetail};
use crate::store::{CapabilityId, ChangeSeq, Error};

#[async_trait]
impl LearningStore for SqlStore {
    async fn learn_intent(&self, new: &NewIntent) -> Result<bool, Error> {
        let at = new.at.as_millisecond();
        // Reports on one capability wait for each other, and for no other writer.
        let mut transaction = self.begin_unlocked().await?;
        let capability: Option<i64> = transaction
            .query("SELECT id FROM capability WHERE name = $1 {FOR NO KEY UPDATE}")
            .bind(new.name.as_str())
            .fetch_optional_value()
            .await?;
        let Some(capability) = capability else { return Ok(false) };
        let mut is_new = false;
        for (embedder, vector) in &new.vectors {
            transaction
                .query(
                    "INSERT INTO learned (capability, embedder, reporter, slot, vector, at) \
                     VALUES ($1, $2, $3, $4, $5, $6) \
                     ON CONFLICT (capability, embedder, reporter, slot) \
                     DO UPDATE SET vector = excluded.vector, at = excluded.at",
                )
                .bind(capability)
                .bind(embedder)
                .bind(i64::from(new.reporter))
                .bind(i64::from(new.slot))
                .bind(pack(&Some(vector.clone())))
                .bind(at)
                .execute()
                .await?;
            remove_surplus(&mut transaction, capability, embedder).await?;
            let used = load_mean(&mut transaction, capability, embedder).await?;
            is_new |=
                compute_mean(&mut transaction, capability, embedder).await?.differs_from(&used);
        }
        transaction.commit().await?;
        if !is_new {
            return Ok(false);
        }
        // A transaction of its own, because changes are appended under the lock, which comes first.
        let mut transaction = self.begin().await?;
        for embedder in new.vectors.keys() {
            let mean = compute_mean(&mut transaction, capability, embedder).await?;
            save_mean(&mut transaction, capability, embedder, mean).await?;
        }
        append_own_change(&mut transaction, capability, at).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn load_learned(
        &self,
        capabilities: &[CapabilityId],
        embedder: &str,
    ) -> Result<BTreeMap<CapabilityId, LearnedMean>, Error> {
        let rows: Vec<(i64, Vec<u8>)> = self
            .readers
            .query(
                "SELECT capability, vector FROM learned_mean \
                 WHERE embedder = $2 AND capability {among $1}",
            )
            .bind_list(capabilities.iter().map(|id| id.0))
            .bind(embedder)
            .fetch_all()
            .await?;
        let to_mean = |(id, vector): (i64, Vec<u8>)| Some((CapabilityId(id), read_mean(&vector)?));
        Ok(rows.into_iter().filter_map(to_mean).collect())
    }

    async fn load_learned_of_documents(
        &self,
        documents: &[Digest],
        embedder: &str,
    ) -> Result<BTreeMap<Digest, LearnedMean>, Error> {
        let rows: Vec<(String, Vec<u8>)> = self
            .readers
            .query(
                "SELECT digest, vector FROM learned_mean \
                 JOIN version ON version.capability = learned_mean.capability \
                 WHERE embedder = $2 AND digest {among $1}",
            )
            .bind_list(documents.iter().map(Digest::to_string))
            .bind(embedder)
            .fetch_all()
            .await?;
        let to_mean =
            |(digest, vector): (String, Vec<u8>)| Some((digest.parse().ok()?, read_mean(&vector)?));
        Ok(rows.into_iter().filter_map(to_mean).collect())
    }

    async fn forget_learned(
        &self,
        name: &CapabilityName,
        by: &AuditActor,
    ) -> Result<ForgetResult, Error> {
        let mut transaction = self.begin().await?;
        let capability = match lifecycle::find_owned(&mut transaction, name, by).await? {
            Ownership::Owned { capability, .. } => capability,
            Ownership::Others(owners) => return Ok(ForgetResult::NotOwner(owners)),
            Ownership::Unknown => return Ok(ForgetResult::Unknown),
        };
        let mut removed = 0;
        for delete in [
            "DELETE FROM learned WHERE capability = $1",
            "DELETE FROM learned_mean WHERE capability = $1",
        ] {
            removed += transaction.query(delete).bind(capability).execute().await?;
        }
        if removed == 0 {
            return Ok(ForgetResult::Unchanged);
        }
        let action = RegistryAction::ForgetIntents;
        let entry =
            AuditDetail { action, name: Some(name), release: None, subject: None, detail: None };
        lifecycle::insert_event(&mut transaction, by, entry).await?;
        let change =
            append_own_change(&mut transaction, capability, by.at.as_millisecond()).await?;
        transaction.commit().await?;
        Ok(ForgetResult::Forgotten(change))
    }

    async fn set_learning(&self, is_on: bool, at: Timestamp) -> Result<(), Error> {
        let was_on: bool = self.readers.query("SELECT learns FROM registry").fetch_value().await?;
        if was_on == is_on {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        let changed = transaction
            .query("UPDATE registry SET learns = $1 WHERE learns <> $1")
            .bind(is_on)
            .execute()
            .await?;
        if changed > 0 {
            transaction
                .query(
                    "INSERT INTO change (capability, at) SELECT DISTINCT capability, CAST($1 AS bigint) \
                     FROM learned_mean ORDER BY capability",
                )
                .bind(at.as_millisecond())
                .execute()
                .await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// Removes the oldest vector of the reporter with the most vectors while a capability has too many. So a
/// reporter does not displace the vectors of those with fewer.
async fn remove_surplus(
    transaction: &mut Transaction<'_>,
    capability: i64,
    embedder: &str,
) -> Result<(), Error> {
    let count: i64 = transaction
        .query("SELECT count(*) FROM learned WHERE capability = $1 AND embedder = $2")
        .bind(capability)
        .bind(embedder)
        .fetch_value()
        .await?;
    for _ in MAX_VECTORS..count {
        transaction
            .query(
                "DELETE FROM learned WHERE capability = $1 AND embedder = $2 AND (reporter, slot) IN \
                 (SELECT reporter, slot FROM learned WHERE capability = $1 AND embedder = $2 \
                 AND reporter = (SELECT reporter FROM learned \
                 WHERE capability = $1 AND embedder = $2 \
                 GROUP BY reporter ORDER BY count(*) DESC, min(at), reporter LIMIT 1) \
                 ORDER BY at, slot LIMIT 1)",
            )
            .bind(capability)
            .bind(embedder)
            .execute()
            .await?;
    }
    Ok(())
}

/// The mean of the stored vectors. Their order is fixed, so that the sum always is the same.
async fn compute_mean(
    transaction: &mut Transaction<'_>,
    capability: i64,
    embedder: &str,
) -> Result<LearnedMean, Error> {
    let rows: Vec<(i64, Vec<u8>)> = transaction
        .query(
            "SELECT reporter, vector FROM learned WHERE capability = $1 AND embedder = $2 \
             ORDER BY reporter, slot",
        )
        .bind(capability)
        .bind(embedder)
        .fetch_all()
        .await?;
    let to_intent = |(reporter, vector): (i64, Vec<u8>)| {
        Some(AcceptedIntent { reporter: u8::try_from(reporter).ok()?, vector: unpack(&vector)?? })
    };
    Ok(LearnedMean::from_intents(&rows.into_iter().filter_map(to_intent).collect::<Vec<_>>()))
}

async fn load_mean(
    transaction: &mut Transaction<'_>,
    capability: i64,
    embedder: &str,
) -> Result<LearnedMean, Error> {
    let used: Option<Vec<u8>> = transaction
        .query("SELECT vector FROM learned_mean WHERE capability = $1 AND embedder = $2")
        .bind(capability)
        .bind(embedder)
        .fetch_optional_value()
        .await?;
    Ok(used.as_deref().and_then(read_mean).unwrap_or_default())
}

async fn save_mean(
    transaction: &mut Transaction<'_>,
    capability: i64,
    embedder: &str,
    mean: LearnedMean,
) -> Result<(), Error> {
    transaction
        .query(
            "INSERT INTO learned_mean (capability, embedder, vector) VALUES ($1, $2, $3) \
             ON CONFLICT (capability, embedder) DO UPDATE SET vector = excluded.vector",
        )
        .bind(capability)
        .bind(embedder)
        .bind(pack(&Some(mean.0)))
        .execute()
        .await?;
    Ok(())
}

fn read_mean(vector: &[u8]) -> Option<LearnedMean> {
    unpack(vector)?.map(LearnedMean)
}

/// Appends a change for the capability alone: its dependents have none of its intents.
async fn append_own_change(
    transaction: &mut Transaction<'_>,
    capability: i64,
    at: i64,
) -> Result<ChangeSeq, Error> {
    let change = transaction
        .query("INSERT INTO change (capability, at) VALUES ($1, $2) RETURNING seq")
        .bind(capability)
        .bind(at)
        .fetch_value()
        .await?;
    Ok(ChangeSeq(change))
}
