//! `a2s import`: documents out of OpenAPI descriptions, GraphQL schemas and Arazzo workflows.

mod arazzo;
mod fetch;
mod graphql;
mod openapi;
mod report;

use a2s::author::ImportError;

use crate::cli::ImportCommand;
use crate::failure::{BAD_ARGUMENT, Exit, Failure};
use crate::output::Output;

pub(super) async fn import(command: ImportCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        ImportCommand::Openapi(arguments) => openapi::import(arguments, output).await,
        ImportCommand::Graphql(arguments) => graphql::import(arguments, output).await,
        ImportCommand::Arazzo(arguments) => arazzo::import(arguments, output).await,
    }
}

/// Nothing at all could be imported from `origin`.
fn refused(origin: &str, error: &ImportError) -> Failure {
    let message = format!("{origin}: {error}");
    Failure::new(Exit::Bad, BAD_ARGUMENT, message).with_hint(error.hint.as_str())
}
