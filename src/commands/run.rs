//! `a2s run`: run a capability and watch it, or see what it would do.

mod live;
mod plan;
mod tree;
mod view;

use std::path::Path;
use std::time::Duration;

use a2s::api::{
    CapabilityRef, Event, EventKind, ExecutionRequest, PlanRequest, PlanResponse, Run, RunStatus,
};
use a2s::{CapabilityName, Digest, Kinds};
use agent::Executor;
use semver::VersionReq;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::version_spec::Target;
use super::{document, lock};
use crate::cli::RunArgs;
use crate::cli_error::{Exit, Failure, LOCK};
use crate::client::Client;
use crate::output::Output;

pub(crate) use plan::print_plan;
pub(super) use tree::Tree;
use view::EventLines;
pub(crate) use view::{approve, print_result, shown};

/// The pause before a run that waits for an approval is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn run(
    arguments: RunArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(token) = arguments.plan {
        let request = ExecutionRequest { plan: Some(token), ..ExecutionRequest::default() };
        return run_to_end(&request, client, output).await;
    }
    let mut inputs = read_inputs(&arguments)?;
    let Wanted { name, version, digest, lock } = want(&arguments)?;
    keep_texts(&arguments.inputs, &name, version.as_deref(), &mut inputs, client).await;
    let RunArgs { session, preview, .. } = arguments;
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
    let name = Some(name);
    let request =
        ExecutionRequest { name, plan: None, version, digest, lock, inputs, session, wait: false };
    run_to_end(&request, client, output).await
}

/// Starts a run, shows it, and ends as it did.
async fn run_to_end(
    request: &ExecutionRequest,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let started = start(request, client).await?;
    let run = watch_from(&started.id.to_string(), 0, Tree::default(), client, output).await?;
    finish(&run, output)
}

/// Prints how a run ended, and ends as it did.
pub(super) fn finish(run: &Run, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json_line(run);
    } else {
        print_result(run, output);
    }
    match exit_of(run) {
        None => Ok(()),
        Some(exit) => Err(Failure::told(exit)),
    }
}

/// What is to be run.
struct Wanted {
    name: CapabilityName,
    version: Option<String>,
    digest: Option<Digest>,
    lock: Option<Vec<CapabilityRef>>,
}

/// What the arguments name. A lock names one content of the capability, and of all that it uses.
fn want(arguments: &RunArgs) -> Result<Wanted, Failure> {
    // The command line has seen to it that there is one, where there is no plan.
    let capability = arguments.capability.as_deref().unwrap_or_default();
    let Target { name, range } = Target::parse(capability)?;
    let Some(file) = &arguments.lock else {
        return Ok(Wanted { name, version: range, digest: arguments.digest, lock: None });
    };
    let lock = lock::read(file)?;
    let CapabilityRef { name: locked, version, checksum } = lock.capability();
    let fits = range.as_deref().and_then(|range| range.parse::<VersionReq>().ok());
    let other = if *locked != name {
        Some(format!("`{name}`"))
    } else if fits.is_some_and(|range| !range.matches(version)) {
        Some(format!("`{capability}`"))
    } else {
        arguments.digest.filter(|digest| digest != checksum).map(|digest| digest.to_string())
    };
    if let Some(other) = other {
        let message = format!("{} locks `{locked}` {version}, not {other}", file.display());
        return Err(Failure::new(Exit::Bad, LOCK, message)
            .with_hint("Name the lock of what is to be run, or leave it out."));
    }
    Ok(Wanted {
        name,
        version: Some(version.to_string()),
        digest: Some(*checksum),
        lock: Some(lock.dependencies().to_vec()),
    })
}

/// Starts a run, prints its events line by line as they happen, and gives the run when it has ended.
pub(crate) async fn start_and_watch(
    request: &ExecutionRequest,
    client: &Client,
    output: &mut Output,
) -> Result<Run, Failure> {
    let id = start(request, client).await?.id.to_string();
    watch_lines(&id, &mut 0, client, output).await?;
    Ok(client.get(&["v1", "executions", &id]).await?)
}

async fn start(request: &ExecutionRequest, client: &Client) -> Result<Run, Failure> {
    Executor::new(client.clone()).start(request).await.map_err(|error| with_own_exit(error.into()))
}

/// Shows the events of a run behind number `seen`, and gives the run when it has ended or waits: as a
/// tree of its steps, which has grown to `tree` until then, where that can be drawn; else line by
/// line.
pub(super) async fn watch_from(
    id: &str,
    mut seen: u64,
    tree: Tree,
    client: &Client,
    output: &mut Output,
) -> Result<Run, Failure> {
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
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let is_json = output.is_json();
    let mut lines = EventLines::default();
    let print = |event: &Event| match &event.kind {
        _ if !is_json => lines.print(event, output),
        EventKind::ApprovalRequested { step, about, id, expires_at, .. } => {
            let (about, command) = (about.words(), approve(id, *expires_at));
            output.note(format_args!("{step} waits for approval{about}: {command}"));
        }
        _ => {}
    };
    follow(id, seen, client, print).await
}

/// Follows the events of a run behind number `seen`, until it has ended or waits for anything but an
/// approval.
pub(super) async fn follow(
    id: &str,
    seen: &mut u64,
    client: &Client,
    mut tell: impl FnMut(&Event),
) -> Result<(), Failure> {
    let mut needs_approval = false;
    loop {
        let told = |event: &Event| {
            needs_approval = matches!(
                &event.kind,
                EventKind::RunWaiting { error }
                    if executor::Kind::of_code(&error.code) == Some(executor::Kind::ApprovalRequired)
            );
            tell(event);
        };
        follow_once(id, seen, client, told).await?;
        if !needs_approval {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Follows the events of a run behind number `seen`, until it has ended or waits.
pub(super) async fn follow_once(
    id: &str,
    seen: &mut u64,
    client: &Client,
    mut tell: impl FnMut(&Event),
) -> Result<(), Failure> {
    let id = id.parse::<Uuid>().map_err(|_| {
        Failure::argument(format!("`{id}` is no id of a run"))
            .with_hint("`a2s runs` lists the runs with their ids.")
    })?;
    let mut events = Executor::new(client.clone()).follow(id, *seen);
    while let Some(event) = events.next().await? {
        *seen = event.seq;
        tell(&event);
    }
    Ok(())
}

/// The exit code of a run that did not succeed.
pub(crate) fn exit_of(run: &Run) -> Option<Exit> {
    match run.status {
        RunStatus::Succeeded => None,
        RunStatus::Denied
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::Waiting
        | RunStatus::Queued
        | RunStatus::Running => {
            Some(run.error.as_ref().map_or(Exit::Bad, |error| exit_of_code(&error.code)))
        }
    }
}

/// What the executor's table of errors says about the exit code.
fn exit_of_code(code: &str) -> Exit {
    match executor::Kind::of_code(code).map(executor::Kind::exit) {
        Some(executor::ExitClass::Denied) => Exit::Denied,
        Some(executor::ExitClass::Unreachable) => Exit::Unreachable,
        Some(executor::ExitClass::Failed) | None => Exit::Bad,
    }
}

fn with_own_exit(failure: Failure) -> Failure {
    match executor::Kind::of_code(&failure.code) {
        Some(_) => Failure { exit: exit_of_code(&failure.code), ..failure },
        None => failure,
    }
}

/// The inputs: those of the file, then those of the flags.
fn read_inputs(arguments: &RunArgs) -> Result<Map<String, Value>, Failure> {
    let mut inputs = match &arguments.inputs_file {
        Some(file) => read_inputs_file(file)?,
        None => Map::new(),
    };
    inputs.extend(read_pairs(&arguments.inputs)?);
    Ok(inputs)
}

/// Inputs that are given as `--input NAME=VALUE`.
pub(super) fn read_pairs(inputs: &[String]) -> Result<Map<String, Value>, Failure> {
    inputs.iter().map(|input| read_pair(input, "--input NAME=VALUE")).collect()
}

/// Takes values that read as JSON for the texts that they are written as, where an input takes
/// text and nothing else that they could be: `id=1` of a text is `"1"`.
async fn keep_texts(
    pairs: &[String],
    name: &CapabilityName,
    version: Option<&str>,
    inputs: &mut Map<String, Value>,
    client: &Client,
) {
    let is_doubtful = |pair: &&String| {
        let value = pair.split_once('=').and_then(|(name, _)| inputs.get(name));
        value.is_some_and(|value| value.is_number() || value.is_boolean())
    };
    let doubtful: Vec<&String> = pairs.iter().filter(is_doubtful).collect();
    if doubtful.is_empty() {
        return;
    }
    let target = Target { name: name.clone(), range: version.map(str::to_owned) };
    // The executor says what is wrong with a capability that cannot be read.
    let Ok((_, document)) = super::dependency_loader::fetch(&target, client).await else { return };
    let fields = &document.interface().inputs;
    for (name, text) in doubtful.into_iter().filter_map(|pair| pair.split_once('=')) {
        let field = fields.iter().find(|field| field.name == name);
        let Some(kinds) = field.map(|field| Kinds::of_schema(&field.schema)) else { continue };
        let read = inputs.get(name).map_or(Kinds::STRING, Kinds::of);
        if kinds.is_known() && kinds.meets(Kinds::STRING) && !kinds.meets(read) {
            inputs.insert(name.to_owned(), Value::String(text.to_owned()));
        }
    }
}

/// `name=value`, as it is written in `form`: the value is JSON when it can be read as JSON.
pub(super) fn read_pair(text: &str, form: &str) -> Result<(String, Value), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failure::argument(format!("`{text}` is no input")).with_hint(format!("Write {form}."))
    })?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

fn read_inputs_file(file: &Path) -> Result<Map<String, Value>, Failure> {
    let source = document::read(file)?;
    let value = a2s::parse_value(&source).map_err(|diagnostics| Failure {
        diagnostics,
        ..Failure::argument(format!("{} cannot be read", file.display()))
    })?;
    match value {
        Value::Object(inputs) => Ok(inputs),
        _ => Err(Failure::argument(format!("{} has to be a mapping of inputs", file.display()))),
    }
}
