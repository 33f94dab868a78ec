//! The settings of an executor.

use std::collections::BTreeMap;
use std::mem::take;
use std::path::{Path, PathBuf};

use a2s::{Domain, Secret};
use a2s_api::TokenSubject;
use clap::ValueEnum;
use executor::{
    ClientCertificate, Config, Durability, ExecutorDatabase, GuardianSettings, HostLimitSet,
    Limits, ResponseValidation, SecretKeySource, TenantLimits,
};
use serde::Deserialize;
use url::Url;

use super::telemetry::TelemetrySettings;
use super::{
    Layer as _, choice, entries, local_url, parse_limit, read_limits, settings_error, variable,
};
use crate::cli_error::CliError;

/// The environment variable with the key for stored credentials.
const KEY_VARIABLE: &str = "A2S_SECRET_KEY";

const RESPONSE_CHECKS: [(&str, &str); 3] = [
    ("off", "Responses are not checked"),
    ("warn", "The run records a warning and continues"),
    ("error", "The step fails"),
];

const DURABILITIES: [(&str, &str); 3] = [
    ("full", "Each step survives a power cut"),
    ("normal", "Each step survives a crash of the process; a power cut may lose the last ones"),
    (
        "memory",
        "Nothing survives the end of the process: for measuring, and for runs that may be lost",
    ),
];

/// The networks that `--allow-private-addresses` allows. The executor still blocks the metadata addresses
/// of clouds in them.
const PRIVATE_NETWORKS: [&str; 9] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

settings! {
    /// The settings of an executor.
    pub(crate) struct ExecutorSettings {
        /// Send connections for a host elsewhere: api.weather.com=http://127.0.0.1:9101
        #[arg(long = "upstream", value_name = "HOST=URL", value_parser = parse_upstream)]
        #[serde(deserialize_with = "entries")]
        upstreams: Vec<(Domain, Url)>,
        /// Let tasks reach private, loopback and link-local networks, except the metadata addresses of clouds
        #[arg(long)]
        allow_private_addresses: bool,
        /// Let tasks reach one address or network outside the public internet. The metadata address of a cloud
        /// (169.254.169.254) is allowed only when you name exactly this address
        #[arg(long = "allow-address", value_name = "ADDRESS")]
        allow_addresses: Vec<String>,
        /// One limit of runs: max-attempts=5, request-timeout=90s (all are in docs/limits.md)
        #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
        #[serde(deserialize_with = "entries")]
        limits: Vec<(String, toml::Value)>,
        #[arg(skip)]
        #[serde(deserialize_with = "entries")]
        tenants: Vec<(TokenSubject, TenantLimits)>,
        /// A limit for every host that does not set this limit itself: requests-per-second=10
        #[arg(long = "host-limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
        #[serde(deserialize_with = "entries")]
        host_limits: Vec<(String, toml::Value)>,
        #[arg(skip)]
        #[serde(deserialize_with = "entries")]
        hosts: Vec<(Domain, toml::Table)>,
        /// The location of the key for stored credentials [default: file]
        #[arg(long, value_enum, env = "A2S_SECRET_KEY_SOURCE")]
        secret_key: Option<KeySource>,
        /// The client certificate for a host (mutual TLS), in PEM files. With AUTHORITIES, the certificate of
        /// the host must come from one of these authorities
        #[arg(
            long = "client-certificate",
            value_name = "HOST=CERTIFICATE,KEY[,AUTHORITIES]",
            value_parser = parse_certificate
        )]
        #[serde(deserialize_with = "entries")]
        client_certificates: Vec<(Domain, ClientCertificate)>,
        /// The action when a response does not match the declaration of its operation [default: warn]
        #[arg(long, env = "A2S_CHECK_ANSWERS", value_parser = choice::<ResponseValidation>(&RESPONSE_CHECKS))]
        check_answers: Option<ResponseValidation>,
        /// The durability of the journal of runs [default: full]
        #[arg(long, env = "A2S_DURABILITY", value_parser = choice::<Durability>(&DURABILITIES))]
        durability: Option<Durability>,
        #[command(flatten)]
        telemetry: TelemetrySettings,
    }
}

/// The location of the key for stored credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeySource {
    /// In the variable `A2S_SECRET_KEY`: 32 bytes in base64
    Env,
    /// In the file `secrets.key` of the data folder, which is created when it is needed
    File,
    /// In the keyring of the operating system
    Keyring,
}

impl ExecutorSettings {
    /// Returns the limits of runs.
    pub(crate) fn limits(&self) -> Result<Limits, CliError> {
        read_limits("limits", self.limits.clone())
    }

    /// Validates the settings for an executor with its data in `folder`, unless it has another `database`.
    /// As in [`executor_config`], registry and guardians are missing.
    pub(crate) async fn resolve(
        mut self,
        mut file: Self,
        database: Option<ExecutorDatabase>,
        folder: &Path,
    ) -> Result<Config, CliError> {
        let telemetry = take(&mut self.telemetry).resolve(take(&mut file.telemetry), variable)?;
        let settings = self.over(file);
        let private = PRIVATE_NETWORKS.into_iter().filter(|_| settings.allow_private_addresses);
        let private = private.map(str::to_owned);
        let usual = executor_config(folder)?;
        Ok(Config {
            database: database.unwrap_or(usual.database),
            durability: settings.durability.unwrap_or_default(),
            limits: settings.limits()?,
            hosts: settings.host_limits()?,
            allowed_addresses: private.chain(settings.allow_addresses).collect(),
            upstreams: settings.upstreams.into_iter().collect(),
            response_validation: settings.check_answers.unwrap_or_default(),
            tenants: settings.tenants.into_iter().collect(),
            secret_key: open_key(settings.secret_key.unwrap_or(KeySource::File), folder).await?,
            client_certificates: settings.client_certificates.into_iter().collect(),
            telemetry,
            ..usual
        })
    }

    /// Returns the request limits of hosts. A limit that a host does not set itself is the same as for all
    /// others.
    fn host_limits(&self) -> Result<HostLimitSet, CliError> {
        let by_host = self.hosts.iter().map(|(host, own)| {
            let limits = self.host_limits.iter().cloned().chain(own.clone());
            Ok((host.clone(), read_limits(&format!("hosts.\"{host}\""), limits)?))
        });
        Ok(HostLimitSet {
            by_host: by_host.collect::<Result<BTreeMap<_, _>, CliError>>()?,
            default: read_limits("host-limits", self.host_limits.clone())?,
        })
    }
}

/// Returns the default configuration of an executor with its data in `folder`. The process adds registry and
/// guardians when it knows them; without guardians, the executor does not start.
pub(crate) fn executor_config(folder: &Path) -> Result<Config, CliError> {
    let no_guardian = GuardianSettings::Chain(Vec::new());
    Ok(Config::new(folder.join("executor.sqlite"), local_url(0, "")?, no_guardian))
}

/// Returns the location of the key for stored credentials, or the key itself when it is not in a file.
async fn open_key(source: KeySource, folder: &Path) -> Result<SecretKeySource, CliError> {
    match source {
        KeySource::File => Ok(SecretKeySource::File(folder.join("secrets.key"))),
        #[cfg(not(feature = "keyring"))]
        KeySource::Keyring => Err(CliError::not_built("keyring")),
        #[cfg(feature = "keyring")]
        KeySource::Keyring => {
            let folder = folder.to_owned();
            // It blocks, and may wait for a person.
            let key = tokio::task::spawn_blocking(move || super::keyring::key(&folder)).await;
            let key = key.map_err(|error| CliError::cannot_serve(error.to_string()))?;
            key.map(SecretKeySource::Given)
        }
        KeySource::Env => match variable(KEY_VARIABLE) {
            Some(key) => Ok(SecretKeySource::Given(Secret::new(key))),
            None => {
                let message =
                    format!("`--secret-key env` requires {KEY_VARIABLE}, which is not set");
                Err(settings_error(message)
                    .with_hint("Create a key with `openssl rand -base64 32`."))
            }
        },
    }
}

fn parse_upstream(text: &str) -> Result<(Domain, Url), String> {
    let (host, url) = text.split_once('=').ok_or("write HOST=URL")?;
    let host = Domain::new(host).map_err(|error| error.to_string())?;
    let url = Url::parse(url).map_err(|error| format!("`{url}` is not a URL: {error}"))?;
    Ok((host, url))
}

fn parse_certificate(text: &str) -> Result<(Domain, ClientCertificate), String> {
    let usage = "write HOST=CERTIFICATE,KEY or HOST=CERTIFICATE,KEY,AUTHORITIES";
    let (host, files) = text.split_once('=').ok_or(usage)?;
    let host = Domain::new(host).map_err(|error| error.to_string())?;
    let mut files = files.split(',').map(PathBuf::from);
    let (Some(certificate), Some(key)) = (files.next(), files.next()) else {
        return Err(usage.to_owned());
    };
    let authorities = files.next();
    if files.next().is_some() {
        return Err(usage.to_owned());
    }
    Ok((host, ClientCertificate { certificate, key, authorities }))
}
