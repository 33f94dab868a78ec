//! Outcomes that executors report, and the statistics of them.

use std::sync::Arc;

use a2s::CapabilityName;
use a2s::Digest;
use a2s_api::{CapabilityStats, OutcomeReport, OutcomeWeights, is_intent};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{VersionReader, VersionSelection};
use crate::embedding_service::EmbeddingService;
use crate::error::DigestMismatch;
use crate::host_health::HostHealthTracker;
use crate::index::IndexerHandle;
use crate::learned_intents;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::Metrics;
use crate::outcome_weighting::{HALF_LIFE_DAYS, SESSION_SLOTS};
use crate::rank;
use crate::store::learning::NewIntent;
use crate::store::{RecordResult, ReporterKey, RunFailure, RunOutcome};
use crate::{Clock, Error};

/// The maximum length of the name of an executor or a session, in bytes.
const MAX_NAME_LENGTH: usize = 64;
/// The most hosts in a report.
const MAX_HOSTS: usize = 64;
/// The time after its end in which a run may be reported. Runs are remembered for twice as long, so that a
/// repeated report never counts again.
const REPORT_WITHIN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The recorder of outcomes, and the reader of their statistics.
pub(crate) struct OutcomeRecorder {
    pub(crate) versions: VersionReader,
    pub(crate) live_versions: Arc<LiveVersionCache>,
    pub(crate) host_health: Arc<HostHealthTracker>,
    pub(crate) index: Arc<IndexerHandle>,
    pub(crate) embedding_service: Arc<EmbeddingService>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    /// The identity of the store: the key of the hash that separates reporters.
    pub(crate) identity: String,
}

impl OutcomeRecorder {
    /// Counts the outcome of a run, once.
    ///
    /// # Errors
    /// Fails when the version does not exist or has another digest, or the report is invalid.
    pub(crate) async fn record(&self, report: OutcomeReport) -> Result<(), Error> {
        check_report(&report).map_err(|text| Error::BadOutcome(text.to_owned()))?;
        let now = (self.clock)();
        // Clocks differ: nothing has ended in the future.
        let ended_at = report.finished_at.map_or(now, |at| at.min(now));
        let oldest = subtract_span(now, REPORT_WITHIN);
        if ended_at < oldest {
            let text = format!("the run ended before {oldest}, which is too long ago to count");
            return Err(Error::BadOutcome(text));
        }
        let voice =
            self.reporter_key(report.reporter.as_deref(), report.session.as_deref(), report.run);
        let intent = report.intent.filter(|_| report.success && self.embedding_service.learns());
        let outcome = RunOutcome {
            run: report.run,
            name: report.name,
            version: report.version,
            digest: report.checksum,
            failure: (!report.success).then_some(RunFailure {
                code: report.code,
                class: report.class,
                blame: report.attribution,
            }),
            duration_ms: report.duration_ms,
            ended_at,
            reporter_key: voice,
            at: now,
            forget_before: subtract_span(oldest, REPORT_WITHIN),
        };
        match self.versions.store.record_outcome(&outcome).await? {
            RecordResult::New => {
                self.live_versions.invalidate(&outcome.name);
                self.metrics.outcomes.inc();
                self.host_health.record_reports(
                    voice.reporter,
                    &report.hosts,
                    now.as_millisecond(),
                );
                if let Some(intent) = intent
                    && let Err(error) = self.learn(outcome.name, intent.trim(), voice, now).await
                {
                    // The outcome counts in any case.
                    tracing::warn!(%error, "the registry could not learn an accepted intent");
                }
                Ok(())
            }
            RecordResult::Duplicate => Ok(()),
            RecordResult::OtherDigest(published) => {
                Err(Error::OutcomeDigest(Box::new(DigestMismatch {
                    name: outcome.name,
                    version: outcome.version,
                    published,
                    given: outcome.digest,
                })))
            }
            RecordResult::Unknown => {
                let selector = VersionSelection::Exact(outcome.version);
                Err(self.versions.version_missing_error(&outcome.name, &selector).await)
            }
        }
    }

    /// Keeps the vectors of an accepted intent.
    async fn learn(
        &self,
        name: CapabilityName,
        intent: &str,
        voice: ReporterKey,
        at: Timestamp,
    ) -> Result<(), Error> {
        let vectors = self.embedding_service.embed_accepted(intent).await?;
        // The same words again take the same slot.
        let words: Vec<_> = intent.split_whitespace().map(str::to_lowercase).collect();
        let slot = self.hash(&["intent", &voice.reporter.to_string(), &words.join(" ")])
            % learned_intents::SLOTS;
        let new = NewIntent { name, reporter: voice.reporter, slot, vectors, at };
        if self.versions.store.learn_intent(&new).await? {
            self.index.follow_changes();
        }
        Ok(())
    }

    /// A byte of the hash of texts. The key of the hash is the secret identity of the store.
    fn hash(&self, parts: &[&str]) -> u8 {
        let text = serde_json::json!([self.identity, parts]).to_string();
        Digest::of_bytes(text.as_bytes()).as_bytes()[0]
    }

    /// The statistics of the runs of a version.
    ///
    /// # Errors
    /// When there is no such version.
    pub(crate) async fn load_stats(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Result<CapabilityStats, Error> {
        let entry = self.versions.select_version(name, selector).await?;
        let record = self.versions.store.load_run_details(entry.id).await?;
        let weight = entry.stats.weight_at((self.clock)());
        Ok(CapabilityStats {
            name: entry.name,
            version: entry.version,
            checksum: entry.digest,
            runs: entry.stats.runs,
            successes: entry.stats.successes,
            faults: entry.stats.faults,
            failures: record.failures,
            weights: OutcomeWeights {
                successes: weight.good,
                faults: weight.bad,
                runs: weight.runs,
                success_rate: rank::success_rate(&weight),
                success_rate_lower: rank::reliability(&weight),
                half_life_days: HALF_LIFE_DAYS,
            },
            latency: record.latency.percentiles(),
            reporters: record.reporters,
            last_run: record.last_run,
        })
    }

    /// The key under which a report counts. The hash is keyed with the secret identity of the store, so
    /// that a reporter cannot choose the key of another one. Runs without a session are spread over the
    /// session slots, because they have no session to count under.
    fn reporter_key(
        &self,
        reporter: Option<&str>,
        session: Option<&str>,
        run: Uuid,
    ) -> ReporterKey {
        let reporter = reporter.unwrap_or_default();
        let session = match session {
            Some(session) => self.hash(&[reporter, "session", session]),
            None => self.hash(&[reporter, "run", &run.to_string()]),
        };
        ReporterKey { reporter: self.hash(&[reporter]), session: session % SESSION_SLOTS as u8 }
    }
}

fn check_report(report: &OutcomeReport) -> Result<(), &'static str> {
    let is_code = |code: &String| {
        code.strip_prefix("A2S")
            .is_some_and(|digits| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_too_long =
        |name: &Option<String>| name.as_ref().is_some_and(|name| name.len() > MAX_NAME_LENGTH);
    let has_failure_detail =
        report.attribution.is_some() || report.code.is_some() || report.class.is_some();
    if report.success && has_failure_detail {
        Err("a successful run must not have `code`, `class` or `blame`")
    } else if !report.code.iter().all(is_code) {
        Err("`code` must be `A2S` and three digits")
    } else if is_too_long(&report.reporter) || is_too_long(&report.session) {
        Err("`reporter` and `session` must have at most 64 bytes")
    } else if report.intent.as_ref().is_some_and(|intent| !is_intent(intent)) {
        Err("`intent` must have 1 to 2000 characters")
    } else if report.hosts.len() > MAX_HOSTS {
        Err("`hosts` must have at most 64 members")
    } else if report.hosts.iter().any(|host| !(0.0..=1.0).contains(&host.health)) {
        Err("`hosts`: `health` must be a number from 0 to 1")
    } else {
        Ok(())
    }
}

fn subtract_span(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}
