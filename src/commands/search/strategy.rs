//! Strategies as they are written on the command line: a preset, or terms with their weights.

use a2s_api::{SelectionStrategy, StrategyWeights};

use crate::cli_error::CliError;

const HINT: &str = "Write a preset such as most_reliable, or weights and minimum values of terms: \
                    relevance=0.7,success_rate=0.3,success_rate>=0.9. The terms are relevance, \
                    success_rate, usage, simplicity, permissions and service_health; a minimum \
                    can also be for score and similarity, but not for relevance.";

/// Parses the strategy; several texts are a fallback list, which is tried in order.
pub(in crate::commands) fn parse(texts: &[String]) -> Result<Option<SelectionStrategy>, CliError> {
    let mut strategies = texts.iter().map(|text| parse_one(text));
    match (strategies.next(), texts.len()) {
        (None, _) => Ok(None),
        (Some(only), 1) => only.map(Some),
        (Some(first), _) => {
            let all = std::iter::once(first).chain(strategies);
            Ok(Some(SelectionStrategy::Fallback(all.collect::<Result<_, _>>()?)))
        }
    }
}

fn parse_one(text: &str) -> Result<SelectionStrategy, CliError> {
    // The registry defines the presets.
    if !text.contains('=') {
        return Ok(SelectionStrategy::Preset(text.to_owned()));
    }
    let mut weights = StrategyWeights::default();
    for part in text.split(',') {
        let refused =
            || CliError::invalid_argument(format!("`{part}` is not a term of a strategy"));
        let read = |number: &str| number.trim().parse::<f64>().ok();
        let understood = match part.split_once(">=") {
            Some((term, least)) => read(least).map(|least| {
                weights.minimum.insert(term.trim().to_owned(), least);
            }),
            None => part
                .split_once('=')
                .and_then(|(term, weight)| Some((place(&mut weights, term.trim())?, read(weight)?)))
                .map(|(place, weight)| *place = weight),
        };
        understood.ok_or_else(|| refused().with_hint(HINT))?;
    }
    Ok(SelectionStrategy::Weights(weights))
}

fn place<'w>(weights: &'w mut StrategyWeights, term: &str) -> Option<&'w mut f64> {
    Some(match term {
        "relevance" => &mut weights.vector_similarity,
        "success_rate" => &mut weights.success_rate,
        "usage" => &mut weights.usage_count,
        "simplicity" => &mut weights.complexity,
        "permissions" => &mut weights.permissions,
        "service_health" => &mut weights.service_health,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expected: Value) {
        let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
        let expected: Option<SelectionStrategy> = serde_json::from_value(expected).unwrap();
        assert_eq!(parse(&texts).unwrap(), expected);
    }

    #[test]
    fn strategies_are_read() {
        check(&[], Value::Null);
        check(&["most_used"], json!("most_used"));
        check(
            &["relevance=0.7, success_rate=0.3,success_rate>=0.9"],
            json!({"vectorSimilarity": 0.7, "successRate": 0.3, "minimum": {"success_rate": 0.9}}),
        );
        check(
            &["usage=1,simplicity=1,permissions=1,service_health=1", "simplest"],
            json!([
                {"usageCount": 1, "complexity": 1, "permissions": 1, "serviceHealth": 1},
                "simplest"
            ]),
        );
    }

    #[test]
    fn slips_are_told() {
        for text in
            ["colour=1", "relevance=much", "similarity=1", "relevance=1,", "success_rate>=most"]
        {
            assert!(parse(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
