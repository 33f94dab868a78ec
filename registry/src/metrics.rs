//! The metrics of the registry. The caller that opens the [`crate::App`] provides the metrics registry.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

/// The metrics of one registry.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) publishes: Family<PublishLabels, Counter>,
    pub(crate) searches: Family<SearchLabels, Counter>,
    pub(crate) search_seconds: Histogram,
    pub(crate) outcomes: Counter,
    pub(crate) damaged: Counter,
    pub(crate) index: IndexMetrics,
    pub(crate) embedded: Family<EmbeddedLabels, Counter>,
    pub(crate) degraded_searches: Counter,
}

/// The metrics of the search index.
#[derive(Debug, Clone)]
pub(crate) struct IndexMetrics {
    pub(crate) lag: Gauge,
    pub(crate) failures: Counter,
    pub(crate) rebuilds: Counter,
    pub(crate) build_done: Gauge,
    pub(crate) build_size: Gauge,
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
            publishes: register(registry, "publishes", "Documents sent for publishing, by result"),
            searches: register(registry, "searches", "Searches, by result"),
            // 0.1 ms to 3.3 s.
            search_seconds: register_metric(
                registry,
                "search_seconds",
                "Duration of searches",
                Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            ),
            outcomes: register(registry, "outcomes", "Outcomes recorded"),
            damaged: register(
                registry,
                "damaged_documents",
                "Reads of a stored document that no longer matched its checksum",
            ),
            index: IndexMetrics {
                lag: register(
                    registry,
                    "index_lag",
                    "Changes that the search index does not have yet",
                ),
                failures: register(registry, "index_failures", "Failures of the search index"),
                rebuilds: register(
                    registry,
                    "index_rebuilds",
                    "Number of builds of the search index from the stored documents",
                ),
                build_done: register(
                    registry,
                    "index_build_done",
                    "Capabilities already in the new search index during a build",
                ),
                build_size: register(
                    registry,
                    "index_build_size",
                    "Capabilities of the new search index after its build; 0 without a build",
                ),
            },
            embedded: register(
                registry,
                "embedded_texts",
                "Texts of documents with vectors of an embedder other than the built-in one, by from: now, or earlier (cache)",
            ),
            degraded_searches: register(
                registry,
                "degraded_searches",
                "Searches by words only, because the embedder did not respond",
            ),
        };
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

/// Creates a metric that starts at its default, and registers it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    register_metric(registry, name, help, M::default())
}

/// Registers a metric, and returns it.
fn register_metric<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}
