//! The commands, each a few lines over the libraries and the services.

mod audit;
mod backup;
mod bom;
mod chat;
mod checksum;
mod compose;
mod connect;
#[cfg(feature = "console")]
mod console;
mod demo;
mod dependency_closure;
mod dependency_loader;
mod doctor;
mod document;
mod explain;
mod findability;
mod fmt;
mod graph;
mod guardian;
mod import;
mod lifecycle;
mod lock;
mod mcp;
mod mirror;
mod new;
mod owners;
mod publish;
mod readiness;
mod run;
mod runs;
mod search;
mod secrets;
mod services;
mod show;
mod state;
mod stats;
mod suggest;
mod test;
mod tokens;
mod trust;
mod types;
mod usage;
mod validate;
mod verify;
mod version_spec;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::{CliArguments, CliCommand, GlobalArgs};
use crate::cli_error::{CliError, CliExitCode};
use crate::client::{ServiceClient, TokenTransport, client};
use crate::output::{ColorMode, CommandOutput};
use crate::serve::{self, data_dir};

pub(crate) use publish::publish_document;
pub(crate) use run::{print_plan, print_result, start_and_watch};
pub(crate) use search::print_response;

/// Ends with clap's message about arguments that it does not understand, or about help and version. With
/// `--json` among them a mistake is printed as JSON.
pub(crate) fn reject_arguments(
    error: &clap::Error,
    mut arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    let wants_json = arguments.any(|argument| argument == "--json");
    if !wants_json || !error.use_stderr() {
        // A failure to print this cannot be reported.
        let _ = error.print();
        return if error.use_stderr() { CliExitCode::Usage.into() } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let hint: Vec<_> = lines.collect();
    let failure = CliError::invalid_argument(message).with_hint(hint.join(" "));
    CommandOutput::new(true, ColorMode::Never).print_error(&failure);
    failure.exit.into()
}

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: CliArguments) -> ExitCode {
    let CliArguments { global, command } = arguments;
    let mut output = CommandOutput::new(global.json, global.color);
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            match dispatch(&global, command, &mut output).await {
                Err(failure) => {
                    Err(suggest::with_suggestion(failure, || client_for(&global)).await)
                }
                done => done,
            }
        }),
        Err(error) => Err(CliError::cannot_serve(error.to_string())),
    };
    output.print_explain_hint();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.print_error(&failure);
            failure.exit.into()
        }
    }
}

async fn dispatch(
    global: &GlobalArgs,
    command: CliCommand,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let client = || client_for(global);
    match command {
        CliCommand::New(arguments) => new::new(&arguments, output),
        CliCommand::Import { command } => import::import(command, output).await,
        CliCommand::Fmt(arguments) => fmt::fmt(&arguments, output),
        CliCommand::Validate(arguments) => validate::validate(&arguments, client, output).await,
        CliCommand::Ready(arguments) => readiness::ready(&arguments, &client()?, output).await,
        CliCommand::Explain { code } => explain::explain(&code, output),
        CliCommand::Checksum { file, write } => {
            checksum::checksum(&file, write, client, output).await
        }
        CliCommand::Verify { target } => verify::verify(&target, client, output).await,
        CliCommand::Test(arguments) => test::test(&arguments, client, output).await,
        CliCommand::Publish(arguments) => publish::publish(&arguments, &client()?, output).await,
        CliCommand::Yank(arguments) => lifecycle::yank(&arguments, &client()?, output).await,
        CliCommand::Types(arguments) => types::types(*arguments, &client()?, output).await,
        CliCommand::Connect(arguments) => connect::connect(arguments, global, output),
        #[cfg(feature = "console")]
        CliCommand::Console { print } => console::console(print, &client()?, output).await,
        CliCommand::ForgetIntents { name } => {
            lifecycle::forget_intents(&name, &client()?, output).await
        }
        CliCommand::Unyank { target } => lifecycle::unyank(&target, &client()?, output).await,
        CliCommand::Deprecate(arguments) => {
            lifecycle::deprecate(arguments, &client()?, output).await
        }
        CliCommand::Owners(arguments) => owners::owners(arguments, &client()?, output).await,
        CliCommand::Tokens { command } => tokens::tokens(command, &client()?, output).await,
        CliCommand::Audit(arguments) => audit::audit(arguments, &client()?, output).await,
        CliCommand::Mirror(arguments) => {
            let transport = token_transport(global);
            mirror::mirror(arguments, &data_dir(global), &client()?, transport, output).await
        }
        CliCommand::Chat(arguments) => {
            chat::chat(*arguments, &client()?, data_dir(global).join("chat_history"), output).await
        }
        CliCommand::Compose(arguments) => compose::compose(arguments, &client()?, output).await,
        CliCommand::Search(arguments) => search::search(*arguments, &client()?, output).await,
        CliCommand::Services(arguments) => services::services(*arguments, &client()?, output).await,
        CliCommand::Graph(arguments) => graph::graph(&arguments, &client()?, output).await,
        CliCommand::Usage(arguments) => usage::usage(&arguments, &client()?, output).await,
        CliCommand::Stats { target } => stats::stats(&target, &client()?, output).await,
        CliCommand::Schema => {
            output.print_schema(&a2s::json_schema());
            Ok(())
        }
        CliCommand::Show(arguments) => show::show(&arguments, client, output).await,
        CliCommand::Lock(arguments) => lock::lock(&arguments, client, output).await,
        CliCommand::Bom(arguments) => bom::bom(&arguments, client, output).await,
        CliCommand::Run(arguments) => run::run(arguments, &client()?, output).await,
        CliCommand::Runs(arguments) => runs::runs(arguments, &client()?, output).await,
        CliCommand::Cancel { id } => runs::cancel_run(&id, &client()?, output).await,
        CliCommand::State { command } => state::state(command, &client()?, output).await,
        CliCommand::Trust { command } => trust::trust(command, &client()?, output).await,
        CliCommand::Secrets { command } => secrets::secrets(command, &client()?, output).await,
        CliCommand::Guardian { command } => {
            guardian::guardian(command, &data_dir(global), client, output).await
        }
        CliCommand::Demo(arguments) => demo::demo(&arguments, output).await,
        CliCommand::Up(arguments) => Box::pin(serve::up(global, *arguments)).await,
        CliCommand::Serve { service } => Box::pin(serve::serve_alone(global, service)).await,
        CliCommand::Mcp => mcp::mcp(&client()?).await,
        CliCommand::Reindex(arguments) => serve::reindex(global, *arguments, output).await,
        CliCommand::Doctor(arguments) => {
            doctor::doctor(&arguments, &data_dir(global), &client()?, output).await
        }
        CliCommand::Backup(arguments) => {
            backup::back_up(&data_dir(global), &arguments, output).await
        }
        CliCommand::Restore(arguments) => {
            backup::restore(&arguments, &data_dir(global), output).await
        }
    }
}

/// Creates the client for the services at the URL of the command.
fn client_for(global: &GlobalArgs) -> Result<ServiceClient, CliError> {
    // A token of the data folder goes to this machine alone.
    if let Some(token) = &global.token {
        check_token_characters(token)?;
        token_transport(global).check(&global.url, "the token")?;
    }
    client(&global.url, global.token.clone(), Some(data_dir(global)))
}

/// Refuses a token with characters that a header cannot contain, such as a line break.
fn check_token_characters(token: &str) -> Result<(), CliError> {
    if token.chars().all(|c| c.is_ascii() && !c.is_ascii_control()) {
        return Ok(());
    }
    let message =
        "the token of A2S_TOKEN or --token contains a line break or another invalid character";
    Err(CliError::invalid_argument(message)
        .with_hint("Set it to the token only, as `a2s tokens create` prints it."))
}

/// Returns the connections over which the command sends tokens.
fn token_transport(global: &GlobalArgs) -> TokenTransport {
    TokenTransport::new(global.allow_insecure_tokens)
}
