//! Asks the guardians about a redirect: it is a request of its own, which they may allow or deny.

use a2s::{InputLocation, Task};
use indexmap::IndexMap;
use serde_json::Value;

use super::sent::describe_request;
use super::{
    AskReason, GateVerdict, GuardedInputs, GuardedStep, GuardianGate, HookPhase, Permitted,
    RawVerdict, apply_verdict, guardian_request,
};
use crate::request::{self, PreparedRequest, RedirectTarget, TaskContract};

impl GuardianGate {
    /// Asks whether the request that `hop` asks for may be sent after `request`
    /// (`steps/toolCallRequest`, and `protocols/MCP` where a message is repeated). `asker` has the
    /// execution id of this redirect, and `number` counts redirects from 1.
    pub(crate) async fn ask_redirect(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: GuardedInputs<'_>,
        request: &Permitted<PreparedRequest>,
        hop: (&RedirectTarget, u32),
    ) -> GateVerdict<PreparedRequest> {
        let occasion = AskReason::Send;
        self.judge_redirect(asker, contract, inputs, request, hop, occasion).await.permit()
    }

    pub(super) async fn judge_redirect(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: GuardedInputs<'_>,
        request: &PreparedRequest,
        (hop, number): (&RedirectTarget, u32),
        occasion: AskReason,
    ) -> RawVerdict<PreparedRequest> {
        let task = contract.task();
        let next = request.redirect_to(hop);
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(HookPhase::REQUEST, occasion, Ok(next));
        };
        // Only whether secrets were taken out counts of the true inputs here.
        let shown = request.shown_inputs().unwrap_or(inputs.masked);
        let inputs = match inputs.masked == inputs.actual {
            true => GuardedInputs { actual: shown, masked: shown },
            false => GuardedInputs { actual: inputs.actual, masked: shown },
        };
        let sent = describe_request(contract, inputs, &next, Some(number), asker.secrets);
        let message = match task {
            Task::Mcp(tool) if hop.keeps_body => request::mcp_call(tool, shown).ok(),
            _ => None,
        };
        let now = self.clock.now();
        let call = guardian_request::request_call(asker, task, shown, sent.clone(), occasion, now);
        let call = (call, &**asker.trace);
        let follow = |modified: &_| refuse_changes(shown, modified);
        let said = self.ask_guardians(guardians, HookPhase::REQUEST, occasion, call, follow).await;
        let judged = RawVerdict { decisions: said.0, verdict: said.1 };
        let judged = match (message, judged) {
            (Some(message), RawVerdict { decisions, verdict: Ok(()) }) => {
                let call =
                    guardian_request::message_call(asker, task, message, Some(sent), occasion, now);
                let call = (call, &**asker.trace);
                let follow = |_: &_| Err(NOT_CHANGEABLE.to_owned());
                let asking = HookPhase::MCP_OUTBOUND;
                let said = self.ask_guardians(guardians, asking, occasion, call, follow).await;
                let next = RawVerdict { decisions: said.0, verdict: said.1 };
                RawVerdict { decisions, verdict: Ok(()) }.then(next)
            }
            (_, judged) => judged,
        };
        let RawVerdict { decisions, verdict } = judged;
        RawVerdict { decisions, verdict: verdict.map(|()| next) }
    }
}

/// The reason for which a redirect cannot be modified.
const NOT_CHANGEABLE: &str = "a guardian can allow or deny a redirect, but not modify it";

/// Rejects changes of the inputs. A guardian that has changed the inputs before may send the same inputs
/// again.
fn refuse_changes(
    shown: &IndexMap<InputLocation, Value>,
    modified: &aos::message::Request,
) -> Result<Vec<a2s_api::GuardianChange>, String> {
    match apply_verdict::modified_inputs(shown, modified)? {
        (_, changes) if changes.is_empty() => Ok(changes),
        _ => Err(NOT_CHANGEABLE.to_owned()),
    }
}
