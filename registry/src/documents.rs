//! Stored documents, checked each time they are read.
//!
//! Whoever can write to the database can change a stored text, its recorded digest, or both. So
//! nothing is taken from a stored text before the digest of its content was computed anew and
//! found equal to the recorded one, and its name and version to those of its row. To make that
//! cheap, what a text compiles to is remembered under the SHA-256 of its bytes: equal bytes have
//! equal content, and the memory is out of reach of the database. What searches tell of a text is
//! also on a [`Card`] in the index.

mod capability_facts;
mod hit_summary;
mod hit_summary_cache;
mod load_dependencies;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::{Digest, StatedChecksum};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Semaphore;

pub(crate) use self::capability_facts::{Facts, author_key};
use self::hit_summary_cache::Card;
pub(crate) use self::hit_summary_cache::Told;
use crate::Error;
use crate::store::{Entry, Store};

/// How many documents are remembered, and how many bytes their texts may have together; and as many
/// cards. What is remembered of a text is a small part of it.
const MOST_REMEMBERED: usize = 16_384;
const MOST_REMEMBERED_BYTES: usize = 64 * 1024 * 1024;
/// How many documents are compiled at once: it is pure computation.
const COMPILERS: usize = 2;

/// A stored document that is what was published.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) source: Vec<u8>,
    pub(crate) facts: Arc<Facts>,
}

/// A stored document that is not what was published, or cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Damage {
    /// The digest that it has now, when it has one.
    pub(crate) computed: Option<Digest>,
    /// What is wrong: `has the checksum … now, but …`.
    pub(crate) reason: String,
}

impl Damage {
    pub(crate) fn into_error(self, entry: &Entry) -> Error {
        Error::Damaged {
            name: entry.name.clone(),
            version: entry.version.clone(),
            reason: self.reason,
        }
    }
}

/// The only reader of stored documents.
#[derive(Debug)]
pub(crate) struct Documents {
    store: Arc<dyn Store>,
    /// By the SHA-256 of their texts.
    readings: Mutex<Remembered<Reading>>,
    /// By the digests of what was published: a card knows of which text it is.
    cards: Mutex<Remembered<Card>>,
    compilers: Semaphore,
    damaged: Counter,
}

/// What a text compiles to.
#[derive(Debug, Clone)]
struct Reading {
    digest: Option<Digest>,
    /// Whether its field `checksum`, which the digest leaves out, says something else.
    states_another: bool,
    /// Absent when the text is no valid document for this version of the program.
    facts: Option<Arc<Facts>>,
}

/// What is known of the most recent texts.
#[derive(Debug)]
struct Remembered<T> {
    known: BTreeMap<Digest, T>,
    /// The oldest first, with the lengths of the texts.
    order: VecDeque<(Digest, usize)>,
    bytes: usize,
}

impl Documents {
    pub(crate) fn new(store: Arc<dyn Store>, damaged: Counter) -> Self {
        let (readings, cards) = (Mutex::default(), Mutex::default());
        Self { store, readings, cards, compilers: Semaphore::new(COMPILERS), damaged }
    }

    /// Reads the documents of `entries`, in their order. A damaged one is logged and counted.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn open<'e>(
        &self,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<Vec<(&'e Entry, Result<Opened, Damage>)>, Error> {
        let entries: Vec<_> = entries.into_iter().collect();
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        let mut sources = self.store.sources(&ids).await?;
        let checks = entries.into_iter().map(|entry| {
            let source = sources.remove(&entry.id);
            async move { Ok((entry, self.check(entry, source).await?)) }
        });
        futures::future::try_join_all(checks).await
    }

    /// Reads the document of one entry.
    ///
    /// # Errors
    /// When the store does not answer, or the document is damaged.
    pub(crate) async fn open_one(&self, entry: &Entry) -> Result<Opened, Error> {
        let opened = self.open([entry]).await?.into_iter().next();
        let Some((entry, result)) = opened else {
            return Err(Error::Internal("a document was asked for and none came".into()));
        };
        result.map_err(|damage| damage.into_error(entry))
    }

    /// A damaged document is logged and counted here, and nowhere else.
    async fn check(
        &self,
        entry: &Entry,
        source: Option<Vec<u8>>,
    ) -> Result<Result<Opened, Damage>, Error> {
        let result = match source {
            Some(source) => self.compare(entry, source).await?,
            None => Err(Damage { computed: None, reason: "is gone".to_owned() }),
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

    async fn compare(
        &self,
        entry: &Entry,
        source: Vec<u8>,
    ) -> Result<Result<Opened, Damage>, Error> {
        let (source, reading) = self.read(source).await?;
        let damage = |reason| Ok(Err(Damage { computed: reading.digest, reason }));
        let Some(computed) = reading.digest else {
            return damage("is no document any more".to_owned());
        };
        if computed != entry.digest {
            return damage(format!(
                "has the checksum {computed} now; {} was published",
                entry.digest
            ));
        }
        if reading.states_another {
            return damage("no longer states its own checksum".to_owned());
        }
        let Some(facts) = reading.facts else {
            return damage("is no valid document for this version of the program".to_owned());
        };
        if facts.name != entry.name || facts.version != entry.version {
            return damage(format!("is the one of `{}` {}", facts.name, facts.version));
        }
        Ok(Ok(Opened { source, facts }))
    }

    async fn read(&self, source: Vec<u8>) -> Result<(Vec<u8>, Reading), Error> {
        let key = Digest::of_bytes(&source);
        if let Some(reading) = lock(&self.readings).known.get(&key) {
            return Ok((source, reading.clone()));
        }
        let (source, reading) = self
            .compute(move || {
                let compilation = a2s::compile_with_checksum(&source);
                let states_another = match (compilation.stated, compilation.digest) {
                    (Some(StatedChecksum::Given(stated)), Some(digest)) => stated != digest,
                    _ => true,
                };
                let facts =
                    compilation.document.as_ref().map(|document| Arc::new(Facts::of(document)));
                (source, Reading { digest: compilation.digest, states_another, facts })
            })
            .await?;
        lock(&self.readings).insert(key, source.len(), reading.clone());
        Ok((source, reading))
    }

    /// Runs pure computation over a document where it holds nobody up, a few at a time.
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

fn lock<T>(remembered: &Mutex<Remembered<T>>) -> MutexGuard<'_, Remembered<T>> {
    // What is remembered is inserted whole or not at all, so a panic elsewhere harms nothing.
    remembered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), order: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Remembered<T> {
    fn insert(&mut self, key: Digest, length: usize, what: T) {
        if self.known.insert(key, what).is_none() {
            self.order.push_back((key, length));
            self.bytes += length;
        }
        while self.order.len() > MOST_REMEMBERED || self.bytes > MOST_REMEMBERED_BYTES {
            let Some((oldest, length)) = self.order.pop_front() else { return };
            self.known.remove(&oldest);
            self.bytes -= length;
        }
    }
}
