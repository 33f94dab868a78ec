//! `a2s guardian audit`: the log, checked and read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use agent::describe_os_error;
use anstyle::Style;
use guardian::audit::{LogCorruption, LogStart, RecordFilter, RecordReader};
use serde_json::{Value, json};

use crate::cli::{RecordFilterArgs, ShowAuditArgs};
use crate::cli_error::{AUDIT, CliError, CliExitCode};
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, WARN, count, sanitize, shorten};

/// The maximum length of a shown message, in characters.
const MAX_MESSAGE: usize = 160;
/// The maximum length of a shown user name, in characters.
const MAX_NAME: usize = 60;

/// The path of the log: the given one, else that of the data folder.
pub(super) fn log_path(stated: Option<PathBuf>, data_dir: &Path) -> PathBuf {
    stated.unwrap_or_else(|| data_dir.join("audit.jsonl"))
}

pub(super) fn verify(
    path: &Path,
    head: Option<&str>,
    after: Option<String>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut records = open(path, &after.map_or(LogStart::First, LogStart::After))?;
    let mut has_head = head.is_none();
    for record in records.by_ref() {
        let record = record.map_err(|broken| log_error(path, &broken))?;
        has_head |= record["digest"].as_str() == head;
    }
    let verified = records.verified();
    if !has_head {
        let message = format!("{} does not contain the given digest", path.display());
        let hint = "The end of the log was cut off, or it is another log.";
        return Err(CliError::new(CliExitCode::Bad, AUDIT, message).with_hint(hint));
    }
    if output.is_json() {
        output.json_line(&json!({
            "records": verified.records, "head": verified.head, "segments": verified.segments,
            "follows": verified.follows,
        }));
        return Ok(());
    }
    let head = verified.head.as_deref().unwrap_or("none");
    let (number, segments) =
        (count(verified.records, "record"), count(verified.segments, "segment"));
    output.line(format_args!("{GOOD}whole{GOOD:#}   {number}, {segments}"));
    if let Some(follows) = &verified.follows {
        output.line(format_args!("        {DIM}earlier segments end with {follows}{DIM:#}"));
    }
    output.line(format_args!("        {DIM}the last is {head}{DIM:#}"));
    Ok(())
}

pub(super) fn show(
    path: &Path,
    arguments: &ShowAuditArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let event = arguments.event.clone();
    let filter = to_filter(arguments.filter.clone(), event);
    let mut kept = VecDeque::new();
    let mut ended = Ok(());
    for record in open(path, &LogStart::Oldest)? {
        let record = match record {
            Ok(record) => record,
            Err(broken) => {
                ended = Err(log_error(path, &broken));
                break;
            }
        };
        if !filter.matches(&record) {
            continue;
        }
        match arguments.last {
            Some(last) => {
                kept.push_back(record);
                if last < kept.len() {
                    kept.pop_front();
                }
            }
            None => print(&record, output),
        }
        if output.is_closed() {
            return Ok(());
        }
    }
    kept.iter().for_each(|record| print(record, output));
    ended
}

fn open(path: &Path, start: &LogStart) -> Result<RecordReader, CliError> {
    RecordReader::open(path, start).map_err(|broken| log_error(path, &broken))
}

fn log_error(path: &Path, broken: &LogCorruption) -> CliError {
    match broken {
        LogCorruption::Unreadable(error) => {
            let message = format!("{}: {}", path.display(), describe_os_error(error));
            CliError::new(CliExitCode::Bad, AUDIT, message).with_hint(
                "Give the path of the log, or the data folder of the guardian with --data-dir.",
            )
        }
        LogCorruption::Line { .. } => {
            let message = format!("{}: {broken}", path.display());
            CliError::new(CliExitCode::Bad, AUDIT, message)
        }
        LogCorruption::Missing { .. } => {
            let message = format!("{}: {broken}", path.display());
            CliError::new(CliExitCode::Bad, AUDIT, message).with_hint(
                "Restore it from the archive, or give the head of the last archived segment \
                 with --after.",
            )
        }
    }
}

/// Returns the filter for the arguments of a command.
pub(super) fn to_filter(arguments: RecordFilterArgs, event: Option<String>) -> RecordFilter {
    RecordFilter {
        event,
        decision: arguments.decision,
        tool: arguments.tool,
        capability: arguments.capability,
        rule: arguments.rule,
        session: arguments.session,
        user: arguments.user,
        execution: arguments.execution,
        run: arguments.run,
        since: arguments.since,
        differs: arguments.differs,
    }
}

pub(super) fn print(record: &Value, output: &mut CommandOutput) {
    if output.is_json() {
        output.json_line(record);
        return;
    }
    let text = |value: &Value| sanitize(value.as_str().unwrap_or_default()).into_owned();
    let time = text(&record["time"]);
    let event = text(&record["event"]);
    match event.as_str() {
        "decision" => {
            let decision = text(&record["decision"]);
            let style = style_of(&decision);
            let about =
                if record["tool"].is_string() { &record["tool"] } else { &record["method"] };
            let when = match record["method"].as_str() {
                Some("steps/toolCallRequest") => "before ",
                Some("steps/toolCallResult") => "after ",
                _ => "",
            };
            let who = describe_requester(record);
            output.line(format_args!(
                "{DIM}{time}{DIM:#}  {style}{decision:6}{style:#}  {when}{NAME}{}{NAME:#}{who}  {}",
                text(about),
                shorten(&text(&record["message"]), MAX_MESSAGE)
            ));
            if record["shadow"]["differs"] == true {
                let shadow = &record["shadow"];
                output.line(format_args!(
                    "    {WARN}would be {}{WARN:#}: {}",
                    text(&shadow["decision"]),
                    shorten(&text(&shadow["message"]), MAX_MESSAGE)
                ));
            }
        }
        "outcome" => {
            let word = if record["is_error"] == true { "failed" } else { "done" };
            let tool = text(&record["tool"]);
            output.line(format_args!("{DIM}{time}{DIM:#}  {word:6}  {NAME}{tool}{NAME:#}"));
        }
        "approval" => {
            let approval = &record["approval"];
            // Records of older guardians have `by`.
            let by = approval["decided_by"].as_str().or_else(|| approval["by"].as_str());
            let by = by.map_or_else(String::new, |by| format!(" by {}", sanitize(by)));
            output.line(format_args!(
                "{DIM}{time}{DIM:#}  {}  approval {NAME}{}{NAME:#}{by}",
                text(&approval["state"]),
                text(&approval["id"])
            ));
        }
        _ => {
            let digest = text(&record["policy"]);
            output.line(format_args!("{DIM}{time}{DIM:#}  {event}  {DIM}{digest}{DIM:#}"));
        }
    }
}

/// The colour of a decision.
pub(super) fn style_of(decision: &str) -> Style {
    match decision {
        "allow" => GOOD,
        "deny" => BAD,
        _ => WARN,
    }
}

/// The user of a decision, and the token that acts for them.
fn describe_requester(record: &Value) -> String {
    let text = |name: &str| {
        record[name].as_str().map(|text| shorten(&sanitize(text), MAX_NAME).into_owned())
    };
    match (text("user"), text("caller")) {
        (None, None) => String::new(),
        (user, caller) => {
            let caller = caller.map_or_else(String::new, |caller| format!(" by {caller}"));
            format!(" for {}{caller}", user.as_deref().unwrap_or("an unnamed user"))
        }
    }
}
