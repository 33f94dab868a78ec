//! Taking over runs that no executor drives, beginning runs that wait, and deleting what has expired.

use std::sync::Arc;
use std::time::Duration;

use a2s_api::{EventKind, RunStatus};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;
use uuid::Uuid;

use super::super::restored_run::RestoredRun;
use super::super::run_task::{RunTask, last_event};
use super::{RunScheduler, RunSlot};
use crate::clock::milliseconds_between;
use crate::engine::{CancelReason, StepError};
use crate::error::{Error, ErrorKind};
use crate::journal::lease::RunLease;
use crate::journal::lock;
use crate::journal::run_state::{RunHeader, RunProgress, RunState};
use crate::journal::store::{ClaimedRun, LeaseTerms};
use crate::run::not_found;

/// The most claimed runs that are read and started at the same time.
const MAX_CONCURRENT_STARTS: usize = 8;
/// The number of old runs that are deleted at a time, so that others do not have to wait for the database.
const FORGET_BATCH: usize = 500;

impl RunScheduler {
    /// Takes over runs that no executor drives, and deletes expired runs and plans, from time to time. It
    /// is separate from renewing the leases, which must not wait for it.
    pub(super) async fn run_maintenance(self: Arc<Self>) {
        let pause = self.context.config.limits.lease / 3;
        let mut due = Instant::now() + pause;
        loop {
            self.slots.wait_for_runs(due).await;
            if let Err(error) = self.take_over().await {
                tracing::error!(%error, "runs could not be taken over");
            }
            if Instant::now() < due {
                continue;
            }
            due = Instant::now() + pause;
            self.count_waiting().await;
            if let Err(error) = self.delete_expired().await {
                tracing::error!(%error, "old runs, plans or values could not be deleted");
            }
        }
    }

    /// Updates the metric for runs that wait for a person.
    pub(super) async fn count_waiting(&self) {
        match self.context.store.count_waiting().await {
            Ok(count) => self.context.metrics.set_waiting_runs(count),
            Err(error) => tracing::error!(%error, "waiting runs could not be counted"),
        }
    }

    /// Deletes ended runs, values of sessions and plans that are older than their time limits, unless the
    /// clock has just jumped.
    pub(super) async fn delete_expired(&self) -> Result<(), Error> {
        let now = self.context.clock.now();
        if !lock(&self.sweep_clock).allows_sweep(now, Instant::now()) {
            return Ok(());
        }
        self.context.store.sweep_plans(now).await?;
        let limits = &self.context.config.limits;
        let end = |keep: Option<Duration>| now.checked_sub(keep?).ok();
        if let Some(before) = end(limits.keep_session_values) {
            self.resolver.states.forget_sessions(before).await?;
        }
        let Some(before) = end(limits.keep_runs) else { return Ok(()) };
        let forgotten = self.context.store.forget(before, FORGET_BATCH).await?;
        if !forgotten.is_empty() {
            tracing::info!(runs = forgotten.len(), "old runs were deleted");
        }
        Ok(())
    }

    /// Resumes runs that no executor drives, and begins waiting runs, as long as there are free slots.
    pub(in crate::run) async fn take_over(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            let batch = self.slots.acquire_batch().await;
            let room = batch.len();
            if room == 0 || self.is_closing() {
                return Ok(());
            }
            // A run that is driven here is not taken over from here, however late its lease is renewed.
            let active = self.active.ids();
            let (asked, lease) = (Instant::now(), self.context.lease());
            let caps = Arc::clone(&self.tenant_caps);
            let (claimed, left) = self.context.store.claim(lease, active, caps, room).await?;
            let is_full = claimed.len() == room;
            let slots = batch.into_slots(claimed.len(), left);
            let take = |(claimed, slot)| self.start_claimed(claimed, (asked, lease), slot);
            let taken: Vec<_> = claimed.into_iter().zip(slots).map(take).collect();
            stream::iter(taken).buffer_unordered(MAX_CONCURRENT_STARTS).collect::<()>().await;
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Drives a run that was assigned to this executor, unless too many executors crashed with it.
    async fn start_claimed(
        self: &Arc<Self>,
        ClaimedRun { run, epoch, takeovers }: ClaimedRun,
        (asked, lease): (Instant, LeaseTerms),
        slot: RunSlot,
    ) {
        let run_lease = RunLease::granted_after(asked, lease, epoch);
        let taken = if takeovers <= self.context.config.limits.max_takeovers {
            self.resume(run, run_lease, slot).await
        } else {
            self.suspend_crashing_run(run, run_lease, takeovers).await
        };
        if let Err(error) = taken {
            tracing::error!(%run, %error, "a run could not be resumed");
        }
    }

    /// Makes a run wait for a person after several executors have crashed with it. Otherwise, it could also
    /// crash this executor, with all its runs.
    async fn suspend_crashing_run(
        &self,
        run: Uuid,
        run_lease: RunLease,
        takeovers: u32,
    ) -> Result<(), Error> {
        let events = self.context.read_events(run).await?;
        let state = RunState::from_events(&events).ok_or_else(|| not_found(run))?;
        let header = RunHeader::from_events(&events).ok_or_else(|| not_found(run))?;
        let progress = RunProgress::from_events(&events);
        let row = self.context.read_row(run).await?;
        let repeat_safe = progress.count_effects() == 0;
        let stop = if row.cancel_requested {
            StepError::Cancelled(CancelReason::Cancelled)
        } else {
            let error = not_survived(takeovers, &progress);
            tracing::error!(%run, %error, "the run waits for a person");
            StepError::Waiting(error.to_run_error(None, None, repeat_safe))
        };
        let duration_ms = milliseconds_between(header.at, self.context.clock.now());
        let active = self.activate(state, run_lease, Arc::default());
        self.release(run, active, last_event(Err(stop), repeat_safe, duration_ms)).await;
        Ok(())
    }

    /// Resumes a run that was assigned to this executor.
    async fn resume(
        self: &Arc<Self>,
        run: Uuid,
        run_lease: RunLease,
        slot: RunSlot,
    ) -> Result<(), Error> {
        let mut events = self.context.read_events(run).await?;
        let restored = RestoredRun::from_events(&self.context, run, &mut events).await?;
        let RestoredRun { state, header, progress, secrets, lost } = restored;
        let has_begun = state.status() != RunStatus::Queued;
        let active = self.activate(state, run_lease, secrets);
        active.journal.adopt_wait_points(progress.wait_point_events());
        let row = async {
            active.journal.commit(EventKind::RunResumed {}).await?;
            // A later cancel request finds the run among those that are driven here.
            self.context.read_row(run).await
        };
        let row = match row.await {
            Ok(row) => row,
            Err(error) => {
                self.active.remove(run, &active);
                return Err(error);
            }
        };
        let capability = &header.capability.name;
        tracing::info!(%run, %capability, principal = %row.tenant, has_begun, "run resumed");
        if row.cancel_requested {
            active.cancel.cancel(CancelReason::Cancelled);
        }
        let plan = match lost {
            None => self.resolver.load_plan(&header, &row.choices).await,
            Some(error) => Err(secrets_lost(&error, &progress)),
        };
        match plan {
            Ok(plan) => {
                let principal = row.tenant;
                let task = RunTask { run, principal, active, plan, header, progress, slot };
                self.spawn(task, has_begun);
            }
            Err(error) => {
                let repeat_safe = progress.count_effects() == 0;
                let stop = match row.cancel_requested {
                    true => StepError::Cancelled(CancelReason::Cancelled),
                    false => StepError::Failed(error.to_run_error(None, None, repeat_safe)),
                };
                let duration_ms = milliseconds_between(header.at, self.context.clock.now());
                let ended = last_event(Err(stop), repeat_safe, duration_ms);
                self.release(run, active, ended).await;
            }
        }
        Ok(())
    }
}

/// The error of a run that is not resumed automatically any more, with the steps it was at.
fn not_survived(takeovers: u32, progress: &RunProgress) -> Error {
    let steps: Vec<_> = progress.unfinished_tasks().map(|step| format!("`{step}`")).collect();
    let at = match steps.as_slice() {
        [] => "between two steps".to_owned(),
        steps => format!("at {}", steps.join(", ")),
    };
    let message = format!(
        "{takeovers} executors in a row stopped during this run before they finished a step \
         of it; it is {at}"
    );
    Error::new(ErrorKind::TakenOverTooOften, message)
}

/// The error of a run that cannot continue because its secrets cannot be opened, with the requests it may
/// have made.
fn secrets_lost(error: &Error, progress: &RunProgress) -> Error {
    let doubts: Vec<_> = progress
        .unconfirmed_requests()
        .map(|(step, doubt)| {
            format!("; `{step}` sent `{} {}`, and the result is unknown", doubt.method, doubt.url)
        })
        .collect();
    let message = format!(
        "the executor stopped during this run, and the secret values of the run cannot be unsealed: \
         {}{}",
        error.message,
        doubts.concat()
    );
    Error::new(ErrorKind::SecretsLost, message)
}
