//! Approvals by a person: each is bound to one act, valid once, and expires.

use aos::message::{ApprovalWithdrawal, MethodCall, Request};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::message_facts::RuleNames;

/// The maximum number of approvals that are stored at a time and that a person may still decide or an agent
/// may still use.
pub(super) const MAX_OPEN: usize = 1_000;
/// The maximum number of open approvals that the end users of one token have together.
const MAX_OPEN_PER_TOKEN: usize = MAX_OPEN / 2;
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
    /// The execution that the approval is for. Without one, the first execution with the same act uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// The execution that used the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// The name of the person who has decided, as they state it.
    #[serde(default, alias = "by", skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The reason, in their words; of a withdrawn approval, in those of its agent.
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
    /// The run that required the approval ended before it was used.
    Withdrawn,
}

impl ApprovalState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Approved, Self::Rejected, Self::Used, Self::Expired, Self::Withdrawn];

    /// Returns the word for the state in responses about a single approval.
    pub const fn status(self) -> &'static str {
        match self {
            Self::Waiting => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
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

/// The effect of a decision of a person on an approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApprovalSettlement {
    /// The decision counts: the approval as it becomes.
    Decided(Approval),
    /// The same decision has been made before.
    Repeated(Approval),
    /// The approval is closed, or was decided otherwise.
    Conflicting(Approval),
}

/// The request of a rule for an approval of a message.
pub(super) struct ApprovalRequest<'a> {
    pub(super) rule: &'a str,
    pub(super) binding: String,
    /// The binding that earlier versions computed for this message.
    pub(super) earlier_binding: String,
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

    /// Returns the quota that another approval of this requester would exceed.
    pub(super) fn exceeded_quota<'a>(
        &self,
        open: impl Iterator<Item = &'a Approval>,
    ) -> Option<ApprovalQuota> {
        let (mut pending, mut open_for_token) = (0, 0);
        for approval in open {
            let theirs = Self::from_approval(approval);
            // All requesters without a user are one.
            let is_same = *self == theirs || (self.user.is_none() && theirs.user.is_none());
            pending += usize::from(is_same && approval.state == ApprovalState::Waiting);
            open_for_token += usize::from(self.user.is_some() && self.token() == theirs.token());
        }
        let (most, scope) = match self.user {
            Some(_) => (MAX_PENDING_PER_USER, "this user"),
            None => (MAX_PENDING_WITHOUT_USER, "requests without a user"),
        };
        let token = ApprovalQuota { most: MAX_OPEN_PER_TOKEN, scope: "the users of this token" };
        let is_full = |count: usize, quota: ApprovalQuota| (quota.most <= count).then_some(quota);
        is_full(pending, ApprovalQuota { most, scope }).or_else(|| is_full(open_for_token, token))
    }

    /// The token of the requester: a user without a caller is one.
    fn token(&self) -> Option<&String> {
        self.caller.as_ref().or(self.user.as_ref())
    }
}

/// A quota of approvals that a requester has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApprovalQuota {
    pub(super) most: usize,
    /// The requesters that share the quota.
    pub(super) scope: &'static str,
}

/// Returns a short name unchanged, and the digest of a long name.
fn shorten_name(name: &str) -> String {
    if name.len() <= MAX_NAME { name.to_owned() } else { super::digest_of(name) }
}

impl<'r> ApprovalRequest<'r> {
    /// Creates the request of a rule for a message.
    pub(super) fn new(rule: &'r str, call: &MethodCall, within: SignedDuration) -> Self {
        let execution = execution_of(call).map(shorten_name);
        let requester = ApprovalRequester::from_names(&RuleNames::from_call(call));
        let earlier_binding = compute_binding(call, false);
        let binding = compute_binding(call, true);
        Self { rule, binding, earlier_binding, within, requester, execution }
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
            execution: wanted.execution,
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
        let own = self.own_execution();
        let is_same_act = self.binding == wanted.binding
            // An earlier version recorded it: the binding does not cover the true request, and the execution
            // has only one.
            || (self.execution.is_none() && own.is_some() && self.binding == wanted.earlier_binding);
        self.rule == wanted.rule
            && is_same_act
            && own.is_none_or(|own| wanted.execution.as_deref() == Some(own))
    }

    /// The execution that the approval is for. Earlier versions recorded it only in the act.
    fn own_execution(&self) -> Option<&str> {
        let recorded = |pointer| self.subject.pointer(pointer)?.as_str();
        self.execution
            .as_deref()
            .or_else(|| recorded("/content/toolCallRequest/executionId"))
            .or_else(|| recorded("/content/toolCallResult/executionId"))
            .or_else(|| recorded("/content/executionId"))
            // A longer one was cut.
            .filter(|id| !id.is_empty() && id.len() <= MAX_NAME)
    }

    /// Returns true when it is still to be decided or used.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        use ApprovalState::{Expired, Used, Withdrawn};
        !matches!(self.state, Used | Expired | Withdrawn) && now < self.expires_at
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

    /// Returns the effect of a decision at the time `now`.
    pub(super) fn settle(&self, decided: &ApprovalDecision, now: Timestamp) -> ApprovalSettlement {
        use ApprovalState::{Approved, Rejected, Used, Waiting};
        let current = self.at_time(now);
        match (current.state, decided.is_approved) {
            (Waiting, _) => ApprovalSettlement::Decided(self.with_decision(decided, now)),
            (Approved | Used, true) | (Rejected, false) => ApprovalSettlement::Repeated(current),
            _ => ApprovalSettlement::Conflicting(current),
        }
    }

    /// Returns the approval after its withdrawal; `None` when it is not open for this execution.
    pub(super) fn withdraw(&self, notice: &ApprovalWithdrawal, now: Timestamp) -> Option<Self> {
        let is_open =
            matches!(self.at_time(now).state, ApprovalState::Waiting | ApprovalState::Approved);
        let is_own = self.own_execution().is_none_or(|own| own == notice.execution_id);
        let reason = Some(notice.reason.chars().take(MAX_NAME).collect());
        let state = ApprovalState::Withdrawn;
        (is_open && is_own).then(|| Self { state, decided_by: None, reason, ..self.clone() })
    }

    /// Describes the state of a closed or decided approval for a person.
    pub(crate) fn describe_state(&self) -> String {
        let Self { id, decided_by, expires_at, .. } = self;
        let by = decided_by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        match self.state {
            ApprovalState::Waiting => format!("The approval {id} is pending."),
            ApprovalState::Approved => format!("The approval {id} is already approved{by}."),
            ApprovalState::Rejected => format!("The approval {id} is already rejected{by}."),
            ApprovalState::Used => format!("The approval {id} is already approved{by}, and used."),
            ApprovalState::Expired => format!("The approval {id} expired at {expires_at:.0}."),
            ApprovalState::Withdrawn => {
                let reason = self.reason.as_deref().unwrap_or("its run ended");
                format!("The approval {id} is withdrawn: {reason}. A new run asks for a new one.")
            }
        }
    }

    fn with_decision(&self, decided: &ApprovalDecision, now: Timestamp) -> Self {
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
/// again. `is_sealed` adds the digest of the true request, which covers the secrets that the message leaves
/// out; earlier versions did not have it.
fn compute_binding(call: &MethodCall, is_sealed: bool) -> String {
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
        act["redirect"] = sort_members(redirect_target(request).into());
    }
    if let Some(sealed) = request.and_then(|request| request.get("sealed")).filter(|_| is_sealed) {
        act["sealed"] = sealed.clone();
    }
    if !of.caller.is_empty() {
        act["caller"] = of.caller.into();
    }
    super::digest_of(&act.to_string())
}

/// The members of a redirected request that say where it leads and what it sends. A body without bytes is
/// none.
fn redirect_target(request: &Map<String, Value>) -> Map<String, Value> {
    let names = ["method", "url", "host", "path", "query", "headers", "body", "redirect"];
    let is_empty_body = |name: &str, value: &Value| name == "body" && value["bytes"] == 0;
    let members = names.iter().filter_map(|name| Some(((*name).to_owned(), request.get(*name)?)));
    let members = members.filter(|(name, value)| !is_empty_body(name, value));
    members.map(|(name, value)| (name, value.clone())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn wanted(binding: &str, execution: &str) -> ApprovalRequest<'static> {
        ApprovalRequest {
            rule: "r",
            binding: binding.to_owned(),
            earlier_binding: "earlier".to_owned(),
            within: SignedDuration::from_hours(1),
            requester: ApprovalRequester::default(),
            execution: (!execution.is_empty()).then(|| execution.to_owned()),
        }
    }

    /// An approval as earlier versions recorded it.
    fn earlier(content: &Value) -> Approval {
        let approval = Approval::from_request(wanted("earlier", ""), NOW, 1);
        Approval { subject: json!({ "content": content }), ..approval }
    }

    #[test]
    fn an_earlier_approval_is_for_the_execution_in_its_act() {
        for content in [
            json!({"toolCallRequest": {"executionId": "x-1"}}),
            json!({"toolCallResult": {"executionId": "x-1"}}),
            json!({"executionId": "x-1", "message": {}}),
        ] {
            let approval = earlier(&content);
            // The request has a sealed digest now, which the binding did not cover.
            assert!(approval.is_open_for(&wanted("sealed", "x-1"), NOW));
            assert!(approval.is_open_for(&wanted("earlier", "x-1"), NOW));
            assert!(!approval.is_open_for(&wanted("earlier", "x-2"), NOW));
            assert!(!approval.is_open_for(&wanted("earlier", ""), NOW));
        }
    }

    #[test]
    fn an_earlier_approval_without_execution_covers_no_secrets() {
        let approval = earlier(&json!({"cut": "[16,000 bytes]"}));
        assert!(approval.is_open_for(&wanted("earlier", "x-2"), NOW));
        assert!(!approval.is_open_for(&wanted("sealed", "x-2"), NOW));
    }
}
