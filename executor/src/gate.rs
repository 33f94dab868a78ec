//! Asks the guardians before and after every tool step, and before a run begins: about the event that
//! starts it, and about remembered values. Applies their decisions.
//!
//! Only this module creates a [`Permitted`], and the data-plane client accepts nothing else. This module
//! always creates a permitted request itself, from the inputs that the guardian saw or returned; no other
//! value can become one. Without a usable response there is no permitted request, unless the configuration
//! lets steps pass; the record then states this.

mod apply_verdict;
mod guardian_chain;
mod guardian_request;
mod mcp_messages;
mod permitted;
mod pre_run;
mod redirect;
mod sent;
mod state_access;
mod waiting;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use a2s::{Domain, InputLocation, Permission, Task};
use a2s_api::Principal;
use a2s_api::{CapabilityRef, DecisionRecord, DecisionSource, GuardianPhase};
use aos::GuardianChain;
use aos::message::{MethodCall, Ping};
use futures::future::join_all;
use http::HeaderMap;
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::{Builder, Uuid};

use crate::clock::{Clock, RandomSource};
use crate::config::{GuardianHook, GuardianSettings};
use crate::credential_requirements::{CredentialRequirement, CredentialUser};
use crate::error::{Error, ErrorKind};
use crate::metrics::Metrics;
use crate::request::{self, PreparedRequest, TaskContract};
use crate::secrets::{RunSecrets, restore_masked};
use crate::thread_local_clients::PerThread;
use a2s::to_single_line;
pub(crate) use guardian_request::{executor_agent, tool_id};
pub(crate) use permitted::Permitted;
pub(crate) use pre_run::PreRun;
use sent::describe_request;

/// The maximum number of characters of a guardian's message that are stored.
const MAX_WORDS: usize = 1_000;
/// The maximum number of characters in the name of a policy.
const MAX_POLICY: usize = 200;
/// The maximum number of reason codes that are stored.
const MAX_REASONS: usize = 16;

/// The reason for which a second change of the target is not followed.
const TARGET_CHANGED_AGAIN: &str = "the method, host or path of the request changed again, after the \
    guardians had checked the changed request";

/// Returns true when a guardian has denied something that an approval would allow.
pub(crate) fn is_approval_required(decision: &DecisionRecord) -> bool {
    decision.source == DecisionSource::Guardian
        && decision.reason_codes.iter().any(|code| code == guardian_chain::APPROVAL_REQUIRED)
}

/// Returns true when a guardian gave no usable response, and the step may not pass without one.
pub(crate) fn is_failed_closed(decision: &DecisionRecord) -> bool {
    decision.source == DecisionSource::FailedClosed
}

/// The step for which a guardian is asked.
#[derive(Clone, Copy)]
pub(crate) struct GuardedStep<'a> {
    /// The principal that the run belongs to; the guardian calls it the user.
    pub(crate) principal: &'a Principal,
    /// The run; the guardian calls it the turn.
    pub(crate) run: Uuid,
    /// The session.
    pub(crate) session: &'a str,
    /// The id that correlates request and result.
    pub(crate) execution_id: Uuid,
    /// Path of the step in the run: `checkWeather/getWeather`.
    pub(crate) step: &'a str,
    /// The capability with the document that contains the step.
    pub(crate) capability: &'a CapabilityRef,
    /// The capability that the run was started for.
    pub(crate) root: &'a CapabilityRef,
    /// The purpose of that capability.
    pub(crate) description: &'a str,
    /// The permissions that its callers must hold.
    pub(crate) permissions: &'a [Permission],
    /// The only hosts that its tasks may address.
    pub(crate) domains: &'a [Domain],
    /// The values that no guardian may see.
    pub(crate) secrets: &'a RunSecrets,
    /// The headers of a question that name its span. They are created only when there is a guardian to ask.
    pub(crate) trace: &'a (dyn Deref<Target = HeaderMap> + Send + Sync),
}

/// The inputs of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardedInputs<'a> {
    /// The inputs as they are sent.
    pub(crate) actual: &'a IndexMap<InputLocation, Value>,
    /// The inputs as a guardian sees them: the same locations, without secrets.
    pub(crate) masked: &'a IndexMap<InputLocation, Value>,
}

/// The outcome of a question.
#[derive(Debug)]
pub(crate) struct GateVerdict<T> {
    /// The decision of each guardian that was asked, in order, for the journal. Empty only when the inputs
    /// fit no request, so that there was nothing to ask.
    pub(crate) decisions: Vec<DecisionRecord>,
    /// The value that may be used, or the reason for which none may be.
    pub(crate) verdict: Result<Permitted<T>, Error>,
}

/// The reason for asking a guardian about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskReason {
    /// The request is about to be sent.
    Send,
    /// A caller wants a preview of the decision; nothing is sent.
    Preview,
}

/// The subject of a question to guardians, and its phase in the record.
#[derive(Debug, Clone, Copy)]
struct HookPhase {
    hook: GuardianHook,
    phase: GuardianPhase,
}

impl HookPhase {
    const TRIGGER: Self = Self { hook: GuardianHook::AgentTrigger, phase: GuardianPhase::Trigger };
    const RECALLED: Self =
        Self { hook: GuardianHook::MemoryContextRetrieval, phase: GuardianPhase::Memory };
    const REMEMBERED: Self = Self { hook: GuardianHook::MemoryStore, phase: GuardianPhase::Memory };
    const REQUEST: Self =
        Self { hook: GuardianHook::ToolCallRequest, phase: GuardianPhase::Request };
    const RESULT: Self = Self { hook: GuardianHook::ToolCallResult, phase: GuardianPhase::Result };
    const MCP_OUTBOUND: Self = Self { hook: GuardianHook::Mcp, phase: GuardianPhase::McpOutbound };
    const MCP_INBOUND: Self = Self { hook: GuardianHook::Mcp, phase: GuardianPhase::McpInbound };
}

/// A [`GateVerdict`] before the permission.
struct RawVerdict<T> {
    decisions: Vec<DecisionRecord>,
    verdict: Result<T, Error>,
}

impl<T> RawVerdict<T> {
    /// Adds the verdict on another question: its decisions follow the earlier ones, and its result counts.
    fn then<U>(self, next: RawVerdict<U>) -> RawVerdict<U> {
        let Self { mut decisions, .. } = self;
        decisions.extend(next.decisions);
        RawVerdict { decisions, verdict: next.verdict }
    }

    fn permit(self) -> GateVerdict<T> {
        GateVerdict { decisions: self.decisions, verdict: self.verdict.map(Permitted) }
    }
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

/// The gate that asks the guardians, if there are any.
#[derive(Debug, Clone)]
pub(crate) struct GuardianGate {
    guardians: Option<Arc<PerThread<GuardianChain>>>,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn RandomSource>,
}

impl GuardianGate {
    /// Creates a gate with the guardians of the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when one of them cannot be asked as configured.
    pub(crate) fn new(
        guardian: &GuardianSettings,
        metrics: Metrics,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
    ) -> Result<Self, Error> {
        let guardians = guardian.open()?.map(|guardians| {
            let others = guardians.clone();
            let make = move || {
                others
                    .with_own_pools()
                    .map_err(|error| Error::new(ErrorKind::Configuration, error.to_string()))
            };
            Arc::new(PerThread::new(guardians, make))
        });
        Ok(Self { guardians, metrics, clock, ids })
    }

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
            Err(error) => return RawVerdict { decisions: Vec::new(), verdict: Err(error.into()) },
        };
        let Some(guardians) = self.guardians() else {
            let judged = self.skip_guardians(HookPhase::REQUEST, occasion, Ok(prepared));
            if !matches!(task, Task::Mcp(_)) {
                return judged;
            }
            let RawVerdict { decisions, verdict } = judged;
            let next = self.skip_guardians(HookPhase::MCP_OUTBOUND, occasion, verdict);
            return RawVerdict { decisions, verdict: Ok(()) }.then(next);
        };
        let has_secrets = inputs.masked != inputs.actual;
        // The inputs as changed by the guardians so far, as they are sent and as they are shown.
        let mut made: Option<[IndexMap<InputLocation, Value>; 2]> = None;
        let mut decisions = Vec::new();
        for is_last in [false, true] {
            let target = target_of(&prepared);
            let current = current_inputs(made.as_ref(), inputs);
            let sent = describe_request(contract, current, &prepared, None, asker.secrets);
            let now = self.clock.now();
            let call =
                guardian_request::request_call(asker, task, current.masked, sent, occasion, now);
            let follow = |modified: &_| {
                let inputs = current_inputs(made.as_ref(), inputs);
                let (shown, changes) = apply_verdict::modified_inputs(inputs.masked, modified)?;
                let truth = apply_verdict::restore_inputs(inputs, shown.clone(), has_secrets)?;
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
            let said =
                self.ask_guardians(guardians, HookPhase::REQUEST, occasion, call, follow).await;
            decisions.extend(said.0);
            if let Err(error) = said.1 {
                return RawVerdict { decisions, verdict: Err(error) };
            }
            // A request to another target than shown is shown again.
            if target_of(&prepared) == target {
                break;
            }
        }
        let Task::Mcp(tool) = task else {
            return RawVerdict { decisions, verdict: Ok(prepared) };
        };
        let inputs = current_inputs(made.as_ref(), inputs);
        let sent = describe_request(contract, inputs, &prepared, None, asker.secrets);
        let call = mcp_messages::OutgoingCall { tool, inputs, has_secrets, sent };
        let judged = self.judge_call(guardians, asker, task, call, occasion, prepare).await;
        let verdict = judged.verdict.map(|changed| changed.unwrap_or(prepared));
        RawVerdict { decisions, verdict: Ok(()) }
            .then(RawVerdict { decisions: judged.decisions, verdict })
    }

    fn guardians(&self) -> Option<&GuardianChain> {
        self.guardians.as_deref().map(PerThread::current)
    }

    /// The policy identifier of each guardian that reports one: `metadata.policy` in the response to a
    /// ping.
    pub(crate) async fn fetch_policy_ids(&self) -> BTreeMap<String, String> {
        let pings =
            self.guardians().into_iter().flat_map(GuardianChain::clients).map(|(name, client)| {
                let id = self.new_message_id();
                let ping = Ping { timestamp: Some(self.clock.now()), ..Ping::default() };
                async move {
                    let metadata = client.ping(id, ping).await.ok()?.metadata?;
                    let policy = to_single_line(metadata.get("policy")?.as_str()?, MAX_POLICY);
                    (!policy.is_empty()).then(|| (name.to_owned(), policy))
                }
            });
        join_all(pings).await.into_iter().flatten().collect()
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
        let RawVerdict { decisions, verdict } = judged;
        let verdict = verdict.and_then(|outputs| match outputs {
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
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(HookPhase::RESULT, occasion, take(result));
        };
        // The result as changed by the guardians.
        let mut changed: Option<Result<Value, Error>> = None;
        let mut shown = match &*result {
            Ok(value) => Ok(asker.secrets.mask(value)),
            Err(error) => Err(asker.secrets.mask_error(error.clone())),
        };
        let call = guardian_request::result_call(asker, task, &shown, occasion, self.clock.now());
        let follow = |modified: &_| {
            let (made, changes) = apply_verdict::modified_result(&shown, modified)?;
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
        let said = self.ask_guardians(guardians, HookPhase::RESULT, occasion, call, follow).await;
        let (decisions, verdict) = said;
        let verdict = verdict.and_then(|()| changed.unwrap_or_else(|| take(result)));
        RawVerdict { decisions, verdict }
    }

    /// Records that no guardian is asked.
    fn skip_guardians<T>(
        &self,
        asking: HookPhase,
        occasion: AskReason,
        result: Result<T, Error>,
    ) -> RawVerdict<T> {
        let decision = DecisionRecord {
            phase: asking.phase,
            guardian: None,
            decision: "unguarded".into(),
            source: DecisionSource::Unguarded,
            message: "no guardian is configured".into(),
            reason_codes: Vec::new(),
            changes: Vec::new(),
        };
        if occasion == AskReason::Send {
            self.metrics.decided(asking.hook, &decision);
        }
        RawVerdict { decisions: vec![decision], verdict: result }
    }

    /// Creates the id of one message, which identifies its response.
    fn new_message_id(&self) -> String {
        Builder::from_random_bytes(self.ids.random_bytes()).into_uuid().to_string()
    }
}

#[cfg(test)]
mod tests;
