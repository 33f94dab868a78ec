//! `a2s up` and `a2s serve`: the services on a listener.

mod agent;
mod bundled_capabilities;
mod connections;
mod data_dir;
mod dependencies;
mod drain_body;
mod embedder;
mod examples;
mod guardian_settings;
mod identity;
#[cfg(feature = "keyring")]
mod keyring;
mod logs;
mod metrics;
mod middleware;
mod qdrant;
mod readiness;
mod services;
mod settings;
mod shipping;
mod telemetry;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal;
use url::Url;

use self::agent::{AgentSettings, RemoteServices};
use self::settings::{CommonSettings, SettingsFile};
use crate::cli::{
    AgentServiceArgs, ExecutorArgs, GlobalArgs, GuardianArgs, GuardianChoice, RegistryArgs,
    ReindexArgs, UpArgs,
};
use crate::cli_error::{CANNOT_SERVE, CliError, CliExitCode};
use crate::clock;
use crate::output::{BOLD, CommandOutput, DIM, NAME};

pub(crate) use bundled_capabilities::bundled_documents;
pub(crate) use connections::ConnectionLimits;
pub(crate) use data_dir::{DataFolder, data_dir, set_private_umask};
pub(crate) use guardian_settings::{GuardianSelection, policy_failure, read_token};
pub(crate) use services::{
    ExecutorSettings, JournalSettings, OutboundSettings, PolicyFiles, RegistrySettings,
    RunningServices, ServiceSettings, StandaloneGuardianSettings,
};
pub use settings::configuration_markdown;

const UP_PORT: u16 = 8740;
const REGISTRY_PORT: u16 = 8741;
const EXECUTOR_PORT: u16 = 8742;
const GUARDIAN_PORT: u16 = 8743;
const AGENT_PORT: u16 = 8744;

/// Serves registry, executor and guardian on one port.
pub(crate) async fn up(global: &GlobalArgs, arguments: UpArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(&arguments.common)?;
    let common = file.common(&arguments.common, UP_PORT)?;
    let rules = file.rules(arguments.policy)?;
    let guardians = file.guardians(&arguments.guarding, GuardianChoice::Builtin)?;
    if rules.has_files() && !guardians.has_builtin() {
        return Err(CliError::invalid_argument(
            "--policy and --shadow require the builtin guardian",
        )
        .with_hint("Leave --policy and --shadow out, or use --guardian builtin."));
    }
    let database = file.database(arguments.database);
    let parts = ServiceSettings {
        registry: Some(file.registry_part(
            database.clone(),
            arguments.qdrant,
            &arguments.embedder,
        )?),
        executor: Some(ExecutorSettings {
            registry: None,
            // A file is the registry's: the two have tables of their own.
            database: run_database(database)?
                .filter(|database| matches!(database, executor::ExecutorDatabase::Postgres(_))),
            guardians,
            rules,
            outbound: file.outbound(&arguments.outbound)?,
            journal: file.journal(&arguments.journal)?,
        }),
        guardian: None,
        agent: Some(file.agent(&arguments.agent)?),
        ship: !arguments.no_examples,
        transport: file.transport(global.allow_insecure_tokens),
    };
    serve(global, "up", parts, common).await
}

/// Serves only the registry.
pub(crate) async fn registry(global: &GlobalArgs, arguments: RegistryArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(&arguments.common)?;
    let common = file.common(&arguments.common, REGISTRY_PORT)?;
    let database = file.database(arguments.database);
    let part = file.registry_part(database, arguments.qdrant, &arguments.embedder)?;
    let (token, token_file) = (arguments.service_token, arguments.service_token_file);
    let service_token = file.service_token(token, token_file.as_deref())?;
    let parts = ServiceSettings {
        registry: Some(RegistrySettings { service_token, ..part }),
        executor: None,
        guardian: None,
        agent: None,
        ship: !arguments.no_examples,
        transport: file.transport(global.allow_insecure_tokens),
    };
    serve(global, "registry", parts, common).await
}

/// Serves only the executor.
pub(crate) async fn executor(global: &GlobalArgs, arguments: ExecutorArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(&arguments.common)?;
    let common = file.common(&arguments.common, EXECUTOR_PORT)?;
    let default = GuardianChoice::Url(local_url(GUARDIAN_PORT, "aos")?);
    let guardians = file.guardians_elsewhere(&arguments.guarding, default)?;
    let default = local_url(REGISTRY_PORT, "")?;
    let registry =
        file.registry_access(arguments.registry, arguments.registry_token, Some(default))?;
    let parts = ServiceSettings {
        registry: None,
        executor: Some(ExecutorSettings {
            registry,
            database: run_database(file.database(arguments.database))?,
            guardians,
            rules: PolicyFiles::default(),
            outbound: file.outbound(&arguments.outbound)?,
            journal: file.journal(&arguments.journal)?,
        }),
        guardian: None,
        agent: None,
        ship: false,
        transport: file.transport(global.allow_insecure_tokens),
    };
    serve(global, "executor", parts, common).await
}

/// The database of an executor's runs.
fn run_database(address: Option<String>) -> Result<Option<executor::ExecutorDatabase>, CliError> {
    let read = address.map(|address| executor::ExecutorDatabase::parse(&address)).transpose();
    read.map_err(|error| CliError::new(CliExitCode::Bad, CANNOT_SERVE, error.message))
}

/// Serves only the reference guardian.
pub(crate) async fn guardian(global: &GlobalArgs, arguments: GuardianArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(&arguments.common)?;
    let common = file.common(&arguments.common, GUARDIAN_PORT)?;
    let guardian = Some(StandaloneGuardianSettings {
        rules: file.rules(arguments.policy)?,
        client_token: identity::read_given(arguments.guardian_token, None)?,
        registry: file.registry_access(arguments.registry, arguments.registry_token, None)?,
    });
    let parts = ServiceSettings {
        registry: None,
        executor: None,
        guardian,
        agent: None,
        ship: false,
        transport: file.transport(global.allow_insecure_tokens),
    };
    serve(global, "guardian", parts, common).await
}

/// Serves only the agent.
pub(crate) async fn agent(
    global: &GlobalArgs,
    arguments: AgentServiceArgs,
) -> Result<(), CliError> {
    let file = SettingsFile::read(&arguments.common)?;
    let common = file.common(&arguments.common, AGENT_PORT)?;
    let default = GuardianChoice::Url(local_url(GUARDIAN_PORT, "aos")?);
    let guardians = file.guardians_elsewhere(&arguments.guarding, default)?;
    let registry = local_url(REGISTRY_PORT, "")?;
    let registry =
        file.registry_access(arguments.registry, arguments.registry_token, Some(registry))?;
    let executor = arguments.executor.or_else(|| file.executor().cloned());
    let executor = executor.map_or_else(|| local_url(EXECUTOR_PORT, ""), Ok)?;
    let services = registry.map(|registry| RemoteServices { registry, executor, guardians });
    let parts = ServiceSettings {
        registry: None,
        executor: None,
        guardian: None,
        agent: Some(AgentSettings { services, ..file.agent(&arguments.agent)? }),
        ship: false,
        transport: file.transport(global.allow_insecure_tokens),
    };
    serve(global, "agent", parts, common).await
}

/// Rebuilds the search index of a data folder that no service uses.
pub(crate) async fn reindex(
    global: &GlobalArgs,
    arguments: ReindexArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let file = SettingsFile::read_from(arguments.config.as_deref())?;
    let part = file.registry_part(
        file.database(arguments.database),
        arguments.qdrant,
        &arguments.embedder,
    )?;
    let folder = DataFolder::open(&data_dir(global), "registry")?;
    let indexed = services::reindex(&folder, part).await?;
    if output.is_json() {
        output.json_line(&serde_json::json!({ "indexed": indexed }));
    } else {
        output.line(format_args!("{}", crate::output::count(indexed, "document")));
    }
    Ok(())
}

fn local_url(port: u16, path: &str) -> Result<Url, CliError> {
    Url::parse(&format!("http://127.0.0.1:{port}/{path}"))
        .map_err(|error| CliError::invalid_argument(error.to_string()))
}

/// Serves until a stop signal comes.
async fn serve(
    global: &GlobalArgs,
    name: &str,
    parts: ServiceSettings,
    common: CommonSettings,
) -> Result<(), CliError> {
    logs::start(&common)?;
    set_private_umask();
    let folder = DataFolder::open(
        &data_dir(global),
        if parts.registry.is_some() { "registry" } else { name },
    )?;
    let has_owner = parts.has_owner();
    let token = match has_owner {
        true => folder.token(global.token.as_deref())?,
        // No caller has it.
        false => clock::random_token(),
    };
    let listener = TcpListener::bind(common.listen).await.map_err(|error| {
        CliError::new(
            CliExitCode::Bad,
            CANNOT_SERVE,
            format!("cannot listen on {}: {error}", common.listen),
        )
        .with_hint("Stop the program that listens there, or choose another address with --listen.")
    })?;
    let unguarded = parts.is_unguarded();
    let stop = stop_signal();
    let (hosts, limits) = (&common.allow_hosts, common.connections.clone());
    let starting = RunningServices::start(listener, Arc::new(folder), parts, token, hosts, limits);
    let stack = Box::pin(starting).await?;
    tracing::info!(url = %stack.url(), data = %data_dir(global).display(), "{name} is ready");
    if unguarded {
        tracing::warn!("no guardian is configured: every step runs unguarded");
    }
    let mut output = CommandOutput::new(global.json, global.color);
    if output.is_json() {
        // Programs that start a service wait for this line; it says which port was taken.
        output.json_line(&serde_json::json!({
            "service": name,
            "url": stack.url().as_str(),
            "data_dir": data_dir(global),
        }));
    } else if output.is_terminal() {
        print_greeting(name, &stack, has_owner, &data_dir(global), &mut output).await;
    }
    stop.await;
    tracing::info!("stopping");
    stack.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Prints the addresses of the services, and the next commands to try.
async fn print_greeting(
    name: &str,
    stack: &RunningServices,
    has_owner: bool,
    data: &std::path::Path,
    output: &mut CommandOutput,
) {
    let url = stack.url();
    output.line(format_args!("{BOLD}a2s {name}{BOLD:#} listens at {NAME}{url}{NAME:#}"));
    let mut row = |what: &str, text: &str| {
        output.line(format_args!("  {DIM}{what:<14}{DIM:#}{text}"));
    };
    row("API", &format!("{url}docs/"));
    row("data folder", &data.display().to_string());
    match has_owner {
        true => row("token", &data.join("token").display().to_string()),
        false => row("token", "use a token of the registry"),
    }
    if let Some(capabilities) = stack.capabilities().await {
        row("capabilities", &capabilities.to_string());
        row("next", "a2s search \"list dog breeds\"");
    }
    row("stop", "Ctrl-C");
}

/// Waits for Ctrl-C or for SIGTERM, which service managers send. It notices signals from the call on, not
/// only after the first poll of the future.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    #[cfg(unix)]
    let heard = {
        use signal::unix::{SignalKind, signal};
        [signal(SignalKind::interrupt()), signal(SignalKind::terminate())]
    };
    async move {
        #[cfg(unix)]
        if let [Ok(mut interrupt), Ok(mut terminate)] = heard {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
        // Without a signal to wait for, the process serves until it is ended.
        if signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
