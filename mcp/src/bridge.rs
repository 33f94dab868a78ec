//! A bridge between standard input and output and an MCP server over HTTP, message by message.
//!
//! It makes no decision: messages of the client go from standard input to the server, and messages of the
//! server go to standard output. So every message passes through the server, which asks the guardians.

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

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::MAX_MESSAGE;
use agent::ServiceClient;

#[cfg(test)]
mod tests;

/// The most messages of the client that may be on their way to the server. Further messages are read later.
const MAX_PENDING_MESSAGES: usize = 1_024;

/// The time to wait for responses after the end of standard input. Piped requests get their responses, and
/// a client that has gone does not keep the server busy.
const RESPONSE_GRACE: Duration = Duration::from_secs(5);

/// The time for the server to be informed that the conversation is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why the bridge ended before its client.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// Responses can no longer be written to the client.
    #[error("cannot write to standard output: {0}")]
    Output(String),
    /// The server ended the conversation.
    #[error("the server has ended the session")]
    Ended,
}

/// Connects standard input and output to the MCP server of the services that `client` reaches. Ends when
/// standard input has ended and all requests have responses, or five seconds after that end.
///
/// # Errors
/// When standard output or the server ends first.
pub async fn bridge(client: &ServiceClient) -> Result<(), BridgeError> {
    let (input, output) = stdio_pipes();
    let near = line_transport(input, output);
    let far = StreamableHttpClientTransport::with_client(client.http(), config(client));
    join(near, far, RESPONSE_GRACE).await
}

/// Returns the transport of messages in lines. A client may end its input without the newline of its last
/// message, which the reader of lines would drop.
fn line_transport<R, W>(input: R, output: W) -> impl Transport<RoleServer>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    AsyncRwTransport::new(input.chain(b"\n".as_slice()), output).with_max_line_length(MAX_MESSAGE)
}

fn config(client: &ServiceClient) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(client.path(&["mcp"]).as_str());
    config.auth_header = client.token().map(|token| token.expose_secret().to_owned());
    config.max_concurrent_requests = MAX_PENDING_MESSAGES;
    config
}

/// Passes messages in both directions. For a message that does not reach the server, the client gets an
/// error. After the end of the client's messages, waits for responses as long as `answering`.
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
            Some(delivered) = under_way.next() => match delivery_error(delivered) {
                Some(answer) => answer,
                None => continue,
            },
            message = far.receive() => match message {
                Some(message) => message,
                None => {
                    // Reports failures first.
                    while let Some(Some(delivered)) = under_way.next().now_or_never() {
                        if let Some(answer) = delivery_error(delivered) {
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
    // The server learns that the session is over, and stops what runs for it. A session that has
    // just begun cannot be closed, so this wait is short.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, far.close()).await;
    ended
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// The error response to a request that did not reach the server.
fn delivery_error<E: Display>(
    (id, sent): (Option<RequestId>, Option<Result<(), E>>),
) -> Option<ServerJsonRpcMessage> {
    let error = sent?.err()?;
    tracing::warn!(%error, "a message could not be sent to the server");
    // A notification expects no response.
    let id = id?;
    let words = format!("the A2S server is not reachable: {error}");
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, words, None);
    Some(ServerJsonRpcMessage::error(error, Some(id)))
}
