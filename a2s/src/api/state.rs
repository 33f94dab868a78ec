//! Values that an executor keeps between runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// How long a value is remembered. (What lives as long as one run are its variables.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateScope {
    /// For the runs of one session.
    Session,
    /// For all runs of a caller, or of all callers, until it is removed.
    Persistent,
}

impl StateScope {
    /// As it is written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Persistent => "persistent",
        }
    }
}

/// The runs that a value without a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateFor {
    /// All runs of the caller.
    Caller,
    /// The runs of all callers. Only administrators write these values.
    Everybody,
}

/// A value that is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateEntry {
    /// The input that it is for.
    pub name: String,
    /// The value.
    pub value: Value,
    /// When it was set.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// What is remembered in one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateList {
    /// By name.
    pub entries: Vec<StateEntry>,
}
