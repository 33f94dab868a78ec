//! `a2s up` and `a2s serve`: the services on a listener.

mod agent;
mod bundled_capabilities;
mod connections;
#[cfg(feature = "console")]
pub(crate) mod console;
mod data_dir;
mod dependencies;
mod drain_body;
mod examples;
mod identity;
mod logs;
mod metrics;
mod middleware;
mod readiness;
mod services;
mod shipping;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal;

use crate::cli::{
    AgentServiceArgs, ExecutorArgs, GlobalArgs, GuardianArgs, RegistryArgs, ReindexArgs,
    ServeCommand, UpArgs,
};
use crate::cli_error::CliError;
use crate::client::TokenTransport;
use crate::clock;
use crate::output::{BOLD, CommandOutput, DIM, NAME};
use crate::settings::{
    AgentConfig, GuardianChoice, ProcessConfig, RemoteServices, SettingsFile, has_policy_files,
    is_given, local_url, run_database,
};

pub(crate) use bundled_capabilities::bundled_documents;
pub(crate) use data_dir::{DataFolder, data_dir, set_private_umask, write_private};
pub(crate) use services::{ExecutorPart, RunningServices, ServiceSettings, StandaloneGuardian};

const UP_PORT: u16 = 8740;
const REGISTRY_PORT: u16 = 8741;
const EXECUTOR_PORT: u16 = 8742;
const GUARDIAN_PORT: u16 = 8743;
const AGENT_PORT: u16 = 8744;

/// Serves registry, executor and guardian on one port.
pub(crate) async fn up(global: &GlobalArgs, flags: UpArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(flags.process.config.as_deref())?;
    let process = flags.process.resolve(file.process, UP_PORT)?;
    let folder = data_dir(global);
    let database = flags.database.resolve(file.database);
    let registry = flags.registry.resolve(file.registry, database.as_ref(), &folder)?;
    // A file is the registry's: the two have tables of their own.
    let database = run_database(database.as_ref())?
        .filter(|database| matches!(database, executor::ExecutorDatabase::Postgres(_)));
    let executor = flags.executor.resolve(file.executor, database, &folder).await?;
    let max_response_bytes = executor.limits.max_response_bytes;
    let builtin = guardian::Config {
        sync: executor.durability == executor::Durability::Full,
        ..flags.guardian.resolve(file.guardian, &folder, max_response_bytes)?
    };
    let guardians = flags.guarding.resolve(&file.guarding, GuardianChoice::Builtin)?;
    if has_policy_files(&builtin) && !guardians.has_builtin() {
        return Err(CliError::invalid_argument(
            "--policy and --shadow require the builtin guardian",
        )
        .with_hint("Leave --policy and --shadow out, or use --guardian builtin."));
    }
    let parts = ServiceSettings {
        registry: Some(registry),
        executor: Some(ExecutorPart {
            config: executor,
            registry: None,
            builtin_guardian: guardians.has_builtin().then_some(builtin),
            guardians,
        }),
        agent: Some(flags.agent.resolve(file.agent)?),
        ship: !flags.no_examples,
        ..ServiceSettings::default()
    };
    serve(global, "up", parts, process).await
}

/// Serves one service alone.
pub(crate) async fn serve_alone(
    global: &GlobalArgs,
    service: ServeCommand,
) -> Result<(), CliError> {
    match service {
        ServeCommand::Registry(flags) => registry(global, *flags).await,
        ServeCommand::Executor(flags) => executor(global, *flags).await,
        ServeCommand::Agent(flags) => agent(global, *flags).await,
        ServeCommand::Guardian(flags) => guardian(global, *flags).await,
    }
}

/// Serves only the registry.
async fn registry(global: &GlobalArgs, flags: RegistryArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(flags.process.config.as_deref())?;
    let process = flags.process.resolve(file.process, REGISTRY_PORT)?;
    let database = flags.database.resolve(file.database);
    let folder = data_dir(global);
    let config = registry::Config {
        service_token: flags.service_token.resolve(file.service_token)?,
        ..flags.registry.resolve(file.registry, database.as_ref(), &folder)?
    };
    let parts = ServiceSettings {
        registry: Some(config),
        ship: !flags.no_examples,
        ..ServiceSettings::default()
    };
    serve(global, "registry", parts, process).await
}

/// Serves only the executor.
async fn executor(global: &GlobalArgs, flags: ExecutorArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(flags.process.config.as_deref())?;
    let process = flags.process.resolve(file.process, EXECUTOR_PORT)?;
    let guardian = GuardianChoice::Url(local_url(GUARDIAN_PORT, "aos")?);
    let guardians = flags.guarding.resolve_remote(&file.guarding, guardian)?;
    let registry = local_url(REGISTRY_PORT, "")?;
    let registry = flags.registry_access.resolve(file.registry_access, Some(registry))?;
    let database = run_database(flags.database.resolve(file.database).as_ref())?;
    let config = flags.executor.resolve(file.executor, database, &data_dir(global)).await?;
    let part = ExecutorPart { config, registry, guardians, builtin_guardian: None };
    let parts = ServiceSettings { executor: Some(part), ..ServiceSettings::default() };
    serve(global, "executor", parts, process).await
}

/// Serves only the reference guardian.
async fn guardian(global: &GlobalArgs, flags: GuardianArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(flags.process.config.as_deref())?;
    let process = flags.process.resolve(file.process, GUARDIAN_PORT)?;
    let max_response_bytes = file.executor.limits()?.max_response_bytes;
    let folder = data_dir(global);
    let part = StandaloneGuardian {
        config: flags.guardian.resolve(file.guardian, &folder, max_response_bytes)?,
        client_token: flags.guardian_token.filter(is_given),
        registry: flags.registry_access.resolve(file.registry_access, None)?,
    };
    let parts = ServiceSettings { guardian: Some(part), ..ServiceSettings::default() };
    serve(global, "guardian", parts, process).await
}

/// Serves only the agent.
async fn agent(global: &GlobalArgs, flags: AgentServiceArgs) -> Result<(), CliError> {
    let file = SettingsFile::read(flags.process.config.as_deref())?;
    let process = flags.process.resolve(file.process, AGENT_PORT)?;
    let guardian = GuardianChoice::Url(local_url(GUARDIAN_PORT, "aos")?);
    let guardians = flags.guarding.resolve_remote(&file.guarding, guardian)?;
    let registry = local_url(REGISTRY_PORT, "")?;
    let registry = flags.registry_access.resolve(file.registry_access, Some(registry))?;
    let executor = flags.executor.or_else(|| file.agent.executor.clone());
    let executor = executor.map_or_else(|| local_url(EXECUTOR_PORT, ""), Ok)?;
    let services = registry.map(|registry| RemoteServices { registry, executor, guardians });
    let config = AgentConfig { services, ..flags.agent.resolve(file.agent)? };
    let parts = ServiceSettings { agent: Some(config), ..ServiceSettings::default() };
    serve(global, "agent", parts, process).await
}

/// Rebuilds the search index of a data folder that no service uses.
pub(crate) async fn reindex(
    global: &GlobalArgs,
    flags: ReindexArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let file = SettingsFile::read(flags.config.as_deref())?;
    let folder = data_dir(global);
    let database = flags.database.resolve(file.database);
    let config = flags.registry.resolve(file.registry, database.as_ref(), &folder)?;
    let _lock = DataFolder::open(&folder, "registry")?;
    let indexed = services::reindex(config).await?;
    if output.is_json() {
        output.json_line(&serde_json::json!({ "indexed": indexed }));
    } else {
        output.line(format_args!("{}", crate::output::count(indexed, "document")));
    }
    Ok(())
}

/// Serves until a stop signal comes.
async fn serve(
    global: &GlobalArgs,
    name: &str,
    mut parts: ServiceSettings,
    process: ProcessConfig,
) -> Result<(), CliError> {
    let is_insecure = global.allow_insecure_tokens || process.allow_insecure_tokens;
    parts.transport = TokenTransport::new(is_insecure);
    logs::start(&process)?;
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
    let listener = TcpListener::bind(process.listen).await.map_err(|error| {
        CliError::cannot_serve(format!("cannot listen on {}: {error}", process.listen)).with_hint(
            "Stop the program that listens there, or choose another address with --listen.",
        )
    })?;
    let unguarded = parts.is_unguarded();
    let stop = stop_signal();
    let (hosts, limits) = (&process.allow_hosts, process.connections.clone());
    let owner = has_owner.then(|| token.clone());
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
        print_greeting(name, &stack, owner.as_deref(), &data_dir(global), &mut output).await;
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
    owner: Option<&str>,
    data: &std::path::Path,
    output: &mut CommandOutput,
) {
    let url = stack.url();
    output.line(format_args!("{BOLD}a2s {name}{BOLD:#} listens at {NAME}{url}{NAME:#}"));
    let mut row = |what: &str, text: &str| {
        output.line(format_args!("  {DIM}{what:<14}{DIM:#}{text}"));
    };
    #[cfg(feature = "console")]
    if let Some(owner) = owner {
        row("console", &stack.sign_in_link(owner));
        row("", "(signs one browser in, for 10 minutes; later: a2s console)");
    }
    row("API", &format!("{url}docs/"));
    row("data folder", &data.display().to_string());
    match owner {
        Some(_) => row("token", &data.join("token").display().to_string()),
        None => row("token", "use a token of the registry"),
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
