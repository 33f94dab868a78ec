//! The commands, each a few lines over the libraries and the services.

mod audit;
mod backup;
mod bom;
mod chat;
mod checksum;
mod compose;
mod demo;
mod dependency_closure;
mod dependency_loader;
mod doctor;
mod document;
mod explain;
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
mod validate;
mod verify;
mod version_spec;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::{Arguments, Color, Command, Global, Service};
use crate::cli_error::{Exit, Failure};
use crate::client::{Client, TokenTransport, client};
use crate::output::Output;
use crate::serve::{self, data_dir};

pub(crate) use publish::publish_one;
pub(crate) use run::{print_plan, print_result, start_and_watch};
pub(crate) use search::print_answer;

/// Ends with what clap says of arguments that it does not understand, or of help and version. With
/// `--json` among them a mistake is told as JSON.
pub(crate) fn refuse_arguments(
    error: &clap::Error,
    mut arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    let wants_json = arguments.any(|argument| argument == "--json");
    if !wants_json || !error.use_stderr() {
        // Nobody is left to tell when that cannot be printed.
        let _ = error.print();
        return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let hint: Vec<_> = lines.collect();
    let failure = Failure::argument(message).with_hint(hint.join(" "));
    Output::new(true, Color::Never).failure(&failure);
    failure.exit.into()
}

/// Runs the command that was asked for.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let Arguments { global, command } = arguments;
    let mut output = Output::new(global.json, global.color);
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            match dispatch(&global, command, &mut output).await {
                Err(failure) => Err(suggest::with_suggestion(failure, || client_of(&global)).await),
                done => done,
            }
        }),
        Err(error) => {
            Err(Failure::new(Exit::Bad, crate::cli_error::CANNOT_SERVE, error.to_string()))
        }
    };
    output.finish();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

async fn dispatch(global: &Global, command: Command, output: &mut Output) -> Result<(), Failure> {
    let client = || client_of(global);
    match command {
        Command::New(arguments) => new::new(&arguments, output),
        Command::Import { command } => import::import(command, output).await,
        Command::Fmt(arguments) => fmt::fmt(&arguments, output),
        Command::Validate(arguments) => validate::validate(&arguments, client, output).await,
        Command::Ready(arguments) => readiness::ready(&arguments, &client()?, output).await,
        Command::Explain { code } => explain::explain(&code, output),
        Command::Checksum { file, write } => checksum::checksum(&file, write, client, output).await,
        Command::Verify { target } => verify::verify(&target, client, output).await,
        Command::Test(arguments) => test::test(&arguments, client, output).await,
        Command::Publish(arguments) => publish::publish(&arguments, &client()?, output).await,
        Command::Yank { target } => lifecycle::yank(&target, true, &client()?, output).await,
        Command::Unyank { target } => lifecycle::yank(&target, false, &client()?, output).await,
        Command::Deprecate(arguments) => lifecycle::deprecate(arguments, &client()?, output).await,
        Command::Owners(arguments) => owners::owners(arguments, &client()?, output).await,
        Command::Tokens { command } => tokens::tokens(command, &client()?, output).await,
        Command::Audit(arguments) => audit::audit(arguments, &client()?, output).await,
        Command::Mirror(arguments) => {
            let transport = transport_of(global);
            mirror::mirror(arguments, &data_dir(global), &client()?, transport, output).await
        }
        Command::Chat(arguments) => {
            let history = data_dir(global).join("chat_history");
            chat::chat(*arguments, &client()?, history, output).await
        }
        Command::Compose(arguments) => compose::compose(arguments, &client()?, output).await,
        Command::Search(arguments) => search::search(*arguments, &client()?, output).await,
        Command::Services(arguments) => services::services(*arguments, &client()?, output).await,
        Command::Graph(arguments) => graph::graph(&arguments, &client()?, output).await,
        Command::Stats { target } => stats::stats(&target, &client()?, output).await,
        Command::Schema => {
            output.schema(&a2s::json_schema());
            Ok(())
        }
        Command::Show(arguments) => show::show(&arguments, client, output).await,
        Command::Lock(arguments) => lock::lock(&arguments, client, output).await,
        Command::Bom(arguments) => bom::bom(&arguments, client, output).await,
        Command::Run(arguments) => run::run(arguments, &client()?, output).await,
        Command::Runs(arguments) => runs::runs(arguments, &client()?, output).await,
        Command::Cancel { id } => runs::cancel_run(&id, &client()?, output).await,
        Command::State { command } => state::state(command, &client()?, output).await,
        Command::Trust { command } => trust::trust(command, &client()?, output).await,
        Command::Secrets { command } => secrets::secrets(command, &client()?, output).await,
        Command::Guardian { command } => {
            guardian::guardian(command, &data_dir(global), client, output).await
        }
        Command::Demo(arguments) => demo::demo(&arguments, output).await,
        Command::Up(arguments) => Box::pin(serve::up(global, *arguments)).await,
        Command::Serve { service: Service::Registry(arguments) } => {
            Box::pin(serve::registry(global, arguments)).await
        }
        Command::Serve { service: Service::Executor(arguments) } => {
            Box::pin(serve::executor(global, *arguments)).await
        }
        Command::Serve { service: Service::Agent(arguments) } => {
            Box::pin(serve::agent(global, *arguments)).await
        }
        Command::Serve { service: Service::Guardian(arguments) } => {
            Box::pin(serve::guardian(global, arguments)).await
        }
        Command::Mcp => mcp::mcp(&client()?).await,
        Command::Reindex(arguments) => serve::reindex(global, arguments, output).await,
        Command::Doctor(arguments) => {
            doctor::doctor(&arguments, &data_dir(global), &client()?, output).await
        }
        Command::Backup(arguments) => {
            backup::back_up(&data_dir(global), &arguments.dir, output).await
        }
        Command::Restore(arguments) => {
            backup::restore(&arguments.dir, &data_dir(global), output).await
        }
    }
}

/// The client of the services that the command is about.
fn client_of(global: &Global) -> Result<Client, Failure> {
    // A token of the data folder goes to this machine alone.
    if let Some(token) = &global.token {
        check_characters(token)?;
        transport_of(global).check(&global.url, "the token")?;
    }
    client(&global.url, global.token.clone(), Some(data_dir(global)))
}

/// Refuses a token that no header can have: two lines of output, for instance.
fn check_characters(token: &str) -> Result<(), Failure> {
    if token.chars().all(|c| c.is_ascii() && !c.is_ascii_control()) {
        return Ok(());
    }
    let message = "the token of A2S_TOKEN or --token has a line break or another odd character";
    Err(Failure::argument(message)
        .with_hint("Set it to the token alone, as `a2s tokens create` prints it."))
}

/// The connections that the command sends tokens over.
fn transport_of(global: &Global) -> TokenTransport {
    TokenTransport::new(global.allow_insecure_tokens)
}
