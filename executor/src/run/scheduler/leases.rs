//! The leases of the runs that are driven here, and the notifications of other executors.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;
use uuid::Uuid;

use super::super::POLL;
use super::RunScheduler;
use crate::engine::CancelReason;
use crate::error::Error;
use crate::journal::store::Notification;

impl RunScheduler {
    /// Renews the leases of active runs, and obeys cancellations that were requested elsewhere.
    pub(super) async fn renew_leases(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.context.config.limits.lease / 3).await;
            if let Err(error) = self.renew_once().await {
                tracing::error!(%error, "leases could not be renewed");
            }
        }
    }

    /// Renews the leases of active runs once. Stops those that belong to another executor now.
    async fn renew_once(&self) -> Result<(), Error> {
        let active = self.active.list();
        if active.is_empty() {
            return Ok(());
        }
        let epochs = active.iter().map(|(run, active)| (*run, active.lease.epoch)).collect();
        let (asked, lease) = (Instant::now(), self.context.lease());
        let held = self.context.store.renew(lease, epochs).await?;
        let held: BTreeMap<Uuid, bool> =
            held.iter().map(|held| (held.run, held.cancel_requested)).collect();
        for (run, active) in &active {
            match held.get(run) {
                Some(cancel_requested) => {
                    active.lease.extend(asked, lease);
                    if *cancel_requested {
                        active.cancel.cancel(CancelReason::Cancelled);
                    }
                }
                // It has just ended, or another executor has it.
                None => active.cancel.cancel(CancelReason::LeaseLost),
            }
        }
        Ok(())
    }

    /// Listens to other executors, as long as the database delivers their notifications.
    pub(super) async fn follow_notifications(self: Arc<Self>) {
        loop {
            match self.handle_notifications().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "notifications of other executors are not available now")
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn handle_notifications(&self) -> Result<(), Error> {
        let Some(mut listener) = self.context.store.listen().await? else { return Ok(()) };
        // Missed notifications are not repeated.
        let mut notification = Notification::Missed;
        loop {
            match notification {
                Notification::Cancel(run) => self.cancel_active(run),
                Notification::RunAtRest => self.watchers.notify_elsewhere(),
                Notification::RunsAvailable => self.slots.notify(),
                Notification::Missed => {
                    self.renew_once().await?;
                    self.watchers.notify_elsewhere();
                    self.slots.notify();
                }
            }
            notification = listener.next_notification().await?;
        }
    }
}
