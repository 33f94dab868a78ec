//! Asking guardians again about the steps that a run waits at, without going on with it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Kind};
use crate::gate::{Asker, Gate, Inputs, is_approval_required, is_failed_closed};
use crate::journal::wait_point::WaitPoint;
use crate::request::Contract;

/// A walk that asks what guardians say now, and sends nothing.
#[derive(Debug)]
pub(crate) struct Inquiry {
    /// The steps that are asked about.
    steps: BTreeSet<String>,
    /// Whether the time for the approvals is over: what is given may be seen then, and nothing is asked
    /// for anew.
    is_late: bool,
    found: Mutex<Vec<(String, Standing)>>,
}

/// A guardian's answer about a step that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It still waits for this approval; without an id when the time for it is over.
    Pending(Option<String>),
    /// No usable answer came.
    Silent,
    /// The guardian says something else by now.
    Changed,
}

impl Inquiry {
    pub(crate) fn new(steps: BTreeSet<String>, is_late: bool) -> Self {
        Self { steps, is_late, found: Mutex::default() }
    }

    /// What was found, by step.
    pub(crate) fn into_found(self) -> Vec<(String, Standing)> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about one step, at the place where it waits. One that the run does not wait at is not begun.
    pub(super) async fn ask(
        &self,
        gate: &Gate,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
        wait_point: Option<&WaitPoint>,
    ) {
        if !self.steps.contains(asker.step) {
            return;
        }
        let (decisions, verdict) =
            gate.ask_again(asker, contract, inputs, wait_point, self.is_late).await;
        let standing = if self.is_late {
            match decisions.last() {
                Some(last) if is_approval_required(last) => Standing::Pending(None),
                Some(last) if is_failed_closed(last) => Standing::Silent,
                _ => Standing::Changed,
            }
        } else {
            match verdict {
                Err(Error { kind: Kind::ApprovalRequired, approval, .. }) => {
                    Standing::Pending(approval.map(|wanted| wanted.id))
                }
                Err(Error { kind: Kind::GuardianUnreachable, .. }) => Standing::Silent,
                Ok(()) | Err(_) => Standing::Changed,
            }
        };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.push((asker.step.to_owned(), standing));
    }
}
