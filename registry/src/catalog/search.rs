//! Search by intent.

use std::time::Duration;

use a2s::Domain;
use a2s::api::{Hit, Nearest, SearchAnswer, SearchFilters, SearchMetadata, SearchRequest, Term};

use super::Catalog;
use crate::Error;
use crate::metrics::{SearchLabels, SearchResult};
use crate::rank::{self, Merits};
use crate::retrieval::{CANDIDATES, Candidate, fuse, to_probes};
use crate::store::{Entry, Heads};
use crate::vectors::{Answers, Filter};

/// Hits when the caller does not say how many, and at most.
const USUAL_LIMIT: usize = 10;
const MOST_HITS: usize = 100;
/// The longest intent, in characters.
const LONGEST_INTENT: usize = 2000;
/// The most domains in a filter.
const MOST_DOMAINS: usize = 50;
/// How many are named when nothing fits.
const NEAREST: usize = 3;
/// How long a search that comes right after the start waits for the index.
const READY_WAIT: Duration = Duration::from_secs(5);

/// A candidate with its place in the answer.
struct Ranked {
    entry: Entry,
    similarity: f64,
    score: f64,
    explanation: Vec<Term>,
}

impl Catalog {
    /// The capabilities that fit an intent, best first. None when nothing is close enough; then
    /// the answer says what was nearest.
    ///
    /// # Errors
    /// When the request makes no sense, or the index is not ready.
    pub(crate) async fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, Error> {
        let started = (self.clock)();
        let intent = request.intent.trim();
        check_intent(intent)?;
        let limit = request.limit.unwrap_or(USUAL_LIMIT);
        if !(1..=MOST_HITS).contains(&limit) {
            let text = format!("`limit` is a number from 1 to {MOST_HITS}");
            return Err(Error::BadSearch(text));
        }
        let weights = rank::weights_of(request.strategy.as_ref())?;
        let filter = to_filter(request.filters.as_ref())?;
        if !self.index.wait_until_ready(READY_WAIT).await {
            return Err(Error::IndexNotReady);
        }

        let probes = to_probes(intent, &self.embedder);
        let Answers { found, among } = self.vectors.query(probes, filter, CANDIDATES).await?;
        let (fitting, rest): (Vec<_>, Vec<_>) =
            fuse(&found, among).into_iter().partition(|candidate| candidate.fits);
        let mut total = fitting.len();
        let ranked = self.rank(&fitting, &weights).await?;
        total -= fitting.len().min(CANDIDATES) - ranked.len();

        let mut capabilities = Vec::with_capacity(limit.min(ranked.len()));
        let mut waiting = ranked.into_iter();
        // Damaged documents drop out, and the next ones take their places.
        while capabilities.len() < limit {
            let batch: Vec<_> = waiting.by_ref().take(limit - capabilities.len()).collect();
            if batch.is_empty() {
                break;
            }
            let opened = self.documents.open(batch.iter().map(|ranked| &ranked.entry)).await?;
            for (ranked, (_, opened)) in batch.iter().zip(opened) {
                match opened {
                    Ok(opened) => capabilities.push(to_hit(ranked, &opened.facts)),
                    Err(_) => total -= 1,
                }
            }
        }

        let (result, nearest) = match capabilities.is_empty() {
            true => (SearchResult::nothing_fits, self.nearest(rest).await?),
            false => (SearchResult::hits, Vec::new()),
        };
        let message = capabilities.is_empty().then(|| explain_nothing(&nearest));
        self.metrics.searches.get_or_create(&SearchLabels { result }).inc();
        let seconds = (self.clock)().duration_since(started).as_secs_f64();
        self.metrics.search_seconds.observe(seconds);
        let metadata = SearchMetadata {
            total_matches: total,
            search_time_ms: seconds * 1000.0,
            message,
            nearest,
        };
        Ok(SearchAnswer { capabilities, metadata })
    }

    /// The best candidates under a strategy, without those that the store does not have.
    async fn rank(
        &self,
        candidates: &[Candidate],
        weights: &a2s::api::Weights,
    ) -> Result<Vec<Ranked>, Error> {
        let candidates = &candidates[..candidates.len().min(CANDIDATES)];
        let ids: Vec<_> = candidates.iter().map(|candidate| candidate.capability).collect();
        let mut ranked = Vec::with_capacity(candidates.len());
        for entry in self.store.heads(Heads::Of(&ids)).await? {
            let Some(candidate) =
                candidates.iter().find(|candidate| candidate.capability == entry.capability)
            else {
                continue;
            };
            let merits = Merits {
                relevance: candidate.relevance,
                stats: entry.stats,
                complexity: entry.complexity,
            };
            let (score, explanation) = rank::score(&merits, weights);
            ranked.push(Ranked { entry, similarity: candidate.similarity, score, explanation });
        }
        // Ties are broken by meaning, then by name, so that an answer can be repeated.
        ranked.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then_with(|| b.similarity.total_cmp(&a.similarity))
                .then_with(|| a.entry.name.cmp(&b.entry.name))
        });
        Ok(ranked)
    }

    /// What is nearest of all that does not fit, the nearest first.
    async fn nearest(&self, mut rest: Vec<Candidate>) -> Result<Vec<Nearest>, Error> {
        rest.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        // A few more than are named, in case of damaged ones.
        rest.truncate(2 * NEAREST);
        let ids: Vec<_> = rest.iter().map(|candidate| candidate.capability).collect();
        let entries = self.store.heads(Heads::Of(&ids)).await?;
        let opened = self.documents.open(&entries).await?;
        let named = rest.iter().filter_map(|candidate| {
            let (entry, opened) =
                opened.iter().find(|(e, _)| e.capability == candidate.capability)?;
            let facts = &opened.as_ref().ok()?.facts;
            Some(Nearest {
                name: entry.name.clone(),
                version: entry.version.clone(),
                similarity: candidate.similarity,
                description: facts.description.clone(),
            })
        });
        Ok(named.take(NEAREST).collect())
    }
}

fn explain_nothing(nearest: &[Nearest]) -> String {
    let named: Vec<_> =
        nearest.iter().map(|near| format!("`{}` ({:.2})", near.name, near.similarity)).collect();
    match named.is_empty() {
        true => "nothing fits".to_owned(),
        false => format!("nothing is close enough; the nearest are {}", named.join(", ")),
    }
}

fn check_intent(intent: &str) -> Result<(), Error> {
    if intent.is_empty() {
        return Err(Error::BadSearch("`intent` is empty".to_owned()));
    }
    if intent.chars().nth(LONGEST_INTENT).is_some() {
        let text = format!("`intent` is longer than {LONGEST_INTENT} characters");
        return Err(Error::BadSearch(text));
    }
    Ok(())
}

fn to_filter(filters: Option<&SearchFilters>) -> Result<Filter, Error> {
    let Some(filters) = filters else { return Ok(Filter::default()) };
    if filters.domains.len() > MOST_DOMAINS {
        let text = format!("`filters.domains` has more than {MOST_DOMAINS} members");
        return Err(Error::BadSearch(text));
    }
    let domains = filters
        .domains
        .iter()
        .map(|domain| {
            Domain::new(domain)
                .map(|domain| domain.as_str().to_owned())
                .map_err(|error| Error::BadSearch(format!("`filters.domains`: {error}")))
        })
        .collect::<Result<_, _>>()?;
    Ok(Filter { domains, max_complexity: filters.max_complexity.map(|most| most as u8) })
}

fn to_hit(ranked: &Ranked, facts: &crate::documents::Facts) -> Hit {
    let entry = &ranked.entry;
    Hit {
        id: entry.name.to_kebab(),
        score: ranked.score,
        description: facts.description.clone(),
        usage_count: entry.stats.runs,
        success_rate: rank::success_rate(&entry.stats),
        complexity: facts.complexity,
        // The published language has no field for permissions yet.
        required_permissions: Vec::new(),
        name: entry.name.clone(),
        version: entry.version.clone(),
        checksum: entry.digest,
        parameters: facts.parameters.clone(),
        similarity: ranked.similarity,
        explanation: ranked.explanation.clone(),
    }
}
