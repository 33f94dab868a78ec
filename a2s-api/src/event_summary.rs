//! The content of an event of a run by its subject: the run, a step, or the requests of a step.
//!
//! The code that shows or exports a run matches on this summary. So the subject of a new kind of event is
//! decided once, and the compiler reports each match that does not handle it.

use a2s::{CapabilityRef, Digest};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    ApprovalSubject, DecisionRecord, ErrorHandlerKind, EventKind, RequestPurpose, RunError,
    RunStarted, RunStatus, StepResolution, StepWarning, WaitReason,
};

/// The content of an event, by its subject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EventSummary<'e> {
    /// The run as a whole.
    Run(RunChange<'e>),
    /// The step with this path.
    Step(&'e str, StepChange<'e>),
    /// A request of the step with this path, or one that is needed for it.
    Request(&'e str, RequestChange<'e>),
}

/// A change of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunChange<'e> {
    /// It was accepted.
    Started(&'e RunStarted),
    /// It waits for a free slot.
    Queued,
    /// An executor continued it.
    Resumed,
    /// It waits for a person, for this reason.
    Waiting(&'e RunError),
    /// It ended.
    Finished {
        /// The final status.
        status: RunStatus,
        /// The error, if it did not succeed.
        error: Option<&'e RunError>,
    },
}

/// A change of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepChange<'e> {
    /// It began.
    Started {
        /// The name of its kind.
        kind: &'e str,
        /// The capability that it uses.
        capability: Option<&'e CapabilityRef>,
    },
    /// Its condition has this value.
    BranchTaken(bool),
    /// It runs over this number of items.
    ItemsTaken(usize),
    /// A guardian decided about it, or could not be asked.
    Decided {
        /// The id by which the guardian correlates its messages.
        execution_id: Uuid,
        /// The decision.
        decision: &'e DecisionRecord,
    },
    /// It waits for a person's approval.
    ApprovalRequested {
        /// The subject of the approval.
        about: &'e ApprovalSubject,
        /// The guardian that wants it.
        guardian: &'e str,
        /// The id of the approval.
        id: &'e str,
        /// The expiry of the approval, if there is one.
        expires_at: Option<jiff::Timestamp>,
    },
    /// A problem occurred that does not stop it.
    Warned(&'e StepWarning),
    /// It succeeded.
    Finished {
        /// The values that it set, by name.
        outputs: &'e Map<String, Value>,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
    /// It did not run, for this reason.
    Skipped(&'e str),
    /// It failed.
    Failed {
        /// The reason.
        error: &'e RunError,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
    /// A person decided about a request with an unknown outcome.
    Resolved(StepResolution),
    /// Its failure does not end the run.
    ErrorHandled(ErrorHandlerKind),
}

/// A change of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestChange<'e> {
    /// It waits because of the limits for its host.
    Throttled {
        /// The host.
        host: &'e str,
        /// The reason for the wait.
        reason: WaitReason,
        /// The duration of the wait in milliseconds, when known.
        wait_ms: Option<u64>,
    },
    /// An additional request for it is about to leave.
    Requesting {
        /// The purpose of the additional request.
        purpose: RequestPurpose,
        /// Its method.
        method: &'e str,
        /// Its address.
        url: &'e str,
    },
    /// Its token was requested.
    TokenRequested {
        /// Host and port of the authorization server.
        host: &'e str,
        /// The name of the security scheme.
        scheme: &'e str,
        /// True when the token replaces an earlier one.
        renewed: bool,
        /// The duration in milliseconds.
        duration_ms: u64,
        /// The reason for a missing token.
        failure: Option<&'e StepWarning>,
    },
    /// Its MCP session was requested.
    SessionOpened {
        /// Host and port of the server.
        host: &'e str,
        /// The MCP revision of the session.
        revision: Option<&'e str>,
        /// The duration in milliseconds.
        duration_ms: u64,
        /// The reason for a missing session.
        failure: Option<&'e StepWarning>,
    },
    /// It is about to leave.
    Sending(SentRequest<'e>),
    /// A response arrived.
    Received {
        /// HTTP status.
        status: u16,
        /// Size of the body in bytes.
        bytes: u64,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
    /// No usable response arrived, and another attempt follows.
    Retrying {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The reason.
        reason: &'e str,
        /// The pause in milliseconds.
        pause_ms: u64,
    },
}

/// A request that is about to leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SentRequest<'e> {
    /// The id by which the guardian correlates its messages.
    pub execution_id: Uuid,
    /// The attempt, from 1.
    pub attempt: u32,
    /// `GET`, `POST`, …
    pub method: &'e str,
    /// The address, as the document names it.
    pub url: &'e str,
    /// The upstream to which the connection goes instead.
    pub upstream: Option<&'e str>,
    /// The SHA-256 digest of method, address, headers and body.
    pub digest: &'e Digest,
    /// The number of the redirect that led to it, from 1.
    pub redirect: Option<u32>,
}

impl SentRequest<'_> {
    /// Returns the words that follow a request other than the first one of its step: ` (attempt 2)` or
    /// ` (redirect 1)`. Empty for the first one.
    #[must_use]
    pub fn repetition(&self) -> String {
        match (self.redirect, self.attempt) {
            (Some(number), _) => format!(" (redirect {number})"),
            (None, attempt @ 2..) => format!(" (attempt {attempt})"),
            (None, _) => String::new(),
        }
    }
}

impl EventKind {
    /// Returns what the event reports, by its subject.
    #[must_use]
    pub fn summary(&self) -> EventSummary<'_> {
        use EventSummary::{Request, Run, Step};
        use RequestChange::{
            Received, Requesting, Retrying, SessionOpened, Throttled, TokenRequested,
        };
        match self {
            Self::RunStarted(started) => Run(RunChange::Started(started)),
            Self::RunQueued {} => Run(RunChange::Queued),
            Self::RunResumed {} => Run(RunChange::Resumed),
            Self::RunWaiting { error } => Run(RunChange::Waiting(error)),
            Self::RunFinished { status, error, .. } => {
                Run(RunChange::Finished { status: *status, error: error.as_ref() })
            }
            Self::StepStarted { step, kind, capability } => {
                Step(step, StepChange::Started { kind, capability: capability.as_ref() })
            }
            Self::BranchTaken { step, value } => Step(step, StepChange::BranchTaken(*value)),
            Self::ItemsTaken { step, items } => Step(step, StepChange::ItemsTaken(*items)),
            Self::Decided { step, execution_id, decision } => {
                Step(step, StepChange::Decided { execution_id: *execution_id, decision })
            }
            Self::ApprovalRequested { step, about, guardian, id, expires_at, .. } => Step(
                step,
                StepChange::ApprovalRequested { about, guardian, id, expires_at: *expires_at },
            ),
            Self::Warned { step, warning } => Step(step, StepChange::Warned(warning)),
            Self::StepFinished { step, outputs, duration_ms } => {
                Step(step, StepChange::Finished { outputs, duration_ms: *duration_ms })
            }
            Self::StepSkipped { step, reason } => Step(step, StepChange::Skipped(reason)),
            Self::StepFailed { step, error, duration_ms } => {
                Step(step, StepChange::Failed { error, duration_ms: *duration_ms })
            }
            Self::StepResolved { step, decision, .. } => {
                Step(step, StepChange::Resolved(*decision))
            }
            Self::ErrorHandled { step, handler } => Step(step, StepChange::ErrorHandled(*handler)),
            Self::Throttled { step, host, reason, wait_ms } => {
                Request(step, Throttled { host, reason: *reason, wait_ms: *wait_ms })
            }
            Self::Requesting { step, purpose, method, url, .. } => {
                Request(step, Requesting { purpose: *purpose, method, url })
            }
            Self::TokenRequested { step, host, scheme, renewed, duration_ms, failure, .. } => {
                let (renewed, duration_ms) = (*renewed, *duration_ms);
                let failure = failure.as_ref();
                Request(step, TokenRequested { host, scheme, renewed, duration_ms, failure })
            }
            Self::SessionOpened { step, host, revision, duration_ms, failure, .. } => {
                let (revision, duration_ms) = (revision.as_deref(), *duration_ms);
                let failure = failure.as_ref();
                Request(step, SessionOpened { host, revision, duration_ms, failure })
            }
            Self::Sending {
                step,
                execution_id,
                attempt,
                method,
                url,
                upstream,
                request_digest,
                redirect,
                ..
            } => {
                let (upstream, digest) = (upstream.as_deref(), request_digest);
                let (execution_id, attempt, redirect) = (*execution_id, *attempt, *redirect);
                let request =
                    SentRequest { execution_id, attempt, method, url, upstream, digest, redirect };
                Request(step, RequestChange::Sending(request))
            }
            Self::Received { step, status, bytes, duration_ms, .. } => {
                let (status, bytes, duration_ms) = (*status, *bytes, *duration_ms);
                Request(step, Received { status, bytes, duration_ms })
            }
            Self::Retrying { step, attempt, reason, pause_ms } => {
                Request(step, Retrying { attempt: *attempt, reason, pause_ms: *pause_ms })
            }
        }
    }

    /// Returns the path of the step that the event is about; `None` for the run as a whole.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        match self.summary() {
            EventSummary::Run(_) => None,
            EventSummary::Step(step, _) | EventSummary::Request(step, _) => Some(step),
        }
    }
}
