//! Relations between documents, in SQL.

use a2s::api::Service;
use a2s::{CapabilityName, Domain, Format};
use async_trait::async_trait;
use sqlx::{Sqlite as Backend, Transaction};

use super::Sqlite;
use crate::store::relations::{Hosts, RULES, RelationStore, Relations, ServiceUse, Side, Which};
use crate::store::rows::{add_permissions, add_titles, concat_entry, to_entries, to_services};
use crate::store::{Entry, Error, VersionId};

#[async_trait]
impl RelationStore for Sqlite {
    async fn relate(&self, rows: &[(VersionId, Relations)]) -> Result<(), Error> {
        let mut transaction = self.begin().await?;
        for (id, relations) in rows {
            for delete in [
                "DELETE FROM dependency WHERE version = ?",
                "DELETE FROM service WHERE version = ?",
                "DELETE FROM permission WHERE version = ?",
                "DELETE FROM port WHERE version = ?",
                "DELETE FROM derived WHERE version = ?",
            ] {
                sqlx::query(delete).bind(id.0).execute(&mut *transaction).await?;
            }
            insert(&mut transaction, id.0, relations).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    async fn versions_behind(
        &self,
        after: VersionId,
        which: Which,
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        // With `All`, no rows count as current.
        let rules = match which {
            Which::All => None,
            Which::Unrelated => Some(RULES),
        };
        let rows = sqlx::query(concat_entry!(
            "WHERE version.id > ? AND NOT EXISTS \
             (SELECT 1 FROM derived WHERE derived.version = version.id AND rules = ?) \
             ORDER BY version.id LIMIT ?"
        ))
        .bind(after.0)
        .bind(rules)
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        Ok(to_entries(&rows))
    }

    async fn users(&self, names: &[CapabilityName], limit: u32) -> Result<Vec<Entry>, Error> {
        let rows = sqlx::query(concat_entry!(
            "WHERE yanked = 0 AND version.id IN \
             (SELECT version FROM dependency WHERE uses IN (SELECT value FROM json_each(?))) \
             ORDER BY version.id DESC LIMIT ?"
        ))
        .bind(to_json(names.iter().map(CapabilityName::as_str)))
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        Ok(to_entries(&rows))
    }

    async fn services(&self, hosts: Hosts<'_>) -> Result<Vec<Service>, Error> {
        // One transaction: the parts must be of one moment.
        let mut transaction = self.readers.begin().await?;
        let counts = match hosts {
            Hosts::After(host, limit) => {
                sqlx::query(
                    "SELECT host, count(DISTINCT version) AS capabilities FROM service \
                     WHERE host > ? AND EXISTS (SELECT 1 FROM capability WHERE head = version) \
                     GROUP BY host ORDER BY host LIMIT ?",
                )
                .bind(host.unwrap_or_default())
                .bind(limit)
                .fetch_all(&mut *transaction)
                .await?
            }
            Hosts::Of(hosts) => {
                sqlx::query(
                    "SELECT host, count(DISTINCT version) AS capabilities FROM service \
                     WHERE host IN (SELECT value FROM json_each(?)) \
                     AND EXISTS (SELECT 1 FROM capability WHERE head = version) \
                     GROUP BY host ORDER BY host",
                )
                .bind(to_json(hosts.iter().map(Domain::as_str)))
                .fetch_all(&mut *transaction)
                .await?
            }
        };
        let mut services = to_services(&counts)?;
        let hosts = to_json(services.keys().map(String::as_str));
        let titles = sqlx::query(
            "SELECT host, title, format FROM service \
             WHERE host IN (SELECT value FROM json_each(?)) \
             AND EXISTS (SELECT 1 FROM capability WHERE head = version) \
             GROUP BY host, title, format ORDER BY count(*) DESC, title",
        )
        .bind(&hosts)
        .fetch_all(&mut *transaction)
        .await?;
        add_titles(&mut services, &titles)?;
        let permissions = sqlx::query(
            "SELECT DISTINCT host, permission FROM service \
             JOIN permission ON permission.version = service.version \
             WHERE host IN (SELECT value FROM json_each(?)) \
             AND EXISTS (SELECT 1 FROM capability WHERE head = service.version) \
             ORDER BY permission",
        )
        .bind(&hosts)
        .fetch_all(&mut *transaction)
        .await?;
        add_permissions(&mut services, &permissions)?;
        Ok(services.into_values().collect())
    }

    async fn heads_at(
        &self,
        host: &Domain,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        let rows = sqlx::query(concat_entry!(
            "WHERE version.id = capability.head AND capability.name > ? \
             AND version.id IN (SELECT version FROM service WHERE host = ?) \
             ORDER BY capability.name LIMIT ?"
        ))
        .bind(after.unwrap_or_default())
        .bind(host.as_str())
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        Ok(to_entries(&rows))
    }

    async fn heads_with(
        &self,
        side: Side,
        names: &[String],
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        let rows = sqlx::query(concat_entry!(
            "WHERE version.id = capability.head AND version.id IN \
             (SELECT version FROM port WHERE side = ? AND name IN (SELECT value FROM json_each(?))) \
             ORDER BY capability.name LIMIT ?"
        ))
        .bind(side as i64)
        .bind(to_json(names.iter().map(String::as_str)))
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        Ok(to_entries(&rows))
    }
}

/// Writes the rows of a version that has none.
pub(super) async fn insert(
    transaction: &mut Transaction<'static, Backend>,
    version: i64,
    relations: &Relations,
) -> Result<(), Error> {
    for name in &relations.uses {
        sqlx::query("INSERT INTO dependency (version, uses) VALUES (?, ?)")
            .bind(version)
            .bind(name.as_str())
            .execute(&mut **transaction)
            .await?;
    }
    for ServiceUse { host, title, format } in &relations.services {
        sqlx::query("INSERT INTO service (version, host, title, format) VALUES (?, ?, ?, ?)")
            .bind(version)
            .bind(host.as_str())
            .bind(title)
            .bind(format.map(Format::as_str))
            .execute(&mut **transaction)
            .await?;
    }
    for permission in &relations.permissions {
        sqlx::query("INSERT INTO permission (version, permission) VALUES (?, ?)")
            .bind(version)
            .bind(permission.as_str())
            .execute(&mut **transaction)
            .await?;
    }
    for (side, name) in &relations.ports {
        sqlx::query("INSERT INTO port (version, side, name) VALUES (?, ?, ?)")
            .bind(version)
            .bind(*side as i64)
            .bind(name)
            .execute(&mut **transaction)
            .await?;
    }
    sqlx::query("INSERT INTO derived (version, rules) VALUES (?, ?)")
        .bind(version)
        .bind(RULES)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Appends a change for every capability that leads to this one: what it amounts to may be another
/// from now on.
pub(super) async fn touch_users(
    transaction: &mut Transaction<'static, Backend>,
    capability: i64,
    at: i64,
) -> Result<(), Error> {
    sqlx::query(
        "WITH RECURSIVE above (id, name) AS ( \
             SELECT id, name FROM capability WHERE id = ?1 \
             UNION \
             SELECT user.id, user.name FROM above \
             JOIN dependency ON dependency.uses = above.name \
             JOIN version ON version.id = dependency.version \
             JOIN capability AS user ON user.id = version.capability) \
         INSERT INTO change (capability, at) SELECT id, ?2 FROM above WHERE id <> ?1",
    )
    .bind(capability)
    .bind(at)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// A list as one parameter.
fn to_json<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    serde_json::Value::from_iter(texts).to_string()
}
