//! The settings of the guardian of this process.

use std::path::{Path, PathBuf};

use a2s::{Diagnostic, DiagnosticSeverity, SourcePosition};
use guardian::{Config, PolicyErrors, PolicySource};

use super::Layer as _;
use crate::cli_error::{CliError, CliExitCode, POLICY};
use crate::output::count;

settings! {
    /// The settings of the guardian of this process.
    pub(crate) struct GuardianSettings {
        /// Rules of the guardian; without them every step is allowed and recorded
        #[arg(long, env = "A2S_POLICY", value_name = "FILE")]
        policy: Option<PathBuf>,
        /// Rules that are only tried: the audit log records their decisions
        #[arg(long, env = "A2S_SHADOW_POLICY", value_name = "FILE")]
        shadow: Option<PathBuf>,
        /// The length of a segment of the audit log before the next one begins [default: 67108864]
        #[arg(long, env = "A2S_AUDIT_SEGMENT_BYTES", value_name = "BYTES")]
        audit_segment_bytes: Option<u64>,
    }
}

impl GuardianSettings {
    /// Validates the settings for a guardian with its audit log in `folder`, which is asked about responses
    /// of at most `max_response_bytes`.
    pub(crate) fn resolve(
        self,
        file: Self,
        folder: &Path,
        max_response_bytes: usize,
    ) -> Result<Config, CliError> {
        let settings = self.over(file);
        if settings.audit_segment_bytes == Some(0) {
            return Err(CliError::invalid_argument(
                "a segment of the audit log must have at least one byte",
            ));
        }
        let policy = settings.policy.map_or(PolicySource::AllowAll, PolicySource::File);
        let usual = Config::new(policy, folder);
        Ok(Config {
            shadow: settings.shadow.map(PolicySource::File),
            max_segment_bytes: settings.audit_segment_bytes.unwrap_or(usual.max_segment_bytes),
            max_body_bytes: Config::body_bytes(max_response_bytes),
            ..usual
        })
    }
}

/// Returns true when the guardian has files with rules.
pub(crate) fn has_policy_files(config: &Config) -> bool {
    matches!(config.policy, PolicySource::File(_)) || config.shadow.is_some()
}

/// Creates the error for a policy file that a guardian cannot use, with all errors in the file.
pub(crate) fn policy_failure(path: &Path, faults: &PolicyErrors) -> CliError {
    let message = format!("{} has {}", path.display(), count(faults.0.len(), "error"));
    let hint = "docs/guardian.md describes how to write policies and cases.";
    let failure = CliError::new(CliExitCode::Bad, POLICY, message).with_hint(hint);
    let file = path.display().to_string();
    let diagnostics = faults.0.iter().map(|fault| {
        let number = |at: Option<u64>| at.and_then(|at| usize::try_from(at).ok()).unwrap_or(1);
        let (line, column) = (number(fault.line), number(fault.column));
        Diagnostic {
            code: POLICY.id.to_owned(),
            severity: DiagnosticSeverity::Error,
            message: fault.message.clone(),
            path: file.clone(),
            position: SourcePosition { line, column },
            hint: None,
            related: Vec::new(),
        }
    });
    CliError { diagnostics: diagnostics.collect(), ..failure }
}
