//! The state of a registry's search index.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The search index that is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IndexStatus {
    /// The embedder of its texts: a name that changes whenever the vectors would change.
    pub embedder: String,
    /// The length of the vectors.
    pub dimensions: usize,
    /// The number of capabilities in it.
    pub points: usize,
    /// The number of changes that its graph does not contain yet. Searches compare that many capabilities
    /// one by one.
    pub fresh: usize,
    /// The index that will replace it; null when none is being built.
    pub building: Option<IndexBuilding>,
}

/// A search index that is being built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IndexBuilding {
    /// The embedder of its texts.
    pub embedder: String,
    /// The number of capabilities in it.
    pub done: u64,
    /// The number of capabilities at the start of the build.
    pub total: u64,
    /// True when the last request to the embedder got no response; the registry will try again.
    pub waiting: bool,
}
