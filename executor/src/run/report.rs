//! Reporting how runs ended until the registry knows it, and withdrawing their approvals: a run that is
//! over stays unreported in the database until then, so neither a crash nor a service that is away loses it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{EventKind, RunEvent};
use uuid::Uuid;

use super::context::RunContext;
use crate::error::Error;
use crate::gate::withdrawals::withdraw_approvals;
use crate::journal::lock;
use crate::registry_client::{RegistryClient, ReportResult};
use crate::report::{OutcomeReporter, health_of_used_hosts};

/// The pause before a failed report is repeated.
const RETRY_PAUSE: Duration = Duration::from_secs(15);
/// The maximum number of failed reports, after which the rest waits.
const MAX_FAILURES: usize = 5;
/// The number of runs that are processed together.
const BATCH: u32 = 100;

/// The reports of how runs ended, to the registry and to the receivers of traces and security events.
#[derive(Debug)]
pub(super) struct OutcomeReports {
    context: Arc<RunContext>,
    registry: Arc<RegistryClient>,
    reporter: OutcomeReporter,
    /// Runs that were reported to the registry, and are not yet marked in the database.
    reported: Mutex<Vec<Uuid>>,
}

impl OutcomeReports {
    pub(super) fn new(context: Arc<RunContext>, registry: Arc<RegistryClient>) -> Self {
        let reporter = OutcomeReporter::new(context.store.identity().to_owned());
        Self { context, registry, reporter, reported: Mutex::default() }
    }

    /// Reports to the receivers and the registry how a run ended. A failure to report changes nothing for
    /// the run.
    pub(super) async fn announce_end(&self, run: Uuid) {
        self.export_run(run).await;
        // One that fails is repeated later.
        let _ = self.report_outcome(run).await;
    }

    /// Reports a run that is over or waits to the receivers of traces and security events.
    pub(super) async fn export_run(&self, run: Uuid) {
        if !self.context.sinks.has_sinks() {
            return;
        }
        match self.context.read_events(run).await {
            Ok(mut events) => {
                self.name_principal(&mut events).await;
                self.context.sinks.export_run(&events);
            }
            Err(error) => tracing::warn!(%run, %error, "the run could not be exported"),
        }
    }

    /// Adds the principal to the first event of a run that an older executor started. It comes from the row
    /// of the run.
    async fn name_principal(&self, events: &mut [RunEvent]) {
        if let Some(RunEvent { run, kind: EventKind::RunStarted(started), .. }) = events.first_mut()
            && started.principal.is_none()
            && let Ok(Some(row)) = self.context.store.read_run(*run).await
        {
            started.principal = Some(row.tenant);
        }
    }

    /// Withdraws the approvals of a run that is over, and reports its outcome.
    ///
    /// # Errors
    /// Fails when either should be tried again.
    async fn report_outcome(&self, run: Uuid) -> Result<(), Error> {
        let events = self.context.store.read_outline(run).await?;
        let withdrawn = withdraw_approvals(&self.context.gate, &events).await;
        let Some(mut outcome) = self.reporter.build_report(&events) else { return Ok(()) };
        // Current health, whenever the run was.
        outcome.hosts = health_of_used_hosts(&events, self.context.outbound.recent_health());
        let reported = self.registry.send_report(&outcome).await;
        self.context.metrics.reported(matches!(reported, Ok(ReportResult::Taken)));
        match reported {
            Ok(ReportResult::Taken) => {}
            Ok(ReportResult::Refused(error)) => {
                tracing::warn!(%run, %error, "the registry rejected the outcome of a run");
            }
            Err(error) => {
                tracing::warn!(%run, %error, "the outcome of a run could not be reported; the executor tries again later");
                return Err(error);
            }
        }
        withdrawn.inspect_err(|error| {
            tracing::warn!(%run, %error, "the approvals of a run could not be withdrawn; the executor tries again later");
        })?;
        lock(&self.reported).push(run);
        Ok(())
    }

    /// Reports runs that are over and not yet reported: at once, and then periodically.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            self.mark_reported().await;
            if let Err(error) = self.report_pending().await {
                tracing::debug!(%error, "outcomes could not be reported; the executor tries again later");
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Records the runs that were reported since the last time in one write, so that no run needs its own.
    /// Runs that are lost in a crash are reported again, which changes nothing.
    pub(super) async fn mark_reported(&self) {
        let runs = std::mem::take(&mut *lock(&self.reported));
        if runs.is_empty() {
            return;
        }
        if let Err(error) = self.context.store.mark_reported(runs).await {
            tracing::warn!(%error, "the reported outcomes could not be recorded");
        }
    }

    /// Reports the remaining runs. Stops after several failures, because later reports would fail as well.
    async fn report_pending(&self) -> Result<(), Error> {
        let (mut last, mut failures) = (Uuid::nil(), 0);
        loop {
            let runs = self.context.store.read_unreported(last, BATCH).await?;
            let Some(newest) = runs.last() else { return Ok(()) };
            last = *newest;
            for run in runs {
                let reported = self.report_outcome(run).await;
                failures += usize::from(reported.is_err());
                if MAX_FAILURES <= failures {
                    return reported;
                }
            }
        }
    }
}
