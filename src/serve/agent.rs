//! The settings of an agent: flags over environment over the TOML file.

use std::path::PathBuf;
use std::sync::Arc;

use a2s::Secret;
use a2s_api::{AuthGuard, TokenIntrospector};
use agent::{
    Agent, App, Backend, ClockAndIds, Guard, LanguageModel, PeerAgent, ServiceClient,
    ServiceClients,
};
use axum::Router;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::guardian_settings::{GuardianSelection, read_token};
use super::identity::RegistryAccess;
use crate::cli::{AgentArgs, ConsentSetting};
use crate::cli_error::{CANNOT_SERVE, CliError, CliExitCode};
use crate::client::{TokenTransport, client};
use crate::clock;

/// The environment variable with the key of the language model.
const KEY_VARIABLE: &str = "A2S_MODEL_KEY";

/// The settings of an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentSettings {
    /// The services that the agent uses; none means the services of this process.
    pub(crate) services: Option<RemoteServices>,
    /// Additional registries with their executors.
    pub(crate) backends: Vec<RemoteAddress>,
    pub(crate) model: Option<ModelSettings>,
    pub(crate) mcp: mcp::Config,
    /// Other agents.
    pub(crate) peers: Vec<RemoteAddress>,
    /// The address at which other agents reach this one.
    pub(crate) url: Option<Url>,
    /// Set when actions run without a question.
    pub(crate) is_consent_off: bool,
}

/// The services in other processes that an agent uses.
#[derive(Debug, Clone)]
pub(crate) struct RemoteServices {
    pub(crate) registry: RegistryAccess,
    pub(crate) executor: Url,
    pub(crate) guardians: GuardianSelection,
}

/// A registry and an executor at one address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RemoteAddress {
    url: Url,
    /// The token for them.
    token: Option<Secret>,
    token_file: Option<PathBuf>,
}

/// A language model.
#[derive(Debug, Clone)]
pub(crate) struct ModelSettings {
    pub(crate) url: Url,
    pub(crate) name: String,
    pub(crate) key: Option<Secret>,
}

/// `[agent]` of the TOML file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AgentSection {
    #[serde(default)]
    registries: Vec<RemoteAddress>,
    model_url: Option<Url>,
    model: Option<String>,
    /// Capabilities that MCP clients see as separate tools.
    #[serde(default)]
    mcp_tools: Vec<String>,
    mcp_anonymous_sessions: Option<usize>,
    #[serde(default)]
    peers: Vec<RemoteAddress>,
    url: Option<Url>,
    /// The address of the executor of a standalone agent.
    executor: Option<Url>,
    consent: Option<ConsentSetting>,
}

impl AgentSection {
    pub(super) fn executor(&self) -> Option<&Url> {
        self.executor.as_ref()
    }

    pub(super) fn read(
        &self,
        arguments: &AgentArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<AgentSettings, CliError> {
        let url = arguments.model_url.as_ref().or(self.model_url.as_ref());
        let name = arguments.model.as_ref().or(self.model.as_ref());
        let model = match (url, name) {
            (None, None) => None,
            (Some(url), Some(name)) => Some(ModelSettings {
                url: url.clone(),
                name: name.clone(),
                key: variable(KEY_VARIABLE).map(Secret::new),
            }),
            _ => {
                let message = "a language model requires both an address and a name";
                return Err(CliError::invalid_argument(message)
                    .with_hint("Give --model-url URL and --model NAME, or neither."));
            }
        };
        let mut listed = arguments.mcp_tools.clone();
        for what in &self.mcp_tools {
            let wrong =
                |error| CliError::invalid_argument(format!("`mcp-tools`: `{what}`: {error}"));
            listed.push(what.parse().map_err(|error: mcp::ListedError| wrong(error))?);
        }
        let more = arguments.peers.iter();
        let more =
            more.map(|url| RemoteAddress { url: url.clone(), token: None, token_file: None });
        let consent_off = arguments.consent.or(self.consent) == Some(ConsentSetting::Off);
        let mut limits = mcp::Limits::default();
        if let Some(sessions) = arguments.mcp_anonymous_sessions.or(self.mcp_anonymous_sessions) {
            limits.of_anonymous = sessions;
        }
        Ok(AgentSettings {
            services: None,
            backends: self.registries.clone(),
            model,
            mcp: mcp::Config { listed, consent_off, limits },
            peers: self.peers.iter().cloned().chain(more).collect(),
            url: arguments.agent_url.as_ref().or(self.url.as_ref()).cloned(),
            is_consent_off: consent_off,
        })
    }
}

impl AgentSettings {
    /// Checks that the tokens of other services and agents go over protected connections.
    pub(super) fn check_tokens(&self, transport: TokenTransport) -> Result<(), CliError> {
        if let Some(RemoteServices { registry, executor, guardians }) = &self.services {
            for url in [&registry.url, executor] {
                transport.check(url, "the token of a caller")?;
            }
            guardians.check_tokens(transport, "")?;
        }
        let with_token =
            |place: &&RemoteAddress| place.token.is_some() || place.token_file.is_some();
        for place in self.backends.iter().chain(&self.peers).filter(with_token) {
            transport.check(&place.url, &format!("the token for {}", place.url))?;
        }
        Ok(())
    }

    /// Opens the agent, which searches and runs with `own` first, its A2A server, and the MCP server of
    /// `own`, until `stop`. Returns their routes. Callers need `token`, or a token that `others` knows.
    pub(super) fn open(
        self,
        own: ServiceClients,
        guardian: &executor::GuardianSettings,
        token: Secret,
        others: Arc<dyn TokenIntrospector>,
        stop: &CancellationToken,
    ) -> Result<Router, CliError> {
        let guardians = guardian.open().map_err(|error| failed(&error))?;
        let outside = clock_and_ids();
        let guard = Guard::new(guardians, outside.clone());
        let auth = AuthGuard::new(Some(token.clone())).with_introspector(Arc::clone(&others));
        let mcp = mcp::routes(&own, auth, guard.clone(), outside.clone(), self.mcp, stop.clone());
        let mut sources = vec![Backend::from_shared_clients(own)];
        for place in self.backends {
            sources.push(Backend::from_client(ServiceClient::new(&place.url, place.token()?)?));
        }
        let mut agent = Agent::new(outside)
            .with_backends(sources)
            .with_guard(guard)
            .with_peers(open_peers(self.peers)?);
        if self.is_consent_off {
            agent = agent.without_consent();
        }
        if let Some(ModelSettings { url, name, key }) = self.model {
            agent = agent
                .with_model(LanguageModel::new(&url, name, key).map_err(|error| failed(&error))?);
        }
        let app = App::new(agent, Some(token)).with_introspector(others);
        let routes = app.routes().merge(mcp);
        // The address is on the card of A2A alone.
        #[cfg(not(feature = "a2a"))]
        let _ = self.url;
        #[cfg(feature = "a2a")]
        let routes = routes.merge(a2a::App::new(&app).with_public_url(self.url).routes());
        Ok(routes)
    }
}

impl RemoteServices {
    /// Returns clients for registry and executor, without a token.
    pub(super) fn clients(&self) -> Result<ServiceClients, CliError> {
        Ok(ServiceClients {
            registry: self.registry.client()?.with_token(None),
            executor: client(&self.executor, None, None)?,
        })
    }

    /// Returns the token introspection of the registry, which includes the registry's owner: a standalone
    /// agent has no owner token.
    pub(super) fn callers(&self) -> Result<Arc<dyn TokenIntrospector>, CliError> {
        let callers = self.registry.introspection()?.ok_or_else(|| {
            let message =
                "a separate agent requires a token to look up its callers at the registry";
            CliError::invalid_argument(message).with_hint(
                "Create a token with `a2s tokens create agent --scope service`, and pass it with \
                 --registry-token or --registry-token-file.",
            )
        })?;
        Ok(Arc::new(callers.with_owner()))
    }
}

impl RemoteAddress {
    fn token(&self) -> Result<Option<Secret>, CliError> {
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

/// Returns the other agents at these addresses.
#[cfg(feature = "a2a")]
fn open_peers(addresses: Vec<RemoteAddress>) -> Result<Vec<Arc<dyn PeerAgent>>, CliError> {
    let open = |address: RemoteAddress| -> Result<Arc<dyn PeerAgent>, CliError> {
        Ok(Arc::new(a2a::UnresolvedAgent::new(&address.url, address.token()?)?))
    };
    addresses.into_iter().map(open).collect()
}

/// This build cannot reach other agents.
#[cfg(not(feature = "a2a"))]
fn open_peers(addresses: Vec<RemoteAddress>) -> Result<Vec<Arc<dyn PeerAgent>>, CliError> {
    if addresses.is_empty() { Ok(Vec::new()) } else { Err(CliError::not_built("a2a")) }
}

/// Returns the system's clock and a source of random ids.
pub(super) fn clock_and_ids() -> ClockAndIds {
    ClockAndIds::new(clock::now, || {
        uuid::Builder::from_random_bytes(clock::random_bytes::<16>()).into_uuid()
    })
}

fn failed(error: &dyn std::error::Error) -> CliError {
    CliError::new(CliExitCode::Bad, CANNOT_SERVE, error.to_string())
}
