//! The decisions of guardians, and the approvals that they want.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The decision of one guardian. If several guardians are asked, each has its own record, in order. A
/// denial is the last record, because no further guardian is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Decision)]
pub struct DecisionRecord {
    /// The phase in which the guardian decided.
    pub phase: GuardianPhase,
    /// The guardian, by its name in `guardians`; absent when there is no guardian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardian: Option<String>,
    /// `allow`, `deny`, `modify`, or `unguarded` when the guardian is off.
    pub decision: Cow<'static, str>,
    /// The source of the decision.
    pub source: DecisionSource,
    /// The message of the guardian, or the reason why it could not be asked.
    pub message: Cow<'static, str>,
    /// The guardian's reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reason_codes: Vec<String>,
    /// The changes of a `modify`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<GuardianChange>,
}

/// The phase in which a guardian is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardianPhase {
    /// Before the request leaves (`steps/toolCallRequest`).
    #[default]
    Request,
    /// Before the result is used (`steps/toolCallResult`).
    Result,
    /// Before an event starts a run (`steps/agentTrigger`).
    Trigger,
    /// Before the executor reads or writes remembered values (`steps/memoryContextRetrieval`,
    /// `steps/memoryStore`).
    Memory,
    /// Before an MCP message leaves (`protocols/MCP`), after [`GuardianPhase::Request`].
    McpOutbound,
    /// Before a received MCP message is read (`protocols/MCP`), and before [`GuardianPhase::Result`].
    McpInbound,
}

impl GuardianPhase {
    /// Returns true for [`GuardianPhase::Request`].
    #[must_use]
    pub fn is_request(&self) -> bool {
        *self == Self::Request
    }
}

/// The source of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// The guardian responded.
    Guardian,
    /// The guardian gave no usable response, and the configuration denies the step.
    FailedClosed,
    /// The guardian gave no usable response, and the configuration allows the step.
    FailedOpen,
    /// There is no guardian.
    Unguarded,
}

impl DecisionSource {
    /// Returns `guardian`, `failed_closed`, `failed_open` or `unguarded`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guardian => "guardian",
            Self::FailedClosed => "failed_closed",
            Self::FailedOpen => "failed_open",
            Self::Unguarded => "unguarded",
        }
    }
}

/// One value that a guardian changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuardianChange {
    /// The dotted path of the value: `pathParameters.city`.
    pub name: String,
    /// The value before.
    pub from: Value,
    /// The value after.
    pub to: Value,
}

/// The subject of an approval that a step waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ApprovalSubject {
    /// The request, the result, or a message of MCP. Absent for a request.
    #[serde(default, skip_serializing_if = "GuardianPhase::is_request")]
    pub phase: GuardianPhase,
    /// The number of the redirect, from 1; absent for the step's own request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<u32>,
}

impl ApprovalSubject {
    /// Creates the subject for this phase, or for the redirect with this number.
    #[must_use]
    pub const fn new(phase: GuardianPhase, redirect: Option<u32>) -> Self {
        Self { phase, redirect }
    }

    /// True when the step had already sent something before this point.
    #[must_use]
    pub fn is_after_sending(&self) -> bool {
        self.redirect.is_some()
            || matches!(self.phase, GuardianPhase::Result | GuardianPhase::McpInbound)
    }

    /// Returns the words that follow "waits for approval" in a message, for instance ` of redirect 2`.
    /// Empty for the step's own request.
    #[must_use]
    pub fn describe(&self) -> String {
        match (self.phase, self.redirect) {
            (_, Some(number)) => format!(" of redirect {number}"),
            (GuardianPhase::Result, None) => " of the result".to_owned(),
            (GuardianPhase::McpInbound, None) => " of the MCP response".to_owned(),
            (GuardianPhase::McpOutbound, None) => " of the MCP message".to_owned(),
            (GuardianPhase::Request | GuardianPhase::Trigger | GuardianPhase::Memory, None) => {
                String::new()
            }
        }
    }
}
