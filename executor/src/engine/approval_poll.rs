//! Asking guardians again about the steps that a run waits at, without going on with it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::gate::{GuardedStep, GuardianGate, is_approval_required, is_failed_closed};
use crate::journal::wait_point::WaitPoint;
use crate::request::TaskContract;
use crate::secrets::{Masked, MaskedInputs};

/// A walk that asks guardians for their current decisions, and sends no requests to services.
#[derive(Debug)]
pub(crate) struct ApprovalPoll {
    /// The steps that the guardians are asked about.
    steps: BTreeSet<String>,
    /// Set when the time for the approvals is over. A guardian may then still report a decision, but it is
    /// not asked for a new approval.
    is_expired: bool,
    results: Mutex<Vec<(String, PollResult)>>,
}

/// The result of asking a guardian about a waiting step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PollResult {
    /// The step still waits for this approval; without an id when the time for the approval is over.
    Pending(Option<String>),
    /// The guardian gave no usable response.
    Silent,
    /// The guardian has made another decision.
    Changed,
}

impl ApprovalPoll {
    pub(crate) fn new(steps: BTreeSet<String>, is_late: bool) -> Self {
        Self { steps, is_expired: is_late, results: Mutex::default() }
    }

    /// The results, by step.
    pub(crate) fn into_results(self) -> Vec<(String, PollResult)> {
        self.results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about one step, at the point where it waits. A step at which the run does not wait is not
    /// begun.
    pub(super) async fn poll_step(
        &self,
        gate: &GuardianGate,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
        waiting: (Option<&WaitPoint>, Option<Masked<Value>>),
    ) {
        if !self.steps.contains(asker.step) {
            return;
        }
        let (decisions, verdict) =
            gate.ask_again(asker, contract, inputs, waiting, self.is_expired).await;
        let standing = if self.is_expired {
            match decisions.last() {
                Some(last) if is_approval_required(last) => PollResult::Pending(None),
                Some(last) if is_failed_closed(last) => PollResult::Silent,
                _ => PollResult::Changed,
            }
        } else {
            match verdict {
                Err(Error { kind: ErrorKind::ApprovalRequired, approval, .. }) => {
                    PollResult::Pending(approval.map(|wanted| wanted.id))
                }
                Err(Error { kind: ErrorKind::GuardianUnreachable, .. }) => PollResult::Silent,
                Ok(()) | Err(_) => PollResult::Changed,
            }
        };
        let mut found = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        found.push((asker.step.to_owned(), standing));
    }
}
