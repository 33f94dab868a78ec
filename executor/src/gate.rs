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
mod input_sources;
mod permitted;
mod pre_run;
mod sent;
mod state_access;
mod step_questions;
pub(crate) mod withdrawals;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use a2s::{Domain, Permission, to_single_line};
use a2s_api::{
    CapabilityRef, DecisionRecord, DecisionSource, GuardianChange, GuardianPhase, Principal,
};
use aos::message::{MethodCall, Ping, Request};
use aos::{GuardianChain, Verdict, VerdictSource};
use futures::future::join_all;
use http::HeaderMap;
use uuid::{Builder, Uuid};

use crate::clock::{Clock, RandomSource};
use crate::config::{GuardianHook, GuardianSettings};
use crate::error::{Error, ErrorKind};
use crate::metrics::Metrics;
use crate::secrets::RunSecrets;
use crate::thread_local_clients::PerThread;
use crate::vault::Vault;
pub(crate) use guardian_request::{executor_agent, tool_id};
pub(crate) use input_sources::InputSources;
pub(crate) use permitted::Permitted;
pub(crate) use pre_run::PreRun;

/// The maximum number of characters of a guardian's message that are stored.
const MAX_WORDS: usize = 1_000;
/// The maximum number of characters in the name of a policy.
const MAX_POLICY: usize = 200;
/// The maximum number of reason codes that are stored.
const MAX_REASONS: usize = 16;

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
    /// The templates of its inputs, for errors about their values.
    pub(crate) sources: Option<InputSources<'a>>,
    /// The values that no guardian may see.
    pub(crate) secrets: &'a RunSecrets,
    /// The headers of a question that name its span. They are created only when there is a guardian to ask.
    pub(crate) trace: &'a (dyn Deref<Target = HeaderMap> + Send + Sync),
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
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// Creates the verdict where there is nothing to ask.
    fn without_question(verdict: Result<T, Error>) -> Self {
        Self { decisions: Vec::new(), verdict }
    }

    /// Adds the verdict on another question: its decisions follow the earlier ones, and its result counts.
    fn then<U>(self, next: RawVerdict<U>) -> RawVerdict<U> {
        let Self { mut decisions, .. } = self;
        decisions.extend(next.decisions);
        RawVerdict { decisions, verdict: next.verdict }
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> RawVerdict<U> {
        self.and_then(|value| Ok(change(value)))
    }

    fn and_then<U>(self, change: impl FnOnce(T) -> Result<U, Error>) -> RawVerdict<U> {
        RawVerdict { decisions: self.decisions, verdict: self.verdict.and_then(change) }
    }

    fn permit(self) -> GateVerdict<T> {
        GateVerdict { decisions: self.decisions, verdict: self.verdict.map(Permitted) }
    }
}

/// The gate that asks the guardians, if there are any.
#[derive(Debug, Clone)]
pub(crate) struct GuardianGate {
    guardians: Option<Arc<PerThread<GuardianChain>>>,
    metrics: Metrics,
    vault: Arc<Vault>,
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
        vault: Arc<Vault>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
    ) -> Result<Self, Error> {
        let guardians = guardian.open()?.map(|guardians| {
            // [`Self::flush`] is called before anything is sent.
            let guardians = guardians.with_early_responses();
            let others = guardians.clone();
            let make = move || {
                others
                    .with_own_pools()
                    .map_err(|error| Error::new(ErrorKind::Configuration, error.to_string()))
            };
            Arc::new(PerThread::new(guardians, make))
        });
        Ok(Self { guardians, metrics, vault, clock, ids })
    }

    fn guardians(&self) -> Option<&GuardianChain> {
        self.guardians.as_deref().map(PerThread::current)
    }

    /// Waits until the guardians' records of what they have allowed are durable.
    ///
    /// # Errors
    /// [`ErrorKind::GuardianUnreachable`] when one of them cannot write its records: nothing may be sent.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        let Some(guardians) = self.guardians() else { return Ok(()) };
        guardians.flush().await.map_err(|(name, failure)| {
            self.metrics.guardian_failed(
                GuardianHook::ToolCallRequest,
                name,
                failure.reason_code(),
            );
            let message = format!("{failure} (guardian `{name}`), so the executor sent nothing");
            Error::new(ErrorKind::GuardianUnreachable, message)
        })
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

    /// Asks `guardians` about one step, in order, until one denies. `follow` applies the modification of
    /// each guardian and returns the changes; it may replace the question for the next guardian. If it
    /// returns an error instead, that is a denial.
    async fn ask_guardians(
        &self,
        guardians: &GuardianChain,
        asking: HookPhase,
        occasion: AskReason,
        (call, trace): (MethodCall, &HeaderMap),
        mut follow: impl FnMut(&mut Request) -> Result<Vec<GuardianChange>, String>,
    ) -> RawVerdict<()> {
        let question = Request::new(self.new_message_id(), call);
        let mut followed = Vec::new();
        let consultation = guardians.ask_and_apply(&question, trace, |modified| {
            followed.push(follow(modified)?);
            Ok(())
        });
        let consultation = consultation.await;
        let mut changes = followed.into_iter();
        let mut decisions = Vec::with_capacity(consultation.outcomes.len());
        for (name, outcome) in &consultation.outcomes {
            let changes = match outcome.verdict {
                Verdict::Modify(_) => changes.next().unwrap_or_default(),
                Verdict::Allow | Verdict::Deny => Vec::new(),
            };
            let decision = guardian_chain::decision(asking.phase, name, outcome, changes);
            if let VerdictSource::FailedClosed(failure) | VerdictSource::FailedOpen(failure) =
                &outcome.origin
            {
                self.metrics.guardian_failed(asking.hook, name, failure.reason_code());
            }
            // A planned step is neither stopped nor permitted.
            if occasion == AskReason::Send {
                self.metrics.decided(asking.hook, &decision);
            }
            decisions.push(decision);
        }
        let verdict = match (consultation.verdict, consultation.outcomes.last()) {
            (Verdict::Deny, Some((name, outcome))) => {
                // Where there is one, everybody knows which.
                let shown = (guardians.names().nth(1).is_some()).then_some(name.as_str());
                Err(guardian_chain::denial(asking.phase, name, shown, outcome))
            }
            (Verdict::Deny, None) => {
                Err(Error::new(ErrorKind::Internal, "a denial has no guardian"))
            }
            (Verdict::Allow | Verdict::Modify(_), _) => Ok(()),
        };
        RawVerdict { decisions, verdict }
    }

    /// Records that no guardian is asked.
    fn skip_guardians(&self, asking: HookPhase, occasion: AskReason) -> RawVerdict<()> {
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
        RawVerdict { decisions: vec![decision], verdict: Ok(()) }
    }

    /// Creates the id of one message, which identifies its response.
    fn new_message_id(&self) -> String {
        Builder::from_random_bytes(self.ids.random_bytes()).into_uuid().to_string()
    }
}

#[cfg(test)]
mod tests;
