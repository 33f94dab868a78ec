//! Strategies by which a search ranks its hits.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// A selection strategy: a preset by name, custom weights (A2S, "Custom Selection Strategies"), or a list
/// of fallback strategies (A2S, "Fallback Strategies").
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Strategy)]
pub enum SelectionStrategy {
    /// `highest_score`, `most_similar`, `most_reliable`, `most_used`, `simplest`, `healthiest` or
    /// `least_privilege`.
    Preset(String),
    /// Custom weights, in the published form of `SelectionStrategy`.
    Weights(StrategyWeights),
    /// Fallback strategies. The first strategy whose `minimum` some capability meets ranks the capabilities
    /// that meet it; the strategies after it decide between equal ones.
    #[schema(value_type = Vec<SingleStrategy>)]
    Fallback(Vec<Self>),
}

/// A strategy in a list: a preset by name, or custom weights.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what a list of strategies may have")]
enum SingleStrategy {
    Preset(String),
    Weights(StrategyWeights),
}

/// The weight of each term of the rank score, 0 to 1; they need not add up to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Weights)]
pub struct StrategyWeights {
    /// The weight of the relevance, which follows from the semantic similarity.
    #[serde(default)]
    pub vector_similarity: f64,
    /// The weight of reliability.
    #[serde(default)]
    pub success_rate: f64,
    /// The weight of popularity.
    #[serde(default)]
    pub usage_count: f64,
    /// The weight of simplicity.
    #[serde(default)]
    pub complexity: f64,
    /// The weight of needing few permissions.
    #[serde(default)]
    pub permissions: f64,
    /// The weight of the current availability of the services.
    #[serde(default)]
    pub service_health: f64,
    /// The minimum value, 0 to 1, of `score`, `similarity` or a term of the explanation but `relevance`:
    /// `{"success_rate": 0.9}`. The strategy does not choose a capability with a lower value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub minimum: BTreeMap<String, f64>,
}

/// Written by hand, so that the message for a typo names the actual mistake.
impl<'de> Deserialize<'de> for SelectionStrategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrategyVisitor)
    }
}

struct StrategyVisitor;

impl<'de> Visitor<'de> for StrategyVisitor {
    type Value = SelectionStrategy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a strategy, weights, or a list of strategies")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<SelectionStrategy, E> {
        Ok(SelectionStrategy::Preset(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SelectionStrategy, A::Error> {
        StrategyWeights::deserialize(MapAccessDeserializer::new(map))
            .map(SelectionStrategy::Weights)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SelectionStrategy, A::Error> {
        let mut strategies = Vec::new();
        while let Some(strategy) = list.next_element()? {
            strategies.push(strategy);
        }
        Ok(SelectionStrategy::Fallback(strategies))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn strategies_are_read_as_they_are_written() {
        for value in [
            json!("most_used"),
            json!({"vectorSimilarity": 0.5, "successRate": 0.5, "usageCount": 0.0, "complexity": 0.0,
                "permissions": 0.0, "serviceHealth": 0.25, "minimum": {"success_rate": 0.5}}),
            json!(["most_reliable", "most_similar"]),
        ] {
            let strategy: SelectionStrategy = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&strategy).unwrap(), value);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |value: Value| {
            serde_json::from_value::<SelectionStrategy>(value).unwrap_err().to_string()
        };
        assert!(refused(json!({"colour": 1})).contains("`colour`"));
        assert!(refused(json!(["most_used", {"usageCount": "much"}])).contains("\"much\""));
        assert!(refused(json!(7)).contains("the name of a strategy"));
    }
}
