//! Strategies by name, by weights, and in lists.

use a2s_api::{SelectionStrategy as Asked, StrategyWeights};

use super::{ABSOLUTE_TERMS, PerAbsoluteTerm, PerTerm, RankingFeatures};
use crate::Error;

/// The maximum number of strategies in a list.
const MAX_STRATEGIES: usize = 8;

/// The presets by name; the first one is the default. `docs/search.md` describes the choice of its weights.
const PRESETS: [(&str, PerTerm); 7] = [
    ("highest_score", [0.78, 0.12, 0.02, 0.02, 0.01, 0.05]),
    ("most_similar", [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ("most_reliable", [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]),
    ("most_used", [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]),
    ("simplest", [0.5, 0.0, 0.0, 0.5, 0.0, 0.0]),
    ("least_privilege", [0.5, 0.0, 0.0, 0.0, 0.5, 0.0]),
    ("healthiest", [0.5, 0.0, 0.0, 0.0, 0.0, 0.5]),
];

const NO_MINIMUM: PerAbsoluteTerm = [0.0; ABSOLUTE_TERMS.len()];

/// The rule that ranks and filters hits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RankStrategy {
    name: String,
    shares: PerTerm,
    minimum: PerAbsoluteTerm,
}

impl RankStrategy {
    /// Returns the name of the preset, or `weights`. In a list, the position comes first.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The weight of each term; together 1.
    pub(super) fn shares(&self) -> &PerTerm {
        &self.shares
    }

    pub(super) fn admits(&self, hit: &RankingFeatures) -> bool {
        hit.absolute_values().iter().zip(&self.minimum).all(|(value, least)| least <= value)
    }

    /// Its minimum values as text: "`success_rate` at least 0.9".
    pub(crate) fn describe_minimum(&self) -> String {
        let demands = ABSOLUTE_TERMS.iter().zip(&self.minimum).filter(|(_, least)| 0.0 < **least);
        let words: Vec<_> =
            demands.map(|(term, least)| format!("`{term}` at least {least}")).collect();
        words.join(" and ")
    }
}

/// Returns the strategies in the order of fallback, at least one.
///
/// # Errors
/// Fails when a preset is unknown, weights or minimum values are not from 0 to 1, all weights are 0, or a
/// list is empty, too long, or inside a list.
pub(crate) fn parse_strategies(asked: Option<&Asked>) -> Result<Vec<RankStrategy>, Error> {
    let Some(asked) = asked else {
        let [(name, weights), ..] = PRESETS;
        return Ok(vec![new_strategy(name.to_owned(), &weights, NO_MINIMUM)]);
    };
    let Asked::Fallback(list) = asked else { return Ok(vec![parse_strategy(asked)?]) };
    if !(1..=MAX_STRATEGIES).contains(&list.len()) {
        return Err(bad_strategy(format!("a list must have 1 to {MAX_STRATEGIES} members")));
    }
    let numbered = list.iter().zip(1..).map(|(asked, place)| {
        let strategy = parse_strategy(asked)?;
        Ok(RankStrategy { name: format!("{place}: {}", strategy.name), ..strategy })
    });
    numbered.collect()
}

fn parse_strategy(asked: &Asked) -> Result<RankStrategy, Error> {
    match asked {
        Asked::Preset(name) => {
            let preset = PRESETS.iter().find(|(preset, _)| preset == name);
            let (name, weights) = preset.ok_or_else(|| Error::UnknownStrategy {
                given: name.chars().take(64).collect(),
                known: PRESETS.map(|(preset, _)| format!("`{preset}`")).join(", "),
            })?;
            Ok(new_strategy((*name).to_owned(), weights, NO_MINIMUM))
        }
        Asked::Weights(weights) => parse_weights(weights),
        Asked::Fallback(_) => Err(bad_strategy("a list must not contain a list")),
    }
}

fn parse_weights(asked: &StrategyWeights) -> Result<RankStrategy, Error> {
    let weights = [
        asked.vector_similarity,
        asked.success_rate,
        asked.usage_count,
        asked.complexity,
        asked.permissions,
        asked.service_health,
    ];
    let is_bad = |number: &f64| !(0.0..=1.0).contains(number);
    if weights.iter().any(is_bad) {
        return Err(bad_strategy("a weight must be a number from 0 to 1"));
    }
    if weights.iter().sum::<f64>() <= 0.0 {
        return Err(bad_strategy("at least one weight must be greater than 0"));
    }
    if asked.minimum.values().any(is_bad) {
        return Err(bad_strategy("`minimum`: a value must be a number from 0 to 1"));
    }
    if let Some(unknown) =
        asked.minimum.keys().find(|name| !ABSOLUTE_TERMS.contains(&name.as_str()))
    {
        let unknown: String = unknown.chars().take(64).collect();
        let known = ABSOLUTE_TERMS.map(|term| format!("`{term}`")).join(", ");
        return Err(bad_strategy(format!(
            "`minimum`: unknown term `{unknown}`; the terms are {known}"
        )));
    }
    let minimum = ABSOLUTE_TERMS.map(|term| asked.minimum.get(term).copied().unwrap_or_default());
    Ok(new_strategy("weights".to_owned(), &weights, minimum))
}

fn new_strategy(name: String, weights: &PerTerm, minimum: PerAbsoluteTerm) -> RankStrategy {
    let sum: f64 = weights.iter().sum();
    RankStrategy { name, shares: weights.map(|weight| weight / sum), minimum }
}

fn bad_strategy(what: impl std::fmt::Display) -> Error {
    Error::BadSearch(format!("`strategy`: {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(asked: Value) -> Result<Vec<RankStrategy>, Error> {
        parse_strategies(Some(&serde_json::from_value(asked).unwrap()))
    }

    #[test]
    fn every_preset_is_a_strategy_and_the_first_one_is_the_default() {
        for (name, weights) in PRESETS {
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}");
            assert_eq!(parse(json!(name)).unwrap()[0].name(), name);
        }
        assert_eq!(parse_strategies(None).unwrap(), parse(json!("highest_score")).unwrap());
    }

    #[test]
    fn in_a_list_each_has_its_place() {
        let list = parse(json!(["most_used", {"complexity": 1}])).unwrap();
        assert_eq!(
            list.iter().map(RankStrategy::name).collect::<Vec<_>>(),
            ["1: most_used", "2: weights"]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            json!("Highest_Score"),
            json!({}),
            json!({"vectorSimilarity": -0.1, "successRate": 1}),
            json!({"vectorSimilarity": 1.1}),
            json!({"vectorSimilarity": 1, "minimum": {"success_rate": 2}}),
            json!({"vectorSimilarity": 1, "minimum": {"successRate": 0.5}}),
            json!({"vectorSimilarity": 1, "minimum": {"relevance": 0.5}}),
            json!([]),
            json!(vec!["most_used"; 9]),
            json!([["most_used"]]),
        ] {
            assert!(parse(bad.clone()).is_err(), "{bad}");
        }
        let nan = StrategyWeights { vector_similarity: f64::NAN, ..StrategyWeights::default() };
        assert!(parse_strategies(Some(&Asked::Weights(nan))).is_err());
    }

    #[test]
    fn demands_are_told_in_words() {
        let asked = json!({"successRate": 1, "minimum": {"similarity": 0.5, "success_rate": 0.9}});
        let demands = parse(asked).unwrap()[0].describe_minimum();
        assert_eq!(demands, "`similarity` at least 0.5 and `success_rate` at least 0.9");
    }
}
