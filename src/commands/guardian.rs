//! `a2s guardian`: policies, approvals and the audit log of the reference guardian.

mod approvals;
mod audit;
mod decisions;
mod test;

use std::path::Path;

use crate::cli::{AuditCommand, GuardianCommand};
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::CommandOutput;

#[cfg(feature = "console")]
pub(super) use decisions::read_page;

pub(super) async fn guardian(
    command: GuardianCommand,
    data_dir: &Path,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match command {
        GuardianCommand::Test(arguments) => test::test(&arguments, output),
        GuardianCommand::Try(arguments) => {
            decisions::try_policy(&arguments, &client()?, output).await
        }
        GuardianCommand::Policy => decisions::show_policy(&client()?, output).await,
        GuardianCommand::Decisions(arguments) => {
            decisions::list(*arguments, &client()?, output).await
        }
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
