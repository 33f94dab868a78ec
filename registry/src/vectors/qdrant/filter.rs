//! The payload of points, and filters over it. The server evaluates them while it searches, so that a filter
//! leaves as many hits as there are.

use semver::Version;
use serde_json::{Value, json};

use crate::vectors::{IndexPoint, PointFilter};

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadType {
    Keyword,
    Bool,
    Integer,
}

/// The fields for filters, with their types; each has an index of its own.
pub(super) const FIELDS: [(&str, PayloadType); 7] = [
    (DOMAINS, PayloadType::Keyword),
    (PERMISSIONS, PayloadType::Keyword),
    (READ_ONLY, PayloadType::Bool),
    (FORMATS, PayloadType::Keyword),
    (COMPLEXITY, PayloadType::Integer),
    (AUTHORS, PayloadType::Keyword),
    (VERSION, PayloadType::Keyword),
];

const DOMAINS: &str = "domains";
const PERMISSIONS: &str = "permissions";
const READ_ONLY: &str = "read_only";
const FORMATS: &str = "formats";
const COMPLEXITY: &str = "complexity";
const AUTHORS: &str = "authors";
const VERSION: &str = "version";

/// The maximum number of values of a field to choose from. A field has at most one for each point.
pub(super) const MAX_VALUES: usize = 1_000_000;

/// The field with the summary for searches.
pub(super) const CARD: &str = "card";

/// The payload of a point.
pub(super) fn payload(point: &IndexPoint) -> Value {
    json!({
        DOMAINS: point.domains,
        // The whole set is one value.
        PERMISSIONS: json!(point.permissions).to_string(),
        READ_ONLY: point.read_only,
        FORMATS: point.formats,
        COMPLEXITY: point.complexity,
        AUTHORS: point.authors,
        VERSION: point.version,
        CARD: point.card,
    })
}

/// A test of a value of a field.
pub(super) type FieldTest<'f> = Box<dyn Fn(&str) -> bool + Send + Sync + 'f>;

/// A condition on a field.
pub(super) enum FieldCondition<'f> {
    /// The field has one of these values.
    AnyOf(&'static str, Vec<String>),
    /// The field has this value.
    Is(&'static str, bool),
    /// The field has at most this value.
    AtMost(&'static str, u8),
    /// It has a value that passes. The engine lists the values, and this code chooses: [`semver`] decides
    /// about ranges, and permissions are a comparison of sets, which engines do not support. If no value
    /// passes, no point matches.
    Matching(&'static str, FieldTest<'f>),
}

/// The conditions of a filter; all of them must hold.
pub(super) fn to_field_conditions(filter: &PointFilter) -> Vec<FieldCondition<'_>> {
    let mut demands = Vec::new();
    if !filter.domains.is_empty() {
        demands.push(FieldCondition::AnyOf(DOMAINS, filter.domains.clone()));
    }
    if let Some(held) = &filter.held_permissions {
        let may_run = |set: &str| {
            let needed = serde_json::from_str::<Vec<String>>(set);
            needed.is_ok_and(|needed| needed.iter().all(|needed| held.contains(needed)))
        };
        demands.push(FieldCondition::Matching(PERMISSIONS, Box::new(may_run)));
    }
    if filter.read_only {
        demands.push(FieldCondition::Is(READ_ONLY, true));
    }
    if !filter.formats.is_empty() {
        let formats = filter.formats.iter().map(|format| format.as_str().to_owned());
        demands.push(FieldCondition::AnyOf(FORMATS, formats.collect()));
    }
    if let Some(most) = filter.max_complexity {
        demands.push(FieldCondition::AtMost(COMPLEXITY, most));
    }
    if let Some(author) = &filter.author {
        demands.push(FieldCondition::AnyOf(AUTHORS, vec![author.clone()]));
    }
    if let Some(range) = &filter.version {
        let lies_within = |text: &str| Version::parse(text).is_ok_and(|v| range.matches(&v));
        demands.push(FieldCondition::Matching(VERSION, Box::new(lies_within)));
    }
    demands
}
