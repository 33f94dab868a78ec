//! Search by intent.

mod cursor;
mod findability;
mod language;
mod request;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use a2s::{CapabilityName, Permission};
use a2s_api::{
    BatchSearchResponse, IntentSearchResponse, MatchStrength, NearMiss, NeededBy, SearchCounts,
    SearchHit, SearchLevel, SearchMetadata, SearchMode, SearchRequest, SearchResponse,
    ServiceSearchResponse,
};
use a2s_intent::effect::{CapabilityEffects, Effect, contradiction, wanted_effect};
use a2s_intent::{UnderstoodInputs, understand_inputs};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;

use self::cursor::MAX_WALK_HITS;
use self::language::foreign_language;
use self::request::ValidSearch;
use super::prerequisite_searches::find_prerequisite_searches;
use crate::documents::{DocumentReader, HitSummary};
use crate::embed::SentenceVector;
use crate::embedding_service::{DegradedReason, EmbeddingService, IntentProbes};
use crate::host_health::HostHealthTracker;
use crate::index::IndexerHandle;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::{Metrics, SearchLabels, SearchResult};
use crate::rank::{self, RankStrategy, RankedChoice, RankingFeatures};
use crate::retrieval::{
    CANDIDATE_LIMIT, DEMANDING_HITS, FusedCandidate, IntentTexts, Prerequisite, SERVICE_LIMIT,
    STRONG_SCORE, fuse, lift_prerequisites, lift_services, lower_contradictions,
};
use crate::search_counts::{CountedSearch, SearchCounter};
use crate::store::{CapabilityId, RegistryStore, VersionEntry, VersionId};
use crate::vectors::{self, PointFilter, QueryResults, VectorHit, VectorIndex};
use crate::{Clock, Error};

/// The most near misses in a response without hits.
const MAX_NEAREST: usize = 3;

/// The response to a search. Its form depends on the request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AnySearchResponse {
    /// The response to a request with `intent`.
    One(SearchResponse),
    /// The response to a request with `intents`.
    Several(BatchSearchResponse),
    /// The response to a request with `level: services`.
    Services(ServiceSearchResponse),
}

/// The candidates for an intent, before their history and documents are read.
struct SearchCandidates {
    /// The candidates that fit, best first.
    fitting: Vec<FusedCandidate>,
    rest: Vec<FusedCandidate>,
    /// The candidates that others need.
    prerequisites: Vec<Prerequisite>,
    /// The effect that the intent asks for.
    wanted: Option<Effect>,
    /// The language that the built-in embedder does not know, when nothing fits.
    language: Option<String>,
    mode: Option<SearchMode>,
    /// The reason for a search by words alone, if it was one.
    degraded: Option<DegradedReason>,
}

/// The name and the summary of a capability.
type NamedSummary = (CapabilityName, Arc<HitSummary>);

/// The rules by which the documents of candidates count.
struct DocumentRules {
    /// The effect that the intent asks for.
    wanted: Option<Effect>,
    counts_services: bool,
    /// Set when the search is filtered: then prerequisites must be candidates, because the index alone knows
    /// the filter.
    is_filtered: bool,
}

impl DocumentRules {
    /// The number of candidates whose documents are needed. A document is read for each of them.
    fn document_count(&self) -> usize {
        let needs_all = self.counts_services || self.wanted.is_some();
        if needs_all { SERVICE_LIMIT } else { DEMANDING_HITS }
    }
}

/// A candidate with its ranking.
struct RankedHit {
    entry: Arc<VersionEntry>,
    contradicts: bool,
    /// The hit that needs this one.
    needed_by: Option<NeededBy>,
    merits: RankingFeatures,
    chosen: RankedChoice,
}

/// The candidates that a strategy has chosen for an intent, the best first.
struct RankedList<'s> {
    strategy: &'s RankStrategy,
    ranked: Vec<RankedHit>,
}

/// The facts about an intent that its hits depend on.
struct IntentFacts<'s> {
    intent: &'s str,
    /// The effect that it asks for.
    wanted: Option<Effect>,
    today: Date,
    strategy: &'s RankStrategy,
}

/// A page of hits.
struct HitPage {
    hits: Vec<SearchHit>,
    /// The capabilities of the hits.
    capabilities: Vec<CapabilityId>,
    /// The number of candidates that were left out: their documents are damaged, or they do not pass a
    /// filter any more.
    dropped: usize,
    /// Set when more candidates are left.
    has_more: bool,
}

/// The search for capabilities.
pub(crate) struct SearchService {
    pub(crate) store: Arc<dyn RegistryStore>,
    pub(crate) documents: Arc<DocumentReader>,
    pub(crate) live_versions: Arc<LiveVersionCache>,
    pub(crate) vectors: Arc<dyn VectorIndex>,
    pub(crate) index: Arc<IndexerHandle>,
    pub(crate) embedding_service: Arc<EmbeddingService>,
    pub(crate) host_health: Arc<HostHealthTracker>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) counter: SearchCounter,
    /// The time that a search right after the start waits for the index.
    pub(crate) index_wait: Duration,
    /// The identity of the store. It marks cursors, so that those of another store are recognised.
    pub(crate) identity: String,
}

impl SearchService {
    /// Finds the capabilities that fit an intent, or each of several, best first. None when nothing is
    /// close enough; then the response names the nearest ones.
    ///
    /// # Errors
    /// When the request is not valid, or the index is not ready.
    pub(crate) async fn search(&self, request: &SearchRequest) -> Result<AnySearchResponse, Error> {
        let started = (self.clock)();
        let asked = ValidSearch::from_request(request, &self.identity)?;
        if !self.index.is_ready()
            && let Err(error @ (vectors::Error::Unavailable(_) | vectors::Error::Unusable(_))) =
                self.vectors.current_reader()
        {
            // Its recovery time is unknown.
            return Err(error.into());
        }
        if !self.index.wait_until_ready(self.index_wait).await {
            return Err(Error::IndexNotReady);
        }
        let reply = match (request.level, request.intents.as_slice()) {
            (Some(SearchLevel::Services), _) => {
                AnySearchResponse::Services(self.find_services(&asked, started).await?)
            }
            (Some(SearchLevel::Capabilities) | None, []) => {
                let answers = self.answer_intents(request, &asked, started).await?;
                AnySearchResponse::One(answers.into_iter().next().ok_or_else(missing_answer_error)?)
            }
            (Some(SearchLevel::Capabilities) | None, intents) => {
                let answers = self.answer_intents(request, &asked, started).await?;
                let answers = intents.iter().zip(answers).map(|(intent, answer)| {
                    IntentSearchResponse { intent: intent.clone(), answer }
                });
                AnySearchResponse::Several(BatchSearchResponse { responses: answers.collect() })
            }
        };
        self.count_search(&reply);
        self.metrics.search_seconds.observe(self.milliseconds_since(started) / 1000.0);
        Ok(reply)
    }

    /// Returns the response to each intent.
    async fn answer_intents(
        &self,
        request: &SearchRequest,
        asked: &ValidSearch<'_>,
        started: Timestamp,
    ) -> Result<Vec<SearchResponse>, Error> {
        let wanted = asked.previous_hits.len() + asked.page_size();
        let mut breadth = if wanted <= CANDIDATE_LIMIT { CANDIDATE_LIMIT } else { MAX_WALK_HITS };
        loop {
            let found = self.query_index(asked, breadth).await?;
            let ranked = self.rank_candidates(&found, &asked.strategies, breadth, started).await?;
            let mut answers = Vec::with_capacity(found.len());
            let mut is_short = false;
            for ((intent, found), ranking) in asked.intents.iter().zip(&found).zip(ranked) {
                let RankedList { strategy, ranked } = ranking;
                let unranked = found.fitting.len().min(breadth) - ranked.len();
                let facts = IntentFacts {
                    intent,
                    wanted: found.wanted,
                    today: started.to_zoned(TimeZone::UTC).date(),
                    strategy,
                };
                let page = self.build_page(ranked, &facts, asked).await?;
                let behind = found.fitting.iter().skip(breadth);
                let has_behind =
                    behind.into_iter().any(|candidate| asked.is_new(candidate.capability));
                is_short |= has_behind && page.hits.len() < asked.page_size();
                let given: Vec<_> =
                    asked.previous_hits.iter().chain(&page.capabilities).copied().collect();
                let has_more = (page.has_more || has_behind) && given.len() < MAX_WALK_HITS;
                let next = (has_more && !page.capabilities.is_empty()).then(|| {
                    cursor::encode(
                        &request::to_cursor_query(request, intent, &self.identity),
                        &given,
                    )
                });
                let is_nothing = page.hits.is_empty() && asked.previous_hits.is_empty();
                let total = found.fitting.len().saturating_sub(unranked + page.dropped);
                let metadata =
                    self.build_metadata(total, is_nothing, found, strategy, started).await?;
                answers.push(SearchResponse { capabilities: page.hits, next, metadata });
            }
            if !is_short || breadth == MAX_WALK_HITS {
                return Ok(answers);
            }
            // So many of the nearest hits dropped out that they are less than a page, and more hits
            // fit after them.
            breadth = MAX_WALK_HITS;
        }
    }

    async fn find_services(
        &self,
        asked: &ValidSearch<'_>,
        started: Timestamp,
    ) -> Result<ServiceSearchResponse, Error> {
        let found = self.query_index(asked, CANDIDATE_LIMIT).await?;
        let ranked =
            self.rank_candidates(&found, &asked.strategies, CANDIDATE_LIMIT, started).await?;
        let (found, ranking) = found.iter().zip(ranked).next().ok_or_else(missing_answer_error)?;
        let RankedList { strategy, ranked } = ranking;
        let (services, total_matches) =
            self.rank_services(&ranked, &asked.filter, asked.limit).await?;
        let is_nothing = services.is_empty();
        let metadata =
            self.build_metadata(total_matches, is_nothing, found, strategy, started).await?;
        Ok(ServiceSearchResponse { services, metadata })
    }

    fn milliseconds_since(&self, started: Timestamp) -> f64 {
        (self.clock)().duration_since(started).as_secs_f64() * 1000.0
    }

    /// Queries the index for all intents at once.
    async fn query_index(
        &self,
        asked: &ValidSearch<'_>,
        breadth: usize,
    ) -> Result<Vec<SearchCandidates>, Error> {
        let texts: Vec<_> = asked.intents.iter().map(|intent| IntentTexts::split(intent)).collect();
        // One index from here on: its embedder is the one that the query needs.
        let index = self.vectors.current_reader()?;
        let embeddings = &self.embedding_service;
        let (intents, degraded) = embeddings.embed_intents(&texts, index.identity()).await;
        let probes = intents.iter().flat_map(|intent| &intent.probes);
        let queries = probes.map(|probe| probe.query.clone()).collect();
        let QueryResults { found, matching_points: among } =
            index.query(queries, asked.filter.clone(), breadth).await?;
        let sentences = self.load_sentences(&intents, &found).await?;
        let mut found = found.into_iter();
        let mut candidates = Vec::with_capacity(intents.len());
        for (IntentProbes { probes, mode }, intent) in intents.into_iter().zip(&asked.intents) {
            let compared = probes.iter().zip(found.by_ref()).map(|(probe, hits)| {
                probe.compare(hits, |capability| sentences.get(&capability).map(AsRef::as_ref))
            });
            let compared: Vec<_> = compared.collect();
            let scales = embeddings.fusion_scales(index.identity(), mode, among);
            let mut fused = fuse(&compared, &scales);
            let wanted = wanted_effect(intent);
            let rules = DocumentRules {
                wanted,
                counts_services: scales.counts_services(),
                is_filtered: asked.filter != PointFilter::default(),
            };
            let prerequisites = self.apply_documents(&mut fused, &rules, None).await?;
            let (fitting, rest): (Vec<_>, Vec<_>) =
                fused.into_iter().partition(|candidate| candidate.fits);
            let is_lost = fitting.is_empty() && mode.is_some();
            let language = is_lost.then(|| foreign_language(intent)).flatten();
            candidates.push(SearchCandidates {
                fitting,
                rest,
                prerequisites,
                wanted,
                language,
                mode,
                degraded,
            });
        }
        Ok(candidates)
    }

    /// The sentence encoder's vectors of what the index found, when it has read an intent.
    async fn load_sentences(
        &self,
        intents: &[IntentProbes],
        found: &[Vec<VectorHit>],
    ) -> Result<BTreeMap<CapabilityId, Arc<SentenceVector>>, Error> {
        let is_read = intents.iter().any(|intent| intent.mode == Some(SearchMode::Quality));
        let sentences = self.embedding_service.sentences_of(self.embedding_service.built_in());
        let Some(sentences) = sentences.filter(|_| is_read) else { return Ok(BTreeMap::new()) };
        let ids: BTreeSet<_> = found.iter().flatten().map(|hit| hit.capability).collect();
        let entries = self.live_versions.load(ids).await?;
        let digests: Vec<_> = entries.values().map(|entry| entry.digest).collect();
        let vectors = sentences.load(&digests).await?;
        let of_entry = |(id, entry): (&CapabilityId, &Arc<VersionEntry>)| {
            Some((*id, Arc::clone(vectors.get(&entry.digest)?)))
        };
        Ok(entries.iter().filter_map(of_entry).collect())
    }

    /// Applies what the documents of the best candidates say: their services count, one that does something
    /// else than the wanted effect comes after others, and the best bring what they need first. `own` is the
    /// summary of a document that takes the place of a capability's published one.
    async fn apply_documents(
        &self,
        candidates: &mut Vec<FusedCandidate>,
        rules: &DocumentRules,
        own: Option<(CapabilityId, NamedSummary)>,
    ) -> Result<Vec<Prerequisite>, Error> {
        // Documents never raise the best score.
        if !candidates.iter().any(|candidate| candidate.fits) {
            return Ok(Vec::new());
        }
        let own_id = own.as_ref().map(|(id, _)| *id);
        let ids = candidates.iter().take(rules.document_count()).map(|c| c.capability);
        let mut summaries = self.load_named_summaries(ids.filter(|id| Some(*id) != own_id)).await?;
        summaries.extend(own);
        if rules.counts_services {
            lift_services(candidates, |id| match summaries.get(&id) {
                Some((_, summary)) => summary.domains.iter().collect(),
                None => Vec::new(),
            });
        }
        if let Some(wanted) = rules.wanted {
            lower_contradictions(candidates, |id| {
                summaries.get(&id).is_some_and(|(name, summary)| {
                    contradiction(wanted, &effects_of(name, summary))
                })
            });
        }
        let mut needed = BTreeMap::new();
        for candidate in candidates.iter().take(DEMANDING_HITS).filter(|hit| hit.fits) {
            let Some((name, summary)) = summaries.get(&candidate.capability) else { continue };
            let HitSummary { domains, parameters, .. } = summary.as_ref();
            let searches =
                find_prerequisite_searches(&*self.store, name, domains, parameters).await?;
            let searches = searches.into_iter().map(|(entry, input)| (entry.capability, input));
            needed.insert(candidate.capability, searches.collect::<Vec<_>>());
        }
        if rules.is_filtered {
            let known: BTreeSet<_> = candidates.iter().map(|known| known.capability).collect();
            needed.values_mut().for_each(|searches| searches.retain(|(id, _)| known.contains(id)));
        }
        Ok(lift_prerequisites(candidates, |id| needed.get(&id).cloned().unwrap_or_default()))
    }

    /// The names and summaries of capabilities. A damaged one has none.
    async fn load_named_summaries(
        &self,
        ids: impl IntoIterator<Item = CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, NamedSummary>, Error> {
        let entries = self.live_versions.load(ids).await?;
        let listed: Vec<_> = entries.values().map(AsRef::as_ref).collect();
        let summaries = self.load_ranking_summaries(&listed).await?;
        let named = entries
            .iter()
            .zip(summaries)
            .filter_map(|((id, entry), summary)| Some((*id, (entry.name.clone(), summary?))));
        Ok(named.collect())
    }

    /// Ranks the candidates of each intent with the first strategy that admits a candidate. Leaves out
    /// candidates that the store does not have. When no strategy admits a candidate, the list is empty and
    /// names the last strategy.
    async fn rank_candidates<'s>(
        &self,
        found: &[SearchCandidates],
        strategies: &'s [RankStrategy],
        breadth: usize,
        now: Timestamp,
    ) -> Result<Vec<RankedList<'s>>, Error> {
        let candidates = |found: &'_ SearchCandidates| {
            found.fitting.iter().take(breadth).copied().collect::<Vec<_>>()
        };
        let ids: BTreeSet<_> =
            found.iter().flat_map(candidates).map(|candidate| candidate.capability).collect();
        let heads = self.live_versions.load(ids).await?;
        let health = self.find_service_health(heads.values().map(AsRef::as_ref), now).await?;
        let rank_one = |found: &SearchCandidates| {
            let known: Vec<_> = candidates(found)
                .into_iter()
                .filter_map(|candidate| Some((candidate, heads.get(&candidate.capability)?)))
                .collect();
            let merits: Vec<_> = known
                .iter()
                .map(|(candidate, entry)| RankingFeatures {
                    relevance: candidate.relevance,
                    score: candidate.score(),
                    similarity: candidate.similarity,
                    runs: entry.stats.weight_at(now),
                    complexity: entry.complexity,
                    permissions: entry.permissions,
                    health: health.get(&entry.id).copied().unwrap_or(1.0),
                })
                .collect();
            let (place, chosen) = rank::choose_strategy(&merits, strategies)
                .unwrap_or_else(|| (strategies.len().saturating_sub(1), Vec::new()));
            let to_ranked = |chosen: RankedChoice| {
                let (candidate, entry) = *known.get(chosen.index)?;
                let merits = *merits.get(chosen.index)?;
                let needed = found.prerequisites.iter();
                let mut needed = needed.filter(|p| p.capability == candidate.capability);
                let needed_by = needed.find_map(|p| {
                    let name = heads.get(&p.needed_by)?.name.clone();
                    Some(NeededBy { name, input: p.input.clone() })
                });
                let entry = Arc::clone(entry);
                let contradicts = candidate.contradicts;
                Some(RankedHit { entry, contradicts, needed_by, merits, chosen })
            };
            let mut ranked: Vec<_> = chosen.into_iter().filter_map(to_ranked).collect();
            // Ties are broken by meaning, then by name, so that an answer can be repeated.
            ranked.sort_by(|a, b| {
                a.chosen
                    .compare(&b.chosen)
                    .then_with(|| b.merits.similarity.total_cmp(&a.merits.similarity))
                    .then_with(|| a.entry.name.cmp(&b.entry.name))
            });
            // There is one at least.
            let strategy = strategies.get(place).ok_or_else(missing_answer_error)?;
            Ok(RankedList { strategy, ranked })
        };
        found.iter().map(rank_one).collect()
    }

    /// The health of the services of capabilities, for those that are not healthy.
    async fn find_service_health<'e>(
        &self,
        entries: impl Iterator<Item = &'e VersionEntry>,
        now: Timestamp,
    ) -> Result<BTreeMap<VersionId, f64>, Error> {
        let unhealthy = self.host_health.unhealthy_hosts(now.as_millisecond());
        if unhealthy.is_empty() {
            return Ok(BTreeMap::new());
        }
        let entries: Vec<_> = entries.collect();
        let summaries = self.load_ranking_summaries(&entries).await?;
        let healths = entries.iter().zip(summaries).filter_map(|(entry, summary)| {
            Some((entry.id, unhealthy.worst_health(&summary?.domains)))
        });
        Ok(healths.collect())
    }

    /// Builds the next page: the best candidates that are not on earlier pages and that may be offered.
    async fn build_page(
        &self,
        ranked: Vec<RankedHit>,
        facts: &IntentFacts<'_>,
        asked: &ValidSearch<'_>,
    ) -> Result<HitPage, Error> {
        let limit = asked.page_size();
        let is_new = |ranked: &RankedHit| asked.is_new(ranked.entry.capability);
        let mut waiting = ranked.into_iter().filter(is_new);
        let (mut hits, mut given, mut dropped) = (Vec::with_capacity(limit), Vec::new(), 0);
        // Some drop out, and the next ones take their places.
        while hits.len() < limit {
            let batch: Vec<_> = waiting.by_ref().take(limit - hits.len()).collect();
            if batch.is_empty() {
                break;
            }
            let summaries = self.load_offered_summaries(&batch, &asked.filter).await?;
            for (ranked, summary) in batch.iter().zip(summaries) {
                match summary {
                    Some(summary) => {
                        given.push(ranked.entry.capability);
                        hits.push(to_hit(ranked, facts, &summary));
                    }
                    None => dropped += 1,
                }
            }
        }
        Ok(HitPage { hits, capabilities: given, dropped, has_more: waiting.next().is_some() })
    }

    /// The summaries of candidates. None for a damaged document, and none for a document that does not pass
    /// a filter any more: the index may lag the store a little, but a hit must be current.
    async fn load_offered_summaries(
        &self,
        ranked: &[RankedHit],
        filter: &PointFilter,
    ) -> Result<Vec<Option<Arc<HitSummary>>>, Error> {
        let entries: Vec<_> = ranked.iter().map(|ranked| ranked.entry.as_ref()).collect();
        let held = filter.held_permissions.as_ref();
        let may_run = |summary: &HitSummary| {
            let holds = |needed: &Permission| {
                held.is_none_or(|held| held.iter().any(|held| held == needed.as_str()))
            };
            summary.permissions.iter().all(holds) && (summary.read_only || !filter.read_only)
        };
        let summaries = self.load_summaries(&entries).await?;
        Ok(summaries
            .into_iter()
            .map(|summary| summary.filter(|summary| may_run(summary)))
            .collect())
    }

    async fn load_summaries(
        &self,
        entries: &[&VersionEntry],
    ) -> Result<Vec<Option<Arc<HitSummary>>>, Error> {
        self.documents.load_summaries(entries, &*self.vectors.current_reader()?).await
    }

    /// The same to compare candidates: see [`crate::documents::DocumentReader::load_ranking_summaries`].
    async fn load_ranking_summaries(
        &self,
        entries: &[&VersionEntry],
    ) -> Result<Vec<Option<Arc<HitSummary>>>, Error> {
        self.documents.load_ranking_summaries(entries, &*self.vectors.current_reader()?).await
    }

    /// The nearest candidates that do not fit, the nearest first. Used when nothing fits.
    async fn find_nearest(&self, rest: &[FusedCandidate]) -> Result<Vec<NearMiss>, Error> {
        let mut rest = rest.to_vec();
        rest.sort_by(|a, b| b.score().total_cmp(&a.score()));
        // A few more than are named, in case of damaged ones.
        rest.truncate(2 * MAX_NEAREST);
        let entries =
            self.live_versions.load(rest.iter().map(|candidate| candidate.capability)).await?;
        let entries: Vec<_> = entries.values().map(AsRef::as_ref).collect();
        let summaries = self.load_summaries(&entries).await?;
        let named = rest.iter().filter_map(|candidate| {
            let mut of_all = entries.iter().zip(&summaries);
            let (entry, summary) = of_all.find(|(e, _)| e.capability == candidate.capability)?;
            Some(NearMiss {
                name: entry.name.clone(),
                version: entry.version.clone(),
                score: candidate.score(),
                similarity: candidate.similarity,
                description: summary.as_ref()?.description.clone(),
            })
        });
        Ok(named.take(MAX_NEAREST).collect())
    }

    /// The metadata of a response. If nothing fits, it names the nearest candidates.
    async fn build_metadata(
        &self,
        total_matches: usize,
        is_nothing: bool,
        found: &SearchCandidates,
        strategy: &RankStrategy,
        started: Timestamp,
    ) -> Result<SearchMetadata, Error> {
        let (fit, demands) = (found.fitting.len(), strategy.describe_minimum());
        let is_unmet = is_nothing && fit != 0 && !demands.is_empty();
        let is_too_far = is_nothing && !is_unmet;
        let nearest = if is_too_far { self.find_nearest(&found.rest).await? } else { Vec::new() };
        let best = found.rest.first().filter(|_| is_too_far && !nearest.is_empty());
        let needed_score = best.map(|best| best.evidence.minimum());
        let message = match (is_nothing, is_unmet) {
            (false, _) => None,
            (true, true) => {
                Some(format!("{fit} capabilities match, but the strategy requires {demands}"))
            }
            (true, false) => {
                Some(describe_no_match(&nearest, needed_score, found.language.as_deref()))
            }
        };
        let strategy = Some(strategy.name().to_owned());
        let search_time_ms = self.milliseconds_since(started);
        let degraded = found.degraded.map(|degraded| degraded.text().to_owned());
        Ok(SearchMetadata {
            total_matches,
            search_time_ms,
            strategy,
            message,
            nearest,
            language: found.language.clone(),
            needed_score,
            mode: found.mode,
            degraded,
        })
    }

    fn count_search(&self, reply: &AnySearchResponse) {
        let one = |metadata: &SearchMetadata, best: Option<MatchStrength>| {
            let fits = metadata.message.is_none();
            let result = if fits { SearchResult::hits } else { SearchResult::nothing_fits };
            self.metrics.searches.get_or_create(&SearchLabels { result }).inc();
            self.metrics.degraded_searches.inc_by(u64::from(metadata.degraded.is_some()));
            let counted = match best {
                _ if !fits => CountedSearch::WithoutHit,
                Some(MatchStrength::Weak) => CountedSearch::Weak,
                Some(MatchStrength::Strong) | None => CountedSearch::Strong,
            };
            self.counter.add((self.clock)(), counted);
        };
        let capabilities = |answer: &SearchResponse| {
            one(&answer.metadata, answer.capabilities.first().map(|hit| hit.strength));
        };
        match reply {
            AnySearchResponse::One(answer) => capabilities(answer),
            AnySearchResponse::Several(BatchSearchResponse { responses: answers }) => {
                answers.iter().for_each(|answer| capabilities(&answer.answer));
            }
            AnySearchResponse::Services(answer) => one(&answer.metadata, None),
        }
    }

    /// Returns the numbers of searches by hour.
    pub(crate) fn counts(&self) -> SearchCounts {
        self.counter.counts((self.clock)())
    }
}

fn to_hit(ranked: &RankedHit, facts: &IntentFacts<'_>, summary: &HitSummary) -> SearchHit {
    let RankedHit { entry, contradicts, needed_by, merits, chosen } = ranked;
    let UnderstoodInputs { extracted, missing } =
        understand_inputs(facts.intent, &summary.parameters, facts.today);
    let is_strong = merits.score >= STRONG_SCORE && !contradicts;
    let contradiction = facts.wanted.filter(|_| *contradicts).map(|wanted| {
        let does = effects_of(&entry.name, summary);
        format!("the intent asks to {wanted}, but the capability {does}")
    });
    SearchHit {
        id: entry.name.to_kebab(),
        score: merits.score,
        strength: if is_strong { MatchStrength::Strong } else { MatchStrength::Weak },
        rank_score: chosen.rank_score(),
        description: summary.description.clone(),
        usage_count: entry.stats.runs,
        success_rate: rank::success_rate(&merits.runs),
        complexity: summary.complexity,
        required_permissions: summary.permissions.clone(),
        name: entry.name.clone(),
        version: entry.version.clone(),
        checksum: entry.digest,
        deprecated: entry.deprecated.clone(),
        parameters: summary.parameters.clone(),
        similarity: merits.similarity,
        needed_by: needed_by.clone(),
        contradiction,
        extracted,
        missing,
        explanation: rank::explain_rank(merits, facts.strategy, needed_by.is_some()),
    }
}

fn effects_of(name: &CapabilityName, summary: &HitSummary) -> CapabilityEffects {
    CapabilityEffects::new(name.as_str(), &summary.description, summary.read_only)
}

fn describe_no_match(
    nearest: &[NearMiss],
    needed_score: Option<f64>,
    language: Option<&str>,
) -> String {
    let language = language.map_or_else(String::new, |language| {
        format!(
            "the intent seems to be in {language}, but the built-in embedder knows English: use \
             English, or another embedder (`--embedder`); "
        )
    });
    let named: Vec<_> =
        nearest.iter().map(|near| format!("`{}` ({:.2})", near.name, near.score)).collect();
    match needed_score {
        None => format!("{language}no capability matches"),
        Some(needed) => format!(
            "{language}no capability is close enough: a score of {needed} is needed; the nearest are {}",
            named.join(", ")
        ),
    }
}

fn missing_answer_error() -> Error {
    Error::Internal("an intent has no response".into())
}
