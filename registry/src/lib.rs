//! The registry: publish capabilities and find them by intent.
//!
//! [`App::open`] takes a configuration, a clock and a metrics registry; [`App::router`] returns the routes.
//! Everything runs in this process: documents in SQLite unless a PostgreSQL server is configured, the
//! search index in memory unless a Qdrant server is configured, and an embedder in the binary.
//!
//! ```
//! # use std::sync::Arc;
//! # use axum::{body::Body, http::Request};
//! # use tower::ServiceExt as _;
//! use registry::{App, Config, Secret};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let config = Config::in_folder(folder.path(), Some(Secret::new("owner token")));
//! let clock = Arc::new(|| "2026-03-01T12:00:00Z".parse().expect("a timestamp"));
//! let app = App::open(config, clock, &mut prometheus_client::registry::Registry::default()).await?;
//!
//! // Publishing needs the token. The registry compiles the document, and stores its text unchanged.
//! let draft = r#"
//! a2s: 1.0.0
//! name: ListDogBreeds
//! description: Retrieve a list of dog breeds
//! domains: [dogapi.dog]
//! version: "1.0"
//! checksum: "<checksum>"
//! authors: [{name: Jane Smith}]
//! execution:
//!   type: sequence
//!   steps:
//!     - id: listBreeds
//!       format: OpenAPI
//!       task:
//!         openapi: 3.0.1
//!         info: {title: Dog API, version: 1.0.0}
//!         servers: [{url: "https://dogapi.dog/api/v2"}]
//!         paths: {/breeds: {get: {responses: {200: {description: The breeds}}}}}
//!       output_mapping: {breeds: "$.data"}
//! "#;
//! let digest = a2s::compile(draft.as_bytes()).digest.expect("the document is well-formed");
//! let publish = Request::post("/v1/capabilities")
//!     .header("authorization", "Bearer owner token")
//!     .header("content-type", "application/yaml")
//!     .body(Body::from(draft.replace("<checksum>", &digest.to_string())))?;
//! assert_eq!(app.router().oneshot(publish).await?.status(), 201);
//!
//! // Searching does not. The search finds the capability by meaning.
//! let search = Request::post("/v1/search")
//!     .header("content-type", "application/json")
//!     .body(Body::from(r#"{"intent": "pooch kinds"}"#))?;
//! let answer = app.router().oneshot(search).await?.into_body();
//! let answer = axum::body::to_bytes(answer, usize::MAX).await?;
//! let answer: a2s_api::SearchResponse = serde_json::from_slice(&answer)?;
//! assert_eq!(answer.capabilities[0].id, "list-dog-breeds");
//! assert_eq!(answer.capabilities[0].checksum, digest);
//!
//! app.close().await;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - **Documents are the truth.** Rows and vectors are derived from them; [`App::reindex`] rebuilds
//!   the index, and the start rebuilds an index that is missing, broken or of another database. An index
//!   of another embedder answers until the new one is built.
//! - **A published version never changes.** Every read computes the digest of the stored document again.
//!   A document that was changed outside the registry is not found, not listed, not served (A2S222) and
//!   not verified.
//! - **Acknowledged data is on disk**, and in the index soon after, even if the process is killed
//!   between the two.
//! - **Search is absolute and explained.** The score of a hit is a probability that can be compared
//!   between responses, and the terms of its rank add up; when nothing is close enough, the response has no
//!   hits.
//!
//! # Map
//!
//! `http` reads requests and writes responses. `catalog` has the rules, and uses `store` (rows),
//! `documents` (verified texts), `live_version_cache` (the rows that searches rank), `tokens` (access),
//! `change_feed` (subscribers of changes), `vectors` (the index), [`retrieval`] (from an intent to
//! candidates; [`embed`], `bm25` and `rank_fusion` are its parts), `rank` (the order of hits) and
//! `io_matching` (compatible inputs and outputs). `index` is the task that keeps the index level with the
//! store, and `embedding_service` has the embedders.

mod backup;
mod bm25;
mod catalog;
mod change_feed;
mod documents;
pub mod embed;
mod embedding_service;
mod error;
mod fit;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod host_health;
mod http;
mod index;
mod io_matching;
mod latency_histogram;
mod learned_intents;
mod live_version_cache;
mod metrics;
mod mirror;
mod outcome_weighting;
mod prerequisites;
mod rank;
mod rank_fusion;
pub mod retrieval;
mod search_counts;
mod store;
mod tokens;
mod vectors;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2s_api::{AuthGuard, Caller, StreamQuota, TokenIntrospector};
use a2s_api::{IndexBuilding, IndexStatus, PublishResponse};
use axum::Router;
use jiff::Timestamp;

pub use crate::backup::{check_documents, copy_documents, restore_documents};
use crate::catalog::{Catalog, CatalogParts};
use crate::documents::DocumentReader;
use crate::embed::Embedder;
pub use a2s::Secret;

use crate::embedding_service::EmbeddingService;
pub use crate::error::{CODES, DigestMismatch, Error};
use crate::http::HttpState;
pub use crate::http::not_found;
use crate::index::IndexerHandle;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::Metrics;
pub use crate::store::{DatabaseAddress, Error as StoreError, ErrorKind as StoreErrorKind};
use crate::tokens::TokenService;
pub use crate::vectors::{Error as VectorsError, IndexLocation, QdrantConfig};

/// Returns the current time. Injected, so that nothing here depends on the time of execution.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The default time that a search waits for its vectors.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration of a registry.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database of documents, outcomes and tokens.
    pub database: DatabaseAddress,
    /// The location of the search index. The registry creates it when it is missing: it is derived from the
    /// documents. An index of another embedder answers until the new one is built.
    pub index: IndexLocation,
    /// An embedding model, which turns text into vectors.
    pub embedder: Embedder,
    /// The time that a search waits for its vectors; after that it uses words alone.
    pub query_timeout: Duration,
    /// Set when accepted intents count for the search: the vectors of the words of a search that led to a
    /// successful run, as far as executors report them. All registries of one database should agree.
    pub learn: bool,
    /// The owner's token, which has every scope and can create tokens with fewer scopes. Without it, the
    /// registry asks for no token at all.
    pub token: Option<Secret>,
    /// A configured token of the scope `service`, in addition to the tokens that the registry creates: for
    /// the executors of this registry, and for the process that it is a part of.
    pub service_token: Option<Secret>,
    /// The limits.
    pub limits: Limits,
}

impl Config {
    /// Creates the configuration of a registry in one folder, with the built-in embedder and the default
    /// limits.
    #[must_use]
    pub fn in_folder(folder: &Path, token: Option<Secret>) -> Self {
        Self {
            database: folder.join("registry.sqlite").to_string_lossy().into_owned().into(),
            index: IndexLocation::Memory,
            embedder: Embedder::built_in(),
            query_timeout: QUERY_TIMEOUT,
            learn: false,
            token,
            service_token: None,
            limits: Limits::default(),
        }
    }
}

/// Limits on requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum size of a document, in bytes. The compiler has a separate limit, 1 MiB.
    pub document_bytes: usize,
    /// The maximum that one token may publish, except the owner's.
    pub publisher_share: PublisherShare,
    /// The longest time of a request, its body included.
    pub request_time: Duration,
    /// The time that publishing waits until the index has the version, and that a search right after the
    /// start waits for the index. The version is stored before, and is indexed in any case; but a publisher
    /// that searches at once should find it.
    pub index_wait: Duration,
}

/// The maximum that one token may publish: a version is never deleted, and all tenants share the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublisherShare {
    /// The number of versions.
    pub versions: u32,
    /// The total size of their documents, in bytes.
    pub bytes: i64,
}

impl Default for PublisherShare {
    fn default() -> Self {
        Self { versions: 20_000, bytes: 2 << 30 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 1024 * 1024,
            publisher_share: PublisherShare::default(),
            request_time: Duration::from_secs(30),
            index_wait: Duration::from_secs(5),
        }
    }
}

/// A running registry.
#[derive(Debug)]
pub struct App {
    shared: Arc<HttpState>,
}

impl App {
    /// Opens the database and the index, and starts to bring the index level with the documents.
    ///
    /// # Errors
    /// When the database cannot be opened or was made by a newer version, or the index server cannot be used.
    /// An index server that is away is not an error: the registry waits for it. A missing or broken index is
    /// not an error: the registry rebuilds it. Nor is an embedder that does not answer: the built-in one takes
    /// over.
    pub async fn open(
        config: Config,
        clock: Clock,
        metrics: &mut prometheus_client::registry::Registry,
    ) -> Result<Self, Error> {
        let metrics = Metrics::register(metrics);
        let store = store::open(&config.database).await.map_err(|error| match error.kind() {
            store::ErrorKind::Lost => Error::DatabaseMissing(error.to_string()),
            _ => error.into(),
        })?;
        let identity = store.read_outbox(store::ChangeSeq::default(), 0).await?.identity;
        store.set_learning(config.learn, clock()).await?;
        let meaning = Arc::new(EmbeddingService::new(
            config.embedder,
            config.query_timeout,
            config.learn,
            Arc::clone(&store),
            metrics.clone(),
        )?);
        let embedders = [meaning.configured(), meaning.built_in()].map(|e| e.id().to_owned());
        let vectors =
            vectors::open(config.index, Arc::clone(&store), identity.clone(), embedders.into())
                .await?;
        let documents = Arc::new(DocumentReader::new(Arc::clone(&store), metrics.damaged.clone()));
        let live = Arc::new(LiveVersionCache::new(Arc::clone(&store)));
        tokio::spawn({
            let live = Arc::clone(&live);
            async move {
                if let Err(error) = live.preload().await {
                    tracing::debug!(%error, "rows could not be loaded in advance; searches load them");
                }
            }
        });
        let index = IndexerHandle::start(
            Arc::clone(&store),
            Arc::clone(&live),
            Arc::clone(&documents),
            Arc::clone(&vectors),
            Arc::clone(&meaning),
            metrics.clone(),
            identity.clone(),
        );
        let tokens =
            TokenService::new(Arc::clone(&store), Arc::clone(&clock), config.token.clone())
                .with_service(config.service_token);
        let auth_guard = AuthGuard::new(config.token).with_introspector(Arc::new(tokens.clone()));
        let catalog = Catalog::new(CatalogParts {
            store,
            live_versions: live,
            documents,
            vectors,
            index,
            embedding_service: meaning,
            clock,
            metrics,
            limits: config.limits,
            identity,
        });
        let imports = StreamQuota::new(http::IMPORT_LIMITS);
        Ok(Self { shared: Arc::new(HttpState { catalog, tokens, auth_guard, imports }) })
    }

    /// Returns all routes of a registry on its own port: the routes under `/v1`, `/healthz`, `/readyz`, and
    /// a problem response for every other path.
    pub fn router(&self) -> Router {
        http::router(&self.shared)
    }

    /// Returns the lookup of the registry's tokens, for the access checks of services in the same process.
    /// It does not know the owner's token.
    #[must_use]
    pub fn token_introspector(&self) -> Arc<dyn TokenIntrospector> {
        Arc::new(self.shared.tokens.clone())
    }

    /// Returns only the routes under `/v1`, to be merged with those of another service on one port. That
    /// service sets the fallback, for instance [`not_found`], and responds to health checks.
    pub fn routes(&self) -> Router {
        http::routes(&self.shared)
    }

    /// Returns the OpenAPI description of the routes under `/v1`.
    #[must_use]
    pub fn openapi() -> utoipa::openapi::OpenApi {
        http::openapi()
    }

    /// Publishes a document for `caller`, as `POST /v1/capabilities` does.
    ///
    /// # Errors
    /// Fails when the document has errors, its version or id is taken, or its name belongs to others.
    pub async fn publish(
        &self,
        source: Vec<u8>,
        caller: &Caller,
    ) -> Result<PublishResponse, Error> {
        self.shared.catalog.writer.publish(source, caller, None).await
    }

    /// Checks that the registry answers searches.
    ///
    /// # Errors
    /// When the database does not answer or the index is still being built.
    pub async fn check_ready(&self) -> Result<(), Error> {
        self.shared.catalog.check_ready().await
    }

    /// The status of the search index, and of the one that is being built, if there is one.
    ///
    /// # Errors
    /// When there is no index yet.
    pub async fn index_status(&self) -> Result<IndexStatus, Error> {
        self.shared.catalog.index_status().await
    }

    /// Returns the number of stored changes that searches do not see yet.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn index_lag(&self) -> Result<u64, Error> {
        self.shared.catalog.index_lag().await
    }

    /// Returns the search index that is being built, if there is one.
    pub fn building(&self) -> Option<IndexBuilding> {
        self.shared.catalog.search.index.building()
    }

    /// Rebuilds everything that is derived from documents, the search index and the rows between documents,
    /// and returns the number of capabilities in the index. Searches use the old index until then.
    ///
    /// # Errors
    /// When database, index or embedder fail; then the old index stays.
    pub async fn reindex(&self) -> Result<usize, Error> {
        self.shared.catalog.search.index.rebuild().await
    }

    /// Ends the streams of changes, so that a listener can stop without waiting for them.
    pub fn end_streams(&self) {
        self.shared.catalog.log.feed.end_streams();
    }

    /// Writes everything to the disk and closes the files. Later requests fail.
    ///
    /// Without this call, nothing that was acknowledged is lost; with it, the next start is faster.
    pub async fn close(&self) {
        self.end_streams();
        self.shared.catalog.search.index.close().await;
        self.shared.catalog.versions.store.close().await;
    }
}

#[cfg(test)]
mod tests;
