//! The guardians of an executor: addresses, and what happens without their response.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use a2s::Secret;
use a2s_api::GuardianInfo;
use aos::message::Method;
use aos::{FailMode, InProcessGuardian};
use url::Url;

/// The guardians that are asked before and after every tool step.
#[derive(Debug, Clone)]
pub enum GuardianSettings {
    /// No guardian: every step is recorded as `unguarded`.
    Off,
    /// These guardians, in order. The first denial wins. Each guardian sees the message as the earlier ones
    /// have modified it. There is at least one guardian, and every name is unique.
    Chain(Vec<GuardianConfig>),
}

/// The configuration of a guardian that uses AOS.
#[derive(Debug, Clone)]
pub struct GuardianConfig {
    /// The endpoint of the guardian.
    pub endpoint: GuardianEndpoint,
    /// The name of the guardian in runs, plans and metrics: its address, `builtin`, or a name of at most
    /// 100 characters.
    pub name: String,
    /// The meaning of a missing response.
    pub fail: FailModes,
    /// The time that the guardian has for one question.
    pub timeout: Duration,
    /// The time for which the executor retries a guardian that it cannot reach, before the silence counts.
    /// Zero means one attempt.
    pub retry_for: Duration,
    /// The maximum size of a response that the executor may ask the guardian about, in bytes. The response
    /// of a guardian that modifies it may be as large. Use the value of
    /// [`Limits::max_response_bytes`](crate::Limits::max_response_bytes).
    pub max_response_bytes: usize,
}

/// The endpoint of a guardian.
#[derive(Debug, Clone)]
pub enum GuardianEndpoint {
    /// A guardian that is reached over HTTP.
    Http(HttpEndpoint),
    /// A guardian in this process.
    InProcess(Arc<dyn InProcessGuardian>),
}

/// A guardian over HTTP, with the settings by which each side authenticates the other.
#[derive(Debug, Clone)]
pub struct HttpEndpoint {
    /// Its address: `http://127.0.0.1:8743/aos`.
    pub url: Url,
    /// The token for requests to the guardian.
    pub token: Option<Secret>,
    /// The certificate that the executor presents to the guardian (mutual TLS).
    pub identity: Option<ExecutorCertificate>,
    /// The authorities for checking the certificate of the guardian, in PEM, instead of those that the
    /// system trusts.
    pub authorities: Option<PathBuf>,
}

impl From<Url> for HttpEndpoint {
    /// Creates an endpoint without a token or a certificate. The executor trusts the authorities of the
    /// system.
    fn from(url: Url) -> Self {
        Self { url, token: None, identity: None, authorities: None }
    }
}

/// The certificate that identifies the executor to a guardian. The files are in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorCertificate {
    /// The certificate, followed by the certificates that have signed it.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

impl GuardianConfig {
    /// The name of the guardian in the same process.
    pub const BUILTIN: &str = "builtin";

    /// Creates the configuration of the guardian at `url`, without a token or a certificate. The executor
    /// denies a step when there is no response after five seconds, or when it cannot reach the guardian for
    /// three. The name of the guardian is its address without user and password.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self::from_endpoint(url.into())
    }

    /// Creates the configuration of the guardian at `endpoint`, with the same reaction to a missing
    /// response. The name of the guardian is its address.
    #[must_use]
    pub fn from_endpoint(endpoint: HttpEndpoint) -> Self {
        Self::with_name(without_user(&endpoint.url), GuardianEndpoint::Http(endpoint))
    }

    /// Creates the configuration of the guardian in this process, with the same reaction to a missing
    /// response. Its name is [`BUILTIN`](Self::BUILTIN).
    #[must_use]
    pub fn in_process(guardian: Arc<dyn InProcessGuardian>) -> Self {
        Self::with_name(Self::BUILTIN.to_owned(), GuardianEndpoint::InProcess(guardian))
    }

    fn with_name(name: String, endpoint: GuardianEndpoint) -> Self {
        Self {
            endpoint,
            name,
            fail: FailMode::Closed.into(),
            timeout: Duration::from_secs(5),
            retry_for: Duration::from_secs(3),
            max_response_bytes: crate::Limits::default().max_response_bytes,
        }
    }

    /// The endpoint over HTTP.
    #[cfg(test)]
    pub(crate) fn http(&mut self) -> &mut HttpEndpoint {
        match &mut self.endpoint {
            GuardianEndpoint::Http(endpoint) => endpoint,
            GuardianEndpoint::InProcess(_) => panic!("it is in this process"),
        }
    }

    /// Its address, without user and password, where it has one.
    pub(crate) fn address(&self) -> Option<String> {
        match &self.endpoint {
            GuardianEndpoint::Http(HttpEndpoint { url, .. }) => Some(without_user(url)),
            GuardianEndpoint::InProcess(_) => None,
        }
    }
}

/// The decision when a guardian does not respond, for each hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailModes {
    /// The mode of every hook that is not in `by_hook`.
    pub default: FailMode,
    /// Of single hooks.
    pub by_hook: BTreeMap<GuardianHook, FailMode>,
}

impl From<FailMode> for FailModes {
    fn from(default: FailMode) -> Self {
        Self { default, by_hook: BTreeMap::new() }
    }
}

/// A hook: an AOS method that the executor asks a guardian by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuardianHook {
    /// An event that wants to start a run: `steps/agentTrigger`.
    AgentTrigger,
    /// Remembered values, before a run uses them: `steps/memoryContextRetrieval`.
    MemoryContextRetrieval,
    /// A value to remember, before it is written: `steps/memoryStore`.
    MemoryStore,
    /// A request, before it leaves: `steps/toolCallRequest`.
    ToolCallRequest,
    /// The result of a tool call, before it is used: `steps/toolCallResult`.
    ToolCallResult,
    /// A message to an MCP server before it leaves, and one from it before it is read:
    /// `protocols/MCP`.
    Mcp,
}

impl GuardianHook {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AgentTrigger,
        Self::MemoryContextRetrieval,
        Self::MemoryStore,
        Self::ToolCallRequest,
        Self::ToolCallResult,
        Self::Mcp,
    ];

    /// The name of its AOS method.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.method().as_str()
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::AgentTrigger => Method::AgentTrigger,
            Self::MemoryContextRetrieval => Method::MemoryContextRetrieval,
            Self::MemoryStore => Method::MemoryStore,
            Self::ToolCallRequest => Method::ToolCallRequest,
            Self::ToolCallResult => Method::ToolCallResult,
            Self::Mcp => Method::Mcp,
        }
    }
}

impl fmt::Display for GuardianHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for GuardianHook {
    type Err = String;

    /// `steps/toolCallResult` or `toolCallResult`.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_it = |hook: &Self| {
            let method = hook.as_str();
            text == method || method.split_once('/').is_some_and(|(_, name)| name == text)
        };
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            format!("unknown hook `{text}`; the hooks are {all}")
        })
    }
}

impl GuardianSettings {
    /// The guardians of steps, as events and plans show them.
    #[must_use]
    pub fn describe_guardians(&self) -> Vec<GuardianInfo> {
        match self {
            Self::Off => Vec::new(),
            Self::Chain(guardians) => guardians.iter().map(GuardianConfig::to_info).collect(),
        }
    }
}

/// An address without user and password.
fn without_user(url: &Url) -> String {
    let mut url = url.clone();
    // These fail for addresses that have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

impl GuardianConfig {
    pub(crate) fn to_info(&self) -> GuardianInfo {
        let FailModes { default, by_hook: own } = &self.fail;
        let own = own.iter().filter(|(_, mode)| *mode != default);
        GuardianInfo {
            guardian: self.name.clone(),
            address: self.address().filter(|address| self.name != *address),
            fail_mode: default.as_str().to_owned(),
            fail_mode_by_hook: own
                .map(|(hook, mode)| (hook.to_string(), mode.as_str().into()))
                .collect(),
        }
    }
}
