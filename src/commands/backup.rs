//! `a2s backup` and `a2s restore`: a copy of the data folder that is complete or refused.
//!
//! Both work in a temporary folder next to the target, and rename it at the very end. An interrupted
//! command leaves the temporary folder. It has the file `unfinished` and is replaced next time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use a2s::Digest;
use guardian::audit::LogStart;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli_error::{BACKUP, CliError, CliExitCode};
use crate::clock::{self, SystemClockAndIds};
use crate::output::{CommandOutput, WARN, count};
use crate::serve::set_private_umask;

const RUNS: &str = "executor.sqlite";
const DOCUMENTS: &str = "registry.sqlite";
const AUDIT: &str = "audit.jsonl";
const KEYS: [&str; 2] = ["token", "secrets.key"];
/// The list of the files in a copy; it exists when the copy is complete.
const MANIFEST: &str = "backup.json";
/// The file that marks a folder as unfinished.
const UNFINISHED: &str = "unfinished";
/// The version of the manifest's format.
const FORMAT_VERSION: u32 = 1;

/// The contents of a copy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupManifest {
    /// The version of the format of this file.
    form: u32,
    /// The version of the program that made the copy.
    program: String,
    /// The time when the copy was begun.
    made_at: Timestamp,
    /// Every other file of the copy.
    files: BTreeMap<String, BackupFile>,
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupFile {
    /// Length in bytes.
    bytes: u64,
    /// SHA-256.
    checksum: Digest,
}

/// Copies a data folder; services may use it at the same time.
pub(super) async fn back_up(
    data: &Path,
    to: &Path,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let parts = [DOCUMENTS, RUNS, AUDIT].map(|name| data.join(name));
    if !parts.iter().any(|path| path.exists()) {
        let message = format!("{} does not contain the data of a service", data.display());
        return Err(backup_error(message).with_hint("Give the data folder with --data-dir."));
    }
    let [documents, runs, audit] = parts;
    let made_at = clock::now();
    let making = UnfinishedFolder::create(to, &format!("{} exists already", to.display()))?;
    // A later copy has all that an earlier one refers to: documents of the runs, decisions about
    // their requests.
    if runs.exists() {
        executor::copy_runs(&runs, &making.join(RUNS))
            .await
            .map_err(|error| backup_error(error.to_string()))?;
    }
    if documents.exists() {
        let copied = registry::copy_documents(&documents, &making.join(DOCUMENTS)).await;
        copied.map_err(|error| backup_error(error.to_string()))?;
    }
    if audit.exists() {
        let copied = guardian::audit::copy(&audit, &making.join(AUDIT));
        copied.map_err(|error| backup_error(error.to_string()))?;
    }
    for name in KEYS {
        let (from, to) = (data.join(name), making.join(name));
        if from.exists() {
            fs::copy(&from, &to).map_err(|error| CliError::file_error(&from, &error))?;
        }
    }
    let files = list_files(&making.folder)?;
    let manifest = BackupManifest {
        form: FORMAT_VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        made_at,
        files,
    };
    let text =
        serde_json::to_string_pretty(&manifest).map_err(|error| backup_error(error.to_string()))?;
    let path = making.join(MANIFEST);
    fs::write(&path, text).map_err(|error| CliError::file_error(&path, &error))?;
    making.finish(to)?;
    let bytes: u64 = manifest.files.values().map(|content| content.bytes).sum();
    if output.is_json() {
        output.json_line(&json!({ "backup": to, "files": manifest.files.len(), "bytes": bytes }));
        return Ok(());
    }
    let files = count(manifest.files.len(), "file");
    output.line(format_args!("copied {files}, {bytes} bytes, to {}", to.display()));
    if runs.exists() && !data.join("secrets.key").exists() {
        output.line(format_args!(
            "{WARN}the data folder has no key for credentials{WARN:#}: if credentials are stored, also keep a copy of the key"
        ));
    }
    Ok(())
}

/// Restores a copy into a folder without data.
pub(super) async fn restore(
    from: &Path,
    data: &Path,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let manifest = read_manifest(from)?;
    if let Some(name) = manifest.files.keys().find(|name| !from.join(name).is_file()) {
        return Err(backup_error(format!("{}: {name} is missing", from.display())));
    }
    let making =
        UnfinishedFolder::create(data, &format!("{} already contains data", data.display()))?;
    for name in manifest.files.keys() {
        let (from, to) = (from.join(name), making.join(name));
        fs::copy(&from, &to).map_err(|error| CliError::file_error(&from, &error))?;
    }
    // Checks the copies, and not their originals.
    let damaged: Vec<_> = manifest
        .files
        .iter()
        .filter(|(name, content)| describe_file(&making.join(name)).ok().as_ref() != Some(content))
        .map(|(name, _)| name.as_str())
        .collect();
    if !damaged.is_empty() {
        let message = format!("{}: {} is damaged", from.display(), damaged.join(", "));
        return Err(backup_error(message));
    }
    let has = |name: &str| manifest.files.contains_key(name);
    let mut documents = None;
    if has(DOCUMENTS) {
        let checked = registry::check_documents(&making.join(DOCUMENTS)).await;
        documents = Some(checked.map_err(|error| backup_error(error.to_string()))?);
    }
    let mut runs = None;
    if has(RUNS) {
        let restored = executor::restore_runs(&making.join(RUNS), &SystemClockAndIds).await;
        runs = Some(restored.map_err(|error| backup_error(error.to_string()))?);
    }
    let mut records = None;
    if has(AUDIT) {
        let verified = guardian::audit::verify_from(&making.join(AUDIT), &LogStart::Oldest);
        records = Some(verified.map_err(|error| backup_error(error.to_string()))?.records);
    }
    making.finish(data)?;
    let suspended = runs.map_or(0, |runs| runs.suspended);
    if output.is_json() {
        output.json_line(&json!({
            "restored": data, "made_at": manifest.made_at, "documents": documents,
            "runs": runs.map(|runs| runs.runs), "waiting": suspended, "audit_records": records,
        }));
        return Ok(());
    }
    output.line(format_args!("restored the backup of {} to {}", manifest.made_at, data.display()));
    let lines = [
        documents.map(|all| format!("{} with the right checksums", count(all, "document"))),
        runs.map(|runs| format!("{} with complete journals", count(runs.runs, "run"))),
        records.map(|all| format!("{} in a complete chain", count(all, "audit record"))),
    ];
    for line in lines.into_iter().flatten() {
        output.line(format_args!("  {line}"));
    }
    if 0 < suspended {
        let runs = count(suspended, "run");
        output.line(format_args!(
            "{WARN}{runs} not finished, waiting for a person{WARN:#}: a2s runs --status waiting"
        ));
    }
    Ok(())
}

fn backup_error(message: impl Into<String>) -> CliError {
    CliError::new(CliExitCode::Bad, BACKUP, message)
}

fn read_manifest(from: &Path) -> Result<BackupManifest, CliError> {
    let path = from.join(MANIFEST);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(backup_error(format!(
                "{} is not a complete backup: {MANIFEST} is missing",
                from.display()
            )));
        }
        Err(error) => return Err(CliError::file_error(&path, &error)),
    };
    let manifest: BackupManifest = serde_json::from_slice(&text)
        .map_err(|error| backup_error(format!("{} is malformed: {error}", path.display())))?;
    // Names of files, and nothing that leads elsewhere.
    let is_plain = |name: &String| {
        Path::new(name).file_name().is_some_and(|last| last == name.as_str()) && name != MANIFEST
    };
    if manifest.form != FORMAT_VERSION || !manifest.files.keys().all(is_plain) {
        let message = format!("{} was written by another version of a2s", path.display());
        return Err(backup_error(message)
            .with_hint(format!("Use a2s {} for this backup.", manifest.program)));
    }
    Ok(manifest)
}

/// Returns the contents of all files of a folder except the file that marks it as unfinished.
fn list_files(folder: &Path) -> Result<BTreeMap<String, BackupFile>, CliError> {
    let fail = |error: io::Error| CliError::file_error(folder, &error);
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name().to_string_lossy().into_owned();
        if name != UNFINISHED {
            let content = describe_file(&folder.join(&name)).map_err(fail)?;
            contents.insert(name, content);
        }
    }
    Ok(contents)
}

fn describe_file(path: &Path) -> io::Result<BackupFile> {
    let file = File::open(path)?;
    Ok(BackupFile { bytes: file.metadata()?.len(), checksum: Digest::of_reader(file)? })
}

/// Removes an unfinished folder. It removes the file that marks the folder last, so that it can continue
/// after an interruption.
fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() != UNFINISHED {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir_all(folder)
}

/// A folder in preparation, next to its final path.
struct UnfinishedFolder {
    folder: PathBuf,
}

impl UnfinishedFolder {
    /// Creates an unfinished folder for a target that does not exist yet or is empty.
    fn create(target: &Path, taken: &str) -> Result<Self, CliError> {
        set_private_umask();
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| CliError::file_error(&path, &error)
        };
        match fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(backup_error(taken)
                        .with_hint("Move it to another location, or use another folder."));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(target)(error)),
        }
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let folder = target.with_file_name(name);
        let is_left = match fs::read_dir(&folder) {
            Ok(mut entries) => entries.next().is_none() || folder.join(UNFINISHED).exists(),
            Err(_) => false,
        };
        if is_left {
            remove_unfinished(&folder).map_err(fail(&folder))?;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(fail(parent))?;
        }
        // It fails if another program has such a folder.
        fs::create_dir(&folder).map_err(fail(&folder))?;
        let mark = folder.join(UNFINISHED);
        File::create(&mark).map_err(fail(&mark))?;
        Ok(Self { folder })
    }

    fn join(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes everything to disk, and renames the folder to its final name.
    fn finish(self, target: &Path) -> Result<(), CliError> {
        let fail = |error: io::Error| CliError::file_error(&self.folder, &error);
        for entry in fs::read_dir(&self.folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            match File::open(entry.path()).and_then(|file| file.sync_all()) {
                // A database that was just closed removes its other files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced.map_err(fail)?,
            }
        }
        let sync = |path: &Path| File::open(path).and_then(|folder| folder.sync_all());
        sync(&self.folder).map_err(fail)?;
        match fs::remove_dir(target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        fs::rename(&self.folder, target).map_err(fail)?;
        // It says nothing any more: the folder is whole.
        fs::remove_file(target.join(UNFINISHED)).map_err(fail)?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync(parent.unwrap_or_else(|| Path::new("."))).map_err(fail)
    }
}
