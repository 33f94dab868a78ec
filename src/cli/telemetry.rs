//! How an executor writes its journal, and who learns of its runs.

use clap::{Args, ValueEnum};
use serde::Deserialize;
use url::Url;

/// How safely the journal of runs is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// Each step survives a power cut
    Full,
    /// Each step survives a crash of the process; a power cut may lose the last ones
    Normal,
    /// Nothing survives the end of the process: for measuring, and for runs that may be lost
    Memory,
}

#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    /// How safely the journal of runs is written [default: full]
    #[arg(long, value_enum, env = "A2S_DURABILITY")]
    pub(crate) durability: Option<Durability>,
    /// Send the spans of runs to a receiver of OpenTelemetry (OTLP over HTTP), at /v1/traces below
    /// this address [or `OTEL_EXPORTER_OTLP_ENDPOINT`; docs/runs.md has all settings]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<Url>,
}
