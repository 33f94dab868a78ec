//! The arguments of the agent.

use clap::Args;

use super::StrategyArgs;

pub(crate) const AFTER_CHAT: &str = "\
Examples:
  a2s chat
  a2s chat \"what's the weather like in Paris?\"
  printf 'list dog breeds\\n' | a2s chat --json
  a2s chat --yes \"tweet 'Hello'\"

Before a run that is not known to be read-only, the agent shows it and asks; --yes gives consent
in advance.

`a2s up` must run. Its guardians check every message, search result and run. A message as
the argument is one turn: the command then ends with 1 when the task was not completed, and with 3
when a guardian denied it.";

pub(crate) const AFTER_COMPOSE: &str = "\
The document of the best chain goes to standard output, and the reasons to standard error. With
--json there are up to three documents. Read a document before you publish it; docs/composition.md
describes what links two capabilities.

  a2s compose \"look up the country JP and get the weather in its capital\" > chain.yaml

Exit codes:
  0  a chain was found
  1  the found capabilities cannot be linked, or the registry rejects the document
  4  the registry does not respond";

pub(crate) const AFTER_MCP: &str = "\
A bridge: it sends messages of an MCP client from standard input to /mcp of `a2s up`, with the owner's
token, and prints the responses. Start `a2s up` first; docs/agents.md describes how to configure
clients for this command.

Exit codes:
  0  the client has ended the session
  1  the server has ended the session
  4  no response at the URL";

pub(crate) const AFTER_SERVE: &str = "\
Callers send tokens of the registry; this service looks them up there, and sends the
same tokens to registry and executor. It has no owner's token. Callers keep conversations, but MCP
sessions and A2A tasks are in this process: run one process, or send each session to the same one.

  a2s tokens create agent --scope service > agent.token
  a2s serve agent --registry https://registry.example.com --executor https://executor.example.com \\
    --registry-token-file agent.token --guardian https://guardian.example.com/aos

docs/operations.md describes the set-up of several machines.";

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Your request; without it, a conversation begins
    pub(crate) message: Option<String>,
    /// Continue this conversation; its stored values may fill in missing inputs
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// An input that is known; the value is parsed as JSON if possible, else it is text
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Run capabilities that are not known to be read-only without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) strategy: StrategyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ComposeArgs {
    /// The tasks, one after another: "get a joke and tweet it"
    pub(crate) intent: String,
    /// The author of the document
    #[arg(long, value_name = "NAME", default_value = "a2s compose")]
    pub(crate) author: String,
    /// Publish the best chain
    #[arg(long)]
    pub(crate) publish: bool,
}
