//! `a2s run`: run a capability and watch it, or see what it would do.

mod live;
mod plan;
mod tree;
mod view;

use std::path::Path;

use a2s::api::{Event, EventKind, ExecutionRequest, Pin, PlanAnswer, PlanRequest, Run, RunStatus};
use a2s::{CapabilityName, Digest};
use futures::StreamExt as _;
use reqwest::header::ACCEPT;
use reqwest::{Method, StatusCode};
use semver::VersionReq;
use serde_json::{Map, Value};

use super::target::Target;
use super::{document, lock};
use crate::cli::RunArgs;
use crate::client::Client;
use crate::failure::{BAD_ANSWER, Exit, Failure, LOCK};
use crate::output::Output;

pub(crate) use plan::print_plan;
pub(super) use tree::Tree;
pub(crate) use view::{print_event, print_result, shown};

/// The longest event that is read: an answer of a service may be in it.
const MAX_EVENT: usize = 64 << 20;

pub(super) async fn run(
    arguments: RunArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(token) = arguments.plan {
        let request = ExecutionRequest { plan: Some(token), ..ExecutionRequest::default() };
        return run_to_end(&request, client, output).await;
    }
    let inputs = read_inputs(&arguments)?;
    let Wanted { name, version, digest, lock } = want(&arguments)?;
    let RunArgs { session, preview, .. } = arguments;
    if arguments.dry_run {
        let request = PlanRequest { name, version, digest, lock, inputs, session, preview };
        let plan: PlanAnswer = client.post(&["v1", "plans"], &request).await?;
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
    lock: Option<Vec<Pin>>,
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
    let Pin { name: locked, version, checksum } = lock.capability();
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
    client.get(&["v1", "executions", &id]).await
}

async fn start(request: &ExecutionRequest, client: &Client) -> Result<Run, Failure> {
    client.post(&["v1", "executions"], request).await.map_err(with_own_exit)
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
    client.get(&["v1", "executions", id]).await
}

async fn watch_lines(
    id: &str,
    seen: &mut u64,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let is_json = output.is_json();
    let print = |event: &Event| {
        if !is_json {
            print_event(event, output);
        }
    };
    follow(id, seen, client, print).await
}

/// Follows the events of a run behind number `seen`, until it has ended or waits.
pub(super) async fn follow(
    id: &str,
    seen: &mut u64,
    client: &Client,
    mut tell: impl FnMut(&Event),
) -> Result<(), Failure> {
    // A stream that breaks is taken up again behind the last event that was seen.
    while !follow_once(id, seen, client, &mut tell).await? {}
    Ok(())
}

/// True when the run has ended or waits.
async fn follow_once(
    id: &str,
    seen: &mut u64,
    client: &Client,
    tell: &mut impl FnMut(&Event),
) -> Result<bool, Failure> {
    let request = client
        .request(Method::GET, &["v1", "executions", id, "events"])
        .header(ACCEPT, "text/event-stream")
        .header("last-event-id", seen.to_string());
    let response = client.send(request).await?;
    // Everything was told before, and nothing more will be.
    let mut over = response.status() == StatusCode::NO_CONTENT;
    let mut stream = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = stream.next().await {
        let Ok(chunk) = chunk else { return Ok(false) };
        buffer.extend_from_slice(&chunk);
        if buffer.len() > MAX_EVENT {
            return Err(Failure::new(Exit::Bad, BAD_ANSWER, "an event of the run is too large"));
        }
        while let Some(end) = find_blank_line(&buffer) {
            let block: Vec<u8> = buffer.drain(..end).collect();
            let Some(event) = read_event(&block)? else { continue };
            *seen = event.seq;
            tell(&event);
            // Behind a run that waited more may have happened: the end of the stream tells.
            over =
                matches!(event.kind, EventKind::RunFinished { .. } | EventKind::RunWaiting { .. });
        }
    }
    Ok(over)
}

/// Where the next block of an event stream ends, its blank line included.
fn find_blank_line(buffer: &[u8]) -> Option<usize> {
    buffer.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 2)
}

/// The event of one block; comments and empty blocks have none.
fn read_event(block: &[u8]) -> Result<Option<Event>, Failure> {
    let text = String::from_utf8_lossy(block);
    let data: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| data.strip_prefix(' ').unwrap_or(data))
        .collect();
    if data.is_empty() {
        return Ok(None);
    }
    serde_json::from_str(&data.join("\n")).map(Some).map_err(|error| {
        Failure::new(
            Exit::Bad,
            BAD_ANSWER,
            format!("an event of the run is not understood: {error}"),
        )
    })
}

/// The exit code of a run that did not succeed.
pub(crate) fn exit_of(run: &Run) -> Option<Exit> {
    match run.status {
        RunStatus::Succeeded => None,
        RunStatus::Denied
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::Waiting
        | RunStatus::Running => {
            Some(run.error.as_ref().map_or(Exit::Bad, |error| exit_of_code(&error.code)))
        }
    }
}

/// What the executor's table of errors says about the exit code.
fn exit_of_code(code: &str) -> Exit {
    match executor::Kind::of_code(code).map(executor::Kind::exit) {
        Some(executor::Exit::Denied) => Exit::Denied,
        Some(executor::Exit::Unreachable) => Exit::Unreachable,
        Some(executor::Exit::Failed) | None => Exit::Bad,
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
    for input in &arguments.inputs {
        let (name, value) = read_pair(input, "--input NAME=VALUE")?;
        inputs.insert(name, value);
    }
    Ok(inputs)
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
