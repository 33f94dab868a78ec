//! The agent: its registries, its executors and its peers.

pub(crate) mod turn;

use std::sync::Arc;

use a2s_api::{AgentEvent, AgentRequest, AgentResponse};

use crate::client::{ServiceClient, ServiceClients};
use crate::clock_and_ids::ClockAndIds;
use crate::error::Error;
use crate::executor::RemoteExecutor;
use crate::guard::Guard;
use crate::model::LanguageModel;
use crate::peer::PeerAgent;
use crate::registry::RemoteRegistry;
use crate::requester::Requester;
use crate::state_store::StateStore;

/// The maximum length of a message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 8 << 10;
/// The maximum length of a conversation's name, in characters.
pub const MAX_SESSION_CHARS: usize = 200;
/// The most capabilities that are tried for one intent.
const MAX_CANDIDATES: usize = 5;

/// A registry that finds capabilities, and the executor that runs them.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Finds the capabilities.
    pub registry: RemoteRegistry,
    /// The executor, which gets its documents from that registry.
    pub executor: RemoteExecutor,
    /// The clients of both services for turns with the credentials of a requester. `None` when both
    /// services always get the agent's own credentials.
    pub shared: Option<ServiceClients>,
}

/// An agent, which finds capabilities for an intent and runs them: the `A2SAgent` of the A2S text.
///
/// A turn follows the steps in the A2S text. It reads the message, searches capabilities, and computes the
/// digest of the best one again. It resolves missing inputs or asks for them, runs the capability, and
/// reports the result. If a candidate does not verify, is denied or fails, the turn tries the next one, as
/// long as the run has not changed anything.
///
/// ```no_run
/// use a2s_api::AgentRequest;
/// use agent::{Agent, ServiceClient, EmptyState, ClockAndIds, Backend};
///
/// # async fn example(outside: ClockAndIds) -> Result<(), agent::Error> {
/// let registry = ServiceClient::new(&"https://registry.example.com".parse().unwrap(), None)?;
/// let agent = Agent::new(outside).with_backends([Backend::from_client(registry)]);
/// let query = "What's the weather like in Paris, and can you tweet it saying 'Weather update:'?";
/// let request = AgentRequest { message: query.to_owned(), ..AgentRequest::default() };
/// let answer = agent.handle(request, &EmptyState, &mut |event| println!("{event:?}")).await?;
/// println!("{}", answer.message);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) backends: Vec<Backend>,
    pub(crate) guard: Guard,
    pub(crate) clock: ClockAndIds,
    pub(crate) model: Option<LanguageModel>,
    pub(crate) peers: Vec<Arc<dyn PeerAgent>>,
    pub(crate) max_candidates: usize,
    /// Set when actions run without a question.
    pub(crate) consent_off: bool,
}

impl Backend {
    /// Creates a backend with registry and executor at one address.
    #[must_use]
    pub fn from_client(client: ServiceClient) -> Self {
        let (registry, executor) =
            (RemoteRegistry::new(client.clone()), RemoteExecutor::new(client));
        Self { registry, executor, shared: None }
    }

    /// Registry and executor that get the credentials of each requester (see [`Agent::with_requester`]). The
    /// credentials of `clients` are for actions without a requester.
    #[must_use]
    pub fn from_shared_clients(clients: ServiceClients) -> Self {
        Self {
            registry: RemoteRegistry::new(clients.registry.clone()),
            executor: RemoteExecutor::new(clients.executor.clone()),
            shared: Some(clients),
        }
    }

    fn with_requester(&self, requester: &Requester) -> Self {
        match &self.shared {
            Some(clients) => Self::from_shared_clients(clients.with_requester(requester)),
            None => self.clone(),
        }
    }
}

impl Agent {
    /// An agent without registries, guardians and language model.
    #[must_use]
    pub fn new(clock: ClockAndIds) -> Self {
        let guard = Guard::new(None, clock.clone());
        let (sources, peers) = (Vec::new(), Vec::new());
        Self {
            backends: sources,
            guard,
            clock,
            model: None,
            peers,
            max_candidates: MAX_CANDIDATES,
            consent_off: false,
        }
    }

    /// Sets the backends that the agent searches. They replace earlier ones.
    #[must_use]
    pub fn with_backends(self, sources: impl IntoIterator<Item = Backend>) -> Self {
        Self { backends: sources.into_iter().collect(), ..self }
    }

    /// Asks these guardians about every message and every search. The executor asks about the steps of
    /// capabilities.
    #[must_use]
    pub fn with_guard(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// Runs actions that are not known to be read-only without a question. Every response reports this.
    #[must_use]
    pub fn without_consent(self) -> Self {
        Self { consent_off: true, ..self }
    }

    /// Lets a language model read the intents and write the responses.
    #[must_use]
    pub fn with_model(self, model: LanguageModel) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Delegates to these other agents if no published capability fits: to the first agent with a matching
    /// skill on its card.
    #[must_use]
    pub fn with_peers(self, peers: impl IntoIterator<Item = Arc<dyn PeerAgent>>) -> Self {
        Self { peers: peers.into_iter().collect(), ..self }
    }

    /// Returns the agent for one requester. Guardians see its identity. Shared backends get its credentials
    /// and no others.
    #[must_use]
    pub fn with_requester(&self, requester: &Requester) -> Self {
        let sources = self.backends.iter().map(|source| source.with_requester(requester)).collect();
        let guard = self.guard.with_requester(requester);
        Self { backends: sources, guard, ..self.clone() }
    }

    /// Returns the agent without other agents to ask.
    #[must_use]
    pub fn without_peers(self) -> Self {
        Self { peers: Vec::new(), ..self }
    }

    /// Returns the backends that the agent searches, in order.
    #[must_use]
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Returns the guard that is asked about messages.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the source of time and ids.
    #[must_use]
    pub fn clock(&self) -> &ClockAndIds {
        &self.clock
    }

    /// Runs one turn of a conversation, and reports its events as they happen. The last event is the
    /// response itself. When the future is dropped, running capabilities are stopped.
    ///
    /// # Errors
    /// The request cannot be used, or no registry or executor responds. Every other failure is a response.
    pub async fn handle(
        &self,
        request: AgentRequest,
        store: &dyn StateStore,
        emit: &mut (dyn FnMut(AgentEvent) + Send),
    ) -> Result<AgentResponse, Error> {
        turn::run_turn(self, request, store, emit).await
    }
}
