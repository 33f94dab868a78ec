//! `a2s import`: documents out of OpenAPI descriptions, GraphQL schemas and Arazzo workflows.

mod arazzo;
mod fetch;
mod graphql;
mod openapi;
mod report;

use a2s::authoring::ImportError;

use crate::cli::ImportCommand;
use crate::cli_error::{BAD_ARGUMENT, Exit, Failure};
use crate::output::Output;

pub(super) async fn import(command: ImportCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        ImportCommand::Openapi(arguments) => openapi::import(arguments, output).await,
        ImportCommand::Graphql(arguments) => graphql::import(arguments, output).await,
        ImportCommand::Arazzo(arguments) => arazzo::import(arguments, output).await,
    }
}

/// The author of the documents of an import: as told, else whom git knows as the user. Documents are
/// signed by whoever publishes them, and not by whoever described the service.
fn author_of(told: Option<&str>) -> Option<String> {
    if let Some(told) = told {
        return Some(told.to_owned());
    }
    let asked = std::process::Command::new("git")
        .args(["config", "--get", "user.name"])
        .stdin(std::process::Stdio::null())
        .output();
    let answer = asked.ok().filter(|asked| asked.status.success())?;
    let name = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
    name.chars().any(char::is_alphanumeric).then_some(name)
}

/// Nothing at all could be imported from `origin`.
fn refused(origin: &str, error: &ImportError) -> Failure {
    let message = format!("{origin}: {error}");
    Failure::new(Exit::Bad, BAD_ARGUMENT, message).with_hint(error.hint.as_str())
}
