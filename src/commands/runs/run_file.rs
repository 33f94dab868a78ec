//! `a2s runs export|verify`: a run as one HTML file, and the comparison of such a file with the services.

use std::path::{Path, PathBuf};

use a2s::Digest;
use a2s_api::{ExchangeList, Run, RunEvent, RunStatus, StepExchange};
use agent::ClientError;
use guardian::{LogVerification, RecordFilter};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode};
use crate::client::{MissingPart, ServiceClient};
use crate::clock;
use crate::commands::guardian::read_page;
use crate::commands::run::follow_once;
use crate::output::{BAD, CommandOutput, DIM, GOOD, WARN, count, sanitize};
use crate::serve::console::run_page;
use crate::serve::write_private;

/// The version of the format.
const FORMAT: u32 = 1;
/// The place of the data in the page.
const PLACE: &str = "RUN_DATA";
/// The tags around the data.
const TAGS: (&str, &str) = (r#"<script type="application/json" id="run">"#, "</script>");
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// The most requests for records.
const MAX_PAGES: usize = 200;

/// The data in the file.
#[derive(Debug, Serialize, Deserialize)]
struct RunFile {
    format: u32,
    /// The digest of the page without the run; none in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<Digest>,
    exported_at: Timestamp,
    server: String,
    run: Run,
    events: Vec<RunEvent>,
    exchanges: Vec<StepExchange>,
    /// The records of the guardian, the oldest first; none without the owner's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Vec<Value>>,
    /// The digest of the last record of the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_head: Option<String>,
}

impl RunFile {
    /// Returns the whole file.
    fn to_page(&self) -> String {
        let data = serde_json::to_string(self).expect("a run is plain data");
        // Nothing in the data can end the element that it is in.
        run_page().replacen(PLACE, &data.replace('<', "\\u003c"), 1)
    }
}

fn page_digest() -> Digest {
    Digest::of_bytes(run_page().as_bytes())
}

pub(super) async fn export(
    id: &str,
    path: Option<&Path>,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let run: Run = client.get(&["v1", "executions", id]).await?;
    if matches!(run.status, RunStatus::Running | RunStatus::Queued) {
        let message = format!("run {id} has not ended: it is {}", run.status.as_str());
        return Err(CliError::new(CliExitCode::Bad, BAD_ARGUMENT, message)
            .with_hint("Export it when it has ended, or cancel it with `a2s cancel`."));
    }
    let (records, missing) = match read_records(&run, client).await {
        Ok(records) => (Some(records), None),
        Err(error) => (None, Some(MissingPart::from(error))),
    };
    let log_head = match records {
        Some(_) => verify_log(client).await?.head,
        None => None,
    };
    let file = RunFile {
        format: FORMAT,
        page: Some(page_digest()),
        exported_at: clock::now(),
        server: client.url().to_string(),
        events: read_events(id, client).await?,
        exchanges: read_exchanges(id, client).await?,
        run,
        records,
        log_head,
    };
    let path = path.map_or_else(|| PathBuf::from(format!("{}.html", file.run.id)), Path::to_owned);
    write_private(&path, file.to_page().as_bytes())
        .map_err(|error| CliError::file_error(&path, &error))?;
    if output.is_json() {
        let records = file.records.as_ref().map(Vec::len);
        output.json_line(&json!({"file": path, "events": file.events.len(), "records": records}));
    } else {
        output.line(format_args!("{GOOD}wrote{GOOD:#}  {}", path.display()));
    }
    let reason = match missing {
        None => return Ok(()),
        Some(MissingPart::NotPermitted) => "they need the owner's token".to_owned(),
        Some(MissingPart::NotServed) => "this service has no guardian".to_owned(),
        Some(MissingPart::Failed(error)) => sanitize(&error.message).into_owned(),
    };
    output.note(format_args!("{WARN}note{WARN:#} without records of the guardian: {reason}"));
    Ok(())
}

pub(super) async fn verify(
    path: &Path,
    data_only: bool,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let (file, text) = read_file(path)?;
    let id = file.run.id.to_string();
    let mut checks = Vec::new();
    let mut check = |what: &'static str, problem: Option<String>| checks.push((what, problem));
    if !data_only {
        check("page", page_difference(&file, &text));
    }
    let run: Run = client.get(&["v1", "executions", &id]).await?;
    check("run", difference(&file.run, &run));
    check("events", list_difference(&file.events, &read_events(&id, client).await?));
    check("exchanges", list_difference(&file.exchanges, &read_exchanges(&id, client).await?));
    if let Some(records) = &file.records {
        check("records", list_difference(records, &read_records(&run, client).await?));
        let log = verify_log(client).await?;
        check("audit log", (!log.valid).then(|| log.error.unwrap_or_default()));
    }
    if output.is_json() {
        let shown = checks.iter().map(|(what, problem)| json!({"what": what, "problem": problem}));
        output.json_line(&json!({"run": id, "checks": shown.collect::<Vec<_>>()}));
    } else {
        for (what, problem) in &checks {
            match problem {
                None => output.line(format_args!("{GOOD}same{GOOD:#}     {what}")),
                Some(problem) => {
                    output.line(format_args!("{BAD}differs{BAD:#}  {what}: {problem}"))
                }
            }
        }
        if data_only {
            output.line(format_args!(
                "{WARN}only the data was compared: the page may show something else{WARN:#}"
            ));
        }
        if file.records.is_none() {
            output.line(format_args!("{DIM}the file has no records of the guardian{DIM:#}"));
        }
    }
    match checks.iter().any(|(_, problem)| problem.is_some()) {
        true => Err(CliError::already_printed(CliExitCode::Bad)),
        false => Ok(()),
    }
}

/// Reads the run in a file, and the text of the file.
fn read_file(path: &Path) -> Result<(RunFile, String), CliError> {
    let fail = |error: std::io::Error| CliError::file_error(path, &error);
    let size = std::fs::metadata(path).map_err(fail)?.len();
    let refuse = |message: String| {
        CliError::new(CliExitCode::Bad, BAD_ARGUMENT, format!("{}: {message}", path.display()))
            .with_hint("Give a file of `a2s runs export`.")
    };
    if MAX_BYTES < size {
        return Err(refuse(format!("the file is larger than {} MiB", MAX_BYTES >> 20)));
    }
    let text = std::fs::read_to_string(path).map_err(fail)?;
    let data = text.split_once(TAGS.0).and_then(|(_, rest)| rest.split_once(TAGS.1));
    let Some((data, _)) = data else { return Err(refuse("the file has no run".to_owned())) };
    let file: RunFile = serde_json::from_str(data)
        .map_err(|error| refuse(format!("the run in the file cannot be read: {error}")))?;
    if file.format != FORMAT {
        let message =
            format!("the file has format {}, and this program knows {FORMAT}", file.format);
        return Err(refuse(message));
    }
    Ok((file, text))
}

/// Compares the whole file with the page that this version writes for its data.
fn page_difference(file: &RunFile, text: &str) -> Option<String> {
    const HELP: &str =
        "verify it with the version that wrote it, or compare only its data with --data-only";
    if file.page.as_ref() != Some(&page_digest()) {
        return Some(format!(
            "another version has written it, so only the data was compared; {HELP}"
        ));
    }
    (file.to_page() != text)
        .then(|| "it is not the page that `a2s runs export` writes for its data".to_owned())
}

async fn read_events(id: &str, client: &ServiceClient) -> Result<Vec<RunEvent>, CliError> {
    let mut events = Vec::new();
    follow_once(id, &mut 0, client, |event| events.push(event.clone())).await?;
    Ok(events)
}

async fn read_exchanges(id: &str, client: &ServiceClient) -> Result<Vec<StepExchange>, CliError> {
    let list: ExchangeList = client.get(&["v1", "executions", id, "exchanges"]).await?;
    Ok(list.exchanges)
}

/// Reads the guardian's records of a run, the oldest first.
async fn read_records(run: &Run, client: &ServiceClient) -> Result<Vec<Value>, ClientError> {
    let filter = RecordFilter {
        run: Some(run.id.to_string()),
        since: Some(run.started_at),
        ..RecordFilter::default()
    };
    let (mut records, mut before) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = read_page(client, &filter, usize::MAX, before).await?;
        records.extend(page.records);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    records.reverse();
    Ok(records)
}

async fn verify_log(client: &ServiceClient) -> Result<LogVerification, CliError> {
    Ok(client.get(&["v1", "guardian", "verification"]).await?)
}

fn difference(mine: &impl Serialize, theirs: &impl Serialize) -> Option<String> {
    (json!(mine) != json!(theirs)).then(|| "not as the services have it".to_owned())
}

/// Returns the first item that differs, counted from 1.
fn list_difference<T: Serialize>(mine: &[T], theirs: &[T]) -> Option<String> {
    if mine.len() != theirs.len() {
        let (mine, theirs) = (count(mine.len(), "item"), theirs.len());
        return Some(format!("the file has {mine}, the services have {theirs}"));
    }
    let first = mine.iter().zip(theirs).position(|(mine, theirs)| json!(mine) != json!(theirs))?;
    Some(format!("number {} is not as the services have it", first + 1))
}
