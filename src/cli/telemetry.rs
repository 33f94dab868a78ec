//! Arguments for the journal of an executor and its telemetry.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use url::Url;

/// The durability of the journal of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JournalDurability {
    /// Each step survives a power cut
    Full,
    /// Each step survives a crash of the process; a power cut may lose the last ones
    Normal,
    /// Nothing survives the end of the process: for measuring, and for runs that may be lost
    Memory,
}

#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    /// The durability of the journal of runs [default: full]
    #[arg(long, value_enum, env = "A2S_DURABILITY")]
    pub(crate) durability: Option<JournalDurability>,
    #[command(flatten)]
    pub(crate) listeners: ListenerArgs,
}

/// The receivers of telemetry about runs.
#[derive(Debug, Default, Args)]
pub(crate) struct ListenerArgs {
    /// Send the spans of runs to a receiver of OpenTelemetry (OTLP over HTTP), at /v1/traces below
    /// this address [or `OTEL_EXPORTER_OTLP_ENDPOINT`; docs/telemetry.md has all settings]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<Url>,
    /// Write every decision of the guardian and every tool step as a security event (OCSF) into this
    /// file, one on each line
    #[arg(long, value_name = "FILE", env = "A2S_OCSF_FILE")]
    pub(crate) ocsf_file: Option<PathBuf>,
    /// Send the security events to this address, as JSON arrays [headers for the receiver:
    /// `A2S_OCSF_HEADERS`]
    #[arg(long, value_name = "URL", env = "A2S_OCSF_ENDPOINT", hide_env_values = true)]
    pub(crate) ocsf_endpoint: Option<Url>,
}
