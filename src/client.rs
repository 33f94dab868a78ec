//! The HTTP client of the commands: registry and executor at one address.

use std::path::PathBuf;
use std::time::Duration;

use a2s::api::Problem;
use futures::StreamExt as _;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::failure::{BAD_ANSWER, Exit, Failure, NOT_REACHABLE, in_words};

/// The most bytes of an answer; a document has at most 1 MiB.
const MAX_ANSWER: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Silence after which an answer is given up; event streams send a comment before.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Codes that mean that some service behind the one asked is not reachable.
const UNREACHABLE_STATUS: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// Registry and executor at one address.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: Url,
    token: Option<String>,
}

impl Client {
    /// A client for `url`. The token of the data folder is used only towards this machine.
    pub(crate) fn new(
        url: &Url,
        token: Option<String>,
        data_dir: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("a2s/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::new(Exit::Bad, NOT_REACHABLE, error.to_string()))?;
        let token = token.or_else(|| {
            let file = data_dir.filter(|_| is_loopback(url))?.join("token");
            Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
        });
        Ok(Self { http, url: url.clone(), token })
    }

    /// A request to a path below the address, with the token.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Refuses to send what others may not read over a connection that they can.
    pub(crate) fn check_private(&self) -> Result<(), Failure> {
        if self.url.scheme() == "https" || is_loopback(&self.url) {
            return Ok(());
        }
        let message = format!("secrets are not sent to {} over http", self.url);
        Err(Failure::argument(message)
            .with_hint("Use an https address, or run this command where the executor runs."))
    }

    /// Gets a JSON value.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Failure> {
        self.json(self.request(Method::GET, path)).await
    }

    /// Posts a JSON value and gets one.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        self.json(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a request and reads a JSON value.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, Failure> {
        let body = self.bytes(request).await?;
        serde_json::from_slice(&body).map_err(|error| {
            Failure::new(
                Exit::Bad,
                BAD_ANSWER,
                format!("{} answered what is not understood: {error}", self.url),
            )
        })
    }

    /// Sends a request and reads the bytes of a good answer.
    pub(crate) async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// Sends a request and gives the answer when it is a good one.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.read(response).await?;
        let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
            let message = format!("{} answered {status} without saying why", self.url);
            return Err(Failure::new(Exit::Bad, BAD_ANSWER, message));
        };
        let exit = if UNREACHABLE_STATUS.contains(&status) { Exit::Unreachable } else { Exit::Bad };
        let mut failure = Failure {
            exit,
            code: problem.code,
            message: problem.detail,
            hint: problem.hint,
            told: false,
            diagnostics: problem.diagnostics,
        };
        if status == StatusCode::UNAUTHORIZED {
            failure.hint = Some(
                "Set A2S_TOKEN, or A2S_DATA_DIR to the data folder of `a2s up`, where the file `token` is.".to_owned(),
            );
        }
        Err(failure)
    }

    async fn read(&self, response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|error| self.unreachable(&error))?);
            if body.len() > MAX_ANSWER {
                let message = format!("{} answered more than {MAX_ANSWER} bytes", self.url);
                return Err(Failure::new(Exit::Bad, BAD_ANSWER, message));
            }
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let cause = root_cause(error);
        Failure::new(
            Exit::Unreachable,
            NOT_REACHABLE,
            format!("{} does not answer: {cause}", self.url),
        )
    }
}

/// What an error came from in the end: what says most to whoever has to mend it.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    in_words(cause)
}

/// Whether the host of a URL is this machine, so that its token may be sent there.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
