//! The rules of the registry for publishing, searching and reading. Free of HTTP and SQL.

mod change_log;
mod graph;
mod outcomes;
mod prerequisite_searches;
mod search;
mod version_reader;
mod version_selector;
mod version_writer;

use std::sync::Arc;

use a2s_api::IndexStatus;

pub(crate) use self::change_log::ChangeLog;
pub(crate) use self::graph::build_graph;
pub(crate) use self::outcomes::OutcomeRecorder;
pub(crate) use self::search::{AnySearchResponse, SearchService};
pub(crate) use self::version_reader::{FetchedVersion, VersionReader};
pub(crate) use self::version_selector::VersionSelection;
pub(crate) use self::version_writer::{VersionWriter, YankAction};
use crate::change_feed::ChangeFeed;
use crate::documents::DocumentReader;
use crate::embedding_service::EmbeddingService;
use crate::host_health::HostHealthTracker;
use crate::index::IndexerHandle;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::Metrics;
use crate::search_counts::SearchCounter;
use crate::store::{ChangeSeq, RegistryStore};
use crate::vectors::VectorIndex;
use crate::{Clock, Error, Limits};

/// The operations of the registry that callers can request, by the part that performs them.
pub(crate) struct Catalog {
    pub(crate) versions: VersionReader,
    pub(crate) writer: VersionWriter,
    pub(crate) search: SearchService,
    pub(crate) outcomes: OutcomeRecorder,
    pub(crate) log: ChangeLog,
}

/// The shared parts that a catalog is made of.
pub(crate) struct CatalogParts {
    pub(crate) store: Arc<dyn RegistryStore>,
    pub(crate) live_versions: Arc<LiveVersionCache>,
    pub(crate) documents: Arc<DocumentReader>,
    pub(crate) vectors: Arc<dyn VectorIndex>,
    pub(crate) index: IndexerHandle,
    pub(crate) embedding_service: Arc<EmbeddingService>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    /// The identity of the store.
    pub(crate) identity: String,
}

impl Catalog {
    pub(crate) fn new(parts: CatalogParts) -> Self {
        let CatalogParts {
            store, live_versions, documents, metrics, clock, limits, identity, ..
        } = parts;
        let index = Arc::new(parts.index);
        let feed = Arc::new(ChangeFeed::for_store(&identity));
        let host_health = Arc::new(HostHealthTracker::default());
        let versions =
            VersionReader { store: Arc::clone(&store), documents: Arc::clone(&documents) };
        Self {
            writer: VersionWriter {
                versions: versions.clone(),
                live_versions: Arc::clone(&live_versions),
                index: Arc::clone(&index),
                feed: Arc::clone(&feed),
                clock: Arc::clone(&clock),
                metrics: metrics.clone(),
                limits,
            },
            outcomes: OutcomeRecorder {
                versions: versions.clone(),
                live_versions: Arc::clone(&live_versions),
                host_health: Arc::clone(&host_health),
                index: Arc::clone(&index),
                embedding_service: Arc::clone(&parts.embedding_service),
                clock: Arc::clone(&clock),
                metrics: metrics.clone(),
                identity: identity.clone(),
            },
            log: ChangeLog { store: Arc::clone(&store), feed, clock: Arc::clone(&clock) },
            search: SearchService {
                store,
                documents,
                live_versions,
                vectors: parts.vectors,
                index,
                embedding_service: parts.embedding_service,
                host_health,
                counter: SearchCounter::new(clock()),
                clock,
                metrics,
                index_wait: limits.index_wait,
                identity,
            },
            versions,
        }
    }

    /// Checks that the registry is ready.
    ///
    /// # Errors
    /// Fails when the store does not respond or cannot write, or the index has not caught up with the store
    /// since the start.
    pub(crate) async fn check_ready(&self) -> Result<(), Error> {
        self.versions.store.read_outbox(ChangeSeq::default(), 0).await?;
        self.versions.store.check_writer().await?;
        if self.search.index.is_ready() { Ok(()) } else { Err(Error::IndexNotReady) }
    }

    /// The number of changes that searches do not see yet.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn index_lag(&self) -> Result<u64, Error> {
        let latest = self.versions.store.read_outbox(ChangeSeq::default(), 0).await?.latest;
        Ok(latest.0.saturating_sub(self.search.index.applied().0).unsigned_abs())
    }

    /// The status of the live index, and of the one that is being built.
    ///
    /// # Errors
    /// When there is no index yet.
    pub(crate) async fn index_status(&self) -> Result<IndexStatus, Error> {
        let live = self.search.vectors.current_reader()?;
        let status = self.search.vectors.status().await?;
        let identity = live.identity();
        Ok(IndexStatus {
            embedder: identity.embedder.clone(),
            dimensions: identity.dimensions,
            points: status.points.unwrap_or_default(),
            fresh: status.fresh,
            building: self.search.index.building(),
        })
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog")
            .field("versions", &self.versions)
            .field("vectors", &self.search.vectors)
            .finish_non_exhaustive()
    }
}
