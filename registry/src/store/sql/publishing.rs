//! Publishing, in SQL that every engine reads alike.

use a2s::api::Action;
use a2s::{CapabilityName, Digest};

use sqlx::Transaction;

use super::{Backend, Engine, life, relations};
use crate::store::life::{Actor, Deed};
use crate::store::row_mapping::{Columns as _, number_of};
use crate::store::{Error, NewVersion, Publication};

impl Engine {
    pub(super) async fn publish(&self, new: &NewVersion, by: &Actor) -> Result<Publication, Error> {
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
                    return Ok(Publication::NameTaken(name));
                }
                (row.number("id")?, row.optional_text("origin")?)
            }
            None => {
                if let Some(other) = find_lookalike(&mut transaction, new, by).await? {
                    return Ok(Publication::LookAlike(other));
                }
                let capability = sqlx::query_scalar(
                    "INSERT INTO capability (name, slug, origin) VALUES ($1, $2, $3) RETURNING id",
                )
                .bind(new.name.as_str())
                .bind(&slug)
                .bind(by.source())
                .fetch_one(&mut *transaction)
                .await?;
                life::own(&mut transaction, capability, &by.subject).await?;
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
            return Ok(Publication::Same);
        }
        if !by.has_created(origin.as_deref()) {
            return Ok(Publication::OtherOrigin(origin));
        }
        let owners = life::owners_of(&mut transaction, capability).await?;
        if !by.owns(&owners) {
            return Ok(Publication::NotOwner(owners));
        }
        if let Some(published) = published {
            return Ok(Publication::Conflict(published));
        }
        let id: i64 = sqlx::query_scalar(
            "INSERT INTO version (capability, version, digest, complexity, permissions, published_at, origin) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
        )
        .bind(capability)
        .bind(&version)
        .bind(new.digest.to_string())
        .bind(number_of(new.complexity))
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
        relations::insert(&mut transaction, id, &new.relations).await?;
        let (name, release) = (Some(&new.name), Some((&new.version, new.digest)));
        let deed = Deed { action: Action::Publish, name, release, subject: None, detail: None };
        life::insert_event(&mut transaction, by, deed).await?;
        let change = life::note_change(&mut transaction, capability, by.at).await?;
        transaction.commit().await?;
        Ok(Publication::Created(change))
    }
}

/// A published name of other owners that a reader may take for the new one. All names are compared:
/// that happens once in the life of a name.
async fn find_lookalike(
    transaction: &mut Transaction<'static, Backend>,
    new: &NewVersion,
    by: &Actor,
) -> Result<Option<CapabilityName>, Error> {
    let rows = sqlx::query("SELECT id, name FROM capability").fetch_all(&mut **transaction).await?;
    for row in rows {
        // A name that cannot be read is reported where it is read.
        let Ok(name) = CapabilityName::new(&row.text("name")?) else { continue };
        if !new.name.is_lookalike(&name) {
            continue;
        }
        let owners = life::owners_of(transaction, row.number("id")?).await?;
        if !by.owns(&owners) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
