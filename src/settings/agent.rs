//! The settings of an agent.

use std::path::PathBuf;

use a2s::Secret;
use clap::ValueEnum;
use mcp::{ListedError, ListedTools};
use serde::Deserialize;
use url::Url;

use super::{GuardianSelection, Layer as _, RegistryAccess, read_token, variable};
use crate::cli_error::CliError;

/// The environment variable with the key of the language model.
const KEY_VARIABLE: &str = "A2S_MODEL_KEY";

settings! {
    /// The settings of an agent.
    #[serde(deny_unknown_fields)]
    pub(crate) struct AgentSettings {
        #[arg(skip)]
        registries: Vec<RemoteAddress>,
        /// A language model for the agent: any endpoint of chat completions, as `https://…/v1`. Its key comes
        /// from `A2S_MODEL_KEY`. Without one, patterns interpret the request
        #[arg(long, env = "A2S_MODEL_URL", value_name = "URL")]
        model_url: Option<Url>,
        /// The name of the language model at its endpoint
        #[arg(long, env = "A2S_MODEL", value_name = "NAME")]
        model: Option<String>,
        /// A capability that MCP clients see as a separate tool: NAME, NAME@RANGE; or all capabilities of a
        /// kind: host:HOST, read-only. Without this flag, clients find capabilities with `search_capabilities`
        #[arg(long = "mcp-tool", value_name = "WHAT", value_parser = check_tool)]
        mcp_tools: Vec<String>,
        /// The most MCP sessions that callers without a known token may have together [default: 16]. A
        /// principal may have 64, all together 256
        #[arg(long, value_name = "COUNT")]
        mcp_anonymous_sessions: Option<usize>,
        /// Another agent that speaks A2A; it gets the requests for which no published capability fits. May be
        /// given several times; configure an agent that needs a token in the file: `[[agent.peers]]`
        #[arg(long = "peer", value_name = "URL", value_parser = parse_peer)]
        peers: Vec<RemoteAddress>,
        /// Ask before running a capability that is not known to be read-only: `ask`, or `off`, which every
        /// response then states
        #[arg(long, env = "A2S_CONSENT", value_name = "HOW")]
        consent: Option<ConsentSetting>,
        /// The address of this service for other agents, if it is not the one that they call: that of a proxy
        #[arg(id = "agent-url", long = "agent-url", env = "A2S_AGENT_URL", value_name = "URL")]
        url: Option<Url>,
        // The executor of an agent that runs alone, which alone has the flag.
        #[arg(skip)]
        pub(crate) executor: Option<Url>,
    }
}

/// The setting for the confirmation of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConsentSetting {
    /// Ask for confirmation of each action.
    Ask,
    /// Do not ask for confirmation.
    Off,
}

/// A service at another address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RemoteAddress {
    pub(crate) url: Url,
    /// The token for the service.
    token: Option<Secret>,
    token_file: Option<PathBuf>,
}

/// The configuration of an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentConfig {
    /// The services that the agent uses; none means the services of this process.
    pub(crate) services: Option<RemoteServices>,
    /// Additional registries with their executors.
    pub(crate) backends: Vec<RemoteAddress>,
    pub(crate) model: Option<ModelConfig>,
    pub(crate) mcp: mcp::Config,
    /// Other agents.
    pub(crate) peers: Vec<RemoteAddress>,
    /// The address at which other agents reach this one.
    pub(crate) url: Option<Url>,
}

/// The services in other processes that an agent uses.
#[derive(Debug, Clone)]
pub(crate) struct RemoteServices {
    pub(crate) registry: RegistryAccess,
    pub(crate) executor: Url,
    pub(crate) guardians: GuardianSelection,
}

/// A language model.
#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    pub(crate) url: Url,
    pub(crate) name: String,
    pub(crate) key: Option<Secret>,
}

impl AgentSettings {
    /// Validates the settings of an agent over the services of its process.
    pub(crate) fn resolve(self, file: Self) -> Result<AgentConfig, CliError> {
        let settings = self.over(file);
        let model = match (settings.model_url, settings.model) {
            (None, None) => None,
            (Some(url), Some(name)) => {
                Some(ModelConfig { url, name, key: variable(KEY_VARIABLE).map(Secret::new) })
            }
            _ => {
                let message = "a language model requires both an address and a name";
                return Err(CliError::invalid_argument(message)
                    .with_hint("Give --model-url URL and --model NAME, or neither."));
            }
        };
        let listed = settings.mcp_tools.iter().map(|what| {
            let wrong = |error: ListedError| format!("`mcp-tools`: `{what}`: {error}");
            what.parse().map_err(|error| CliError::invalid_argument(wrong(error)))
        });
        let mut limits = mcp::Limits::default();
        limits.of_anonymous = settings.mcp_anonymous_sessions.unwrap_or(limits.of_anonymous);
        Ok(AgentConfig {
            services: None,
            backends: settings.registries,
            model,
            mcp: mcp::Config {
                listed: listed.collect::<Result<_, _>>()?,
                consent_off: settings.consent == Some(ConsentSetting::Off),
                limits,
            },
            peers: settings.peers,
            url: settings.url,
        })
    }
}

impl RemoteAddress {
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    /// Reads the token for the service, if it needs one.
    pub(crate) fn token(&self) -> Result<Option<Secret>, CliError> {
        match (&self.token, &self.token_file) {
            (Some(_), Some(_)) => {
                let message = format!("`{}` has both `token` and `token-file`", self.url);
                Err(CliError::invalid_argument(message).with_hint("Remove one of the two."))
            }
            (token, None) => Ok(token.clone()),
            (None, Some(file)) => read_token(file).map(Some),
        }
    }
}

fn parse_peer(text: &str) -> Result<RemoteAddress, url::ParseError> {
    Ok(RemoteAddress { url: text.parse()?, token: None, token_file: None })
}

/// Checks the name of a tool where clap reports it with its flag.
fn check_tool(text: &str) -> Result<String, ListedError> {
    text.parse::<ListedTools>().map(|_| text.to_owned())
}
