//! The agent of a process: its clients, guardians and servers.

use std::sync::Arc;

use a2s::Secret;
use a2s_api::{AuthGuard, TokenIntrospector};
use agent::{
    Agent, App, Backend, ClockAndIds, Guard, LanguageModel, PeerAgent, ServiceClient,
    ServiceClients,
};
use axum::Router;
use tokio_util::sync::CancellationToken;

use crate::cli_error::CliError;
use crate::client::{TokenTransport, client};
use crate::clock;
use crate::settings::{AgentConfig, ModelConfig, RemoteAddress, RemoteServices};

impl AgentConfig {
    /// Checks that the tokens of other services and agents go over protected connections.
    pub(super) fn check_tokens(&self, transport: TokenTransport) -> Result<(), CliError> {
        if let Some(RemoteServices { registry, executor, guardians }) = &self.services {
            for url in [&registry.url, executor] {
                transport.check(url, "the token of a caller")?;
            }
            guardians.check_tokens(transport, "")?;
        }
        for place in self.backends.iter().chain(&self.peers).filter(|place| place.has_token()) {
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
        let is_consent_off = self.mcp.consent_off;
        let mcp = mcp::routes(&own, auth, guard.clone(), outside.clone(), self.mcp, stop.clone());
        let mut sources = vec![Backend::from_shared_clients(own)];
        for place in self.backends {
            sources.push(Backend::from_client(ServiceClient::new(&place.url, place.token()?)?));
        }
        let mut agent = Agent::new(outside)
            .with_backends(sources)
            .with_guard(guard)
            .with_peers(open_peers(&self.peers)?);
        if is_consent_off {
            agent = agent.without_consent();
        }
        if let Some(ModelConfig { url, name, key }) = self.model {
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

/// Returns the other agents at these addresses.
#[cfg(feature = "a2a")]
fn open_peers(addresses: &[RemoteAddress]) -> Result<Vec<Arc<dyn PeerAgent>>, CliError> {
    let open = |address: &RemoteAddress| -> Result<Arc<dyn PeerAgent>, CliError> {
        Ok(Arc::new(a2a::UnresolvedAgent::new(&address.url, address.token()?)?))
    };
    addresses.iter().map(open).collect()
}

/// This build cannot reach other agents.
#[cfg(not(feature = "a2a"))]
fn open_peers(addresses: &[RemoteAddress]) -> Result<Vec<Arc<dyn PeerAgent>>, CliError> {
    if addresses.is_empty() { Ok(Vec::new()) } else { Err(CliError::not_built("a2a")) }
}

/// Returns the system's clock and a source of random ids.
pub(super) fn clock_and_ids() -> ClockAndIds {
    ClockAndIds::new(clock::now, || {
        uuid::Builder::from_random_bytes(clock::random_bytes::<16>()).into_uuid()
    })
}

fn failed(error: &dyn std::error::Error) -> CliError {
    CliError::cannot_serve(error.to_string())
}
