//! Meaning as vectors: what turns text into them, and the text it is given.
//!
//! The built-in embedder needs no network, no model file and no second process. It is a table with
//! one small vector per word piece, part of the binary; the vector of a text is the sum of the rows
//! of its pieces, scaled to length one. The rows were fitted so that such sums point where a
//! sentence transformer points: `tools/embedding` holds the recipe and the model card.
//!
//! ```
//! use registry::embed::BuiltIn;
//!
//! let embedder = BuiltIn::new();
//! let breeds = embedder.embed("List Dog Breeds Retrieve a list of dog breeds").unwrap();
//! let river = embedder.embed("Get River Level Latest water level of a river").unwrap();
//! let query = embedder.embed("pooch kinds").unwrap();
//! let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
//! assert!(cosine(&query, &breeds) > cosine(&query, &river));
//! assert_eq!(embedder.embed("…"), None);
//! ```
//!
//! The others are an [`EmbeddingEndpoint`] over HTTP and, with the feature `local-embedder`, a model in a
//! folder.

use std::path::Path;
use std::time::Duration;

use a2s_api::SearchMode;

use self::static_table::{EmbeddingTable, ValueWidth};
pub(crate) use self::unit_vector::{cosine, to_unit};

mod elsewhere;
pub(crate) mod embeddings_response;
mod endpoint;
#[cfg(feature = "local-embedder")]
mod local;
mod model_vocabulary;
mod quality;
mod sentence_vector;
mod similarity_calibration;
mod static_table;
mod text;
mod unit_vector;
mod wordpiece_tokenizer;

pub use self::elsewhere::elsewhere_heights;
pub use self::endpoint::{EmbeddingEndpoint, EndpointConfig, VectorEncoding};
#[cfg(feature = "local-embedder")]
pub use self::local::LocalModel;
pub use self::quality::QualityEmbedder;
pub use self::sentence_vector::SentenceVector;
pub use self::similarity_calibration::SimilarityScale;
pub use self::text::{EmbeddingSource, IndexedText, MAX_INTENTS, index_text};
pub use self::unit_vector::Embedding;

static TABLE: &[u8] = include_bytes!("../data/embedding.a2se");
/// The SHA-256 of the table, from `sha256sum`. A test checks that they match.
static TABLE_DIGEST: &str = include_str!("../data/embedding.a2se.sha256");

/// The version of the rules. Raise it when other code than the table changes stored vectors: the splitting
/// of text into pieces, or the text that [`index_text`] returns for the vector.
const RULES: u32 = 3;

/// The maximum number of word pieces of a text that count for the built-in embedder. It is the limit of the
/// model from which the table was learnt.
const MAX_PIECES: usize = 512;

/// An embedding model, which turns text into vectors.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Embedder {
    /// The table in the binary, with or without the sentence encoder.
    BuiltIn(BuiltIn),
    /// A service that speaks the embeddings API of `OpenAI`.
    Endpoint(EmbeddingEndpoint),
    /// A sentence transformer in a folder.
    #[cfg(feature = "local-embedder")]
    Local(LocalModel),
}

/// The purpose of a text. Some models treat queries and documents differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedPurpose {
    /// The text of a capability in the index.
    Document,
    /// The text of a search.
    Query,
}

/// Prefixes that some models expect before each text, such as `query: ` and `passage: `.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptPrefixes {
    /// The text before a query.
    pub query: Option<String>,
    /// The text before the text of a capability.
    pub document: Option<String>,
}

impl PromptPrefixes {
    /// Returns the text of the prefixes in the source of an embedder's id. A change of this text makes the
    /// registry rebuild every index of such an embedder.
    fn to_id_source(&self) -> String {
        let Self { query, document } = self;
        format!("Prefixes {{ query: {query:?}, document: {document:?} }}")
    }
}

/// The time that an embedder has for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbedDeadline {
    /// For a waiting caller: one attempt of at most this time. Not even one while an endpoint is skipped
    /// after repeated failures.
    Short(Duration),
    /// For background work: several attempts with pauses, as the endpoint asks for.
    Long,
}

/// An error of an embedder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The embedder can never work with this configuration.
    #[error("{0}")]
    Unusable(String),
    /// The embedder did not work this time.
    #[error("{0}")]
    Unavailable(String),
}

impl Embedder {
    /// Returns the built-in embedder, which is always available: the table, and the sentence encoder, which
    /// compares what the table finds.
    #[must_use]
    pub fn built_in() -> Self {
        Self::BuiltIn(BuiltIn { mode: SearchMode::Quality, ..BuiltIn::new() })
    }

    /// Returns the built-in embedder without the sentence encoder.
    #[must_use]
    pub fn fast() -> Self {
        Self::BuiltIn(BuiltIn::new())
    }

    /// Creates an embedder for a service that speaks the embeddings API of `OpenAI`. It sends no request
    /// yet.
    ///
    /// # Errors
    /// Returns [Unusable](Error::Unusable) when no request is possible with this configuration.
    pub fn endpoint(config: EndpointConfig) -> Result<Self, Error> {
        EmbeddingEndpoint::new(config).map(Self::Endpoint)
    }

    /// Loads a sentence transformer from a folder in the format of the library with that name.
    ///
    /// # Errors
    /// Returns [Unusable](Error::Unusable) when a file is missing or broken, this kind of model is not
    /// supported, or this build lacks the feature `local-embedder`.
    #[cfg_attr(
        not(feature = "local-embedder"),
        expect(unused_variables, clippy::needless_pass_by_value, reason = "no model takes them")
    )]
    pub fn local(folder: &Path, prefixes: PromptPrefixes) -> Result<Self, Error> {
        #[cfg(feature = "local-embedder")]
        return LocalModel::open(folder, prefixes).map(Self::Local);
        #[cfg(not(feature = "local-embedder"))]
        Err(Error::Unusable(format!(
            "this build cannot load the model in `{}`; build it with the feature \
             `local-embedder`",
            folder.display()
        )))
    }

    /// A name that changes whenever the vectors would, such as `builtin-256-int4-0123456789ab-2`. An index
    /// stores it with its vectors and is rebuilt when it differs.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::BuiltIn(built_in) => &built_in.id,
            Self::Endpoint(endpoint) => endpoint.id(),
            #[cfg(feature = "local-embedder")]
            Self::Local(local) => local.id(),
        }
    }

    /// Returns the length of the vectors. For an endpoint, the first call sends a request.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] when the endpoint does not return a vector.
    pub async fn dimensions(&self) -> Result<usize, Error> {
        match self {
            Self::BuiltIn(built_in) => Ok(built_in.dimensions()),
            Self::Endpoint(endpoint) => endpoint.dimensions().await,
            #[cfg(feature = "local-embedder")]
            Self::Local(local) => Ok(local.dimensions()),
        }
    }

    /// Returns the vectors of texts, in their order, each of length one.
    ///
    /// A vector is `None` when the text has no meaning to this embedder. Then there is nothing to compare:
    /// rank the text by its terms alone. Every embedder has a limit on how much of a long text counts.
    ///
    /// # Errors
    /// Fails when the embedder returns no vectors; this never happens with [`Embedder::BuiltIn`].
    pub async fn embed(
        &self,
        texts: Vec<String>,
        purpose: EmbedPurpose,
        patience: EmbedDeadline,
    ) -> Result<Vec<Embedding>, Error> {
        match self {
            Self::BuiltIn(built_in) => Ok(texts.iter().map(|text| built_in.embed(text)).collect()),
            Self::Endpoint(endpoint) => endpoint.embed(texts, purpose, patience).await,
            #[cfg(feature = "local-embedder")]
            Self::Local(local) => local.embed(texts, purpose).await,
        }
    }
}

impl PromptPrefixes {
    /// The prefix of a text.
    fn prefix_for(&self, purpose: EmbedPurpose) -> &str {
        let prefix = match purpose {
            EmbedPurpose::Query => &self.query,
            EmbedPurpose::Document => &self.document,
        };
        prefix.as_deref().unwrap_or_default()
    }
}

/// The table in the binary. Copies share it.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    table: EmbeddingTable<'static>,
    id: String,
    mode: SearchMode,
}

impl Default for BuiltIn {
    fn default() -> Self {
        Self::new()
    }
}

impl BuiltIn {
    /// Creates the embedder with the built-in table.
    #[must_use]
    pub fn new() -> Self {
        let table =
            EmbeddingTable::parse(TABLE).expect("the table in the binary is the committed one");
        let width = match table.width() {
            ValueWidth::Int4 => "int4",
            ValueWidth::Int8 => "int8",
        };
        let digest = TABLE_DIGEST.get(..12).unwrap_or(TABLE_DIGEST);
        let id = format!("builtin-{}-{width}-{digest}-{RULES}", table.dimensions());
        Self { table, id, mode: SearchMode::Fast }
    }

    /// Tells if the sentence encoder compares what the table finds.
    #[must_use]
    pub fn mode(&self) -> SearchMode {
        self.mode
    }

    /// Returns the length of the vectors.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.table.dimensions()
    }

    /// Returns the vector of a text, of length one.
    ///
    /// It is `None` when the text has no meaning to the table: the text is empty, or has only punctuation
    /// or a script that the table does not cover. Only the first 64 KiB and 512 word pieces of a long text
    /// count.
    #[must_use]
    pub fn embed(&self, text: &str) -> Embedding {
        let mut vector = vec![0.0; self.table.dimensions()];
        wordpiece_tokenizer::visit_pieces(&self.table, text, MAX_PIECES, |piece| {
            if let Some(piece) = piece {
                self.table.add_row(piece, &mut vector);
            }
        });
        to_unit(vector)
    }

    /// The scale of its cosines.
    #[must_use]
    pub fn scale(&self) -> SimilarityScale {
        let vectors: Vec<_> = SimilarityScale::texts().map(|text| self.embed(text)).collect();
        SimilarityScale::from_vectors(&vectors, &vectors)
    }

    /// Returns the vector of a text in parts; see [`combine_parts`].
    #[must_use]
    pub fn embed_parts(&self, parts: &[(String, f32)]) -> Embedding {
        combine_parts(parts.iter().map(|(text, weight)| (self.embed(text), *weight)))
    }
}

/// Combines the vectors of the parts of a text into one vector of length one. Each part counts by its
/// weight, not by its length. Returns `None` when no part has a meaning.
pub fn combine_parts(parts: impl IntoIterator<Item = (Embedding, f32)>) -> Embedding {
    let mut sum: Vec<f32> = Vec::new();
    for (vector, weight) in parts {
        let vector = vector.unwrap_or_default();
        sum.resize(sum.len().max(vector.len()), 0.0);
        for (place, value) in sum.iter_mut().zip(vector) {
            *place += weight * value;
        }
    }
    to_unit(sum)
}

/// The first characters of a digest, enough to distinguish embedders.
pub(crate) fn short_digest(text: &str) -> String {
    a2s::Digest::of_bytes(text.as_bytes()).to_hex().chars().take(12).collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::CAPABILITIES;
