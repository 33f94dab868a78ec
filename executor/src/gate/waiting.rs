//! Asks the guardians again about the place at which a step waits for an approval, and nothing is sent or
//! used whatever they say.

use a2s::api::Decision;
use serde_json::Value;

use super::{Asker, Gate, Inputs, Judged, Occasion, Permitted};
use crate::clock::redirect_id;
use crate::credential_requirements::{Access, CredentialUser};
use crate::error::Error;
use crate::journal::wait_point::WaitPoint;
use crate::request::{Contract, PreparedRequest, message_of};

impl Gate {
    /// Asks the question at which a step waits once more: the same content under the same execution id. With
    /// `is_preview` nobody is asked for an approval anew. `wait_point` is none when the step has sent nothing
    /// yet.
    pub(crate) async fn ask_again(
        &self,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
        wait_point: Option<&WaitPoint>,
        is_preview: bool,
    ) -> (Vec<Decision>, Result<(), Error>) {
        let occasion = if is_preview { Occasion::Preview } else { Occasion::Run };
        let task = contract.task();
        match wait_point {
            None => said(self.judge_request(asker, contract, inputs, occasion).await),
            Some(WaitPoint::Redirect(point)) => {
                let execution_id = redirect_id(asker.run, asker.step, point.number);
                let asker = Asker { execution_id, ..*asker };
                let (redirected, hop) = (&point.redirected, (&point.hop, point.number));
                said(self.judge_redirect(&asker, contract, inputs, redirected, hop, occasion).await)
            }
            Some(WaitPoint::McpAnswer { response, .. }) => match message_of(response) {
                Some(message) => said(self.judge_answer(asker, task, message, occasion).await),
                None => (Vec::new(), Ok(())),
            },
            Some(WaitPoint::Result { answer, .. }) => {
                let mut result: Result<Value, Error> = answer.clone().map_err(Into::into);
                let check = |_: &_| Ok(());
                said(self.judge_result(asker, task, &mut result, occasion, check).await)
            }
        }
    }
}

impl Permitted<PreparedRequest> {
    /// A request of this step that the guardians allowed before the step waited, as it was sealed then.
    pub(crate) fn recall(asker: &Asker<'_>, contract: &Contract, sealed: &PreparedRequest) -> Self {
        let user = CredentialUser {
            principal: asker.principal.clone(),
            capability: asker.capability.name.clone(),
        };
        let access = Access::of(contract.task(), asker.domains, user);
        Self(sealed.clone().with_access(access))
    }
}

/// The decisions, and why what was asked about may not be used. What of it is permitted goes nowhere.
fn said<T>(Judged { decisions, verdict }: Judged<T>) -> (Vec<Decision>, Result<(), Error>) {
    (decisions, verdict.map(drop))
}
