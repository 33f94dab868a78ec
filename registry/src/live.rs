//! The live versions that searches have asked for, in memory.
//!
//! A search weighs a hundred candidates and more, and reading their rows takes longer than finding
//! them. Whoever changes a row says so here behind it, and the indexer says so of every change that
//! it follows: so what another process has changed is known as soon as the index knows it. Whether a
//! document still is what was published is not decided by this: [`crate::documents`] reads it anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::CapabilityName;

use crate::Error;
use crate::store::{CapabilityId, Entry, Heads, Store};

/// How many are kept; beyond that all are forgotten.
const MOST: usize = 131_072;

/// Reads live versions, and remembers them until they change.
#[derive(Debug)]
pub(crate) struct Live {
    store: Arc<dyn Store>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<CapabilityId, Arc<Entry>>,
    ids: BTreeMap<CapabilityName, CapabilityId>,
    /// Grows with every change: what was read before one may be old behind it.
    changes: u64,
}

impl Live {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, kept: Mutex::default() }
    }

    /// The live versions of these capabilities. One of which all versions are yanked has none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn of(
        &self,
        capabilities: impl IntoIterator<Item = CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, Arc<Entry>>, Error> {
        let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
        let changes = {
            let kept = self.lock();
            for capability in capabilities {
                match kept.entries.get(&capability) {
                    Some(entry) => drop(found.insert(capability, Arc::clone(entry))),
                    None => missing.push(capability),
                }
            }
            kept.changes
        };
        if missing.is_empty() {
            return Ok(found);
        }
        let read = self.store.heads(Heads::Of(&missing)).await?;
        let mut kept = self.lock();
        let is_current = kept.changes == changes;
        if kept.entries.len() + read.len() > MOST {
            kept.forget_all();
        }
        for entry in read {
            let (capability, entry) = (entry.capability, Arc::new(entry));
            if is_current {
                kept.ids.insert(entry.name.clone(), capability);
                kept.entries.insert(capability, Arc::clone(&entry));
            }
            found.insert(capability, entry);
        }
        Ok(found)
    }

    /// Something about a capability of this name was written.
    pub(crate) fn changed(&self, name: &CapabilityName) {
        let mut kept = self.lock();
        kept.changes += 1;
        if let Some(capability) = kept.ids.remove(name) {
            kept.entries.remove(&capability);
        }
    }

    /// Something about these capabilities was written.
    pub(crate) fn changed_all(&self, capabilities: &[CapabilityId]) {
        let mut kept = self.lock();
        kept.changes += 1;
        for capability in capabilities {
            if let Some(entry) = kept.entries.remove(capability) {
                kept.ids.remove(&entry.name);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is held, and what is missing is read.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget_all(&mut self) {
        self.entries.clear();
        self.ids.clear();
    }
}

#[cfg(test)]
mod tests {
    use a2s::{Complexity, Digest};
    use jiff::Timestamp;

    use super::*;
    use crate::store::relations::Relations;
    use crate::store::{self, NewVersion, Publication};

    async fn live() -> (Live, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("registry.sqlite");
        let store = store::open(path.to_str().unwrap()).await.unwrap();
        (Live::new(store), folder)
    }

    async fn publish(live: &Live, name: &str, version: &str) {
        let new = NewVersion {
            name: name.parse().unwrap(),
            version: version.parse().unwrap(),
            digest: Digest::of_bytes(version.as_bytes()),
            source: String::new(),
            complexity: Complexity::Low,
            permissions: 0,
            published_at: Timestamp::UNIX_EPOCH,
            relations: Relations::default(),
        };
        let published = live.store.publish(&new).await.unwrap();
        assert!(matches!(published, Publication::Created(_)));
    }

    async fn versions(live: &Live) -> Vec<String> {
        let found = live.of((1..=3).map(CapabilityId)).await.unwrap();
        found.values().map(|entry| format!("{} {}", entry.name, entry.version)).collect()
    }

    #[tokio::test]
    async fn what_changed_is_read_again_and_nothing_else_is() {
        let (live, _folder) = live().await;
        publish(&live, "Alpha", "1.0.0").await;
        publish(&live, "Bravo", "1.0.0").await;
        assert_eq!(versions(&live).await, ["Alpha 1.0.0", "Bravo 1.0.0"]);
        publish(&live, "Alpha", "1.1.0").await;
        publish(&live, "Bravo", "1.1.0").await;
        assert_eq!(versions(&live).await, ["Alpha 1.0.0", "Bravo 1.0.0"], "nobody has said so");
        live.changed(&"Alpha".parse().unwrap());
        assert_eq!(versions(&live).await, ["Alpha 1.1.0", "Bravo 1.0.0"]);
        live.changed_all(&[CapabilityId(2), CapabilityId(3)]);
        assert_eq!(versions(&live).await, ["Alpha 1.1.0", "Bravo 1.1.0"]);
    }
}
