//! The only exit to services: it accepts only a permitted request.
//!
//! An address is checked before a connection is made, and again where its name is resolved: a connection
//! goes to a checked address, and the name is not resolved a second time. Proxy variables are ignored. This
//! module does not follow redirects: [`ServiceReply`] names the next request, which needs a verdict of its own. It
//! sends a request once; the caller decides with [`RetrySchedule`] whether to send it again, and records
//! that. (The connection pool may move a request of which no byte was written yet to a fresh connection.)
//!
//! Credentials are added to a request here, after it was recorded and shown, and are removed from its
//! response before anything reads it.
//!
//! `upstreams` redirect the connections for a host to another address. That address is configuration, so
//! the address rules do not apply to it. Its path is put before the path of the request, and the `Host`
//! header is its own, as in a direct request. Everything else keeps the document's host.

mod address;
mod certificate;
mod client;
mod content_coding;
mod credentials;
mod host_limiter;
mod mcp_session;
pub(crate) mod redirect;
mod resolve;
mod response_body;
mod retry;
mod send_error;
mod service_client;
mod token;

use std::sync::Arc;
use std::time::Duration;

use a2s_api::{HostHealth, HostState, RequestPurpose};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::clock::Clock;
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::gate::Permitted;
use crate::registry_client::RegistryClient;
use crate::request::{EventStreamReader, PreparedRequest, RawResponse, RedirectTarget, authority};
use crate::vault::Vault;
use client::{HttpClients, check_headers};
pub(crate) use credentials::RequestAuthorization;
use credentials::WireAdditions;
use host_limiter::{HostLimiters, HostSignal};
pub(crate) use host_limiter::{SendPermit, Throttle};
use mcp_session::SessionServers;
pub(crate) use mcp_session::{SessionError, SessionOpening};
use response_body::BodyReader;
pub(crate) use retry::{RetryPause, RetrySchedule};
pub(crate) use send_error::SendError;
pub(crate) use token::TokenFetch;
use token::{TokenCache, TokenFetcher};

/// The maximum number of redirects after the first request of an attempt.
pub(crate) const MAX_REDIRECTS: u32 = 5;

/// The response to one request.
#[derive(Debug, Clone)]
pub(crate) enum ServiceReply {
    /// The response for the step.
    Response(RawResponse),
    /// A redirect to another request. The body of the response is not read.
    Redirect(RawResponse, Box<RedirectTarget>),
}

impl ServiceReply {
    /// Returns the status and headers, and the body if it is not a redirect.
    pub(crate) fn response(&self) -> &RawResponse {
        match self {
            Self::Response(response) | Self::Redirect(response, _) => response,
        }
    }

    /// Returns the response to a request that must not be redirected.
    fn into_response(self, url: &Url) -> Result<RawResponse, SendError> {
        match self {
            Self::Response(response) => Ok(response),
            Self::Redirect(..) => {
                let message = format!("{} redirects more than 0 times", authority(url));
                Err(SendError::after_send(ErrorKind::RedirectRefused, message))
            }
        }
    }
}

/// Records an additional request of a step before it is sent, so that a crash does not hide it.
pub(crate) trait AnnounceRequest: Sync {
    /// Records the request, and returns when the record can no longer be lost.
    fn announce<'a>(
        &'a self,
        purpose: RequestPurpose,
        request: &PreparedRequest,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// The client that sends permitted requests.
#[derive(Debug)]
pub(crate) struct OutboundClient {
    clients: HttpClients,
    vault: Arc<Vault>,
    registry: Arc<RegistryClient>,
    tokens: TokenCache,
    sessions: SessionServers,
    request_timeout: Duration,
    read_timeout: Duration,
    max_request_bytes: usize,
    max_response_bytes: usize,
    max_pause: Duration,
    limiters: HostLimiters,
    clock: Arc<dyn Clock>,
}

impl OutboundClient {
    /// Creates a client with the limits, upstreams and allowed addresses of the configuration. Nothing is
    /// sent yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when an allowed address or an upstream cannot be read, when TLS
    /// has no roots to trust, or when a client certificate cannot be used.
    pub(crate) fn new(
        config: &Config,
        vault: Arc<Vault>,
        registry: Arc<RegistryClient>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let limits = &config.limits;
        Ok(Self {
            clients: HttpClients::new(config)?,
            vault,
            registry,
            tokens: TokenCache::default(),
            sessions: SessionServers::default(),
            request_timeout: limits.request_timeout,
            read_timeout: limits.read_timeout,
            max_request_bytes: limits.max_request_bytes,
            max_response_bytes: limits.max_response_bytes,
            max_pause: limits.max_pause,
            limiters: HostLimiters::new(config.hosts.clone()),
            clock,
        })
    }

    /// The replacement address for connections to the host of `url`.
    pub(crate) fn upstream_of(&self, url: &Url) -> Option<String> {
        self.clients.upstream(url).map(|upstream| upstream.as_str().to_owned())
    }

    /// The state of the hosts that received requests.
    pub(crate) fn host_states(&self) -> Vec<HostState> {
        self.limiters.states()
    }

    /// The health of the hosts that received a request recently.
    pub(crate) fn recent_health(&self) -> Vec<HostHealth> {
        self.limiters.recent_health()
    }

    /// Waits until a request to `url` may be sent, within `time` if that is less than the limit of a
    /// request. Calls `on_wait` when it has to wait.
    ///
    /// # Errors
    /// When it takes too long, or the host has failed so often that it gets no requests for a time.
    pub(crate) async fn acquire_permit(
        &self,
        url: &Url,
        time: Option<Duration>,
        on_wait: &(dyn Fn(Throttle) + Sync),
    ) -> Result<SendPermit, SendError> {
        let is_redirected = self.clients.upstream(url).is_some();
        let (tenant, time) = (current_tenant(), self.bound_time(time));
        self.limiters.acquire(&tenant, (url, is_redirected), time, on_wait).await
    }

    /// Gets the tokens for a request, within `time` if that is less than the limit of a request. It does so
    /// before the request waits for its turn, because both may go to one host. Calls `on_fetch` for each
    /// requested token.
    ///
    /// # Errors
    /// When one of them is not available.
    pub(crate) async fn fetch_tokens(
        self: &Arc<Self>,
        request: &Permitted<PreparedRequest>,
        authorization: &mut RequestAuthorization<'_>,
        time: Option<Duration>,
        announce: &dyn AnnounceRequest,
        on_fetch: &(dyn Fn(TokenFetch) + Sync),
    ) -> Result<(), SendError> {
        let time = self.bound_time(time);
        let secrets = authorization.secrets;
        let fetcher = TokenFetcher { outbound: self, request, secrets, announce, on_fetch };
        let tokens = timeout(time, fetcher.get_tokens(&authorization.needs)).await;
        let tokens = tokens.unwrap_or_else(|_| {
            let host = authority(request.url());
            let message = format!("no token for {host} arrived within {} s", time.as_secs_f32());
            Err(SendError::not_sent(ErrorKind::Timeout, message))
        })?;
        authorization.add_tokens(tokens).map_err(SendError::before_send)
    }

    /// Sends one request, in its turn and with its credentials, and reads the full response, within `time`
    /// if that is less than the limit. The response contains no credentials. A redirect is returned.
    /// Dropping the future ends the connection.
    ///
    /// # Errors
    /// When the address is refused, the connection fails, or the response does not come in time, breaks
    /// off, is too large or cannot be decoded, or redirects to a disallowed address. A response with an
    /// error status is a response all the same, with an empty body.
    pub(crate) async fn send(
        &self,
        request: &Permitted<PreparedRequest>,
        turn: SendPermit,
        authorization: &RequestAuthorization<'_>,
        time: Option<Duration>,
    ) -> Result<ServiceReply, SendError> {
        let wire = authorization.additions();
        let reply = Box::pin(self.transmit(request, turn, wire, time)).await?;
        let scrub = |response| authorization.secrets.remove_credentials(response);
        Ok(match reply {
            ServiceReply::Response(response) => ServiceReply::Response(scrub(response)),
            ServiceReply::Redirect(response, hop) => ServiceReply::Redirect(scrub(response), hop),
        })
    }

    /// Sends one request with the additions for the wire.
    async fn transmit(
        &self,
        request: &Permitted<PreparedRequest>,
        turn: SendPermit,
        wire: &WireAdditions,
        time: Option<Duration>,
    ) -> Result<ServiceReply, SendError> {
        let size = request.body().map_or(0, Bytes::len);
        if self.max_request_bytes < size {
            let message = format!(
                "the body has {size} bytes, but the limit is {} bytes",
                self.max_request_bytes
            );
            return Err(SendError::not_sent(ErrorKind::RequestTooLarge, message));
        }
        let host = || authority(request.url());
        let answer = self.send_and_read(request, wire, self.bound_time(time)).await;
        let quiet =
            answer.as_ref().ok().and_then(|reply| self.requested_quiet_time(reply.response()));
        turn.settle(host_signal(answer.as_ref().map(ServiceReply::response)), quiet);
        let method = request.method();
        match &answer {
            Ok(reply) => {
                let (status, bytes) = (reply.response().status, reply.response().bytes());
                tracing::debug!(host = host(), %method, status, bytes, "answered");
            }
            Err(failure) => {
                let code = failure.error.kind.code().id;
                tracing::debug!(host = host(), %method, code, sent = failure.sent, "no response");
            }
        }
        answer
    }

    fn bound_time(&self, time: Option<Duration>) -> Duration {
        time.map_or(self.request_timeout, |time| time.min(self.request_timeout))
    }

    /// The time for which the host wants no requests at all (RFC 9110, 10.2.3; RFC 6585, 4), up to the
    /// longest pause.
    fn requested_quiet_time(&self, response: &RawResponse) -> Option<Duration> {
        let asks = matches!(response.status, 429 | 503);
        let wanted = asks.then(|| retry::retry_after(&response.headers, self.clock.now()))?;
        wanted.map(|time| time.min(self.max_pause))
    }

    /// Sends one request, and reads the response or the redirect to the next request, within `time`.
    async fn send_and_read(
        &self,
        request: &PreparedRequest,
        wire: &WireAdditions,
        time: Duration,
    ) -> Result<ServiceReply, SendError> {
        let deadline = Instant::now() + time;
        let (method, url) = (request.method(), request.url());
        let (client, target) = self.clients.select(url)?;
        let mut written = wire.headers(url, request.headers());
        written.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let body = wire.body(url, request.body()).filter(|body| !body.is_empty());
        if body.is_none() && expects_body(method) {
            written.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let address = wire.address(url, &target);
        let body = body.unwrap_or_default();
        let overdue = |_| {
            let (host, seconds) = (authority(url), time.as_secs_f32());
            let message = format!("{host} did not send a complete response within {seconds} s");
            SendError::after_send(ErrorKind::Timeout, message)
        };
        let response = client.execute((method, &address, url), written, body);
        let mut response = timeout_at(deadline, response).await.map_err(overdue)??;
        let status = response.status();
        let mut headers = std::mem::take(response.headers_mut());
        let base = self.clients.upstream(url).map(|base| (base, &target));
        let next = redirect::next_target(status, headers.get(LOCATION), method, url, base)
            .map_err(|reason| SendError::after_send(ErrorKind::RedirectRefused, reason))?;
        let is_failure = status.is_client_error() || status.is_server_error();
        let status = status.as_u16();
        if let Some(hop) = next {
            let response = RawResponse { status, headers, body: Bytes::new(), redirects: 0 };
            return Ok(ServiceReply::Redirect(response, Box::new(hop)));
        }
        let listener = request
            .expects_event_stream()
            .then(|| EventStreamReader::from_headers(&headers))
            .flatten();
        let (limit, read_timeout) = (self.max_response_bytes, self.read_timeout);
        let reader = BodyReader { url, limit, read_timeout };
        let read = async {
            check_headers(&headers, || authority(url))?;
            let read = reader.read(&mut headers, method, response.into_body(), listener);
            timeout_at(deadline, read).await.map_err(overdue)?
        };
        let read = read.await;
        let body = match read {
            Ok(body) => body,
            // The status says more than the reason why the rest cannot be read. A part of a body is not
            // kept, because a part of a credential could not be found in it.
            Err(failure) if is_failure => {
                tracing::debug!(status, code = failure.error.kind.code().id, "unread body");
                headers = kept_of_unread(&headers);
                Bytes::new()
            }
            Err(failure) => return Err(failure),
        };
        Ok(ServiceReply::Response(RawResponse { status, headers, body, redirects: 0 }))
    }
}

tokio::task_local! {
    /// The tenant for which this task sends requests.
    static TENANT: String;
}

/// Runs a future with requests of one tenant: the failures of a host are counted for each tenant.
pub(crate) async fn with_tenant<F: Future>(tenant: String, future: F) -> F::Output {
    TENANT.scope(tenant, future).await
}

/// The tenant for which this task works; the empty name where there is none.
pub(crate) fn current_tenant() -> String {
    TENANT.try_with(Clone::clone).unwrap_or_default()
}

/// The meaning of the end of a request for the health of its host.
fn host_signal(answer: Result<&RawResponse, &SendError>) -> HostSignal {
    match answer {
        Ok(response) if response.status >= 500 => HostSignal::Bad,
        Ok(_) => HostSignal::Good,
        Err(failure) => match failure.error.kind {
            ErrorKind::ConnectFailed => HostSignal::Unreachable,
            ErrorKind::ConnectionLost | ErrorKind::Timeout => HostSignal::Bad,
            // It answered, whatever is wrong with the answer.
            _ if failure.sent => HostSignal::Good,
            _ => HostSignal::Unknown,
        },
    }
}

/// Returns the headers of a response without its body: those that say when to try again, and with which
/// credential.
fn kept_of_unread(headers: &HeaderMap) -> HeaderMap {
    let is_kept = |name: &HeaderName| [RETRY_AFTER, WWW_AUTHENTICATE].contains(name);
    let named = headers.iter().filter(|(name, value)| is_kept(name) && value.len() <= 1_024);
    named.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns true when a request without a body states its length: services reject a `POST` of unknown length
/// with 411 (RFC 9110, section 8.6).
fn expects_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

#[cfg(test)]
mod tests;
