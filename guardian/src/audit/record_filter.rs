//! Choosing records of a log by what they say.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The records that a reader of the log wants. A member that is not set chooses all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordFilter {
    /// The event: `decision`, `outcome`, `approval`, `policy`, `shadow_policy`, `recovery` or `segment`.
    pub event: Option<String>,
    /// The decision: `allow`, `deny` or `modify`.
    pub decision: Option<String>,
    /// A part of the name of the tool.
    pub tool: Option<String>,
    /// The name of the capability.
    pub capability: Option<String>,
    /// A rule that took part in the decision.
    pub rule: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// The user, or the token that acts for one.
    pub user: Option<String>,
    /// The execution: the decisions about a call, and its outcome.
    pub execution: Option<String>,
    /// The run of an executor.
    pub run: Option<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// Set to choose decisions that the shadow policy would have made differently.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub differs: bool,
}

impl RecordFilter {
    /// Returns true when a record is from before the earliest time, and so are those before it.
    pub(super) fn is_too_old(&self, record: &Value) -> bool {
        let Some(since) = self.since else { return false };
        let time = record["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        time.is_none_or(|time| time < since)
    }

    /// Returns true when a record is chosen.
    pub fn matches(&self, record: &Value) -> bool {
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
        let is = |pointer: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| text(pointer) == Some(wanted))
        };
        let rules = record["rules"].as_array();
        let has_rule =
            |rule: &String| rules.is_some_and(|rules| rules.iter().any(|one| one == rule));
        let has_tool = |part: &String| text("/tool").is_some_and(|tool| tool.contains(part));
        is("/event", &self.event)
            && is("/decision", &self.decision)
            && is("/session", &self.session)
            && (is("/user", &self.user) || is("/caller", &self.user))
            && is("/execution", &self.execution)
            && is("/capability/name", &self.capability)
            && is("/capability/run", &self.run)
            && self.tool.as_ref().is_none_or(has_tool)
            && self.rule.as_ref().is_none_or(has_rule)
            && !self.is_too_old(record)
            && (!self.differs || record["shadow"]["differs"] == true)
    }
}
