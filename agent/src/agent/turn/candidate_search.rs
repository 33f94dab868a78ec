//! Candidates from every registry that the guardians let through.

use std::collections::{BTreeSet, VecDeque};

use a2s::{CapabilityName, Digest, InputField};
use a2s_api::{
    AgentEvent, BatchSearchResponse, CapabilityRef, MatchStrength, NearMiss, SearchFilters,
    SearchHit, SearchRequest, SelectionStrategy,
};

use super::AgentTurn;
use super::intent::UserIntent;
use crate::client::Error as ClientError;
use crate::compose::MIN_RELATIVE_SCORE;
use crate::error::Error;
use crate::guard::GuardDenial;

/// The maximum number of near misses when nothing fits.
const MAX_NEAREST: usize = 3;
/// The smallest score of nearly equal candidates, as a share of that of the best one. Of these the one whose
/// inputs the user has given comes first.
const MIN_EQUAL_SCORE: f64 = 0.8;
/// The largest ratio of the odds of two candidates between which the user decides.
const MAX_EQUAL_ODDS: f64 = 1.05;
/// The number of hits of each part among which one for the whole message must be, and its minimum score there.
const NEAR_HITS: usize = 10;
const MIN_NEAR_SCORE: f64 = 0.02;

/// A capability that may fulfil an intent, with its source.
#[derive(Debug, Clone)]
pub(super) struct CandidateCapability {
    /// The index of its source in the agent.
    pub(super) source: usize,
    pub(super) pin: CapabilityRef,
    pub(super) description: String,
    pub(super) parameters: Vec<InputField>,
    /// The probability that it does what the intent asks for.
    pub(super) score: f64,
    pub(super) strength: MatchStrength,
    /// The number of required inputs that the user has not given.
    pub(super) missing: usize,
    /// The words of the user for it, from which a registry may learn; absent when the user has not asked for it.
    pub(super) intent: Option<String>,
}

/// The candidates for one intent, best first, without those that were tried.
#[derive(Debug)]
pub(super) struct SubTask {
    /// The words of the user.
    pub(super) intent: String,
    pub(super) candidates: std::vec::IntoIter<CandidateCapability>,
}

impl CandidateCapability {
    /// Returns true when it is a weak match that the user has not accepted.
    pub(super) fn is_weak(&self, accepted: &[CapabilityRef]) -> bool {
        self.strength == MatchStrength::Weak && !accepted.contains(&self.pin)
    }
}

impl SubTask {
    /// Returns the best two candidates when they fit equally, and strongly.
    pub(super) fn equal_candidates(&self) -> Option<[&CandidateCapability; 2]> {
        let [first, second, ..] = self.candidates.as_slice() else { return None };
        let odds = |choice: &CandidateCapability| choice.score / (1.0 - choice.score);
        let (one, other) = (odds(first), odds(second));
        // Between equal descriptions, there is nothing to choose.
        let are_equal = one.max(other) <= MAX_EQUAL_ODDS * one.min(other)
            && first.missing == second.missing
            && first.description != second.description
            && second.strength == MatchStrength::Strong
            && first.pin.name != second.pin.name;
        are_equal.then_some([first, second])
    }
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct CandidateSearchResult {
    /// The tasks: one for each part of the request for which a capability fits.
    pub(super) tasks: Vec<SubTask>,
    /// The nearest capabilities, when nothing fits.
    pub(super) nearest: Vec<NearMiss>,
    /// The language of the message, when a registry does not know it.
    pub(super) language: Option<String>,
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
            limit: Some(NEAR_HITS.max(self.agent.max_candidates)),
            strategy,
            filters,
            ..SearchRequest::default()
        };
        let answers = self.search_registries(&request).await?;
        let language = find_language(&answers);
        let (mut found, mut nearest) = merge_responses(&intent.intents, answers);
        let near: Vec<_> = found.iter().map(near_identities).collect();
        for hits in &mut found {
            keep_close(hits);
            hits.truncate(self.agent.max_candidates);
        }
        nearest.extend(found.iter_mut().flat_map(remove_contradictions));
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
            let candidates = choices.iter().cloned().map(to_candidate);
            let candidates = candidates.map(|choice| self.to_event_candidate(&choice)).collect();
            (self.emit)(AgentEvent::Found {
                intent: intent.clone(),
                candidates,
                nearest: if choices.is_empty() { nearest.clone() } else { Vec::new() },
                decisions: if at == 0 { guarded.decisions.clone() } else { Vec::new() },
            });
        }
        if let Some(denial) = denial {
            return Ok(Err(denial));
        }
        let mut tasks = split_tasks(&intent.intents, found, &near);
        let today = self.agent.clock.today();
        for (words, choices) in &mut tasks {
            for choice in choices.iter_mut() {
                choice.missing = intent.count_missing(&choice.parameters, today);
                choice.intent = Some(words.clone()).filter(|words| a2s_api::is_intent(words));
            }
            prefer_given_inputs(choices);
        }
        if let Some(preferred) = &intent.preferred {
            move_to_front(&mut tasks, preferred);
        }
        let tasks = tasks.into_iter();
        let tasks =
            tasks.map(|(intent, choices)| SubTask { intent, candidates: choices.into_iter() });
        Ok(Ok(CandidateSearchResult { tasks: tasks.collect(), nearest, language }))
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

/// The language that a registry does not know.
fn find_language(answers: &[(usize, BatchSearchResponse)]) -> Option<String> {
    let mut answers = answers.iter().flat_map(|(_, answers)| &answers.responses);
    answers.find_map(|answer| answer.answer.metadata.language.clone())
}

/// Hits with the index of their registry, best first.
type RankedHits = Vec<(usize, SearchHit)>;

/// Merges the hits of all registries for each intent, and the nearest misses if nothing fits. The hits of
/// each registry keep their order; of the next hits of all registries, the one with the highest score comes
/// first.
fn merge_responses(
    intents: &[String],
    answers: Vec<(usize, BatchSearchResponse)>,
) -> (Vec<RankedHits>, Vec<NearMiss>) {
    let mut found: Vec<Vec<_>> = intents.iter().map(|_| Vec::new()).collect();
    let mut nearest = Vec::new();
    for (source, answers) in answers {
        for (queues, answer) in found.iter_mut().zip(answers.responses) {
            nearest.extend(answer.answer.metadata.nearest);
            // A search that another hit needs was not asked for itself.
            let hits = answer.answer.capabilities.into_iter();
            let hits = hits.filter(|hit| hit.needed_by.is_none()).map(move |hit| (source, hit));
            queues.push(hits.collect::<VecDeque<_>>());
        }
    }
    nearest.sort_by(|one, other| other.score.total_cmp(&one.score));
    nearest.dedup_by(|one, other| one.name == other.name && one.version == other.version);
    nearest.truncate(MAX_NEAREST);
    (found.into_iter().map(merge_hits).collect(), nearest)
}

/// Merges the hits of several registries, without repeated ones.
fn merge_hits(mut queues: Vec<VecDeque<(usize, SearchHit)>>) -> RankedHits {
    let next_score =
        |queue: &VecDeque<(usize, SearchHit)>| queue.front().map_or(-1.0, |(_, hit)| hit.score);
    let mut merged = RankedHits::new();
    let mut seen = BTreeSet::new();
    loop {
        // The first of equal ones.
        let best = queues.iter_mut().rev().max_by(|a, b| next_score(a).total_cmp(&next_score(b)));
        let Some((source, hit)) = best.and_then(VecDeque::pop_front) else { return merged };
        if seen.insert((hit.name.clone(), hit.checksum)) {
            merged.push((source, hit));
        }
    }
}

/// Removes hits with a much lower score than the best one: they are found but not tried.
fn keep_close(hits: &mut RankedHits) {
    let best = hits.iter().map(|(_, hit)| hit.score).fold(0.0, f64::max);
    hits.retain(|(_, hit)| hit.score >= MIN_RELATIVE_SCORE * best);
}

/// Removes hits that do something else than the intent asks for: to delete is not to post. Returns them as
/// near misses.
fn remove_contradictions(hits: &mut RankedHits) -> Vec<NearMiss> {
    let contradicting = hits.extract_if(.., |(_, hit)| hit.contradiction.is_some());
    contradicting.map(|(_, hit)| to_near_miss(hit)).collect()
}

fn to_near_miss(hit: SearchHit) -> NearMiss {
    let SearchHit { name, version, score, similarity, description, .. } = hit;
    NearMiss { name, version, score, similarity, description }
}

/// The name and the checksum of a hit.
type HitIdentity = (CapabilityName, Digest);

fn identity(hit: &SearchHit) -> HitIdentity {
    (hit.name.clone(), hit.checksum)
}

/// The hits that are near an intent.
fn near_identities(hits: &RankedHits) -> BTreeSet<HitIdentity> {
    let near = hits.iter().filter(|(_, hit)| hit.score >= MIN_NEAR_SCORE);
    near.map(|(_, hit)| identity(hit)).collect()
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

/// The tasks, each with its words. One task, when a strong hit for the whole query is also near each part; else
/// a task for each part with hits, or for the whole query if there are no parts. `near` has the near hits
/// of each intent.
fn split_tasks(
    intents: &[String],
    found: Vec<RankedHits>,
    near: &[BTreeSet<HitIdentity>],
) -> Vec<(String, Vec<CandidateCapability>)> {
    let mut found = intents.iter().cloned().zip(found);
    let Some((intent, whole)) = found.next() else { return Vec::new() };
    let parts: Vec<(String, RankedHits)> = found.collect();
    let near_parts = near.get(1..).unwrap_or_default();
    let fits_all = |hit: &SearchHit| {
        let is_strong = parts.is_empty() || hit.strength == MatchStrength::Strong;
        is_strong && near_parts.iter().all(|near| near.contains(&identity(hit)))
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
fn prefer_given_inputs(choices: &mut [CandidateCapability]) {
    let best = choices.iter().map(|choice| choice.score).fold(0.0, f64::max);
    let is_equal = |choice: &&CandidateCapability| choice.score >= MIN_EQUAL_SCORE * best;
    let equal = choices.iter().take_while(is_equal).count();
    choices[..equal].sort_by_key(|choice| choice.missing);
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

pub(super) fn to_candidate((source, hit): (usize, SearchHit)) -> CandidateCapability {
    CandidateCapability {
        source,
        pin: capability_ref(&hit),
        description: hit.description,
        parameters: hit.parameters,
        score: hit.score,
        strength: hit.strength,
        missing: 0,
        intent: None,
    }
}

fn capability_ref(hit: &SearchHit) -> CapabilityRef {
    CapabilityRef { name: hit.name.clone(), version: hit.version.clone(), checksum: hit.checksum }
}

#[cfg(test)]
mod tests;
