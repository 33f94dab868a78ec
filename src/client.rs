//! The commands as clients of registry and executor at one address.

use std::path::PathBuf;

use a2s::Secret;
use agent::{ClientError, is_loopback};
use reqwest::StatusCode;
use url::Url;

use crate::cli_error::{BAD_ANSWER, CliError, CliExitCode, NO_ROUTE, NOT_REACHABLE};

pub(crate) use agent::ServiceClient;

/// The status codes of a service that cannot reach another one that it needs.
const UNREACHABLE_STATUS: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// Creates a client for `url`. It uses the token of the data folder only for this machine.
pub(crate) fn client(
    url: &Url,
    token: Option<String>,
    data_dir: Option<PathBuf>,
) -> Result<ServiceClient, CliError> {
    let token = token.or_else(|| {
        let file = data_dir.filter(|_| is_loopback(url))?.join("token");
        Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
    });
    Ok(ServiceClient::new(url, token.map(Secret::new))?)
}

/// The connections over which tokens may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TokenTransport {
    /// TLS, or connections to this machine.
    #[default]
    Protected,
    /// All connections: plain HTTP to other machines as well.
    Any,
}

impl TokenTransport {
    pub(crate) fn new(allow_insecure: bool) -> Self {
        if allow_insecure { Self::Any } else { Self::Protected }
    }

    /// Refuses to send the token `what` to `url` over a connection that others could read.
    pub(crate) fn check(self, url: &Url, what: &str) -> Result<(), CliError> {
        if self == Self::Any || url.scheme() == "https" || is_loopback(url) {
            return Ok(());
        }
        let host = url.host_str().unwrap_or_default();
        let message = format!("the command does not send {what} to `{host}` over plain http");
        Err(CliError::invalid_argument(message).with_hint(
            "Use an https address. If the network itself is protected, allow it with \
             --allow-insecure-tokens, A2S_ALLOW_INSECURE_TOKENS=true or `allow-insecure-tokens = \
             true` in the file of a service.",
        ))
    }
}

/// Refuses to send secrets over a connection that others could read.
pub(crate) fn require_private_connection(client: &ServiceClient) -> Result<(), CliError> {
    let url = client.url();
    if url.scheme() == "https" || is_loopback(url) {
        return Ok(());
    }
    let message = format!("the command does not send secrets to {url} over http");
    Err(CliError::invalid_argument(message)
        .with_hint("Use an https address, or run this command where the executor runs."))
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        let problem = match error {
            ClientError::Unreachable { .. } => {
                return Self::new(CliExitCode::Unreachable, NOT_REACHABLE, message);
            }
            ClientError::BadResponse { diagnostics, .. } => {
                return Self { diagnostics, ..Self::new(CliExitCode::Bad, BAD_ANSWER, message) };
            }
            ClientError::Refused { problem } => *problem,
        };
        let status = StatusCode::from_u16(problem.status).unwrap_or_default();
        let exit = if UNREACHABLE_STATUS.contains(&status) {
            CliExitCode::Unreachable
        } else {
            CliExitCode::Bad
        };
        let hint = match status {
            StatusCode::UNAUTHORIZED => Some(
                "Set A2S_TOKEN, or A2S_DATA_DIR to the data folder of `a2s up`, where the file `token` is.".to_owned(),
            ),
            _ => problem.hint,
        };
        Self {
            exit,
            code: problem.code,
            message: problem.detail,
            hint,
            is_printed: false,
            diagnostics: problem.diagnostics,
        }
    }
}

/// The reason why an optional part of a report is missing.
#[derive(Debug)]
pub(crate) enum MissingPart {
    /// The caller may not read it.
    NotPermitted,
    /// The service does not have it.
    NotServed,
    /// It could not be read.
    Failed(CliError),
}

impl From<ClientError> for MissingPart {
    fn from(error: ClientError) -> Self {
        let ClientError::Refused { problem } = &error else { return Self::Failed(error.into()) };
        match problem.status {
            401 | 403 => Self::NotPermitted,
            404 if problem.code == NO_ROUTE.id => Self::NotServed,
            _ => Self::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leaves_this_machine_over_tls_alone_unless_configured() {
        let check = |url: &str, allow: bool| {
            TokenTransport::new(allow).check(&url.parse().unwrap(), "the token")
        };
        for good in ["https://a.example", "http://127.0.0.1:1", "http://[::1]", "http://localhost"]
        {
            assert!(check(good, false).is_ok(), "{good}");
        }
        for bad in ["http://a.example", "http://10.0.0.1", "http://localhost.a.example"] {
            let refused = check(bad, false).unwrap_err();
            assert!(refused.hint.unwrap().contains("--allow-insecure-tokens"), "{bad}");
            assert!(check(bad, true).is_ok(), "{bad}");
        }
    }
}
