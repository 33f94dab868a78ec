//! The server of the search index: flags over environment over the TOML file.

use a2s::Secret;
use registry::QdrantConfig;
use url::Url;

use super::tokens::is_given;
use super::{Layer as _, secret, secret_variable, settings_error};
use crate::cli_error::CliError;

/// The environment variable with the key of the server.
const KEY_VARIABLE: &str = "A2S_QDRANT_KEY";

settings! {
    /// The Qdrant server of the search index.
    #[serde(deny_unknown_fields)]
    pub(crate) struct QdrantSettings {
        // The address is not printed, because it may wrongly contain a name or password.
        #[arg(
            id = "qdrant",
            long = "qdrant",
            env = "A2S_QDRANT",
            hide_env_values = true,
            value_name = "URL",
            value_parser = secret(),
            help = "The gRPC address of a Qdrant server for the search index, such as \
                    https://qdrant.example:6334 [default: an index in memory]. Its key \
                    is in A2S_QDRANT_KEY (docs/operations.md)"
        )]
        url: Option<Secret>,
        #[arg(skip)]
        key: Option<Secret>,
        #[arg(skip)]
        shards: Option<u32>,
        #[arg(skip)]
        replicas: Option<u32>,
    }
}

impl QdrantSettings {
    /// Reads the settings of the server, if one is configured; `variable` reads the environment.
    pub(super) fn resolve(
        mut self,
        file: Self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<QdrantConfig>, CliError> {
        self.url = self.url.filter(is_given);
        self.key = secret_variable(KEY_VARIABLE, variable);
        let Self { url, key, shards, replicas } = self.over(file);
        let Some(address) = url else { return Ok(None) };
        let url = Url::parse(address.expose_secret()).map_err(|error| {
            settings_error(format!("the address of the Qdrant server: {error}"))
                .with_hint("Use an address such as https://qdrant.example:6334.")
        })?;
        Ok(Some(QdrantConfig { url, key, shards, replicas }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, flag: Option<&str>, key: Option<&str>) -> Result<String, String> {
        let file: QdrantSettings = toml::from_str(file).unwrap();
        let shown = format!("{file:?}");
        let flags = QdrantSettings { url: flag.map(Secret::new), ..QdrantSettings::default() };
        let read = flags.resolve(file, |name| {
            assert_eq!(name, KEY_VARIABLE);
            key.map(str::to_owned)
        });
        let config = read.map_err(|failure| failure.message)?;
        let told = config.as_ref().map(|config| {
            let key = config.key.as_ref().map_or("none", |key| key.expose_secret());
            format!("{} {key} {:?} {:?}", config.url, config.shards, config.replicas)
        });
        assert!(!format!("{config:?} {shown}").contains("s3cret"));
        Ok(told.unwrap_or_default())
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_environment_over_its_key() {
        let file = "url = 'http://file:6334'\nkey = 's3cret'\nshards = 2\nreplicas = 3";
        assert_eq!(read("", None, Some("s3cret")).unwrap(), "");
        assert_eq!(read("", Some(""), None).unwrap(), "");
        let of_file = "http://file:6334/ s3cret Some(2) Some(3)";
        assert_eq!(read(file, None, None).unwrap(), of_file);
        assert_eq!(read(file, Some(""), Some(" ")).unwrap(), of_file);
        let told = read(file, Some("https://flag:6334"), Some("s3cret-too\n")).unwrap();
        assert_eq!(told, "https://flag:6334/ s3cret-too Some(2) Some(3)");
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_shown() {
        for address in ["s3cret", "//s3cret", "http://s3cret:x:y"] {
            let refused = read("", Some(address), None).unwrap_err();
            assert!(refused.contains("address of the Qdrant server"), "{refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }
}
