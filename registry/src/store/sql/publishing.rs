//! Publishing, in SQL that every engine reads alike.

use a2s::{CapabilityName, Digest};
use a2s_api::RegistryAction;

use sqlx::Transaction;

use super::{Backend, Engine, lifecycle, relations};
use crate::store::lifecycle::{AuditActor, AuditDetail};
use crate::store::row_mapping::{RowColumns as _, complexity_to_number};
use crate::store::{Error, NewVersion, PublicationResult};

impl Engine {
    pub(super) async fn publish(
        &self,
        new: &NewVersion,
        by: &AuditActor,
    ) -> Result<PublicationResult, Error> {
        let mut transaction = self.begin().await?;
        let slug = new.name.to_kebab();
        let owner =
            sqlx::query("SELECT id, name, origin FROM capability WHERE name = $1 OR slug = $2")
                .bind(new.name.as_str())
                .bind(&slug)
                .fetch_optional(&mut *transaction)
                .await?;
        let (capability, origin): (i64, Option<String>) = match owner {
            Some(row) => {
                let name = row.text("name")?;
                if name != new.name.as_str() {
                    return Ok(PublicationResult::NameTaken(name));
                }
                (row.number("id")?, row.optional_text("origin")?)
            }
            None => {
                if let Some(other) = find_lookalike(&mut transaction, new, by).await? {
                    return Ok(PublicationResult::LookAlike(other));
                }
                let capability = sqlx::query_scalar(
                    "INSERT INTO capability (name, slug, origin) VALUES ($1, $2, $3) RETURNING id",
                )
                .bind(new.name.as_str())
                .bind(&slug)
                .bind(by.source())
                .fetch_one(&mut *transaction)
                .await?;
                lifecycle::insert_owner(&mut transaction, capability, &by.subject).await?;
                (capability, by.source().map(str::to_owned))
            }
        };
        let version = new.version.to_string();
        let published: Option<String> =
            sqlx::query_scalar("SELECT digest FROM version WHERE capability = $1 AND version = $2")
                .bind(capability)
                .bind(&version)
                .fetch_optional(&mut *transaction)
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
        let id: i64 = sqlx::query_scalar(
            "INSERT INTO version (capability, version, digest, complexity, permissions, published_at, origin) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
        )
        .bind(capability)
        .bind(&version)
        .bind(new.digest.to_string())
        .bind(complexity_to_number(new.complexity))
        .bind(i64::from(new.permissions))
        .bind(by.at.as_millisecond())
        .bind(by.source())
        .fetch_one(&mut *transaction)
        .await?;
        sqlx::query("INSERT INTO document (version, source) VALUES ($1, $2)")
            .bind(id)
            .bind(&new.source)
            .execute(&mut *transaction)
            .await?;
        relations::insert_relations(&mut transaction, id, &new.relations).await?;
        let (name, release) = (Some(&new.name), Some((&new.version, new.digest)));
        let entry = AuditDetail {
            action: RegistryAction::Publish,
            name,
            release,
            subject: None,
            detail: None,
        };
        lifecycle::insert_event(&mut transaction, by, entry).await?;
        let change = lifecycle::append_change(&mut transaction, capability, by.at).await?;
        transaction.commit().await?;
        Ok(PublicationResult::Created(change))
    }
}

/// Finds a published name of other owners that a reader may confuse with the new one. It compares all
/// names, but only once for each new name.
async fn find_lookalike(
    transaction: &mut Transaction<'static, Backend>,
    new: &NewVersion,
    by: &AuditActor,
) -> Result<Option<CapabilityName>, Error> {
    let rows = sqlx::query("SELECT id, name FROM capability").fetch_all(&mut **transaction).await?;
    for row in rows {
        // A name that cannot be read is reported where it is read.
        let Ok(name) = CapabilityName::new(&row.text("name")?) else { continue };
        if !new.name.is_lookalike(&name) {
            continue;
        }
        let owners = lifecycle::load_owners(transaction, row.number("id")?).await?;
        if !by.owns(&owners) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
