//! Relations between documents.

use std::borrow::Cow;

use a2s::{CapabilityName, Domain, TaskFormat};
use a2s_api::ServiceSummary;
use async_trait::async_trait;
use database::{Row, Transaction};

use super::SqlStore;
use crate::store::dependency_rows::{
    PortDirection, RULES, RelationRows, RelationStore, ServiceQuery, ServiceUse, VersionScope,
};
use crate::store::row_mapping::{
    add_permissions, add_titles, concat_entry, to_entries, to_services,
};
use crate::store::{Error, VersionEntry, VersionId};

#[async_trait]
impl RelationStore for SqlStore {
    async fn replace_relations(&self, rows: &[(VersionId, RelationRows)]) -> Result<(), Error> {
        let mut transaction = self.begin().await?;
        for (id, relations) in rows {
            for delete in [
                "DELETE FROM dependency WHERE version = $1",
                "DELETE FROM service WHERE version = $1",
                "DELETE FROM permission WHERE version = $1",
                "DELETE FROM port WHERE version = $1",
                "DELETE FROM derived WHERE version = $1",
            ] {
                transaction.query(delete).bind(id.0).execute().await?;
            }
            insert_relations(&mut transaction, id.0, relations).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    async fn list_versions_after(
        &self,
        after: VersionId,
        which: VersionScope,
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error> {
        // With `All`, no rows count as current.
        let rules = match which {
            VersionScope::All => None,
            VersionScope::WithoutCurrentRows => Some(RULES),
        };
        let rows = self
            .readers
            .query(concat_entry!(
                "WHERE version.id > $1 AND NOT EXISTS \
             (SELECT 1 FROM derived WHERE derived.version = version.id AND rules = $2) \
             ORDER BY version.id LIMIT $3"
            ))
            .bind(after.0)
            .bind(rules)
            .bind(i64::from(limit))
            .fetch_all()
            .await?;
        Ok(to_entries(&rows))
    }

    async fn list_dependents(
        &self,
        names: &[CapabilityName],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error> {
        let rows = self.readers.query(concat_entry!(
            "WHERE version.id IN (SELECT version FROM dependency WHERE uses {among $1}) ORDER BY yanked, version.id DESC LIMIT $2"
        ))
        .bind_list(names.iter().map(CapabilityName::as_str))
        .bind(i64::from(limit))
        .fetch_all()
        .await?;
        Ok(to_entries(&rows))
    }

    async fn list_services(&self, hosts: ServiceQuery<'_>) -> Result<Vec<ServiceSummary>, Error> {
        // The parts must be of one moment.
        let mut transaction = self.readers.begin_snapshot().await?;
        let counts: Vec<Row> = match hosts {
            ServiceQuery::AfterHost(host, limit) => transaction
                .query(
                    "SELECT host, count(DISTINCT version) AS capabilities FROM service \
                     WHERE host > $1 AND EXISTS (SELECT 1 FROM capability WHERE head = version) \
                     GROUP BY host ORDER BY host LIMIT $2",
                )
                .bind(before_nul(host.unwrap_or_default()))
                .bind(i64::from(limit)),
            ServiceQuery::ByHosts(hosts) => transaction
                .query(
                    "SELECT host, count(DISTINCT version) AS capabilities FROM service \
                     WHERE host {among $1} \
                     AND EXISTS (SELECT 1 FROM capability WHERE head = version) \
                     GROUP BY host ORDER BY host",
                )
                .bind_list(hosts.iter().map(Domain::as_str)),
        }
        .fetch_all()
        .await?;
        let mut services = to_services(&counts)?;
        let hosts: Vec<String> = services.keys().cloned().collect();
        let titles = transaction
            .query(
                "SELECT host, title, format FROM service WHERE host {among $1} \
             AND EXISTS (SELECT 1 FROM capability WHERE head = version) \
             GROUP BY host, title, format ORDER BY count(*) DESC, title",
            )
            .bind_list(hosts.iter().map(String::as_str))
            .fetch_all()
            .await?;
        add_titles(&mut services, &titles)?;
        let permissions = transaction
            .query(
                "SELECT DISTINCT host, permission FROM service \
             JOIN permission ON permission.version = service.version WHERE host {among $1} \
             AND EXISTS (SELECT 1 FROM capability WHERE head = service.version) \
             ORDER BY permission",
            )
            .bind_list(hosts.iter().map(String::as_str))
            .fetch_all()
            .await?;
        add_permissions(&mut services, &permissions)?;
        Ok(services.into_values().collect())
    }

    async fn live_versions_of_service(
        &self,
        host: &Domain,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error> {
        let rows = self
            .readers
            .query(concat_entry!(
                "WHERE version.id = capability.head AND capability.name > $1 \
             AND version.id IN (SELECT version FROM service WHERE host = $2) \
             ORDER BY capability.name LIMIT $3"
            ))
            .bind(before_nul(after.unwrap_or_default()))
            .bind(host.as_str())
            .bind(i64::from(limit))
            .fetch_all()
            .await?;
        Ok(to_entries(&rows))
    }

    async fn live_versions_with_word(
        &self,
        hosts: &[Domain],
        words: &[&str],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error> {
        let mut found = Vec::new();
        for word in words {
            let rows = self
                .readers
                .query(concat_entry!(
                    "WHERE version.id = capability.head AND capability.name LIKE $1 \
                     AND version.id IN (SELECT version FROM service WHERE host {among $2}) \
                     ORDER BY capability.name LIMIT $3"
                ))
                .bind(format!("%{word}%"))
                .bind_list(hosts.iter().map(Domain::as_str))
                .bind(i64::from(limit))
                .fetch_all()
                .await?;
            found.extend(to_entries(&rows));
        }
        Ok(found)
    }

    async fn live_versions_with_port(
        &self,
        side: PortDirection,
        names: &[String],
        limit: u32,
    ) -> Result<Vec<VersionEntry>, Error> {
        let rows = self.readers.query(concat_entry!(
            "WHERE version.id = capability.head AND version.id IN \
             (SELECT version FROM port WHERE side = $1 AND name {among $2}) ORDER BY capability.name LIMIT $3"
        ))
        .bind(side as i64)
        .bind_list(names.iter().map(String::as_str))
        .bind(i64::from(limit))
        .fetch_all()
        .await?;
        Ok(to_entries(&rows))
    }
}

/// Writes the rows of a version that has none.
pub(super) async fn insert_relations(
    transaction: &mut Transaction<'_>,
    version: i64,
    relations: &RelationRows,
) -> Result<(), Error> {
    for name in &relations.uses {
        transaction
            .query("INSERT INTO dependency (version, uses) VALUES ($1, $2)")
            .bind(version)
            .bind(name.as_str())
            .execute()
            .await?;
    }
    for ServiceUse { host, title, format } in &relations.services {
        transaction
            .query("INSERT INTO service (version, host, title, format) VALUES ($1, $2, $3, $4)")
            .bind(version)
            .bind(host.as_str())
            .bind(title.as_deref().map(without_nul))
            .bind(format.map(TaskFormat::as_str))
            .execute()
            .await?;
    }
    for permission in &relations.permissions {
        transaction
            .query("INSERT INTO permission (version, permission) VALUES ($1, $2)")
            .bind(version)
            .bind(permission.as_str())
            .execute()
            .await?;
    }
    for (side, name) in &relations.ports {
        transaction
            .query("INSERT INTO port (version, side, name) VALUES ($1, $2, $3)")
            .bind(version)
            .bind(*side as i64)
            .bind(name)
            .execute()
            .await?;
    }
    transaction
        .query("INSERT INTO derived (version, rules) VALUES ($1, $2)")
        .bind(version)
        .bind(RULES)
        .execute()
        .await?;
    Ok(())
}

/// Appends a change for every direct and indirect dependent of this capability, because its permissions and
/// formats may have changed.
pub(super) async fn append_dependent_changes(
    transaction: &mut Transaction<'_>,
    capability: i64,
    at: i64,
) -> Result<(), Error> {
    transaction.query(
        "WITH RECURSIVE above (id, name) AS ( \
             SELECT id, name FROM capability WHERE id = $1 \
             UNION \
             SELECT parent.id, parent.name FROM above \
             JOIN dependency ON dependency.uses = above.name \
             JOIN version ON version.id = dependency.version \
             JOIN capability AS parent ON parent.id = version.capability) \
         INSERT INTO change (capability, at) SELECT id, CAST($2 AS bigint) FROM above WHERE id <> $1",
    )
    .bind(capability)
    .bind(at)
    .execute()
    .await?;
    Ok(())
}

/// A text for comparisons. PostgreSQL accepts no NUL in a text, and names contain none, so the part before
/// a NUL gives the same order as the whole.
pub(super) fn before_nul(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// Replaces NUL characters in a text for display, which may come from a document.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
