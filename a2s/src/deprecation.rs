//! The deprecation of a version by its publisher.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use semver::VersionReq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::display_safe::to_single_line;
use crate::name::CapabilityName;
use crate::version_schema;

/// The maximum length of a deprecation on one line. Its message has at most 500 characters.
const MAX_LINE_LENGTH: usize = 700;

/// A publisher's notice that a version should not be used any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Deprecation {
    /// The reason, or advice: 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub message: Option<String>,
    /// The replacement: `NAME` or `NAME@RANGE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<SuccessorRef>,
}

impl fmt::Display for Deprecation {
    /// Writes `deprecated; use GetWeather@^2 instead: the service goes away in May`, for example.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deprecated")?;
        if let Some(successor) = &self.successor {
            write!(f, "; use {successor} instead")?;
        }
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl Deprecation {
    /// Returns the same text on one line, even if the publisher's text has several lines.
    #[must_use]
    pub fn to_single_line(&self) -> String {
        to_single_line(&self.to_string(), MAX_LINE_LENGTH)
    }
}

/// The replacement for a deprecated version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessorRef {
    /// The capability; often the same one.
    pub name: CapabilityName,
    /// The range of acceptable versions; absent when any version is acceptable.
    pub range: Option<VersionReq>,
}

impl fmt::Display for SuccessorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.range {
            Some(range) => write!(f, "{}@{range}", self.name),
            None => self.name.fmt(f),
        }
    }
}

impl FromStr for SuccessorRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, range) = match text.split_once('@') {
            Some((name, range)) => (name, Some(range)),
            None => (text, None),
        };
        let name = CapabilityName::new(name)
            .map_err(|error| format!("`{name}` is not a valid name: {error}"))?;
        let range = range
            .map(|range| {
                range.parse().map_err(|error| format!("`{range}` is not a valid range: {error}"))
            })
            .transpose()?;
        Ok(Self { name, range })
    }
}

impl Serialize for SuccessorRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SuccessorRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for SuccessorRef {
    fn schema() -> RefOr<Schema> {
        let description = "A capability and its acceptable versions; without versions, any version is acceptable.";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(description))
            .pattern(Some(format!("^[A-Z][A-Za-z0-9]*(@{})?$", version_schema::range())))
            .examples(["GetWeather", "GetWeather@^2"])
            .into()
    }
}

impl ToSchema for SuccessorRef {
    fn name() -> Cow<'static, str> {
        "Successor".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_a_name_and_perhaps_a_range() {
        let schema = serde_json::to_value(SuccessorRef::schema()).unwrap();
        let described = jsonschema::validator_for(&schema).unwrap();
        for good in ["GetWeather", "GetWeather@^2", "GetWeather@>=1.2.0, <3", "GetWeather@*"] {
            assert!(described.is_valid(&good.into()), "{good}");
            let successor: SuccessorRef = good.parse().unwrap();
            assert_eq!(successor.to_string().parse(), Ok(successor), "{good}");
        }
        for bad in [
            "",
            "@1",
            "get weather",
            "GetWeather@",
            "GetWeather@new",
            "A@1@2",
            "VEL735oBK4@\u{1f3fb}",
        ] {
            assert!(bad.parse::<SuccessorRef>().is_err(), "{bad}");
            assert!(!described.is_valid(&bad.into()), "{bad}");
        }
    }

    #[test]
    fn a_deprecation_reads_as_a_sentence() {
        let successor = "GetWeather@^2".parse().ok();
        let message = Some("the service ends in May".to_owned());
        let line = Deprecation { message, successor }.to_string();
        assert_eq!(line, "deprecated; use GetWeather@^2 instead: the service ends in May");
        assert_eq!(Deprecation::default().to_string(), "deprecated");
    }
}
