//! Approvals by a person: each is bound to one act, valid once, and expires.

use aos::message::{MethodCall, Request};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::message_facts::RuleNames;

/// The maximum number of approvals that may wait for one user, and for all callers without a user.
const MAX_PENDING_PER_USER: usize = 100;
const MAX_PENDING_WITHOUT_USER: usize = 10;
/// The maximum length of a name that is stored unchanged, in bytes.
const MAX_NAME: usize = 128;

/// An action that waits for the decision of a person, or has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// The rule that requires the approval.
    pub rule: String,
    /// The digest of the act with its agent and its user: an approval is valid for that alone.
    pub binding: String,
    /// The state of the approval.
    pub state: ApprovalState,
    /// The time of the first request.
    #[schema(value_type = String, format = DateTime)]
    #[serde(alias = "asked")]
    pub requested_at: Timestamp,
    /// The time when the approval expires, decided or not.
    #[schema(value_type = String, format = DateTime)]
    #[serde(alias = "until")]
    pub expires_at: Timestamp,
    /// The time that it is valid after it is given, in seconds.
    pub within_seconds: i64,
    /// The act, redacted and cut as in the audit log.
    #[serde(default)]
    pub subject: Value,
    /// The user that the agent acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The token that acts for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The execution that used the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// The name of the person who has decided, as they state it.
    #[serde(default, alias = "by", skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The reason, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The status of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// A person has not decided yet.
    Waiting,
    /// A person has approved the action, and the approval is not used yet.
    Approved,
    /// A person has rejected the action.
    Rejected,
    /// The approval was used.
    Used,
    /// The approval expired before it was decided or used.
    Expired,
}

impl ApprovalState {
    /// All states.
    pub const ALL: [Self; 5] =
        [Self::Waiting, Self::Approved, Self::Rejected, Self::Used, Self::Expired];

    /// Returns the word for the state in responses about a single approval.
    pub const fn status(self) -> &'static str {
        match self {
            Self::Waiting => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Used => "used",
            Self::Expired => "expired",
        }
    }
}

/// The decision of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// True when they agree.
    pub is_approved: bool,
    /// Their name, as they state it.
    pub decided_by: Option<String>,
    /// The reason, in their words.
    pub reason: Option<String>,
}

/// The request of a rule for an approval of a message.
pub(super) struct ApprovalRequest<'a> {
    pub(super) rule: &'a str,
    pub(super) binding: String,
    pub(super) within: SignedDuration,
    pub(super) requester: ApprovalRequester,
    /// The execution that requires the approval, if the message names one.
    pub(super) execution: Option<String>,
}

/// The requester of an approval. Each pair of user and caller has its own quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApprovalRequester {
    pub(super) user: Option<String>,
    pub(super) caller: Option<String>,
}

impl ApprovalRequester {
    fn from_names(names: &RuleNames<'_>) -> Self {
        let name = |name: &str| (!name.trim().is_empty()).then(|| shorten_name(name));
        Self { user: name(names.user), caller: name(names.caller) }
    }

    fn from_approval(approval: &Approval) -> Self {
        Self { user: approval.user.clone(), caller: approval.caller.clone() }
    }

    /// Returns the maximum number of approvals that may wait for this requester at a time.
    pub(super) const fn quota(&self) -> usize {
        if self.user.is_some() { MAX_PENDING_PER_USER } else { MAX_PENDING_WITHOUT_USER }
    }

    /// Returns true when an approval waits for this requester. All requesters without a user are one.
    pub(super) fn has_pending(&self, approval: &Approval) -> bool {
        let theirs = Self::from_approval(approval);
        match (&self.user, &theirs.user) {
            (None, None) => true,
            _ => *self == theirs,
        }
    }
}

/// Returns a short name unchanged, and the digest of a long name.
fn shorten_name(name: &str) -> String {
    if name.len() <= MAX_NAME { name.to_owned() } else { super::digest_of(name) }
}

impl<'r> ApprovalRequest<'r> {
    /// Creates the request of a rule for a message.
    pub(super) fn new(rule: &'r str, call: &MethodCall, within: SignedDuration) -> Self {
        let execution = execution_of(call).map(shorten_name);
        let asker = ApprovalRequester::from_names(&RuleNames::from_call(call));
        Self { rule, binding: compute_binding(call), within, requester: asker, execution }
    }
}

/// Returns the execution of a message, if the message names one.
pub(super) fn execution_of(call: &MethodCall) -> Option<&str> {
    match call {
        MethodCall::ToolCallRequest(step) => Some(step.tool_call_request.execution_id.as_str()),
        MethodCall::ToolCallResult(step) => Some(step.execution_id.as_str()),
        MethodCall::Mcp(step) => step.extra.get("executionId")?.as_str(),
        _ => None,
    }
    .filter(|id| !id.is_empty())
}

impl Approval {
    pub(super) fn from_request(wanted: ApprovalRequest<'_>, now: Timestamp, number: u64) -> Self {
        let id = super::digest_of(&format!("{number} {now} {} {}", wanted.rule, wanted.binding));
        // Twelve digits are enough to distinguish a thousand, and few enough to read out.
        let id = id.trim_start_matches("sha256:").chars().take(12).collect();
        Self {
            id,
            rule: wanted.rule.to_owned(),
            binding: wanted.binding,
            state: ApprovalState::Waiting,
            requested_at: now,
            expires_at: add_duration(now, wanted.within),
            within_seconds: wanted.within.as_secs(),
            subject: Value::Null,
            user: wanted.requester.user,
            caller: wanted.requester.caller,
            used_by: None,
            decided_by: None,
            reason: None,
        }
    }

    /// Returns true when the approval matches the request, and is still to be decided or used.
    pub(super) fn is_open_for(&self, wanted: &ApprovalRequest<'_>, now: Timestamp) -> bool {
        self.is_open(now) && self.is_about(wanted)
    }

    /// Returns true when this same execution has used the approval and asks again. If a crash prevented the
    /// act from being sent, it is allowed once more under the same id.
    pub(super) fn was_used_by(&self, wanted: &ApprovalRequest<'_>, now: Timestamp) -> bool {
        self.state == ApprovalState::Used
            && wanted.execution.is_some()
            && self.used_by == wanted.execution
            && now < self.expires_at
            && self.is_about(wanted)
    }

    fn is_about(&self, wanted: &ApprovalRequest<'_>) -> bool {
        self.rule == wanted.rule && self.binding == wanted.binding
    }

    /// Returns true when it is still to be decided or used.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        !matches!(self.state, ApprovalState::Used | ApprovalState::Expired) && now < self.expires_at
    }

    /// Returns the approval with its state at the time `now`.
    pub(crate) fn at_time(&self, now: Timestamp) -> Self {
        let is_over = self.expires_at <= now;
        let state = match self.state {
            ApprovalState::Waiting | ApprovalState::Approved if is_over => ApprovalState::Expired,
            state => state,
        };
        Self { state, ..self.clone() }
    }

    pub(super) fn with_decision(&self, decided: &ApprovalDecision, now: Timestamp) -> Self {
        let state =
            if decided.is_approved { ApprovalState::Approved } else { ApprovalState::Rejected };
        let until = add_duration(now, SignedDuration::from_secs(self.within_seconds));
        let (by, reason) = (decided.decided_by.clone(), decided.reason.clone());
        Self { state, expires_at: until, decided_by: by, reason, ..self.clone() }
    }
}

fn add_duration(now: Timestamp, within: SignedDuration) -> Timestamp {
    now.saturating_add(within).unwrap_or(Timestamp::MAX)
}

/// The digest of the act of a message, with its user and its agent. It leaves out the ids of the message
/// and of its run, turn and step, the time and the reasoning: these differ when the same act is requested
/// again.
fn compute_binding(call: &MethodCall) -> String {
    let of = RuleNames::from_call(call);
    let message = Request { id: 0.into(), call: call.clone() };
    let mut params = serde_json::to_value(&message).unwrap_or_default()["params"].take();
    if let Value::Object(params) = &mut params {
        params.retain(|name, _| name != "context" && name != "reasoning");
        for name in ["toolCallRequest", "toolCallResult"] {
            if let Some(Value::Object(inner)) = params.get_mut(name) {
                inner.retain(|name, _| name != "executionId");
            }
        }
        if let Some(Value::Object(message)) = params.get_mut("message") {
            message.retain(|name, _| name != "id");
        }
    }
    let capability = call.context().and_then(|context| context.extra.get("capability"));
    let member = |name: &str| capability.and_then(|members| members.get(name)).cloned();
    let mut act = json!({
        "method": call.method(),
        "agent": of.agent,
        "user": of.user,
        "capability": [member("name"), member("version"), member("checksum").or_else(|| member("digest")), member("root")],
        "params": sort_members(params),
    });
    // The service chooses where a redirect leads, so the content of the step does not say it.
    let request = call.context().and_then(|context| context.extra.get("request"));
    if let Some(request) = request.filter(|request| request.get("redirect").is_some()) {
        act["redirect"] = sort_members(request.clone().into());
    }
    if !of.caller.is_empty() {
        act["caller"] = of.caller.into();
    }
    super::digest_of(&act.to_string())
}

/// Sorts the members of every object, so that equal content has equal text. Numbers stay unchanged: two
/// different numbers never have the same text.
fn sort_members(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            let members = members.into_iter().map(|(name, value)| (name, sort_members(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(sort_members).collect(),
        other => other,
    }
}
