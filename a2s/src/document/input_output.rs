//! Inputs and outputs of a step.

use indexmap::IndexMap;
use serde_json::Value;

use crate::query::JsonPathQuery;
use crate::task::InputLocation;
use crate::template::Template;

/// The inputs of a task, each value at its location.
pub type TaskInputs = IndexMap<InputLocation, Template>;

/// A value that a step reads from its response.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputMapping {
    /// The variable and, for a dotted name, the members below it: `notification_ids.sms`.
    pub name: Vec<String>,
    /// The location of the value in the response.
    pub source: OutputSource,
    /// The value when the response does not contain one. Without a default, a missing value fails the step
    /// (1.1).
    pub default: Option<Value>,
}

/// The part of a response that contains a value.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputSource {
    /// The body: for an OpenAPI task its value, for a GraphQL task the whole response, for an MCP task the
    /// result of the tool, for a capability its result.
    Body(JsonPathQuery),
    /// The first header of this name, as text (1.1).
    Header(String),
    /// The HTTP status, as a number (1.1).
    Status,
}

impl OutputMapping {
    /// Returns the name with dots.
    #[must_use]
    pub fn dotted(&self) -> String {
        self.name.join(".")
    }

    /// Returns the query that reads the value from the body of the response.
    #[must_use]
    pub fn query(&self) -> Option<&JsonPathQuery> {
        match &self.source {
            OutputSource::Body(query) => Some(query),
            OutputSource::Header(_) | OutputSource::Status => None,
        }
    }

    /// Returns the variable that the output sets, or of which it sets a member.
    #[must_use]
    pub fn variable(&self) -> &str {
        self.name.first().map_or("", String::as_str)
    }

    /// Sets this output in `variables`. Creates missing members of a dotted name, and replaces a value on
    /// the path that is not an object.
    pub fn set(&self, variables: &mut serde_json::Map<String, Value>, value: Value) {
        let Some((last, parents)) = self.name.split_last() else { return };
        let mut members = variables;
        for parent in parents {
            let slot = members.entry(parent.clone()).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(serde_json::Map::new());
            }
            let Value::Object(inner) = slot else { return };
            members = inner;
        }
        members.insert(last.clone(), value);
    }
}
