//! The search indexes that follow a store, and how far each of them is.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ChangeSeq, Error};

/// The most remembered indexes. An index that is forgotten is rebuilt at the next start.
pub(super) const MAX_INDEXES: i64 = 1_000;

/// The id of a search index, which its store has created. Every id is different, even in two copies of a
/// store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct IndexId(pub(crate) String);

impl std::fmt::Display for IndexId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A store of the last change that each index has on disk.
#[async_trait]
pub(crate) trait IndexStore: Send + Sync {
    /// Creates an id for a new index, which has no changes yet.
    async fn create_index_id(&self) -> Result<IndexId, Error>;

    /// Returns the last change that an index has on disk; `None` when the store does not know the index.
    async fn load_indexed_seq(&self, index: &IndexId) -> Result<Option<ChangeSeq>, Error>;

    /// Records that an index has everything up to `indexed` on disk, if the store knows it. The number
    /// never decreases, even when several registries share an index.
    async fn advance_index(&self, index: &IndexId, indexed: ChangeSeq) -> Result<(), Error>;

    /// Deletes the record of an index.
    async fn delete_index(&self, index: &IndexId) -> Result<(), Error>;
}
