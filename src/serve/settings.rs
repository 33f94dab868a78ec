//! Settings of the services: flags over environment over the TOML file over defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use a2s::Domain;
use serde::Deserialize;
use url::Url;

use crate::cli::{FailMode, GuardianChoice, GuardingArgs, LogFormat, OutboundArgs, ServeArgs};
use crate::failure::{CANNOT_SERVE, Exit, Failure};

/// The vector engine warns of settings that do not matter in process.
const DEFAULT_LOG: &str = "info,qdrant_edge=error";

/// The TOML file. Every key is a flag of the same meaning.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    listen: Option<SocketAddr>,
    #[serde(default)]
    allow_hosts: Vec<String>,
    log: Option<String>,
    log_format: Option<LogFormat>,
    guardian: Option<GuardianChoice>,
    guardian_fail: Option<FailMode>,
    policy: Option<PathBuf>,
    registry: Option<Url>,
    #[serde(default)]
    upstreams: BTreeMap<Domain, Url>,
    #[serde(default)]
    allow_private_addresses: bool,
}

/// What every service is told.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) listen: SocketAddr,
    pub(super) allow_hosts: Vec<String>,
    pub(super) log: String,
    pub(super) log_format: LogFormat,
}

impl File {
    /// Reads the file that the flags name; without one, nothing is set.
    pub(super) fn read(arguments: &ServeArgs) -> Result<Self, Failure> {
        let Some(path) = &arguments.config else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
        toml::from_str(&text).map_err(|error| {
            Failure::new(Exit::Usage, CANNOT_SERVE, format!("{}: {error}", path.display()))
        })
    }

    pub(super) fn common(&self, arguments: &ServeArgs, port: u16) -> Common {
        let default = SocketAddr::from(([127, 0, 0, 1], port));
        let hosts = arguments.allow_hosts.iter().chain(&self.allow_hosts);
        Common {
            listen: arguments.listen.or(self.listen).unwrap_or(default),
            allow_hosts: hosts.map(|host| host.to_ascii_lowercase()).collect(),
            log: arguments
                .log
                .clone()
                .or_else(|| self.log.clone())
                .unwrap_or_else(|| DEFAULT_LOG.to_owned()),
            log_format: arguments.log_format.or(self.log_format).unwrap_or(LogFormat::Text),
        }
    }

    pub(super) fn guardian(&self, arguments: &GuardingArgs) -> Option<GuardianChoice> {
        arguments.guardian.clone().or_else(|| self.guardian.clone())
    }

    pub(super) fn guardian_fail(&self, arguments: &GuardingArgs) -> FailMode {
        arguments.guardian_fail.or(self.guardian_fail).unwrap_or(FailMode::Closed)
    }

    pub(super) fn policy(&self, argument: Option<PathBuf>) -> Option<PathBuf> {
        argument.or_else(|| self.policy.clone())
    }

    pub(super) fn registry(&self, argument: Option<Url>) -> Option<Url> {
        argument.or_else(|| self.registry.clone())
    }

    /// The upstreams of the file and of the flags; a flag wins for its host.
    pub(super) fn upstreams(&self, arguments: &OutboundArgs) -> BTreeMap<Domain, Url> {
        self.upstreams.clone().into_iter().chain(arguments.upstreams.iter().cloned()).collect()
    }

    pub(super) fn allows_private_addresses(&self, arguments: &OutboundArgs) -> bool {
        arguments.allow_private_addresses || self.allow_private_addresses
    }
}
