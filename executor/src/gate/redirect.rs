//! Asks the guardians about a redirect: it is a request of its own, which they may allow or deny.

use a2s::{Place, Task};
use indexmap::IndexMap;
use serde_json::Value;

use super::sent::describe_request;
use super::{
    Asked, Asker, Asking, Gate, Inputs, Judged, Occasion, Permitted, apply_verdict,
    guardian_request,
};
use crate::request::{self, Contract, Hop, PreparedRequest};

impl Gate {
    /// Asks whether the request that `hop` asks for may be sent after `request`
    /// (`steps/toolCallRequest`, and `protocols/MCP` where a message is repeated). `asker` has the
    /// execution id of this redirect, and `number` counts redirects from 1.
    pub(crate) async fn ask_redirect(
        &self,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
        request: &Permitted<PreparedRequest>,
        hop: (&Hop, u32),
    ) -> Asked<PreparedRequest> {
        let occasion = Occasion::Run;
        self.judge_redirect(asker, contract, inputs, request, hop, occasion).await.permit()
    }

    pub(super) async fn judge_redirect(
        &self,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
        request: &PreparedRequest,
        (hop, number): (&Hop, u32),
        occasion: Occasion,
    ) -> Judged<PreparedRequest> {
        let task = contract.task();
        let next = request.redirected(hop);
        let Some(guardians) = self.guardians() else {
            return self.unguarded(Asking::REQUEST, occasion, Ok(next));
        };
        // Only whether secrets were taken out counts of the true inputs here.
        let shown = request.shown_inputs().unwrap_or(inputs.shown);
        let inputs = match inputs.shown == inputs.truth {
            true => Inputs { truth: shown, shown },
            false => Inputs { truth: inputs.truth, shown },
        };
        let sent = describe_request(contract, inputs, &next, Some(number), asker.secrets);
        let message = match task {
            Task::Mcp(tool) if hop.keeps_body => request::mcp_call(tool, shown).ok(),
            _ => None,
        };
        let now = self.clock.now();
        let call = guardian_request::about_request(asker, task, shown, sent.clone(), occasion, now);
        let call = (call, &**asker.trace);
        let follow = |modified: &_| refuse_changes(shown, modified);
        let said = self.consult(guardians, Asking::REQUEST, occasion, call, follow).await;
        let judged = Judged { decisions: said.0, verdict: said.1 };
        let judged = match (message, judged) {
            (Some(message), Judged { decisions, verdict: Ok(()) }) => {
                let call = guardian_request::about_message(
                    asker,
                    task,
                    message,
                    Some(sent),
                    occasion,
                    now,
                );
                let call = (call, &**asker.trace);
                let follow = |_: &_| Err(FIXED.to_owned());
                let asking = Asking::MCP_OUTBOUND;
                let said = self.consult(guardians, asking, occasion, call, follow).await;
                let next = Judged { decisions: said.0, verdict: said.1 };
                Judged { decisions, verdict: Ok(()) }.then(next)
            }
            (_, judged) => judged,
        };
        let Judged { decisions, verdict } = judged;
        Judged { decisions, verdict: verdict.map(|()| next) }
    }
}

/// Why a modification of a redirect is none.
const FIXED: &str = "a redirect can be allowed or denied, and not changed";

/// A guardian that has changed the inputs before may say the same again.
fn refuse_changes(
    shown: &IndexMap<Place, Value>,
    modified: &aos::message::Request,
) -> Result<Vec<a2s::api::GuardianChange>, String> {
    match apply_verdict::modified_inputs(shown, modified)? {
        (_, changes) if changes.is_empty() => Ok(changes),
        _ => Err(FIXED.to_owned()),
    }
}
