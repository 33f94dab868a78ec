//! Items that are written for runs: events and exchanges.

use std::sync::Arc;

use a2s::api::{Event, EventKind, RunStatus};
use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

use super::{Besides, Epoch};
use crate::journal::recorded_exchange::Exchange;

/// Something that a run tells.
#[derive(Debug)]
pub(super) enum Told {
    Event { event: Box<Event>, epoch: Epoch, besides: Besides, committed: Arc<watch::Sender<u64>> },
    Exchange { run: Uuid, epoch: Epoch, step: String, exchange: Box<Exchange> },
}

impl Told {
    /// Whether an event or exchange is all that it writes. What changes a run besides is told alone:
    /// whatever comes behind it is held to what it changed.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Event { event, besides, .. } => {
                besides.is_nothing() && status_after(event).is_none()
            }
            Self::Exchange { .. } => true,
        }
    }
}

/// Tells whoever follows a run the number of its last event. Who begins to follow it later reads the
/// number, so that nobody is looked for where nobody follows.
pub(super) fn tell(committed: &watch::Sender<u64>, seq: u64) {
    committed.send_if_modified(|last| {
        *last = seq;
        committed.receiver_count() > 0
    });
}

/// The state of a run behind an event, when that changes it.
pub(super) fn status_after(event: &Event) -> Option<RunStatus> {
    match &event.kind {
        EventKind::RunFinished { status, .. } => Some(*status),
        EventKind::RunWaiting { .. } => Some(RunStatus::Waiting),
        // For whoever claims it first.
        EventKind::StepResolved { .. } => Some(RunStatus::Running),
        EventKind::RunQueued {} => Some(RunStatus::Queued),
        _ => None,
    }
}

/// Some kinds of events: a function that tells them, and their names in the column `type`.
macro_rules! kinds {
    ($(#[$doc:meta])* $is_one:ident, $names:ident: $($kind:ident $name:literal),+ $(,)?) => {
        $(#[$doc])*
        pub(super) fn $is_one(event: &Event) -> bool {
            matches!(event.kind, $(EventKind::$kind { .. })|+)
        }

        pub(super) const $names: &[&str] = &[$($name),+];
    };
}

kinds! {
    /// Whether an event begins, suspends or ends a run.
    is_turn, TURNS:
    RunStarted "run_started",
    RunQueued "run_queued",
    RunResumed "run_resumed",
    StepResolved "step_resolved",
    RunWaiting "run_waiting",
    RunFinished "run_finished",
}

kinds! {
    /// Whether an event begins or ends a run, or is one of its requests.
    is_in_outline, OUTLINE:
    RunStarted "run_started",
    Sending "sending",
    RunFinished "run_finished",
}

pub(super) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

pub(super) fn text_of(value: &impl Serialize) -> Result<String, sqlx::Error> {
    serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
