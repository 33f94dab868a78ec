//! The guardians of a configuration, and their decisions in the words of the journal and of errors.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use a2s_api::{DecisionRecord, DecisionSource, GuardianChange, GuardianPhase};
use aos::ClientIdentity as Shown;
use aos::{
    BearerToken, GuardianChain, GuardianClient, GuardianError, GuardianOutcome, Options,
    TrustRoots, VerdictSource,
};
use url::{Host, Url};
use zeroize::Zeroizing;

use super::{MAX_REASONS, MAX_WORDS};
use crate::config::{
    ExecutorCertificate, GuardianConfig, GuardianEndpoint, GuardianSettings, HttpEndpoint,
};
use crate::error::{Error, ErrorKind, RequestedApproval};
use a2s::to_single_line;

/// The maximum number of guardians: each is a label of metrics, and a round trip of every step.
const MAX_GUARDIANS: usize = 8;
/// The reason of a denial that an approval would lift.
pub(super) const APPROVAL_REQUIRED: &str = "approval_required";
/// The maximum number of characters in the id of an approval.
const MAX_APPROVAL_ID: usize = 100;
/// The maximum number of characters in a configured name.
const MAX_NAME: usize = 100;

impl GuardianSettings {
    /// Creates the clients of these guardians, or `None` without guardians. They are for other questions to
    /// the same guardians. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when there is no guardian to ask, two cannot be distinguished,
    /// or one cannot be asked as configured.
    pub fn open(&self) -> Result<Option<GuardianChain>, Error> {
        open(self)
    }
}

fn open(guardian: &GuardianSettings) -> Result<Option<GuardianChain>, Error> {
    let configs = match guardian {
        GuardianSettings::Off => return Ok(None),
        GuardianSettings::Chain(configs) => configs,
    };
    if configs.len() > MAX_GUARDIANS {
        let message = format!(
            "the configuration has {} guardians; at most {MAX_GUARDIANS} are allowed",
            configs.len()
        );
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    let mut names = BTreeSet::new();
    let mut guardians: Option<GuardianChain> = None;
    for config in configs {
        let name = config.name.as_str();
        if !names.insert(name) {
            let message =
                format!("two guardians have the name `{}`", to_single_line(name, MAX_NAME));
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let client = client(config).map_err(|why| unusable(name, &why))?;
        guardians = Some(match guardians {
            None => GuardianChain::new(name, client),
            Some(guardians) => guardians.and(name, client),
        });
    }
    let missing = || {
        Error::new(
            ErrorKind::Configuration,
            "the configuration neither names a guardian nor turns the guardian off",
        )
    };
    guardians.map(Some).ok_or_else(missing)
}

/// Creates a client. Returns the reason when the guardian cannot be asked as configured.
fn client(config: &GuardianConfig) -> Result<GuardianClient, String> {
    let GuardianConfig { endpoint, name, fail, timeout, retry_for, max_response_bytes } = config;
    // An address as a name is as long as it is.
    if config.address().is_none_or(|address| *name != address) && !is_name(name) {
        return Err(format!(
            "a name must have 1 to {MAX_NAME} characters and no control characters"
        ));
    }
    if timeout.is_zero() {
        return Err("its timeout must be greater than zero".to_owned());
    }
    let guarding = config.to_info();
    if guarding.can_fail_open() {
        tracing::warn!(guardian = %name, fail = guarding.describe_fail_mode(), "steps pass without a decision if the guardian does not respond");
    }
    let own = fail.by_hook.iter();
    let options = Options {
        connect_timeout: Options::default().connect_timeout.min(*timeout),
        timeout: *timeout,
        retry_for: *retry_for,
        limits: aos::message::Limits::for_response(*max_response_bytes),
        fail_mode: fail.default,
        fail_mode_by_method: own.map(|(hook, own)| (hook.method(), *own)).collect(),
        ..Options::default()
    };
    match endpoint {
        GuardianEndpoint::Http(endpoint) => client_over_http(name, endpoint, options),
        GuardianEndpoint::InProcess(guardian) => {
            Ok(GuardianClient::in_process(Arc::clone(guardian), options))
        }
    }
}

fn client_over_http(
    name: &str,
    endpoint: &HttpEndpoint,
    options: Options,
) -> Result<GuardianClient, String> {
    let HttpEndpoint { url, token, identity, authorities } = endpoint;
    let is_tls = url.scheme() == "https";
    if !is_tls && (identity.is_some() || authorities.is_some()) {
        return Err("certificates require an address that starts with https".to_owned());
    }
    if token.is_some() && !is_tls && !is_loopback(url) {
        tracing::warn!(guardian = %name, "the token of the guardian is sent without TLS: others on the network can read it; use https");
    }
    let bearer = token.as_ref().map(|token| {
        let bearer = BearerToken::new(token.expose_secret());
        bearer.ok_or("its token has characters that are not allowed in a header")
    });
    let read = |path: &Path| {
        let read = std::fs::read(path).map(Zeroizing::new);
        read.map_err(|error| format!("{}: {error}", path.display()))
    };
    let identity = identity.as_ref().map(|ExecutorCertificate { certificate, key }| {
        Shown::from_pem(&read(certificate)?, &read(key)?).map_err(|error| error.to_string())
    });
    let authorities = authorities
        .as_ref()
        .map(|path| TrustRoots::from_pem(&read(path)?).map_err(|error| error.to_string()));
    let options = Options {
        bearer_token: bearer.transpose()?,
        identity: identity.transpose()?,
        trust_roots: authorities.transpose()?,
        ..options
    };
    GuardianClient::new(url.clone(), options).map_err(|error| error.to_string())
}

fn unusable(name: &str, why: &str) -> Error {
    let message = format!("the guardian `{}`: {why}", to_single_line(name, MAX_NAME));
    Error::new(ErrorKind::Configuration, message)
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The decision of one guardian, for the journal.
pub(super) fn decision(
    phase: GuardianPhase,
    name: &str,
    outcome: &GuardianOutcome,
    changes: Vec<GuardianChange>,
) -> DecisionRecord {
    let reasons = outcome.reason_codes.iter().take(MAX_REASONS);
    DecisionRecord {
        phase,
        guardian: Some(name.to_owned()),
        decision: outcome.verdict.as_str().into(),
        source: match &outcome.origin {
            VerdictSource::Guardian => DecisionSource::Guardian,
            VerdictSource::FailedClosed(_) => DecisionSource::FailedClosed,
            VerdictSource::FailedOpen(_) => DecisionSource::FailedOpen,
        },
        message: to_single_line(&outcome.message, MAX_WORDS).into(),
        reason_codes: reasons.map(|code| to_single_line(code, 100)).collect(),
        changes,
    }
}

/// The error of a step that was denied. `name` names the guardian when there are several.
pub(super) fn denial(
    phase: GuardianPhase,
    guardian: &str,
    name: Option<&str>,
    outcome: &GuardianOutcome,
) -> Error {
    let (kind, asked_for, effect) = match phase {
        GuardianPhase::Request => {
            (ErrorKind::GuardianDeniedRequest, "the request", "so the executor sent nothing")
        }
        GuardianPhase::McpOutbound => {
            (ErrorKind::GuardianDeniedRequest, "the MCP message", "so the executor sent nothing")
        }
        GuardianPhase::McpInbound => (
            ErrorKind::GuardianDeniedResult,
            "the MCP response",
            "so the executor does not use the response of the service",
        ),
        GuardianPhase::Result => (
            ErrorKind::GuardianDeniedResult,
            "the result",
            "so the executor does not use the response of the service",
        ),
        GuardianPhase::Trigger => {
            (ErrorKind::GuardianDeniedTrigger, "the event", "so the executor started nothing")
        }
        GuardianPhase::Memory => (
            ErrorKind::GuardianDeniedMemory,
            "the remembered value",
            "so the remembered value does not change",
        ),
    };
    let words = to_single_line(&outcome.message, MAX_WORDS);
    let whose = name.map_or_else(String::new, |name| format!(" (guardian `{name}`)"));
    let wanted = requested_approval(phase, guardian, outcome);
    match &outcome.origin {
        VerdictSource::FailedClosed(GuardianError::Modification(_)) => {
            Error::new(ErrorKind::GuardianModification, format!("{words}{whose}"))
        }
        VerdictSource::FailedClosed(_) | VerdictSource::FailedOpen(_) => {
            Error::new(ErrorKind::GuardianUnreachable, format!("{words}{whose}, {effect}"))
        }
        VerdictSource::Guardian if wanted.is_some() => {
            approval_error(asked_for, whose.as_str(), &words, wanted)
        }
        VerdictSource::Guardian => {
            let who = name.map_or_else(String::new, |name| format!(" `{name}`"));
            Error::new(kind, format!("the guardian{who} denied {asked_for}: {words}"))
        }
    }
}

/// The approval that a denial asks for: `approval_required`, with `data.approval` next to it.
fn requested_approval(
    phase: GuardianPhase,
    guardian: &str,
    outcome: &GuardianOutcome,
) -> Option<RequestedApproval> {
    // Before a run begins there is nothing that could wait.
    if matches!(phase, GuardianPhase::Trigger | GuardianPhase::Memory) {
        return None;
    }
    if !outcome.reason_codes.iter().any(|code| code == APPROVAL_REQUIRED) {
        return None;
    }
    let approval = outcome.data.as_ref()?.get("approval")?;
    let id = approval.get("id")?.as_str()?;
    // People copy it into a command.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !(1..=MAX_APPROVAL_ID).contains(&id.len())
        || !id.chars().all(is_plain)
        || id.starts_with('-')
    {
        return None;
    }
    let expires_at = approval.get("expiresAt").and_then(|at| at.as_str()?.parse().ok());
    Some(RequestedApproval { phase, guardian: guardian.to_owned(), id: id.to_owned(), expires_at })
}

/// Creates the error of a step that a person has to approve.
fn approval_error(
    asked_for: &str,
    whose: &str,
    words: &str,
    wanted: Option<RequestedApproval>,
) -> Error {
    let id = wanted.as_ref().map_or("ID", |wanted| &wanted.id);
    let until = wanted.as_ref().and_then(|wanted| wanted.expires_at);
    let until = until.map_or_else(String::new, |at| format!(" until {at:.0}"));
    let message = format!(
        "a person must approve {asked_for}{whose} with `a2s guardian approve {id}`{until}: {words}"
    );
    let hint = format!(
        "Approve it with `a2s guardian approve {id}`, or reject it with `a2s guardian reject {id}`; \
         the run then continues without further action."
    );
    Error {
        approval: wanted.map(Box::new),
        ..Error::new(ErrorKind::ApprovalRequired, message).with_hint(hint)
    }
}
