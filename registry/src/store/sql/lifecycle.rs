//! The life of names and versions.

use a2s::CapabilityName;
use a2s_api::TokenSubject;
use a2s_api::{AuditEntry, MirroredRegistry, OwnerUpdate, RegistryAction};
use async_trait::async_trait;
use database::Transaction;
use jiff::Timestamp;
use semver::Version;

use super::{SqlStore, relations};
use crate::store::lifecycle::{
    AuditActor, AuditDetail, HistoryQuery, LifecycleChange, LifecycleResult, LifecycleStore,
    OwnerResult, apply_owner_update,
};
use crate::store::row_mapping::{
    concat_entry, find_newest_version, to_entry, to_events, to_subjects,
};
use crate::store::{ChangeSeq, Error};

#[async_trait]
impl LifecycleStore for SqlStore {
    async fn change_lifecycle(
        &self,
        name: &CapabilityName,
        version: &Version,
        turn: &LifecycleChange,
        by: &AuditActor,
    ) -> Result<LifecycleResult, Error> {
        let mut transaction = self.begin().await?;
        let row = transaction
            .query(concat_entry!("WHERE capability.name = $1 AND version.version = $2"))
            .bind(name.as_str())
            .bind(version.to_string())
            .fetch_optional()
            .await?;
        let Some(row) = row else { return Ok(LifecycleResult::Unknown) };
        let entry = to_entry(&row)?;
        if by.mirror.is_some() {
            let origin: Option<String> = transaction
                .query("SELECT origin FROM version WHERE id = $1")
                .bind(entry.id.0)
                .fetch_value()
                .await?;
            if !by.may_change_origin(origin.as_deref()) || !by.matches_checksum(entry.digest) {
                return Ok(LifecycleResult::OtherOrigin(origin));
            }
        }
        let owners = load_owners(&mut transaction, entry.capability.0).await?;
        if !by.owns(&owners) {
            return Ok(LifecycleResult::NotOwner(owners));
        }
        let Some((action, detail)) = turn.to_audit_action(&entry) else {
            return Ok(LifecycleResult::Unchanged);
        };
        match turn {
            LifecycleChange::Yanked(yanked) => {
                transaction.query("UPDATE version SET yanked = $1 WHERE id = $2").bind(*yanked)
            }
            LifecycleChange::Deprecated(_) => transaction
                .query("UPDATE version SET deprecated = $1 WHERE id = $2")
                .bind(detail.as_ref().map(ToString::to_string)),
        }
        .bind(entry.id.0)
        .execute()
        .await?;
        let (name, release) = (Some(name), Some((version, entry.digest)));
        insert_event(
            &mut transaction,
            by,
            AuditDetail { action, name, release, subject: None, detail },
        )
        .await?;
        let live = find_live_version(&mut transaction, entry.capability.0).await?;
        let change = append_change(&mut transaction, entry.capability.0, live, by.at).await?;
        transaction.commit().await?;
        Ok(LifecycleResult::Changed(change))
    }

    async fn list_owners(&self, name: &CapabilityName) -> Result<Vec<TokenSubject>, Error> {
        self.readers
            .query(
                "SELECT subject FROM owner JOIN capability ON capability.id = owner.capability \
             WHERE name = $1 ORDER BY subject",
            )
            .bind(name.as_str())
            .fetch_values()
            .await
            .map_err(Error::from)
            .and_then(|texts: Vec<String>| to_subjects(&texts))
    }

    async fn list_mirrors(&self) -> Result<Vec<MirroredRegistry>, Error> {
        const SQL: &str = "SELECT origin, count(DISTINCT capability), count(*), max(published_at) \
             FROM version WHERE origin IS NOT NULL GROUP BY origin ORDER BY origin";
        let rows: Vec<(String, i64, i64, i64)> = self.readers.query(SQL).fetch_all().await?;
        let to_mirror = |(source, capabilities, versions, latest): (String, i64, i64, i64)| {
            let latest_at = Timestamp::from_millisecond(latest).unwrap_or_default();
            let [capabilities, versions] = [capabilities, versions].map(i64::unsigned_abs);
            MirroredRegistry { source, capabilities, versions, latest_at }
        };
        Ok(rows.into_iter().map(to_mirror).collect())
    }

    async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerUpdate,
        by: &AuditActor,
    ) -> Result<OwnerResult, Error> {
        let mut transaction = self.begin().await?;
        let (capability, before) = match find_owned(&mut transaction, name, by).await? {
            Ownership::Owned { capability, owners } => (capability, owners),
            Ownership::Others(owners) => return Ok(OwnerResult::NotOwner(owners)),
            Ownership::Unknown => return Ok(OwnerResult::Unknown),
        };
        let (action, subject, after) = apply_owner_update(&before, change);
        if after == before {
            return Ok(OwnerResult::Owners(before));
        }
        if after.is_empty() {
            return Ok(OwnerResult::LastOwner);
        }
        if action != RegistryAction::RemoveOwner && !is_subject(&mut transaction, subject).await? {
            return Ok(OwnerResult::UnknownSubject(subject.clone()));
        }
        transaction
            .query("DELETE FROM owner WHERE capability = $1")
            .bind(capability)
            .execute()
            .await?;
        for owner in &after {
            insert_owner(&mut transaction, capability, owner).await?;
        }
        let (name, subject) = (Some(name), Some(subject));
        let entry = AuditDetail { action, name, release: None, subject, detail: None };
        insert_event(&mut transaction, by, entry).await?;
        transaction.commit().await?;
        Ok(OwnerResult::Owners(after))
    }

    async fn list_history(
        &self,
        which: HistoryQuery<'_>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, Error> {
        let query = match which {
            HistoryQuery::FeedAfter(seq) => self.readers.query(
                "SELECT * FROM event WHERE seq > $1 AND digest IS NOT NULL ORDER BY seq LIMIT $2",
            )
            .bind(seq.0),
            HistoryQuery::AuditBefore(seq, None) => {
                self.readers.query("SELECT * FROM event WHERE seq < $1 ORDER BY seq DESC LIMIT $2")
                    .bind(seq.map_or(i64::MAX, |seq| seq.0))
            }
            HistoryQuery::AuditBefore(seq, Some(name)) => self.readers.query(
                "SELECT * FROM event WHERE name = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
            )
            .bind(name.as_str())
            .bind(seq.map_or(i64::MAX, |seq| seq.0)),
        };
        let rows = query.bind(i64::from(limit)).fetch_all().await?;
        Ok(to_events(&rows))
    }

    async fn trim_history(&self, before: Timestamp, by: &AuditActor) -> Result<u64, Error> {
        let mut transaction = self.begin().await?;
        let removed = transaction.query(
            "DELETE FROM event WHERE at < $1 AND (digest IS NULL OR action <> 'publish' AND EXISTS (\
                 SELECT 1 FROM event AS later \
                 WHERE later.name = event.name AND later.version = event.version \
                   AND later.seq > event.seq AND later.action <> 'publish' \
                   AND (later.action IN ('yank', 'unyank')) = (event.action IN ('yank', 'unyank'))))",
        )
        .bind(before.as_millisecond())
        .execute()
        .await?;
        // An index that follows needs the last change of each capability alone.
        transaction
            .query(
                "DELETE FROM change WHERE at < $1 AND EXISTS (\
                 SELECT 1 FROM change AS later \
                 WHERE later.capability = change.capability AND later.seq > change.seq)",
            )
            .bind(before.as_millisecond())
            .execute()
            .await?;
        if removed > 0 {
            let detail = Some(serde_json::json!({ "before": before, "removed": removed }));
            let action = RegistryAction::TrimAudit;
            let entry = AuditDetail { action, name: None, release: None, subject: None, detail };
            insert_event(&mut transaction, by, entry).await?;
        }
        transaction.commit().await?;
        Ok(removed)
    }
}

/// Makes a version the live one of a capability, and appends a change for all its dependents and, last, for
/// itself: a caller that waits for this change waits for all of them.
pub(super) async fn append_change(
    transaction: &mut Transaction<'_>,
    capability: i64,
    live: Option<i64>,
    at: Timestamp,
) -> Result<ChangeSeq, Error> {
    transaction
        .query("UPDATE capability SET head = $1 WHERE id = $2")
        .bind(live)
        .bind(capability)
        .execute()
        .await?;
    relations::append_dependent_changes(transaction, capability, at.as_millisecond()).await?;
    let change = transaction
        .query("INSERT INTO change (capability, at) VALUES ($1, $2) RETURNING seq")
        .bind(capability)
        .bind(at.as_millisecond())
        .fetch_value()
        .await?;
    Ok(ChangeSeq(change))
}

/// Returns the live version of a capability.
async fn find_live_version(
    transaction: &mut Transaction<'_>,
    capability: i64,
) -> Result<Option<i64>, Error> {
    let rows = transaction
        .query("SELECT id, version FROM version WHERE capability = $1 AND NOT yanked")
        .bind(capability)
        .fetch_all()
        .await?;
    find_newest_version(&rows)
}

/// Returns the live version of a capability after one more was published: it is that one, or the live one
/// of before. So the cost does not grow with the number of versions.
pub(super) async fn find_live_version_after_publish(
    transaction: &mut Transaction<'_>,
    capability: i64,
    published: i64,
) -> Result<Option<i64>, Error> {
    let rows = transaction
        .query(
            "SELECT id, version FROM version WHERE NOT yanked \
             AND id IN ($1, (SELECT head FROM capability WHERE id = $2))",
        )
        .bind(published)
        .bind(capability)
        .fetch_all()
        .await?;
    find_newest_version(&rows)
}

/// Writes an audit entry.
pub(super) async fn insert_event(
    transaction: &mut Transaction<'_>,
    by: &AuditActor,
    entry: AuditDetail<'_>,
) -> Result<(), Error> {
    transaction
        .query(
            "INSERT INTO event (at, actor, action, name, version, digest, subject, detail) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(by.at.as_millisecond())
        .bind(by.subject.as_str())
        .bind(entry.action.as_str())
        .bind(entry.name.map(CapabilityName::as_str))
        .bind(entry.release.map(|(version, _)| version.to_string()))
        .bind(entry.release.map(|(_, digest)| digest.to_string()))
        .bind(entry.subject.map(TokenSubject::as_str))
        .bind(entry.detail.map(|detail| detail.to_string()))
        .execute()
        .await?;
    Ok(())
}

/// A capability by its name, for an actor who wants to change it.
pub(super) enum Ownership {
    /// The actor is one of the owners.
    Owned { capability: i64, owners: Vec<TokenSubject> },
    /// The name belongs to others.
    Others(Vec<TokenSubject>),
    /// There is no such capability.
    Unknown,
}

pub(super) async fn find_owned(
    transaction: &mut Transaction<'_>,
    name: &CapabilityName,
    by: &AuditActor,
) -> Result<Ownership, Error> {
    let capability: Option<i64> = transaction
        .query("SELECT id FROM capability WHERE name = $1")
        .bind(name.as_str())
        .fetch_optional_value()
        .await?;
    let Some(capability) = capability else { return Ok(Ownership::Unknown) };
    let owners = load_owners(transaction, capability).await?;
    Ok(match by.owns(&owners) {
        true => Ownership::Owned { capability, owners },
        false => Ownership::Others(owners),
    })
}

pub(super) async fn load_owners(
    transaction: &mut Transaction<'_>,
    capability: i64,
) -> Result<Vec<TokenSubject>, Error> {
    transaction
        .query("SELECT subject FROM owner WHERE capability = $1 ORDER BY subject")
        .bind(capability)
        .fetch_values()
        .await
        .map_err(Error::from)
        .and_then(|texts: Vec<String>| to_subjects(&texts))
}

pub(super) async fn insert_owner(
    transaction: &mut Transaction<'_>,
    capability: i64,
    owner: &TokenSubject,
) -> Result<(), Error> {
    transaction
        .query("INSERT INTO owner (capability, subject) VALUES ($1, $2)")
        .bind(capability)
        .bind(owner.as_str())
        .execute()
        .await?;
    Ok(())
}

async fn is_subject(
    transaction: &mut Transaction<'_>,
    subject: &TokenSubject,
) -> Result<bool, Error> {
    let found: bool = transaction
        .query("SELECT EXISTS (SELECT 1 FROM token WHERE name = $1)")
        .bind(subject.as_str())
        .fetch_value()
        .await?;
    Ok(subject.is_owner() || found)
}
