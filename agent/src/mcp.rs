//! The MCP server: capabilities for every agent that speaks the Model Context Protocol.
//!
//! [`routes`] serves `/mcp` over streamable HTTP; [`bridge()`] joins standard input and output to it,
//! so that all traffic passes this one place and its [`Guard`]. A caller is shown to registry and
//! executor with its own token: this server lends nobody the owner's.
//!
//! Five tools find, show, plan, run and verify any capability; what [`Listed`] names is a tool of
//! its own besides. Documents are resources, a prompt explains the loop.

mod answer;
mod ask;
mod bridge;
mod call;
mod documents;
mod execute;
mod facts;
mod guarded;
mod listed;
mod presence;
mod server;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use self::facts::Facts;
use self::listed::Listing;
use self::presence::Presence;
use self::server::{Server, Shared};
use crate::client::Client;
use crate::guard::Guard;
use crate::outside::Outside;

pub use bridge::{BridgeError, bridge};
pub use listed::{Listed, ListedError};

/// The largest message that is read.
const MAX_MESSAGE: usize = 1 << 20;
/// How many sessions there may be; each is a task and its buffers.
const MAX_SESSIONS: usize = 256;
/// How long a session is kept in which nothing happens.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// What the MCP server is told.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Capabilities that are tools of their own.
    pub listed: Vec<Listed>,
}

/// `/mcp` over streamable HTTP, until `stop`.
///
/// `client` reaches registry and executor with the
/// owner's token, which is used to find what is [`Listed`] and for nothing else: a caller is shown
/// with its own. Host, origin and token of callers are checked by whoever serves this.
pub fn routes(
    client: &Client,
    guard: Guard,
    outside: Outside,
    config: Config,
    stop: CancellationToken,
) -> Router {
    let facts = Facts::default();
    let listing = Listing::start(config.listed, client.clone(), facts.clone(), stop.clone());
    let shared = Arc::new(Shared::new(client.with_token(None), guard, outside, facts, listing));
    over_http(move || Server::new(Arc::clone(&shared)), stop)
}

/// Any MCP server at `/mcp`, within the limits that hold for ours.
pub fn over_http<S: ServerHandler + Send + 'static>(
    server: impl Fn() -> S + Send + Sync + 'static,
    stop: CancellationToken,
) -> Router {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config = session_config();
    let sessions = Arc::new(sessions);
    let presence = Presence::new(Arc::clone(&sessions), MAX_SESSIONS);
    let transport = StreamableHttpServerConfig::default()
        // Who serves this checks both, for every route alike.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_MESSAGE)
        .with_cancellation_token(stop);
    let service = StreamableHttpService::new(move || Ok(server()), sessions, transport);
    Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(presence, presence::watch))
}

fn session_config() -> SessionConfig {
    let mut config = SessionConfig::default();
    config.keep_alive = Some(IDLE);
    config
}
