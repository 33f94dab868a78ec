//! Reporting how runs ended until the registry knows it: a run that is over stays unreported in the
//! database until then, so neither a crash nor a registry that is away loses it.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{RunService, lock};
use crate::error::Error;
use crate::registry_client::ReportResult;
use crate::report::health_of_used_hosts;

/// The pause before a failed report is repeated.
const RETRY_PAUSE: Duration = Duration::from_secs(15);
/// The maximum number of failed reports, after which the rest waits.
const MAX_FAILURES: usize = 5;
/// The number of runs that are processed together.
const BATCH: u32 = 100;

impl RunService {
    /// Reports the outcome of a run.
    ///
    /// # Errors
    /// Fails when the report should be tried again.
    pub(super) async fn report_outcome(&self, run: Uuid) -> Result<(), Error> {
        let events = self.store.read_outline(run).await?;
        let Some(mut outcome) = self.reporter.build_report(&events) else { return Ok(()) };
        // Current health, whenever the run was.
        outcome.hosts = health_of_used_hosts(&events, self.outbound.recent_health());
        let reported = self.registry.send_report(&outcome).await;
        self.metrics.reported(matches!(reported, Ok(ReportResult::Taken)));
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
        lock(&self.reported).push(run);
        Ok(())
    }

    /// Reports runs that are over and not yet reported: at once, and then periodically.
    pub(super) async fn run_reporting(self: Arc<Self>) {
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
        if let Err(error) = self.store.mark_reported(runs).await {
            tracing::warn!(%error, "the reported outcomes could not be recorded");
        }
    }

    /// Reports the remaining runs. Stops after several failures, because later reports would fail as well.
    async fn report_pending(&self) -> Result<(), Error> {
        let (mut last, mut failures) = (Uuid::nil(), 0);
        loop {
            let runs = self.store.read_unreported(last, BATCH).await?;
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
