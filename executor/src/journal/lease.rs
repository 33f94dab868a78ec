//! The lease of a run: how long no other executor drives it.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use uuid::Uuid;

use super::store::{Epoch, Lease, Store};
use crate::error::{Error, Kind};

/// The time for which a run was given to this executor.
///
/// The database refuses what is written for an epoch that has passed, but a request to a service it
/// cannot hold back: an executor that was stopped between the two would send it although another one
/// has gone on long ago. So whoever has recorded something looks here, and asks again when the time
/// of its lease may have passed meanwhile.
#[derive(Debug)]
pub(crate) struct Tenure {
    /// In which epoch the run is driven.
    pub(crate) epoch: Epoch,
    /// Until when nobody else can have taken it over; none when it is not driven, but decided about.
    until: Option<Mutex<Instant>>,
}

impl Tenure {
    /// That of a run which was given to this executor after `asked`.
    pub(crate) fn since(asked: Instant, lease: Lease, epoch: Epoch) -> Self {
        Self { epoch, until: Some(Mutex::new(asked + lease.length)) }
    }

    /// That of somebody who writes to a run that nobody drives.
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

    /// Makes sure that nobody else drives the run now.
    ///
    /// # Errors
    /// [`Kind::LeaseLost`] when somebody does.
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

/// Somebody else drives a run, or has ended it.
pub(crate) fn taken(run: Uuid) -> Error {
    Error::new(Kind::LeaseLost, format!("run {run} was driven or ended by another executor"))
}
