//! The lease of a run: how long no other executor drives it.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use uuid::Uuid;

use super::store::{Epoch, Lease, Store};
use crate::error::{Error, Kind};

/// The time for which a run was given to this executor.
///
/// The database rejects writes for a past epoch, but it cannot hold back a request to a service: an
/// executor that was paused between the two would send it although another one has long continued the run.
/// So after each committed event the journal checks this time, and asks the database again when the lease
/// may have expired.
#[derive(Debug)]
pub(crate) struct Tenure {
    /// In which epoch the run is driven.
    pub(crate) epoch: Epoch,
    /// The time until which no other executor can have taken it over; `None` for a decision about a run
    /// that is not driven.
    until: Option<Mutex<Instant>>,
}

impl Tenure {
    /// That of a run which was given to this executor after `asked`.
    pub(crate) fn since(asked: Instant, lease: Lease, epoch: Epoch) -> Self {
        Self { epoch, until: Some(Mutex::new(asked + lease.length)) }
    }

    /// The lease for writing to a run that no executor drives.
    pub(crate) fn aside(epoch: Epoch) -> Self {
        Self { epoch, until: None }
    }

    /// It was prolonged after `asked`.
    pub(crate) fn prolong(&self, asked: Instant, lease: Lease) {
        if let Some(until) = &self.until {
            let mut until = until.lock().unwrap_or_else(PoisonError::into_inner);
            *until = (*until).max(asked + lease.length);
        }
    }

    /// Ensures that no other executor drives the run now.
    ///
    /// # Errors
    /// [`Kind::LeaseLost`] when another one does.
    pub(crate) async fn confirm(
        &self,
        run: Uuid,
        lease: Lease,
        store: &Store,
    ) -> Result<(), Error> {
        let Some(until) = &self.until else { return Ok(()) };
        let asked = Instant::now();
        if asked < *until.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        if store.renew(lease, vec![(run, self.epoch)]).await?.is_empty() {
            return Err(taken(run));
        }
        self.prolong(asked, lease);
        Ok(())
    }
}

/// The error when another executor drives a run, or has ended it.
pub(crate) fn taken(run: Uuid) -> Error {
    Error::new(Kind::LeaseLost, format!("run {run} was driven or ended by another executor"))
}
