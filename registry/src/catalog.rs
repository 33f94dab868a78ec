//! The rules of the registry for publishing, searching and reading. Free of HTTP and SQL.

mod change_log;
mod graph;
mod lifecycle;
mod outcomes;
mod search;
mod services;
mod version_selector;

use std::sync::Arc;

use a2s::{CapabilityName, Diagnostic, Document};
use a2s_api::Caller;
use a2s_api::{
    CapabilityList, CapabilitySummary, CapabilityVersions, IndexStatus, PublishResponse,
    VerifyRequest, VerifyResponse,
};

pub(crate) use self::search::AnySearchResponse;
pub(crate) use self::version_selector::VersionSelection;
use crate::change_feed::ChangeFeed;
use crate::documents::{CapabilityFacts, DocumentReader, VerifiedDocument};
use crate::embedding_service::EmbeddingService;
use crate::error::DigestMismatch;
use crate::host_health::HostHealthTracker;
use crate::index::IndexerHandle;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::{Metrics, PublishLabels, PublishResult};
use crate::mirror::MirrorSource;
use crate::store::lifecycle::AuditActor;
use crate::store::{
    ChangeSeq, LiveVersionQuery, NewVersion, PublicationResult, RegistryStore, VersionEntry,
};
use crate::{Clock, Error, Limits};

/// The maximum number of documents of one capability that are in memory at the same time.
const VERSION_BATCH: usize = 64;

/// The operations of the registry that callers can request.
pub(crate) struct Catalog {
    pub(crate) store: Arc<dyn RegistryStore>,
    pub(crate) live_versions: Arc<LiveVersionCache>,
    pub(crate) documents: Arc<DocumentReader>,
    pub(crate) vectors: Arc<dyn crate::vectors::VectorIndex>,
    pub(crate) index: IndexerHandle,
    pub(crate) feed: ChangeFeed,
    pub(crate) embedding_service: Arc<EmbeddingService>,
    pub(crate) host_health: HostHealthTracker,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    /// The identity of the store. It marks cursors and indexes, so that those of another store are
    /// recognised, and it is the key of the hash that separates reporters.
    pub(crate) identity: String,
}

/// A requested version with its document.
#[derive(Debug)]
pub(crate) struct FetchedVersion {
    pub(crate) entry: VersionEntry,
    pub(crate) document: VerifiedDocument,
}

impl Catalog {
    /// Publishes a document, or reports all its errors.
    ///
    /// # Errors
    /// Fails when the document is too large or has errors, its version or id is taken, or its name belongs
    /// to others.
    pub(crate) async fn publish(
        &self,
        source: Vec<u8>,
        caller: &Caller,
        mirror: Option<&MirrorSource>,
    ) -> Result<PublishResponse, Error> {
        let result = self.publish_document(source, caller, mirror).await;
        let label = match &result {
            Ok(answer) if answer.created => PublishResult::created,
            Ok(_) => PublishResult::same,
            Err(Error::VersionTaken(_) | Error::NameTaken { .. } | Error::LookalikeName { .. }) => {
                PublishResult::conflict
            }
            Err(_) => PublishResult::refused,
        };
        self.metrics.publishes.get_or_create(&PublishLabels { result: label }).inc();
        result
    }

    async fn publish_document(
        &self,
        source: Vec<u8>,
        caller: &Caller,
        mirror: Option<&MirrorSource>,
    ) -> Result<PublishResponse, Error> {
        if source.len() > self.limits.document_bytes {
            return Err(Error::BodyTooLarge { limit: self.limits.document_bytes });
        }
        let (mut source, document, mut diagnostics) = self.compile_to_publish(source).await?;
        if let Some(document) = &document {
            let dependencies = &document.capability().dependencies;
            let dependency_index = self.documents.load_dependencies(dependencies).await?;
            let found = dependency_index.check_dependencies(document.capability());
            if !found.is_empty() {
                let located = move || (a2s::add_positions(&source, found), source);
                let (found, same) = self.documents.compute(located).await?;
                source = same;
                diagnostics.extend(found);
                diagnostics.sort_by_key(|diagnostic| diagnostic.position);
            }
        }
        let Some(document) = document.filter(|_| !diagnostics.iter().any(Diagnostic::is_error))
        else {
            return Err(Error::DocumentRejected(diagnostics));
        };
        let facts = CapabilityFacts::from_document(&document);
        let new = NewVersion {
            relations: facts.to_relation_rows(),
            name: facts.name,
            version: facts.version,
            digest: document.digest(),
            source: String::from_utf8(source).map_err(|e| Error::Internal(e.into()))?,
            complexity: facts.complexity,
            permissions: u32::try_from(facts.dependency_interface.permissions.len())
                .unwrap_or(u32::MAX),
        };
        let by = AuditActor::from_caller(caller, (self.clock)()).for_mirror(mirror);
        let created = match self.store.publish(&new, &by).await? {
            PublicationResult::Created(seq) => {
                self.live_versions.invalidate(&new.name);
                self.feed.notify_followers();
                if !self.index.wait_for(seq, self.limits.index_wait).await {
                    tracing::warn!(name = %new.name, "the capability is published, but not yet in the search index");
                }
                true
            }
            PublicationResult::Same => false,
            PublicationResult::Conflict(published) => {
                return Err(Error::VersionTaken(Box::new(DigestMismatch {
                    name: new.name,
                    version: new.version,
                    published,
                    given: new.digest,
                })));
            }
            PublicationResult::NameTaken(owner) => {
                let id = new.name.to_kebab();
                return Err(Error::NameTaken { name: new.name, id, owner });
            }
            PublicationResult::LookAlike(other) => {
                return Err(Error::LookalikeName { name: new.name, other });
            }
            PublicationResult::NotOwner(owners) => {
                return Err(Error::NotOwner { name: new.name, owners });
            }
            PublicationResult::OtherOrigin(origin) => {
                return Err(Error::NotMirrored { name: new.name, version: None, origin });
            }
        };
        Ok(PublishResponse {
            name: new.name,
            version: new.version,
            checksum: new.digest,
            created,
            warnings: diagnostics,
        })
    }

    /// Compiles a document. Returns the document even when only its checksum is missing, so that the same
    /// response also reports problems of its dependencies.
    async fn compile_to_publish(
        &self,
        source: Vec<u8>,
    ) -> Result<(Vec<u8>, Option<Document>, Vec<Diagnostic>), Error> {
        self.documents
            .compute(move || {
                let compilation = a2s::compile_to_publish(&source);
                let document = compilation.document.or_else(|| a2s::compile(&source).document);
                (source, document, compilation.diagnostics)
            })
            .await
    }

    /// Returns a page of live versions, in order of name. Leaves out damaged ones.
    pub(crate) async fn list(
        &self,
        after: Option<&CapabilityName>,
        limit: u32,
    ) -> Result<CapabilityList, Error> {
        let heads = LiveVersionQuery::AfterName(after.map(CapabilityName::as_str), limit + 1);
        let mut entries = self.store.live_versions(heads).await?;
        let has_more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let next = entries.last().filter(|_| has_more).map(|entry| entry.name.to_string());
        Ok(CapabilityList { capabilities: self.summarize(&entries).await?, next })
    }

    /// Returns all versions of a capability, the newest first. Leaves out damaged ones.
    ///
    /// # Errors
    /// Fails when the capability is unknown.
    pub(crate) async fn list_versions(
        &self,
        name: &CapabilityName,
    ) -> Result<CapabilityVersions, Error> {
        let entries = self.known_versions(name).await?;
        let latest = VersionSelection::Latest.select(&entries).map(|entry| entry.version.clone());
        let mut versions = Vec::with_capacity(entries.len());
        for batch in entries.chunks(VERSION_BATCH) {
            versions.extend(self.summarize(batch).await?);
        }
        Ok(CapabilityVersions { name: name.clone(), latest, versions })
    }

    /// Returns one version with its document.
    ///
    /// # Errors
    /// Fails when the version does not exist, or its document is damaged.
    pub(crate) async fn fetch(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Result<FetchedVersion, Error> {
        let entry = self.select_version(name, selector).await?;
        let opened = self.documents.open_one(&entry).await?;
        Ok(FetchedVersion { entry, document: opened })
    }

    /// Checks that a stored document still is the published one.
    ///
    /// # Errors
    /// When there is no such version.
    pub(crate) async fn verify(&self, request: &VerifyRequest) -> Result<VerifyResponse, Error> {
        let selector =
            request.version.clone().map_or(VersionSelection::Latest, VersionSelection::Exact);
        let entry = self.select_version(&request.name, &selector).await?;
        let opened = self.documents.open([&entry]).await?;
        let damage = opened.into_iter().find_map(|(_, result)| result.err());
        Ok(VerifyResponse {
            valid: damage.is_none(),
            computed: match &damage {
                None => Some(entry.digest),
                Some(damage) => damage.computed,
            },
            message: damage.map(|damage| format!("the stored document {}", damage.reason)),
            name: entry.name,
            version: entry.version,
            checksum: entry.digest,
        })
    }

    /// Checks that the registry is ready.
    ///
    /// # Errors
    /// Fails when the store does not respond or cannot write, or the index has not caught up with the store
    /// since the start.
    pub(crate) async fn check_ready(&self) -> Result<(), Error> {
        self.store.read_outbox(ChangeSeq::default(), 0).await?;
        self.store.check_writer().await?;
        if self.index.is_ready() { Ok(()) } else { Err(Error::IndexNotReady) }
    }

    /// The status of the live index, and of the one that is being built.
    ///
    /// # Errors
    /// When there is no index yet.
    pub(crate) async fn index_status(&self) -> Result<IndexStatus, Error> {
        let live = self.vectors.current_reader()?;
        let status = self.vectors.status().await?;
        let identity = live.identity();
        Ok(IndexStatus {
            embedder: identity.embedder.clone(),
            dimensions: identity.dimensions,
            points: status.points.unwrap_or_default(),
            fresh: status.fresh,
            building: self.index.building(),
        })
    }

    async fn known_versions(&self, name: &CapabilityName) -> Result<Vec<VersionEntry>, Error> {
        let entries = self.store.list_versions(name).await?;
        if entries.is_empty() {
            return Err(Error::CapabilityMissing(name.to_string()));
        }
        Ok(entries)
    }

    async fn select_version(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Result<VersionEntry, Error> {
        let entries = self.known_versions(name).await?;
        selector.select(&entries).cloned().ok_or_else(|| selector.missing_error(name, &entries))
    }

    async fn version_missing_error(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
    ) -> Error {
        match self.known_versions(name).await {
            Ok(entries) => selector.missing_error(name, &entries),
            Err(error) => error,
        }
    }

    async fn summarize(&self, entries: &[VersionEntry]) -> Result<Vec<CapabilitySummary>, Error> {
        let opened = self.documents.open(entries).await?;
        Ok(opened
            .into_iter()
            .filter_map(|(entry, opened)| Some(to_summary(entry, &opened.ok()?.facts)))
            .collect())
    }
}

fn to_summary(entry: &VersionEntry, facts: &CapabilityFacts) -> CapabilitySummary {
    CapabilitySummary {
        name: entry.name.clone(),
        version: entry.version.clone(),
        checksum: entry.digest,
        description: facts.description.clone(),
        domains: facts.domains.clone(),
        published_at: entry.published_at,
        yanked: entry.yanked,
        deprecated: entry.deprecated.clone(),
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog")
            .field("store", &self.store)
            .field("vectors", &self.vectors)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
