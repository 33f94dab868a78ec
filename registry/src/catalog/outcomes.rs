//! Outcomes that executors report, and the statistics of them.

use a2s::CapabilityName;
use a2s::Digest;
use a2s::api::{CapabilityStats, OutcomeReport, OutcomeWeights};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{Catalog, Selector};
use crate::Error;
use crate::error::DigestMismatch;
use crate::outcome_weighting::{HALF_LIFE_DAYS, SESSIONS};
use crate::rank;
use crate::store::{Outcome, Recorded, Voice};

/// The longest name of an executor or a session.
const LONGEST_NAME: usize = 64;
/// The most hosts in a report.
const MOST_HOSTS: usize = 64;
/// How long after its end a run may be reported. Runs are remembered for twice as long, so that one
/// that is reported again never counts again.
const REPORT_WITHIN: SignedDuration = SignedDuration::from_hours(30 * 24);

impl Catalog {
    /// Counts the outcome of a run, once.
    ///
    /// # Errors
    /// When there is no such version, or it has another digest, or the report makes no sense.
    pub(crate) async fn record(&self, report: OutcomeReport) -> Result<(), Error> {
        check(&report).map_err(|text| Error::BadOutcome(text.to_owned()))?;
        let now = (self.clock)();
        // Clocks differ: nothing has ended in the future.
        let ended_at = report.finished_at.map_or(now, |at| at.min(now));
        let oldest = before(now, REPORT_WITHIN);
        if ended_at < oldest {
            let text = format!("the run ended before {oldest}; that tells nothing any more");
            return Err(Error::BadOutcome(text));
        }
        let voice = self.voice(report.reporter.as_deref(), report.session.as_deref(), report.run);
        let outcome = Outcome {
            run: report.run,
            name: report.name,
            version: report.version,
            digest: report.checksum,
            success: report.success,
            code: report.code,
            class: report.class,
            blame: report.attribution,
            duration_ms: report.duration_ms,
            ended_at,
            voice,
            at: now,
            forget_before: before(oldest, REPORT_WITHIN),
        };
        match self.store.record(&outcome).await? {
            Recorded::New => {
                self.live.changed(&outcome.name);
                self.metrics.outcomes.inc();
                self.services.hear(voice.reporter, &report.hosts, now.as_millisecond());
                Ok(())
            }
            Recorded::Again => Ok(()),
            Recorded::OtherDigest(published) => {
                Err(Error::OutcomeDigest(Box::new(DigestMismatch {
                    name: outcome.name,
                    version: outcome.version,
                    published,
                    given: outcome.digest,
                })))
            }
            Recorded::Unknown => {
                let selector = Selector::Exact(outcome.version);
                Err(self.missing(&outcome.name, &selector).await)
            }
        }
    }

    /// How the runs of a version ended.
    ///
    /// # Errors
    /// When there is no such version.
    pub(crate) async fn stats(
        &self,
        name: &CapabilityName,
        selector: &Selector,
    ) -> Result<CapabilityStats, Error> {
        let entry = self.select(name, selector).await?;
        let record = self.store.record_of(entry.id).await?;
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

    /// Whose word a report is. The hash is keyed with what nobody outside knows, so that nobody can
    /// choose to share a place with somebody. Runs without a session are spread over the places of
    /// sessions: nothing tells whose they are.
    fn voice(&self, reporter: Option<&str>, session: Option<&str>, run: Uuid) -> Voice {
        let hash = |parts: &[&str]| {
            let text = serde_json::json!([self.identity, parts]).to_string();
            Digest::of_bytes(text.as_bytes()).as_bytes()[0]
        };
        let reporter = reporter.unwrap_or_default();
        let session = match session {
            Some(session) => hash(&[reporter, "session", session]),
            None => hash(&[reporter, "run", &run.to_string()]),
        };
        Voice { reporter: hash(&[reporter]), session: session % SESSIONS as u8 }
    }
}

fn check(report: &OutcomeReport) -> Result<(), &'static str> {
    let is_code = |code: &String| {
        code.strip_prefix("A2S")
            .is_some_and(|digits| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_too_long =
        |name: &Option<String>| name.as_ref().is_some_and(|name| name.len() > LONGEST_NAME);
    let tells_failure =
        report.attribution.is_some() || report.code.is_some() || report.class.is_some();
    if report.success && tells_failure {
        Err("a run that succeeded has neither `code` nor `class` nor `blame`")
    } else if !report.code.iter().all(is_code) {
        Err("`code` is `A2S` and three digits")
    } else if is_too_long(&report.reporter) || is_too_long(&report.session) {
        Err("`reporter` and `session` have at most 64 bytes")
    } else if report.hosts.len() > MOST_HOSTS {
        Err("`hosts` has at most 64 members")
    } else if report.hosts.iter().any(|host| !(0.0..=1.0).contains(&host.health)) {
        Err("`hosts`: `health` is a number from 0 to 1")
    } else {
        Ok(())
    }
}

fn before(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}
