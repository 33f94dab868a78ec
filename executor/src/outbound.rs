//! The only way out to services: it takes nothing but a permitted request.
//!
//! An address is checked before a connection is made, and once more where its name is resolved: a
//! connection goes to an address that was checked, not to one that is looked up again. No proxy
//! variable is obeyed. A redirect is not followed here: [`Reply`] names the next request, which
//! needs a verdict of its own. A request is sent once; whether it is sent again is decided outside, by
//! [`Retries`], where it is recorded. (The connection pool may move a request of which no byte was
//! written yet to a fresh connection.)
//!
//! Credentials are put onto a request here, behind everything that is told of it, and are taken out
//! of its answer before anything reads that.
//!
//! `upstreams` lead the connections for a host elsewhere. The other address is configuration, so
//! the address rules do not hold for it; its path goes in front of the request's, and the `Host`
//! header is its own, as if somebody had addressed it directly. Everything else keeps the
//! document's host.

mod address;
mod certificate;
mod client;
mod credentials;
mod host_limiter;
mod mcp_session;
mod redirect;
mod resolve;
mod retry;
mod send_error;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2s::Domain;
use a2s::api::{HostHealth, HostState, RequestPurpose};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, LOCATION};
use http::{HeaderMap, HeaderValue, Method};
use reqwest::Request;
use tokio::time::timeout;
use url::Url;

use crate::clock::Clock;
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::gate::Permitted;
use crate::registry_client::RegistryClient;
use crate::request::{Hop, Listener, PreparedRequest, RawResponse, authority};
use crate::thread_local_clients::PerThread;
use crate::vault::Vault;
use address::Allowed;
use client::{build_client, check_headers};
pub(crate) use credentials::Authorization;
use credentials::Wire;
use host_limiter::{Health, Lanes};
pub(crate) use host_limiter::{Turn, Wait};
use mcp_session::Sessions;
pub(crate) use mcp_session::{NoSession, Opening};
use resolve::Resolver;
pub(crate) use retry::{Pause, Retries};
pub(crate) use send_error::Failure;
use send_error::{explain, innermost, refuse};
pub(crate) use token::Fetch;
use token::Tokens;

/// The most redirects after the first request of an attempt.
pub(crate) const MAX_REDIRECTS: u32 = 5;

/// The response to one request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// The answer to the step.
    Answer(RawResponse),
    /// Another request is asked for. The body of the response is not read.
    Redirect(RawResponse, Box<Hop>),
}

impl Reply {
    /// Status and headers, and the body of an answer.
    pub(crate) fn response(&self) -> &RawResponse {
        match self {
            Self::Answer(response) | Self::Redirect(response, _) => response,
        }
    }

    /// The answer to a request that must not be redirected.
    fn into_answer(self, url: &Url) -> Result<RawResponse, Failure> {
        match self {
            Self::Answer(response) => Ok(response),
            Self::Redirect(..) => {
                let message = format!("{} redirects more than 0 times", authority(url));
                Err(Failure::sent(Kind::RedirectRefused, message))
            }
        }
    }
}

/// Records a request beside the step's own before it leaves, so that a crash does not hide it.
pub(crate) trait Announce: Sync {
    /// Returns once the record cannot be lost any more.
    fn announce<'a>(
        &'a self,
        purpose: RequestPurpose,
        request: &PreparedRequest,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// Sends permitted requests.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// For the hosts of documents: names resolve to allowed addresses only.
    guarded: PerThread<reqwest::Client>,
    /// For upstreams, which the configuration names; none when there are none.
    configured: Option<PerThread<reqwest::Client>>,
    /// For hosts that are shown a certificate.
    certified: BTreeMap<Domain, PerThread<reqwest::Client>>,
    vault: Arc<Vault>,
    registry: Arc<RegistryClient>,
    tokens: Tokens,
    sessions: Sessions,
    upstreams: BTreeMap<Domain, Url>,
    allowed: Arc<Allowed>,
    request_timeout: Duration,
    max_request_bytes: usize,
    max_response_bytes: usize,
    max_pause: Duration,
    lanes: Lanes,
    clock: Arc<dyn Clock>,
}

impl Outbound {
    /// A way out with the limits, upstreams and allowed addresses of the configuration. Nothing is
    /// sent yet.
    ///
    /// # Errors
    /// [`Kind::Configuration`] when an allowed address or an upstream cannot be read, or TLS has no
    /// roots to trust, or a client certificate cannot be used.
    pub(crate) fn new(
        config: &Config,
        vault: Arc<Vault>,
        registry: Arc<RegistryClient>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let allowed = Arc::new(Allowed::read(&config.allowed_addresses)?);
        config.upstreams.iter().try_for_each(|(domain, url)| check_upstream(domain, url))?;
        let limits = &config.limits;
        let (addresses, of_guarded) = (Arc::clone(&allowed), limits.clone());
        let guarded = move || {
            let resolver = Resolver::guarded(Arc::clone(&addresses));
            build_client(reqwest::Client::builder(), resolver, &of_guarded)
        };
        let is_plain = config.upstreams.values().all(|url| url.scheme() == "http");
        let of_configured = limits.clone();
        let configured = move || {
            let mut builder = reqwest::Client::builder();
            if is_plain {
                // Reading the roots that the system trusts takes longer than all the rest.
                builder = builder.tls_certs_only([]);
            }
            build_client(builder, Resolver::open(), &of_configured)
        };
        let configured = match config.upstreams.is_empty() {
            true => None,
            false => Some(PerThread::new(configured()?, configured)),
        };
        Ok(Self {
            guarded: PerThread::new(guarded()?, guarded),
            configured,
            certified: certificate::clients(config, &allowed)?,
            vault,
            registry,
            tokens: Tokens::default(),
            sessions: Sessions::default(),
            upstreams: config.upstreams.clone(),
            allowed,
            request_timeout: limits.request_timeout,
            max_request_bytes: limits.max_request_bytes,
            max_response_bytes: limits.max_response_bytes,
            max_pause: limits.max_pause,
            lanes: Lanes::new(config.hosts.clone()),
            clock,
        })
    }

    /// Where connections for the host of `url` are sent instead.
    pub(crate) fn upstream_of(&self, url: &Url) -> Option<String> {
        self.upstream(url).map(|upstream| upstream.as_str().to_owned())
    }

    /// What is known of the hosts that requests were sent to.
    pub(crate) fn hosts(&self) -> Vec<HostState> {
        self.lanes.states()
    }

    /// How the hosts are doing that were asked something a short time ago.
    pub(crate) fn health(&self) -> Vec<HostHealth> {
        self.lanes.health()
    }

    /// Waits until a request to `url` may be sent, within `time` if that is less than the limit of a
    /// request. `on_wait` is told when there is something to wait for.
    ///
    /// # Errors
    /// When it takes too long, or the host has failed so often that it is left alone.
    pub(crate) async fn turn(
        &self,
        url: &Url,
        time: Option<Duration>,
        on_wait: &(dyn Fn(Wait) + Sync),
    ) -> Result<Turn, Failure> {
        let is_redirected = self.upstream(url).is_some();
        let (tenant, time) = (current_tenant(), self.bounded(time));
        self.lanes.turn(&tenant, (url, is_redirected), time, on_wait).await
    }

    /// Gets the tokens that a request is to be sent with, within `time` if that is less than the
    /// limit of a request. Before its turn: both may be at one host. `on_fetch` is told of each that
    /// was asked for.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub(crate) async fn equip(
        self: &Arc<Self>,
        request: &Permitted<PreparedRequest>,
        authorization: &mut Authorization<'_>,
        time: Option<Duration>,
        announce: &dyn Announce,
        on_fetch: &(dyn Fn(Fetch) + Sync),
    ) -> Result<(), Failure> {
        let time = self.bounded(time);
        let tokens = self.get_tokens(request, authorization, announce, on_fetch);
        let equipped = timeout(time, tokens).await;
        equipped.unwrap_or_else(|_| {
            let host = authority(request.url());
            let message = format!("no token for {host} came within {} s", time.as_secs_f32());
            Err(Failure::unsent(Kind::Timeout, message))
        })
    }

    /// Sends one request, in its turn and with its credentials, and reads the whole answer, within
    /// `time` if that is less than the limit. The answer is free of credentials. A redirect is
    /// given back. Dropping the future ends the connection.
    ///
    /// # Errors
    /// When the address is refused, no connection comes up, the answer does not come in time,
    /// breaks off, is too large or compressed, or redirects to where nobody asked for.
    pub(crate) async fn send(
        &self,
        request: &Permitted<PreparedRequest>,
        turn: Turn,
        authorization: &Authorization<'_>,
        time: Option<Duration>,
    ) -> Result<Reply, Failure> {
        let wire = authorization.wire();
        let reply = Box::pin(self.transmit(request, turn, wire, time)).await?;
        let scrub = |response| authorization.secrets.scrub(response);
        Ok(match reply {
            Reply::Answer(response) => Reply::Answer(scrub(response)),
            Reply::Redirect(response, hop) => Reply::Redirect(scrub(response), hop),
        })
    }

    /// Sends one request with what goes onto the wire beside it.
    async fn transmit(
        &self,
        request: &Permitted<PreparedRequest>,
        turn: Turn,
        wire: &Wire,
        time: Option<Duration>,
    ) -> Result<Reply, Failure> {
        let size = request.body().map_or(0, Bytes::len);
        if self.max_request_bytes < size {
            let message =
                format!("the body has {size} bytes, {} is the limit", self.max_request_bytes);
            return Err(Failure::unsent(Kind::RequestTooLarge, message));
        }
        let host = || authority(request.url());
        let time = self.bounded(time);
        let answer = timeout(time, self.exchange(request, wire)).await;
        let answer = answer.unwrap_or_else(|_| {
            let (host, seconds) = (host(), time.as_secs_f32());
            let message = format!("{host} did not answer completely within {seconds} s");
            Err(Failure::sent(Kind::Timeout, message))
        });
        let quiet = answer.as_ref().ok().and_then(|reply| self.quiet_after(reply.response()));
        turn.settle(health_of(answer.as_ref().map(Reply::response)), quiet);
        let method = request.method();
        match &answer {
            Ok(reply) => {
                let (status, bytes) = (reply.response().status, reply.response().bytes());
                tracing::debug!(host = host(), %method, status, bytes, "answered");
            }
            Err(failure) => {
                let code = failure.error.kind.code().id;
                tracing::debug!(host = host(), %method, code, sent = failure.sent, "no answer");
            }
        }
        answer
    }

    fn bounded(&self, time: Option<Duration>) -> Duration {
        time.map_or(self.request_timeout, |time| time.min(self.request_timeout))
    }

    /// How long the host wants to be left alone by everybody (RFC 9110, 10.2.3; RFC 6585, 4), up to
    /// the longest pause.
    fn quiet_after(&self, response: &RawResponse) -> Option<Duration> {
        let asks = matches!(response.status, 429 | 503);
        let wanted = asks.then(|| retry::retry_after(&response.headers, self.clock.now()))?;
        wanted.map(|time| time.min(self.max_pause))
    }

    fn upstream(&self, url: &Url) -> Option<&Url> {
        self.upstreams.iter().find(|(domain, _)| domain.covers(url)).map(|(_, base)| base)
    }

    /// Sends one request, and reads the answer or the next request that it asks for.
    async fn exchange(&self, request: &PreparedRequest, wire: &Wire) -> Result<Reply, Failure> {
        let (method, url) = (request.method(), request.url());
        let (client, target) = self.route(url)?;
        let mut outgoing = Request::new(method.clone(), wire.address(url, &target));
        let mut written = wire.headers(url, request.headers());
        written.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        match wire.body(url, request.body()).filter(|body| !body.is_empty()) {
            Some(body) => *outgoing.body_mut() = Some(body.into()),
            None if has_body_by_nature(method) => {
                written.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            None => {}
        }
        *outgoing.headers_mut() = written;
        let sent = client.execute(outgoing).await;
        let mut response = sent.map_err(|error| explain(&error, url))?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let base = self.upstream(url).map(|base| (base, &target));
        let next = redirect::next(status, headers.get(LOCATION), method, url, base)
            .map_err(|reason| Failure::sent(Kind::RedirectRefused, reason))?;
        let status = status.as_u16();
        if let Some(hop) = next {
            let response = RawResponse { status, headers, body: Bytes::new(), redirects: 0 };
            return Ok(Reply::Redirect(response, Box::new(hop)));
        }
        let listener = request.listens().then(|| Listener::of(&headers)).flatten();
        let body = self.read_body((&headers, method, url), response, listener).await?;
        Ok(Reply::Answer(RawResponse { status, headers, body, redirects: 0 }))
    }

    /// The client and the address for a connection to the host of `url`.
    fn route(&self, url: &Url) -> Result<(&reqwest::Client, Url), Failure> {
        let certified = self.certified.iter().find(|(domain, _)| domain.covers(url));
        let certified = certified.map(|(_, client)| client);
        if let (Some(base), Some(client)) =
            (self.upstream(url), certified.or(self.configured.as_ref()))
        {
            return Ok((client.here(), redirect::to_upstream(url, base)));
        }
        match address::check(url, &self.allowed) {
            Ok(()) => Ok((certified.unwrap_or(&self.guarded).here(), url.clone())),
            Err(rule) => Err(refuse(url, &rule)),
        }
    }

    /// The body behind the headers that came for a method and an address.
    async fn read_body(
        &self,
        (headers, method, url): (&HeaderMap, &Method, &Url),
        mut response: reqwest::Response,
        mut listener: Option<Listener>,
    ) -> Result<Bytes, Failure> {
        let host = || authority(url);
        check_headers(headers, host)?;
        let limit = self.max_response_bytes;
        let too_large = || {
            let message = format!("{} answered with more than {limit} bytes", host());
            Failure::sent(Kind::ResponseTooLarge, message)
        };
        let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if *method != Method::HEAD && (limit as u64) < announced {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        // Of a stream that is listened to, what has come so far counts, and the answer is kept.
        let mut read = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| {
            let (host, cause) = (host(), innermost(&error));
            let message = format!("the answer of {host} broke off after {read} bytes: {cause}");
            Failure::sent(Kind::ConnectionLost, message)
        })? {
            read += chunk.len();
            if limit < read {
                return Err(too_large());
            }
            match &mut listener {
                None => body.extend_from_slice(&chunk),
                Some(listener) => {
                    if let Some(answer) = listener.hear(&chunk) {
                        return Ok(answer);
                    }
                }
            }
        }
        if listener.is_some() {
            let message = format!("{} ended its stream of events without an answer", host());
            return Err(Failure::sent(Kind::ConnectionLost, message));
        }
        Ok(body.freeze())
    }
}

tokio::task_local! {
    /// The tenant whose requests this task sends.
    static TENANT: String;
}

/// Runs a future whose requests are those of a tenant: the failures of a host are counted for each.
pub(crate) async fn act_for<F: Future>(tenant: String, future: F) -> F::Output {
    TENANT.scope(tenant, future).await
}

/// The tenant whose requests this task sends; the empty name where there is none.
fn current_tenant() -> String {
    TENANT.try_with(Clone::clone).unwrap_or_default()
}

fn check_upstream(domain: &Domain, url: &Url) -> Result<(), Error> {
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        return Ok(());
    }
    let message = format!(
        "the upstream of {domain} is not an http or https address without user, query and fragment"
    );
    Err(Error::new(Kind::Configuration, message))
}

/// What the end of a request tells of its host.
fn health_of(answer: Result<&RawResponse, &Failure>) -> Health {
    match answer {
        Ok(response) if response.status >= 500 => Health::Bad,
        Ok(_) => Health::Good,
        Err(failure) => match failure.error.kind {
            Kind::ConnectFailed => Health::Unreachable,
            Kind::ConnectionLost | Kind::Timeout => Health::Bad,
            // It answered, whatever is wrong with the answer.
            _ if failure.sent => Health::Good,
            _ => Health::Unknown,
        },
    }
}

/// Whether a request without body says so: services refuse a `POST` of unknown length with 411
/// (RFC 9110, section 8.6).
fn has_body_by_nature(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

#[cfg(test)]
mod tests;
