//! Asks the guardians about a step: the request before it is sent, each redirect, the MCP messages and the
//! result before it is used.
//!
//! `protocols/MCP` is about the call of a tool before it is sent, after `steps/toolCallRequest`, and about
//! its response before it is read, before `steps/toolCallResult`. A guardian that knows MCP sees the
//! message; one that knows steps sees its meaning.

use std::borrow::Cow;

use a2s::{InputLocation, Task};
use a2s_api::{DecisionRecord, GuardianChange};
use aos::GuardianChain;
use aos::message::{MethodCall, Request};
use indexmap::IndexMap;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::apply_verdict::{
    BadModification, JudgedResult, NOT_CHANGEABLE, changes_of, modified_answer, modified_arguments,
    modified_inputs, modified_result, note_changes, refuse_changes,
};
use super::guardian_request::{
    outgoing_message_call, received_message_call, request_call, result_call,
};
use super::sent::RequestFacts;
use super::{AskReason, GateVerdict, GuardedStep, GuardianGate, HookPhase, Permitted, RawVerdict};
use crate::clock::redirect_id;
use crate::credential_requirements::{CredentialRequirement, CredentialUser};
use crate::error::{Error, ErrorKind};
use crate::journal::wait_point::WaitPoint;
use crate::request::{
    self, McpMessage, PrepareError, PreparedRequest, RedirectTarget, TaskContract, message_of,
};
use crate::secrets::{Masked, MaskedInputs};

/// The maximum number of times that all guardians are asked about one request: again after each change.
const MAX_ROUNDS: u32 = 4;
/// The reason for which a change in the last round is not followed.
const STILL_CHANGING: &str =
    "the guardians still changed the request after they had been asked about it four times";

impl GuardianGate {
    /// Asks whether the task of `contract` may run with `inputs` (`steps/toolCallRequest`). When it calls a
    /// tool of an MCP server, asks about the message as well (`protocols/MCP`). Makes the request from the
    /// inputs, or from the replacement inputs of the guardians. A masked value that a guardian leaves
    /// unchanged means the true value.
    pub(crate) async fn ask_request(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
    ) -> GateVerdict<PreparedRequest> {
        self.judge_request(asker, contract, inputs, AskReason::Send).await.permit()
    }

    /// Asks the same before a run exists, and marks the question as a preview. It does not return the
    /// permitted request, so nothing can be sent.
    ///
    /// # Errors
    /// The reason for which the inputs fit no request, so that there was nothing to ask.
    pub(crate) async fn preview_request(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
    ) -> Result<Vec<DecisionRecord>, Error> {
        let RawVerdict { decisions, verdict } =
            self.judge_request(asker, contract, inputs, AskReason::Preview).await;
        match verdict {
            Err(error) if decisions.is_empty() => Err(error),
            Ok(_) | Err(_) => Ok(decisions),
        }
    }

    async fn judge_request(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
        occasion: AskReason,
    ) -> RawVerdict<PreparedRequest> {
        let mut proposal = match RequestProposal::new(asker, contract, inputs, occasion) {
            Ok(proposal) => proposal,
            Err(error) => {
                return RawVerdict::without_question(Err(asker.to_input_error(error)));
            }
        };
        let hooks: &[HookPhase] = match contract.task() {
            Task::Mcp(_) => &[HookPhase::REQUEST, HookPhase::MCP_OUTBOUND],
            Task::OpenApi(_) | Task::Graphql(_) => &[HookPhase::REQUEST],
        };
        let mut judged = RawVerdict::without_question(Ok(()));
        let Some(guardians) = self.guardians() else {
            for hook in hooks {
                judged = judged.then(self.skip_guardians(*hook, occasion));
            }
            return judged.map(|()| proposal.prepared);
        };
        for round in 1..=MAX_ROUNDS {
            proposal.begin_round(round < MAX_ROUNDS);
            for hook in hooks {
                let asked = self.ask_about_proposal(guardians, *hook, &mut proposal).await;
                judged = judged.then(asked);
                if judged.verdict.is_err() || proposal.is_changed {
                    break;
                }
            }
            if judged.verdict.is_err() || !proposal.is_changed {
                break;
            }
        }
        judged.map(|()| proposal.prepared)
    }

    async fn ask_about_proposal(
        &self,
        guardians: &GuardianChain,
        hook: HookPhase,
        proposal: &mut RequestProposal<'_>,
    ) -> RawVerdict<()> {
        let (occasion, trace) = (proposal.occasion, &**proposal.asker.trace);
        let now = self.clock.now();
        let call = match self.question(proposal, hook, now) {
            Ok(call) => call,
            Err(error) => return RawVerdict::without_question(Err(error)),
        };
        let follow = |modified: &mut Request| {
            let changes = proposal.apply(hook, modified)?;
            modified.call = self.question(proposal, hook, now).map_err(|error| error.message)?;
            Ok(changes)
        };
        self.ask_guardians(guardians, hook, occasion, (call, trace), follow).await
    }

    /// Creates the question about the request as it is now.
    fn question(
        &self,
        proposal: &RequestProposal<'_>,
        hook: HookPhase,
        now: Timestamp,
    ) -> Result<MethodCall, Error> {
        let RequestProposal { asker, contract, occasion, inputs, prepared, .. } = proposal;
        let task = contract.task();
        let facts = RequestFacts::new(contract, inputs, prepared, proposal.asks_again);
        let facts = facts.seal(prepared, &self.vault)?;
        Ok(match task {
            Task::Mcp(tool) if hook == HookPhase::MCP_OUTBOUND => {
                let message = request::mcp_call(tool, inputs.shown())?;
                outgoing_message_call(asker, task, message, inputs, facts, (*occasion, now))
            }
            _ => request_call(asker, task, inputs, facts, *occasion, now),
        })
    }

    /// Asks whether the request that `hop` asks for may be sent after `request`
    /// (`steps/toolCallRequest`, and `protocols/MCP` where a message is repeated). It is a request of its
    /// own, which the guardians may allow or deny. `asker` has the execution id of this redirect, and the
    /// number of `hop` counts redirects from 1.
    pub(crate) async fn ask_redirect(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
        request: &Permitted<PreparedRequest>,
        hop: (&RedirectTarget, u32),
    ) -> GateVerdict<PreparedRequest> {
        let occasion = AskReason::Send;
        self.judge_redirect(asker, contract, inputs, request, hop, occasion).await.permit()
    }

    async fn judge_redirect(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
        request: &PreparedRequest,
        (hop, number): (&RedirectTarget, u32),
        occasion: AskReason,
    ) -> RawVerdict<PreparedRequest> {
        let task = contract.task();
        let next = request.redirect_to(hop);
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(HookPhase::REQUEST, occasion).map(|()| next);
        };
        // Where a guardian has changed some inputs, the request knows only their shown form.
        let changed = request.shown_inputs().map(|shown| {
            let shown = || shown.clone();
            inputs.restore(shown()).unwrap_or_else(|_| shown().into())
        });
        let inputs = changed.as_ref().unwrap_or(inputs);
        let hop = (hop, number);
        let facts = RequestFacts::from_redirect(contract, inputs, &next, hop, asker.secrets);
        let facts = match facts.seal(&next, &self.vault) {
            Ok(facts) => facts,
            Err(error) => return RawVerdict::without_question(Err(error)),
        };
        let message = match task {
            Task::Mcp(tool) if hop.0.keeps_body => request::mcp_call(tool, inputs.shown()).ok(),
            _ => None,
        };
        let now = self.clock.now();
        let trace = &**asker.trace;
        let call = request_call(asker, task, inputs, facts.clone(), occasion, now);
        let follow = |modified: &mut Request| refuse_changes(inputs.shown(), modified);
        let asking = HookPhase::REQUEST;
        let mut judged =
            self.ask_guardians(guardians, asking, occasion, (call, trace), follow).await;
        if let (Some(message), Ok(())) = (message, &judged.verdict) {
            let moment = (occasion, now);
            let call = outgoing_message_call(asker, task, message, inputs, facts, moment);
            let follow = |_: &mut Request| Err(NOT_CHANGEABLE.to_owned());
            let asking = HookPhase::MCP_OUTBOUND;
            let said = self.ask_guardians(guardians, asking, occasion, (call, trace), follow);
            judged = judged.then(said.await);
        }
        judged.map(|()| next)
    }

    /// Asks whether the message in the response of a server may be read. The guardians may change it; a
    /// failed call stays a failed call.
    pub(crate) async fn ask_message(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        message: McpMessage,
    ) -> GateVerdict<McpMessage> {
        self.judge_answer(asker, task, message, AskReason::Send).await.permit()
    }

    async fn judge_answer(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        message: McpMessage,
        occasion: AskReason,
    ) -> RawVerdict<McpMessage> {
        let asking = HookPhase::MCP_INBOUND;
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(asking, occasion).map(|()| message);
        };
        let mut message = asker.secrets.find_masked(Value::Object(message));
        let now = self.clock.now();
        let call = received_message_call(asker, task, &message, occasion, now);
        let follow = |modified: &mut Request| {
            let made = Value::Object(modified_answer(message.shown(), modified)?);
            let mut changes = Vec::new();
            note_changes("message", message.shown(), &made, &mut changes);
            message = message.restore(made);
            modified.call = received_message_call(asker, task, &message, occasion, now);
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let judged = self.ask_guardians(guardians, asking, occasion, call, follow).await;
        judged.map(|()| match message.into_actual() {
            Value::Object(message) => message,
            _ => Map::new(),
        })
    }

    /// Asks whether the result of a task may be used (`steps/toolCallResult`), with the outputs that the step
    /// takes from status and headers. The guardians also receive a failure of the service. It stays an
    /// error, whatever they decide, but they may change its message. The value is moved out of `result`
    /// when it may be used; otherwise `result` does not change.
    pub(crate) async fn ask_result(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        result: &mut Result<Value, Error>,
        head_outputs: Option<Masked<Value>>,
    ) -> GateVerdict<(Value, Map<String, Value>)> {
        let check = |_: &_| Ok(());
        let judged = self.judge_result(asker, task, result, head_outputs, AskReason::Send, check);
        let judged = judged.await.map(|parts| {
            let mut parts = parts.into_iter();
            let (body, outputs) = (parts.next().unwrap_or_default(), parts.next());
            match outputs {
                Some(Value::Object(outputs)) => (body, outputs),
                _ => (body, Map::new()),
            }
        });
        judged.permit()
    }

    /// Asks the same about outputs that a person sets instead of a result. A guardian may require other
    /// outputs; `check` returns the reason when these cannot be used.
    pub(crate) async fn ask_outputs(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        outputs: Map<String, Value>,
        check: impl Fn(&Map<String, Value>) -> Result<(), String>,
    ) -> GateVerdict<Map<String, Value>> {
        let check = |made: &Value| match made {
            Value::Object(outputs) => check(outputs),
            _ => Err("the outputs are not an object".to_owned()),
        };
        let mut result = Ok(Value::Object(outputs));
        let judged = self.judge_result(asker, task, &mut result, None, AskReason::Send, check);
        let RawVerdict { decisions, verdict } =
            judged.await.and_then(|mut parts| match parts.pop() {
                Some(Value::Object(outputs)) => Ok(outputs),
                _ => Err(Error::new(ErrorKind::Internal, "the outputs are not an object")),
            });
        // The run does not wait for this approval: the caller has to set the outputs again.
        let verdict = verdict.map_err(|error| match &error.approval {
            Some(wanted) => {
                let id = &wanted.id;
                let hint = format!(
                    "Approve it with `a2s guardian approve {id}`, then set the same outputs again."
                );
                Error { kind: ErrorKind::GuardianDeniedResult, approval: None, ..error }
                    .with_hint(hint)
            }
            None => error,
        });
        RawVerdict { decisions, verdict }.permit()
    }

    /// Returns the body, then the outputs from status and headers if there are any. `check` returns the
    /// reason when a changed body cannot be used.
    async fn judge_result(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        result: &mut Result<Value, Error>,
        head_outputs: Option<Masked<Value>>,
        occasion: AskReason,
        check: impl Fn(&Value) -> Result<(), String>,
    ) -> RawVerdict<Vec<Value>> {
        let asking = HookPhase::RESULT;
        let given = std::mem::replace(result, Ok(Value::Null));
        let Some(guardians) = self.guardians() else {
            let outputs = head_outputs.map(Masked::into_actual);
            return self
                .skip_guardians(asking, occasion)
                .and_then(|()| given.map(|body| std::iter::once(body).chain(outputs).collect()));
        };
        let given: JudgedResult = match given {
            Ok(body) => {
                let body = asker.secrets.find_masked(body);
                Ok(std::iter::once(body).chain(head_outputs).collect())
            }
            Err(error) => {
                let shown = asker.secrets.mask_error(error.clone());
                Err(Masked::new(error, shown))
            }
        };
        let mut changed: Option<JudgedResult> = None;
        let now = self.clock.now();
        let call = result_call(asker, task, &given, occasion, now);
        let follow = |modified: &mut Request| {
            let current = changed.as_ref().unwrap_or(&given);
            let (made, changes) = modified_result(current, modified)?;
            made.iter().flatten().take(1).try_for_each(|body| check(body.actual()))?;
            modified.call = result_call(asker, task, &made, occasion, now);
            changed = Some(made);
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let judged = self.ask_guardians(guardians, asking, occasion, call, follow).await;
        let into_actual = |result: JudgedResult| match result {
            Ok(parts) => Ok(parts.into_iter().map(Masked::into_actual).collect()),
            Err(error) => Err(error.into_actual()),
        };
        let RawVerdict { decisions, verdict } = judged;
        let verdict = match verdict {
            Ok(()) => into_actual(changed.unwrap_or(given)),
            Err(denial) => {
                *result = into_actual(given)
                    .map(|parts: Vec<Value>| parts.into_iter().next().unwrap_or_default());
                Err(denial)
            }
        };
        RawVerdict { decisions, verdict }
    }

    /// Repeats the question at which a step waits for an approval: the same content under the same
    /// execution id. Nothing is sent or used, whatever the guardians say. With `is_preview`, no new
    /// approval is requested. The wait point is `None` when the step has sent nothing yet; it comes with
    /// the outputs that a waiting result sets from status and headers.
    pub(crate) async fn ask_again(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: &MaskedInputs,
        (wait_point, head_outputs): (Option<&WaitPoint>, Option<Masked<Value>>),
        is_preview: bool,
    ) -> (Vec<DecisionRecord>, Result<(), Error>) {
        let occasion = if is_preview { AskReason::Preview } else { AskReason::Send };
        let task = contract.task();
        let RawVerdict { decisions, verdict } = match wait_point {
            None => self.judge_request(asker, contract, inputs, occasion).await.map(drop),
            Some(WaitPoint::Redirect(point)) => {
                let execution_id = redirect_id(asker.run, asker.step, point.number);
                let asker = GuardedStep { execution_id, ..*asker };
                let (redirected, hop) = (&point.redirected, (&point.hop, point.number));
                let judged =
                    self.judge_redirect(&asker, contract, inputs, redirected, hop, occasion);
                judged.await.map(drop)
            }
            Some(WaitPoint::McpAnswer { response, .. }) => match message_of(response) {
                Some(message) => self.judge_answer(asker, task, message, occasion).await.map(drop),
                None => RawVerdict::without_question(Ok(())),
            },
            Some(WaitPoint::Result { answer, .. }) => {
                let mut result: Result<Value, Error> = answer.clone().map_err(Into::into);
                let check = |_: &_| Ok(());
                let judged =
                    self.judge_result(asker, task, &mut result, head_outputs, occasion, check);
                judged.await.map(drop)
            }
        };
        (decisions, verdict)
    }
}

/// A request that the guardians may still change.
struct RequestProposal<'a> {
    asker: &'a GuardedStep<'a>,
    contract: &'a TaskContract,
    occasion: AskReason,
    inputs: Cow<'a, MaskedInputs>,
    prepared: PreparedRequest,
    /// Set when a guardian has changed the request in this round.
    is_changed: bool,
    /// Set when another round follows after a change.
    asks_again: bool,
}

impl<'a> RequestProposal<'a> {
    fn new(
        asker: &'a GuardedStep<'a>,
        contract: &'a TaskContract,
        inputs: &'a MaskedInputs,
        occasion: AskReason,
    ) -> Result<Self, PrepareError> {
        let prepared = prepare(asker, contract, inputs.actual())?;
        let inputs = Cow::Borrowed(inputs);
        Ok(Self {
            asker,
            contract,
            occasion,
            inputs,
            prepared,
            is_changed: false,
            asks_again: true,
        })
    }

    fn begin_round(&mut self, asks_again: bool) {
        (self.is_changed, self.asks_again) = (false, asks_again);
    }

    /// Applies the modification of a guardian, and returns the changes.
    fn apply(
        &mut self,
        hook: HookPhase,
        modified: &Request,
    ) -> Result<Vec<GuardianChange>, BadModification> {
        let made = match self.contract.task() {
            Task::Mcp(tool) if hook == HookPhase::MCP_OUTBOUND => {
                let message = request::mcp_call(tool, self.inputs.shown());
                modified_arguments(&message.map_err(|error| error.to_string())?, modified)?
            }
            _ => modified_inputs(modified)?,
        };
        let changes = changes_of(self.inputs.shown(), &made);
        if changes.is_empty() {
            return Ok(changes);
        }
        if !self.asks_again {
            return Err(STILL_CHANGING.to_owned());
        }
        let inputs = self
            .inputs
            .restore(made)
            .map_err(|place| format!("the modification moves a secret inside `{place}`"))?;
        let prepared = prepare(self.asker, self.contract, inputs.actual())
            .map_err(|error| format!("the inputs do not result in a valid request: {error}"))?;
        self.prepared = prepared.with_masked_inputs(inputs.shown().clone());
        self.inputs = Cow::Owned(inputs);
        self.is_changed = true;
        Ok(changes)
    }
}

fn prepare(
    asker: &GuardedStep<'_>,
    contract: &TaskContract,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    let user = CredentialUser {
        principal: asker.principal.clone(),
        capability: asker.capability.name.clone(),
    };
    let access = CredentialRequirement::from_task(contract.task(), asker.domains, user);
    request::prepare(contract, inputs).map(|prepared| prepared.with_access(access))
}
