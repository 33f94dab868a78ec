//! Items that are written for runs: events and exchanges.

use std::sync::Arc;

use a2s_api::{EventKind, RunEvent, RunStatus};
use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

use super::{LeaseEpoch, SealedChanges};
use crate::error::ErrorKind;
use crate::journal::recorded_exchange::RecordedExchange;

/// An item that is written for a run.
#[derive(Debug)]
pub(super) enum JournalItem {
    Event {
        event: Box<RunEvent>,
        epoch: LeaseEpoch,
        besides: SealedChanges,
        committed: Arc<watch::Sender<u64>>,
    },
    Exchange {
        run: Uuid,
        epoch: LeaseEpoch,
        step: String,
        exchange: Box<RecordedExchange>,
    },
}

impl JournalItem {
    /// Returns true when it has no sealed values: many of such items are written together.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Event { besides, .. } => besides.is_empty(),
            Self::Exchange { .. } => true,
        }
    }

    /// The run.
    pub(super) fn run(&self) -> Uuid {
        match self {
            Self::Event { event, .. } => event.run,
            Self::Exchange { run, .. } => *run,
        }
    }

    /// Returns true when it begins a wait that a cancelled run does not begin.
    pub(super) fn yields_to_cancel(&self) -> bool {
        matches!(self, Self::Event { event, .. } if yields_to_cancel(&event.kind))
    }

    /// The state of the run after it, when it changes the state.
    pub(super) fn status_after(&self) -> Option<RunStatus> {
        match self {
            Self::Event { event, .. } => status_after(event),
            Self::Exchange { .. } => None,
        }
    }
}

/// Sends the number of the last event to the followers of a run. A follower that begins later reads the
/// number by itself, so without followers no notification is sent.
pub(super) fn notify_followers(committed: &watch::Sender<u64>, seq: u64) {
    committed.send_if_modified(|last| {
        *last = seq;
        committed.receiver_count() > 0
    });
}

/// The errors with which a run that a caller has cancelled does not begin to wait. It still waits for a person
/// who has to find out the outcome of a request.
pub(super) const YIELDING_WAITS: [ErrorKind; 2] =
    [ErrorKind::ApprovalRequired, ErrorKind::TakenOverTooOften];

/// Returns true for an event that begins a wait with one of [`YIELDING_WAITS`].
pub(super) fn yields_to_cancel(kind: &EventKind) -> bool {
    let EventKind::RunWaiting { error } = kind else { return false };
    ErrorKind::from_code(&error.code).is_some_and(|kind| YIELDING_WAITS.contains(&kind))
}

/// The state of a run after an event, when the event changes it.
pub(super) fn status_after(event: &RunEvent) -> Option<RunStatus> {
    match &event.kind {
        EventKind::RunFinished { status, .. } => Some(*status),
        EventKind::RunWaiting { .. } => Some(RunStatus::Waiting),
        // The first claimant runs it.
        EventKind::StepResolved { .. } => Some(RunStatus::Running),
        EventKind::RunQueued {} => Some(RunStatus::Queued),
        _ => None,
    }
}

/// A set of event kinds: a function that recognizes them, and their names in the column `type`.
macro_rules! kinds {
    ($(#[$doc:meta])* $is_one:ident, $names:ident: $($kind:ident $name:literal),+ $(,)?) => {
        $(#[$doc])*
        pub(super) fn $is_one(event: &RunEvent) -> bool {
            matches!(event.kind, $(EventKind::$kind { .. })|+)
        }

        pub(super) const $names: &[&str] = &[$($name),+];
    };
}

kinds! {
    /// Returns true when an event begins, suspends or ends a run.
    is_turn, TURNS:
    RunStarted "run_started",
    RunQueued "run_queued",
    RunResumed "run_resumed",
    StepResolved "step_resolved",
    RunWaiting "run_waiting",
    RunFinished "run_finished",
}

kinds! {
    /// Returns true when an event begins or ends a run, or is one of its requests, also for an approval.
    is_in_outline, OUTLINE:
    RunStarted "run_started",
    ApprovalRequested "approval_requested",
    Sending "sending",
    RunFinished "run_finished",
}

pub(super) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

pub(super) fn to_json_text(value: &impl Serialize) -> Result<String, sqlx::Error> {
    serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}
