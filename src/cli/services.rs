//! The arguments of the commands that start services: the settings that each service has.

use std::path::PathBuf;

use a2s::Secret;
use clap::{Args, Subcommand};
use url::Url;

use super::agent;
use crate::settings::{
    AgentSettings, DatabaseSettings, ExecutorSettings, GuardianSettings, GuardingSettings,
    ProcessSettings, RegistryAccessSettings, RegistrySettings, ServiceTokenSettings, secret,
};

/// The services that `a2s serve` starts.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// The registry: publish and search
    Registry(Box<RegistryArgs>),
    /// The executor: plan and run
    Executor(Box<ExecutorArgs>),
    /// The reference guardian: AOS at /aos
    Guardian(Box<GuardianArgs>),
    /// The agent: chat, MCP at /mcp and A2A, over a registry and an executor in other processes
    #[command(after_help = agent::AFTER_SERVE)]
    Agent(Box<AgentServiceArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Publish none of the shipped documents into an empty registry
    #[arg(long)]
    pub(crate) no_examples: bool,
    #[command(flatten)]
    pub(crate) agent: AgentSettings,
    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
    #[command(flatten)]
    pub(crate) registry: RegistrySettings,
    #[command(flatten)]
    pub(crate) guarding: GuardingSettings,
    #[command(flatten)]
    pub(crate) executor: ExecutorSettings,
    #[command(flatten)]
    pub(crate) guardian: GuardianSettings,
    #[command(flatten)]
    pub(crate) process: ProcessSettings,
}

#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// Publish none of the shipped documents into an empty registry
    #[arg(long)]
    pub(crate) no_examples: bool,
    #[command(flatten)]
    pub(crate) service_token: ServiceTokenSettings,
    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
    #[command(flatten)]
    pub(crate) registry: RegistrySettings,
    #[command(flatten)]
    pub(crate) process: ProcessSettings,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutorArgs {
    #[command(flatten)]
    pub(crate) registry_access: RegistryAccessSettings,
    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
    #[command(flatten)]
    pub(crate) guarding: GuardingSettings,
    #[command(flatten)]
    pub(crate) executor: ExecutorSettings,
    #[command(flatten)]
    pub(crate) process: ProcessSettings,
}

#[derive(Debug, Args)]
#[command(mut_arg("registry", |registry| {
    registry.help("A registry: its tokens of the scope `guard` may ask as well")
}))]
pub(crate) struct GuardianArgs {
    #[command(flatten)]
    pub(crate) guardian: GuardianSettings,
    /// A token of the scope `guard`: it may ask about steps and do no more; the owner's may approve, too.
    /// Executors need the same one
    #[arg(long, env = "A2S_GUARDIAN_TOKEN", hide_env_values = true, value_parser = secret())]
    pub(crate) guardian_token: Option<Secret>,
    #[command(flatten)]
    pub(crate) registry_access: RegistryAccessSettings,
    #[command(flatten)]
    pub(crate) process: ProcessSettings,
}

/// The arguments of an agent that runs alone.
#[derive(Debug, Args)]
pub(crate) struct AgentServiceArgs {
    #[command(flatten)]
    pub(crate) registry_access: RegistryAccessSettings,
    // Help shows it after the address of the registry.
    /// The address of the executor, which runs the capabilities of that registry [default: port 8742 of
    /// this machine]
    #[arg(long, env = "A2S_EXECUTOR_URL", display_order = 1)]
    pub(crate) executor: Option<Url>,
    #[command(flatten)]
    pub(crate) agent: AgentSettings,
    #[command(flatten)]
    pub(crate) guarding: GuardingSettings,
    #[command(flatten)]
    pub(crate) process: ProcessSettings,
}

#[derive(Debug, Args)]
pub(crate) struct ReindexArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
    #[command(flatten)]
    pub(crate) registry: RegistrySettings,
    /// Settings in TOML, those of the service; flags and environment win
    #[arg(long, env = "A2S_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
