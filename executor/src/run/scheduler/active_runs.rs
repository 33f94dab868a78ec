//! The runs that this executor drives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use a2s_api::Run;
use tokio::sync::watch;
use uuid::Uuid;

use crate::engine::CancelToken;
use crate::journal::lease::RunLease;
use crate::journal::{Journal, lock};
use crate::secrets::RunSecrets;

/// A run that is driven here.
#[derive(Debug)]
pub(in crate::run) struct ActiveRun {
    /// This executor's lease on the run.
    pub(in crate::run) lease: Arc<RunLease>,
    pub(in crate::run) journal: Journal,
    pub(in crate::run) cancel: CancelToken,
    /// The secret values of the run, which are held only here and never revealed.
    pub(in crate::run) secrets: Arc<RunSecrets>,
    /// The final state of the run, once its last event is recorded. Closed when the run is no longer driven
    /// here, so that waiting callers are not woken by each event.
    pub(in crate::run) ended: watch::Sender<Option<Run>>,
}

/// The runs that are driven here, by their ids.
#[derive(Debug, Default)]
pub(in crate::run) struct ActiveRuns(Mutex<BTreeMap<Uuid, Arc<ActiveRun>>>);

impl ActiveRuns {
    pub(super) fn insert(&self, run: Uuid, active: ActiveRun) -> Arc<ActiveRun> {
        let active = Arc::new(active);
        lock(&self.0).insert(run, Arc::clone(&active));
        active
    }

    /// Removes a run that has left. If the run has started again here since then, it stays.
    pub(super) fn remove(&self, run: Uuid, left: &Arc<ActiveRun>) {
        let mut runs = lock(&self.0);
        if runs.get(&run).is_some_and(|active| Arc::ptr_eq(active, left)) {
            runs.remove(&run);
        }
    }

    pub(in crate::run) fn get(&self, run: Uuid) -> Option<Arc<ActiveRun>> {
        lock(&self.0).get(&run).cloned()
    }

    pub(super) fn ids(&self) -> Vec<Uuid> {
        lock(&self.0).keys().copied().collect()
    }

    /// The runs as they are now.
    pub(super) fn list(&self) -> Vec<(Uuid, Arc<ActiveRun>)> {
        lock(&self.0).iter().map(|(run, active)| (*run, Arc::clone(active))).collect()
    }
}
