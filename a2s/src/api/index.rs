//! The state of a registry's search index.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The search index that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IndexStatus {
    /// What turned its texts into vectors: a name that changes whenever the vectors would.
    pub embedder: String,
    /// How long those are.
    pub dimensions: usize,
    /// How many capabilities are in it.
    pub points: usize,
    /// How many changes its graph lacks. Searches compare so many capabilities one by one.
    pub fresh: usize,
    /// The index that will take its place; null when none is being built.
    pub building: Option<IndexBuilding>,
}

/// A search index that is being built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IndexBuilding {
    /// What turns its texts into vectors.
    pub embedder: String,
    /// Capabilities that are in it.
    pub done: u64,
    /// Capabilities that there were when it was begun.
    pub total: u64,
    /// Whether the embedder did not answer when it was last asked; it will be asked again.
    pub waiting: bool,
}
