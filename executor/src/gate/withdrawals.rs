//! Withdrawals of the approvals of a run that has ended.

use std::collections::BTreeMap;

use a2s_api::{EventKind, RunEvent, RunStatus};
use aos::message::{ApprovalWithdrawal, Ping, PongStatus};
use aos::{GuardianChain, GuardianError};
use jiff::Timestamp;

use super::GuardianGate;
use crate::error::{Error, ErrorKind};

/// The approvals of a run that has ended, at one guardian.
#[derive(Debug, Default)]
struct EndedApprovals {
    withdrawals: Vec<ApprovalWithdrawal>,
    /// The latest expiry that the guardian has stated.
    expires_at: Option<Timestamp>,
}

/// Tells each guardian which approvals a run that has ended will not use. `events` are those that begin
/// and end the run, and its requests for approvals. A guardian that does not know withdrawals ignores
/// them.
///
/// # Errors
/// A guardian does not respond now, and its approvals are still open.
pub(crate) async fn withdraw_approvals(
    gate: &GuardianGate,
    events: &[RunEvent],
) -> Result<(), Error> {
    let mut result = Ok(());
    for (guardian, ended) in ended_approvals(events) {
        let mut clients = gate.guardians().into_iter().flat_map(GuardianChain::clients);
        let Some((_, client)) = clients.find(|(name, _)| *name == guardian) else { continue };
        let now = gate.clock.now();
        let ping = Ping { timestamp: Some(now), ..Ping::default() };
        let ping = ping.with_withdrawals(&ended.withdrawals);
        let is_recorded = match client.ping(gate.new_message_id(), ping).await {
            Ok(pong) => pong.status == PongStatus::Connected,
            Err(failure) => !failure.is_unavailable() && !matches!(failure, GuardianError::Timeout),
        };
        if !is_recorded && ended.expires_at.is_some_and(|at| now < at) {
            let message = format!("the guardian `{guardian}` does not record withdrawals now");
            result = Err(Error::new(ErrorKind::GuardianUnreachable, message));
        }
    }
    result
}

/// Returns the approvals that a run has required, by guardian; none before the run has ended.
fn ended_approvals(events: &[RunEvent]) -> BTreeMap<&str, EndedApprovals> {
    let mut found = BTreeMap::<_, EndedApprovals>::new();
    let Some(EventKind::RunFinished { status, .. }) = events.last().map(|last| &last.kind) else {
        return found;
    };
    let reason = match status {
        RunStatus::Cancelled => "the run was cancelled",
        RunStatus::Denied => "the run was denied",
        RunStatus::Failed => "the run failed",
        _ => "the run ended",
    };
    for event in events {
        if let EventKind::ApprovalRequested { id, execution_id, guardian, expires_at, .. } =
            &event.kind
        {
            let (id, execution_id) = (id.clone(), execution_id.to_string());
            let ended = found.entry(guardian.as_str()).or_default();
            ended.expires_at = ended.expires_at.max(*expires_at);
            ended.withdrawals.push(ApprovalWithdrawal { id, execution_id, reason: reason.into() });
        }
    }
    found
}
