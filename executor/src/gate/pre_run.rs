//! Asks the guardians before a run begins: about the event that starts it, and about remembered values;
//! and before a value is remembered.

use a2s_api::Principal;
use a2s_api::{CapabilityRef, GuardianChange, TriggerEvent};
use aos::message::{
    AgentTrigger, AgentTriggerEvent, AgentTriggerStep, ContentPart, DataContent, DataPart,
    MethodCall, Request, Session, StepContext, TriggerKind,
};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::apply_verdict::WITHHELD;
use super::guardian_request::{executor_agent, set_principal};
use super::state_access::{memory_step, modified_memory};
use super::{AskReason, GateVerdict, GuardianGate, HookPhase, RawVerdict};
use crate::session_state::StateOwner;

/// The run that is about to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreRun<'a> {
    /// The principal that it belongs to.
    pub(crate) principal: &'a Principal,
    /// Its id.
    pub(crate) run: Uuid,
    /// Its session.
    pub(crate) session: &'a str,
    /// The capability that runs.
    pub(crate) root: &'a CapabilityRef,
    /// The headers that identify the span of the question.
    pub(crate) trace: &'a HeaderMap,
}

impl PreRun<'_> {
    /// Creates the context of a question before the first step, with the turn that the steps of the run
    /// will have.
    pub(super) fn step_context(&self, step: &str, now: Timestamp) -> StepContext {
        let session = Session::new(self.session.to_owned());
        let mut context =
            StepContext::new(executor_agent(), session, self.run.to_string(), step, now);
        let capability = json!({
            "name": self.root.name, "version": self.root.version, "checksum": self.root.checksum,
            "root": self.root, "run": self.run,
        });
        if let Value::Object(capability) = capability {
            context.extra.insert("capability".to_owned(), capability);
        }
        set_principal(&mut context, self.principal);
        context
    }
}

impl GuardianGate {
    /// Asks whether an event may start a run with `inputs` (`steps/agentTrigger`). The inputs do not
    /// contain secrets. The guardians may require other inputs; `follow` applies them, or returns the
    /// reason why it cannot.
    pub(crate) async fn ask_trigger(
        &self,
        beginning: PreRun<'_>,
        event: &TriggerEvent,
        inputs: Map<String, Value>,
        mut follow: impl FnMut(&Map<String, Value>) -> Result<(), String>,
    ) -> GateVerdict<()> {
        let asking = HookPhase::TRIGGER;
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(asking, AskReason::Send).permit();
        };
        let content = DataPart {
            data: DataContent::Object(inputs.clone()),
            metadata: None,
            extra: Map::new(),
        };
        let TriggerEvent { kind, id } = event.clone();
        let event = AgentTriggerEvent::new(kind, id);
        let trigger =
            AgentTrigger::new(TriggerKind::Autonomous, event, vec![ContentPart::Data(content)]);
        let context = beginning.step_context("trigger", self.clock.now());
        let call = MethodCall::AgentTrigger(Box::new(AgentTriggerStep::new(context, trigger)));
        let mut inputs = inputs;
        let take = |modified: &mut Request| {
            let made = modified_content(modified)?;
            follow(made)?;
            let changes = changes_of(&inputs, made);
            inputs.clone_from(made);
            Ok(changes)
        };
        let call = (call, beginning.trace);
        self.ask_guardians(guardians, asking, AskReason::Send, call, take).await.permit()
    }

    /// Asks whether a run may use `values` (`steps/memoryContextRetrieval`). The guardians may change or
    /// remove values. `follow` receives the values after each change, and returns an error when they cannot
    /// be used.
    pub(crate) async fn ask_recall(
        &self,
        beginning: PreRun<'_>,
        values: Map<String, Value>,
        follow: impl FnMut(&Map<String, Value>) -> Result<(), String>,
    ) -> GateVerdict<Map<String, Value>> {
        let context = beginning.step_context("inputs", self.clock.now());
        let names: Vec<_> = values.keys().map(String::as_str).collect();
        let reasoning = format!(
            "{} requires {}, which the caller did not give.",
            beginning.root.name,
            names.join(", ")
        );
        let step = memory_step(context, &values, reasoning);
        let call = MethodCall::MemoryContextRetrieval(Box::new(step));
        let call = (call, beginning.trace);
        self.judge_memory(HookPhase::RECALLED, call, values, follow).await.permit()
    }

    /// Asks whether `principal` may store a value for `holder` (`steps/memoryStore`). The guardians may
    /// change the value.
    pub(crate) async fn ask_remember(
        &self,
        principal: &Principal,
        holder: &StateOwner,
        name: &str,
        value: Value,
    ) -> GateVerdict<Value> {
        let turn = self.new_message_id();
        let session = Session::new(holder.session_id());
        let mut context = StepContext::new(executor_agent(), session, turn, name, self.clock.now());
        set_principal(&mut context, principal);
        let mut value = value;
        let values = Map::from_iter([(name.to_owned(), value.clone())]);
        let reasoning = match holder {
            StateOwner::Session(..) => "Remember a value for the runs of this session.",
            StateOwner::Principal(_) => "Remember a value for the runs of this user.",
            StateOwner::Everybody => "Remember a value for all runs.",
        };
        let step = memory_step(context, &values, reasoning.to_owned());
        let call = (MethodCall::MemoryStore(Box::new(step)), &HeaderMap::new());
        let follow = |made: &Map<String, Value>| {
            // To store nothing, a guardian denies.
            value = made.get(name).ok_or("it removes the value to remember")?.clone();
            Ok(())
        };
        let judged = self.judge_memory(HookPhase::REMEMBERED, call, values, follow).await;
        judged.map(|_| value).permit()
    }

    async fn judge_memory(
        &self,
        asking: HookPhase,
        call: (MethodCall, &HeaderMap),
        mut values: Map<String, Value>,
        mut follow: impl FnMut(&Map<String, Value>) -> Result<(), String>,
    ) -> RawVerdict<Map<String, Value>> {
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(asking, AskReason::Send).map(|()| values);
        };
        let take = |modified: &mut Request| {
            let (made, changes) = modified_memory(&values, modified)?;
            follow(&made)?;
            values = made;
            Ok(changes)
        };
        let judged = self.ask_guardians(guardians, asking, AskReason::Send, call, take).await;
        judged.map(|()| values)
    }
}

/// Returns the inputs that a guardian requires instead of those of an event.
fn modified_content(modified: &Request) -> Result<&Map<String, Value>, String> {
    let MethodCall::AgentTrigger(step) = &modified.call else {
        return Err("its method is not an event".to_owned());
    };
    match step.trigger.content.as_slice() {
        [ContentPart::Data(DataPart { data: DataContent::Object(inputs), .. })] => Ok(inputs),
        _ => Err("the content is not a single object with the inputs".to_owned()),
    }
}

/// The differences between values by name. Old values are not recorded: a journal with them would undo a
/// redaction.
pub(super) fn changes_of(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<GuardianChange> {
    let change = |name: &String, to: Option<&Value>| GuardianChange {
        name: name.clone(),
        from: before.get(name).map_or(Value::Null, |_| WITHHELD.into()),
        to: to.cloned().unwrap_or_default(),
    };
    let added = after.iter().filter(|(name, _)| !before.contains_key(*name));
    let changed = before.iter().filter(|(name, value)| after.get(*name) != Some(value));
    let changed = changed.map(|(name, _)| change(name, after.get(name)));
    changed.chain(added.map(|(name, value)| change(name, Some(value)))).collect()
}
