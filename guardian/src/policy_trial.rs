//! Trying a policy on decisions of the past, before it is in force.
//!
//! A message is built again from its record. The log leaves out secrets, long texts and what the policy of
//! that time redacts, so the trial of such a message is marked: the policy may decide otherwise when it
//! sees all of it.

use std::sync::Mutex;

use aos::message::{Decision, Request};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::audit::leaves_out;
use crate::policy::{ApprovalEffect, ParsedTexts, Policy, PolicyDecision, PolicyState};

/// The most differences that a trial lists.
const MAX_DIFFERENCES: usize = 200;

/// The result of trying a policy on recorded decisions.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PolicyTrial {
    /// The digest of the policy, as `sha256:` and hex.
    pub policy: String,
    /// The number of decisions that were tried.
    pub tried: usize,
    /// Of these, the number of decisions that would be the same.
    pub unchanged: usize,
    /// Of these, the number of decisions whose record leaves out a part of the message.
    pub partial: usize,
    /// The number of records that have too little of the message to try it.
    pub unknown: usize,
    /// The decisions that would be different, the newest first; at most 200.
    pub differences: Vec<TrialDifference>,
    /// The number of times that each rule would apply, in the order of the policy.
    pub rules: Vec<RuleCount>,
}

/// A decision that would be different.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TrialDifference {
    /// The number of the record in the audit log.
    pub seq: u64,
    /// The time of the decision.
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// The hook: `steps/toolCallRequest`.
    pub method: String,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The user that the agent acted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The token that acted for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The decision that was made.
    pub was: TrialDecision,
    /// The decision that the policy would make.
    pub would_be: TrialDecision,
    /// Set when the record leaves out a part of the message, so that the policy may decide otherwise.
    pub partial: bool,
}

/// A decision in short.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TrialDecision {
    /// The decision.
    pub decision: TrialOutcome,
    /// Its message.
    pub message: String,
    /// The rules that applied.
    pub rules: Vec<String>,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialOutcome {
    /// The step is done.
    Allow,
    /// The step is not done.
    Deny,
    /// The step is done with changes.
    Modify,
    /// A person is asked.
    Approve,
}

/// The number of times that a rule would apply.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleCount {
    /// The id of the rule.
    pub rule: String,
    /// The number of decisions.
    pub count: usize,
}

impl PolicyTrial {
    /// Tries a policy on records of decisions, the oldest first, as if none had come before them.
    pub(crate) fn run(policy: &Policy, records: &[Value]) -> Self {
        let state = Mutex::<PolicyState>::default();
        let mut trial = Self {
            policy: policy.digest().to_owned(),
            tried: 0,
            unchanged: 0,
            partial: 0,
            unknown: 0,
            differences: Vec::new(),
            rules: policy
                .rule_ids()
                .map(|id| RuleCount { rule: id.to_owned(), count: 0 })
                .collect(),
        };
        for record in records {
            let Some((request, time)) = read_message(record) else {
                trial.unknown += 1;
                continue;
            };
            let decided = policy.decide_within(&request, &mut ParsedTexts::default(), &state, time);
            trial.tried += 1;
            for count in &mut trial.rules {
                count.count += usize::from(decided.rules.contains(&count.rule));
            }
            let partial = leaves_out(record);
            trial.partial += usize::from(partial);
            let was = TrialDecision::from_record(record);
            let would_be = TrialDecision::from_decision(&decided);
            if was.decision == would_be.decision {
                trial.unchanged += 1;
                continue;
            }
            let text = |name: &str| record[name].as_str().map(str::to_owned);
            trial.differences.push(TrialDifference {
                seq: record["seq"].as_u64().unwrap_or_default(),
                time,
                method: text("method").unwrap_or_default(),
                tool: text("tool"),
                user: text("user"),
                caller: text("caller"),
                was,
                would_be,
                partial,
            });
        }
        trial.differences.reverse();
        trial.differences.truncate(MAX_DIFFERENCES);
        trial
    }
}

impl TrialOutcome {
    /// Returns the word that JSON uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Modify => "modify",
            Self::Approve => "approve",
        }
    }
}

impl TrialDecision {
    fn from_record(record: &Value) -> Self {
        let rules = record["rules"].as_array().into_iter().flatten();
        let approval = record["approval"]["is"].as_str();
        Self {
            decision: match (record["decision"].as_str(), approval) {
                // What a person has approved is what a rule asks for.
                (_, Some(_)) => TrialOutcome::Approve,
                (Some("allow"), None) => TrialOutcome::Allow,
                (Some("modify"), None) => TrialOutcome::Modify,
                _ => TrialOutcome::Deny,
            },
            message: record["message"].as_str().unwrap_or_default().to_owned(),
            rules: rules.filter_map(|rule| rule.as_str().map(str::to_owned)).collect(),
        }
    }

    fn from_decision(decided: &PolicyDecision) -> Self {
        let approval: Option<&ApprovalEffect> = decided.effects.approval.as_ref();
        Self {
            decision: match (&decided.response.decision, approval) {
                (_, Some(_)) => TrialOutcome::Approve,
                (Decision::Allow, None) => TrialOutcome::Allow,
                (Decision::Modify(_), None) => TrialOutcome::Modify,
                (Decision::Deny, None) => TrialOutcome::Deny,
            },
            message: decided.response.message.clone(),
            rules: decided.rules.clone(),
        }
    }
}

/// Builds the message of a record again, with the time of the record.
fn read_message(record: &Value) -> Option<(Request, Timestamp)> {
    let time: Timestamp = record["time"].as_str()?.parse().ok()?;
    let method = record["method"].as_str()?;
    let mut params = record["content"].as_object()?.clone();
    if params.contains_key("cut") {
        return None;
    }
    let mut context = Map::new();
    if let Some(agent) = record["agent"].as_object() {
        let mut agent = agent.clone();
        agent.insert("instructions".to_owned(), "".into());
        agent.insert("url".to_owned(), "https://agent.invalid".into());
        agent.insert("provider".to_owned(), json!({"name": "", "url": "https://agent.invalid"}));
        context.insert("agent".to_owned(), agent.into());
        context.insert("session".to_owned(), json!({ "id": record["session"] }));
        context.insert("turnId".to_owned(), record["turn"].clone());
        context.insert("stepId".to_owned(), record["step"].clone());
        context.insert("timestamp".to_owned(), record["time"].clone());
    }
    if let Some(user) = record["user"].as_str() {
        let mut members = Map::from_iter([("id".to_owned(), Value::from(user))]);
        if user.contains('@') {
            members.insert("email".to_owned(), user.into());
        }
        context.insert("user".to_owned(), members.into());
    }
    if let Some(caller) = record["caller"].as_str() {
        context.insert("caller".to_owned(), json!({ "id": caller }));
    }
    for (name, member) in
        [("capability", "capability"), ("request", "prepared"), ("hidden", "hidden")]
    {
        if let Some(value) = record.get(member) {
            context.insert(name.to_owned(), value.clone());
        }
    }
    params.insert("context".to_owned(), context.into());
    let message = json!({"jsonrpc": "2.0", "id": "trial", "method": method, "params": params});
    Some((Request::from_value(message).ok()?, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditRecord, DecidedStep};

    /// Decides on messages by a policy and returns their records.
    fn decide(policy: &str, inputs: &[Value]) -> Vec<Value> {
        let policy = Policy::parse(policy).unwrap();
        let state = Mutex::default();
        let records = inputs.iter().enumerate().map(|(number, input)| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "steps/toolCallRequest", "params": {
                "toolCallRequest": {"executionId": format!("e{number}"), "toolId": "bank.pay", "inputs": [
                    {"name": "amount", "value": input},
                ]},
                "context": {
                    "agent": {"id": "a", "name": "Agent", "instructions": "", "version": "1", "url": "https://agent.example",
                              "provider": {"name": "Example", "url": "https://example.org"}},
                    "user": {"id": "ada@example.org"}, "caller": {"id": "ci"},
                    "capability": {"name": "Pay", "host": "bank.example"},
                    "session": {"id": "s"}, "turnId": "t", "stepId": "st", "timestamp": "2026-01-02T03:04:05Z",
                },
            }});
            let request = Request::from_value(message).unwrap();
            let now = Timestamp::from_second(1_800_000_000 + i64::try_from(number).unwrap()).unwrap();
            let mut opened = ParsedTexts::default();
            let ruling = policy.decide_within(&request, &mut opened, &state, now);
            let step = DecidedStep { request: &request, ruling: &ruling, policy: &policy, shadow: None };
            let records = AuditRecord::from_step(now, &step, &mut opened);
            let mut record: Value = serde_json::from_slice(records[0].as_ref()).unwrap();
            record["seq"] = number.into();
            record
        });
        records.collect()
    }

    fn try_policy(policy: &str, records: &[Value]) -> Value {
        let trial = PolicyTrial::run(&Policy::parse(policy).unwrap(), records);
        serde_json::to_value(trial).unwrap()
    }

    const ALLOW: &str = "version: 1\ndefault: allow\n";

    #[test]
    fn a_policy_shows_what_it_would_change() {
        let records = decide(ALLOW, &[json!(5), json!(500), json!(50), json!(5000)]);
        let stricter = "version: 1\ndefault: allow\nrules:\n\
            - {id: large, on: toolCallRequest, tool: bank.pay, when: inputs.amount > 1000, decision: deny}\n\
            - {id: some, on: toolCallRequest, host: bank.example, user: ada@example.org, when: inputs.amount > 100, decision: approve}\n\
            - {id: none, on: toolCallRequest, tool: mail.send, decision: deny}\n";
        let trial = try_policy(stricter, &records);
        assert_eq!(
            (&trial["tried"], &trial["unchanged"], &trial["unknown"]),
            (&json!(4), &json!(2), &json!(0))
        );
        let would_be: Vec<_> = trial["differences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                (one["seq"].as_u64().unwrap(), one["would_be"]["decision"].as_str().unwrap())
            })
            .collect();
        assert_eq!(would_be, [(3, "deny"), (1, "approve")]);
        assert_eq!(trial["differences"][0]["was"]["decision"], "allow");
        assert_eq!(
            trial["rules"],
            json!([
                {"rule": "large", "count": 1}, {"rule": "some", "count": 1}, {"rule": "none", "count": 0},
            ])
        );
    }

    /// The policy in force decides as it did.
    #[test]
    fn the_same_policy_changes_nothing() {
        let policy = "version: 1\ndefault: allow\nrules:\n\
            - {id: often, on: toolCallRequest, limit: {calls: 2, per: user, within: 1m}, decision: deny}\n\
            - {id: ask, on: toolCallRequest, when: inputs.amount == 7, decision: approve}\n";
        let records = decide(policy, &[json!(7), json!(7), json!(1), json!(2)]);
        let trial = try_policy(policy, &records);
        assert_eq!(trial["differences"], json!([]), "{records:#?}");
    }

    #[test]
    fn what_the_log_leaves_out_is_marked() {
        let redacting = "version: 1\ndefault: allow\nrules:\n\
            - {id: mails, on: toolCallRequest, decision: modify, modify: {redact: [{pattern: email}]}}\n";
        let records = decide(
            redacting,
            &[json!("to ada@example.org"), json!("x".repeat(300)), json!("short")],
        );
        let trial = try_policy(ALLOW, &records);
        assert_eq!((&trial["partial"], &trial["unchanged"]), (&json!(2), &json!(2)));
        assert_eq!(trial["differences"][0]["partial"], true);
        let mut cut = records[0].clone();
        cut["content"] = json!({"cut": "[99999 bytes, sha256:00]"});
        assert_eq!(try_policy(ALLOW, &[cut])["unknown"], 1);
    }
}
