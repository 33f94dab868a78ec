//! The search indexes that follow a store, and how far each of them is.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{CapabilityId, ChangeSeq, Error};
use crate::bm25::SparseVector;

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

/// A point in the copy of an index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointRow {
    pub(crate) dense: Option<Vec<f32>>,
    pub(crate) sparse: SparseVector,
    /// The rest, as JSON. Opaque here.
    pub(crate) facts: String,
}

/// A change of the copy of an index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CopyChange {
    pub(crate) capability: CapabilityId,
    /// The last change of the store when the point was made: it replaces nothing that is newer.
    pub(crate) as_of: ChangeSeq,
    /// The point; without one, that of the capability is removed.
    pub(crate) row: Option<PointRow>,
}

/// A store of the last change that each index has on disk, and of copies of the indexes in memory.
#[async_trait]
pub(crate) trait IndexStore: Send + Sync {
    /// Creates an id for a new index, which has no changes yet.
    async fn create_index_id(&self) -> Result<IndexId, Error>;

    /// Returns the last change that an index has on disk; `None` when the store does not know the index.
    async fn load_indexed_seq(&self, index: &IndexId) -> Result<Option<ChangeSeq>, Error>;

    /// Records that an index has everything up to `indexed` on disk, if the store knows it. The number
    /// never decreases, even when several registries share an index.
    async fn advance_index(&self, index: &IndexId, indexed: ChangeSeq) -> Result<(), Error>;

    /// Deletes the record of an index, with its copy.
    async fn delete_index(&self, index: &IndexId) -> Result<(), Error>;

    /// Returns the identities of all complete copies with the last change that each of them has, the newest
    /// copy first.
    async fn list_index_copies(&self) -> Result<Vec<(String, ChangeSeq)>, Error>;

    /// Returns at most `limit` points of a copy after a capability, in the order of the capabilities. A
    /// capability without a live version has none. The result is `None` when a vector was changed by hand.
    async fn load_index_points(
        &self,
        index: &IndexId,
        after: CapabilityId,
        limit: u32,
    ) -> Result<Option<Vec<(CapabilityId, PointRow)>>, Error>;

    /// Writes changes into a copy. Nothing is written for an index that the store does not know.
    async fn save_index_points(&self, index: &IndexId, changes: &[CopyChange])
    -> Result<(), Error>;

    /// Writes a whole copy, which is complete then.
    async fn save_index_copy(
        &self,
        index: &IndexId,
        identity: &str,
        changes: &[CopyChange],
    ) -> Result<(), Error>;
}
