//! Arguments for the embedder of the search index.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use url::Url;

use super::{DatabaseArgs, QdrantArgs};

#[derive(Debug, Args)]
pub(crate) struct EmbedderArgs {
    #[arg(
        long,
        env = "A2S_EMBEDDER",
        value_name = "builtin|URL|FOLDER",
        value_parser = parse_embedder,
        help = "The embedder, which converts texts to vectors: builtin, the address of an OpenAI-compatible API such as \
                http://127.0.0.1:11434/v1, or the folder of a sentence transformer [default: builtin]. \
                After a change, the registry builds a new index, and the old one serves searches until then \
                (docs/search.md)"
    )]
    pub(crate) embedder: Option<EmbedderChoice>,
    #[arg(
        long,
        env = "A2S_EMBEDDING_MODEL",
        value_name = "NAME",
        help = "The model of the API. The key of the API is in A2S_EMBEDDING_KEY"
    )]
    pub(crate) embedding_model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReindexArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) qdrant: QdrantArgs,
    #[command(flatten)]
    pub(crate) embedder: EmbedderArgs,
    /// Settings in TOML, those of the service; flags and environment win
    #[arg(long, env = "A2S_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum EmbedderChoice {
    Builtin,
    Url(Url),
    Folder(PathBuf),
}

impl From<String> for EmbedderChoice {
    fn from(text: String) -> Self {
        if text == "builtin" {
            return Self::Builtin;
        }
        // A letter alone is a drive, not a scheme.
        match Url::parse(&text) {
            Ok(url) if url.scheme().len() > 1 => Self::Url(url),
            Ok(_) | Err(_) => Self::Folder(text.into()),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "this is how clap reads a value")]
fn parse_embedder(text: &str) -> Result<EmbedderChoice, std::convert::Infallible> {
    Ok(text.to_owned().into())
}
