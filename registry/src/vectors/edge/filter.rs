//! Filters in the words of the engine.

use qdrant_edge::{EdgeShard, FacetRequest, FacetValue, JsonPath, PayloadSchemaType};
use serde_json::{Value, json};

use super::super::filter::{
    FieldCondition, FieldTest, MAX_VALUES, PayloadType, to_field_conditions,
};
use super::{Error, PointFilter, failed, guard};

/// A filter in the form of the engine.
pub(super) enum EngineFilter {
    /// Every point matches.
    None,
    /// Points that match.
    Must(qdrant_edge::Filter),
    /// No point matches.
    Never,
}

/// Converts the type of a field to the engine's type.
pub(super) fn to_type(kind: PayloadType) -> PayloadSchemaType {
    match kind {
        PayloadType::Keyword => PayloadSchemaType::Keyword,
        PayloadType::Bool => PayloadSchemaType::Bool,
        PayloadType::Integer => PayloadSchemaType::Integer,
    }
}

/// Converts a filter to the engine's form.
///
/// # Errors
/// Fails when the engine fails.
pub(super) fn to_engine_filter(
    shard: &EdgeShard,
    filter: &PointFilter,
) -> Result<EngineFilter, Error> {
    let mut must: Vec<Value> = Vec::new();
    for demand in to_field_conditions(filter) {
        must.push(match demand {
            FieldCondition::AnyOf(field, values) => json!({"key": field, "match": {"any": values}}),
            FieldCondition::Is(field, value) => json!({"key": field, "match": {"value": value}}),
            FieldCondition::AtMost(field, most) => json!({"key": field, "range": {"lte": most}}),
            FieldCondition::Matching(field, passes) => {
                let values = matching_values(shard, field, &passes)?;
                if values.is_empty() {
                    return Ok(EngineFilter::Never);
                }
                json!({"key": field, "match": {"any": values}})
            }
        });
    }
    if must.is_empty() {
        return Ok(EngineFilter::None);
    }
    serde_json::from_value(json!({"must": must})).map(EngineFilter::Must).map_err(failed)
}

/// Returns the values of a field that pass the test.
fn matching_values(
    shard: &EdgeShard,
    field: &str,
    passes: &FieldTest<'_>,
) -> Result<Vec<String>, Error> {
    let request = FacetRequest {
        key: field.parse::<JsonPath>().map_err(|()| failed("malformed field"))?,
        limit: MAX_VALUES,
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
