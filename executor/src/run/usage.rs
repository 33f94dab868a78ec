//! The usage of an executor: runs over time, by capability, principal and error.

use std::collections::BTreeMap;

use a2s::CapabilityName;
use a2s_api::{
    Caller, CapabilityUsage, ErrorUsage, Principal, Run, RunCounts, RunStatus, TenantUsage,
    TokenScope, UsageInterval, UsageReport, UsageUnit,
};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::context::RunContext;
use crate::error::Error;
use crate::journal::run_state::fold_events;
use crate::journal::store::{RunFilter, RunSummaryEvents};

/// The most runs that one report counts.
const MAX_RUNS: usize = 20_000;
/// The number of runs that are read at once.
const PAGE: usize = 500;
/// The most rows of a table of the report.
const MAX_ROWS: usize = 100;
/// The most intervals of a report.
const MAX_INTERVALS: i64 = 400;

/// Counts the runs that were started from a time on, by default 24 hours ago: those of the caller, or of
/// all principals for an administrator.
/// Of a longer period than 400 intervals, only the latest of these are counted.
pub(super) async fn count_usage(
    context: &RunContext,
    since: Option<Timestamp>,
    unit: UsageUnit,
    caller: &Caller,
) -> Result<UsageReport, Error> {
    let now = context.clock.now();
    let day_ago = now.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(now);
    let asked = since.unwrap_or(day_ago);
    let longest = SignedDuration::from_secs(unit.seconds() * MAX_INTERVALS);
    let since = asked.max(now.saturating_sub(longest).unwrap_or(asked));
    let is_admin = caller.has_scope(TokenScope::Admin);
    let tenant = (!is_admin).then(|| caller.principal());
    let mut counts = UsageCounts::default();
    let mut before = None;
    let complete = loop {
        let filter = RunFilter { before, tenant: tenant.clone(), ..RunFilter::default() };
        let page = context.store.read_summary_events(&filter, PAGE).await?;
        let is_last = page.len() < PAGE;
        let runs = page.into_iter().filter_map(|RunSummaryEvents { tenant, events }| {
            Some((tenant, fold_events(&events)?))
        });
        let mut is_past = false;
        for (tenant, run) in runs {
            before = Some(run.id);
            if run.started_at < since {
                is_past = true;
                break;
            }
            counts.add(tenant, &run, unit);
        }
        if is_last || is_past {
            break true;
        }
        if MAX_RUNS <= counts.total.runs() {
            break false;
        }
    };
    Ok(counts.into_report(since, now, unit, complete && since == asked, is_admin))
}

/// The runs that were counted so far.
#[derive(Default)]
struct UsageCounts {
    total: Counter,
    intervals: BTreeMap<Timestamp, Counter>,
    capabilities: BTreeMap<CapabilityName, Counter>,
    tenants: BTreeMap<Principal, Counter>,
    /// The number of runs with each error, and the latest of them.
    errors: BTreeMap<String, (u64, Uuid)>,
}

/// Counts, with the durations of the runs that succeeded.
#[derive(Default)]
struct Counter {
    counts: RunCounts,
    durations: Vec<u64>,
}

impl UsageCounts {
    /// Counts a run. Newer ones come first.
    fn add(&mut self, tenant: Principal, run: &Run, unit: UsageUnit) {
        self.total.add(run);
        self.intervals.entry(unit.start_of(run.started_at)).or_default().add(run);
        self.capabilities.entry(run.name.clone()).or_default().add(run);
        self.tenants.entry(tenant).or_default().add(run);
        if let Some(error) = &run.error {
            self.errors.entry(error.code.clone()).or_insert((0, run.id)).0 += 1;
        }
    }

    fn into_report(
        mut self,
        since: Timestamp,
        until: Timestamp,
        unit: UsageUnit,
        complete: bool,
        is_admin: bool,
    ) -> UsageReport {
        let mut intervals = Vec::new();
        let (mut second, end) = (unit.start_of(since).as_second(), until.as_second());
        while second <= end {
            let Ok(from) = Timestamp::from_second(second) else { break };
            let counts = self.intervals.remove(&from).unwrap_or_default().into_counts();
            intervals.push(UsageInterval { from, counts });
            second += unit.seconds();
        }
        let mut errors: Vec<ErrorUsage> = self
            .errors
            .into_iter()
            .map(|(code, (runs, latest))| ErrorUsage { code, runs, latest })
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.runs));
        errors.truncate(MAX_ROWS);
        let tenants = if is_admin { self.tenants } else { BTreeMap::new() };
        UsageReport {
            since,
            until,
            complete,
            total: self.total.into_counts(),
            intervals,
            capabilities: most_used(self.capabilities)
                .map(|(name, counts)| CapabilityUsage { name, counts })
                .collect(),
            tenants: most_used(tenants)
                .map(|(tenant, counts)| TenantUsage { tenant, counts })
                .collect(),
            errors,
        }
    }
}

/// Returns the rows of a table, the one with the most runs first.
fn most_used<K>(rows: BTreeMap<K, Counter>) -> impl Iterator<Item = (K, RunCounts)> {
    let mut rows: Vec<_> =
        rows.into_iter().map(|(key, counter)| (key, counter.into_counts())).collect();
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.runs));
    rows.into_iter().take(MAX_ROWS)
}

impl Counter {
    fn runs(&self) -> usize {
        usize::try_from(self.counts.runs).unwrap_or(usize::MAX)
    }

    fn add(&mut self, run: &Run) {
        let counts = &mut self.counts;
        counts.runs += 1;
        let count = match run.status {
            RunStatus::Succeeded => &mut counts.succeeded,
            RunStatus::Failed => &mut counts.failed,
            RunStatus::Denied => &mut counts.denied,
            RunStatus::Cancelled => &mut counts.cancelled,
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => &mut counts.open,
        };
        *count += 1;
        if let (RunStatus::Succeeded, Some(finished)) = (run.status, run.finished_at) {
            let took = finished.duration_since(run.started_at).as_millis();
            self.durations.push(u64::try_from(took).unwrap_or_default());
        }
    }

    fn into_counts(mut self) -> RunCounts {
        self.durations.sort_unstable();
        // The nearest rank: the smallest duration that so many of 100 do not exceed.
        let rank = |share: usize| {
            let place = (self.durations.len() * share).div_ceil(100).checked_sub(1)?;
            self.durations.get(place).copied()
        };
        RunCounts { p50_ms: rank(50), p95_ms: rank(95), ..self.counts }
    }
}
