//! The MCP server: capabilities for every agent that speaks the Model Context Protocol.
//!
//! [`routes`] serves `/mcp` over streamable HTTP. [`bridge()`] connects standard input and output to it, so
//! that all traffic passes through this server and its [`Guard`]. The registry and the executor get the
//! caller's own token: this server never lends the owner's token to a caller.
//!
//! Five tools find, show, plan, run and verify any capability; each capability that [`ListedTools`] selects
//! is also its own tool. Documents are resources, and a prompt explains the procedure.

mod bridge;
mod capability_cache;
mod capability_tools;
mod elicitation;
mod guard_messages;
mod resources_and_prompts;
mod run_tool;
mod server;
mod session_liveness;
mod tool_arguments;
mod tool_call;
mod tool_result;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use a2s_api::{AuthError, AuthGuard, AuthenticatedCaller, CallerHeaders};
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
use agent::ClockAndIds;
use agent::Error;
use agent::Guard;
use agent::Requester;
use agent::ServiceClients;

pub use bridge::{BridgeError, bridge};
pub use capability_tools::{ListedError, ListedTools};

/// The maximum size of a message, in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The limits of the sessions that callers may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most sessions. Each is a task with its buffers.
    pub sessions: usize,
    /// The most sessions of one principal. The principals of one token have at most half of all.
    pub of_principal: usize,
    /// The most sessions of all callers without a known token together.
    pub of_anonymous: usize,
    /// The time that a session without activity is kept.
    pub idle: Duration,
    /// The time that a session is kept without a request after it was opened.
    pub unused: Duration,
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

/// The configuration of the MCP server.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Capabilities that are separate tools.
    pub listed: Vec<ListedTools>,
    /// Set when clients without forms run actions that are not known to be read-only without confirmation.
    pub consent_off: bool,
    /// The limits of the sessions.
    pub limits: Limits,
}

/// `/mcp` over streamable HTTP, until `stop`.
///
/// `clients` reach registry and executor with a token that is used only to find the [`ListedTools`]; the
/// requests of a caller carry the caller's own token. `door` identifies the callers; an unknown one is
/// anonymous. The server around these routes checks host and origin.
pub fn routes(
    clients: &ServiceClients,
    auth_guard: AuthGuard,
    guard: Guard,
    clock: ClockAndIds,
    config: Config,
    stop: CancellationToken,
) -> Router {
    let facts = CapabilityCache::default();
    let listing =
        ToolListing::start(config.listed, clients.registry.clone(), facts.clone(), stop.clone());
    let shared = McpServerState::new(clients.with_token(None), guard, clock, facts, listing);
    let shared = if config.consent_off { shared.without_consent() } else { shared };
    let shared = Arc::new(shared);
    over_http(move || McpServer::new(Arc::clone(&shared)), config.limits, stop)
        .layer(from_fn_with_state(auth_guard, find_requester))
}

/// Finds the requester. The services decide its rights, so a caller without a known token is anonymous
/// here.
async fn find_requester(
    State(auth_guard): State<AuthGuard>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let shown =
        CallerHeaders::from_headers(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes));
    let known = request.extensions().get::<AuthenticatedCaller>();
    let requester = match auth_guard.authenticate(known, shown).await {
        Ok(caller) => Requester::from_caller(&caller, shown),
        Err(AuthError::MissingToken | AuthError::UnknownToken) => {
            Requester::from_unknown_caller(shown)
        }
        Err(refusal) => return Error::Auth(refusal).into_response(),
    };
    request.extensions_mut().insert(requester);
    next.run(request).await
}

/// Serves an MCP server at `/mcp`, within limits.
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
