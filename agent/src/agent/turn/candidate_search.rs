//! Candidates from every registry that the guardians let through.

use std::collections::BTreeSet;

use a2s::InputField;
use a2s_api::{
    AgentCandidate, AgentEvent, BatchSearchResponse, CapabilityRef, NearMiss, SearchFilters,
    SearchHit, SearchRequest, SelectionStrategy,
};

use a2s_intent::effect::{CapabilityEffects, contradiction, wanted_effect};

use super::AgentTurn;
use super::intent::UserIntent;
use crate::agent::Backend;
use crate::client::Error as ClientError;
use crate::error::Error;
use crate::guard::GuardDenial;

/// The smallest similarity to an intent, as a share of the best one. Hits with less are found but not
/// tried.
const MIN_RELATIVE_SIMILARITY: f64 = 0.6;

/// The maximum number of near misses when nothing fits.
const MAX_NEAREST: usize = 3;
/// The smallest similarity of nearly equal candidates, as a share of that of the best one. Of these the one
/// whose inputs the user has given comes first.
const MIN_EQUAL_SIMILARITY: f64 = 0.9;

/// A capability that may fulfil an intent, with its source.
#[derive(Debug, Clone)]
pub(super) struct CandidateCapability {
    /// The index of its source in the agent.
    pub(super) source: usize,
    pub(super) pin: CapabilityRef,
    pub(super) description: String,
    pub(super) parameters: Vec<InputField>,
    /// The similarity to the intent, 0 to 1.
    pub(super) similarity: f64,
}

/// The candidates for one intent, best first, without those that were tried.
#[derive(Debug)]
pub(super) struct SubTask {
    /// The words of the user.
    pub(super) intent: String,
    pub(super) candidates: std::vec::IntoIter<CandidateCapability>,
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct CandidateSearchResult {
    /// The tasks: one for each part of the request for which a capability fits.
    pub(super) tasks: Vec<SubTask>,
    /// The nearest capabilities, when nothing fits.
    pub(super) nearest: Vec<NearMiss>,
}

impl AgentTurn<'_> {
    /// Searches every registry, and asks the guardians about the results.
    ///
    /// # Errors
    /// Fails when none of the registries responds.
    pub(super) async fn find_candidates(
        &mut self,
        intent: &UserIntent,
        strategy: Option<SelectionStrategy>,
        filters: Option<SearchFilters>,
    ) -> Result<Result<CandidateSearchResult, GuardDenial>, Error> {
        let request = SearchRequest {
            intents: intent.intents.clone(),
            limit: Some(self.agent.max_candidates),
            strategy,
            filters,
            ..SearchRequest::default()
        };
        let answers = self.search_registries(&request).await?;
        let (mut found, mut nearest) = merge_responses(&intent.intents, answers);
        found.iter_mut().for_each(keep_close);
        for (intent, hits) in intent.intents.iter().zip(&mut found) {
            nearest.extend(remove_contradictions(intent, hits));
        }
        nearest.truncate(MAX_NEAREST);
        let hits = distinct_hits(&found);
        let scene = self.guard_context("search");
        let guarded = self.agent.guard.check_search_hits(scene, &intent.query, hits).await;
        let (kept, denial) = match guarded.outcome {
            Ok(kept) => (kept, None),
            Err(denial) => (Vec::new(), Some(denial)),
        };
        for choices in &mut found {
            choices.retain_mut(|(_, hit)| {
                let same = kept.iter().find(|kept| is_same(kept, hit));
                if let Some(kept) = same {
                    hit.description.clone_from(&kept.description);
                }
                same.is_some()
            });
        }
        if denial.is_some() {
            nearest.clear();
        }
        for (at, (intent, choices)) in intent.intents.iter().zip(&found).enumerate() {
            (self.emit)(AgentEvent::Found {
                intent: intent.clone(),
                candidates: choices
                    .iter()
                    .map(|(source, hit)| to_event_candidate(self.agent.backends.get(*source), hit))
                    .collect(),
                nearest: if choices.is_empty() { nearest.clone() } else { Vec::new() },
                decisions: if at == 0 { guarded.decisions.clone() } else { Vec::new() },
            });
        }
        if let Some(denial) = denial {
            return Ok(Err(denial));
        }
        let mut tasks = split_tasks(&intent.intents, found);
        let today = self.agent.clock.today();
        for (_, choices) in &mut tasks {
            prefer_given_inputs(choices, |fields| intent.count_missing(fields, today));
        }
        if let Some(preferred) = &intent.preferred {
            move_to_front(&mut tasks, preferred);
        }
        let tasks = tasks.into_iter();
        let tasks =
            tasks.map(|(intent, choices)| SubTask { intent, candidates: choices.into_iter() });
        Ok(Ok(CandidateSearchResult { tasks: tasks.collect(), nearest }))
    }

    /// Returns the responses of all registries with the index of each registry. It leaves out a registry
    /// that does not respond if another one does.
    async fn search_registries(
        &mut self,
        request: &SearchRequest,
    ) -> Result<Vec<(usize, BatchSearchResponse)>, Error> {
        let asked = self.agent.backends.iter().map(|source| source.registry.search_all(request));
        let answers = futures::future::join_all(asked).await;
        let mut good = Vec::with_capacity(answers.len());
        let mut failed: Option<ClientError> = None;
        for (source, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(answer) => good.push((source, answer)),
                // A search that is refused would be by all of them: the caller has to know why.
                Err(ClientError::Refused { problem }) if problem.status < 500 => {
                    return Err(Error::BadRequest(problem.detail));
                }
                Err(error) => {
                    self.report_degraded(&error);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if good.is_empty() => Err(error.into()),
            _ => Ok(good),
        }
    }
}

/// Hits with the index of their registry, best first.
type RankedHits = Vec<(usize, SearchHit)>;

/// Merges the hits of all registries for each intent, and the nearest misses if nothing fits. Scores of
/// different registries cannot be compared: hits of the same rank are next to each other, the most similar
/// first.
fn merge_responses(
    intents: &[String],
    answers: Vec<(usize, BatchSearchResponse)>,
) -> (Vec<RankedHits>, Vec<NearMiss>) {
    let mut ranked: Vec<Vec<(usize, usize, SearchHit)>> = vec![Vec::new(); intents.len()];
    let mut nearest = Vec::new();
    for (source, answers) in answers {
        for (ranked, answer) in ranked.iter_mut().zip(answers.responses) {
            nearest.extend(answer.answer.metadata.nearest);
            // A search that another hit needs was not asked for itself.
            let hits = answer.answer.capabilities.into_iter();
            let hits = hits.filter(|hit| hit.needed_by.is_none()).enumerate();
            ranked.extend(hits.map(|(rank, hit)| (rank, source, hit)));
        }
    }
    nearest.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
    nearest.dedup_by(|one, other| one.name == other.name && one.version == other.version);
    nearest.truncate(MAX_NEAREST);
    let merged = ranked.into_iter().map(|mut ranked| {
        ranked.sort_by(|(rank, _, hit), (other_rank, _, other)| {
            rank.cmp(other_rank).then(other.similarity.total_cmp(&hit.similarity))
        });
        let mut seen = BTreeSet::new();
        ranked.retain(|(_, _, hit)| seen.insert((hit.name.clone(), hit.checksum)));
        ranked.into_iter().map(|(_, source, hit)| (source, hit)).collect()
    });
    (merged.collect(), nearest)
}

/// Removes hits that are much less similar than the best one.
fn keep_close(hits: &mut RankedHits) {
    let best = hits.iter().map(|(_, hit)| hit.similarity).fold(0.0, f64::max);
    hits.retain(|(_, hit)| hit.similarity >= MIN_RELATIVE_SIMILARITY * best);
}

/// Removes hits that surely do something else than the intent asks for: to delete is not to post. Returns
/// them as near misses.
fn remove_contradictions(intent: &str, hits: &mut RankedHits) -> Vec<NearMiss> {
    let Some(wanted) = wanted_effect(intent) else { return Vec::new() };
    let contradicts = |(_, hit): &mut (usize, SearchHit)| {
        // A hit does not say if it is read-only; then only its verbs count.
        contradiction(wanted, &CapabilityEffects::new(hit.name.as_str(), &hit.description, false))
    };
    hits.extract_if(.., contradicts).map(|(_, hit)| to_near_miss(hit)).collect()
}

fn to_near_miss(hit: SearchHit) -> NearMiss {
    let SearchHit { name, version, similarity, description, .. } = hit;
    NearMiss { name, version, similarity, description }
}

fn is_same(one: &SearchHit, other: &SearchHit) -> bool {
    one.checksum == other.checksum && one.name == other.name
}

fn distinct_hits(found: &[RankedHits]) -> Vec<SearchHit> {
    let mut distinct: Vec<SearchHit> = Vec::new();
    for (_, hit) in found.iter().flatten() {
        if !distinct.iter().any(|known| is_same(known, hit)) {
            distinct.push(hit.clone());
        }
    }
    distinct
}

/// The tasks, each with its words. One task, when a hit for the whole query also fits each part; else a
/// task for each part with hits, or for the whole query if there are no parts.
fn split_tasks(
    intents: &[String],
    found: Vec<RankedHits>,
) -> Vec<(String, Vec<CandidateCapability>)> {
    let mut found = intents.iter().cloned().zip(found);
    let Some((intent, whole)) = found.next() else { return Vec::new() };
    let parts: Vec<(String, RankedHits)> = found.collect();
    let fits_all = |hit: &SearchHit| {
        parts.iter().all(|(_, part)| part.iter().any(|(_, other)| is_same(other, hit)))
    };
    let to_choices = |(intent, hits): (String, RankedHits)| {
        (intent, hits.into_iter().map(to_candidate).collect::<Vec<_>>())
    };
    let all: RankedHits = whole.iter().filter(|(_, hit)| fits_all(hit)).cloned().collect();
    if !all.is_empty() {
        // A capability for one part cannot do the whole.
        return vec![to_choices((intent, all))];
    }
    let parts: Vec<_> = parts.into_iter().filter(|(_, part)| !part.is_empty()).collect();
    match parts.len() {
        0 if whole.is_empty() => Vec::new(),
        0 => vec![to_choices((intent, whole))],
        _ => distinct_parts(parts).into_iter().map(to_choices).collect(),
    }
}

/// Removes a part if an earlier part has the same best capability.
fn distinct_parts(parts: Vec<(String, RankedHits)>) -> Vec<(String, RankedHits)> {
    let mut distinct: Vec<(String, RankedHits)> = Vec::new();
    for (intent, part) in parts {
        let first = part.first().map(|(_, hit)| hit);
        let known = distinct.iter().any(|(_, other)| match (other.first(), first) {
            (Some((_, one)), Some(other)) => is_same(one, other),
            _ => false,
        });
        if !known {
            distinct.push((intent, part));
        }
    }
    distinct
}

/// Sorts the nearly equal candidates at the front by the number of inputs that are missing.
fn prefer_given_inputs(
    choices: &mut [CandidateCapability],
    count_missing: impl Fn(&[InputField]) -> usize,
) {
    let best = choices.iter().map(|choice| choice.similarity).fold(0.0, f64::max);
    let is_equal = |choice: &&CandidateCapability| choice.similarity >= MIN_EQUAL_SIMILARITY * best;
    let equal = choices.iter().take_while(is_equal).count();
    choices[..equal].sort_by_cached_key(|choice| count_missing(&choice.parameters));
}

/// Moves the capability of the question to the front.
fn move_to_front(tasks: &mut [(String, Vec<CandidateCapability>)], preferred: &CapabilityRef) {
    for (_, choices) in tasks {
        if let Some(at) = choices.iter().position(|choice| choice.pin == *preferred) {
            let choice = choices.remove(at);
            choices.insert(0, choice);
            return;
        }
    }
}

fn to_candidate((source, hit): (usize, SearchHit)) -> CandidateCapability {
    CandidateCapability {
        source,
        pin: capability_ref(&hit),
        description: hit.description,
        parameters: hit.parameters,
        similarity: hit.similarity,
    }
}

fn capability_ref(hit: &SearchHit) -> CapabilityRef {
    CapabilityRef { name: hit.name.clone(), version: hit.version.clone(), checksum: hit.checksum }
}

fn to_event_candidate(source: Option<&Backend>, hit: &SearchHit) -> AgentCandidate {
    AgentCandidate {
        capability: capability_ref(hit),
        description: hit.description.clone(),
        score: hit.score,
        registry: source.map_or_else(String::new, |source| source.registry.url().to_string()),
    }
}

#[cfg(test)]
mod tests;
