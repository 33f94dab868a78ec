//! Settings of the services: flags over environment over the TOML file over defaults.

mod config_error;
mod reference;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use a2s::{Domain, Secret};
use a2s_api::TokenSubject;
use executor::{HostLimitSet, TenantLimits};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::agent::AgentSettings;
use super::connections::ConnectionLimits;
use super::guardian_settings::{self, GuardianSelection};
use super::identity::{RegistryAccess, read_given};
use super::services::{
    JournalSettings, OutboundSettings, PolicyFiles, RegistrySettings, SecretKeySetting,
};
use super::{agent, embedder, qdrant, telemetry};
use crate::cli::{
    AgentArgs, ClientCertificateFiles, DatabaseArgs, EmbedderArgs, GuardianChoice,
    GuardianFailMode, GuardingArgs, JournalArgs, JournalDurability, KeySource, LogFormat,
    OutboundArgs, PolicyArgs, QdrantArgs, RegistryTokenArgs, ResponseCheckMode, ServeArgs,
};
use crate::cli_error::{CANNOT_SERVE, CliError, CliExitCode};
use crate::client::TokenTransport;

pub use reference::configuration_markdown;

/// The default log filter. The vector engine warns of settings that do not matter in process; the MCP
/// transport logs every session.
const DEFAULT_LOG: &str = "info,qdrant_edge=error,rmcp=warn";
/// The default log filter on a terminal, where a greeting replaces the messages.
const TERMINAL_LOG: &str = "warn,qdrant_edge=error,rmcp=warn";

/// The environment variable with the key for stored credentials.
const KEY_VARIABLE: &str = "A2S_SECRET_KEY";

/// The TOML file. Each key has the same meaning as the flag with its name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SettingsFile {
    listen: Option<SocketAddr>,
    #[serde(default)]
    allow_hosts: Vec<String>,
    log: Option<String>,
    log_format: Option<LogFormat>,
    #[serde(default)]
    guardian: guardian_settings::GuardianSection,
    guardian_fail: Option<GuardianFailMode>,
    policy: Option<PathBuf>,
    shadow: Option<PathBuf>,
    audit_segment_bytes: Option<u64>,
    registry: Option<Url>,
    registry_token: Option<Secret>,
    registry_token_file: Option<PathBuf>,
    service_token: Option<Secret>,
    service_token_file: Option<PathBuf>,
    #[serde(default)]
    allow_insecure_tokens: bool,
    database: Option<Secret>,
    #[serde(default)]
    qdrant: qdrant::QdrantSection,
    #[serde(default)]
    upstreams: BTreeMap<Domain, Url>,
    #[serde(default)]
    allow_private_addresses: bool,
    #[serde(default)]
    allow_addresses: Vec<String>,
    #[serde(default)]
    limits: toml::Table,
    #[serde(default)]
    connections: toml::Table,
    #[serde(default)]
    tenants: BTreeMap<TokenSubject, TenantLimits>,
    #[serde(default)]
    host_limits: toml::Table,
    #[serde(default)]
    hosts: BTreeMap<Domain, toml::Table>,
    secret_key: Option<KeySource>,
    #[serde(default)]
    client_certificates: BTreeMap<Domain, ClientCertificateFiles>,
    check_answers: Option<ResponseCheckMode>,
    durability: Option<JournalDurability>,
    #[serde(default)]
    telemetry: telemetry::TelemetrySection,
    #[serde(default)]
    embedder: embedder::EmbedderSection,
    #[serde(default)]
    agent: agent::AgentSection,
}

#[expect(
    clippy::disallowed_methods,
    reason = "an argument, which others can see, is no place for a key"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The settings of every service.
#[derive(Debug)]
pub(super) struct CommonSettings {
    pub(super) listen: SocketAddr,
    pub(super) allow_hosts: Vec<String>,
    pub(super) log: String,
    pub(super) log_format: LogFormat,
    pub(super) connections: ConnectionLimits,
}

fn default_log(is_terminal: bool) -> &'static str {
    if is_terminal { TERMINAL_LOG } else { DEFAULT_LOG }
}

impl SettingsFile {
    /// Reads the file that the flags name; without a file, all settings are empty.
    pub(super) fn read(arguments: &ServeArgs) -> Result<Self, CliError> {
        Self::read_from(arguments.config.as_deref())
    }

    pub(super) fn read_from(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text =
            std::fs::read_to_string(path).map_err(|error| CliError::file_error(path, &error))?;
        toml::from_str(&text).map_err(|error| {
            let fault = config_error::describe_error(&error, &text);
            CliError::new(CliExitCode::Usage, CANNOT_SERVE, format!("{}:{fault}", path.display()))
        })
    }

    pub(super) fn common(
        &self,
        arguments: &ServeArgs,
        port: u16,
    ) -> Result<CommonSettings, CliError> {
        let default = SocketAddr::from(([127, 0, 0, 1], port));
        let hosts = arguments.allow_hosts.iter().chain(&self.allow_hosts);
        let connections = merged(&self.connections, pairs(&arguments.connection_limits));
        Ok(CommonSettings {
            connections: read_limits("connections", connections)?,
            listen: arguments.listen.or(self.listen).unwrap_or(default),
            allow_hosts: hosts.map(|host| host.to_ascii_lowercase()).collect(),
            log: arguments
                .log
                .clone()
                .or_else(|| self.log.clone())
                .unwrap_or_else(|| default_log(std::io::stdout().is_terminal()).to_owned()),
            log_format: arguments.log_format.or(self.log_format).unwrap_or(LogFormat::Text),
        })
    }

    /// The database of a service, when it is not the usual one.
    pub(super) fn database(&self, arguments: DatabaseArgs) -> Option<String> {
        let given = arguments.database.filter(|address| !address.is_empty());
        let file = || self.database.as_ref().map(|address| address.expose_secret().to_owned());
        given.or_else(file)
    }

    /// The settings of the registry: its database, and the embedder that turns texts into vectors.
    pub(super) fn registry_part(
        &self,
        database: Option<String>,
        qdrant: QdrantArgs,
        embedder: &EmbedderArgs,
    ) -> Result<RegistrySettings, CliError> {
        let database = database.map(Into::into);
        let qdrant = self.qdrant.read(qdrant.qdrant, variable)?;
        Ok(RegistrySettings { database, qdrant, ..self.embedder.read(embedder, variable)? })
    }

    /// The settings of the agent.
    pub(super) fn agent(&self, arguments: &AgentArgs) -> Result<AgentSettings, CliError> {
        self.agent.read(arguments, variable)
    }

    /// The address of the executor of a standalone agent.
    pub(super) fn executor(&self) -> Option<&Url> {
        self.agent.executor()
    }

    /// The guardians of steps; `default` when none is named.
    pub(super) fn guardians(
        &self,
        arguments: &GuardingArgs,
        default: GuardianChoice,
    ) -> Result<GuardianSelection, CliError> {
        self.guardian.read(arguments, self.guardian_fail, default)
    }

    /// Returns the guardians of steps for a service without a guardian in its own process.
    pub(super) fn guardians_elsewhere(
        &self,
        arguments: &GuardingArgs,
        default: GuardianChoice,
    ) -> Result<GuardianSelection, CliError> {
        let guardians = self.guardians(arguments, default)?;
        if guardians.has_builtin() {
            let message = "the builtin guardian is only available in `a2s up`";
            return Err(CliError::invalid_argument(message).with_hint(
                "Start `a2s serve guardian` and give its address: --guardian \
                 http://127.0.0.1:8743/aos",
            ));
        }
        Ok(guardians)
    }

    /// Returns the rules of the builtin guardian.
    pub(super) fn rules(&self, arguments: PolicyArgs) -> Result<PolicyFiles, CliError> {
        let limits: executor::Limits = read_limits("limits", self.limits.clone())?;
        let segment_bytes = arguments.audit_segment_bytes.or(self.audit_segment_bytes);
        if segment_bytes == Some(0) {
            return Err(CliError::invalid_argument(
                "a segment of the audit log must have at least one byte",
            ));
        }
        Ok(PolicyFiles {
            policy: arguments.policy.or_else(|| self.policy.clone()),
            shadow: arguments.shadow.or_else(|| self.shadow.clone()),
            max_response_bytes: Some(limits.max_response_bytes),
            segment_bytes,
        })
    }

    /// The address of the registry, and the token for it.
    pub(super) fn registry_access(
        &self,
        url: Option<Url>,
        token: RegistryTokenArgs,
        default: Option<Url>,
    ) -> Result<Option<RegistryAccess>, CliError> {
        let Some(url) = url.or_else(|| self.registry.clone()).or(default) else { return Ok(None) };
        let given = read_given(token.registry_token, token.registry_token_file.as_deref())?;
        let token = match given {
            Some(token) => Some(token),
            None => read_configured_token(
                "registry",
                self.registry_token.as_ref(),
                self.registry_token_file.as_deref(),
            )?,
        };
        Ok(Some(RegistryAccess { url, token }))
    }

    /// Returns the configured token with the scope `service` of a registry.
    pub(super) fn service_token(
        &self,
        token: Option<String>,
        file: Option<&Path>,
    ) -> Result<Option<Secret>, CliError> {
        match read_given(token, file)? {
            Some(token) => Ok(Some(token)),
            None => read_configured_token(
                "service",
                self.service_token.as_ref(),
                self.service_token_file.as_deref(),
            ),
        }
    }

    /// The connections over which tokens may be sent.
    pub(super) fn transport(&self, is_allowed: bool) -> TokenTransport {
        TokenTransport::new(is_allowed || self.allow_insecure_tokens)
    }

    /// The settings of the executor's requests to services. A flag wins over the file for its host or
    /// limit.
    pub(super) fn outbound(&self, arguments: &OutboundArgs) -> Result<OutboundSettings, CliError> {
        let upstreams =
            self.upstreams.clone().into_iter().chain(arguments.upstreams.iter().cloned());
        let shared = merged(&self.host_limits, pairs(&arguments.host_limits));
        // A limit that a host does not set itself is the same as for all others.
        let own = self.hosts.iter().map(|(domain, limits)| {
            let limits = merged(&shared, limits);
            Ok((domain.clone(), read_limits(&format!("hosts.\"{domain}\""), limits)?))
        });
        Ok(OutboundSettings {
            upstreams: upstreams.collect(),
            allow_private_addresses: arguments.allow_private_addresses
                || self.allow_private_addresses,
            allow_addresses: {
                let flags = arguments.allow_addresses.iter();
                flags.chain(&self.allow_addresses).cloned().collect()
            },
            limits: read_limits("limits", merged(&self.limits, pairs(&arguments.limits)))?,
            tenants: self.tenants.clone(),
            hosts: HostLimitSet {
                by_host: own.collect::<Result<_, CliError>>()?,
                default: read_limits("host-limits", shared.clone())?,
            },
            secret_key: self.secret_key(arguments)?,
            client_certificates: self.client_certificates(arguments),
            check_answers: match arguments.check_answers.or(self.check_answers) {
                Some(ResponseCheckMode::Off) => executor::ResponseValidation::Off,
                Some(ResponseCheckMode::Error) => executor::ResponseValidation::Error,
                Some(ResponseCheckMode::Warn) | None => executor::ResponseValidation::Warn,
            },
        })
    }

    /// The durability of the journal, and the receivers of telemetry about runs.
    pub(super) fn journal(&self, arguments: &JournalArgs) -> Result<JournalSettings, CliError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "these variables are OpenTelemetry's own, or have keys"
        )]
        let variable = |name: &str| std::env::var(name).ok();
        Ok(JournalSettings {
            durability: match arguments.durability.or(self.durability) {
                Some(JournalDurability::Full) | None => executor::Durability::Full,
                Some(JournalDurability::Normal) => executor::Durability::Normal,
                Some(JournalDurability::Memory) => executor::Durability::Memory,
            },
            telemetry: self.telemetry.read(&arguments.listeners, variable)?,
        })
    }

    /// The location of the key for stored credentials; the key itself when it is in the environment.
    fn secret_key(&self, arguments: &OutboundArgs) -> Result<SecretKeySetting, CliError> {
        match arguments.secret_key.or(self.secret_key).unwrap_or(KeySource::File) {
            KeySource::File => Ok(SecretKeySetting::File),
            KeySource::Keyring => Ok(SecretKeySetting::Keyring),
            KeySource::Env => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "an argument, which others can see, is no place for a key"
                )]
                let key = std::env::var(KEY_VARIABLE);
                key.map(|key| SecretKeySetting::Given(Secret::new(key))).map_err(|_| {
                    let message =
                        format!("`--secret-key env` requires {KEY_VARIABLE}, which is not set");
                    CliError::new(CliExitCode::Usage, CANNOT_SERVE, message)
                        .with_hint("Create a key with `openssl rand -base64 32`.")
                })
            }
        }
    }

    /// Combines the certificates of the file and of the flags; for the same host, the flag has priority.
    fn client_certificates(
        &self,
        arguments: &OutboundArgs,
    ) -> BTreeMap<Domain, ClientCertificateFiles> {
        let flags = arguments.client_certificates.iter().cloned();
        self.client_certificates.clone().into_iter().chain(flags).collect()
    }
}

/// Reads the token from the keys `NAME-token` and `NAME-token-file`.
fn read_configured_token(
    name: &str,
    token: Option<&Secret>,
    file: Option<&Path>,
) -> Result<Option<Secret>, CliError> {
    if token.is_some() && file.is_some() {
        let message = format!("`{name}-token` and `{name}-token-file` cannot be combined");
        return Err(CliError::new(CliExitCode::Usage, CANNOT_SERVE, message)
            .with_hint("Remove one of the two."));
    }
    match token {
        Some(token) => Ok(Some(token.clone())),
        None => read_given(None, file),
    }
}

/// Converts flags to the entries of a table.
fn pairs(flags: &[(String, toml::Value)]) -> impl Iterator<Item = (&String, &toml::Value)> {
    flags.iter().map(|(name, value)| (name, value))
}

/// Merges the limits of `table` with those of `winners`, which have priority.
fn merged<'l>(
    table: &toml::Table,
    winners: impl IntoIterator<Item = (&'l String, &'l toml::Value)>,
) -> toml::Table {
    let mut merged = table.clone();
    let winners = winners.into_iter();
    merged.extend(winners.map(|(name, value)| (name.clone(), value.clone())));
    merged
}

/// Reads limits by name; error messages name the `section`.
fn read_limits<T: DeserializeOwned>(section: &str, table: toml::Table) -> Result<T, CliError> {
    table.try_into().map_err(|error: toml::de::Error| {
        // The problem, then its key, each on a line.
        let message = format!("`{section}`: {}", error.to_string().trim().replace('\n', " "));
        CliError::new(CliExitCode::Usage, CANNOT_SERVE, message)
            .with_hint("`docs/limits.md` lists the limits with their defaults.")
    })
}
