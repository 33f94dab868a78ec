//! The HTTP client for the connections to services.
//!
//! A general client reads any number of informational responses (1xx) before a response, as fast as they
//! come, and none of its users notices: a service that sends them without end holds the thread. This client
//! counts them, ends the request after a few, and lets other tasks of the thread run in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::coop;
use tower::BoxError;
use tower::timeout::Timeout;
use tower::util::BoxCloneSyncService;
use url::Url;

use super::resolve::AddressResolver;
use super::send_error::{SendError, explain};
use crate::config::Limits;
use crate::error::{Error, ErrorKind};
use crate::request::authority;

/// The maximum size of the headers of a response, in bytes.
pub(super) const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The maximum number of informational responses before a response.
const MAX_INFORMATIONAL: u32 = 20;
/// The hint for a service that sends more of them.
const INFORMATIONAL_HINT: &str = "Report the error to the operator of the service; no limit of the executor allows such responses.";
/// The time for which an unused connection is kept. Common servers close theirs after five seconds; a
/// request on such a closed connection would be reported as possibly sent.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// The time after which the system checks that the other end of a silent connection still exists.
const KEEPALIVE: Duration = Duration::from_secs(15);
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("a2s-executor/", env!("CARGO_PKG_VERSION")));

/// A connector with a timeout for the whole of name, connection and TLS.
type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;

/// The HTTP client for services, with its connections.
#[derive(Debug, Clone)]
pub(super) struct ServiceClient {
    client: Client<Connector, Full<Bytes>>,
    read_timeout: Duration,
}

impl ServiceClient {
    /// Creates a client without connections.
    pub(super) fn new(tls: Arc<ClientConfig>, resolver: AddressResolver, limits: &Limits) -> Self {
        let mut http = HttpConnector::new_with_resolver(resolver);
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEPALIVE));
        http.set_connect_timeout(Some(limits.connect_timeout));
        let connector = Timeout::new(HttpsConnector::from((http, tls)), limits.connect_timeout);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .http2_max_header_list_size(MAX_HEADER_BYTES as u32)
            .build(BoxCloneSyncService::new(connector));
        Self { client, read_timeout: limits.read_timeout }
    }

    /// Sends a request to `target`, and returns the response without its body. Errors name the host of
    /// `url`.
    pub(super) async fn execute(
        &self,
        (method, target, url): (&Method, &Url, &Url),
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = target.as_str().parse::<Uri>().map_err(|error| {
            let message = format!("the request to {} is invalid: {error}", authority(url));
            SendError::not_sent(ErrorKind::InvalidInput, message)
        })?;
        *request.headers_mut() = headers;
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let informational = Arc::new(InformationalResponses::default());
        let counter = Arc::clone(&informational);
        hyper::ext::on_informational(&mut request, move |_| counter.count());
        let response = tokio::time::timeout(self.read_timeout, self.client.request(request));
        tokio::select! {
            biased;
            () = informational.too_many.notified() => {
                let host = authority(url);
                let message = format!("{host} sent more than {MAX_INFORMATIONAL} informational responses (1xx) before its response");
                let error = Error::new(ErrorKind::ResponseTooLarge, message).with_hint(INFORMATIONAL_HINT);
                Err(SendError { sent: true, ..SendError::before_send(error) })
            }
            response = response => match response {
                Ok(response) => response.map_err(|error| explain(&error, url)),
                Err(_) => {
                    Err(SendError::silent(&authority(url), "no response", self.read_timeout))
                }
            },
        }
    }
}

/// The informational responses to one request.
#[derive(Debug, Default)]
struct InformationalResponses {
    count: AtomicU32,
    /// Notified when there are too many.
    too_many: Notify,
}

impl InformationalResponses {
    /// Counts one. The connection parses all that it has received in one go, so each of them takes a part
    /// of what its task may do before another task has its turn.
    fn count(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) == MAX_INFORMATIONAL {
            self.too_many.notify_one();
        }
        if let Poll::Ready(turn) = coop::poll_proceed(&mut Context::from_waker(Waker::noop())) {
            turn.made_progress();
        }
    }
}

/// The certificates and the key that the executor presents to a host.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Creates a TLS configuration that trusts `authorities`, or without them those of the system.
///
/// # Errors
/// When the system has no authorities, or the key does not fit the certificate.
pub(super) fn tls_config(
    authorities: Option<RootCertStore>,
    identity: Option<Identity>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = CryptoProvider::get_default()
        .cloned()
        .unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match authorities {
        Some(authorities) => builder.with_root_certificates(authorities),
        None => {
            let verifier = Arc::new(Verifier::new(provider)?);
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
    };
    let mut tls = match identity {
        Some((certificates, key)) => builder.with_client_auth_cert(certificates, key)?,
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}
