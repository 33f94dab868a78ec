//! What embedders gave before: a cache that may lose anything at any time.

use std::collections::BTreeMap;

use a2s::Digest;
use async_trait::async_trait;

use super::Error;
use crate::embed::Embedding;

/// Remembers vectors by a digest of embedder and text.
#[async_trait]
pub(crate) trait EmbeddingStore: Send + Sync {
    /// Those that are remembered.
    async fn embeddings(&self, keys: &[Digest]) -> Result<BTreeMap<Digest, Embedding>, Error>;

    /// Remembers more, and forgets the oldest when there are too many.
    async fn remember_embeddings(&self, new: &[(Digest, Embedding)]) -> Result<(), Error>;
}
