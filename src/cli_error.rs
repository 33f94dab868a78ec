//! Errors of the command: exit code, code, message and fix. The one table of the command.

use std::process::ExitCode;

use a2s::ErrorCode;
use agent::describe_os_error;
use serde_json::{Value, json};

/// The exit codes; `a2s --help` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliExitCode {
    /// The check found an error, the run failed, or a search found nothing.
    Bad = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A guardian denied a step.
    Denied = 3,
    /// A registry, executor or guardian is not reachable.
    Unreachable = 4,
}

impl From<CliExitCode> for ExitCode {
    fn from(exit: CliExitCode) -> Self {
        Self::from(exit as u8)
    }
}

/// The reason why a command fails.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: CliExitCode,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// True when everything is printed already and the command only has to end with its exit code.
    pub(crate) is_printed: bool,
    pub(crate) diagnostics: Vec<a2s::Diagnostic>,
}

a2s::error_table! {
    /// Every code of the command, in order.
    pub(crate) const CODES;
    FILE = "A2S500", "file cannot be read or written", "Check the path and its permissions.";
    NOT_REACHABLE = "A2S501", "service not reachable", "Start the service with `a2s up`, or set A2S_URL to its address.";
    BAD_ANSWER = "A2S502", "response not understood", "Check that A2S_URL is the address of an A2S service with a compatible version.";
    BAD_ARGUMENT = "A2S503", "argument not understood", "See `a2s help`.";
    CANNOT_SERVE = "A2S504", "service cannot start", "Fix the problem that the message names, and start the service again.";
    DEMO_BROKEN = "A2S505", "demo failed", "This is a defect; please report it with the output of `a2s demo --json`.";
    BAD_HOST = "A2S506", "host or origin not allowed", "Use the host name that the service listens on, and do not call it from a page of another site.";
    NO_ROUTE = "A2S507", "unknown path", "Use another service with --url or A2S_URL; /openapi.json lists the paths of this service.";
    LOCK = "A2S508", "lock cannot be used", "Write the lock again with `a2s lock FILE`.";
    EXAMPLE = "A2S509", "failing example", "Find the cause with `a2s test FILE`, or publish without the tests with `--skip-tests`.";
    POLICY = "A2S510", "policy or test cases with errors", "Fix the errors on the listed lines; docs/guardian.md describes how to write policies.";
    AUDIT = "A2S511", "audit log broken", "The file was changed, or it is not an audit log: compare it with a copy.";
    NO_CHAIN = "A2S512", "no chain of capabilities found", "Describe the tasks one after another, and which result goes where; docs/composition.md describes what links two capabilities.";
    NOT_READY = "A2S513", "service not ready", "See the log of the service for the cause; the service may become ready without further action.";
    TOO_MANY_CONNECTIONS = "A2S514", "too many connections", "Try again after the time in `Retry-After`, or raise `max-connections` under `[connections]`.";
    SLOW_REQUEST = "A2S515", "request took too long to arrive", "Send the body without pauses, or raise `body-timeout` under `[connections]`.";
    BACKUP = "A2S516", "backup cannot be written or used", "If the backup is incomplete or damaged, use another one; if the data is damaged, check the file that the message names.";
    NO_RUN = "A2S517", "no single run with this beginning of an id", "Give more characters of the id; `a2s runs` lists the newest runs.";
}

impl CliError {
    pub(crate) fn new(exit: CliExitCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.id.to_owned(),
            message: message.into(),
            hint: Some(code.remedy.to_owned()),
            is_printed: false,
            diagnostics: Vec::new(),
        }
    }

    /// Returns the error with a more exact hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Creates an error for a command that has already printed everything.
    pub(crate) fn already_printed(exit: CliExitCode) -> Self {
        Self { is_printed: true, hint: None, ..Self::new(exit, FILE, "") }
    }

    /// Creates the error for a file that cannot be read or written.
    pub(crate) fn file_error(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(
            CliExitCode::Bad,
            FILE,
            format!("{}: {}", path.display(), describe_os_error(error)),
        )
    }

    /// Creates the error of a service that cannot start or go on.
    pub(crate) fn cannot_serve(message: impl Into<String>) -> Self {
        Self::new(CliExitCode::Bad, CANNOT_SERVE, message)
    }

    /// Creates the error for an invalid argument.
    pub(crate) fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(CliExitCode::Usage, BAD_ARGUMENT, message)
    }

    /// An error for a setting whose part this build does not contain.
    #[cfg_attr(feature = "full", expect(dead_code, reason = "a full build lacks nothing"))]
    pub(crate) fn not_built(feature: &str) -> Self {
        let message = format!("this build of `a2s` does not contain the feature `{feature}`");
        Self::invalid_argument(message)
            .with_hint(format!("Build it with `--features {feature}`, or use a released binary."))
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if !self.diagnostics.is_empty() {
            error["diagnostics"] = json!(self.diagnostics);
        }
        json!({ "error": error })
    }
}
