//! What the registry counts. The metrics live in the registry of whoever opened the [`crate::App`].

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
    pub(crate) index_build_total: Gauge,
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
            index_build_total: Gauge::default(),
            embedded: Family::default(),
            degraded_searches: Counter::default(),
        };
        let group = registry.sub_registry_with_prefix("a2s_registry");
        group.register("publishes", "Documents offered for publishing", metrics.publishes.clone());
        group.register("searches", "Searches answered", metrics.searches.clone());
        group.register(
            "search_seconds",
            "Time from a search to its answer",
            metrics.search_seconds.clone(),
        );
        group.register("outcomes", "Outcomes recorded", metrics.outcomes.clone());
        group.register(
            "damaged_documents",
            "Reads of a stored document that no longer matched its checksum",
            metrics.damaged.clone(),
        );
        group.register(
            "index_lag",
            "Changes that the search index has yet to follow",
            metrics.index_lag.clone(),
        );
        group.register(
            "index_failures",
            "Failures of the search index",
            metrics.index_failures.clone(),
        );
        group.register(
            "index_rebuilds",
            "Times the search index was built from the stored documents",
            metrics.index_rebuilds.clone(),
        );
        group.register(
            "index_paused",
            "1 while the search index is not written, because its disk has too little space",
            metrics.index_paused.clone(),
        );
        group.register(
            "index_build_done",
            "Capabilities that are in the search index which is being built",
            metrics.index_build_done.clone(),
        );
        group.register(
            "index_build_total",
            "Capabilities that the search index which is being built will have; 0 when none is",
            metrics.index_build_total.clone(),
        );
        group.register(
            "embedded_texts",
            "Texts of documents that an embedder other than the built-in one gave vectors for",
            metrics.embedded.clone(),
        );
        group.register(
            "degraded_searches",
            "Searches answered by words alone, because the embedder did not answer",
            metrics.degraded_searches.clone(),
        );
        metrics
    }
}
