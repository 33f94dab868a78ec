//! Locations of inputs in a request.

use std::fmt;
use std::str::FromStr;

/// A location in a request. It is written with dots, as guardians see it: `pathParameters.city`,
/// `variables.text`, `arguments.city`, `body`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputLocation {
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

impl InputLocation {
    /// Returns true when a text at this location is left out if it contains an optional parameter without a
    /// value. Elsewhere the parameter becomes `null` inside the text.
    #[must_use]
    pub fn omits_incomplete_text(&self) -> bool {
        matches!(self, Self::Query(_) | Self::Header(_) | Self::Cookie(_))
    }
}

impl fmt::Display for InputLocation {
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

impl FromStr for InputLocation {
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
