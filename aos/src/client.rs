//! One question, one deadline, one verdict.

mod guardian_chain;
mod in_process;
mod tls;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::time::Instant;
use url::Url;

use crate::message::{
    Decision, Limits, Method, MethodCall, Ping, Pong, Request, RequestId, Response, ResponseBody,
    ResponseError, code,
};
pub use guardian_chain::{ChainVerdict, GuardianChain};
pub use in_process::{FlushFuture, InProcessGuardian, VerdictFuture};
pub use tls::{ClientIdentity, TrustRoots};
pub use verdict::{FailMode, GuardianError, GuardianOutcome, Verdict, VerdictSource};

/// The pause before the first retry of an unavailable guardian. It doubles, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The settings for requests to a guardian.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time limit for opening a connection.
    pub connect_timeout: Duration,
    /// The time limit for a whole question, with connection and response.
    pub timeout: Duration,
    /// The time during which the client retries an unavailable guardian
    /// ([`GuardianError::is_unavailable`]), before the fail mode decides. With zero, it asks once.
    pub retry_for: Duration,
    /// The limits for reading a response.
    pub limits: Limits,
    /// The effect of a guardian that cannot be asked.
    pub fail_mode: FailMode,
    /// The fail mode of single methods, where it differs from `fail_mode`.
    pub fail_mode_by_method: BTreeMap<Method, FailMode>,
    /// The token for guardians that require authentication by a token.
    pub bearer_token: Option<BearerToken>,
    /// The certificate for guardians that require authentication by a certificate (mutual TLS).
    pub identity: Option<ClientIdentity>,
    /// The certificates to trust instead of those of the system.
    pub trust_roots: Option<TrustRoots>,
}

impl Default for Options {
    /// Returns the defaults: one second to connect, five seconds in total (the timeout that the schema
    /// states for `ping`), no retries, fail closed.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            retry_for: Duration::ZERO,
            limits: Limits::default(),
            fail_mode: FailMode::Closed,
            fail_mode_by_method: BTreeMap::new(),
            bearer_token: None,
            identity: None,
            trust_roots: None,
        }
    }
}

/// A bearer token. It is never printed.
#[derive(Clone)]
pub struct BearerToken(HeaderValue);

impl BearerToken {
    /// Creates a token that is sent after `Bearer `; returns `None` if a header cannot contain it.
    pub fn new(token: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

/// A failure to make the client.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The HTTP client could not be created, for instance because TLS has no roots to trust.
    #[error("cannot create the client of the guardian: {0}")]
    Http(#[source] reqwest::Error),
    /// The agent's own certificate is invalid. The message never quotes it.
    #[error("the files for the guardian must contain a key and a certificate as PEM")]
    Identity,
    /// The certificates to trust are not usable.
    #[error("the authorities for the guardian must be certificates as PEM")]
    TrustRoots,
}

/// A client of one guardian; [`GuardianChain`] asks several. Cloning it is cheap and shares its
/// connections.
///
/// It has its own HTTP client, which follows no redirect and ignores proxy variables. It never repeats a
/// question that a guardian may already have judged; it retries only an unavailable guardian, according to
/// [`Options::retry_for`]. It keeps connections open; over TLS they use HTTP/2 if the guardian offers it.
/// For a guardian in the same process, see [`in_process`](Self::in_process).
#[derive(Clone, Debug)]
pub struct GuardianClient {
    transport: GuardianTransport,
    options: Options,
}

/// The transport of messages to the guardian.
#[derive(Clone, Debug)]
enum GuardianTransport {
    Http {
        endpoint: Url,
        client: reqwest::Client,
    },
    InProcess {
        guardian: Arc<dyn InProcessGuardian>,
        /// Set when the agent waits for the guardian's records itself.
        early_responses: bool,
    },
}

impl GuardianClient {
    /// Creates a client for the guardian at `endpoint`. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails when the HTTP client cannot be created.
    pub fn new(endpoint: Url, options: Options) -> Result<Self, BuildError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(BearerToken(value)) = &options.bearer_token {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let mut builder = reqwest::Client::builder();
        if let Some(ClientIdentity(identity)) = &options.identity {
            builder = builder.identity(identity.clone());
        }
        if let Some(TrustRoots(authorities)) = &options.trust_roots {
            builder = builder.tls_certs_only(authorities.iter().cloned());
        }
        let client = builder
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .retry(reqwest::retry::never())
            .connect_timeout(options.connect_timeout)
            .timeout(options.timeout)
            .build()
            .map_err(BuildError::Http)?;
        Ok(Self { transport: GuardianTransport::Http { endpoint, client }, options })
    }

    /// Creates a client for a guardian in this process. The guardian gets the same messages as over HTTP,
    /// and the client checks its responses by the same rules. Of the `options`, only timeout, limits and
    /// fail modes have an effect; those for connections do not.
    pub fn in_process(guardian: Arc<dyn InProcessGuardian>, options: Options) -> Self {
        let transport = GuardianTransport::InProcess { guardian, early_responses: false };
        Self { transport, options }
    }

    /// For an agent that calls [`flush`](Self::flush) before it sends what the guardian has allowed. A
    /// guardian in this process may then respond to messages about the call of a tool
    /// (`steps/toolCallRequest`, `steps/toolCallResult` and `protocols/MCP`) before its records are durable.
    #[must_use]
    pub fn with_early_responses(mut self) -> Self {
        if let GuardianTransport::InProcess { early_responses, .. } = &mut self.transport {
            *early_responses = true;
        }
        self
    }

    /// Waits until the guardian's records of its responses are durable. A guardian over HTTP records before
    /// it responds, so nothing is waited for.
    ///
    /// # Errors
    /// [`GuardianError::NotRecorded`], or [`GuardianError::Timeout`]. What was allowed early must not be done.
    pub async fn flush(&self) -> Result<(), GuardianError> {
        match &self.transport {
            GuardianTransport::InProcess { guardian, early_responses: true } => {
                let flushed = tokio::time::timeout(self.options.timeout, guardian.flush()).await;
                let flushed = flushed.map_err(|_| GuardianError::Timeout)?;
                if flushed { Ok(()) } else { Err(GuardianError::NotRecorded) }
            }
            GuardianTransport::InProcess { .. } | GuardianTransport::Http { .. } => Ok(()),
        }
    }

    /// Returns the client with its own connections. A connection belongs to the runtime that opened it: if
    /// each thread has its own runtime, a separate client for each thread avoids waking another thread.
    ///
    /// # Errors
    /// Fails when the HTTP client cannot be created.
    pub fn with_own_pool(&self) -> Result<Self, BuildError> {
        match &self.transport {
            GuardianTransport::Http { endpoint, .. } => {
                Self::new(endpoint.clone(), self.options.clone())
            }
            GuardianTransport::InProcess { .. } => Ok(self.clone()),
        }
    }

    /// Asks about one step. There is always an outcome: if the guardian does not send a usable response,
    /// the fail mode decides, and [`GuardianOutcome::origin`] shows this.
    pub async fn ask(&self, question: &Request) -> GuardianOutcome {
        self.ask_with(question, HeaderMap::new()).await
    }

    /// Asks like [`Self::ask`], with headers for this question only, such as those of a trace.
    pub async fn ask_with(&self, question: &Request, headers: HeaderMap) -> GuardianOutcome {
        match self.ask_with_retries(question, headers).await {
            Ok(outcome) => outcome,
            Err(failure) => {
                let method = question.method();
                let mode = self
                    .options
                    .fail_mode_by_method
                    .get(&method)
                    .copied()
                    .unwrap_or(self.options.fail_mode);
                GuardianOutcome::from_failure(failure, mode)
            }
        }
    }

    /// Asks the guardian whether it is available.
    ///
    /// # Errors
    /// Fails when the guardian does not respond, or when its response does not match the question.
    pub async fn ping(&self, id: impl Into<RequestId>, ping: Ping) -> Result<Pong, GuardianError> {
        let question = Request { id: id.into(), call: MethodCall::Ping(ping) };
        match self.send(&question, HeaderMap::new()).await? {
            ResponseBody::Pong(pong) => Ok(pong),
            ResponseBody::Error(error) => Err(GuardianError::from_error_object(error)),
            ResponseBody::Decision(_) => {
                Err(GuardianError::Unusable("a decision is not a response to a ping".to_owned()))
            }
        }
    }

    /// Asks, and retries while the guardian is unavailable.
    async fn ask_with_retries(
        &self,
        question: &Request,
        headers: HeaderMap,
    ) -> Result<GuardianOutcome, GuardianError> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let result = self.ask_once(question, headers.clone()).await;
            let is_away = matches!(&result, Err(failure) if failure.is_unavailable());
            if !is_away || began.elapsed() + pause > self.options.retry_for {
                return result;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn ask_once(
        &self,
        question: &Request,
        headers: HeaderMap,
    ) -> Result<GuardianOutcome, GuardianError> {
        let answer = match self.send(question, headers).await? {
            ResponseBody::Decision(answer) => answer,
            ResponseBody::Pong(_) => {
                return Err(GuardianError::Unusable("a pong is not a decision".to_owned()));
            }
            ResponseBody::Error(error) => return Err(GuardianError::from_error_object(error)),
        };
        let verdict = match answer.decision {
            Decision::Allow => Verdict::Allow,
            Decision::Deny => Verdict::Deny,
            Decision::Modify(modified) => {
                let request =
                    question.with_modification(*modified).map_err(GuardianError::Modification)?;
                Verdict::Modify(Box::new(request))
            }
        };
        Ok(GuardianOutcome {
            verdict,
            message: answer.message,
            reasoning: answer.reasoning,
            reason_codes: answer.reason_codes,
            data: answer.data,
            origin: VerdictSource::Guardian,
        })
    }

    /// Sends a question, and returns a response with the same id.
    async fn send(
        &self,
        question: &Request,
        headers: HeaderMap,
    ) -> Result<ResponseBody, GuardianError> {
        let body = match &self.transport {
            GuardianTransport::Http { endpoint, client } => {
                let request = client.post(endpoint.clone()).headers(headers);
                self.exchange(request.body(question.to_vec())).await?
            }
            GuardianTransport::InProcess { guardian, early_responses } => {
                let is_early = *early_responses && is_about_tool(question.method());
                let answer = match is_early {
                    true => guardian.respond_early(question.to_vec()),
                    false => guardian.respond(question.to_vec()),
                };
                let answer = tokio::time::timeout(self.options.timeout, answer).await;
                answer.map_err(|_| GuardianError::Timeout)?
            }
        };
        let limit = self.options.limits.bytes;
        if limit < body.len() {
            return Err(GuardianError::TooLarge { limit });
        }
        let response =
            Response::from_slice(&body, self.options.limits).map_err(|error| match error {
                ResponseError::Syntax(_) | ResponseError::NotAResponse(_) => {
                    GuardianError::Malformed(error.to_string())
                }
                ResponseError::UnknownDecision(decision) => {
                    GuardianError::UnknownDecision(decision)
                }
                ResponseError::UnusableModification(reason) => GuardianError::Modification(reason),
                ResponseError::Invalid(reason) => GuardianError::Unusable(reason.to_string()),
            })?;
        match (&response.id, &response.body) {
            // A guardian that could not read the id has to answer `null`, and then it is an error.
            (None, ResponseBody::Error(error))
                if error.code == code::PARSE_ERROR || error.code == code::INVALID_REQUEST => {}
            (Some(id), _) if *id == question.id => {}
            _ => return Err(GuardianError::WrongId),
        }
        Ok(response.body)
    }

    /// Sends one HTTP request, and returns the body of a successful JSON response.
    async fn exchange(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, GuardianError> {
        let response = request.send().await.map_err(|e| GuardianError::from_transport(&e))?;
        if !response.status().is_success() {
            return Err(GuardianError::Status(response.status().as_u16()));
        }
        let content_type =
            response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if !is_json(content_type) {
            return Err(GuardianError::ContentType(
                String::from_utf8_lossy(content_type).into_owned(),
            ));
        }
        self.read_body(response).await
    }

    /// Reads the body, and stops after the chunk that exceeds the limit.
    async fn read_body(&self, mut response: reqwest::Response) -> Result<Vec<u8>, GuardianError> {
        let mut body = Vec::new();
        while body.len() <= self.options.limits.bytes
            && let Some(chunk) =
                response.chunk().await.map_err(|e| GuardianError::from_transport(&e))?
        {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Returns true when messages with this method are about the call of a tool.
const fn is_about_tool(method: Method) -> bool {
    matches!(method, Method::ToolCallRequest | Method::ToolCallResult | Method::Mcp)
}

/// Returns true when a `Content-Type` is `application/json`, with any parameters.
fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
