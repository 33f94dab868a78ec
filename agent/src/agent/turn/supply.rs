//! Supply: another capability finds the inputs that a user did not give, such as the coordinates of a city.
//!
//! A supplier only reads. Its own inputs all come from the sentence, and its outputs have the names of the
//! missing inputs, or are the ids that they take.

use a2s::{CapabilityInterface, CapabilityName, InputField};
use a2s_api::{SearchFilters, SearchRequest};
use a2s_intent::entity::is_id_for;
use a2s_intent::word_similarity::words_of_name;
use serde_json::{Map, Value};

use super::AgentTurn;
use super::candidate_search::{CandidateCapability, to_candidate};
use super::execute_candidate::{AttemptResult, PrepareResult};
use super::intent::UserIntent;
use crate::error::Error;

/// The maximum number of inputs that are looked for.
const MAX_SUPPLIED: usize = 4;
/// The maximum number of capabilities whose outputs are compared.
const MAX_SUPPLIERS: usize = 5;
/// The smallest length of a short form: `lat` for `latitude`.
const MIN_SHORT_FORM: usize = 3;

/// The search for the inputs that a user did not give.
pub(super) struct InputSupply<'a> {
    /// The capability that needs the inputs.
    pub(super) choice: &'a CandidateCapability,
    pub(super) missing: &'a [InputField],
    pub(super) intent: &'a UserIntent,
}

impl InputSupply<'_> {
    /// Returns values for all missing inputs, by the run of a capability that finds them. Empty when
    /// no capability does.
    ///
    /// # Errors
    /// A service that is needed does not respond.
    pub(super) async fn find_values(
        &self,
        turn: &mut AgentTurn<'_>,
    ) -> Result<Map<String, Value>, Error> {
        if self.missing.len() > MAX_SUPPLIED || self.missing.iter().any(|field| field.secret) {
            return Ok(Map::new());
        }
        for supplier in self.find_suppliers(turn).await {
            let runs = turn.record.runs.len();
            let name = supplier.pin.name.clone();
            let PrepareResult::Ready(ready) =
                turn.prepare(supplier, self.intent, &Map::new()).await?
            else {
                continue;
            };
            if ready.action.is_some() {
                continue;
            }
            let AttemptResult::Done = turn.run_candidate(*ready).await? else { break };
            let output = turn.record.runs.get(runs).and_then(|run| run.output.as_ref());
            let Some(Value::Object(output)) = output else { break };
            return Ok(self.read_values(&name, output));
        }
        Ok(Map::new())
    }

    /// Returns the values of all missing inputs from the output of a supplier; none when one is missing there.
    fn read_values(
        &self,
        supplier: &CapabilityName,
        output: &Map<String, Value>,
    ) -> Map<String, Value> {
        let value = |field: &InputField| {
            let (_, value) = output.iter().find(|(name, _)| supplies(supplier, name, field))?;
            Some((field.name.clone(), value.clone()))
        };
        self.missing.iter().map(value).collect::<Option<_>>().unwrap_or_default()
    }

    /// The capabilities whose outputs supply the missing inputs, and whose inputs the sentence gives.
    async fn find_suppliers(&self, turn: &mut AgentTurn<'_>) -> Vec<CandidateCapability> {
        let Self { choice, missing, intent } = *self;
        let Some(source) = turn.agent.backends.get(choice.source) else { return Vec::new() };
        let names: Vec<_> = missing.iter().map(|field| a2s::split_name(&field.name)).collect();
        let request = SearchRequest {
            intent: format!("find the {}", names.join(" and ")),
            limit: Some(MAX_SUPPLIERS),
            filters: Some(SearchFilters { read_only: true, ..SearchFilters::default() }),
            ..SearchRequest::default()
        };
        // Without an answer, the user is asked.
        let Ok(found) = source.registry.search(&request).await else { return Vec::new() };
        let scene = turn.guard_context("supply");
        let guarded = turn.agent.guard.check_search_hits(scene, &intent.query, found.capabilities);
        let Ok(hits) = guarded.await.outcome else { return Vec::new() };
        let today = turn.agent.clock.today();
        let mut suppliers = Vec::new();
        for hit in hits.into_iter().filter(|hit| hit.name != choice.pin.name) {
            let candidate = to_candidate((choice.source, hit));
            let Ok(document) = turn.load_document(source, &candidate).await else { continue };
            let CapabilityInterface { inputs, outputs, .. } = document.interface();
            let is_found = |field: &InputField| {
                outputs.iter().any(|output| supplies(&candidate.pin.name, &output.name, field))
            };
            let known = intent.known_inputs(inputs, today);
            if missing.iter().all(is_found)
                && !known.is_empty()
                && intent.count_missing(inputs, today) == 0
            {
                suppliers.push(candidate);
            }
        }
        suppliers
    }
}

/// Returns true when an output of a supplier is a value for an input: their names mean the same, or the
/// supplier is the search for the entity whose id the input takes.
fn supplies(supplier: &CapabilityName, output: &str, field: &InputField) -> bool {
    is_same_thing(output, &field.name) || is_id_for(supplier.as_str(), output, &field.name)
}

/// Returns true when two names mean the same: they have the same words, or one is a short form.
fn is_same_thing(one: &str, other: &str) -> bool {
    let (one, other) = (words_of_name(one), words_of_name(other));
    match (one.as_slice(), other.as_slice()) {
        ([one], [other]) => {
            let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
            short == long || short.len() >= MIN_SHORT_FORM && long.starts_with(short.as_str())
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_the_same_thing_are_recognized() {
        for (one, other, expected) in [
            ("latitude", "lat", true),
            ("lon", "longitude", true),
            ("country_code", "countryCode", true),
            ("id", "identity", false),
            ("country", "country_code", false),
        ] {
            assert_eq!(is_same_thing(one, other), expected, "{one} {other}");
        }
    }
}
