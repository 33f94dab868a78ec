//! The life of a published version: withdrawn, brought back, superseded.

use std::fmt;
use std::str::FromStr;

use super::schema;
use semver::{Version, VersionReq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::{CapabilityRef, YankImpact};
use crate::checksum::Digest;
use crate::display_safe::to_single_line;
use crate::name::CapabilityName;

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

/// A request to deprecate a version, or to undo its deprecation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeprecateRequest {
    /// The reason, or advice: 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub message: Option<String>,
    /// The replacement: `NAME` or `NAME@RANGE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<SuccessorRef>,
    /// True to remove the deprecation. The request then has no message and no successor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// The state of a version after it was yanked, restored or deprecated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LifecycleResponse {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Its checksum.
    pub checksum: Digest,
    /// False when the version was in this state before, so nothing changed.
    pub changed: bool,
    /// Yanked: kept for dependents that pin it, never offered.
    pub yanked: bool,
    /// Its deprecation, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    /// The version that a user without a pin gets from now on; null when all versions are yanked.
    #[schema(value_type = Option<schema::Version>)]
    pub latest: Option<Version>,
    /// The dependents that a yank breaks, changes or leaves alone. Absent for all other actions, and when
    /// there are too many dependents to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<YankImpact>,
}

/// A notice for the users of a version, about it or about a version that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunNotice {
    /// The version.
    pub capability: CapabilityRef,
    /// True when the version is yanked. It runs only because the caller or a document names exactly this
    /// version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub yanked: bool,
    /// The publisher's deprecation of the version, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
}

impl fmt::Display for RunNotice {
    /// Writes `Dogs 1.0.0 was yanked and is deprecated; use Cats instead`, for example.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capability: CapabilityRef { name, version, .. }, yanked, deprecated } = self;
        write!(f, "{name} {version}")?;
        match (yanked, deprecated) {
            (true, Some(deprecated)) => write!(f, " was yanked and is {deprecated}"),
            (true, None) => f.write_str(" was yanked"),
            (false, Some(deprecated)) => write!(f, " is {deprecated}"),
            (false, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_a_name_and_perhaps_a_range() {
        for good in ["GetWeather", "GetWeather@^2", "GetWeather@>=1.2.0, <3"] {
            let successor: SuccessorRef = good.parse().unwrap();
            assert_eq!(successor.to_string().parse(), Ok(successor), "{good}");
        }
        for bad in ["", "@1", "get weather", "GetWeather@", "GetWeather@new", "A@1@2"] {
            assert!(bad.parse::<SuccessorRef>().is_err(), "{bad}");
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
