//! A cache of the live versions for searches, in memory.
//!
//! A search ranks a hundred candidates and more, and reading their rows takes longer than finding them. So
//! the rows are loaded at the start and cached. Writers invalidate entries after commit. The indexer
//! invalidates entries for every change that it follows and for outcomes that were reported to other
//! registries, so changes of other processes are known within seconds. The cache does not verify documents:
//! [`crate::documents`] does that at each read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::CapabilityName;

use crate::Error;
use crate::store::{CapabilityId, LiveVersionQuery, RegistryStore, VersionEntry};

/// The most cached entries; if a search needs more, the cache is cleared.
const MAX_CACHED: usize = 131_072;
/// The number of entries that the preload reads at once.
const BATCH: u32 = 1_000;

/// A cache of live versions. An entry is valid until the version changes.
#[derive(Debug)]
pub(crate) struct LiveVersionCache {
    store: Arc<dyn RegistryStore>,
    cached: Mutex<CachedVersions>,
}

#[derive(Debug, Default)]
struct CachedVersions {
    entries: BTreeMap<CapabilityId, Arc<VersionEntry>>,
    ids: BTreeMap<CapabilityName, CapabilityId>,
    /// Grows with every change: rows that were read before a change may be stale after it.
    changes: u64,
}

impl LiveVersionCache {
    pub(crate) fn new(store: Arc<dyn RegistryStore>) -> Self {
        Self { store, cached: Mutex::default() }
    }

    /// Returns the live versions of these capabilities. A capability with only yanked versions has none.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn load(
        &self,
        capabilities: impl IntoIterator<Item = CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, Arc<VersionEntry>>, Error> {
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
        let read = self.store.live_versions(LiveVersionQuery::ByIds(&missing)).await?;
        let read: Vec<_> = read.into_iter().map(Arc::new).collect();
        let mut kept = self.lock();
        if !kept.has_room_for(read.len()) {
            kept.clear();
        }
        kept.insert(&read, changes);
        found.extend(read.into_iter().map(|entry| (entry.capability, entry)));
        Ok(found)
    }

    /// Reads all live versions before searches need them, as long as the cache has room.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn preload(&self) -> Result<(), Error> {
        let mut after = None::<CapabilityName>;
        loop {
            let changes = self.lock().changes;
            let name = after.as_ref().map(CapabilityName::as_str);
            let read = self.store.live_versions(LiveVersionQuery::AfterName(name, BATCH)).await?;
            let Some(last) = read.last() else { return Ok(()) };
            after = Some(last.name.clone());
            let mut kept = self.lock();
            if !kept.has_room_for(read.len()) {
                return Ok(());
            }
            kept.insert(&read.into_iter().map(Arc::new).collect::<Vec<_>>(), changes);
        }
    }

    /// Removes the capability with this name from the cache after a change.
    pub(crate) fn invalidate(&self, name: &CapabilityName) {
        let mut kept = self.lock();
        kept.changes += 1;
        if let Some(capability) = kept.ids.remove(name) {
            kept.entries.remove(&capability);
        }
    }

    /// Removes these capabilities from the cache after a change.
    pub(crate) fn invalidate_all(&self, capabilities: &[CapabilityId]) {
        let mut kept = self.lock();
        kept.changes += 1;
        for capability in capabilities {
            if let Some(entry) = kept.entries.remove(capability) {
                kept.ids.remove(&entry.name);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedVersions> {
        // Nothing panics while it is held, and a missing entry is read.
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedVersions {
    fn has_room_for(&self, more: usize) -> bool {
        self.entries.len() + more <= MAX_CACHED
    }

    /// Caches rows that were read when the counter had the value `changes`. Discards them if there was a
    /// change since; the next search reads them again.
    fn insert(&mut self, read: &[Arc<VersionEntry>], changes: u64) {
        if self.changes != changes {
            return;
        }
        for entry in read {
            self.ids.insert(entry.name.clone(), entry.capability);
            self.entries.insert(entry.capability, Arc::clone(entry));
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.ids.clear();
    }
}

#[cfg(test)]
mod tests {
    use a2s::{Complexity, Digest};
    use jiff::Timestamp;

    use super::*;
    use crate::store::dependency_rows::RelationRows;
    use crate::store::lifecycle::AuditActor;
    use crate::store::{self, NewVersion, PublicationResult};
    use crate::tests::database::Folder;

    async fn live() -> (LiveVersionCache, Folder) {
        let folder = Folder::new().await;
        let store = store::open(&folder.config(None).database).await.unwrap();
        (LiveVersionCache::new(store), folder)
    }

    async fn publish(live: &LiveVersionCache, name: &str, version: &str) {
        let actor = AuditActor::from_caller(&a2s_api::Caller::owner(), Timestamp::UNIX_EPOCH);
        let new = NewVersion {
            name: name.parse().unwrap(),
            version: version.parse().unwrap(),
            digest: Digest::of_bytes(version.as_bytes()),
            source: String::new(),
            complexity: Complexity::Low,
            permissions: 0,
            relations: RelationRows::default(),
        };
        let published = live.store.publish(&new, &actor).await.unwrap();
        assert!(matches!(published, PublicationResult::Created(_)));
    }

    async fn versions(live: &LiveVersionCache) -> Vec<String> {
        let found = live.load((1..=3).map(CapabilityId)).await.unwrap();
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
        live.invalidate(&"Alpha".parse().unwrap());
        assert_eq!(versions(&live).await, ["Alpha 1.1.0", "Bravo 1.0.0"]);
        live.invalidate_all(&[CapabilityId(2), CapabilityId(3)]);
        assert_eq!(versions(&live).await, ["Alpha 1.1.0", "Bravo 1.1.0"]);
    }

    #[tokio::test]
    async fn what_was_read_beside_a_change_is_not_kept() {
        let (live, _folder) = live().await;
        publish(&live, "Alpha", "1.0.0").await;
        let changes = live.lock().changes;
        let read =
            live.store.live_versions(LiveVersionQuery::ByIds(&[CapabilityId(1)])).await.unwrap();
        let read: Vec<_> = read.into_iter().map(Arc::new).collect();
        publish(&live, "Alpha", "1.1.0").await;
        live.invalidate(&"Alpha".parse().unwrap());
        live.lock().insert(&read, changes);
        assert_eq!(versions(&live).await, ["Alpha 1.1.0"]);
    }

    #[tokio::test]
    async fn what_was_read_ahead_is_not_read_again() {
        let (live, _folder) = live().await;
        publish(&live, "Alpha", "1.0.0").await;
        publish(&live, "Bravo", "1.0.0").await;
        live.preload().await.unwrap();
        publish(&live, "Alpha", "1.1.0").await;
        assert_eq!(versions(&live).await, ["Alpha 1.0.0", "Bravo 1.0.0"], "nobody has said so");
        live.invalidate(&"Alpha".parse().unwrap());
        assert_eq!(versions(&live).await, ["Alpha 1.1.0", "Bravo 1.0.0"]);
    }
}
