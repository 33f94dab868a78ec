//! What points carry, most of it to be chosen by, and conditions on that in the words of Qdrant's
//! own API.
//!
//! The engine evaluates them while it searches, so that a filter leaves as many hits as there are.

use qdrant_edge::{EdgeShard, FacetRequest, FacetValue, JsonPath, PayloadSchemaType};
use semver::Version;
use serde_json::{Value, json};

use super::{Error, Filter, Point, failed, guard};

/// What points are chosen by, and its type; each has an index of its own.
pub(super) const FIELDS: [(&str, PayloadSchemaType); 7] = [
    ("domains", PayloadSchemaType::Keyword),
    ("permissions", PayloadSchemaType::Keyword),
    ("read_only", PayloadSchemaType::Bool),
    ("formats", PayloadSchemaType::Keyword),
    ("complexity", PayloadSchemaType::Integer),
    ("authors", PayloadSchemaType::Keyword),
    ("version", PayloadSchemaType::Keyword),
];

/// The most values of a field that are chosen among; there is one for each point at most.
const MOST_VALUES: usize = 1_000_000;

/// What a point brings along for searches to tell.
pub(super) const CARD: &str = "card";

/// What a point carries.
pub(super) fn payload(point: &Point) -> Value {
    json!({
        "domains": point.domains,
        // The whole set is one value.
        "permissions": json!(point.permissions).to_string(),
        "read_only": point.read_only,
        "formats": point.formats,
        "complexity": point.complexity,
        "authors": point.authors,
        "version": point.version,
        CARD: point.card,
    })
}

/// A filter, as the engine takes it.
pub(super) enum Conditions {
    /// Every point will do.
    None,
    /// Those that match.
    Must(qdrant_edge::Filter),
    /// No point will do.
    Never,
}

/// A filter in the words of the engine.
///
/// # Errors
/// When the engine fails.
pub(super) fn to_conditions(shard: &EdgeShard, filter: &Filter) -> Result<Conditions, Error> {
    // None is a condition that no point fulfils.
    let mut must: Vec<Option<Value>> = Vec::new();
    if !filter.domains.is_empty() {
        must.push(Some(json!({"key": "domains", "match": {"any": filter.domains}})));
    }
    if let Some(held) = &filter.held {
        let may_run = |set: &str| {
            let needed = serde_json::from_str::<Vec<String>>(set);
            needed.is_ok_and(|needed| needed.iter().all(|needed| held.contains(needed)))
        };
        must.push(any_of(shard, "permissions", may_run)?);
    }
    if filter.read_only {
        must.push(Some(json!({"key": "read_only", "match": {"value": true}})));
    }
    if !filter.formats.is_empty() {
        must.push(Some(json!({"key": "formats", "match": {"any": filter.formats}})));
    }
    if let Some(most) = filter.max_complexity {
        must.push(Some(json!({"key": "complexity", "range": {"lte": most}})));
    }
    if let Some(author) = &filter.author {
        must.push(Some(json!({"key": "authors", "match": {"value": author}})));
    }
    if let Some(range) = &filter.version {
        let lies_within = |text: &str| Version::parse(text).is_ok_and(|v| range.matches(&v));
        must.push(any_of(shard, "version", lies_within)?);
    }
    if must.is_empty() {
        return Ok(Conditions::None);
    }
    let Some(must) = must.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok(Conditions::Never);
    };
    serde_json::from_value(json!({"must": must})).map(Conditions::Must).map_err(failed)
}

/// A condition that a field has a value that passes; none when no point has one. The engine tells
/// which values there are, and we choose: what lies in a range is for [`semver`] to say, and what a
/// caller may run is a question of sets, for which the engine has no words.
fn any_of(
    shard: &EdgeShard,
    field: &str,
    passes: impl Fn(&str) -> bool,
) -> Result<Option<Value>, Error> {
    let request = FacetRequest {
        key: field.parse::<JsonPath>().map_err(|()| failed("malformed field"))?,
        limit: MOST_VALUES,
        filter: None,
        exact: false,
    };
    let hits = guard(|| shard.facet(request))?.hits.into_iter();
    let values = hits.filter_map(|hit| match hit.value {
        FacetValue::Keyword(value) => Some(value),
        FacetValue::Int(_) | FacetValue::Uuid(_) | FacetValue::Bool(_) => None,
    });
    let values: Vec<_> = values.filter(|value| passes(value)).collect();
    Ok((!values.is_empty()).then(|| json!({"key": field, "match": {"any": values}})))
}
