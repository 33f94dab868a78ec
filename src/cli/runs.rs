//! The arguments of `a2s runs`.

#[cfg(feature = "console")]
use std::path::PathBuf;

use a2s::CapabilityName;
use a2s_api::Principal;
use a2s_api::RunStatus;
use clap::{ArgGroup, Args, Subcommand};

const AFTER_RESUME: &str = "\
A run waits when the executor sent a request, stopped before it recorded the result, and
a repetition could have its effect twice. Check at the service, then use:
  --repeat  the request did not take effect: send it again
  --skip    continue without the outputs of the step
  --set     the request did take effect: continue with these outputs
A run that was taken over too often (A2S374) continues with --repeat.

Examples:
  a2s runs resume 01981f3c-… --repeat
  a2s runs resume 01981f3c-… --step pay --set payment_id=p-17 --set status=paid";

const AFTER_REPLAY: &str = "\
The replay calls no service and no guardian: each task step gets the response that was recorded. The
command ends with 1 when something differs: request, outputs or error of a step, steps that
are new or missing, or the result.

Examples:
  a2s runs replay 01981f3c-…
  a2s runs replay 01981f3c-… --against GetWeather@2.0.0";

#[cfg(feature = "console")]
const AFTER_EXPORT: &str = "\
The file contains the run with its inputs, requests and responses, as far as they are recorded: secret
values are masked. With the owner's token it contains the guardian's records of the run, too. It loads
nothing and runs no script but its own.

Example:
  a2s runs export 01981f3c-… -o run.html";

#[cfg(feature = "console")]
const AFTER_VERIFY: &str = "\
The command compares the events, requests and responses in the file with those of the executor, and the
records with the audit log of the guardian, which it checks as a whole.

Exit codes:
  0  the file shows the run as the services have it
  1  something differs, is missing, or the audit log is broken";

/// The arguments of `a2s runs`: lists runs, or shows one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
    /// The run to show: its id, or the beginning of it
    pub(crate) id: Option<String>,
    /// The number of runs to list
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// Only runs in this state: queued, running, waiting, succeeded, failed, denied or cancelled
    #[arg(long, value_parser = parse_status)]
    pub(crate) status: Option<RunStatus>,
    /// Only this capability
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) name: Option<CapabilityName>,
    /// Only runs of this principal: the name of a token, `owner`, or `token/end user`; others than your own
    /// need `admin`
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<Principal>,
}

/// The actions on a run.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Continue a run that waits for a person
    #[command(after_help = AFTER_RESUME)]
    Resume(ResumeArgs),
    /// Replay a run with the recorded responses, and show the differences
    #[command(after_help = AFTER_REPLAY)]
    Replay {
        /// The run: its id, or the beginning of it
        id: String,
        /// Replay with this version instead: NAME@VERSION
        #[arg(long, value_name = "NAME@VERSION")]
        against: Option<String>,
    },
    /// Show what the steps of a run sent and received, as it was recorded for replays
    Exchanges {
        /// The run: its id, or the beginning of it
        id: String,
        /// Only this step, by its path
        #[arg(long)]
        step: Option<String>,
    },
    /// Write a run as one HTML file that shows it without a server
    #[cfg(feature = "console")]
    #[command(after_help = AFTER_EXPORT)]
    Export {
        /// The run: its id, or the beginning of it
        id: String,
        /// The file [default: the id, with .html]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Compare an exported run with the journal and the audit log
    #[cfg(feature = "console")]
    #[command(after_help = AFTER_VERIFY)]
    Verify {
        /// The file of `a2s runs export`
        file: PathBuf,
        /// Compare only the data of a file whose page another version has written; the page may show
        /// something else
        #[arg(long)]
        data_only: bool,
    },
    /// Delete a finished run and all its data
    Delete {
        /// The run: its id, or the beginning of it
        id: String,
    },
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    serde_json::from_value(text.into()).map_err(|_| {
        "a state must be queued, running, waiting, succeeded, failed, denied or cancelled"
            .to_owned()
    })
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("decision").required(true)))]
pub(crate) struct ResumeArgs {
    /// The run: its id, or the beginning of it
    pub(crate) id: String,
    /// The step, by its path; needed when the outcome of several steps is unknown
    #[arg(long)]
    pub(crate) step: Option<String>,
    /// Send the request again
    #[arg(long, group = "decision")]
    pub(crate) repeat: bool,
    /// Continue without the outputs of the step
    #[arg(long, group = "decision")]
    pub(crate) skip: bool,
    /// An output of the step; the value is JSON, or else text
    #[arg(long = "set", value_name = "NAME=VALUE", group = "decision")]
    pub(crate) outputs: Vec<String>,
}
