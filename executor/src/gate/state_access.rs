//! Asks the guardian about remembered values: before a run uses them, and before they are written.

use a2s_api::GuardianChange;
use a2s_api::Principal;
use aos::message::{MemoryStep, MethodCall, Request, Session, StepContext};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::apply_verdict::MAX_SHOWN_CHARS;
use super::guardian_request::{executor_agent, set_principal};
use super::pre_run::{PreRun, changes_of};
use super::{AskReason, GateVerdict, GuardianGate, HookPhase, RawVerdict};
use crate::session_state::StateOwner;
use a2s::to_single_line;

/// A memory: a value, and the input that it is remembered for. Guardians receive its JSON text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryEntry {
    name: String,
    value: Value,
}

impl GuardianGate {
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
        let RawVerdict { decisions, verdict } = judged;
        RawVerdict { decisions, verdict: verdict.map(|_| value) }.permit()
    }

    async fn judge_memory(
        &self,
        asking: HookPhase,
        call: (MethodCall, &HeaderMap),
        mut values: Map<String, Value>,
        mut follow: impl FnMut(&Map<String, Value>) -> Result<(), String>,
    ) -> RawVerdict<Map<String, Value>> {
        let Some(guardians) = self.guardians() else {
            return self.skip_guardians(asking, AskReason::Send, Ok(values));
        };
        let take = |modified: &_| {
            let (made, changes) = modified_memory(&values, modified)?;
            follow(&made)?;
            values = made;
            Ok(changes)
        };
        let said = self.ask_guardians(guardians, asking, AskReason::Send, call, take).await;
        let (decisions, verdict) = said;
        RawVerdict { decisions, verdict: verdict.map(|()| values) }
    }
}

fn memory_step(context: StepContext, values: &Map<String, Value>, reasoning: String) -> MemoryStep {
    let memory = values.iter().map(|(name, value)| {
        json!(MemoryEntry { name: name.clone(), value: value.clone() }).to_string()
    });
    let mut step = MemoryStep::new(context, memory.collect::<Vec<_>>());
    step.reasoning = Some(reasoning);
    step
}

/// The values after the change of a guardian, and the differences. The list is complete: a value that it
/// leaves out is not used.
fn modified_memory(
    values: &Map<String, Value>,
    modified: &Request,
) -> Result<(Map<String, Value>, Vec<GuardianChange>), String> {
    let (MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step)) = &modified.call
    else {
        return Err("its method is not a memory step".to_owned());
    };
    let mut new = Map::new();
    for text in &step.memory {
        let memory: MemoryEntry = serde_json::from_str(text).map_err(|_| {
            "a memory entry is not the JSON text of an object with `name` and `value`".to_owned()
        })?;
        let MemoryEntry { name, value } = memory;
        if !values.contains_key(&name) {
            let name = to_single_line(&name, MAX_SHOWN_CHARS);
            return Err(format!("unknown remembered value `{name}`"));
        }
        if new.contains_key(&name) {
            return Err(format!("`{name}` occurs twice"));
        }
        new.insert(name, value);
    }
    let changes = changes_of(values, &new);
    Ok((new, changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modified(memory: &[&str]) -> Request {
        let context = StepContext::new(
            executor_agent(),
            Session::new("s".to_owned()),
            "t",
            "s",
            jiff::Timestamp::UNIX_EPOCH,
        );
        let memory = memory.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let call = MethodCall::MemoryContextRetrieval(Box::new(MemoryStep::new(context, memory)));
        Request::new("1", call)
    }

    #[track_caller]
    fn check(memory: &[&str], expected: Result<Value, &str>) {
        let values = Map::from_iter([("a".to_owned(), json!(1)), ("b".to_owned(), json!("x"))]);
        let made = modified_memory(&values, &modified(memory));
        let made = made.map(|(values, _)| Value::Object(values));
        match (made, expected) {
            (Ok(made), Ok(expected)) => assert_eq!(made, expected),
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (made, expected) => panic!("{made:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_guardian_changes_what_is_remembered_and_adds_nothing() {
        let (a, b) = (r#"{"name": "a", "value": 2}"#, r#"{"value": "x", "name": "b"}"#);
        check(&[a, b], Ok(json!({"a": 2, "b": "x"})));
        check(&[b], Ok(json!({"b": "x"})));
        check(&[], Ok(json!({})));
        check(&[a, a], Err("`a` occurs twice"));
        check(&[r#"{"name": "c", "value": 2}"#], Err("unknown remembered value `c`"));
        check(&[r#"{"name": "a", "value": 2, "scope": 1}"#], Err("object with `name` and `value`"));
        check(&["a is 2"], Err("object with `name` and `value`"));
    }
}
