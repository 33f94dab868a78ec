//! Embeddings that were computed before: a cache that may lose anything at any time.

use std::collections::BTreeMap;

use a2s::Digest;
use async_trait::async_trait;

use super::Error;
use crate::embed::Embedding;

/// The maximum number of stored vectors: some texts of each of 100,000 capabilities.
pub(super) const MAX_EMBEDDINGS: i64 = 400_000;

/// A store of vectors, by a digest of embedder and text.
#[async_trait]
pub(crate) trait EmbeddingStore: Send + Sync {
    /// The cached vectors of these keys.
    async fn load_embeddings(&self, keys: &[Digest]) -> Result<BTreeMap<Digest, Embedding>, Error>;

    /// Stores new vectors, and deletes the oldest when there are too many.
    async fn save_embeddings(&self, new: &[(Digest, Embedding)]) -> Result<(), Error>;
}

/// Encodes a vector as little-endian floats. `None` becomes an empty list.
pub(super) fn pack(vector: &Embedding) -> Vec<u8> {
    vector.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
}

/// Decodes a vector. Returns `None` when the bytes are not a vector.
pub(super) fn unpack(bytes: &[u8]) -> Option<Embedding> {
    if bytes.is_empty() {
        return Some(None);
    }
    let (numbers, rest) = bytes.as_chunks::<4>();
    let vector: Vec<_> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    (rest.is_empty() && vector.iter().all(|number| number.is_finite())).then_some(Some(vector))
}
