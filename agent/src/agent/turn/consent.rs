//! Consent to actions: an action that is not known to be read-only runs only with a consent to exactly this
//! action. Pure.

use a2s::{Digest, Document};
use a2s_api::{AgentAction, AgentDelegation, PlanResponse, PlannedStep};
use serde_json::{Map, Value, json};

use super::candidate_search::CandidateCapability;

/// Describes a run for its confirmation.
pub(super) fn action(
    choice: &CandidateCapability,
    plan: &PlanResponse,
    inputs: Map<String, Value>,
) -> AgentAction {
    let mut requests = Vec::new();
    collect_requests(&plan.steps, &mut requests);
    AgentAction {
        capability: choice.pin.clone(),
        description: choice.description.clone(),
        requests,
        hosts: plan.hosts.keys().cloned().collect(),
        inputs,
    }
}

/// An action that needs a confirmation.
#[derive(Debug)]
pub(super) struct UnconfirmedAction {
    pub(super) action: AgentAction,
    /// The digest of the plan, when the action has secret inputs: it covers their values, and only the
    /// executor can compute it.
    pub(super) sealed: Option<Digest>,
}

impl UnconfirmedAction {
    fn to_json(&self) -> Value {
        let Self { action: AgentAction { capability, inputs, .. }, sealed } = self;
        match sealed {
            None => json!([capability, sorted(inputs)]),
            Some(sealed) => json!([capability, sorted(inputs), sealed]),
        }
    }
}

/// Returns the digest that binds a confirmation to these actions: names, versions, checksums and inputs. It
/// does not reveal secret inputs.
pub(super) fn digest<'a>(actions: impl IntoIterator<Item = &'a UnconfirmedAction>) -> Digest {
    let actions = actions.into_iter().map(UnconfirmedAction::to_json);
    Digest::of_bytes(Value::Array(actions.collect()).to_string().as_bytes())
}

/// Returns the digest that binds a confirmation to a request to another agent: address, name, skill and
/// text.
pub(super) fn delegation_digest(delegation: &AgentDelegation) -> Digest {
    let AgentDelegation { agent, url, skill, message } = delegation;
    let request = json!({ "delegation": [url, agent, skill, message] });
    Digest::of_bytes(request.to_string().as_bytes())
}

/// Sorts the members of an object by name, at every depth, so that their order has no effect.
fn sorted(members: &Map<String, Value>) -> Value {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    members.into_iter().map(|(name, value)| json!([name, sorted_value(value)])).collect()
}

fn sorted_value(value: &Value) -> Value {
    match value {
        Value::Object(members) => json!({ "members": sorted(members) }),
        Value::Array(items) => items.iter().map(sorted_value).collect(),
        other => other.clone(),
    }
}

/// Returns true when none of the document's own tasks changes anything.
pub(super) fn has_read_only_tasks(document: &Document) -> bool {
    let mut read_only = true;
    document.capability().for_each_task(|_, step| read_only &= step.task.is_read_only());
    read_only
}

/// Adds the request of each task to `requests`, in the order of the plan.
pub fn collect_requests(steps: &[PlannedStep], requests: &mut Vec<String>) {
    for step in steps {
        requests.extend(step.kind.request_line());
        for below in step.kind.children() {
            collect_requests(below, requests);
        }
        collect_requests(&step.catch, requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(checksum: &str, inputs: &Value) -> UnconfirmedAction {
        let checksum = format!("sha256:{}", checksum.repeat(64));
        let pin = json!({"name": "Post", "version": "1.0.0", "checksum": checksum});
        let action = json!({
            "capability": pin, "description": "", "requests": [], "hosts": [], "inputs": inputs,
        });
        UnconfirmedAction { action: serde_json::from_value(action).unwrap(), sealed: None }
    }

    #[test]
    fn a_yes_is_bound_to_capabilities_checksums_and_inputs() {
        let said = digest(&[post("0", &json!({"text": "hi", "to": {"a": 1, "b": 2}}))]);
        let again = digest(&[post("0", &json!({"to": {"b": 2, "a": 1}, "text": "hi"}))]);
        assert_eq!(said, again, "the order of members does not count");
        for other in [
            vec![post("1", &json!({"text": "hi", "to": {"a": 1, "b": 2}}))],
            vec![post("0", &json!({"text": "ho", "to": {"a": 1, "b": 2}}))],
            vec![post("0", &json!({"text": "hi", "to": {"a": 2, "b": 1}}))],
            vec![post("0", &json!({"text": "hi"}))],
            vec![],
            vec![UnconfirmedAction {
                sealed: Some(Digest::of_bytes(b"plan")),
                ..post("0", &json!({"text": "hi", "to": {"a": 1, "b": 2}}))
            }],
        ] {
            assert_ne!(digest(&other), said, "{other:?}");
        }
    }

    #[test]
    fn a_yes_to_another_agent_is_bound_to_where_and_what() {
        let delegation = |[agent, url, skill, message]: [&str; 4]| AgentDelegation {
            agent: agent.to_owned(),
            url: url.to_owned(),
            skill: skill.to_owned(),
            message: message.to_owned(),
        };
        let parts = ["Hotels", "https://hotels.example.com/", "Book", "book a room"];
        let said = delegation_digest(&delegation(parts));
        assert_eq!(said, delegation_digest(&delegation(parts)));
        for at in 0..parts.len() {
            let mut other = parts;
            other[at] = "other";
            assert_ne!(delegation_digest(&delegation(other)), said, "{other:?}");
        }
    }
}
