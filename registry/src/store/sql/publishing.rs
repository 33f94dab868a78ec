//! Publishing.

use a2s::{CapabilityName, Digest};
use a2s_api::RegistryAction;
use database::Transaction;
use semver::{BuildMetadata, Version};

use super::{SqlStore, lifecycle, relations};
use crate::store::lifecycle::{AuditActor, AuditDetail};
use crate::store::row_mapping::complexity_to_number;
use crate::store::{Error, NewVersion, PublicationResult};

/// Selects the names of others with a skeleton or the same letters, the oldest first. One owner can have many
/// names that look alike, so the names of the subject are excluded here.
const LOOKALIKES: &str = "SELECT name FROM capability WHERE (skeleton = $1 OR lower_name = $2) \
     AND NOT EXISTS (SELECT 1 FROM owner WHERE capability = capability.id AND subject = $3) \
     ORDER BY id";

/// Selects the version without build metadata and those with it.
const SAME_PRECEDENCE: &str =
    "SELECT version FROM version WHERE capability = $1 AND version >= $2 AND version < $3";

/// Sums the versions that a subject has published after an event.
const USAGE_SINCE: &str = "SELECT max(event.seq), count(*), \
     CAST(coalesce(sum(octet_length(document.source)), 0) AS BIGINT) FROM event \
     JOIN capability ON capability.name = event.name \
     JOIN version ON version.capability = capability.id AND version.version = event.version \
     JOIN document ON document.version = version.id \
     WHERE event.actor = $1 AND event.action = 'publish' AND event.seq > $2";

impl SqlStore {
    pub(super) async fn publish(
        &self,
        new: &NewVersion,
        by: &AuditActor,
    ) -> Result<PublicationResult, Error> {
        let mut transaction = self.begin().await?;
        let (capability, origin) = match find_or_claim_name(&mut transaction, new, by).await? {
            Ok(owned) => owned,
            Err(refused) => return Ok(refused),
        };
        let published: Option<String> = transaction
            .query("SELECT digest FROM version WHERE capability = $1 AND version = $2")
            .bind(capability)
            .bind(new.version.to_string())
            .fetch_optional_value()
            .await?;
        let published: Option<Digest> =
            published.map(|digest| digest.parse()).transpose().map_err(Error::unavailable)?;
        if published == Some(new.digest) {
            return Ok(PublicationResult::Same);
        }
        if !by.may_change_origin(origin.as_deref()) {
            return Ok(PublicationResult::OtherOrigin(origin));
        }
        let owners = lifecycle::load_owners(&mut transaction, capability).await?;
        if !by.owns(&owners) {
            return Ok(PublicationResult::NotOwner(owners));
        }
        if let Some(published) = published {
            return Ok(PublicationResult::Conflict(published));
        }
        // A mirror copies what its source published before this rule.
        if by.source().is_none()
            && let Some(published) = find_same_precedence(&mut transaction, capability, new).await?
        {
            return Ok(PublicationResult::SamePrecedence(published));
        }
        if is_share_used_up(&mut transaction, new, by).await? {
            return Ok(PublicationResult::ShareUsedUp);
        }
        let version = insert_version(&mut transaction, capability, new, by).await?;
        let (name, release) = (Some(&new.name), Some((&new.version, new.digest)));
        let entry = AuditDetail {
            action: RegistryAction::Publish,
            name,
            release,
            subject: None,
            detail: None,
        };
        lifecycle::insert_event(&mut transaction, by, entry).await?;
        let live =
            lifecycle::find_live_version_after_publish(&mut transaction, capability, version);
        let live = live.await?;
        let change = lifecycle::append_change(&mut transaction, capability, live, by.at).await?;
        transaction.commit().await?;
        Ok(PublicationResult::Created(change))
    }
}

/// Returns the capability with this name and its origin. A free name is claimed for the publisher.
async fn find_or_claim_name(
    transaction: &mut Transaction<'_>,
    new: &NewVersion,
    by: &AuditActor,
) -> Result<Result<(i64, Option<String>), PublicationResult>, Error> {
    let slug = new.name.to_kebab();
    let known: Option<(i64, String, Option<String>)> = transaction
        .query("SELECT id, name, origin FROM capability WHERE name = $1 OR slug = $2")
        .bind(new.name.as_str())
        .bind(&slug)
        .fetch_optional()
        .await?;
    if let Some((id, name, origin)) = known {
        let is_same = name == new.name.as_str();
        return Ok(if is_same {
            Ok((id, origin))
        } else {
            Err(PublicationResult::NameTaken(name))
        });
    }
    if let Some(other) = find_lookalike(transaction, new, by).await? {
        return Ok(Err(PublicationResult::LookAlike(other)));
    }
    let capability = transaction
        .query("INSERT INTO capability (name, slug, origin) VALUES ($1, $2, $3) RETURNING id")
        .bind(new.name.as_str())
        .bind(&slug)
        .bind(by.source())
        .fetch_value()
        .await?;
    lifecycle::insert_owner(transaction, capability, &by.subject).await?;
    Ok(Ok((capability, by.source().map(str::to_owned))))
}

/// Finds a published version that differs from the new one in build metadata alone. A range cannot tell
/// them apart, so the pin `=1.0.0` would move from 1.0.0 to 1.0.0+build.
async fn find_same_precedence(
    transaction: &mut Transaction<'_>,
    capability: i64,
    new: &NewVersion,
) -> Result<Option<Version>, Error> {
    let without_build = Version { build: BuildMetadata::EMPTY, ..new.version.clone() }.to_string();
    let published: Vec<String> = transaction
        .query(SAME_PRECEDENCE)
        .bind(capability)
        .bind(&without_build)
        // `+` comes before `,`, and every other character of a version after it.
        .bind(format!("{without_build},"))
        .fetch_values()
        .await?;
    Ok(published
        .iter()
        .filter_map(|text| Version::parse(text).ok())
        .find(|version| version.cmp_precedence(&new.version).is_eq()))
}

/// Returns true when a publisher has no room for another version. Versions are never deleted, so the record
/// of a publish counts for whom it names, also after the name was handed over.
async fn is_share_used_up(
    transaction: &mut Transaction<'_>,
    new: &NewVersion,
    by: &AuditActor,
) -> Result<bool, Error> {
    let Some(share) = by.share else { return Ok(false) };
    let (versions, bytes) = count_usage(transaction, by.subject.as_str()).await?;
    let size = i64::try_from(new.source.len()).unwrap_or(i64::MAX);
    Ok(versions >= i64::from(share.versions) || bytes.saturating_add(size) > share.bytes)
}

/// Returns the number of versions that a subject has published, and the size of their documents. Adds the
/// events since the last count to the stored sums, so the cost does not grow with the sums.
async fn count_usage(
    transaction: &mut Transaction<'_>,
    subject: &str,
) -> Result<(i64, i64), Error> {
    let counted: Option<(i64, i64, i64)> = transaction
        .query("SELECT counted, versions, bytes FROM publisher_usage WHERE subject = $1")
        .bind(subject)
        .fetch_optional()
        .await?;
    let (counted, versions, bytes) = counted.unwrap_or_default();
    let (last, new_versions, new_bytes): (Option<i64>, i64, i64) =
        transaction.query(USAGE_SINCE).bind(subject).bind(counted).fetch_one().await?;
    let usage = (versions.saturating_add(new_versions), bytes.saturating_add(new_bytes));
    if let Some(last) = last {
        transaction
            .query(
                "INSERT INTO publisher_usage (subject, counted, versions, bytes) \
                 VALUES ($1, $2, $3, $4) ON CONFLICT (subject) DO UPDATE SET \
                 counted = excluded.counted, versions = excluded.versions, bytes = excluded.bytes",
            )
            .bind(subject)
            .bind(last)
            .bind(usage.0)
            .bind(usage.1)
            .execute()
            .await?;
    }
    Ok(usage)
}

/// Writes a version with its document and relations. Returns its id.
async fn insert_version(
    transaction: &mut Transaction<'_>,
    capability: i64,
    new: &NewVersion,
    by: &AuditActor,
) -> Result<i64, Error> {
    let id: i64 = transaction
        .query(
            "INSERT INTO version (capability, version, digest, complexity, permissions, published_at, origin) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
        )
        .bind(capability)
        .bind(new.version.to_string())
        .bind(new.digest.to_string())
        .bind(complexity_to_number(new.complexity))
        .bind(i64::from(new.permissions))
        .bind(by.at.as_millisecond())
        .bind(by.source())
        .fetch_value()
        .await?;
    transaction
        .query("INSERT INTO document (version, source) VALUES ($1, $2)")
        .bind(id)
        .bind(&new.source)
        .execute()
        .await?;
    relations::insert_relations(transaction, id, &new.relations).await?;
    Ok(id)
}

/// Finds a published name of other owners that a reader may confuse with the new one. The indexes of both
/// forms of a name find it, so the cost does not grow with the number of names.
async fn find_lookalike(
    transaction: &mut Transaction<'_>,
    new: &NewVersion,
    by: &AuditActor,
) -> Result<Option<CapabilityName>, Error> {
    // An admin owns every name.
    if by.is_admin {
        return Ok(None);
    }
    let names: Vec<String> = transaction
        .query(LOOKALIKES)
        .bind(new.name.to_skeleton())
        .bind(new.name.as_str().to_ascii_lowercase())
        .bind(by.subject.as_str())
        .fetch_values()
        .await?;
    // A name that cannot be read is reported where it is read.
    let mut names = names.iter().filter_map(|name| CapabilityName::new(name).ok());
    Ok(names.find(|name| new.name.is_lookalike(name)))
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Row as _};

    use super::*;
    use crate::store::RegistryStore;
    use crate::tests::database::Folder;

    #[tokio::test]
    async fn statements_of_a_publish_read_by_an_index() {
        let folder = Folder::with_file();
        let path = folder.path().join("registry.sqlite");
        let store = SqlStore::open_file(&path).await.unwrap();
        let database = folder.file().await;
        for (sql, index) in [
            (LOOKALIKES, "capability_skeleton"),
            (LOOKALIKES, "capability_lower_name"),
            (SAME_PRECEDENCE, "version>? AND version<?"),
            (USAGE_SINCE, "event_actor (actor=? AND action=? AND rowid>?)"),
        ] {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let rows = sqlx::query(explain).fetch_all(&database).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
            assert!(plan.iter().any(|step| step.contains(index)), "{sql}: {plan:#?}");
            assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{sql}: {plan:#?}");
        }
        database.close().await;
        RegistryStore::close(&store).await;
    }
}
