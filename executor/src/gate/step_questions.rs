//! Asks the guardians about a step: the request before it is sent, each redirect, the MCP messages and the
//! result before it is used.
//!
//! `protocols/MCP` is about the call of a tool before it is sent, after `steps/toolCallRequest`, and about
//! its response before it is read, before `steps/toolCallResult`. A guardian that knows MCP sees the
//! message; one that knows steps sees its meaning.

use a2s::{InputLocation, McpTask, Task};
use a2s_api::DecisionRecord;
use aos::GuardianChain;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::apply_verdict::{
    NOT_CHANGEABLE, changes_of, modified_answer, modified_arguments, modified_inputs,
    modified_result, note_changes, refuse_changes, restore_inputs,
};
use super::guardian_request::{message_call, request_call, result_call};
use super::sent::describe_request;
use super::{
    AskReason, GateVerdict, GuardedInputs, GuardedStep, GuardianGate, HookPhase, Permitted,
    RawVerdict,
};
use crate::clock::redirect_id;
use crate::credential_requirements::{CredentialRequirement, CredentialUser};
use crate::error::{Error, ErrorKind};
use crate::journal::wait_point::WaitPoint;
use crate::request::{
    self, McpMessage, PrepareError, PreparedRequest, RedirectTarget, TaskContract, message_of,
};
use crate::secrets::restore_masked;

/// The reason for which a second change of the target is not followed.
const TARGET_CHANGED_AGAIN: &str = "the method, host or path of the request changed again, after the \
    guardians had checked the changed request";

impl GuardianGate {
    /// Asks whether the task of `contract` may run with `inputs` (`steps/toolCallRequest`). When it calls a
    /// tool of an MCP server, asks about the message as well (`protocols/MCP`). Makes the request from the
    /// inputs, or from the replacement inputs of the guardians. A masked value that a guardian leaves
    /// unchanged means the true value.
    pub(crate) async fn ask_request(
        &self,
        asker: &GuardedStep<'_>,
        contract: &TaskContract,
        inputs: GuardedInputs<'_>,
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
        inputs: GuardedInputs<'_>,
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
        inputs: GuardedInputs<'_>,
        occasion: AskReason,
    ) -> RawVerdict<PreparedRequest> {
        let task = contract.task();
        let prepare = |inputs: &IndexMap<InputLocation, Value>| {
            let user = CredentialUser {
                principal: asker.principal.clone(),
                capability: asker.capability.name.clone(),
            };
            let access = CredentialRequirement::from_task(task, asker.domains, user);
            request::prepare(contract, inputs).map(|prepared| prepared.with_access(access))
        };
        let mut prepared = match prepare(inputs.actual) {
            Ok(prepared) => prepared,
            Err(error) => return RawVerdict::without_question(Err(error.into())),
        };
        let Some(guardians) = self.guardians() else {
            let mut judged = self.skip_guardians(HookPhase::REQUEST, occasion);
            if matches!(task, Task::Mcp(_)) {
                judged = judged.then(self.skip_guardians(HookPhase::MCP_OUTBOUND, occasion));
            }
            return judged.map(|()| prepared);
        };
        let has_secrets = inputs.masked != inputs.actual;
        // The inputs as changed by the guardians so far, as they are sent and as they are shown.
        let mut made: Option<[IndexMap<InputLocation, Value>; 2]> = None;
        let mut judged = RawVerdict::without_question(Ok(()));
        for is_last in [false, true] {
            let target = target_of(&prepared);
            let current = current_inputs(made.as_ref(), inputs);
            let mut sent = describe_request(contract, current, &prepared, None, asker.secrets);
            if let Err(error) = self.add_sealed_digest(&mut sent, &prepared, has_secrets) {
                return judged.then(RawVerdict::without_question(Err(error)));
            }
            let call = request_call(asker, task, current.masked, sent, occasion, self.clock.now());
            let follow = |modified: &_| {
                let inputs = current_inputs(made.as_ref(), inputs);
                let (shown, changes) = modified_inputs(inputs.masked, modified)?;
                let truth = restore_inputs(inputs, shown.clone(), has_secrets)?;
                let next = prepare(&truth)
                    .map_err(|error| {
                        format!("the inputs do not result in a valid request: {error}")
                    })?
                    .with_masked_inputs(shown.clone());
                if is_last && target_of(&next) != target {
                    return Err(TARGET_CHANGED_AGAIN.to_owned());
                }
                (prepared, made) = (next, Some([truth, shown]));
                Ok(changes)
            };
            let call = (call, &**asker.trace);
            let said = self.ask_guardians(guardians, HookPhase::REQUEST, occasion, call, follow);
            judged = judged.then(said.await);
            // A request to another target than shown is shown again.
            if judged.verdict.is_err() || target_of(&prepared) == target {
                break;
            }
        }
        match (task, &judged.verdict) {
            (Task::Mcp(tool), Ok(())) => {
                let inputs = current_inputs(made.as_ref(), inputs);
                let mut sent = describe_request(contract, inputs, &prepared, None, asker.secrets);
                if let Err(error) = self.add_sealed_digest(&mut sent, &prepared, has_secrets) {
                    return judged.then(RawVerdict::without_question(Err(error)));
                }
                let call = OutgoingCall { tool, inputs, has_secrets, sent };
                let said = self.judge_call(guardians, asker, task, call, occasion, prepare);
                judged.then(said.await).map(|changed| changed.unwrap_or(prepared))
            }
            _ => judged.map(|()| prepared),
        }
    }

    /// Asks whether the message of a call may be sent. Returns the replacement request of the guardians, if
    /// they have one: `prepare` makes it. They may change the arguments and nothing else.
    async fn judge_call(
        &self,
        guardians: &GuardianChain,
        asker: &GuardedStep<'_>,
        task: &Task,
        call: OutgoingCall<'_>,
        occasion: AskReason,
        prepare: impl Fn(&IndexMap<InputLocation, Value>) -> Result<PreparedRequest, PrepareError>,
    ) -> RawVerdict<Option<PreparedRequest>> {
        let OutgoingCall { tool, inputs, has_secrets, sent } = call;
        let message = match request::mcp_call(tool, inputs.masked) {
            Ok(message) => message,
            Err(error) => return RawVerdict::without_question(Err(error.into())),
        };
        let now = self.clock.now();
        let call = message_call(asker, task, message.clone(), Some(sent), occasion, now);
        let (mut truth, mut shown) = (inputs.actual.clone(), inputs.masked.clone());
        let mut prepared = None;
        let follow = |modified: &_| {
            let made = modified_arguments(&message, modified)?;
            let changes = changes_of(&shown, &made);
            let inputs = GuardedInputs { actual: &truth, masked: &shown };
            let restored = restore_inputs(inputs, made.clone(), has_secrets)?;
            let request = prepare(&restored)
                .map_err(|error| {
                    format!("the arguments do not result in a valid request: {error}")
                })?
                .with_masked_inputs(made.clone());
            (prepared, truth, shown) = (Some(request), restored, made);
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let asking = HookPhase::MCP_OUTBOUND;
        let judged = self.ask_guardians(guardians, asking, occasion, call, follow).await;
        judged.map(|()| prepared)
    }

    /// Asks whether the request that `hop` asks for may be sent after `request`
    /// (`steps/toolCallRequest`, and `protocols/MCP` where a message is repeated). It is a request of its
    /// own, which the guardians may allow or deny. `asker` has the execution id of this redirect, and the
    /// number of `hop` counts redirects from 1.
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

    async fn judge_redirect(
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
            return self.skip_guardians(HookPhase::REQUEST, occasion).map(|()| next);
        };
        // Only whether secrets were taken out counts of the true inputs here.
        let shown = request.shown_inputs().unwrap_or(inputs.masked);
        let inputs = match inputs.masked == inputs.actual {
            true => GuardedInputs { actual: shown, masked: shown },
            false => GuardedInputs { actual: inputs.actual, masked: shown },
        };
        let mut sent = describe_request(contract, inputs, &next, Some(number), asker.secrets);
        let is_masked = inputs.masked != inputs.actual;
        if let Err(error) = self.add_sealed_digest(&mut sent, &next, is_masked) {
            return RawVerdict::without_question(Err(error));
        }
        let message = match task {
            Task::Mcp(tool) if hop.keeps_body => request::mcp_call(tool, shown).ok(),
            _ => None,
        };
        let now = self.clock.now();
        let trace = &**asker.trace;
        let call = request_call(asker, task, shown, sent.clone(), occasion, now);
        let follow = |modified: &_| refuse_changes(shown, modified);
        let asking = HookPhase::REQUEST;
        let mut judged =
            self.ask_guardians(guardians, asking, occasion, (call, trace), follow).await;
        if let (Some(message), Ok(())) = (message, &judged.verdict) {
            let call = message_call(asker, task, message, Some(sent), occasion, now);
            let follow = |_: &_| Err(NOT_CHANGEABLE.to_owned());
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
        let mut truth = Value::Object(message);
        let mut shown = asker.secrets.mask(&truth);
        let asked = shown.as_object().cloned().unwrap_or_default();
        let call = message_call(asker, task, asked, None, occasion, self.clock.now());
        let follow = |modified: &_| {
            let made = Value::Object(modified_answer(&shown, modified)?);
            let mut changes = Vec::new();
            note_changes("message", &shown, &made, &mut changes);
            truth = restore_masked(&shown, &truth, made.clone());
            shown = made;
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let judged = self.ask_guardians(guardians, asking, occasion, call, follow).await;
        judged.map(|()| match truth {
            Value::Object(message) => message,
            _ => Map::new(),
        })
    }

    /// Asks whether the result of a task may be used (`steps/toolCallResult`). The guardians also receive a
    /// failure of the service. It stays an error, whatever they decide, but they may change its message.
    /// The value is moved out of `result` when it may be used; otherwise `result` does not change.
    pub(crate) async fn ask_result(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        result: &mut Result<Value, Error>,
    ) -> GateVerdict<Value> {
        self.judge_result(asker, task, result, AskReason::Send, |_| Ok(())).await.permit()
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
        let check = |made: &Result<Value, Error>| match made {
            Ok(Value::Object(outputs)) => check(outputs),
            Ok(_) => Err("the outputs are not an object".to_owned()),
            Err(_) => Ok(()),
        };
        let mut result = Ok(Value::Object(outputs));
        let judged = self.judge_result(asker, task, &mut result, AskReason::Send, check).await;
        let RawVerdict { decisions, verdict } = judged.and_then(|outputs| match outputs {
            Value::Object(outputs) => Ok(outputs),
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

    async fn judge_result(
        &self,
        asker: &GuardedStep<'_>,
        task: &Task,
        result: &mut Result<Value, Error>,
        occasion: AskReason,
        check: impl Fn(&Result<Value, Error>) -> Result<(), String>,
    ) -> RawVerdict<Value> {
        let take = |result: &mut Result<Value, Error>| std::mem::replace(result, Ok(Value::Null));
        let asking = HookPhase::RESULT;
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(asking, occasion).and_then(|()| take(result));
        };
        // The result as changed by the guardians.
        let mut changed: Option<Result<Value, Error>> = None;
        let mut shown = match &*result {
            Ok(value) => Ok(asker.secrets.mask(value)),
            Err(error) => Err(asker.secrets.mask_error(error.clone())),
        };
        let call = result_call(asker, task, &shown, occasion, self.clock.now());
        let follow = |modified: &_| {
            let (made, changes) = modified_result(&shown, modified)?;
            let current = changed.as_ref().unwrap_or(&*result);
            let next = match (&shown, current, &made) {
                (Ok(shown), Ok(truth), Ok(made)) => Ok(restore_masked(shown, truth, made.clone())),
                _ => made.clone(),
            };
            check(&next)?;
            (shown, changed) = (made, Some(next));
            Ok(changes)
        };
        let call = (call, &**asker.trace);
        let judged = self.ask_guardians(guardians, asking, occasion, call, follow).await;
        judged.and_then(|()| changed.unwrap_or_else(|| take(result)))
    }

    /// Repeats the question at which a step waits for an approval: the same content under the same
    /// execution id. Nothing is sent or used, whatever the guardians say. With `is_preview`, no new
    /// approval is requested. `wait_point` is `None` when the step has sent nothing yet.
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
                self.judge_result(asker, task, &mut result, occasion, check).await.map(drop)
            }
        };
        (decisions, verdict)
    }
}

/// A call of an MCP tool that is about to be sent.
struct OutgoingCall<'a> {
    tool: &'a McpTask,
    /// The arguments of the call, after the changes of the guardians so far.
    inputs: GuardedInputs<'a>,
    /// Set when the inputs of the step contain secrets.
    has_secrets: bool,
    /// The request that contains the call, as guardians see it.
    sent: Map<String, Value>,
}

/// Returns the inputs after the changes of the guardians so far.
fn current_inputs<'i>(
    made: Option<&'i [IndexMap<InputLocation, Value>; 2]>,
    inputs: GuardedInputs<'i>,
) -> GuardedInputs<'i> {
    match made {
        Some([truth, shown]) => GuardedInputs { actual: truth, masked: shown },
        None => inputs,
    }
}

/// Returns the method, and the address without its query.
fn target_of(request: &PreparedRequest) -> (http::Method, url::Url) {
    let mut url = request.url().clone();
    url.set_query(None);
    (request.method().clone(), url)
}
