//! The budget of one run, whatever its lists and responses are.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value};

use crate::config::Limits;
use crate::error::{Error, ErrorKind};
use crate::scope::size_of;

/// Counts the resources that a run has used.
#[derive(Debug)]
pub(crate) struct RunBudget {
    steps: AtomicUsize,
    bytes: AtomicUsize,
    traffic: AtomicUsize,
    max_steps: usize,
    max_bytes: usize,
    max_traffic: usize,
    max_events: u64,
}

impl RunBudget {
    /// Creates the budget of a run in which `begun` steps have begun.
    pub(crate) fn new(limits: &Limits, begun: usize) -> Self {
        Self {
            steps: AtomicUsize::new(begun),
            bytes: AtomicUsize::new(0),
            traffic: AtomicUsize::new(0),
            max_steps: limits.max_steps,
            max_bytes: limits.max_variable_bytes,
            max_traffic: limits.max_traffic_bytes,
            max_events: limits.max_events,
        }
    }

    /// Counts one more task, capability or iteration.
    pub(super) fn begin_step(&self) -> Result<(), Error> {
        if self.steps.fetch_add(1, Ordering::Relaxed) < self.max_steps {
            return Ok(());
        }
        Err(exceeded(format!("the run has more than {} steps", self.max_steps)))
    }

    /// Checks that `more` further steps may begin.
    pub(super) fn check_steps(&self, more: usize) -> Result<(), Error> {
        let begun = self.steps.load(Ordering::Relaxed).min(self.max_steps);
        if more <= self.max_steps - begun {
            return Ok(());
        }
        let most = self.max_steps;
        Err(exceeded(format!("{more} more items exceed the limit of {most} steps for a run")))
    }

    /// Checks that the journal may have more events after the one with number `last`.
    pub(super) fn check_events(&self, last: u64) -> Result<(), Error> {
        if last < self.max_events {
            return Ok(());
        }
        Err(exceeded(format!("the run has more than {} events", self.max_events)))
    }

    /// Counts the bytes of a request that is about to be sent.
    pub(super) fn add_sent_bytes(&self, bytes: usize) -> Result<(), Error> {
        self.add_received_bytes(bytes);
        if self.traffic.load(Ordering::Relaxed) <= self.max_traffic {
            return Ok(());
        }
        let most = self.max_traffic;
        Err(exceeded(format!(
            "the requests and responses of the run have more than {most} bytes in total"
        )))
    }

    /// Counts the bytes of a response. A response over the limit is still used, but nothing is sent after
    /// it.
    pub(super) fn add_received_bytes(&self, bytes: usize) {
        self.traffic.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the size of outputs that are about to be stored.
    pub(super) fn add_kept_bytes(&self, outputs: &Map<String, Value>) -> Result<(), Error> {
        let more = outputs.values().map(size_of).sum();
        self.check_bytes(more)?;
        self.bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that `more` further bytes may be kept.
    pub(super) fn check_bytes(&self, more: usize) -> Result<(), Error> {
        if self.bytes.load(Ordering::Relaxed).saturating_add(more) <= self.max_bytes {
            return Ok(());
        }
        Err(exceeded(format!(
            "the variables of the run have more than {} bytes in total",
            self.max_bytes
        )))
    }
}

fn exceeded(message: String) -> Error {
    Error::new(ErrorKind::BudgetExceeded, message)
}
