//! `a2s run`: run a capability and watch it, or see its plan.

mod live;
mod plan;
mod tree;
mod view;

use std::path::Path;
use std::time::Duration;

use a2s::{CapabilityName, Digest, JsonTypes};
use a2s_api::{
    CapabilityRef, EventKind, ExecutionRequest, PlanRequest, PlanResponse, Run, RunEvent, RunStatus,
};
use agent::RemoteExecutor;
use semver::VersionReq;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::version_spec::VersionSpec;
use super::{document, lock};
use crate::cli::RunArgs;
use crate::cli_error::{CliError, CliExitCode, LOCK};
use crate::client::ServiceClient;
use crate::output::CommandOutput;

pub(crate) use plan::print_plan;
pub(super) use tree::RunTree;
use view::EventPrinter;
pub(crate) use view::{
    approve_command, decision_style, format_value, print_result, retry_text, warning_text,
};

/// The pause between two checks of a run that waits for an approval.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn run(
    arguments: RunArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    if let Some(token) = arguments.plan {
        let intent = arguments.intent;
        let request = ExecutionRequest { plan: Some(token), intent, ..ExecutionRequest::default() };
        return run_to_end(&request, client, output).await;
    }
    let mut inputs = read_inputs(&arguments)?;
    let RunTarget { name, version, digest, lock } = parse_target(&arguments)?;
    keep_text_inputs(&arguments.inputs, &name, version.as_deref(), &mut inputs, client).await;
    let RunArgs { session, intent, preview, .. } = arguments;
    if arguments.dry_run {
        let request = PlanRequest { name, version, digest, lock, inputs, session, preview };
        let plan: PlanResponse = client.post(&["v1", "plans"], &request).await?;
        if output.is_json() {
            output.json_line(&plan);
        } else {
            print_plan(&plan, output);
        }
        return Ok(());
    }
    let request = ExecutionRequest {
        name: Some(name),
        plan: None,
        version,
        digest,
        lock,
        inputs,
        session,
        intent,
        wait: false,
    };
    run_to_end(&request, client, output).await
}

/// Starts a run, shows it, and returns its result as the exit code.
async fn run_to_end(
    request: &ExecutionRequest,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let started = start(request, client).await?;
    let run = watch_from(&started.id.to_string(), 0, RunTree::default(), client, output).await?;
    finish(&run, output)
}

/// Prints the result of a run, and returns it as the exit code.
pub(super) fn finish(run: &Run, output: &mut CommandOutput) -> Result<(), CliError> {
    if output.is_json() {
        output.json_line(run);
    } else {
        print_result(run, output);
    }
    match exit_code_of_run(run) {
        None => Ok(()),
        Some(exit) => Err(CliError::already_printed(exit)),
    }
}

/// The capability to run.
struct RunTarget {
    name: CapabilityName,
    version: Option<String>,
    digest: Option<Digest>,
    lock: Option<Vec<CapabilityRef>>,
}

/// Reads the capability from the arguments. A lock names one content of the capability, and of all its
/// dependencies.
fn parse_target(arguments: &RunArgs) -> Result<RunTarget, CliError> {
    // The command line requires it, unless there is a plan.
    let capability = arguments.capability.as_deref().unwrap_or_default();
    let VersionSpec { name, range } = VersionSpec::parse(capability)?;
    let Some(file) = &arguments.lock else {
        return Ok(RunTarget { name, version: range, digest: arguments.checksum, lock: None });
    };
    let lock = lock::read(file)?;
    let CapabilityRef { name: locked, version, checksum } = lock.capability();
    let fits = range.as_deref().and_then(|range| range.parse::<VersionReq>().ok());
    let other = if *locked != name {
        Some(format!("`{name}`"))
    } else if fits.is_some_and(|range| !range.matches(version)) {
        Some(format!("`{capability}`"))
    } else {
        arguments.checksum.filter(|digest| digest != checksum).map(|digest| digest.to_string())
    };
    if let Some(other) = other {
        let message =
            format!("{} is the lock of `{locked}` {version}, not of {other}", file.display());
        return Err(CliError::new(CliExitCode::Bad, LOCK, message)
            .with_hint("Use the lock of the capability to run, or leave the lock out."));
    }
    Ok(RunTarget {
        name,
        version: Some(version.to_string()),
        digest: Some(*checksum),
        lock: Some(lock.dependencies().to_vec()),
    })
}

/// Starts a run, prints its events line by line as they happen, and returns the run when it has ended.
pub(crate) async fn start_and_watch(
    request: &ExecutionRequest,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<Run, CliError> {
    let id = start(request, client).await?.id.to_string();
    watch_lines(&id, &mut 0, client, output).await?;
    Ok(client.get(&["v1", "executions", &id]).await?)
}

async fn start(request: &ExecutionRequest, client: &ServiceClient) -> Result<Run, CliError> {
    RemoteExecutor::new(client.clone())
        .start(request)
        .await
        .map_err(|error| with_exit_code(error.into()))
}

/// Shows the events of a run after number `seen`, and returns the run when it has ended or waits. On a
/// terminal it draws the tree of steps, beginning with `tree`; elsewhere it prints line by line.
pub(super) async fn watch_from(
    id: &str,
    mut seen: u64,
    tree: RunTree,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<Run, CliError> {
    if output.is_live() {
        live::watch(id, &mut seen, tree, client, output).await?;
    } else {
        watch_lines(id, &mut seen, client, output).await?;
    }
    Ok(client.get(&["v1", "executions", id]).await?)
}

async fn watch_lines(
    id: &str,
    seen: &mut u64,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let is_json = output.is_json();
    let mut lines = EventPrinter::default();
    let print = |event: &RunEvent| match &event.kind {
        _ if !is_json => lines.print(event, output),
        EventKind::ApprovalRequested { step, about, id, expires_at, .. } => {
            let (about, command) = (about.describe(), approve_command(id, *expires_at));
            output.note(format_args!("{step} waits for approval{about}: {command}"));
        }
        _ => {}
    };
    follow(id, seen, client, print).await
}

/// Follows the events of a run after number `seen`, until it has ended or waits for anything but an
/// approval.
pub(super) async fn follow(
    id: &str,
    seen: &mut u64,
    client: &ServiceClient,
    mut on_event: impl FnMut(&RunEvent),
) -> Result<(), CliError> {
    let mut needs_approval = false;
    loop {
        let visit = |event: &RunEvent| {
            needs_approval = matches!(
                &event.kind,
                EventKind::RunWaiting { error }
                    if executor::ErrorKind::from_code(&error.code) == Some(executor::ErrorKind::ApprovalRequired)
            );
            on_event(event);
        };
        follow_once(id, seen, client, visit).await?;
        if !needs_approval {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Follows the events of a run after number `seen`, until it has ended or waits.
pub(super) async fn follow_once(
    id: &str,
    seen: &mut u64,
    client: &ServiceClient,
    mut on_event: impl FnMut(&RunEvent),
) -> Result<(), CliError> {
    let id = id.parse::<Uuid>().map_err(|_| {
        CliError::invalid_argument(format!("`{id}` is not the id of a run"))
            .with_hint("`a2s runs` lists the runs with their ids.")
    })?;
    let mut events = RemoteExecutor::new(client.clone()).stream_events(id, *seen);
    while let Some(event) = events.next().await? {
        *seen = event.seq;
        on_event(&event);
    }
    Ok(())
}

/// Returns the exit code of a run that did not succeed.
pub(crate) fn exit_code_of_run(run: &Run) -> Option<CliExitCode> {
    match run.status {
        RunStatus::Succeeded => None,
        RunStatus::Denied
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::Waiting
        | RunStatus::Queued
        | RunStatus::Running => {
            Some(run.error.as_ref().map_or(CliExitCode::Bad, |error| exit_code_of(&error.code)))
        }
    }
}

/// Returns the exit code for an error code of the executor, by its table of errors.
fn exit_code_of(code: &str) -> CliExitCode {
    match executor::ErrorKind::from_code(code).map(executor::ErrorKind::exit) {
        Some(executor::ExitClass::Denied) => CliExitCode::Denied,
        Some(executor::ExitClass::Unreachable) => CliExitCode::Unreachable,
        Some(executor::ExitClass::Failed) | None => CliExitCode::Bad,
    }
}

fn with_exit_code(failure: CliError) -> CliError {
    match executor::ErrorKind::from_code(&failure.code) {
        Some(_) => CliError { exit: exit_code_of(&failure.code), ..failure },
        None => failure,
    }
}

/// Reads the inputs of the file, then those of the flags.
fn read_inputs(arguments: &RunArgs) -> Result<Map<String, Value>, CliError> {
    let mut inputs = match &arguments.inputs_file {
        Some(file) => read_inputs_file(file)?,
        None => Map::new(),
    };
    inputs.extend(parse_inputs(&arguments.inputs)?);
    Ok(inputs)
}

/// Parses inputs of the form `--input NAME=VALUE`.
pub(super) fn parse_inputs(inputs: &[String]) -> Result<Map<String, Value>, CliError> {
    inputs.iter().map(|input| parse_assignment(input, "--input NAME=VALUE")).collect()
}

/// Keeps values as texts although they can be read as JSON, for inputs that accept text and not that JSON:
/// `id=1` of a text is `"1"`.
async fn keep_text_inputs(
    pairs: &[String],
    name: &CapabilityName,
    version: Option<&str>,
    inputs: &mut Map<String, Value>,
    client: &ServiceClient,
) {
    let is_doubtful = |pair: &&String| {
        let value = pair.split_once('=').and_then(|(name, _)| inputs.get(name));
        value.is_some_and(|value| value.is_number() || value.is_boolean())
    };
    let doubtful: Vec<&String> = pairs.iter().filter(is_doubtful).collect();
    if doubtful.is_empty() {
        return;
    }
    let target = VersionSpec { name: name.clone(), range: version.map(str::to_owned) };
    // The executor reports the errors of a capability that cannot be read.
    let Ok((_, document)) = super::dependency_loader::fetch_document(&target, client).await else {
        return;
    };
    let fields = &document.interface().inputs;
    for (name, text) in doubtful.into_iter().filter_map(|pair| pair.split_once('=')) {
        let field = fields.iter().find(|field| field.name == name);
        let Some(kinds) = field.map(|field| JsonTypes::from_schema(&field.schema)) else {
            continue;
        };
        let read = inputs.get(name).map_or(JsonTypes::STRING, JsonTypes::from_value);
        if kinds.is_known()
            && kinds.is_compatible_with(JsonTypes::STRING)
            && !kinds.is_compatible_with(read)
        {
            inputs.insert(name.to_owned(), Value::String(text.to_owned()));
        }
    }
}

/// Parses `name=value`; the error message shows `form`. The value is parsed as JSON if possible, else it is
/// text.
pub(super) fn parse_assignment(text: &str, form: &str) -> Result<(String, Value), CliError> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        CliError::invalid_argument(format!("`{text}` is not an input"))
            .with_hint(format!("Write {form}."))
    })?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

fn read_inputs_file(file: &Path) -> Result<Map<String, Value>, CliError> {
    let source = document::read(file)?;
    let value = a2s::parse_value(&source).map_err(|diagnostics| CliError {
        diagnostics,
        ..CliError::invalid_argument(format!("{} cannot be read", file.display()))
    })?;
    match value {
        Value::Object(inputs) => Ok(inputs),
        _ => Err(CliError::invalid_argument(format!(
            "{} must be a mapping of inputs",
            file.display()
        ))),
    }
}
