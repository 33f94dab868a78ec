//! Counting how runs end.

use a2s::Digest;
use a2s_api::{FailureClass, FaultAttribution};
use jiff::Timestamp;
use sqlx::{Row as _, Sqlite as Backend, Transaction};

use super::SqliteStore;
use crate::latency_histogram::LatencyHistogram;
use crate::outcome_weighting::RunWeight;
use crate::store::row_mapping::{self, parse, to_failure, to_json};
use crate::store::{Error, MAX_REMEMBERED_RUNS, RecordResult, RunDetails, RunOutcome, VersionId};

impl SqliteStore {
    pub(super) async fn record_outcome(&self, outcome: &RunOutcome) -> Result<RecordResult, Error> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "SELECT version.id, digest FROM version JOIN capability ON capability.id = capability \
             WHERE name = ? AND version = ?",
        )
        .bind(outcome.name.as_str())
        .bind(outcome.version.to_string())
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = row else { return Ok(RecordResult::Unknown) };
        let (version, digest): (i64, String) = (row.try_get("id")?, row.try_get("digest")?);
        let digest: Digest = digest.parse().map_err(Error::unavailable)?;
        if digest != outcome.digest {
            return Ok(RecordResult::OtherDigest(digest));
        }
        if !remember_run(&mut transaction, version, outcome).await? {
            return Ok(RecordResult::Duplicate);
        }
        if outcome.success {
            count_latency(&mut transaction, version, outcome).await?;
        } else {
            count_failure(&mut transaction, version, outcome).await?;
        }
        let weight = update_weights(&mut transaction, version, outcome).await?;
        sqlx::query(
            "UPDATE version SET runs = runs + 1, successes = successes + ?, faults = faults + ?, \
             good = ?, bad = ?, used = ?, weighed_at = ?, last_run = max(coalesce(last_run, 0), ?) \
             WHERE id = ?",
        )
        .bind(outcome.success)
        .bind(outcome.is_fault())
        .bind(weight.good)
        .bind(weight.bad)
        .bind(weight.runs)
        .bind(outcome.at.as_millisecond())
        .bind(outcome.ended_at.as_millisecond())
        .bind(version)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(RecordResult::New)
    }

    pub(super) async fn load_run_details(&self, id: VersionId) -> Result<RunDetails, Error> {
        // One transaction: the parts must be of one moment.
        let mut transaction = self.readers.begin().await?;
        let row = sqlx::query(
            "SELECT last_run, (SELECT count(*) FROM reporter WHERE version = id) AS reporters, \
             (SELECT histogram FROM latency WHERE version = id) AS histogram \
             FROM version WHERE id = ?",
        )
        .bind(id.0)
        .fetch_one(&mut *transaction)
        .await?;
        let failures = sqlx::query(
            "SELECT code, class, blame, count FROM failure WHERE version = ? \
             ORDER BY count DESC, code, class, blame",
        )
        .bind(id.0)
        .fetch_all(&mut *transaction)
        .await?;
        let histogram: Option<String> = row.try_get("histogram")?;
        let histogram: Option<LatencyHistogram> = histogram.as_deref().map(parse).transpose()?;
        let last_run: Option<i64> = row.try_get("last_run")?;
        Ok(RunDetails {
            failures: failures.iter().map(to_failure).collect::<Result<_, _>>()?,
            latency: histogram.unwrap_or_default(),
            reporters: row.try_get::<i64, _>("reporters")?.unsigned_abs(),
            last_run: last_run
                .map(Timestamp::from_millisecond)
                .transpose()
                .map_err(Error::unavailable)?,
        })
    }
}

/// Records that a run was reported, and deletes the oldest records. Returns false when the run was reported
/// before.
async fn remember_run(
    transaction: &mut Transaction<'static, Backend>,
    version: i64,
    outcome: &RunOutcome,
) -> Result<bool, Error> {
    let inserted = sqlx::query(
        "INSERT INTO outcome (run, version, at) VALUES (?, ?, ?) ON CONFLICT (run) DO NOTHING",
    )
    .bind(outcome.run.to_string())
    .bind(version)
    .bind(outcome.at.as_millisecond())
    .execute(&mut **transaction)
    .await?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    // Two go for each that comes, so the table shrinks to its bound whatever it was before.
    sqlx::query(
        "DELETE FROM outcome WHERE seq IN (SELECT seq FROM outcome ORDER BY seq LIMIT 2) \
         AND (at < ? OR seq <= ?)",
    )
    .bind(outcome.forget_before.as_millisecond())
    .bind(inserted.last_insert_rowid() - MAX_REMEMBERED_RUNS)
    .execute(&mut **transaction)
    .await?;
    Ok(true)
}

/// Adds the run to the weights of its executor, and returns the sum over all executors.
async fn update_weights(
    transaction: &mut Transaction<'static, Backend>,
    version: i64,
    outcome: &RunOutcome,
) -> Result<RunWeight, Error> {
    let rows = sqlx::query("SELECT reporter, sessions, at FROM reporter WHERE version = ?")
        .bind(version)
        .fetch_all(&mut **transaction)
        .await?;
    let (own, weight) = row_mapping::add_run(&rows, outcome)?;
    sqlx::query(
        "INSERT INTO reporter (version, reporter, sessions, at) VALUES (?, ?, ?, ?) \
         ON CONFLICT DO UPDATE SET sessions = excluded.sessions, at = excluded.at",
    )
    .bind(version)
    .bind(i64::from(outcome.reporter_key.reporter))
    .bind(to_json(&own.sessions)?)
    .bind(own.at)
    .execute(&mut **transaction)
    .await?;
    Ok(weight)
}

async fn count_failure(
    transaction: &mut Transaction<'static, Backend>,
    version: i64,
    outcome: &RunOutcome,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO failure (version, code, class, blame, count) VALUES (?, ?, ?, ?, 1) \
         ON CONFLICT DO UPDATE SET count = count + 1",
    )
    .bind(version)
    .bind(outcome.code.as_deref().unwrap_or_default())
    .bind(outcome.class.map_or("", FailureClass::as_str))
    .bind(outcome.blame.map_or("", FaultAttribution::as_str))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn count_latency(
    transaction: &mut Transaction<'static, Backend>,
    version: i64,
    outcome: &RunOutcome,
) -> Result<(), Error> {
    let stored: Option<String> =
        sqlx::query_scalar("SELECT histogram FROM latency WHERE version = ?")
            .bind(version)
            .fetch_optional(&mut **transaction)
            .await?;
    let mut histogram: LatencyHistogram =
        stored.as_deref().map(parse).transpose()?.unwrap_or_default();
    histogram.record(outcome.duration_ms);
    sqlx::query(
        "INSERT INTO latency (version, histogram) VALUES (?, ?) \
         ON CONFLICT DO UPDATE SET histogram = excluded.histogram",
    )
    .bind(version)
    .bind(to_json(&histogram)?)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
