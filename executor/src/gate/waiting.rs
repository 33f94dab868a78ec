//! Asks the guardians again about the place at which a step waits for an approval, and nothing is sent or
//! used whatever they say.

use a2s_api::DecisionRecord;
use serde_json::Value;

use super::{AskReason, GuardedInputs, GuardedStep, GuardianGate, RawVerdict};
use crate::clock::redirect_id;
use crate::error::Error;
use crate::journal::wait_point::WaitPoint;
use crate::request::{TaskContract, message_of};

impl GuardianGate {
    /// Repeats the question at which a step waits: the same content under the same execution id. With
    /// `is_preview`, no new approval is requested. `wait_point` is `None` when the step has sent nothing
    /// yet.
    pub(crate) async fn ask_again(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: GuardedInputs<'_>,
        wait_point: Option<&WaitPoint>,
        is_preview: bool,
    ) -> (Vec<DecisionRecord>, Result<(), Error>) {
        let occasion = if is_preview { AskReason::Preview } else { AskReason::Send };
        let task = contract.task();
        match wait_point {
            None => into_decisions(self.judge_request(asker, contract, inputs, occasion).await),
            Some(WaitPoint::Redirect(point)) => {
                let execution_id = redirect_id(asker.run, asker.step, point.number);
                let asker = GuardedStep { execution_id, ..*asker };
                let (redirected, hop) = (&point.redirected, (&point.hop, point.number));
                into_decisions(
                    self.judge_redirect(&asker, contract, inputs, redirected, hop, occasion).await,
                )
            }
            Some(WaitPoint::McpAnswer { response, .. }) => match message_of(response) {
                Some(message) => {
                    into_decisions(self.judge_answer(asker, task, message, occasion).await)
                }
                None => (Vec::new(), Ok(())),
            },
            Some(WaitPoint::Result { answer, .. }) => {
                let mut result: Result<Value, Error> = answer.clone().map_err(Into::into);
                let check = |_: &_| Ok(());
                into_decisions(self.judge_result(asker, task, &mut result, occasion, check).await)
            }
        }
    }
}

/// The decisions, and the reason for which the value may not be used. The permitted value is dropped.
fn into_decisions<T>(
    RawVerdict { decisions, verdict }: RawVerdict<T>,
) -> (Vec<DecisionRecord>, Result<(), Error>) {
    (decisions, verdict.map(drop))
}
