//! The settings of every service: its address, connections and log.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{Layer as _, entries, parse_limit, read_limits};
use crate::cli_error::CliError;

/// The default log filter. The MCP transport logs every session, and PostgreSQL sends a notice for a table
/// that exists already.
const DEFAULT_LOG: &str = "info,rmcp=warn,sqlx::postgres::notice=warn";
/// The default log filter on a terminal, where a greeting replaces the messages.
const TERMINAL_LOG: &str = "warn,rmcp=warn";

settings! {
    /// The settings of every service.
    pub(crate) struct ProcessSettings {
        /// Address to listen on [default: 127.0.0.1, up 8740, registry 8741, executor 8742, guardian
        /// 8743, agent 8744]
        #[arg(long, env = "A2S_LISTEN")]
        listen: Option<SocketAddr>,
        /// A host name that requests may use for this service; loopback names are always allowed
        #[arg(long = "allow-host", value_name = "HOST")]
        allow_hosts: Vec<String>,
        /// One limit of the server's connections: max-connections=200 (all are in docs/limits.md)
        #[arg(long = "connection-limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
        #[serde(deserialize_with = "entries")]
        connections: Vec<(String, toml::Value)>,
        /// A TOML file with settings; flags and environment variables have priority
        #[arg(long, env = "A2S_CONFIG", value_name = "FILE")]
        #[serde(skip)]
        pub(crate) config: Option<PathBuf>,
        /// The format of logs [default: text]
        #[arg(long, value_enum, env = "A2S_LOG_FORMAT")]
        log_format: Option<LogFormat>,
        /// The log filter: a level, or rules such as `info,executor=debug` [default: info, on a terminal warn,
        /// with errors alone from the vector engine]. Libraries that carry credentials log errors alone, with
        /// any filter
        #[arg(long, env = "A2S_LOG")]
        log: Option<String>,
        // The flag is one of every command.
        #[arg(skip)]
        allow_insecure_tokens: bool,
    }
}

/// The format of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The configuration of a process.
#[derive(Debug)]
pub(crate) struct ProcessConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) allow_hosts: Vec<String>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    /// Set when the file allows to send tokens over plain HTTP.
    pub(crate) allow_insecure_tokens: bool,
    pub(crate) connections: ConnectionLimits,
}

impl ProcessSettings {
    /// Validates the settings. Without an address, the service listens on loopback at `port`.
    pub(crate) fn resolve(self, file: Self, port: u16) -> Result<ProcessConfig, CliError> {
        let settings = self.over(file);
        let is_terminal = std::io::stdout().is_terminal();
        let default_log = if is_terminal { TERMINAL_LOG } else { DEFAULT_LOG };
        Ok(ProcessConfig {
            listen: settings.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], port))),
            allow_hosts: settings
                .allow_hosts
                .iter()
                .map(|host| host.to_ascii_lowercase())
                .collect(),
            log: settings.log.unwrap_or_else(|| default_log.to_owned()),
            log_format: settings.log_format.unwrap_or(LogFormat::Text),
            allow_insecure_tokens: settings.allow_insecure_tokens,
            connections: read_limits("connections", settings.connections)?,
        })
    }
}

/// The limits of a server's connections.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ConnectionLimits {
    /// The maximum number of open connections; the effective limit is at most half of the file descriptors
    /// that the process may open.
    pub(crate) max_connections: u32,
    /// The maximum number of open connections from one remote address; loopback has no limit.
    pub(crate) max_connections_per_address: u32,
    /// The maximum number of simultaneous requests on one HTTP/2 connection.
    pub(crate) max_streams: u32,
    /// The maximum time for the head of a request: from the connection, or from its first byte.
    #[serde(with = "span")]
    pub(crate) header_timeout: Duration,
    /// The maximum time between two requests, or without the client reading a byte of a response.
    #[serde(with = "span")]
    pub(crate) idle_timeout: Duration,
    /// The maximum time for the complete body of a request.
    #[serde(with = "span")]
    pub(crate) body_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            max_connections_per_address: 256,
            max_streams: 128,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
        }
    }
}

/// Durations of limits, such as `1m 30s`: more than zero, and at most a day.
mod span {
    use std::time::Duration;

    use jiff::fmt::serde::unsigned_duration::friendly::compact::required;
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        required::serialize(time, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let time = required::deserialize(from)?;
        if time.is_zero() || MAX < time {
            return Err(D::Error::custom("a time must be more than 0 and at most 24h"));
        }
        Ok(time)
    }
}
