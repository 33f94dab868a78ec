//! The arguments, as typed.

mod agent;
mod authoring;
mod backup;
mod bom;
mod connect;
mod doctor;
mod guardian;
mod lifecycle_args;
mod runs;
mod search;
mod secrets;
mod services;
mod settings_page;
mod test;
mod trust;
mod types;

use std::path::PathBuf;

use a2s::CapabilityName;
use clap::{Args, Parser, Subcommand};
use url::Url;

use crate::output::ColorMode;

pub(crate) use agent::{ChatArgs, ComposeArgs};
pub(crate) use authoring::{
    FmtArgs, ImportArazzoArgs, ImportArgs, ImportCommand, ImportGraphqlArgs, ImportOpenapiArgs,
    NewArgs,
};

pub(crate) use backup::{BackupArgs, RestoreArgs};
pub(crate) use bom::BomArgs;
pub(crate) use connect::{ConnectArgs, McpClientKind};
pub(crate) use doctor::DoctorArgs;
pub(crate) use guardian::{
    AuditCommand, DecisionsArgs, GuardianCommand, RecordFilterArgs, SettleArgs, ShowAuditArgs,
    TestPolicyArgs, TryPolicyArgs,
};
pub(crate) use lifecycle_args::{
    AuditArgs, DeprecateArgs, MirrorArgs, OwnerChangeArgs, OwnersArgs, RegistryAuditCommand,
    TokensCommand, UsageArgs, YankArgs,
};
pub(crate) use runs::{ResumeArgs, RunsArgs, RunsCommand};
pub(crate) use search::{GraphArgs, SearchArgs, ServicesArgs, StrategyArgs};
pub(crate) use secrets::{AllowSecretArgs, ClientAuth, SecretKind, SecretsCommand, SetSecretArgs};
pub(crate) use services::{
    AgentServiceArgs, ExecutorArgs, GuardianArgs, RegistryArgs, ReindexArgs, ServeCommand, UpArgs,
};
pub use settings_page::configuration_markdown;
pub(crate) use test::TestArgs;
pub(crate) use trust::TrustCommand;
pub(crate) use types::{TypesArgs, TypesLanguage};

const AFTER_HELP: &str = "\
Exit codes:
  0  success
  1  the checked item is invalid, or the run failed
  2  usage error
  3  a guardian denied a step
  4  registry, executor or guardian not reachable

Start with `a2s demo`; then `a2s up`, and publish, search and run from another terminal.";

const AFTER_READY: &str = "\
For health checks of containers: `a2s ready --url http://127.0.0.1:8741`. It needs no token. Use
--deep only for people and monitors: do not restart a service because another one is not available.

Exit codes:
  0  the services are ready
  4  no response, or a service is not ready: A2S513 names the cause";

const AFTER_VALIDATE: &str = "\
Files are also checked against each other: a dependency may be one of the files.
The command ignores hidden files and folders, and links to folders.

Exit codes:
  0  every file is valid; there may be warnings (with --watch: ended by Ctrl-C)
  1  a file has errors or cannot be read
  2  usage error
  4  with --registry: the registry does not respond";

const AFTER_SCHEMA: &str = "\
`a2s schema > capability.schema.json`, then configure the editor. For the YAML language server, add
this first line to each document:

  # yaml-language-server: $schema=capability.schema.json

The schema describes the structure of documents; `a2s validate` finds all other errors.";

const AFTER_LOCK: &str = "\
The lock of Weather.yaml is Weather.lock in the same folder. With `a2s run NAME --lock Weather.lock`
only the content in the lock can run, even if newer versions are published.

Exit codes:
  0  written; with --check: current
  1  the document has errors, or a dependency is missing; with --check: not current
  4  the registry does not respond";

/// Publish capabilities, find them by intent, and run them with a guardian around every step.
#[derive(Debug, Parser)]
#[command(name = "a2s", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct CliArguments {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalArgs {
    /// Print JSON for machines
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The address of registry, executor and guardian
    #[arg(long, global = true, env = "A2S_URL", default_value = "http://127.0.0.1:8740")]
    pub(crate) url: Url,
    /// The owner's token; found in the data folder when registry and executor run on this machine
    #[arg(long, global = true, env = "A2S_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Send tokens over plain HTTP to other machines, too; without this flag, the command sends tokens only
    /// over HTTPS or to this machine
    #[arg(long, global = true, env = "A2S_ALLOW_INSECURE_TOKENS")]
    pub(crate) allow_insecure_tokens: bool,
    /// The folder in which services store their data
    #[arg(long, global = true, env = "A2S_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Colours on the terminal
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto)]
    pub(crate) color: ColorMode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the whole loop on this machine: publish, search, verify, run
    Demo(DemoArgs),
    /// Start registry, executor and guardian on one port
    Up(Box<UpArgs>),
    /// Start one service alone
    Serve {
        #[command(subcommand)]
        service: ServeCommand,
    },
    /// Check that the services are ready to work, for supervisors
    #[command(after_help = AFTER_READY)]
    Ready(ReadyArgs),
    /// Write a starter document
    New(NewArgs),
    /// Generate documents from an API specification
    #[command(after_help = authoring::AFTER_IMPORT)]
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Format documents
    #[command(after_help = authoring::AFTER_FMT)]
    Fmt(FmtArgs),
    /// Validate documents and report every mistake
    #[command(after_help = AFTER_VALIDATE)]
    Validate(ValidateArgs),
    /// Run the examples of documents without sending requests
    #[command(after_help = test::AFTER_TEST)]
    Test(TestArgs),
    /// Print the JSON Schema of documents, for editors
    #[command(after_help = AFTER_SCHEMA)]
    Schema,
    /// Explain an error code: its meaning, the mistake and its fix
    Explain {
        #[arg(help = "A code such as A2S011, or its number")]
        code: String,
    },
    /// Print the checksum of a document, or fill it in
    Checksum {
        /// The document, or - for standard input
        file: PathBuf,
        /// Write the checksum into the file, and the checksums of its dependencies where their pins are
        /// placeholders (requests them from the registry)
        #[arg(long)]
        write: bool,
    },
    /// Check that a file, or a version in the registry, matches its checksum
    Verify {
        #[arg(help = "A file, or NAME[@VERSION]")]
        target: String,
    },
    /// Publish documents
    Publish(PublishArgs),
    /// Withdraw a version: hidden from search and resolution, still fetchable by exact version
    Yank(YankArgs),
    /// Restore a yanked version
    Unyank {
        #[arg(help = "NAME@VERSION")]
        target: String,
    },
    /// Advise against a version, and say what to use instead
    Deprecate(DeprecateArgs),
    /// Show or change who may publish under a name
    Owners(OwnersArgs),
    /// Remove what a registry with --learn has learned for a capability
    ForgetIntents {
        #[arg(help = "NAME, for all versions")]
        name: CapabilityName,
    },
    /// Describe a task in a sentence; an agent finds and runs what fits
    #[command(after_help = agent::AFTER_CHAT)]
    Chat(Box<ChatArgs>),
    /// Build a chain of capabilities for a task that no single capability can do
    #[command(after_help = agent::AFTER_COMPOSE)]
    Compose(ComposeArgs),
    /// Find capabilities by intent
    #[command(after_help = search::AFTER_SEARCH)]
    Search(Box<SearchArgs>),
    /// List the services that capabilities talk to, or find them by intent
    Services(Box<ServicesArgs>),
    /// Show a capability's dependencies and dependents, and what would break without it
    #[command(after_help = search::AFTER_GRAPH)]
    Graph(GraphArgs),
    /// Show how the runs of a capability ended
    Stats {
        #[arg(help = "NAME[@VERSION]; the newest version without one")]
        target: String,
    },
    /// Count runs and searches over time
    Usage(UsageArgs),
    /// Show the inputs, outputs and requirements of a capability
    Show(ShowArgs),
    /// Write types of inputs and outputs for programs in TypeScript, Python or Go
    #[command(after_help = types::AFTER_TYPES)]
    Types(Box<TypesArgs>),
    /// Write the MCP configuration of a client, so that it can find and run capabilities
    #[command(after_help = connect::AFTER_CONNECT)]
    Connect(ConnectArgs),
    /// Open the console in the browser, signed in as the holder of the token
    #[cfg(feature = "console")]
    Console {
        /// Print the link, and open nothing
        #[arg(long)]
        print: bool,
    },
    /// Write a lock file with the versions and checksums of all dependencies
    #[command(after_help = AFTER_LOCK)]
    Lock(LockArgs),
    /// Print the bill of materials of a capability (CycloneDX)
    #[command(after_help = bom::AFTER_BOM)]
    Bom(BomArgs),
    /// Run a capability
    Run(RunArgs),
    /// List runs, show one, resume one that waits
    Runs(RunsArgs),
    /// Cancel a run
    Cancel {
        /// The run
        id: String,
    },
    /// Store values for inputs that runs need and callers do not give
    State {
        #[command(subcommand)]
        command: StateCommand,
    },
    /// Show, accept or forget the checksums that the executor remembers
    #[command(after_help = trust::AFTER_TRUST)]
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// Manage stored credentials for services: set, list, remove
    #[command(after_help = secrets::AFTER_SECRETS)]
    Secrets {
        #[command(subcommand)]
        command: SecretsCommand,
    },
    /// Test policies, approve steps, read the audit log
    #[command(after_help = guardian::AFTER_GUARDIAN)]
    Guardian {
        #[command(subcommand)]
        command: GuardianCommand,
    },
    /// Create, list and revoke tokens
    #[command(after_help = lifecycle_args::AFTER_TOKENS)]
    Tokens {
        #[command(subcommand)]
        command: TokensCommand,
    },
    /// Show the changes in the registry, and who made them
    Audit(AuditArgs),
    /// Copy another registry into this one, and follow it
    #[command(after_help = lifecycle_args::AFTER_MIRROR)]
    Mirror(MirrorArgs),
    /// Offer capabilities to an MCP client over standard input and output
    #[command(after_help = agent::AFTER_MCP)]
    Mcp,
    /// Rebuild the search index of a data folder from its documents
    Reindex(Box<ReindexArgs>),
    /// Diagnose problems that prevent services from working on this machine
    #[command(after_help = doctor::AFTER_DOCTOR)]
    Doctor(DoctorArgs),
    /// Copy the data folder while services run
    #[command(after_help = backup::AFTER_BACKUP)]
    Backup(BackupArgs),
    /// Restore a copy of `a2s backup`, and check it
    #[command(after_help = backup::AFTER_RESTORE)]
    Restore(RestoreArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// List the stored values for all your runs, or for the runs of a session
    List {
        /// The values for the runs of all callers
        #[arg(long, conflicts_with = "session")]
        everybody: bool,
        /// The session
        #[arg(long)]
        session: Option<String>,
    },
    /// Store values
    Set {
        /// The input and its value; the value is parsed as JSON if possible, else it is text
        #[arg(required = true, value_name = "NAME=VALUE")]
        values: Vec<String>,
        /// For the runs of all callers; needs `admin`
        #[arg(long, conflicts_with = "session")]
        everybody: bool,
        /// Only for the runs of this session
        #[arg(long)]
        session: Option<String>,
    },
    /// Remove stored values
    Remove {
        /// The inputs
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// The values for the runs of all callers; needs `admin`
        #[arg(long, conflicts_with = "session")]
        everybody: bool,
        /// Only this session
        #[arg(long)]
        session: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Files, folders (every .yaml, .yml and .json below), or - for standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Check again whenever a file changes, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Ask the registry for dependencies, and how well searches find each document
    #[arg(long)]
    pub(crate) registry: bool,
    /// Print only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// The documents, in any order, even if one depends on another
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Publish a document although one of its examples fails
    #[arg(long)]
    pub(crate) skip_tests: bool,
    /// Write the checksum of its content into each document first
    #[arg(long)]
    pub(crate) write_checksum: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[arg(help = "NAME[@RANGE], a file, or - for standard input")]
    pub(crate) target: String,
    /// Print the document as it was published
    #[arg(long, conflicts_with = "schema")]
    pub(crate) yaml: bool,
    /// Print the interface as JSON Schema
    #[arg(long)]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// Take its dependencies from the documents of a folder, not from the registry
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Write nothing; report whether the lock file is up to date
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[arg(help = "NAME[@RANGE]", required_unless_present = "plan")]
    pub(crate) capability: Option<String>,
    /// One input: name=value; the value is parsed as JSON if possible, else it is text
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Inputs from a JSON or YAML file, or - for standard input
    #[arg(long = "inputs", value_name = "FILE")]
    pub(crate) inputs_file: Option<PathBuf>,
    /// Run only the version with this checksum
    #[arg(long, alias = "digest", value_name = "CHECKSUM")]
    pub(crate) checksum: Option<a2s::Digest>,
    /// Run exactly the content that a lock names, whatever was published since
    #[arg(long, value_name = "FILE")]
    pub(crate) lock: Option<PathBuf>,
    /// The session, as the guardian sees it; its stored values fill in inputs
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// The words of the search that led to this run; a registry with `--learn` learns from them if it succeeds
    #[arg(long, value_name = "TEXT", conflicts_with = "dry_run")]
    pub(crate) intent: Option<String>,
    /// Show the plan without sending requests; the plan contains a token that runs exactly this plan
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show the decision that the guardian would make on each step, too
    #[arg(long, requires = "dry_run")]
    pub(crate) preview: bool,
    /// Run the plan that `--dry-run` showed, by its token; the executor rejects it if anything differs
    #[arg(
        long,
        value_name = "TOKEN",
        conflicts_with_all = ["capability", "inputs", "inputs_file", "checksum", "lock", "session", "dry_run"]
    )]
    pub(crate) plan: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReadyArgs {
    /// Also check the services that these services use: the registry, the executor, the guardians
    #[arg(long)]
    pub(crate) deep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Show every published document and three search hits
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        CliArguments::command().debug_assert();
    }
}
