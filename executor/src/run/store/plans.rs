//! Plans that can be run: the SQL of keeping, reading, using and forgetting them.

use a2s::Digest;
use jiff::{SignedDuration, Timestamp};
use sqlx::SqliteConnection;
use uuid::Uuid;

use super::WHAT;
use super::write::Outcome;
use crate::database::failed;
use crate::error::Error;
use crate::vault::Sealed;

/// How long it is told of a plan that it has ended or was used.
const TOLD: SignedDuration = SignedDuration::from_hours(1);

/// What a new plan is stored with.
#[derive(Debug)]
pub(crate) struct NewPlan {
    /// Digest of its token.
    pub(crate) id: Digest,
    /// The time now.
    pub(crate) now: Timestamp,
    /// When it ends.
    pub(crate) expires_at: Timestamp,
    /// What it was made of.
    pub(crate) sealed: Sealed,
    /// How many may wait to be run.
    pub(crate) most: usize,
}

/// A stored plan.
#[derive(Debug)]
pub(crate) struct StoredPlan {
    /// When it ends.
    pub(crate) expires_at: Timestamp,
    /// The run that it has started.
    pub(crate) used_by: Option<Uuid>,
    /// What it was made of; none when it was used or has ended.
    pub(crate) sealed: Option<Sealed>,
}

/// The end, the run that used it, key, nonce and what is sealed.
type Columns = (i64, Option<String>, Option<String>, Option<Vec<u8>>, Option<Vec<u8>>);

/// Stores a plan, unless so many wait already.
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    plan: &NewPlan,
) -> Result<Outcome, sqlx::Error> {
    let NewPlan { id, now, expires_at, sealed, most } = plan;
    let inserted = sqlx::query(
        "INSERT INTO plan (id, expires_at, key_id, nonce, sealed)
         SELECT ?1, ?2, ?3, ?4, ?5
         WHERE (SELECT count(*) FROM plan WHERE expires_at > ?6 AND used_by IS NULL) < ?7",
    )
    .bind(id.to_string())
    .bind(expires_at.as_millisecond())
    .bind(&sealed.key_id)
    .bind(&sealed.nonce)
    .bind(&sealed.bytes)
    .bind(now.as_millisecond())
    .bind(i64::try_from(*most).unwrap_or(i64::MAX))
    .execute(connection)
    .await?;
    Ok(if inserted.rows_affected() == 0 { Outcome::Full } else { Outcome::Done })
}

/// The plan of an id.
pub(super) async fn read(pool: &sqlx::SqlitePool, id: Digest) -> Result<Option<StoredPlan>, Error> {
    let row: Option<Columns> =
        sqlx::query_as("SELECT expires_at, used_by, key_id, nonce, sealed FROM plan WHERE id = ?1")
            .bind(id.to_string())
            .fetch_optional(pool)
            .await
            .map_err(failed(WHAT))?;
    let Some((expires_at, used_by, key_id, nonce, sealed)) = row else { return Ok(None) };
    let sealed = match (key_id, nonce, sealed) {
        (Some(key_id), Some(nonce), Some(bytes)) => Some(Sealed { key_id, nonce, bytes }),
        _ => None,
    };
    Ok(Some(StoredPlan {
        expires_at: Timestamp::from_millisecond(expires_at).map_err(failed(WHAT))?,
        used_by: used_by.map(|run| run.parse()).transpose().map_err(failed(WHAT))?,
        sealed,
    }))
}

/// Marks a plan as used, and empties it.
pub(super) async fn use_up(
    connection: &mut SqliteConnection,
    plan: Digest,
    run: Uuid,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE plan SET used_by = ?2, key_id = NULL, nonce = NULL, sealed = NULL WHERE id = ?1",
    )
    .bind(plan.to_string())
    .bind(run.to_string())
    .execute(connection)
    .await
    .map(|_| ())
}

/// Empties plans that have ended, and forgets those that ended a while ago.
pub(super) async fn sweep(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Outcome, sqlx::Error> {
    sqlx::query(
        "UPDATE plan SET key_id = NULL, nonce = NULL, sealed = NULL
         WHERE expires_at <= ?1 AND sealed IS NOT NULL",
    )
    .bind(now.as_millisecond())
    .execute(&mut *connection)
    .await?;
    let before = now.checked_sub(TOLD).unwrap_or(Timestamp::MIN);
    sqlx::query("DELETE FROM plan WHERE expires_at <= ?1")
        .bind(before.as_millisecond())
        .execute(connection)
        .await?;
    Ok(Outcome::Done)
}
