//! Private items for the fuzz targets.

use crate::embed::{Embedding, embeddings_response};

/// The maximum length of a vector, in dimensions.
pub const MAX_DIMENSIONS: usize = embeddings_response::MAX_DIMENSIONS;

/// Reads the answer of an embeddings API.
///
/// # Errors
/// When the answer cannot be used.
pub fn parse_response(
    answer: &[u8],
    count: usize,
    expected: Option<usize>,
) -> Result<(Vec<Embedding>, usize), String> {
    embeddings_response::parse_response(answer, count, expected)
}
