//! Decisions of a guardian before a run begins: about the event that starts it, and about remembered
//! values.

use a2s_api::Principal;
use a2s_api::{
    CapabilityRef, DecisionRecord, DecisionSource, PlanRequest, TraceContext, TriggerEvent,
};
use http::HeaderMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::context::RunContext;
use super::resolver::PreparedRun;
use crate::error::{Error, ErrorKind};
use crate::gate::{GateVerdict, Permitted, PreRun};
use crate::plan::ExecutionPlan;
use crate::secrets::{Masked, RunSecrets};
use crate::telemetry::{DecisionSubject, RunTrace, StandaloneDecision};

/// The hint for a caller who gave no value.
const GIVE_VALUE_HINT: &str =
    "Give the value as an input of the run, or ask the owner of the policy.";

/// A run that does not exist yet, with the decisions about it.
pub(super) struct PreRunGuard<'r> {
    context: &'r RunContext,
    /// The principal that the run will belong to.
    principal: &'r Principal,
    /// The id that the run will have.
    pub(super) run: Uuid,
    caller: Option<&'r TraceContext>,
    trace: HeaderMap,
    /// The decisions of the guardian so far, in order.
    pub(super) decisions: Vec<DecisionRecord>,
}

impl<'r> PreRunGuard<'r> {
    /// Creates it without decisions; `caller` is the trace that the caller is in.
    pub(super) fn new(
        context: &'r RunContext,
        principal: &'r Principal,
        run: Uuid,
        caller: Option<&'r TraceContext>,
    ) -> Self {
        let trace = RunTrace::from_caller(run, caller, context.sinks.exports_spans());
        let trace = trace.headers(trace.root());
        Self { context, principal, run, caller, trace, decisions: Vec::new() }
    }

    /// Asks about the event that should start the run, and continues with the inputs that the guardian
    /// allows.
    ///
    /// # Errors
    /// Fails when the inputs do not fit, or when the event may not start a run.
    pub(super) async fn judge_event(
        &mut self,
        event: &TriggerEvent,
        plan: &ExecutionPlan,
        asked: &mut PlanRequest,
    ) -> Result<(), Error> {
        plan.check_given(&asked.inputs)?;
        let secrets = RunSecrets::default();
        let shown = plan.root.masked_inputs(&asked.inputs, &secrets)?;
        let mut inputs = Masked::new(std::mem::take(&mut asked.inputs), shown);
        let session = self.session_name(asked.session.as_deref());
        let shown = inputs.shown().clone();
        let follow = |made: &Map<String, Value>| {
            let changed = inputs
                .restore(made.clone())
                .map_err(|name| format!("it puts a secret into `{name}`, which had no secret"))?;
            plan.check_given(changed.actual()).map_err(|error| error.message)?;
            inputs = changed;
            Ok(())
        };
        let beginning = self.pre_run(&session, plan);
        let answer = self.context.gate.ask_trigger(beginning, event, shown, follow).await;
        self.record_decisions(answer, DecisionSubject::Event(event), &session, &plan.root.pin)?;
        asked.inputs = inputs.into_actual();
        Ok(())
    }

    /// Asks about the remembered inputs, if there are any, and continues with the values that the guardian
    /// lets pass.
    ///
    /// # Errors
    /// When some of them may not be used.
    pub(super) async fn judge_recalled_inputs(
        &mut self,
        mut prepared: PreparedRun,
        session: Option<&str>,
    ) -> Result<PreparedRun, Error> {
        if prepared.recalled.is_empty() {
            return Ok(prepared);
        }
        let values =
            prepared.recalled.keys().filter_map(|name| prepared.inputs.get_key_value(name));
        let values = values.map(|(name, value)| (name.clone(), value.clone())).collect();
        let session = self.session_name(session);
        let beginning = self.pre_run(&session, &prepared.plan);
        let follow = |made: &Map<String, Value>| {
            prepared.plan.check_given(made).map_err(|error| error.message)
        };
        let answer = self.context.gate.ask_recall(beginning, values, follow).await;
        let matter = DecisionSubject::Recalled(prepared.recalled.len());
        let values = self.record_decisions(answer, matter, &session, &prepared.plan.root.pin);
        let values = values.map_err(|error| error.with_hint(GIVE_VALUE_HINT))?;
        if let Some(name) = prepared.recalled.keys().find(|name| !values.contains_key(*name)) {
            let message = format!("the guardian removed the remembered value of `{name}`");
            return Err(
                Error::new(ErrorKind::GuardianDeniedMemory, message).with_hint(GIVE_VALUE_HINT)
            );
        }
        prepared.inputs.extend(values);
        Ok(prepared)
    }

    fn session_name(&self, session: Option<&str>) -> String {
        session.map_or_else(|| self.run.to_string(), str::to_owned)
    }

    fn pre_run<'b>(&'b self, session: &'b str, plan: &'b ExecutionPlan) -> PreRun<'b> {
        PreRun {
            principal: self.principal,
            run: self.run,
            session,
            root: &plan.root.pin,
            trace: &self.trace,
        }
    }

    /// Keeps the decisions for the first event of the run, and reports them to the listeners.
    fn record_decisions<T>(
        &mut self,
        asked: GateVerdict<T>,
        matter: DecisionSubject<'_>,
        session: &str,
        root: &CapabilityRef,
    ) -> Result<T, Error> {
        let GateVerdict { decisions, verdict } = asked;
        self.context.sinks.export_decision(&StandaloneDecision {
            principal: self.principal,
            id: self.run,
            subject: matter,
            decisions: &decisions,
            is_rejected: verdict.is_err(),
            session,
            capability: Some(root),
            caller: self.caller,
            at: self.context.clock.now(),
        });
        let is_guarded = |decision: &DecisionRecord| decision.source != DecisionSource::Unguarded;
        self.decisions.extend(decisions.into_iter().filter(is_guarded));
        verdict.map(Permitted::into_inner)
    }
}
