//! Inputs and outputs of a step.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use serde_json::Value;

use crate::query::Query;
use crate::template::Template;

/// What fills a task, each value at its place.
pub type TaskInputs = IndexMap<Place, Template>;

/// A place in a request. Written with dots, as a guardian sees it: `pathParameters.city`,
/// `variables.text`, `arguments.city`, `body`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A path parameter of an OpenAPI operation.
    Path(String),
    /// A query parameter of an OpenAPI operation.
    Query(String),
    /// A header parameter of an OpenAPI operation.
    Header(String),
    /// A cookie parameter of an OpenAPI operation.
    Cookie(String),
    /// The request body of an OpenAPI operation.
    Body,
    /// A variable of a GraphQL operation.
    Variable(String),
    /// An argument of an MCP tool.
    Argument(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name) => write!(f, "pathParameters.{name}"),
            Self::Query(name) => write!(f, "queryParameters.{name}"),
            Self::Header(name) => write!(f, "headerParameters.{name}"),
            Self::Cookie(name) => write!(f, "cookieParameters.{name}"),
            Self::Body => f.write_str("body"),
            Self::Variable(name) => write!(f, "variables.{name}"),
            Self::Argument(name) => write!(f, "arguments.{name}"),
        }
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "body" {
            return Ok(Self::Body);
        }
        let (group, name) = text.split_once('.').ok_or(())?;
        let name = name.to_owned();
        match group {
            "pathParameters" => Ok(Self::Path(name)),
            "queryParameters" => Ok(Self::Query(name)),
            "headerParameters" => Ok(Self::Header(name)),
            "cookieParameters" => Ok(Self::Cookie(name)),
            "variables" => Ok(Self::Variable(name)),
            "arguments" => Ok(Self::Argument(name)),
            _ => Err(()),
        }
    }
}

/// A value that a step takes from its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The variable and, for a dotted name, the members below it: `notification_ids.sms`.
    pub name: Vec<String>,
    /// Where the value stands in the answer.
    pub source: OutputSource,
    /// The value when there is none in the answer; without it, that fails the step (1.1).
    pub default: Option<Value>,
}

/// The part of an answer that holds a value.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputSource {
    /// The body: of an OpenAPI task its value, of a GraphQL task the whole response, of an
    /// MCP task what the tool gives, of a capability its result.
    Body(Query),
    /// The first header of this name, as text (1.1).
    Header(String),
    /// The HTTP status, as a number (1.1).
    Status,
}

impl Output {
    /// The name with dots.
    #[must_use]
    pub fn dotted(&self) -> String {
        self.name.join(".")
    }

    /// The variable that it sets, or sets a member of.
    #[must_use]
    pub fn variable(&self) -> &str {
        self.name.first().map_or("", String::as_str)
    }

    /// Sets this output in `variables`. Members of a dotted name are made where they are missing;
    /// a value in their way that is not an object is replaced.
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
