//! The arguments that say who guards steps, and by which rules.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use url::Url;

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Rules of the guardian; without them every step is allowed and recorded
    #[arg(long, env = "A2S_POLICY", value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Rules that are only tried: the audit log records their decisions
    #[arg(long, env = "A2S_SHADOW_POLICY", value_name = "FILE")]
    pub(crate) shadow: Option<PathBuf>,
    /// The length of a segment of the audit log before the next one begins [default: 67108864]
    #[arg(long, env = "A2S_AUDIT_SEGMENT_BYTES", value_name = "BYTES")]
    pub(crate) audit_segment_bytes: Option<u64>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct GuardingArgs {
    /// The guardian that is asked around every step: an AOS guardian's URL, builtin (with `up` alone), or
    /// off. Given several times, or with commas between: all of them in this order, until one denies. The
    /// settings of a `[[guardian]]` of the configuration with the same URL apply [default: up builtin,
    /// executor /aos at port 8743 of this machine]
    #[arg(
        long = "guardian",
        env = "A2S_GUARDIAN",
        value_name = "URL",
        value_delimiter = ',',
        value_parser = parse_guardian
    )]
    pub(crate) guardians: Vec<GuardianChoice>,
    /// The bearer token of the guardian, if only one has a URL; for several, set the tokens in the
    /// configuration
    #[arg(long, env = "A2S_GUARDIAN_TOKEN", hide_env_values = true)]
    pub(crate) guardian_token: Option<String>,
    /// The action when a guardian does not answer, whatever the configuration says of one or of a hook
    /// [default: closed]
    #[arg(long, value_enum, env = "A2S_GUARDIAN_FAIL")]
    pub(crate) guardian_fail: Option<GuardianFailMode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum GuardianChoice {
    Builtin,
    Off,
    Url(Url),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardianFailMode {
    /// The step is denied
    Closed,
    /// The step passes, and the failure is recorded
    Open,
}

impl TryFrom<String> for GuardianChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_guardian(&text)
    }
}

fn parse_guardian(text: &str) -> Result<GuardianChoice, String> {
    match text.trim() {
        "builtin" => Ok(GuardianChoice::Builtin),
        "off" => Ok(GuardianChoice::Off),
        text => Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .map(GuardianChoice::Url)
            .ok_or_else(|| "write `builtin`, `off` or an http(s) URL".to_owned()),
    }
}
