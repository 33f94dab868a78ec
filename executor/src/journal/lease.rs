//! The lease of a run: how long no other executor drives it.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use uuid::Uuid;

use super::store::{LeaseEpoch, LeaseTerms, RunStore};
use crate::error::{Error, ErrorKind};

/// The time for which a run was given to this executor.
///
/// The database rejects writes for a past epoch, but it cannot hold back a request to a service: an
/// executor that was paused between the two would send it although another one has long continued the run.
/// So after each committed event the journal checks this time, and asks the database again when the lease
/// may have expired.
#[derive(Debug)]
pub(crate) struct RunLease {
    /// The epoch in which the run is driven.
    pub(crate) epoch: LeaseEpoch,
    /// The time until which no other executor can have taken it over; `None` for a decision about a run
    /// that is not driven.
    expires_at: Option<Mutex<Instant>>,
}

impl RunLease {
    /// Creates the lease of a run that was assigned to this executor after `asked`.
    pub(crate) fn granted_after(asked: Instant, lease: LeaseTerms, epoch: LeaseEpoch) -> Self {
        Self { epoch, expires_at: Some(Mutex::new(asked + lease.length)) }
    }

    /// The lease for writing to a run that no executor drives.
    pub(crate) fn without_lease(epoch: LeaseEpoch) -> Self {
        Self { epoch, expires_at: None }
    }

    /// Extends the lease after a renewal that was requested at `asked`.
    pub(crate) fn extend(&self, asked: Instant, lease: LeaseTerms) {
        if let Some(until) = &self.expires_at {
            let mut until = until.lock().unwrap_or_else(PoisonError::into_inner);
            *until = (*until).max(asked + lease.length);
        }
    }

    /// Ensures that no other executor drives the run now.
    ///
    /// # Errors
    /// Returns [`ErrorKind::LeaseLost`] when another one drives it.
    pub(crate) async fn ensure_valid(
        &self,
        run: Uuid,
        lease: LeaseTerms,
        store: &RunStore,
    ) -> Result<(), Error> {
        let Some(until) = &self.expires_at else { return Ok(()) };
        let asked = Instant::now();
        if asked < *until.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        if store.renew(lease, vec![(run, self.epoch)]).await?.is_empty() {
            return Err(taken(run));
        }
        self.extend(asked, lease);
        Ok(())
    }
}

/// The error when another executor drives a run, or has ended it.
pub(crate) fn taken(run: Uuid) -> Error {
    Error::new(ErrorKind::LeaseLost, format!("run {run} was driven or ended by another executor"))
}
