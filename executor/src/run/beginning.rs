//! Decisions of a guardian before a run begins: about the event that starts it, and about remembered
//! values.

use a2s::Principal;
use a2s::api::{
    CapabilityRef, Decision, DecisionSource, PlanRequest, StateEntry, TraceContext, TriggerEvent,
};
use http::HeaderMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Runs;
use super::prepare::Prepared;
use crate::clock::new_run_id;
use crate::error::{Error, Kind};
use crate::gate::{Asked, Beginning, Permitted};
use crate::plan::Plan;
use crate::secrets::{Secrets, has_placeholder, restore};
use crate::session_state::{Holder, States};
use crate::telemetry::{Aside, Matter, RunTrace};

/// The hint for a caller who gave no value.
const GIVE: &str = "Give the value with the run, or ask who keeps the policy.";

/// A run that does not exist yet, with the decisions about it.
pub(super) struct Guarded<'r> {
    runs: &'r Runs,
    /// The principal that it will belong to.
    principal: &'r Principal,
    /// The id that it will have.
    pub(super) run: Uuid,
    caller: Option<&'r TraceContext>,
    trace: HeaderMap,
    /// The decisions of the guardian so far, in order.
    pub(super) decisions: Vec<Decision>,
}

impl<'r> Guarded<'r> {
    /// Creates it without decisions; `caller` is the trace that the caller is in.
    pub(super) fn new(
        runs: &'r Runs,
        principal: &'r Principal,
        run: Uuid,
        caller: Option<&'r TraceContext>,
    ) -> Self {
        let trace = RunTrace::of(run, caller, runs.listeners.take_spans());
        let trace = trace.headers(trace.root());
        Self { runs, principal, run, caller, trace, decisions: Vec::new() }
    }

    /// Asks about the event that wants to start the run, and goes on with the inputs that the guardian
    /// lets pass.
    ///
    /// # Errors
    /// When the inputs do not fit, or the event may start nothing.
    pub(super) async fn judge_event(
        &mut self,
        event: &TriggerEvent,
        plan: &Plan,
        asked: &mut PlanRequest,
    ) -> Result<(), Error> {
        plan.check_given(&asked.inputs)?;
        let secrets = Secrets::default();
        let shown = plan.root.shown(&asked.inputs, &secrets)?;
        let session = self.session(asked.session.as_deref());
        // What the guardians so far have made of the inputs: as they are, and as they are shown.
        let mut truths = asked.inputs.clone();
        let mut seen = shown.clone();
        let follow = |made: &Map<String, Value>| {
            let inputs = restore_inputs(&truths, &seen, made)?;
            plan.check_given(&inputs).map_err(|error| error.message)?;
            truths = inputs;
            seen.clone_from(made);
            Ok(())
        };
        let beginning = self.beginning(&session, plan);
        let answer = self.runs.gate.ask_trigger(beginning, event, shown, follow).await;
        self.note(answer, Matter::Event(event), &session, &plan.root.pin)?;
        asked.inputs = truths;
        Ok(())
    }

    /// Asks about the remembered inputs, if there are any, and continues with the values that the guardian
    /// lets pass.
    ///
    /// # Errors
    /// When some of them may not be used.
    pub(super) async fn judge_recalled(
        &mut self,
        mut prepared: Prepared,
        session: Option<&str>,
    ) -> Result<Prepared, Error> {
        if prepared.recalled.is_empty() {
            return Ok(prepared);
        }
        let values =
            prepared.recalled.keys().filter_map(|name| prepared.inputs.get_key_value(name));
        let values = values.map(|(name, value)| (name.clone(), value.clone())).collect();
        let session = self.session(session);
        let beginning = self.beginning(&session, &prepared.plan);
        let follow = |made: &Map<String, Value>| {
            prepared.plan.check_given(made).map_err(|error| error.message)
        };
        let answer = self.runs.gate.ask_recalled(beginning, values, follow).await;
        let matter = Matter::Recalled(prepared.recalled.len());
        let values = self.note(answer, matter, &session, &prepared.plan.root.pin);
        let values = values.map_err(|error| error.hint(GIVE))?;
        if let Some(name) = prepared.recalled.keys().find(|name| !values.contains_key(*name)) {
            let message = format!("the guardian took away what is remembered for `{name}`");
            return Err(Error::new(Kind::GuardianDeniedMemory, message).hint(GIVE));
        }
        prepared.inputs.extend(values);
        Ok(prepared)
    }

    fn session(&self, session: Option<&str>) -> String {
        session.map_or_else(|| self.run.to_string(), str::to_owned)
    }

    fn beginning<'b>(&'b self, session: &'b str, plan: &'b Plan) -> Beginning<'b> {
        Beginning {
            principal: self.principal,
            run: self.run,
            session,
            root: &plan.root.pin,
            trace: &self.trace,
        }
    }

    /// Keeps the decisions for the first event of the run, and reports them to the listeners.
    fn note<T>(
        &mut self,
        asked: Asked<T>,
        matter: Matter<'_>,
        session: &str,
        root: &CapabilityRef,
    ) -> Result<T, Error> {
        let Asked { decisions, verdict } = asked;
        self.runs.listeners.tell_aside(&Aside {
            principal: self.principal,
            id: self.run,
            matter,
            decisions: &decisions,
            is_refused: verdict.is_err(),
            session,
            capability: Some(root),
            caller: self.caller,
            at: self.runs.clock.now(),
        });
        let told = |decision: &Decision| decision.source != DecisionSource::Unguarded;
        self.decisions.extend(decisions.into_iter().filter(told));
        verdict.map(Permitted::into_inner)
    }
}

/// Inputs that a guardian made of those that it was shown, with their true values.
fn restore_inputs(
    truths: &Map<String, Value>,
    shown: &Map<String, Value>,
    made: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let restored = made.iter().map(|(name, made)| {
        let truth = truths.get(name);
        let value = match (shown.get(name), truth) {
            (Some(shown), Some(truth)) => restore(shown, truth, made.clone()),
            _ => made.clone(),
        };
        // The placeholder itself would be neither what was meant nor what was allowed.
        if has_placeholder(&value) && !truth.is_some_and(has_placeholder) {
            return Err(format!("it puts a secret into `{name}`, where none was"));
        }
        Ok((name.clone(), value))
    });
    restored.collect()
}

impl Runs {
    /// Remembers a value that `principal` gives, if the guardian lets it be.
    ///
    /// # Errors
    /// When it may not be remembered, or cannot.
    pub(crate) async fn remember(
        &self,
        principal: &Principal,
        holder: &Holder,
        name: &str,
        value: Value,
    ) -> Result<StateEntry, Error> {
        States::check(name, &value)?;
        let asked = self.gate.ask_remembered(principal, holder, name, value).await;
        self.listeners.tell_aside(&Aside {
            principal,
            id: new_run_id(&self.clock, &self.ids),
            matter: Matter::Remembered,
            decisions: &asked.decisions,
            is_refused: asked.verdict.is_err(),
            session: &holder.session_id(),
            capability: None,
            caller: None,
            at: self.clock.now(),
        });
        self.states.set(holder, name, asked.verdict?.into_inner()).await
    }
}
