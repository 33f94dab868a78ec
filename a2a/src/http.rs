//! The card at `/.well-known/agent-card.json`, and JSON-RPC at `/a2a`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use a2s::Digest;
use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::{Map, Value};
use url::Url;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::agent_card;
use crate::described::{AgentCard, JsonRpcRequest, JsonRpcResponse};
use crate::rpc::{Kind, RpcError};
use crate::server::{A2aServer, RpcResponse};
use crate::wire_versions::A2aVersion;
use agent::Error;
use agent::Requester;

/// The maximum size of a request, in bytes: a message with its inputs.
const MAX_BODY: usize = 256 << 10;
/// The interval at which a silent stream sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The version of the protocol that a caller speaks (A2A 1.0, section 3.6).
const VERSION: &str = "a2a-version";

/// An agent as a server of A2A. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct App {
    agent: agent::App,
    server: Arc<A2aServer>,
    /// The address of this service for others, if it is not the one that they name.
    url: Option<Url>,
}

impl App {
    /// Creates the server. It shares the callers and the limit of simultaneous turns with `agent`.
    #[must_use]
    pub fn new(agent: &agent::App) -> Self {
        let server = A2aServer::new(agent.agent().clone(), Arc::clone(agent.turns()));
        Self { agent: agent.clone(), server: Arc::new(server), url: None }
    }

    /// Sets the address of this agent on its card, as others see it. Without it, the card contains the
    /// address of the request.
    #[must_use]
    pub fn with_public_url(self, url: Option<Url>) -> Self {
        Self { url, ..self }
    }

    /// Returns the routes, for the router of a larger service.
    pub fn routes(&self) -> Router {
        let (call, _) = call_routes().split_for_parts();
        let call = self.agent.authorize(call.layer(DefaultBodyLimit::max(MAX_BODY)));
        // The card is how others find out that they need a token.
        call.merge(card_routes().split_for_parts().0).with_state(self.clone())
    }

    /// The description of the routes.
    #[must_use]
    pub fn openapi() -> utoipa::openapi::OpenApi {
        let mut openapi = call_routes().into_openapi().merge_from(card_routes().into_openapi());
        a2s_api::add_error_responses(&mut openapi);
        openapi
    }
}

fn call_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(call_a2a))
}

fn card_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_agent_card))
}

/// The card of this agent
///
/// Describes this agent to other agents: its address, the authentication that it requires, and the first
/// 100 of the published capabilities as its skills. The header A2A-Version with the value 1.0 requests the
/// notation of A2A 1.0. Without the header, the card has the notation of 0.3, which lists the interfaces of
/// 1.0 as well.
#[utoipa::path(
    get, path = "/.well-known/agent-card.json", tag = "agent",
    params(
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier response"),
        ("A2A-Version" = Option<String>, Header, pattern = "^(0\\.3|1\\.0)?$", description = "`0.3` or `1.0`: the version of the card's format"),
    ),
    responses(
        (status = 200, description = "The card", body = AgentCard),
        (status = 400, description = "Unknown version of A2A"),
        (status = 304, description = "The card has not changed"),
    ),
)]
async fn get_agent_card(State(app): State<App>, headers: HeaderMap) -> Result<Response, Error> {
    let endpoint = endpoint(app.url.as_ref(), &headers)?;
    // Version 0.3 knew no header (A2A 1.0, section 3.6.2).
    let version = match headers.get(VERSION).map(|version| version.to_str().unwrap_or("?")) {
        None => A2aVersion::V0_3,
        Some(text) if text.trim().is_empty() => A2aVersion::V0_3,
        Some(text) => A2aVersion::from_text(text)
            .ok_or_else(|| Error::BadRequest("`A2A-Version` must be `0.3` or `1.0`".to_owned()))?,
    };
    let (skills, has_more) = app.server.skills().await?;
    let card = agent_card::write_card(&endpoint, &skills, has_more, version).to_string();
    let tag = format!("\"{}\"", Digest::of_bytes(card.as_bytes()).to_hex());
    let head = [
        (CONTENT_TYPE, "application/json".to_owned()),
        (ETAG, tag.clone()),
        (CACHE_CONTROL, "private, max-age=60".to_owned()),
        (VARY, "host, a2a-version".to_owned()),
    ];
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let mut known = known.flat_map(|tags| tags.split(','));
    if known.any(|known| known.trim().trim_start_matches("W/") == tag) {
        return Ok((StatusCode::NOT_MODIFIED, head).into_response());
    }
    Ok((head, card).into_response())
}

/// The address of this agent: the one that its operator has set, or else the host that the caller has
/// named.
fn endpoint(url: Option<&Url>, headers: &HeaderMap) -> Result<Url, Error> {
    let base = match url {
        Some(url) => url.clone(),
        None => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            format!("http://{host}/")
                .parse()
                .map_err(|_| Error::BadRequest("`Host` does not contain a host".to_owned()))?
        }
    };
    let mut endpoint = base;
    if let Ok(mut segments) = endpoint.path_segments_mut() {
        segments.pop_if_empty().push("a2a");
    }
    Ok(endpoint)
}

/// Call the agent over A2A
///
/// JSON-RPC 2.0 as A2A uses it: `message/send`, `message/stream`, `tasks/get`, `tasks/cancel` and
/// `tasks/resubscribe` of version 0.3, and `SendMessage`, `SendStreamingMessage`, `GetTask`, `ListTasks`,
/// `CancelTask` and `SubscribeToTask` of version 1.0. A message is a turn of the agent. Streams are
/// server-sent events; each event is a response to the request.
#[utoipa::path(
    post, path = "/a2a", tag = "agent", security(("token" = [])),
    params(("A2A-Version" = Option<String>, Header, description = "`0.3` or `1.0`, the version of the method")),
    request_body = JsonRpcRequest,
    responses(
        (status = 200, description = "A result or an error of JSON-RPC, or a stream of results and errors", content(
            (JsonRpcResponse = "application/json"),
            (String = "text/event-stream"),
        )),
    ),
)]
async fn call_a2a(
    State(app): State<App>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(body) = body else {
        let text = format!("the request is incomplete, or has more than {MAX_BODY} bytes");
        return Json(RpcError::new(Kind::Request, text).to_response(&Value::Null)).into_response();
    };
    // A header that is not text has no version.
    let version = headers.get(VERSION).map(|version| version.to_str().unwrap_or("?"));
    match app.server.acting_for(&requester).handle_request(&body, version).await {
        RpcResponse::Single(answer) => Json(answer).into_response(),
        RpcResponse::Stream(answers) => {
            let events = answers.map(|answer| Ok::<_, Infallible>(event(&answer)));
            Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
        }
    }
}

/// Converts a response to a stream event. It has one line, because JSON escapes line breaks.
fn event(answer: &Map<String, Value>) -> Event {
    let text = serde_json::to_string(answer).unwrap_or_default();
    Event::default().data(text)
}

#[cfg(test)]
mod tests;
