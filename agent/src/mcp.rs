//! The MCP server: capabilities for every agent that speaks the Model Context Protocol.
//!
//! [`routes`] serves `/mcp` over streamable HTTP; [`bridge()`] joins standard input and output to it,
//! so that all traffic passes this one place and its [`Guard`]. A caller is shown to registry and
//! executor with its own token: this server lends nobody the owner's.
//!
//! Five tools find, show, plan, run and verify any capability; what [`ListedTools`] names is a tool of
//! its own besides. Documents are resources, a prompt explains the loop.

mod bridge;
mod capability_cache;
mod capability_tools;
mod elicitation;
mod guard_messages;
mod resources_and_prompts;
mod run_tool;
mod server;
mod session_liveness;
mod tool_call;
mod tool_result;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use a2s::{AuthError, AuthGuard, AuthenticatedCaller, CallerHeaders};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use self::capability_cache::CapabilityCache;
use self::capability_tools::ToolListing;
use self::server::{McpServer, McpServerState};
use self::session_liveness::SessionLiveness;
use crate::client::ServiceClients;
use crate::clock_and_ids::ClockAndIds;
use crate::error::Error;
use crate::guard::Guard;
use crate::requester::Requester;

pub use bridge::{BridgeError, bridge};
pub use capability_tools::{ListedError, ListedTools};

/// The largest message that is read.
const MAX_MESSAGE: usize = 1 << 20;

/// How much of a server callers may hold, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many sessions there may be; each is a task and its buffers.
    pub sessions: usize,
    /// How many of them one principal may have.
    pub of_principal: usize,
    /// How many callers without a known token may have together.
    pub of_anonymous: usize,
    /// How long a session is kept in which nothing happens.
    pub idle: Duration,
    /// How long a session is kept in which nothing was asked since it was opened.
    pub unused: Duration,
}

impl Limits {
    /// How many sessions one principal may have, or all callers without one together.
    fn share(&self, is_anonymous: bool) -> usize {
        if is_anonymous { self.of_anonymous } else { self.of_principal }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 256,
            of_principal: 64,
            of_anonymous: 16,
            idle: Duration::from_secs(30 * 60),
            unused: Duration::from_secs(60),
        }
    }
}

/// What the MCP server is told.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Capabilities that are tools of their own.
    pub listed: Vec<ListedTools>,
    /// Whether clients without forms run what is not known to be read-only without confirming it.
    pub consent_off: bool,
    /// How much callers may hold.
    pub limits: Limits,
}

/// `/mcp` over streamable HTTP, until `stop`.
///
/// `clients` reach registry and executor with a token that is used to find what is [`ListedTools`] and for
/// nothing else: a caller is shown with its own. `door` knows the callers; one that it does not know is anonymous. Host and origin
/// are checked by whoever serves this.
pub fn routes(
    clients: &ServiceClients,
    door: AuthGuard,
    guard: Guard,
    outside: ClockAndIds,
    config: Config,
    stop: CancellationToken,
) -> Router {
    let facts = CapabilityCache::default();
    let listing =
        ToolListing::start(config.listed, clients.registry.clone(), facts.clone(), stop.clone());
    let shared = McpServerState::new(clients.with_token(None), guard, outside, facts, listing);
    let shared = if config.consent_off { shared.without_consent() } else { shared };
    let shared = Arc::new(shared);
    over_http(move || McpServer::new(Arc::clone(&shared)), config.limits, stop)
        .layer(from_fn_with_state(door, find_requester))
}

/// Finds the requester. The services decide what it may do, so a caller without a known token is
/// anonymous here.
async fn find_requester(
    State(door): State<AuthGuard>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let shown = CallerHeaders::from_headers(|name| headers.get(name).map(HeaderValue::as_bytes));
    let known = request.extensions().get::<AuthenticatedCaller>();
    let requester = match door.authenticate(known, shown).await {
        Ok(caller) => Requester::from_caller(&caller, shown),
        Err(AuthError::MissingToken | AuthError::UnknownToken) => {
            Requester::from_unknown_caller(shown)
        }
        Err(refusal) => return Error::Auth(refusal).into_response(),
    };
    request.extensions_mut().insert(requester);
    next.run(request).await
}

/// Any MCP server at `/mcp`, within limits.
pub fn over_http<S: ServerHandler + Send + 'static>(
    server: impl Fn() -> S + Send + Sync + 'static,
    limits: Limits,
    stop: CancellationToken,
) -> Router {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(limits.idle);
    let sessions = Arc::new(sessions);
    let presence = SessionLiveness::new(Arc::clone(&sessions), limits);
    let transport = StreamableHttpServerConfig::default()
        // Who serves this checks both, for every route alike.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_MESSAGE)
        .with_cancellation_token(stop);
    let service = StreamableHttpService::new(move || Ok(server()), sessions, transport);
    Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(presence, session_liveness::track_session))
}
