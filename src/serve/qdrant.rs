//! The server of the search index: flags over environment over the TOML file.

use a2s::Secret;
use registry::QdrantConfig;
use serde::Deserialize;
use url::Url;

use crate::cli_error::{CANNOT_SERVE, CliError, CliExitCode};

/// The environment variable with the key of the server.
const KEY_VARIABLE: &str = "A2S_QDRANT_KEY";

/// `[qdrant]` of the TOML file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct QdrantSection {
    /// The address, which is not printed because it may wrongly contain a name or password.
    url: Option<Secret>,
    key: Option<Secret>,
    shards: Option<u32>,
    replicas: Option<u32>,
}

impl QdrantSection {
    /// Reads the settings of the server, if one is configured; `variable` reads the environment.
    pub(super) fn read(
        &self,
        argument: Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<QdrantConfig>, CliError> {
        let given = argument.filter(|address| !address.is_empty());
        let file = || self.url.as_ref().map(|url| url.expose_secret().to_owned());
        let Some(address) = given.or_else(file) else { return Ok(None) };
        let url = Url::parse(&address).map_err(|error| {
            let message = format!("the address of the Qdrant server: {error}");
            CliError::new(CliExitCode::Usage, CANNOT_SERVE, message)
                .with_hint("Use an address such as https://qdrant.example:6334.")
        })?;
        let key = variable(KEY_VARIABLE).map(|key| key.trim().to_owned());
        let key = key.filter(|key| !key.is_empty()).map(Secret::new).or_else(|| self.key.clone());
        Ok(Some(QdrantConfig { url, key, shards: self.shards, replicas: self.replicas }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, flag: Option<&str>, key: Option<&str>) -> Result<String, String> {
        let section: QdrantSection = toml::from_str(file).unwrap();
        let read = section.read(flag.map(str::to_owned), |name| {
            assert_eq!(name, KEY_VARIABLE);
            key.map(str::to_owned)
        });
        let config = read.map_err(|failure| failure.message)?;
        let told = config.as_ref().map(|config| {
            let key = config.key.as_ref().map_or("none", |key| key.expose_secret());
            format!("{} {key} {:?} {:?}", config.url, config.shards, config.replicas)
        });
        assert!(!format!("{config:?} {section:?}").contains("s3cret"));
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
