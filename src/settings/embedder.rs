//! The settings of the embedder: flags over environment over the TOML file.

use std::path::PathBuf;
use std::time::Duration;

use a2s::Secret;
use jiff::SignedDuration;
use registry::embed::{Embedder, EndpointConfig, PromptPrefixes, VectorEncoding};
use serde::Deserialize;
use url::Url;

use super::{Layer as _, secret_variable, settings_error};
use crate::cli_error::{CliError, CliExitCode};

/// The environment variable with the key of an endpoint.
const KEY_VARIABLE: &str = "A2S_EMBEDDING_KEY";
/// The longest time that a search may be configured to wait.
const MAX_QUERY_TIMEOUT: SignedDuration = SignedDuration::from_secs(20);

settings! {
    /// The embedder of the search index.
    #[serde(deny_unknown_fields)]
    pub(crate) struct EmbedderSettings {
        #[arg(
            id = "embedder",
            long = "embedder",
            env = "A2S_EMBEDDER",
            value_name = "builtin|builtin-fast|URL|FOLDER",
            help = "The embedder, which converts texts to vectors: builtin, builtin-fast without its sentence encoder, the address of an OpenAI-compatible API such as \
                    http://127.0.0.1:11434/v1, or the folder of a sentence transformer [default: builtin]. \
                    After a change, the registry builds a new index, and the old one serves searches until then \
                    (docs/search.md)"
        )]
        r#use: Option<EmbedderChoice>,
        #[arg(
            id = "embedding-model",
            long = "embedding-model",
            env = "A2S_EMBEDDING_MODEL",
            value_name = "NAME",
            help = "The model of the API. The key of the API is in A2S_EMBEDDING_KEY"
        )]
        model: Option<String>,
        #[arg(skip)]
        key: Option<Secret>,
        #[arg(skip)]
        dimensions: Option<usize>,
        #[arg(skip)]
        encoding: Option<VectorEncoding>,
        #[arg(skip)]
        query_prefix: Option<String>,
        #[arg(skip)]
        document_prefix: Option<String>,
        #[arg(skip)]
        query_timeout: Option<SignedDuration>,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(crate) enum EmbedderChoice {
    Builtin,
    BuiltinFast,
    Url(Url),
    Folder(PathBuf),
}

impl From<String> for EmbedderChoice {
    fn from(text: String) -> Self {
        match text.as_str() {
            "builtin" => return Self::Builtin,
            "builtin-fast" => return Self::BuiltinFast,
            _ => {}
        }
        // A letter alone is a drive, not a scheme.
        match Url::parse(&text) {
            Ok(url) if url.scheme().len() > 1 => Self::Url(url),
            Ok(_) | Err(_) => Self::Folder(text.into()),
        }
    }
}

impl EmbedderSettings {
    /// Opens the embedder, and returns the time that a search waits for it; `variable` reads the environment.
    pub(super) fn resolve(
        mut self,
        file: Self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(Embedder, Duration), CliError> {
        let has_model_flag = self.model.is_some();
        self.key = secret_variable(KEY_VARIABLE, variable);
        let settings = self.over(file);
        let query_timeout = settings.query_timeout()?;
        let prefixes =
            PromptPrefixes { query: settings.query_prefix, document: settings.document_prefix };
        let embedder = match settings.r#use {
            Some(EmbedderChoice::Url(base)) => {
                let Some(model) = settings.model else {
                    return Err(settings_error("an embeddings endpoint requires a model")
                        .with_hint("Give the model with --embedding-model, or with `model` in `[embedder]`."));
                };
                Embedder::endpoint(EndpointConfig {
                    base,
                    model,
                    key: settings.key,
                    dimensions: settings.dimensions,
                    encoding: settings.encoding.unwrap_or_default(),
                    prefixes,
                })
            }
            Some(
                EmbedderChoice::Builtin | EmbedderChoice::BuiltinFast | EmbedderChoice::Folder(_),
            )
            | None
                if has_model_flag =>
            {
                return Err(settings_error("--embedding-model requires an embeddings endpoint")
                    .with_hint(
                        "Give the address of the endpoint with --embedder, or leave the model out.",
                    ));
            }
            Some(EmbedderChoice::Folder(folder)) => Embedder::local(&folder, prefixes),
            Some(EmbedderChoice::BuiltinFast) => Ok(Embedder::fast()),
            Some(EmbedderChoice::Builtin) | None => Ok(Embedder::built_in()),
        };
        let embedder = embedder.map_err(|error| {
            let message = error.to_string();
            let code = *registry::Error::from(error).code();
            CliError::new(CliExitCode::Usage, code, message)
                .with_hint("`docs/search.md` lists the embedders.")
        })?;
        Ok((embedder, query_timeout))
    }

    fn query_timeout(&self) -> Result<Duration, CliError> {
        let Some(given) = self.query_timeout else { return Ok(registry::QUERY_TIMEOUT) };
        Duration::try_from(given)
            .ok()
            .filter(|time| !time.is_zero() && given <= MAX_QUERY_TIMEOUT)
            .ok_or_else(|| settings_error("`query-timeout` must be a time of at most 20 s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, flags: [Option<&str>; 2], key: Option<&str>) -> Result<String, String> {
        let file: EmbedderSettings = toml::from_str(file).unwrap();
        let [embedder, model] = flags.map(|flag| flag.map(str::to_owned));
        let r#use = embedder.map(Into::into);
        let flags = EmbedderSettings { r#use, model, ..EmbedderSettings::default() };
        let part = flags.resolve(file, |name| {
            assert_eq!(name, KEY_VARIABLE);
            key.map(str::to_owned)
        });
        let part = part.map_err(|failure| failure.message)?;
        Ok(format!("{part:?}"))
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let file = "use = 'http://file:1/v1'\nmodel = 'of-the-file'";
        assert!(read("", [None, None], None).unwrap().contains("builtin-"));
        let told = read(file, [None, None], None).unwrap();
        assert!(told.contains("endpoint-of-the-file-"), "{told}");
        let told = read(file, [Some("http://flag:1/v1"), Some("mine")], None).unwrap();
        assert!(told.contains("endpoint-mine-") && told.contains("flag"), "{told}");
        assert!(read(file, [Some("builtin"), None], None).unwrap().contains("builtin-"));
    }

    #[test]
    fn a_key_is_taken_and_never_shown() {
        let file = "use = 'http://a.example/v1'\nmodel = 'm'\nkey = 's3cret'";
        for key in [None, Some("s3cret-of-the-environment")] {
            let told = read(file, [None, None], key).unwrap();
            assert!(!told.contains("s3cret"), "{told}");
        }
        let refused = read(file, [None, None], Some("s3cret\nx")).unwrap_err();
        assert!(refused.contains("header") && !refused.contains("s3cret"), "{refused}");
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let endpoint = "http://a.example/v1";
        for (file, flags, told) in [
            ("", [Some(endpoint), None], "requires a model"),
            ("", [None, Some("m")], "requires an embeddings endpoint"),
            ("", [Some("ftp://a.example"), Some("m")], "not an HTTP address"),
            ("", [Some("http://me:s3cret@a.example"), Some("m")], "name or password"),
            ("dimensions = 0", [Some(endpoint), Some("m")], "1 to 8192"),
            ("", [Some("/nowhere/at/all"), None], "/nowhere/at/all"),
            ("query-timeout = '0s'", [None, None], "at most 20 s"),
            ("query-timeout = '1m'", [None, None], "at most 20 s"),
            ("query-timeout = '-1s'", [None, None], "at most 20 s"),
        ] {
            let refused = read(file, flags, None).unwrap_err();
            assert!(refused.contains(told), "{refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }
}
