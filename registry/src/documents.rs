//! Stored documents, verified at each read.
//!
//! A writer with access to the database can change a stored text, its recorded digest, or both. So a stored
//! text is used only after its digest was computed again and equals the recorded one, and its name and
//! version equal those of its row. To make this cheap, the compiled form of a text is cached under the
//! SHA-256 of its bytes: equal bytes have equal content, and the database cannot change the cache. The
//! summary of a text for searches is also on a [`SummaryCard`] in the index.

mod capability_facts;
mod hit_summary;
mod hit_summary_cache;
mod load_dependencies;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::{DeclaredChecksum, Digest};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Semaphore;

pub(crate) use self::capability_facts::{CapabilityFacts, author_key};
pub(crate) use self::hit_summary_cache::HitSummary;
use self::hit_summary_cache::SummaryCard;
use crate::Error;
use crate::store::{RegistryStore, VersionEntry};

/// The most documents in the cache, and the most bytes of their texts together. The same bounds hold for
/// cards. The cached part of a text is small.
const MAX_CACHED: usize = 16_384;
const MAX_CACHED_BYTES: usize = 64 * 1024 * 1024;
/// The most documents that are compiled at the same time: compiling is pure computation.
const MAX_COMPILERS: usize = 2;

/// A stored document that equals the published one.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedDocument {
    pub(crate) source: Vec<u8>,
    pub(crate) facts: Arc<CapabilityFacts>,
}

/// A stored document that differs from the published one, or cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CorruptDocument {
    /// The digest that the document has now, when it has one.
    pub(crate) computed: Option<Digest>,
    /// The defect, such as `has the checksum … now; … was published`.
    pub(crate) reason: String,
}

impl CorruptDocument {
    pub(crate) fn into_error(self, entry: &VersionEntry) -> Error {
        Error::DocumentDamaged {
            name: entry.name.clone(),
            version: entry.version.clone(),
            reason: self.reason,
        }
    }
}

/// The only reader of stored documents.
#[derive(Debug)]
pub(crate) struct DocumentReader {
    store: Arc<dyn RegistryStore>,
    /// The compiled texts, by the SHA-256 of each text.
    compiled: Mutex<TextCache<CompiledText>>,
    /// By the digests of the published documents: a card names its text.
    cards: Mutex<TextCache<SummaryCard>>,
    compilers: Semaphore,
    damaged: Counter,
}

/// The result of compiling a text.
#[derive(Debug, Clone)]
struct CompiledText {
    digest: Option<Digest>,
    /// Set when its field `checksum`, which is not part of the digest, has another value.
    states_other_checksum: bool,
    /// The facts; absent when the text is not a valid document for this version of the program.
    facts: Option<Arc<CapabilityFacts>>,
}

/// A cache of the most recent texts.
#[derive(Debug)]
struct TextCache<T> {
    entries: BTreeMap<Digest, T>,
    /// The keys, the oldest first, with the lengths of the texts.
    order: VecDeque<(Digest, usize)>,
    bytes: usize,
}

impl DocumentReader {
    pub(crate) fn new(store: Arc<dyn RegistryStore>, damaged: Counter) -> Self {
        let (readings, cards) = (Mutex::default(), Mutex::default());
        Self { store, compiled: readings, cards, compilers: Semaphore::new(MAX_COMPILERS), damaged }
    }

    /// Reads the documents of `entries`, in their order. Logs and counts damaged ones.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn open<'e>(
        &self,
        entries: impl IntoIterator<Item = &'e VersionEntry>,
    ) -> Result<Vec<(&'e VersionEntry, Result<VerifiedDocument, CorruptDocument>)>, Error> {
        let entries: Vec<_> = entries.into_iter().collect();
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        let mut sources = self.store.load_sources(&ids).await?;
        let checks = entries.into_iter().map(|entry| {
            let source = sources.remove(&entry.id);
            async move { Ok((entry, self.verify_entry(entry, source).await?)) }
        });
        futures::future::try_join_all(checks).await
    }

    /// Reads the document of one entry.
    ///
    /// # Errors
    /// Fails when the store does not respond, or the document is damaged.
    pub(crate) async fn open_one(&self, entry: &VersionEntry) -> Result<VerifiedDocument, Error> {
        let opened = self.open([entry]).await?.into_iter().next();
        let Some((entry, result)) = opened else {
            return Err(Error::Internal("a requested document was not returned".into()));
        };
        result.map_err(|damage| damage.into_error(entry))
    }

    /// Verifies the document of an entry. Only this function logs and counts damaged documents.
    async fn verify_entry(
        &self,
        entry: &VersionEntry,
        source: Option<Vec<u8>>,
    ) -> Result<Result<VerifiedDocument, CorruptDocument>, Error> {
        let result = match source {
            Some(source) => self.verify_source(entry, source).await?,
            None => Err(CorruptDocument { computed: None, reason: "is missing".to_owned() }),
        };
        if let Err(damage) = &result {
            self.damaged.inc();
            tracing::error!(
                name = %entry.name,
                version = %entry.version,
                recorded = %entry.digest,
                reason = damage.reason,
                "a stored document is damaged"
            );
        }
        Ok(result)
    }

    async fn verify_source(
        &self,
        entry: &VersionEntry,
        source: Vec<u8>,
    ) -> Result<Result<VerifiedDocument, CorruptDocument>, Error> {
        let (source, reading) = self.compile_cached(source).await?;
        let damage = |reason| Ok(Err(CorruptDocument { computed: reading.digest, reason }));
        let Some(computed) = reading.digest else {
            return damage("is no longer a document".to_owned());
        };
        if computed != entry.digest {
            return damage(format!(
                "now has the checksum {computed}, but was published with {}",
                entry.digest
            ));
        }
        if reading.states_other_checksum {
            return damage("no longer states its own checksum".to_owned());
        }
        let Some(facts) = reading.facts else {
            return damage("is not a valid document for this version of the program".to_owned());
        };
        if facts.name != entry.name || facts.version != entry.version {
            return damage(format!("is the document of `{}` {}", facts.name, facts.version));
        }
        Ok(Ok(VerifiedDocument { source, facts }))
    }

    async fn compile_cached(&self, source: Vec<u8>) -> Result<(Vec<u8>, CompiledText), Error> {
        let key = Digest::of_bytes(&source);
        if let Some(reading) = lock(&self.compiled).entries.get(&key) {
            return Ok((source, reading.clone()));
        }
        let (source, reading) = self
            .compute(move || {
                let compilation = a2s::compile_with_checksum(&source);
                let states_another = match (compilation.declared_checksum, compilation.digest) {
                    (Some(DeclaredChecksum::Given(stated)), Some(digest)) => stated != digest,
                    _ => true,
                };
                let facts = compilation
                    .document
                    .as_ref()
                    .map(|document| Arc::new(CapabilityFacts::from_document(document)));
                (
                    source,
                    CompiledText {
                        digest: compilation.digest,
                        states_other_checksum: states_another,
                        facts,
                    },
                )
            })
            .await?;
        lock(&self.compiled).insert(key, source.len(), reading.clone());
        Ok((source, reading))
    }

    /// Runs pure computation over a document on a blocking thread, a few at a time.
    ///
    /// # Errors
    /// When it panics.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let _permit = self.compilers.acquire().await.map_err(|e| Error::Internal(e.into()))?;
        tokio::task::spawn_blocking(computation).await.map_err(|e| Error::Internal(e.into()))
    }
}

fn lock<T>(remembered: &Mutex<TextCache<T>>) -> MutexGuard<'_, TextCache<T>> {
    // An entry is inserted completely or not at all, so a panic elsewhere harms nothing.
    remembered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Default for TextCache<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), bytes: 0 }
    }
}

impl<T> TextCache<T> {
    fn insert(&mut self, key: Digest, length: usize, what: T) {
        if self.entries.insert(key, what).is_none() {
            self.order.push_back((key, length));
            self.bytes += length;
        }
        while self.order.len() > MAX_CACHED || self.bytes > MAX_CACHED_BYTES {
            let Some((oldest, length)) = self.order.pop_front() else { return };
            self.entries.remove(&oldest);
            self.bytes -= length;
        }
    }
}
