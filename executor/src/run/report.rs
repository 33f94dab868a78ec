//! Reporting how runs ended until the registry knows it: a run that is over stays unreported in the
//! database until then, so neither a crash nor a registry that is away loses it.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{Runs, lock};
use crate::error::Error;
use crate::registry_client::Reported;
use crate::report::hosts_of;

/// The pause before a failed report is repeated.
const AGAIN: Duration = Duration::from_secs(15);
/// Reports that fail before the rest waits.
const MOST_FAILURES: usize = 5;
/// Runs that are looked at together.
const BATCH: u32 = 100;

impl Runs {
    /// Reports how a run ended.
    ///
    /// # Errors
    /// When that should be tried again.
    pub(super) async fn report(&self, run: Uuid) -> Result<(), Error> {
        let events = self.store.read_outline(run).await?;
        let Some(mut outcome) = self.reporter.outcome_of(&events) else { return Ok(()) };
        // What is true now, whenever the run was.
        outcome.hosts = hosts_of(&events, self.outbound.health());
        let reported = self.registry.report(&outcome).await;
        self.metrics.reported(matches!(reported, Ok(Reported::Taken)));
        match reported {
            Ok(Reported::Taken) => {}
            Ok(Reported::Refused(error)) => {
                tracing::warn!(%run, %error, "the registry does not want to know how a run ended");
            }
            Err(error) => {
                tracing::warn!(%run, %error, "an outcome was not reported; it will be again");
                return Err(error);
            }
        }
        lock(&self.reported).push(run);
        Ok(())
    }

    /// Reports runs that are over and not yet reported: at once, and then periodically.
    pub(super) async fn keep_reporting(self: Arc<Self>) {
        loop {
            self.mark_reported().await;
            if let Err(error) = self.report_rest().await {
                tracing::debug!(%error, "outcomes wait to be reported");
            }
            tokio::time::sleep(AGAIN).await;
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
            tracing::warn!(%error, "what was reported could not be written down");
        }
    }

    /// Reports the remaining runs. Stops after several failures, because later reports would fail as well.
    async fn report_rest(&self) -> Result<(), Error> {
        let (mut last, mut failures) = (Uuid::nil(), 0);
        loop {
            let runs = self.store.read_unreported(last, BATCH).await?;
            let Some(newest) = runs.last() else { return Ok(()) };
            last = *newest;
            for run in runs {
                let reported = self.report(run).await;
                failures += usize::from(reported.is_err());
                if MOST_FAILURES <= failures {
                    return reported;
                }
            }
        }
    }
}
