//! Counting how runs end.

use a2s::Digest;
use a2s_api::{FailureClass, FaultAttribution};
use database::{Row, Transaction};
use jiff::Timestamp;

use super::SqlStore;
use crate::latency_histogram::LatencyHistogram;
use crate::outcome_weighting::{RunEnd, RunWeight};
use crate::store::row_mapping::{self, parse, to_failure, to_json};
use crate::store::{
    CapabilityId, Error, MAX_REMEMBERED_RUNS, RecordResult, RunDetails, RunFailure, RunOutcome,
    VersionId,
};

impl SqlStore {
    pub(super) async fn record_outcome(&self, outcome: &RunOutcome) -> Result<RecordResult, Error> {
        // Reports on one version wait for each other, and for no other writer.
        let mut transaction = self.begin_unlocked().await?;
        let found: Option<(i64, String)> = transaction.query(
            "SELECT version.id, digest FROM version JOIN capability ON capability.id = capability \
             WHERE name = $1 AND version = $2 {FOR NO KEY UPDATE OF version}",
        )
        .bind(outcome.name.as_str())
        .bind(outcome.version.to_string())
        .fetch_optional()
        .await?;
        let Some((version, digest)) = found else { return Ok(RecordResult::Unknown) };
        let digest: Digest = digest.parse().map_err(Error::unavailable)?;
        if digest != outcome.digest {
            return Ok(RecordResult::OtherDigest(digest));
        }
        if !remember_run(&mut transaction, version, outcome).await? {
            return Ok(RecordResult::Duplicate);
        }
        match &outcome.failure {
            None => count_latency(&mut transaction, version, outcome.duration_ms).await?,
            Some(failure) => count_failure(&mut transaction, version, failure).await?,
        }
        let weight = update_weights(&mut transaction, version, outcome).await?;
        transaction.query(
            "UPDATE version SET runs = runs + 1, successes = successes + $1, faults = faults + $2, \
             good = $3, bad = $4, used = $5, weighed_at = $6, \
             last_run = CASE WHEN last_run > $7 THEN last_run ELSE $7 END \
             WHERE id = $8",
        )
        .bind(i64::from(outcome.failure.is_none()))
        .bind(i64::from(outcome.run_end() == RunEnd::Fault))
        .bind(weight.good)
        .bind(weight.bad)
        .bind(weight.runs)
        .bind(outcome.at.as_millisecond())
        .bind(outcome.ended_at.as_millisecond())
        .bind(version)
        .execute()
        .await?;
        transaction.commit().await?;
        Ok(RecordResult::New)
    }

    pub(super) async fn list_reported(
        &self,
        after: i64,
    ) -> Result<(i64, Vec<CapabilityId>), Error> {
        let latest: i64 =
            self.readers.query("SELECT coalesce(max(seq), 0) FROM outcome").fetch_value().await?;
        if latest <= after {
            return Ok((latest, Vec::new()));
        }
        let reported: Vec<i64> = self.readers.query(
            "SELECT DISTINCT capability FROM outcome JOIN version ON version.id = outcome.version \
             WHERE seq > $1",
        )
        .bind(after)
        .fetch_values()
        .await?;
        Ok((latest, reported.into_iter().map(CapabilityId).collect()))
    }

    pub(super) async fn load_run_details(&self, id: VersionId) -> Result<RunDetails, Error> {
        // One transaction: the parts must be of one moment.
        let mut transaction = self.readers.begin_snapshot().await?;
        let row: Row = transaction
            .query(
                "SELECT last_run, (SELECT count(*) FROM reporter WHERE version = id) AS reporters, \
             (SELECT histogram FROM latency WHERE version = id) AS histogram \
             FROM version WHERE id = $1",
            )
            .bind(id.0)
            .fetch_one()
            .await?;
        let failures: Vec<Row> = transaction
            .query(
                "SELECT code, class, blame, count FROM failure WHERE version = $1 \
             ORDER BY count DESC, code, class, blame",
            )
            .bind(id.0)
            .fetch_all()
            .await?;
        let histogram: Option<String> = row.get("histogram")?;
        let histogram: Option<LatencyHistogram> = histogram.as_deref().map(parse).transpose()?;
        let last_run: Option<i64> = row.get("last_run")?;
        Ok(RunDetails {
            failures: failures.iter().map(to_failure).collect::<Result<_, _>>()?,
            latency: histogram.unwrap_or_default(),
            reporters: row.get::<i64>("reporters")?.unsigned_abs(),
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
    transaction: &mut Transaction<'_>,
    version: i64,
    outcome: &RunOutcome,
) -> Result<bool, Error> {
    // A number is taken only for a run that is new: else reports that come again would push out those
    // that are remembered.
    let inserted: Option<i64> = transaction.query(
        "INSERT INTO outcome (run, version, at) SELECT $1, CAST($2 AS bigint), CAST($3 AS bigint) \
         WHERE NOT EXISTS (SELECT 1 FROM outcome WHERE run = $1) \
         ON CONFLICT (run) DO NOTHING RETURNING seq",
    )
    .bind(outcome.run.to_string())
    .bind(version)
    .bind(outcome.at.as_millisecond())
    .fetch_optional_value()
    .await?;
    let Some(inserted) = inserted else { return Ok(false) };
    // Two go for each that comes, so the table shrinks to its bound whatever it was before.
    transaction
        .query(
            "DELETE FROM outcome WHERE seq IN (SELECT seq FROM outcome ORDER BY seq LIMIT 2 \
         {FOR UPDATE SKIP LOCKED}) \
         AND (at < $1 OR seq <= $2)",
        )
        .bind(outcome.forget_before.as_millisecond())
        .bind(inserted - MAX_REMEMBERED_RUNS)
        .execute()
        .await?;
    Ok(true)
}

/// Adds the run to the weights of its executor, and returns the sum over all executors.
async fn update_weights(
    transaction: &mut Transaction<'_>,
    version: i64,
    outcome: &RunOutcome,
) -> Result<RunWeight, Error> {
    let rows = transaction
        .query("SELECT reporter, sessions, at FROM reporter WHERE version = $1")
        .bind(version)
        .fetch_all()
        .await?;
    let (own, weight) = row_mapping::add_run(&rows, outcome)?;
    transaction.query(
        "INSERT INTO reporter (version, reporter, sessions, at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (version, reporter) DO UPDATE SET sessions = excluded.sessions, at = excluded.at",
    )
    .bind(version)
    .bind(i64::from(outcome.reporter_key.reporter))
    .bind(to_json(&own.sessions)?)
    .bind(own.at)
    .execute()
    .await?;
    Ok(weight)
}

async fn count_failure(
    transaction: &mut Transaction<'_>,
    version: i64,
    failure: &RunFailure,
) -> Result<(), Error> {
    transaction
        .query(
            "INSERT INTO failure (version, code, class, blame, count) VALUES ($1, $2, $3, $4, 1) \
         ON CONFLICT (version, code, class, blame) DO UPDATE SET count = failure.count + 1",
        )
        .bind(version)
        .bind(failure.code.as_deref().unwrap_or_default())
        .bind(failure.class.map_or("", FailureClass::as_str))
        .bind(failure.blame.map_or("", FaultAttribution::as_str))
        .execute()
        .await?;
    Ok(())
}

async fn count_latency(
    transaction: &mut Transaction<'_>,
    version: i64,
    duration_ms: u64,
) -> Result<(), Error> {
    let stored: Option<String> = transaction
        .query("SELECT histogram FROM latency WHERE version = $1")
        .bind(version)
        .fetch_optional_value()
        .await?;
    let mut histogram: LatencyHistogram =
        stored.as_deref().map(parse).transpose()?.unwrap_or_default();
    histogram.record(duration_ms);
    transaction
        .query(
            "INSERT INTO latency (version, histogram) VALUES ($1, $2) \
         ON CONFLICT (version) DO UPDATE SET histogram = excluded.histogram",
        )
        .bind(version)
        .bind(to_json(&histogram)?)
        .execute()
        .await?;
    Ok(())
}
