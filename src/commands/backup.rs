//! `a2s backup` and `a2s restore`: a copy of the data folder that is complete or refused.
//!
//! Both work in a temporary folder next to the target, and rename it at the very end. A command that is killed
//! leaves the temporary folder. It has the file `unfinished` and is replaced next time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use a2s::Digest;
use guardian::audit::LogStart;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{BackupArgs, RestoreArgs};
use crate::cli_error::{BACKUP, CliError, CliExitCode};
use crate::clock::{self, SystemClockAndIds};
use crate::commands::doctor::free_space;
use crate::output::{CommandOutput, WARN, count};
use crate::serve::set_private_umask;

const RUNS: &str = "executor.sqlite";
const DOCUMENTS: &str = "registry.sqlite";
const AUDIT: &str = "audit.jsonl";
const TOKEN: &str = "token";
const KEY: &str = "secrets.key";
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

/// The checked content of a copy.
#[derive(Default)]
struct CheckedParts {
    documents: Option<u64>,
    runs: Option<executor::RestoredRuns>,
    audit_records: Option<u64>,
}

/// Copies a data folder; services may use it at the same time. Then checks that the copy can be restored.
pub(super) async fn back_up(
    data: &Path,
    arguments: &BackupArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let BackupArgs { dir: to, with_key } = arguments;
    if !has_data(data)? {
        let message = format!("{} does not contain the data of a service", data.display());
        return Err(backup_error(message).with_hint("Give the data folder with --data-dir."));
    }
    let made_at = clock::now();
    let making = UnfinishedFolder::create(to, &format!("{} exists already", to.display()))?;
    let key = data.join(KEY);
    if let Some(file) = with_key {
        check_key_copy(&key, file, &[to, &making.folder])?;
    }
    copy_parts(data, &making.folder).await?;
    let manifest = BackupManifest {
        form: FORMAT_VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        made_at,
        files: list_files(&making.folder)?,
    };
    let text =
        serde_json::to_string_pretty(&manifest).map_err(|error| backup_error(error.to_string()))?;
    let path = making.join(MANIFEST);
    fs::write(&path, text).map_err(|error| CliError::file_error(&path, &error))?;
    if let Some(file) = with_key {
        copy_key(&key, file)?;
    }
    if let Err(error) = making.finish(to) {
        // Without the backup, the key would prevent the next attempt.
        with_key.iter().for_each(|file| drop(fs::remove_file(file)));
        return Err(error);
    }
    let bytes: u64 = manifest.files.values().map(|content| content.bytes).sum();
    if output.is_json() {
        output.json_line(&json!({
            "backup": to, "files": manifest.files.len(), "bytes": bytes, "key": with_key,
        }));
        return Ok(());
    }
    let files = count(manifest.files.len(), "file");
    output.line(format_args!("copied {files}, {bytes} bytes, to {}", to.display()));
    match with_key {
        Some(file) => output.line(format_args!(
            "copied the key for credentials to {}: do not store it with the backup",
            file.display()
        )),
        None if data.join(RUNS).exists() => output.line(format_args!(
            "{WARN}the key for credentials is not in the backup{WARN:#}: keep a copy of it elsewhere, too"
        )),
        None => {}
    }
    Ok(())
}

/// Returns true when a folder has a part that a copy contains.
fn has_data(data: &Path) -> Result<bool, CliError> {
    Ok([DOCUMENTS, RUNS].iter().any(|name| data.join(name).exists()) || has_audit_log(data)?)
}

fn has_audit_log(folder: &Path) -> Result<bool, CliError> {
    let found = guardian::audit::has_log(&folder.join(AUDIT));
    found.map_err(|error| CliError::file_error(folder, &error))
}

/// Copies the parts of a data folder, and checks that the copies can be restored. A later copy has all that an
/// earlier one refers to: documents of the runs, decisions about their requests.
async fn copy_parts(data: &Path, to: &Path) -> Result<(), CliError> {
    if data.join(RUNS).exists() {
        let fail = |error: String| copy_error(data, RUNS, to, &error);
        let copy = to.join(RUNS);
        let copied = executor::copy_runs(&data.join(RUNS), &copy).await;
        copied.map_err(|error| fail(error.to_string()))?;
        check_runs(&copy, to).await.map_err(fail)?;
    }
    if data.join(DOCUMENTS).exists() {
        let fail =
            |error: registry::StoreError| copy_error(data, DOCUMENTS, to, &error.to_string());
        let copy = to.join(DOCUMENTS);
        registry::copy_documents(&data.join(DOCUMENTS), &copy).await.map_err(fail)?;
        registry::check_documents(&copy).await.map_err(fail)?;
    }
    if has_audit_log(data)? {
        let copied = guardian::audit::copy(&data.join(AUDIT), &to.join(AUDIT));
        copied.map_err(|error| copy_error(data, "audit.", to, &error.to_string()))?;
    }
    Ok(())
}

/// Checks that a copy of runs can be restored. The check changes its file, so it has one of its own.
async fn check_runs(copy: &Path, folder: &Path) -> Result<(), String> {
    let scratch = folder.join("check");
    fs::create_dir(&scratch).map_err(|error| error.to_string())?;
    let file = scratch.join(RUNS);
    fs::copy(copy, &file).map_err(|error| error.to_string())?;
    let checked = executor::restore_runs(&file, &SystemClockAndIds).await;
    fs::remove_dir_all(&scratch).map_err(|error| error.to_string())?;
    checked.map(drop).map_err(|error| error.to_string())
}

/// The error of a part of a copy, whose files begin with a prefix. The most common cause is a full disk, which
/// not every error names.
fn copy_error(data: &Path, prefix: &str, to: &Path, message: &str) -> CliError {
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let needed: u64 = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    match free_space(to) {
        Some(free) if free < needed => backup_error(format!(
            "no space left in {}: {free} bytes are free, and {needed} may be needed for {prefix}* ({message})",
            to.display()
        ))
        .with_hint("Free some space, or give a folder on another disk. Nothing is left of this attempt."),
        _ => backup_error(message),
    }
}

/// Checks that the key can be copied to a file that does not exist, outside the folders of a backup.
fn check_key_copy(key: &Path, file: &Path, folders: &[&Path]) -> Result<(), CliError> {
    if !key.exists() {
        let message = format!("{} does not exist, so it cannot be copied", key.display());
        return Err(backup_error(message).with_hint(
            "The key is in the keyring of the system or in A2S_SECRET_KEY, or no credential is stored yet. Leave \
             out --with-key.",
        ));
    }
    let resolve = |path: &Path| -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        let parent = path.ancestors().skip(1).find(|folder| folder.exists());
        let parent = parent.unwrap_or_else(|| Path::new("/"));
        let rest = path.strip_prefix(parent).unwrap_or(&path);
        Ok(parent.canonicalize()?.join(rest))
    };
    let fail = |error: io::Error| CliError::file_error(file, &error);
    let resolved = resolve(file).map_err(fail)?;
    for folder in folders {
        if resolved.starts_with(resolve(folder).map_err(fail)?) {
            let message = format!("{} is in the folder of the backup", file.display());
            return Err(backup_error(message).with_hint(
                "Without the key nobody can read the credentials of a backup: give another folder.",
            ));
        }
    }
    if file.symlink_metadata().is_ok() {
        return Err(backup_error(format!("{} exists already", file.display()))
            .with_hint("Move it to another location, or give another file."));
    }
    Ok(())
}

/// Copies a key to a new file that only its owner may read.
fn copy_key(from: &Path, to: &Path) -> Result<(), CliError> {
    let mut source = File::open(from).map_err(|error| CliError::file_error(from, &error))?;
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let copied = options.open(to).and_then(|mut file| {
        io::copy(&mut source, &mut file)?;
        file.sync_all()
    });
    copied.map_err(|error| CliError::file_error(to, &error))
}

/// Restores a copy into a folder without data.
pub(super) async fn restore(
    arguments: &RestoreArgs,
    data: &Path,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let RestoreArgs { dir: from, with_key } = arguments;
    let manifest = read_manifest(from)?;
    if let Some(name) = manifest.files.keys().find(|name| !from.join(name).is_file()) {
        return Err(backup_error(format!("{}: {name} is missing", from.display())));
    }
    let has = |name: &str| manifest.files.contains_key(name);
    if has(KEY) && with_key.is_some() {
        let message = format!("{} already contains {KEY}", from.display());
        return Err(backup_error(message).with_hint("Leave out --with-key."));
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
    if let Some(file) = with_key {
        copy_key(file, &making.join(KEY))?;
    }
    let parts = restore_parts(&making.folder).await?;
    making.finish(data)?;
    let suspended = parts.runs.map_or(0, |runs| runs.suspended);
    let has_key = has(KEY) || with_key.is_some();
    if output.is_json() {
        output.json_line(&json!({
            "restored": data, "made_at": manifest.made_at, "documents": parts.documents,
            "runs": parts.runs.map(|runs| runs.runs), "waiting": suspended,
            "audit_records": parts.audit_records, "token": has(TOKEN), "key": has_key,
        }));
        return Ok(());
    }
    output.line(format_args!("restored the backup of {} to {}", manifest.made_at, data.display()));
    print_parts(&parts, output);
    if has(TOKEN) || has(KEY) {
        let names: Vec<_> = [TOKEN, KEY].into_iter().filter(|name| has(name)).collect();
        let names = names.join(" and ");
        output.line(format_args!(
            "{WARN}the backup contains {names}{WARN:#}, because an earlier version made it: keep it as secret as \
             the data folder"
        ));
    }
    if !has(TOKEN) {
        output.line(format_args!("the next start creates a new token for the owner"));
    }
    if has(RUNS) && !has_key {
        output.line(format_args!(
            "{WARN}the key for credentials is missing{WARN:#}: stored credentials cannot be read until you copy it \
             to {}, or set the keyring or A2S_SECRET_KEY as before",
            data.join(KEY).display()
        ));
    }
    Ok(())
}

/// Checks the parts of a copy, and prepares them for a start.
async fn restore_parts(folder: &Path) -> Result<CheckedParts, CliError> {
    let mut parts = CheckedParts::default();
    if folder.join(DOCUMENTS).exists() {
        let checked = registry::restore_documents(&folder.join(DOCUMENTS)).await;
        parts.documents = Some(checked.map_err(|error| backup_error(error.to_string()))?);
    }
    if folder.join(RUNS).exists() {
        let restored = executor::restore_runs(&folder.join(RUNS), &SystemClockAndIds).await;
        parts.runs = Some(restored.map_err(|error| backup_error(error.to_string()))?);
    }
    if has_audit_log(folder)? {
        let verified = guardian::audit::verify_from(&folder.join(AUDIT), &LogStart::Oldest);
        let verified = verified.map_err(|error| backup_error(error.to_string()))?;
        parts.audit_records = Some(verified.records);
    }
    Ok(parts)
}

fn print_parts(parts: &CheckedParts, output: &mut CommandOutput) {
    let CheckedParts { documents, runs, audit_records } = parts;
    let lines = [
        documents.map(|all| format!("{} with the right checksums", count(all, "document"))),
        runs.map(|runs| format!("{} with complete journals", count(runs.runs, "run"))),
        audit_records.map(|all| format!("{} in a complete chain", count(all, "audit record"))),
    ];
    for line in lines.into_iter().flatten() {
        output.line(format_args!("  {line}"));
    }
    let suspended = runs.map_or(0, |runs| runs.suspended);
    if 0 < suspended {
        let runs = count(suspended, "run");
        output.line(format_args!(
            "{WARN}{runs} not finished, waiting for a person{WARN:#}: a2s runs --status waiting"
        ));
    }
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
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != UNFINISHED {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir_all(folder)
}

/// A folder in preparation, next to its final path. It is removed if it is not finished.
struct UnfinishedFolder {
    folder: PathBuf,
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if self.folder.join(UNFINISHED).exists() {
            // The next attempt removes what is left.
            let _ = remove_unfinished(&self.folder);
        }
    }
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
