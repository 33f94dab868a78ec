//! The sentence encoder at work: threads of its own, a bounded queue, and the vectors of capabilities.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::Digest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::WeightedParts;
use super::workers::EncoderWorkers;
use crate::Error;
use crate::embed::{Embedding, QualityEmbedder, SentenceVector};
use crate::learned_intents::{LearnedMean, LearnedWeight};
use crate::store::RegistryStore;

/// The maximum number of threads.
const MAX_THREADS: usize = 4;
/// The maximum number of searches that wait for a thread, for each thread. Further ones are answered
/// without the encoder.
const QUEUE_PER_THREAD: usize = 32;
/// The maximum number of vectors in memory.
const MAX_CACHED: usize = 131_072;

/// The sentence encoder, and the vectors that it made of capabilities.
#[derive(Debug)]
pub(crate) struct SentenceService {
    embedder: QualityEmbedder,
    workers: EncoderWorkers,
    queue: Arc<Semaphore>,
    store: Arc<dyn RegistryStore>,
    /// Set when accepted intents count.
    learns: bool,
    /// Vectors by the digest of the document.
    cached: Mutex<BTreeMap<Digest, Arc<SentenceVector>>>,
}

impl SentenceService {
    /// Starts the threads.
    ///
    /// # Errors
    /// Fails when the system starts no threads.
    pub(super) fn start(store: Arc<dyn RegistryStore>, learns: bool) -> Result<Self, Error> {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let count = processors.min(MAX_THREADS);
        let workers =
            EncoderWorkers::start(count).map_err(|error| Error::Internal(error.into()))?;
        Ok(Self {
            embedder: QualityEmbedder::new(),
            workers,
            queue: Arc::new(Semaphore::new(count * QUEUE_PER_THREAD)),
            store,
            learns,
            cached: Mutex::default(),
        })
    }

    pub(super) fn embedder(&self) -> &QualityEmbedder {
        &self.embedder
    }

    /// Runs `work` for a search. `None` when too many searches wait already: the answer depends on how many
    /// ask at once, but never on how long something takes.
    pub(super) async fn for_search<T: Send + 'static>(
        &self,
        work: impl FnOnce(&QualityEmbedder) -> T + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.queue).try_acquire_owned().ok()?;
        self.run(Some(permit), work).await
    }

    /// Returns the vector of an accepted intent.
    pub(super) async fn embed_accepted(&self, intent: String) -> Embedding {
        self.run(None, move |embedder| embedder.embed(&[&intent]).into_iter().next()?).await?
    }

    async fn run<T: Send + 'static>(
        &self,
        permit: Option<OwnedSemaphorePermit>,
        work: impl FnOnce(&QualityEmbedder) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let embedder = self.embedder.clone();
        self.workers.spawn(move || {
            let result = work(&embedder);
            drop(permit);
            // Who does not wait any more needs no result.
            let _ = sender.send(result);
        });
        receiver.await.ok()
    }

    /// Encodes capabilities that were not encoded before, each with the digest of its document, and stores
    /// the vectors.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn encode(&self, documents: &[(Digest, WeightedParts)]) -> Result<(), Error> {
        let digests: Vec<_> = documents.iter().map(|(digest, _)| *digest).collect();
        // Their accepted intents may be others than before.
        self.forget(&digests);
        let known = self.load(&digests).await?;
        let missing: Vec<_> =
            documents.iter().filter(|(digest, _)| !known.contains_key(digest)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let digests: Vec<_> = missing.iter().map(|(digest, _)| *digest).collect();
        let learned = self.load_learned(&digests).await?;
        // One after another, so that a search never waits long.
        for (digest, parts) in missing {
            let parts = parts.clone();
            let encoded = self.run(None, move |embedder| embedder.embed_parts(&parts)).await;
            let Some(vector) = encoded else { continue };
            let row = [(self.key(*digest), vector.clone())];
            if let Err(error) = self.store.save_embeddings(&row).await {
                // It costs the same again some day; that is all.
                tracing::warn!(%error, "vectors of sentences could not be stored");
            }
            let vector = add_learned(vector, learned.get(digest));
            self.cache(vector.map(|vector| (*digest, vector)).into_iter());
        }
        Ok(())
    }

    /// Drops the vectors of documents from memory when accepted intents count: another registry may have
    /// added some.
    pub(crate) fn forget(&self, digests: &[Digest]) {
        if self.learns {
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            digests.iter().for_each(|digest| drop(cached.remove(digest)));
        }
    }

    /// The means of accepted intents, by the digest of the documents.
    async fn load_learned(
        &self,
        digests: &[Digest],
    ) -> Result<BTreeMap<Digest, LearnedMean>, Error> {
        if !self.learns {
            return Ok(BTreeMap::new());
        }
        Ok(self.store.load_learned_of_documents(digests, self.embedder.id()).await?)
    }

    /// Returns the vectors of capabilities, by the digest of their documents. One that was not encoded yet
    /// has none.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn load(
        &self,
        digests: &[Digest],
    ) -> Result<BTreeMap<Digest, Arc<SentenceVector>>, Error> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        {
            let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            for digest in digests {
                match cached.get(digest) {
                    Some(vector) => drop(found.insert(*digest, Arc::clone(vector))),
                    None => missing.push((self.key(*digest), *digest)),
                }
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let (keys, unread): (Vec<_>, Vec<_>) = missing.iter().copied().unzip();
        let stored = self.store.load_embeddings(&keys).await?;
        let learned = self.load_learned(&unread).await?;
        let dimensions = self.embedder.dimensions();
        let read: Vec<_> = missing
            .into_iter()
            .filter_map(|(key, digest)| {
                let vector = stored.get(&key)?.as_ref()?;
                let vector = (vector.len() == dimensions).then(|| vector.clone());
                Some((digest, add_learned(vector, learned.get(&digest))?))
            })
            .collect();
        self.cache(read.iter().cloned());
        found.extend(read);
        Ok(found)
    }

    fn cache(&self, vectors: impl Iterator<Item = (Digest, Arc<SentenceVector>)>) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.extend(vectors);
    }

    /// The key of a capability's vector among the stored ones.
    fn key(&self, digest: Digest) -> Digest {
        Digest::of_bytes(format!("{} capability {digest}", self.embedder.id()).as_bytes())
    }
}

/// Adds what was learned to the vector of a capability's text.
fn add_learned(text: Embedding, learned: Option<&LearnedMean>) -> Option<Arc<SentenceVector>> {
    let vector = match learned {
        Some(mean) => mean.add_to(text, LearnedWeight::SENTENCE),
        None => text,
    };
    vector.map(|vector| Arc::new(SentenceVector::from_unit(&vector)))
}
