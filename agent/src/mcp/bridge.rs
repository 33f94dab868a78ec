//! Standard input and output joined to an MCP server over HTTP, message by message.
//!
//! Nothing is decided here: what a client sends on standard input goes to the server, and what the
//! server says comes out, so that every message passes the one place where guardians are asked.

use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use futures::future::{FutureExt as _, maybe_done};
use futures::poll;
use futures::stream::{FuturesUnordered, StreamExt as _};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, JsonRpcResponse,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport, stdio_pipes};
use rmcp::{RoleClient, RoleServer};

use super::MAX_MESSAGE;
use crate::client::ServiceClient;

#[cfg(test)]
mod tests;

/// How many messages of the client may be under way to the server; further ones wait to be read.
const MAX_PENDING_MESSAGES: usize = 1_024;

/// How long a client that says nothing more waits for answers: what is piped in is answered, and one
/// that has gone does not keep the server at work.
const RESPONSE_GRACE: Duration = Duration::from_secs(5);

/// How long the server has to hear that the conversation is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the bridge ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// What the client sends cannot be answered any more.
    #[error("standard output is closed: {0}")]
    Output(String),
    /// The server ended the conversation.
    #[error("the server has ended the conversation")]
    Ended,
}

/// Joins standard input and output to the MCP server of the services that `client` reaches, until
/// standard input ends and what was asked is answered, or five seconds have gone since.
///
/// # Errors
/// When the other side of either ends first.
pub async fn bridge(client: &ServiceClient) -> Result<(), BridgeError> {
    let (input, output) = stdio_pipes();
    let near =
        AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(MAX_MESSAGE);
    let far = StreamableHttpClientTransport::with_client(client.http(), config(client));
    join(near, far, RESPONSE_GRACE).await
}

fn config(client: &ServiceClient) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(client.path(&["mcp"]).as_str());
    config.auth_header = client.token().map(|token| token.expose_secret().to_owned());
    config.max_concurrent_requests = MAX_PENDING_MESSAGES;
    config
}

/// Carries messages both ways. What the server cannot be told is answered as an error. Behind the end
/// of the client's messages it waits for answers as long as `answering`.
async fn join(
    mut near: impl Transport<RoleServer>,
    mut far: impl Transport<RoleClient>,
    answering: Duration,
) -> Result<(), BridgeError> {
    let mut under_way = FuturesUnordered::new();
    let mut unanswered = Vec::new();
    let mut speaks = true;
    let mut patience = pin!(tokio::time::sleep(answering));
    let ended = loop {
        if !speaks && under_way.is_empty() && unanswered.is_empty() {
            break Ok(());
        }
        let answer = tokio::select! {
            message = near.receive(), if speaks && under_way.len() < MAX_PENDING_MESSAGES => {
                let Some(message) = message else {
                    speaks = false;
                    patience.as_mut().reset(tokio::time::Instant::now() + answering);
                    continue;
                };
                let id = request_id(&message);
                unanswered.extend(id.clone());
                let mut sent = Box::pin(maybe_done(far.send(message)));
                // It takes its place in the queue before the next one is read: a server that
                // hears a call before `initialized` ends the conversation.
                let _ = poll!(&mut sent);
                under_way.push(async move {
                    sent.as_mut().await;
                    (id, sent.as_mut().take_output())
                });
                continue;
            }
            () = &mut patience, if !speaks => break Ok(()),
            Some(told) = under_way.next() => match delivery_error(told) {
                Some(answer) => answer,
                None => continue,
            },
            message = far.receive() => match message {
                Some(message) => message,
                None => {
                    // What failed is told first.
                    while let Some(Some(told)) = under_way.next().now_or_never() {
                        if let Some(answer) = delivery_error(told) {
                            let _ = near.send(answer).await;
                        }
                    }
                    break Err(BridgeError::Ended);
                }
            },
        };
        if let JsonRpcMessage::Response(JsonRpcResponse { id, .. })
        | JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) = &answer
        {
            unanswered.retain(|waiting| waiting != id);
        }
        if let Err(error) = near.send(answer).await {
            break Err(BridgeError::Output(error.to_string()));
        }
    };
    // The server learns that the session is over, and stops what runs for it. A conversation that
    // has hardly begun cannot be closed, so nobody waits for that.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, far.close()).await;
    ended
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// What the client is told of a request that did not reach the server.
fn delivery_error<E: Display>(
    (id, sent): (Option<RequestId>, Option<Result<(), E>>),
) -> Option<ServerJsonRpcMessage> {
    let error = sent?.err()?;
    tracing::warn!(%error, "a message did not reach the server");
    // Nobody waits for the answer to a notification.
    let id = id?;
    let words = format!("the A2S server cannot be reached: {error}");
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, words, None);
    Some(ServerJsonRpcMessage::error(error, Some(id)))
}
