//! The agent: what it searches, what it runs with, and whom it asks.

pub(crate) mod turn;

use a2s::api::{AgentEvent, AgentRequest, AgentResponse};

use crate::a2a::UnresolvedAgent;
use crate::client::{ServiceClient, ServiceClients};
use crate::clock_and_ids::ClockAndIds;
use crate::error::Error;
use crate::executor::RemoteExecutor;
use crate::guard::Guard;
use crate::model::LanguageModel;
use crate::registry::RemoteRegistry;
use crate::requester::Requester;
use crate::state_store::StateStore;

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 8 << 10;
/// The longest name of a conversation, in characters.
pub const MAX_SESSION: usize = 200;
/// How many capabilities are tried for one intent.
const MAX_CANDIDATES: usize = 5;

/// Where capabilities are found, and what runs those that are found there.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Knows them.
    pub registry: RemoteRegistry,
    /// Gets its documents from that registry.
    pub executor: RemoteExecutor,
    /// Reaches both with the credentials of whichever requester a turn is taken for; none where
    /// both are reached with credentials of the agent's own.
    pub shared: Option<ServiceClients>,
}

/// Finds capabilities for what somebody wants, and has them run: the `A2SAgent` of the A2S text.
///
/// A turn goes through the steps that the text prints: the message is read, capabilities are
/// searched, the digest of the best is computed again, what it lacks is resolved or asked for, it is
/// run, and what came of it is told. One that does not verify, is denied or fails makes room for the
/// next, as long as nothing was changed by it.
///
/// ```no_run
/// use a2s::api::AgentRequest;
/// use agent::{Agent, Client, EmptyState, ClockAndIds, Backend};
///
/// # async fn example(outside: ClockAndIds) -> Result<(), agent::Error> {
/// let registry = Client::new(&"https://registry.example.com".parse().unwrap(), None)?;
/// let agent = Agent::new(outside).use_registries([Backend::at(registry)]);
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
    pub(crate) peers: Vec<UnresolvedAgent>,
    pub(crate) max_candidates: usize,
    /// Whether actions run without a question.
    pub(crate) consent_off: bool,
}

impl Backend {
    /// Registry and executor at one address.
    #[must_use]
    pub fn from_client(client: ServiceClient) -> Self {
        let (registry, executor) =
            (RemoteRegistry::new(client.clone()), RemoteExecutor::new(client));
        Self { registry, executor, shared: None }
    }

    /// Registry and executor that see each requester with its own credentials (see
    /// [`Agent::acting_for`]). `clients` have those for what is done for no requester.
    #[must_use]
    pub fn shared(clients: ServiceClients) -> Self {
        Self {
            registry: RemoteRegistry::new(clients.registry.clone()),
            executor: RemoteExecutor::new(clients.executor.clone()),
            shared: Some(clients),
        }
    }

    fn acting_for(&self, requester: &Requester) -> Self {
        match &self.shared {
            Some(clients) => Self::shared(clients.acting_for(requester)),
            None => self.clone(),
        }
    }
}

impl Agent {
    /// An agent without registries, whose words no guardian reads and no language model writes.
    #[must_use]
    pub fn new(outside: ClockAndIds) -> Self {
        let guard = Guard::new(None, outside.clone());
        let (sources, peers) = (Vec::new(), Vec::new());
        Self {
            backends: sources,
            guard,
            clock: outside,
            model: None,
            peers,
            max_candidates: MAX_CANDIDATES,
            consent_off: false,
        }
    }

    /// Searches these, and no others.
    #[must_use]
    pub fn with_backends(self, sources: impl IntoIterator<Item = Backend>) -> Self {
        Self { backends: sources.into_iter().collect(), ..self }
    }

    /// Asks these guardians about every message and every search. What capabilities do is asked by
    /// the executor.
    #[must_use]
    pub fn with_guard(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// Runs what is not known to be read-only without a question. Every answer says so.
    #[must_use]
    pub fn without_consent(self) -> Self {
        Self { consent_off: true, ..self }
    }

    /// Lets a language model read what somebody wants, and write what is answered.
    #[must_use]
    pub fn with_model(self, model: LanguageModel) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Asks these other agents for what nothing that is published fits: the first whose card names a
    /// skill for it.
    #[must_use]
    pub fn with_peers(self, peers: impl IntoIterator<Item = UnresolvedAgent>) -> Self {
        Self { peers: peers.into_iter().collect(), ..self }
    }

    /// The same agent for one requester: guardians see who it is, and sources that are shared see its
    /// credentials and no others.
    #[must_use]
    pub fn acting_for(&self, requester: &Requester) -> Self {
        let sources = self.backends.iter().map(|source| source.acting_for(requester)).collect();
        let guard = self.guard.acting_for(requester);
        Self { backends: sources, guard, ..self.clone() }
    }

    /// The same agent, which asks no other one.
    pub(crate) fn without_peers(self) -> Self {
        Self { peers: Vec::new(), ..self }
    }

    /// Takes one turn of a conversation, and tells what happens while it happens. The last event is
    /// the answer itself. When the future is dropped, what runs is stopped.
    ///
    /// # Errors
    /// The request cannot be used, or no registry or executor answers. Everything else that may go
    /// wrong is an answer.
    pub async fn handle(
        &self,
        request: AgentRequest,
        store: &dyn StateStore,
        tell: &mut (dyn FnMut(AgentEvent) + Send),
    ) -> Result<AgentResponse, Error> {
        turn::run_turn(self, request, store, tell).await
    }
}
