//! The settings of the embedder: flags over environment over the TOML file.

use std::time::Duration;

use a2s::Secret;
use jiff::SignedDuration;
use registry::embed::{Embedder, EndpointConfig, PromptPrefixes, VectorEncoding};
use serde::Deserialize;

use super::services::RegistrySettings;
use crate::cli::{EmbedderArgs, EmbedderChoice};
use crate::cli_error::{CANNOT_SERVE, CliError, CliExitCode};

/// The environment variable with the key of an endpoint.
const KEY_VARIABLE: &str = "A2S_EMBEDDING_KEY";
/// The longest time that a search may be configured to wait.
const MAX_QUERY_TIMEOUT: SignedDuration = SignedDuration::from_secs(20);

/// `[embedder]` of the TOML file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EmbedderSection {
    r#use: Option<EmbedderChoice>,
    model: Option<String>,
    key: Option<Secret>,
    dimensions: Option<usize>,
    encoding: Option<VectorEncoding>,
    query_prefix: Option<String>,
    document_prefix: Option<String>,
    query_timeout: Option<SignedDuration>,
}

impl EmbedderSection {
    /// Reads the registry's settings from this section; `variable` reads the environment.
    pub(super) fn read(
        &self,
        arguments: &EmbedderArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<RegistrySettings, CliError> {
        let choice = arguments.embedder.as_ref().or(self.r#use.as_ref());
        let model = arguments.embedding_model.as_ref().or(self.model.as_ref());
        let prefixes = PromptPrefixes {
            query: self.query_prefix.clone(),
            document: self.document_prefix.clone(),
        };
        let embedder = match choice {
            Some(EmbedderChoice::Url(base)) => {
                let Some(model) = model else {
                    return Err(wrong("an embeddings endpoint requires a model".to_owned())
                        .with_hint("Give the model with --embedding-model, or with `model` in `[embedder]`."));
                };
                let key = variable(KEY_VARIABLE).map(|key| key.trim().to_owned());
                let key = key.filter(|key| !key.is_empty()).map(Secret::new);
                Embedder::endpoint(EndpointConfig {
                    base: base.clone(),
                    model: model.clone(),
                    key: key.or_else(|| self.key.clone()),
                    dimensions: self.dimensions,
                    encoding: self.encoding.unwrap_or_default(),
                    prefixes,
                })
            }
            Some(EmbedderChoice::Builtin | EmbedderChoice::Folder(_)) | None
                if arguments.embedding_model.is_some() =>
            {
                return Err(wrong("--embedding-model requires an embeddings endpoint".to_owned())
                    .with_hint(
                        "Give the address of the endpoint with --embedder, or leave the model out.",
                    ));
            }
            Some(EmbedderChoice::Folder(folder)) => Embedder::local(folder, prefixes),
            Some(EmbedderChoice::Builtin) | None => Ok(Embedder::built_in()),
        };
        let embedder = embedder.map_err(|error| {
            let message = error.to_string();
            let code = *registry::Error::from(error).code();
            CliError::new(CliExitCode::Usage, code, message)
                .with_hint("`docs/search.md` lists the embedders.")
        })?;
        Ok(RegistrySettings {
            embedder,
            query_timeout: self.query_timeout()?,
            ..RegistrySettings::default()
        })
    }

    fn query_timeout(&self) -> Result<Duration, CliError> {
        let Some(given) = self.query_timeout else { return Ok(registry::QUERY_TIMEOUT) };
        Duration::try_from(given)
            .ok()
            .filter(|time| !time.is_zero() && given <= MAX_QUERY_TIMEOUT)
            .ok_or_else(|| wrong("`query-timeout` must be a time of at most 20 s".to_owned()))
    }
}

fn wrong(message: String) -> CliError {
    CliError::new(CliExitCode::Usage, CANNOT_SERVE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, flags: [Option<&str>; 2], key: Option<&str>) -> Result<String, String> {
        let section: EmbedderSection = toml::from_str(file).unwrap();
        let [embedder, model] = flags.map(|flag| flag.map(str::to_owned));
        let arguments = EmbedderArgs { embedder: embedder.map(Into::into), embedding_model: model };
        let part = section.read(&arguments, |name| {
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
