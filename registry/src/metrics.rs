//! The metrics of the registry. The caller that opens the [`crate::App`] provides the metrics registry.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) publishes: Family<PublishLabels, Counter>,
    pub(crate) searches: Family<SearchLabels, Counter>,
    pub(crate) search_seconds: Histogram,
    pub(crate) outcomes: Counter,
    pub(crate) damaged: Counter,
    pub(crate) index_lag: Gauge,
    pub(crate) index_failures: Counter,
    pub(crate) index_rebuilds: Counter,
    pub(crate) index_paused: Gauge,
    pub(crate) index_build_done: Gauge,
    pub(crate) index_build_size: Gauge,
    pub(crate) embedded: Family<EmbeddedLabels, Counter>,
    pub(crate) degraded_searches: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PublishLabels {
    pub(crate) result: PublishResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the name is the value of the label")]
pub(crate) enum PublishResult {
    created,
    same,
    conflict,
    refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SearchLabels {
    pub(crate) result: SearchResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the name is the value of the label")]
pub(crate) enum SearchResult {
    hits,
    nothing_fits,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EmbeddedLabels {
    pub(crate) from: EmbeddedFrom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the name is the value of the label")]
pub(crate) enum EmbeddedFrom {
    cache,
    embedder,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            publishes: Family::default(),
            searches: Family::default(),
            // 0.1 ms to 3.3 s.
            search_seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            outcomes: Counter::default(),
            damaged: Counter::default(),
            index_lag: Gauge::default(),
            index_failures: Counter::default(),
            index_rebuilds: Counter::default(),
            index_paused: Gauge::default(),
            index_build_done: Gauge::default(),
            index_build_size: Gauge::default(),
            embedded: Family::default(),
            degraded_searches: Counter::default(),
        };
        registry.register(
            "publishes",
            "Documents sent for publishing, by result",
            metrics.publishes.clone(),
        );
        registry.register("searches", "Searches, by result", metrics.searches.clone());
        registry.register("search_seconds", "Duration of searches", metrics.search_seconds.clone());
        registry.register("outcomes", "Outcomes recorded", metrics.outcomes.clone());
        registry.register(
            "damaged_documents",
            "Reads of a stored document that no longer matched its checksum",
            metrics.damaged.clone(),
        );
        registry.register(
            "index_lag",
            "Changes that the search index does not have yet",
            metrics.index_lag.clone(),
        );
        registry.register(
            "index_failures",
            "Failures of the search index",
            metrics.index_failures.clone(),
        );
        registry.register(
            "index_rebuilds",
            "Number of builds of the search index from the stored documents",
            metrics.index_rebuilds.clone(),
        );
        registry.register(
            "index_paused",
            "1 while the registry does not write the search index, because its disk has too little space",
            metrics.index_paused.clone(),
        );
        registry.register(
            "index_build_done",
            "Capabilities already in the new search index during a build",
            metrics.index_build_done.clone(),
        );
        registry.register(
            "index_build_size",
            "Capabilities of the new search index after its build; 0 without a build",
            metrics.index_build_size.clone(),
        );
        registry.register(
            "embedded_texts",
            "Texts of documents with vectors of an embedder other than the built-in one, by from: now, or earlier (cache)",
            metrics.embedded.clone(),
        );
        registry.register(
            "degraded_searches",
            "Searches by words only, because the embedder did not respond",
            metrics.degraded_searches.clone(),
        );
        metrics.begin_at_zero();
        metrics
    }

    /// Creates all series at zero, so that a rate is visible from the first event on.
    fn begin_at_zero(&self) {
        use PublishResult::{conflict, created, refused, same};
        for result in [created, same, conflict, refused] {
            self.publishes.get_or_create(&PublishLabels { result }).inc_by(0);
        }
        for result in [SearchResult::hits, SearchResult::nothing_fits] {
            self.searches.get_or_create(&SearchLabels { result }).inc_by(0);
        }
        for from in [EmbeddedFrom::cache, EmbeddedFrom::embedder] {
            self.embedded.get_or_create(&EmbeddedLabels { from }).inc_by(0);
        }
    }
}
