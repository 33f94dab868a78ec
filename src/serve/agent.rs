//! The agent beside an executor: flags over environment over the TOML file.

use std::path::PathBuf;
use std::sync::Arc;

use a2s::{Door, Identify, Secret};
use agent::a2a::UnresolvedAgent;
use agent::{Agent, App, Backend, Client, ClockAndIds, Guard, Model, ServiceClients, mcp};
use axum::Router;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::guardian_settings::{Guardians, read_token};
use super::identity::RegistryAccess;
use crate::cli::{AgentArgs, ConsentSetting};
use crate::cli_error::{CANNOT_SERVE, Exit, Failure};
use crate::client::{TokenTransport, client};
use crate::clock;

/// Where the environment has the key of the language model.
const KEY_VARIABLE: &str = "A2S_MODEL_KEY";

/// What an agent is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentPart {
    /// The services that it works with; none for those of this process.
    pub(crate) services: Option<Elsewhere>,
    /// Further places where capabilities are found, and run.
    pub(crate) places: Vec<Place>,
    pub(crate) model: Option<ModelPart>,
    pub(crate) mcp: mcp::Config,
    /// Other agents.
    pub(crate) peers: Vec<Place>,
    /// Where other agents reach this one.
    pub(crate) url: Option<Url>,
    /// Whether actions run without a question.
    pub(crate) consent_off: bool,
}

/// Services in other processes that an agent works with.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere {
    pub(crate) registry: RegistryAccess,
    pub(crate) executor: Url,
    pub(crate) guardians: Guardians,
}

/// A registry and an executor at one address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Place {
    url: Url,
    /// What they are shown.
    token: Option<Secret>,
    token_file: Option<PathBuf>,
}

/// A language model.
#[derive(Debug, Clone)]
pub(crate) struct ModelPart {
    pub(crate) url: Url,
    pub(crate) name: String,
    pub(crate) key: Option<Secret>,
}

/// `[agent]` of the TOML file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Section {
    #[serde(default)]
    registries: Vec<Place>,
    model_url: Option<Url>,
    model: Option<String>,
    /// Capabilities that MCP clients see as tools of their own.
    #[serde(default)]
    mcp_tools: Vec<String>,
    mcp_anonymous_sessions: Option<usize>,
    #[serde(default)]
    peers: Vec<Place>,
    url: Option<Url>,
    /// Where the executor of an agent on its own answers.
    executor: Option<Url>,
    consent: Option<ConsentSetting>,
}

impl Section {
    pub(super) fn executor(&self) -> Option<&Url> {
        self.executor.as_ref()
    }

    pub(super) fn read(
        &self,
        arguments: &AgentArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<AgentPart, Failure> {
        let url = arguments.model_url.as_ref().or(self.model_url.as_ref());
        let name = arguments.model.as_ref().or(self.model.as_ref());
        let model = match (url, name) {
            (None, None) => None,
            (Some(url), Some(name)) => Some(ModelPart {
                url: url.clone(),
                name: name.clone(),
                key: variable(KEY_VARIABLE).map(Secret::new),
            }),
            _ => {
                let message = "a language model needs both an address and a name";
                return Err(Failure::argument(message)
                    .with_hint("Give --model-url URL and --model NAME, or neither."));
            }
        };
        let mut listed = arguments.mcp_tools.clone();
        for what in &self.mcp_tools {
            let wrong = |error| Failure::argument(format!("`mcp-tools`: `{what}`: {error}"));
            listed.push(what.parse().map_err(|error: mcp::ListedError| wrong(error))?);
        }
        let more = arguments.peers.iter();
        let more = more.map(|url| Place { url: url.clone(), token: None, token_file: None });
        let consent_off = arguments.consent.or(self.consent) == Some(ConsentSetting::Off);
        let mut limits = mcp::Limits::default();
        if let Some(sessions) = arguments.mcp_anonymous_sessions.or(self.mcp_anonymous_sessions) {
            limits.of_anonymous = sessions;
        }
        Ok(AgentPart {
            services: None,
            places: self.registries.clone(),
            model,
            mcp: mcp::Config { listed, consent_off, limits },
            peers: self.peers.iter().cloned().chain(more).collect(),
            url: arguments.agent_url.as_ref().or(self.url.as_ref()).cloned(),
            consent_off,
        })
    }
}

impl AgentPart {
    /// Checks that the tokens of other services and agents go over protected connections.
    pub(super) fn check_tokens(&self, transport: TokenTransport) -> Result<(), Failure> {
        if let Some(Elsewhere { registry, executor, guardians }) = &self.services {
            for url in [&registry.url, executor] {
                transport.check(url, "the token of a caller")?;
            }
            guardians.check_tokens(transport, "")?;
        }
        let with_token = |place: &&Place| place.token.is_some() || place.token_file.is_some();
        for place in self.places.iter().chain(&self.peers).filter(with_token) {
            transport.check(&place.url, &format!("the token for {}", place.url))?;
        }
        Ok(())
    }

    /// The agent that searches and runs by `own` first, for callers who show `token` or one that
    /// `others` knows, and the MCP server of `own`, until `stop`.
    pub(super) fn open(
        self,
        own: ServiceClients,
        guardian: &executor::Guardian,
        token: Secret,
        others: Arc<dyn Identify>,
        stop: &CancellationToken,
    ) -> Result<(App, Router), Failure> {
        let guardians = guardian.open().map_err(|error| failed(&error))?;
        let outside = outside();
        let guard = Guard::new(guardians, outside.clone());
        let door = Door::new(Some(token.clone())).with(Arc::clone(&others));
        let mcp = mcp::routes(&own, door, guard.clone(), outside.clone(), self.mcp, stop.clone());
        let mut sources = vec![Backend::shared(own)];
        for place in self.places {
            sources.push(Backend::at(Client::new(&place.url, place.token()?)?));
        }
        let mut peers = Vec::with_capacity(self.peers.len());
        for place in self.peers {
            peers.push(UnresolvedAgent::new(&place.url, place.token()?)?);
        }
        let mut agent =
            Agent::new(outside).use_registries(sources).guarded_by(guard).with_peers(peers);
        if self.consent_off {
            agent = agent.without_consent();
        }
        if let Some(ModelPart { url, name, key }) = self.model {
            agent = agent.with_model(Model::new(&url, name, key).map_err(|error| failed(&error))?);
        }
        let app = App::new(agent, Some(token)).open_to(others).reached_at(self.url);
        Ok((app, mcp))
    }
}

impl Elsewhere {
    /// Registry and executor, as nobody in particular.
    pub(super) fn clients(&self) -> Result<ServiceClients, Failure> {
        Ok(ServiceClients {
            registry: self.registry.client()?.with_token(None),
            executor: client(&self.executor, None, None)?,
        })
    }

    /// The callers that the registry knows, its owner among them: an agent on its own has no other.
    pub(super) fn callers(&self) -> Result<Arc<dyn Identify>, Failure> {
        let callers = self.registry.introspection()?.ok_or_else(|| {
            let message = "an agent on its own learns from the registry who its callers are";
            Failure::argument(message).with_hint(
                "Make it a token with `a2s tokens create agent --scope service`, and give it with \
                 --registry-token or --registry-token-file.",
            )
        })?;
        Ok(Arc::new(callers.with_owner()))
    }
}

impl Place {
    fn token(&self) -> Result<Option<Secret>, Failure> {
        match (&self.token, &self.token_file) {
            (Some(_), Some(_)) => {
                let message = format!("`{}` has both `token` and `token-file`", self.url);
                Err(Failure::argument(message).with_hint("One of them is enough."))
            }
            (token, None) => Ok(token.clone()),
            (None, Some(file)) => read_token(file).map(Some),
        }
    }
}

/// The system's clock, and random ids.
pub(super) fn outside() -> ClockAndIds {
    ClockAndIds::new(clock::now, || {
        uuid::Builder::from_random_bytes(clock::random::<16>()).into_uuid()
    })
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Bad, CANNOT_SERVE, error.to_string())
}
