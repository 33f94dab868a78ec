//! The settings of a registry.

use std::path::Path;

use a2s::Secret;
use registry::{Config, IndexLocation, Limits, PublisherShare};

use super::embedder::EmbedderSettings;
use super::qdrant::QdrantSettings;
use super::tokens::is_given;
use super::{Layer as _, secret, variable};
use crate::cli_error::CliError;

settings! {
    /// The database of the registry's documents, outcomes and tokens, and of the executor's runs.
    pub(crate) struct DatabaseSettings {
        /// The database: a PostgreSQL URL, which several executors can share, or the path of an SQLite file
        /// [default: registry.sqlite and executor.sqlite in the data folder]. With `up`, a path is only for the
        /// registry's file. Put the password into PGPASSWORD or into the file that PGPASSFILE names
        /// (docs/operations.md)
        #[arg(long, env = "A2S_DATABASE", hide_env_values = true, value_name = "URL|FILE", value_parser = secret())]
        database: Option<Secret>,
    }
}

settings! {
    /// The settings of a registry.
    pub(crate) struct RegistrySettings {
        #[command(flatten)]
        qdrant: QdrantSettings,
        #[command(flatten)]
        embedder: EmbedderSettings,
        /// Learn from successful runs whose callers give the words of their search: the capability is then
        /// found by similar words. The registry keeps vectors of these words, not the words. All registries
        /// of one database should have the same setting [default: off; docs/search.md]
        #[arg(long, env = "A2S_LEARN")]
        learn: bool,
        /// The maximum number of versions that one token may publish, except the owner's [default: 20000]
        #[arg(long, value_name = "NUMBER")]
        max_token_versions: Option<u32>,
        /// The maximum size of all documents that one token may publish, except the owner's, in bytes
        /// [default: 2147483648]
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i64).range(0..))]
        max_token_bytes: Option<i64>,
    }
}

impl DatabaseSettings {
    /// Returns the address of the database, when it is not the usual one.
    pub(crate) fn resolve(mut self, file: Self) -> Option<Secret> {
        self.database = self.database.filter(is_given);
        self.over(file).database
    }
}

/// Returns the database of an executor's runs at the address.
pub(crate) fn run_database(
    address: Option<&Secret>,
) -> Result<Option<executor::ExecutorDatabase>, CliError> {
    let read = address.map(|address| executor::ExecutorDatabase::parse(address.expose_secret()));
    read.transpose().map_err(|error| CliError::cannot_serve(error.message))
}

impl RegistrySettings {
    /// Validates the settings for a registry with its data in `folder`, unless it has another `database`.
    pub(crate) fn resolve(
        self,
        file: Self,
        database: Option<&Secret>,
        folder: &Path,
    ) -> Result<Config, CliError> {
        let qdrant = self.qdrant.resolve(file.qdrant, variable)?;
        let (embedder, query_timeout) = self.embedder.resolve(file.embedder, variable)?;
        let usual = Config::in_folder(folder, None);
        let share = usual.limits.publisher_share;
        let versions = self.max_token_versions.or(file.max_token_versions);
        let bytes = self.max_token_bytes.or(file.max_token_bytes);
        let publisher_share = PublisherShare {
            versions: versions.unwrap_or(share.versions),
            bytes: bytes.unwrap_or(share.bytes),
        };
        Ok(Config {
            database: database.map_or(usual.database, |database| database.expose_secret().into()),
            index: qdrant.map_or(usual.index, IndexLocation::Qdrant),
            embedder,
            query_timeout,
            learn: self.learn || file.learn,
            limits: Limits { publisher_share, ..usual.limits },
            ..usual
        })
    }
}
