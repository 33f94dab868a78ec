//! Filters in the words of the engine.

use qdrant_edge::{EdgeShard, FacetRequest, FacetValue, JsonPath, PayloadSchemaType};
use serde_json::{Value, json};

use super::super::filter::{Demand, Kind, MOST_VALUES, Passes, demands};
use super::{Error, Filter, failed, guard};

/// A filter, as the engine takes it.
pub(super) enum Conditions {
    /// Every point will do.
    None,
    /// Those that match.
    Must(qdrant_edge::Filter),
    /// No point will do.
    Never,
}

/// A type of a field in the words of the engine.
pub(super) fn to_type(kind: Kind) -> PayloadSchemaType {
    match kind {
        Kind::Keyword => PayloadSchemaType::Keyword,
        Kind::Bool => PayloadSchemaType::Bool,
        Kind::Integer => PayloadSchemaType::Integer,
    }
}

/// A filter in the words of the engine.
///
/// # Errors
/// When the engine fails.
pub(super) fn to_conditions(shard: &EdgeShard, filter: &Filter) -> Result<Conditions, Error> {
    let mut must: Vec<Value> = Vec::new();
    for demand in demands(filter) {
        must.push(match demand {
            Demand::AnyOf(field, values) => json!({"key": field, "match": {"any": values}}),
            Demand::Is(field, value) => json!({"key": field, "match": {"value": value}}),
            Demand::AtMost(field, most) => json!({"key": field, "range": {"lte": most}}),
            Demand::Passing(field, passes) => {
                let values = values(shard, field, &passes)?;
                if values.is_empty() {
                    return Ok(Conditions::Never);
                }
                json!({"key": field, "match": {"any": values}})
            }
        });
    }
    if must.is_empty() {
        return Ok(Conditions::None);
    }
    serde_json::from_value(json!({"must": must})).map(Conditions::Must).map_err(failed)
}

/// The values that points have in a field, those that pass.
fn values(shard: &EdgeShard, field: &str, passes: &Passes<'_>) -> Result<Vec<String>, Error> {
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
    Ok(values.filter(|value| passes(value)).collect())
}
