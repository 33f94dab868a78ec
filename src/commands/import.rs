//! `a2s import`: documents out of OpenAPI descriptions, GraphQL schemas and Arazzo workflows.

mod arazzo;
mod fetch;
mod graphql;
mod openapi;
mod report;

use a2s_authoring::ImportError;

use crate::cli::ImportCommand;
use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode};
use crate::output::CommandOutput;

pub(super) async fn import(
    command: ImportCommand,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match command {
        ImportCommand::Openapi(arguments) => openapi::import(arguments, output).await,
        ImportCommand::Graphql(arguments) => graphql::import(arguments, output).await,
        ImportCommand::Arazzo(arguments) => arazzo::import(arguments, output).await,
    }
}

/// The author of the documents of an import: the given one, else the user name of git. The publisher signs
/// documents, and not the author of the service's description.
fn find_author(given: Option<&str>) -> Option<String> {
    if let Some(given) = given {
        return Some(given.to_owned());
    }
    let asked = std::process::Command::new("git")
        .args(["config", "--get", "user.name"])
        .stdin(std::process::Stdio::null())
        .output();
    let answer = asked.ok().filter(|asked| asked.status.success())?;
    let name = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
    name.chars().any(char::is_alphanumeric).then_some(name)
}

/// Creates the error for an import from `origin` that produced no documents.
fn import_failed(origin: &str, error: &ImportError) -> CliError {
    let message = format!("{origin}: {error}");
    CliError::new(CliExitCode::Bad, BAD_ARGUMENT, message).with_hint(error.hint.as_str())
}
