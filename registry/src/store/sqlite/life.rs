//! The life of names and versions, in SQL.

use a2s::api::{Action, AuditEntry, OwnerChange};
use a2s::{CapabilityName, Subject};
use async_trait::async_trait;
use jiff::Timestamp;
use semver::Version;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, Sqlite as Backend, Transaction};

use super::{Sqlite, concat_entry, find_head, relations, to_entry};
use crate::store::life::{Actor, Deed, History, LifeStore, Owned, Turn, Turned};
use crate::store::{Error, Seq};

#[async_trait]
impl LifeStore for Sqlite {
    async fn turn(
        &self,
        name: &CapabilityName,
        version: &Version,
        turn: &Turn,
        by: &Actor,
    ) -> Result<Turned, Error> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(concat_entry!("WHERE capability.name = ? AND version.version = ?"))
            .bind(name.as_str())
            .bind(version.to_string())
            .fetch_optional(&mut *transaction)
            .await?;
        let Some(row) = row else { return Ok(Turned::Unknown) };
        let entry = to_entry(&row)?;
        let owners = owners_of(&mut transaction, entry.capability.0).await?;
        if !is_owner(&owners, by) {
            return Ok(Turned::NotOwner(owners));
        }
        let (action, detail) = match turn {
            Turn::Yanked(yanked) if entry.yanked == *yanked => return Ok(Turned::Same),
            Turn::Yanked(true) => (Action::Yank, None),
            Turn::Yanked(false) => (Action::Unyank, None),
            Turn::Deprecated(words) if entry.deprecated == *words => return Ok(Turned::Same),
            Turn::Deprecated(None) => (Action::Undeprecate, None),
            Turn::Deprecated(Some(words)) => (Action::Deprecate, Some(serde_json::json!(words))),
        };
        match turn {
            Turn::Yanked(yanked) => {
                sqlx::query("UPDATE version SET yanked = ? WHERE id = ?").bind(*yanked)
            }
            Turn::Deprecated(_) => sqlx::query("UPDATE version SET deprecated = ? WHERE id = ?")
                .bind(detail.as_ref().map(ToString::to_string)),
        }
        .bind(entry.id.0)
        .execute(&mut *transaction)
        .await?;
        let (name, release) = (Some(name), Some((version, entry.digest)));
        insert_event(&mut transaction, by, Deed { action, name, release, subject: None, detail })
            .await?;
        let change = note_change(&mut transaction, entry.capability.0, by.at).await?;
        transaction.commit().await?;
        Ok(Turned::Done(change))
    }

    async fn owners(&self, name: &CapabilityName) -> Result<Vec<Subject>, Error> {
        sqlx::query_scalar::<_, String>(
            "SELECT subject FROM owner JOIN capability ON capability.id = owner.capability \
             WHERE name = ? ORDER BY subject",
        )
        .bind(name.as_str())
        .fetch_all(&self.readers)
        .await?
        .iter()
        .map(|subject| to_subject(subject))
        .collect()
    }

    async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerChange,
        by: &Actor,
    ) -> Result<Owned, Error> {
        let mut transaction = self.begin().await?;
        let capability: Option<i64> =
            sqlx::query_scalar("SELECT id FROM capability WHERE name = ?")
                .bind(name.as_str())
                .fetch_optional(&mut *transaction)
                .await?;
        let Some(capability) = capability else { return Ok(Owned::Unknown) };
        let before = owners_of(&mut transaction, capability).await?;
        if !is_owner(&before, by) {
            return Ok(Owned::NotOwner(before));
        }
        let mut after = before.clone();
        let (action, subject) = match change {
            OwnerChange::Add(subject) => {
                after.push(subject.clone());
                (Action::AddOwner, subject)
            }
            OwnerChange::Remove(subject) => {
                after.retain(|owner| owner != subject);
                (Action::RemoveOwner, subject)
            }
            OwnerChange::Transfer(subject) => {
                after = vec![subject.clone()];
                (Action::Transfer, subject)
            }
        };
        after.sort();
        after.dedup();
        if after == before {
            return Ok(Owned::Owners(before));
        }
        if after.is_empty() {
            return Ok(Owned::Last);
        }
        if action != Action::RemoveOwner && !is_subject(&mut transaction, subject).await? {
            return Ok(Owned::NoSubject(subject.clone()));
        }
        sqlx::query("DELETE FROM owner WHERE capability = ?")
            .bind(capability)
            .execute(&mut *transaction)
            .await?;
        for owner in &after {
            own(&mut transaction, capability, owner).await?;
        }
        let (name, subject) = (Some(name), Some(subject));
        let deed = Deed { action, name, release: None, subject, detail: None };
        insert_event(&mut transaction, by, deed).await?;
        transaction.commit().await?;
        Ok(Owned::Owners(after))
    }

    async fn history(&self, which: History<'_>, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        let query = match which {
            History::FeedAfter(seq) => sqlx::query(
                "SELECT * FROM event WHERE seq > ? AND digest IS NOT NULL ORDER BY seq LIMIT ?",
            )
            .bind(seq.0),
            History::AuditBefore(seq, None) => {
                sqlx::query("SELECT * FROM event WHERE seq < ? ORDER BY seq DESC LIMIT ?")
                    .bind(seq.map_or(i64::MAX, |seq| seq.0))
            }
            History::AuditBefore(seq, Some(name)) => sqlx::query(
                "SELECT * FROM event WHERE name = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
            )
            .bind(name.as_str())
            .bind(seq.map_or(i64::MAX, |seq| seq.0)),
        };
        let rows = query.bind(limit).fetch_all(&self.readers).await?;
        // One row that was broken by hand must not hide the others.
        let read = |row: &SqliteRow| {
            to_event(row)
                .inspect_err(|error| tracing::error!(%error, "an event cannot be read; left out"))
                .ok()
        };
        Ok(rows.iter().filter_map(read).collect())
    }
}

/// Chooses the live version of a capability anew, and appends a change for everything that leads
/// to it and, last, for itself: who waits for that one waits for all of them.
pub(super) async fn note_change(
    transaction: &mut Transaction<'static, Backend>,
    capability: i64,
    at: Timestamp,
) -> Result<Seq, Error> {
    let head = find_head(transaction, capability).await?;
    sqlx::query("UPDATE capability SET head = ? WHERE id = ?")
        .bind(head)
        .bind(capability)
        .execute(&mut **transaction)
        .await?;
    relations::touch_users(transaction, capability, at.as_millisecond()).await?;
    let change = sqlx::query("INSERT INTO change (capability, at) VALUES (?, ?)")
        .bind(capability)
        .bind(at.as_millisecond())
        .execute(&mut **transaction)
        .await?
        .last_insert_rowid();
    Ok(Seq(change))
}

/// Writes down who did what.
pub(super) async fn insert_event(
    transaction: &mut Transaction<'static, Backend>,
    by: &Actor,
    deed: Deed<'_>,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO event (at, actor, action, name, version, digest, subject, detail) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(by.at.as_millisecond())
    .bind(by.subject.as_str())
    .bind(deed.action.as_str())
    .bind(deed.name.map(CapabilityName::as_str))
    .bind(deed.release.map(|(version, _)| version.to_string()))
    .bind(deed.release.map(|(_, digest)| digest.to_string()))
    .bind(deed.subject.map(Subject::as_str))
    .bind(deed.detail.map(|detail| detail.to_string()))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

pub(super) async fn owners_of(
    transaction: &mut Transaction<'static, Backend>,
    capability: i64,
) -> Result<Vec<Subject>, Error> {
    sqlx::query_scalar::<_, String>(
        "SELECT subject FROM owner WHERE capability = ? ORDER BY subject",
    )
    .bind(capability)
    .fetch_all(&mut **transaction)
    .await?
    .iter()
    .map(|subject| to_subject(subject))
    .collect()
}

pub(super) async fn own(
    transaction: &mut Transaction<'static, Backend>,
    capability: i64,
    owner: &Subject,
) -> Result<(), Error> {
    sqlx::query("INSERT INTO owner (capability, subject) VALUES (?, ?)")
        .bind(capability)
        .bind(owner.as_str())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

pub(super) fn is_owner(owners: &[Subject], by: &Actor) -> bool {
    by.is_admin || owners.contains(&by.subject)
}

async fn is_subject(
    transaction: &mut Transaction<'static, Backend>,
    subject: &Subject,
) -> Result<bool, Error> {
    let found: Option<i64> = sqlx::query_scalar("SELECT 1 FROM token WHERE name = ?")
        .bind(subject.as_str())
        .fetch_optional(&mut **transaction)
        .await?;
    Ok(subject.is_owner() || found.is_some())
}

fn to_subject(text: &str) -> Result<Subject, Error> {
    Subject::new(text).map_err(Error::unavailable)
}

fn to_event(row: &SqliteRow) -> Result<AuditEntry, Error> {
    let text = |column: &str| -> Result<Option<String>, Error> { Ok(row.try_get(column)?) };
    let action: String = row.try_get("action")?;
    let detail = text("detail")?.map(|detail| serde_json::from_str(&detail)).transpose();
    let name = text("name")?.map(|name| CapabilityName::new(&name)).transpose();
    let version = text("version")?.map(|version| Version::parse(&version)).transpose();
    let digest = text("digest")?.map(|digest| digest.parse()).transpose();
    let at = Timestamp::from_millisecond(row.try_get("at")?);
    Ok(AuditEntry {
        seq: row.try_get::<i64, _>("seq")?.unsigned_abs(),
        at: at.map_err(Error::unavailable)?,
        by: text("actor")?.as_deref().map(to_subject).transpose()?,
        action: Action::named(&action)
            .ok_or_else(|| Error::unavailable(format!("nobody knows the action `{action}`")))?,
        name: name.map_err(Error::unavailable)?,
        version: version.map_err(Error::unavailable)?,
        checksum: digest.map_err(Error::unavailable)?,
        subject: text("subject")?.as_deref().map(to_subject).transpose()?,
        detail: detail.map_err(Error::unavailable)?,
    })
}
