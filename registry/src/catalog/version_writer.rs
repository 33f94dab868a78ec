//! Changes of names and versions. [`lifecycle`] has those after publishing.

mod lifecycle;

pub(crate) use self::lifecycle::YankAction;

use std::sync::Arc;

use a2s::{CapabilityName, Diagnostic, Document};
use a2s_api::Caller;
use a2s_api::PublishResponse;

use super::VersionReader;
use crate::change_feed::ChangeFeed;
use crate::documents::CapabilityFacts;
use crate::error::DigestMismatch;
use crate::index::IndexerHandle;
use crate::live_version_cache::LiveVersionCache;
use crate::metrics::{Metrics, PublishLabels, PublishResult};
use crate::mirror::MirrorSource;
use crate::store::lifecycle::AuditActor;
use crate::store::{ChangeSeq, NewVersion, PublicationResult};
use crate::{Clock, Error, Limits};

/// A writer of versions and their lifecycle.
pub(crate) struct VersionWriter {
    pub(crate) versions: VersionReader,
    pub(crate) live_versions: Arc<LiveVersionCache>,
    pub(crate) index: Arc<IndexerHandle>,
    pub(crate) feed: Arc<ChangeFeed>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
}

impl VersionWriter {
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
            Err(
                Error::VersionTaken(_)
                | Error::SamePrecedence { .. }
                | Error::NameTaken { .. }
                | Error::LookalikeName { .. },
            ) => PublishResult::conflict,
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
        let (source, document, diagnostics) = self.compile_to_publish(source).await?;
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
        let by = AuditActor::from_caller(caller, (self.clock)())
            .for_mirror(mirror)
            .with_share(self.limits.publisher_share);
        let created = match self.versions.store.publish(&new, &by).await? {
            PublicationResult::Created(seq) => {
                if !self.announce(&new.name, seq).await {
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
            PublicationResult::SamePrecedence(published) => {
                let (name, version) = (new.name, new.version);
                return Err(Error::SamePrecedence { name, version, published });
            }
            PublicationResult::NameTaken(owner) => {
                let id = new.name.to_kebab();
                return Err(Error::NameTaken { name: new.name, id, owner });
            }
            PublicationResult::LookAlike(other) => {
                return Err(Error::LookalikeName { name: new.name, other });
            }
            PublicationResult::ShareUsedUp => return Err(Error::ShareUsedUp(by.subject)),
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

    /// Compiles a document and checks its dependencies. Returns the document even when only its checksum is
    /// missing, so that the same response also reports problems of its dependencies.
    async fn compile_to_publish(
        &self,
        source: Vec<u8>,
    ) -> Result<(Vec<u8>, Option<Document>, Vec<Diagnostic>), Error> {
        let documents = &self.versions.documents;
        let compile = move || {
            let compilation = a2s::compile_to_publish(&source);
            let document = compilation.document.or_else(|| a2s::compile(&source).document);
            (source, document, compilation.diagnostics)
        };
        let (mut source, document, mut diagnostics) = documents.compute(compile).await?;
        if let Some(document) = &document {
            let dependencies = &document.capability().dependencies;
            let dependency_index = documents.load_dependencies(dependencies).await?;
            let found = dependency_index.check_dependencies(document.capability());
            if !found.is_empty() {
                let located = move || (a2s::add_positions(&source, found), source);
                let (found, same) = documents.compute(located).await?;
                source = same;
                diagnostics.extend(found);
                diagnostics.sort_by_key(|diagnostic| diagnostic.position);
            }
        }
        Ok((source, document, diagnostics))
    }

    /// Makes a change of the store visible. Returns false when searches do not have it in time; they will
    /// have it later.
    async fn announce(&self, name: &CapabilityName, seq: ChangeSeq) -> bool {
        self.live_versions.invalidate(name);
        self.feed.notify_followers();
        self.index.wait_for(seq, self.limits.index_wait).await
    }
}
