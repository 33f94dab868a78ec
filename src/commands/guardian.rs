//! `a2s guardian`: policies, approvals and the audit log of the reference guardian.

mod approvals;
mod audit;
mod test;

use std::path::Path;

use a2s::{Diagnostic, Position, Severity};
use guardian::PolicyErrors;

use crate::cli::{AuditCommand, GuardianCommand};
use crate::cli_error::{Exit, Failure, POLICY};
use crate::client::Client;
use crate::output::Output;

pub(super) async fn guardian(
    command: GuardianCommand,
    data_dir: &Path,
    client: impl FnOnce() -> Result<Client, Failure>,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        GuardianCommand::Test(arguments) => test::test(&arguments, output),
        GuardianCommand::Approvals(arguments) if arguments.watch => {
            approvals::watch(&client()?, output).await
        }
        GuardianCommand::Approvals(arguments) => {
            approvals::list(arguments.status.as_deref(), &client()?, output).await
        }
        GuardianCommand::Approve(arguments) => {
            approvals::settle(&arguments, "approve", &client()?, output).await
        }
        GuardianCommand::Reject(arguments) => {
            approvals::settle(&arguments, "reject", &client()?, output).await
        }
        GuardianCommand::Audit { command: AuditCommand::Verify { log, head, after } } => {
            audit::verify(&audit::log_path(log, data_dir), head.as_deref(), after, output)
        }
        GuardianCommand::Audit { command: AuditCommand::Show(arguments) } => {
            let log = audit::log_path(arguments.log.clone(), data_dir);
            audit::show(&log, &arguments, output)
        }
    }
}

/// A file that a guardian cannot go by, with every fault.
pub(crate) fn faulty(path: &Path, faults: &PolicyErrors) -> Failure {
    let message =
        format!("{} has {}", path.display(), crate::output::count(faults.0.len(), "fault"));
    let hint = "docs/guardian.md says how policies and cases are written.";
    let failure = Failure::new(Exit::Bad, POLICY, message).with_hint(hint);
    let file = path.display().to_string();
    let diagnostics = faults.0.iter().map(|fault| {
        let number = |at: Option<u64>| at.and_then(|at| usize::try_from(at).ok()).unwrap_or(1);
        let (line, column) = (number(fault.line), number(fault.column));
        Diagnostic {
            code: POLICY.id.to_owned(),
            severity: Severity::Error,
            message: fault.message.clone(),
            path: file.clone(),
            position: Position { line, column },
            hint: None,
            related: Vec::new(),
        }
    });
    Failure { diagnostics: diagnostics.collect(), ..failure }
}
