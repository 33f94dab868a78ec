//! HTTP to a registry, an executor or an agent at one address.

mod sse;

use std::time::Duration;

use a2s::{Diagnostic, Secret};
use a2s_api::ON_BEHALF_OF;
use a2s_api::Problem;
use futures::StreamExt as _;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

pub use sse::{SseEvent, SseItem, SseStream};

use crate::requester::Requester;

/// The maximum size of a response, in bytes; a document has at most 1 MiB.
const MAX_RESPONSE: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time without data before the client stops reading a response; event streams send a comment
/// earlier.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a request to a service failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service does not respond.
    #[error("{url} does not respond: {cause}")]
    Unreachable {
        /// Its expected address.
        url: Box<Url>,
        /// The cause.
        cause: String,
    },
    /// The response is not valid for a service of this version.
    #[error("{url} {what}")]
    BadResponse {
        /// The address.
        url: Box<Url>,
        /// The error: "answered …".
        what: String,
        /// The errors of a document that the registry should not have accepted.
        diagnostics: Vec<Diagnostic>,
    },
    /// The service rejects the request and states the reason.
    #[error("{problem}")]
    Refused {
        /// The problem that the service reports, with code and remedy.
        problem: Box<Problem>,
    },
}

impl Error {
    /// The code of the problem, if the service rejected the request.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { problem } => Some(&problem.code),
            Self::Unreachable { .. } | Self::BadResponse { .. } => None,
        }
    }
}

/// A client of a registry, an executor or both at one address. Clones share their connections.
///
/// It does not follow redirects: it sends the token to this address only.
#[derive(Debug, Clone)]
pub struct ServiceClient {
    http: reqwest::Client,
    url: Url,
    token: Option<Secret>,
    /// The end user that the holder of the token acts for.
    on_behalf_of: Option<String>,
    /// The maximum size of a response, and of a stream event, in bytes.
    max_bytes: usize,
}

/// The clients of a registry and of an executor that gets its documents from there.
#[derive(Debug, Clone)]
pub struct ServiceClients {
    /// The client of the registry.
    pub registry: ServiceClient,
    /// The client of the executor.
    pub executor: ServiceClient,
}

impl ServiceClients {
    /// Returns both clients with the credentials of a requester.
    #[must_use]
    pub fn with_requester(&self, requester: &Requester) -> Self {
        let Self { registry, executor } = self;
        Self {
            registry: registry.with_requester(requester),
            executor: executor.with_requester(requester),
        }
    }

    /// Returns the clients with another token, or with none.
    #[must_use]
    pub fn with_token(&self, token: Option<&Secret>) -> Self {
        let Self { registry, executor } = self;
        Self {
            registry: registry.with_token(token.cloned()),
            executor: executor.with_token(token.cloned()),
        }
    }
}

impl From<ServiceClient> for ServiceClients {
    /// Creates the clients for a registry and an executor at one address.
    fn from(client: ServiceClient) -> Self {
        Self { registry: client.clone(), executor: client }
    }
}

impl ServiceClient {
    /// Creates a client for the services at `url`. Each request has the `token`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the HTTP client cannot be created, for instance because TLS has no
    /// trusted root certificates.
    pub fn new(url: &Url, token: Option<Secret>) -> Result<Self, Error> {
        let mut builder = reqwest::Client::builder();
        // What answers on this machine is not reached by way of another.
        if is_loopback(url) {
            builder = builder.no_proxy();
        }
        let http = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("a2s/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unreachable(url, &error))?;
        Ok(Self { http, url: url.clone(), token, on_behalf_of: None, max_bytes: MAX_RESPONSE })
    }

    /// Limits each response, and each event of a stream, to `most` bytes.
    #[must_use]
    pub fn with_max_bytes(self, most: usize) -> Self {
        Self { max_bytes: most, ..self }
    }

    /// Returns the client with another address of the same host.
    pub fn with_url(self, url: Url) -> Self {
        Self { url, ..self }
    }

    /// Returns the client with another token, or with none; the connections are shared.
    #[must_use]
    pub fn with_token(&self, token: Option<Secret>) -> Self {
        Self { token, ..self.clone() }
    }

    /// Returns the client with the credentials of a requester. It shares the connections.
    #[must_use]
    pub fn with_requester(&self, requester: &Requester) -> Self {
        Self {
            token: requester.token().cloned(),
            on_behalf_of: requester.on_behalf_of().map(str::to_owned),
            ..self.clone()
        }
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The HTTP client.
    pub fn http(&self) -> reqwest::Client {
        self.http.clone()
    }

    /// The token that the services get.
    #[must_use]
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// Returns the URL of a path below the address.
    pub fn path(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Creates a request to a path below the address, with the token.
    pub fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let request = self.http.request(method, self.path(path));
        let request = match &self.on_behalf_of {
            Some(end_user) => request.header(ON_BEHALF_OF, end_user),
            None => request,
        };
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    /// Gets a JSON value.
    ///
    /// # Errors
    /// When there is no successful response, or it has another value than is expected.
    pub async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Error> {
        self.json(self.request(Method::GET, path)).await
    }

    /// Posts a JSON value and returns the JSON value of the response.
    ///
    /// # Errors
    /// When there is no successful response, or it has another value than is expected.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        self.json(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a request and reads the JSON value of the response.
    ///
    /// # Errors
    /// When there is no successful response, or it has another value than is expected.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let body = self.bytes(request).await?;
        serde_json::from_slice(&body)
            .map_err(|error| self.bad_response(format!("sent an invalid response: {error}")))
    }

    /// Sends a request and reads the bytes of a successful response, at most 64 MiB unless a limit is set.
    ///
    /// # Errors
    /// When there is no successful response.
    pub async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, Error> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// Sends a request and returns the response if its status is a success.
    ///
    /// # Errors
    /// When there is no response, or the service rejects the request.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.read(response).await?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => {
                let problem = Problem { status: status.as_u16(), ..problem };
                Err(Error::Refused { problem: Box::new(problem) })
            }
            Err(_) => Err(self.unexplained_status(status)),
        }
    }

    /// Reads the body of a response, within the limit of this client.
    ///
    /// # Errors
    /// The body is too long, or the service ends it early.
    pub async fn read(&self, response: Response) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|error| self.unreachable(&error))?);
            if body.len() > self.max_bytes {
                return Err(self.bad_response(format!("sent more than {} bytes", self.max_bytes)));
            }
        }
        Ok(body)
    }

    fn unexplained_status(&self, status: StatusCode) -> Error {
        self.bad_response(format!("responded with status {status} without a reason"))
    }

    /// Creates the error for a service that does not respond.
    pub fn unreachable(&self, error: &reqwest::Error) -> Error {
        unreachable(&self.url, error)
    }

    /// Creates the error for a response that is not valid for a service of this version.
    pub fn bad_response(&self, what: impl Into<String>) -> Error {
        Error::BadResponse {
            url: Box::new(self.url.clone()),
            what: what.into(),
            diagnostics: Vec::new(),
        }
    }
}

/// Returns true when the host of a URL is this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn unreachable(url: &Url, error: &reqwest::Error) -> Error {
    Error::Unreachable { url: Box::new(url.clone()), cause: root_cause(error) }
}

/// The innermost cause of an error. It helps most to fix the problem.
#[must_use]
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    describe_os_error(cause)
}

/// The text of a system error without its number, which does not help a reader.
#[must_use]
pub fn describe_os_error(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}
