//! Messages about remembered values, and the changes of guardians to them. Pure.

use a2s::to_single_line;
use a2s_api::GuardianChange;
use aos::message::{MemoryStep, MethodCall, Request, StepContext};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::apply_verdict::MAX_SHOWN_CHARS;
use super::pre_run::changes_of;

/// A memory: a value, and the input that it is remembered for. Guardians receive its JSON text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryEntry {
    name: String,
    value: Value,
}

/// Creates the question about remembered values.
pub(super) fn memory_step(
    context: StepContext,
    values: &Map<String, Value>,
    reasoning: String,
) -> MemoryStep {
    let memory = values.iter().map(|(name, value)| {
        json!(MemoryEntry { name: name.clone(), value: value.clone() }).to_string()
    });
    let mut step = MemoryStep::new(context, memory.collect::<Vec<_>>());
    step.reasoning = Some(reasoning);
    step
}

/// The values after the change of a guardian, and the differences. The list is complete: a value that it
/// leaves out is not used.
pub(super) fn modified_memory(
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
    use aos::message::Session;

    use super::super::executor_agent;
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
