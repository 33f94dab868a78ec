//! `a2s lock`: write down the exact content of everything that a capability uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use a2s::{CapabilityName, DependencyIndex, Document};
use a2s_api::CapabilityRef;
use serde_json::json;

use super::dependency_closure::{self, DependencyClosure};
use super::document;
use crate::cli::LockArgs;
use crate::cli_error::{CliError, CliExitCode, LOCK};
use crate::client::ServiceClient;
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, count, sanitize};

pub(super) async fn lock(
    arguments: &LockArgs,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let LockArgs { file, folder, check } = arguments;
    if file == Path::new("-") {
        return Err(CliError::invalid_argument(
            "a lock is in the same folder as its file: give a file",
        ));
    }
    if file.extension().is_some_and(|extension| extension == "lock") {
        let message = format!("{} is a lock", file.display());
        return Err(CliError::invalid_argument(message).with_hint("Give the document of the lock."));
    }
    let (source, root) = document::open(file, output)?;
    let name = file.display().to_string();
    let text = (name.as_str(), source.as_slice());
    let DependencyClosure { index, .. } =
        dependency_closure::load_closure(&root, text, folder.as_deref(), LOCK, client, output)
            .await?;
    let lock = build_lock(&root, index)?;
    let path = lock_path(file);
    if *check { compare(&path, &name, &lock, output) } else { write(&path, &name, &lock, output) }
}

/// The path of the lock of a file: `Weather.lock` next to `Weather.yaml`.
fn lock_path(file: &Path) -> PathBuf {
    file.with_extension("lock")
}

/// Reads a lock file.
///
/// # Errors
/// Fails when the file does not exist or is not a valid lock.
pub(super) fn read(path: &Path) -> Result<a2s_authoring::lock::LockFile, CliError> {
    let source = document::read(path)?;
    a2s_authoring::lock::LockFile::parse(&source).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        let diagnostics = match error {
            a2s_authoring::lock::Error::Unreadable(diagnostics) => diagnostics,
            _ => Vec::new(),
        };
        CliError { diagnostics, ..CliError::new(CliExitCode::Bad, LOCK, message) }
    })
}

/// Builds the lock of a document that fits the known versions. With only the lock, every dependency must
/// resolve as it does today: this is repeated until it holds.
fn build_lock(
    root: &Document,
    mut index: DependencyIndex,
) -> Result<a2s_authoring::lock::LockFile, CliError> {
    let capability = root.capability();
    let mut pins = index.closure(&capability.dependencies);
    loop {
        index.retain_pinned(&pins);
        let again = index.closure(&capability.dependencies);
        if again == pins {
            break;
        }
        pins = again;
    }
    a2s_authoring::lock::LockFile::new(root.to_ref(), pins).map_err(|error| {
        CliError::new(CliExitCode::Bad, LOCK, format!("cannot write a lock: {error}"))
    })
}

fn write(
    path: &Path,
    file: &str,
    lock: &a2s_authoring::lock::LockFile,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let text = lock.to_string();
    let is_new = std::fs::read(path).ok().as_deref() != Some(text.as_bytes());
    if is_new {
        document::write(path, text.as_bytes())?;
    }
    if output.is_json() {
        let mut line = to_json(path, file, lock);
        line["written"] = json!(is_new);
        output.json_line(&line);
        return Ok(());
    }
    let word = if is_new { "locked" } else { "unchanged" };
    let name = path.display().to_string();
    let pins = lock.dependencies();
    let size = match pins.len() {
        0 => "no dependencies".to_owned(),
        1 => "1 capability".to_owned(),
        more => format!("{more} capabilities"),
    };
    output.line(format_args!("{GOOD}{word}{GOOD:#}  {}  {size}", sanitize(&name)));
    for CapabilityRef { name, version, checksum } in pins {
        output.line(format_args!("  {NAME}{name}{NAME:#} {version}  {DIM}{checksum}{DIM:#}"));
    }
    Ok(())
}

/// Reports whether the lock file is up to date.
fn compare(
    path: &Path,
    file: &str,
    now: &a2s_authoring::lock::LockFile,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let then = read(path)?;
    let changes = describe_changes(&then, now);
    let is_current = then == *now;
    if output.is_json() {
        let mut line = to_json(path, file, now);
        line["current"] = json!(is_current);
        line["changes"] = json!(changes);
        output.json_line(&line);
    } else if is_current {
        output
            .line(format_args!("{GOOD}current{GOOD:#}  {}", sanitize(&path.display().to_string())));
    } else {
        let name = path.display().to_string();
        output.line(format_args!(
            "{BAD}not current{BAD:#}  {}  {}",
            sanitize(&name),
            count(changes.len(), "change")
        ));
        for change in &changes {
            output.line(format_args!("  {change}"));
        }
        output.line(format_args!(
            "  {DIM}help:{DIM:#} `a2s lock {}` writes it again.",
            sanitize(file)
        ));
    }
    if is_current { Ok(()) } else { Err(CliError::already_printed(CliExitCode::Bad)) }
}

/// Describes the differences between two locks.
fn describe_changes(
    then: &a2s_authoring::lock::LockFile,
    now: &a2s_authoring::lock::LockFile,
) -> Vec<String> {
    let mut changes = Vec::new();
    let (old, new) = (then.capability(), now.capability());
    if old.name != new.name || old.version != new.version {
        changes
            .push(format!("{} {} changed to {} {}", old.name, old.version, new.name, new.version));
    } else if old.checksum != new.checksum {
        changes.push(format!("{} {} has other content", new.name, new.version));
    }
    let (locked, means) = (by_name(then), by_name(now));
    let names: BTreeSet<_> = locked.keys().chain(means.keys()).collect();
    for name in names {
        match (locked.get(name), means.get(name)) {
            (Some(locked), Some(means)) if locked == means => {}
            (Some(locked), Some(means)) => {
                let (one, other) = (join_versions(locked), join_versions(means));
                changes.push(if one == other {
                    format!("{name} {one} has other content")
                } else {
                    format!("{name} {one} would be {other}")
                });
            }
            (Some(locked), None) => {
                changes.push(format!("{name} {} is not used any more", join_versions(locked)));
            }
            (None, Some(means)) => changes.push(format!("{name} {} is new", join_versions(means))),
            (None, None) => {}
        }
    }
    changes
}

fn by_name(lock: &a2s_authoring::lock::LockFile) -> BTreeMap<&CapabilityName, Vec<&CapabilityRef>> {
    let mut names = BTreeMap::<_, Vec<&CapabilityRef>>::new();
    for pin in lock.dependencies() {
        names.entry(&pin.name).or_default().push(pin);
    }
    names
}

fn join_versions(pins: &[&CapabilityRef]) -> String {
    pins.iter().map(|pin| pin.version.to_string()).collect::<Vec<_>>().join(" and ")
}

fn to_json(path: &Path, file: &str, lock: &a2s_authoring::lock::LockFile) -> serde_json::Value {
    json!({
        "file": file,
        "lock": path.display().to_string(),
        "checksum": lock.checksum(),
        "capability": lock.capability(),
        "dependencies": lock.dependencies(),
    })
}
