//! Values that an executor keeps between runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The lifetime of a remembered value. (Variables are the values that live as long as one run.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateScope {
    /// For the runs of one session.
    Session,
    /// For all runs of a caller, or of all callers, until it is removed.
    Persistent,
}

impl StateScope {
    /// Returns the name that JSON uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Persistent => "persistent",
        }
    }
}

/// The runs that can use a value without a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateFor {
    /// All runs of the caller.
    Caller,
    /// The runs of all callers. Only administrators write these values.
    Everybody,
}

/// A remembered value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateEntry {
    /// The input that it is for.
    pub name: String,
    /// The value.
    pub value: Value,
    /// The time at which it was set.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The remembered values of one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateList {
    /// The entries, in order of name.
    pub entries: Vec<StateEntry>,
}
