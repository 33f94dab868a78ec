//! `a2s validate --watch`: checks changed files again, until the user ends it.
//!
//! The events of the operating system about files are only hints to check again: editors write in many
//! ways, and a new folder is filled before it is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use a2s::Diagnostic;
use jiff::tz::TimeZone;
use notify_debouncer_mini::notify::{self, RecommendedWatcher, RecursiveMode};
use notify_debouncer_mini::{DebounceEventResult, Debouncer, new_debouncer};
use serde_json::json;
use tokio::sync::Notify;

use super::check::{self, CheckedFile};
use super::{add_findability, link, report};
use crate::cli::ValidateArgs;
use crate::cli_error::{CliError, CliExitCode, FILE};
use crate::client::ServiceClient;
use crate::clock;
use crate::commands::document;
use crate::output::{BAD, CommandOutput, DIM, WARN, sanitize};
use crate::serve::stop_signal;

/// The quiet time before files are checked: an editor is done by then.
const DEBOUNCE_TIME: Duration = Duration::from_millis(50);
/// The interval between checks of files that the operating system does not watch.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn watch(
    arguments: &ValidateArgs,
    client: Option<&ServiceClient>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let stop = stop_signal();
    tokio::select! {
        () = stop => Ok(()),
        result = watch_on(arguments, client, output) => result,
    }
}

async fn watch_on(
    arguments: &ValidateArgs,
    client: Option<&ServiceClient>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let touched = Arc::new(TouchedNames::default());
    // Before the first look, so that nothing falls between the two.
    let mut folders = WatchedFolders::new(&arguments.files, Arc::clone(&touched))?;
    if !folders.watch(&BTreeSet::new()) && !output.is_json() {
        output.note(format_args!(
            "{WARN}note{WARN:#}: the system cannot watch more folders; checking every second instead"
        ));
    }
    let mut files = WatchedFiles { arguments, client, files: BTreeMap::new() };
    files.check_changes(&BTreeSet::new(), true, output).await?;
    if !output.is_json() {
        output.note(format_args!("{DIM}Watching; Ctrl-C ends the command.{DIM:#}"));
    }
    loop {
        tokio::select! {
            () = touched.changed.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL), if !folders.is_complete => {}
        }
        let names = touched.take();
        folders.watch(&names);
        files.check_changes(&names, false, output).await?;
        if output.is_closed() {
            return Ok(());
        }
    }
}

/// The names of changed files and folders.
#[derive(Debug, Default)]
struct TouchedNames {
    names: Mutex<BTreeSet<OsString>>,
    changed: Notify,
}

impl TouchedNames {
    fn take(&self) -> BTreeSet<OsString> {
        std::mem::take(&mut *self.names())
    }

    /// Locks the names. No code panics while it holds this lock.
    fn names(&self) -> MutexGuard<'_, BTreeSet<OsString>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folders that are watched.
struct WatchedFolders {
    debouncer: Debouncer<RecommendedWatcher>,
    wanted: BTreeMap<PathBuf, RecursiveMode>,
    watched: BTreeSet<PathBuf>,
    /// Set when the operating system watches all of them.
    is_complete: bool,
}

impl WatchedFolders {
    fn new(paths: &[PathBuf], touched: Arc<TouchedNames>) -> Result<Self, CliError> {
        let heard = move |events: DebounceEventResult| {
            let paths = events.into_iter().flatten().map(|event| event.path);
            touched.names().extend(paths.filter_map(|path| Some(path.file_name()?.to_owned())));
            touched.changed.notify_one();
        };
        let debouncer = new_debouncer(DEBOUNCE_TIME, heard).map_err(|error| {
            CliError::new(CliExitCode::Bad, FILE, format!("files cannot be watched: {error}"))
        })?;
        let mut wanted = BTreeMap::new();
        for path in paths {
            // Files and folders are often replaced by others, which only the parent reports.
            match path.parent() {
                Some(parent) if parent.as_os_str().is_empty() => {
                    wanted.entry(PathBuf::from(".")).or_insert(RecursiveMode::NonRecursive);
                }
                Some(parent) => {
                    wanted.entry(parent.to_owned()).or_insert(RecursiveMode::NonRecursive);
                }
                None => {}
            }
            if path.is_dir() {
                wanted.insert(path.clone(), RecursiveMode::Recursive);
            }
        }
        Ok(Self { debouncer, wanted, watched: BTreeSet::new(), is_complete: false })
    }

    /// Watches folders that are not watched yet, or that were `touched` themselves. Returns true when all
    /// are watched.
    fn watch(&mut self, touched: &BTreeSet<OsString>) -> bool {
        let watcher = self.debouncer.watcher();
        self.is_complete = true;
        for (path, mode) in &self.wanted {
            let is_touched = path.file_name().is_some_and(|name| touched.contains(name));
            if is_touched && self.watched.remove(path) {
                // It may be another folder of the same name by now.
                let _ = watcher.unwatch(path);
            }
            if self.watched.contains(path) || !path.is_dir() {
                continue;
            }
            match watcher.watch(path, *mode) {
                Ok(()) => {
                    self.watched.insert(path.clone());
                }
                Err(notify::Error { kind: notify::ErrorKind::PathNotFound, .. }) => {}
                Err(_) => self.is_complete = false,
            }
        }
        self.is_complete
    }
}

/// The modification time and the size of a file.
type FileStamp = Option<(SystemTime, u64)>;

/// The files in the state of the last check.
struct WatchedFiles<'a> {
    arguments: &'a ValidateArgs,
    client: Option<&'a ServiceClient>,
    files: BTreeMap<PathBuf, (FileStamp, CheckedFile)>,
}

/// The report about a file: its validity, diagnostics and notes.
type FileReport = (bool, Vec<Diagnostic>, Vec<String>);

impl WatchedFiles<'_> {
    /// Checks new and changed files, and prints the results. The `touched` ones are read in any case: a
    /// clock is too coarse to distinguish two changes in quick succession.
    async fn check_changes(
        &mut self,
        touched: &BTreeSet<OsString>,
        first: bool,
        output: &mut CommandOutput,
    ) -> Result<(), CliError> {
        let found = document::find_all(&self.arguments.files);
        let mut before = std::mem::take(&mut self.files);
        let mut order = Vec::new();
        let mut again = Vec::new();
        for found in found {
            let stamp = stamp(&found.path);
            order.push((found.path.clone(), stamp));
            let known = before.get(&found.path).is_some_and(|(known, _)| *known == stamp);
            let is_touched = found.path.file_name().is_some_and(|name| touched.contains(name));
            if found.error.is_some() || !known || is_touched || stamp.is_none() {
                again.push(found);
            }
        }
        let mut read: BTreeMap<PathBuf, CheckedFile> = check::check(again, self.arguments.registry)
            .into_iter()
            .map(|checked| (checked.path.clone(), checked))
            .collect();
        let mut said = BTreeMap::<PathBuf, FileReport>::new();
        let mut changed = BTreeSet::new();
        let mut checked = Vec::new();
        for (path, _) in &order {
            let old = before.remove(path).map(|(_, old)| old);
            if let Some(old) = &old {
                said.insert(path.clone(), old.report());
            }
            let file = match (read.remove(path), old) {
                (Some(new), Some(old)) if new.has_same_content(&old) => old,
                (Some(new), _) => {
                    changed.insert(path.clone());
                    new
                }
                (None, Some(old)) => old,
                (None, None) => continue,
            };
            checked.push(file);
        }
        let gone = before;
        if changed.is_empty() && gone.is_empty() && !first {
            self.store_files(order, checked);
            return Ok(());
        }
        let linked = link(&mut checked, self.client).await;
        let asked = self.client.filter(|_| linked.is_ok() && !self.arguments.quiet);
        let reporter = add_findability(&mut checked, asked).await;
        for path in gone.keys() {
            print_gone(path, output);
        }
        for file in &checked {
            let is_news = changed.contains(&file.path)
                || said.get(&file.path).is_none_or(|said| *said != file.report());
            if is_news {
                report::print(file, self.arguments.quiet, output);
            } else if !file.is_valid() && !output.is_json() {
                report::print_verdict(file, self.arguments.quiet, output);
            }
        }
        reporter.print_failure(output);
        if let Err(failure) = linked {
            output.print_error(&failure);
        }
        let counts = report::count(&checked);
        if output.is_json() {
            let mut summary = counts.to_json();
            summary["at"] = json!(clock::now());
            output.json_line(&json!({ "summary": summary }));
        } else {
            let time = clock::now().to_zoned(TimeZone::system()).strftime("%H:%M:%S");
            output.line(format_args!("{DIM}{time}{DIM:#}  {}", report::summarize(&counts)));
        }
        self.store_files(order, checked);
        Ok(())
    }

    fn store_files(&mut self, order: Vec<(PathBuf, FileStamp)>, checked: Vec<CheckedFile>) {
        let stamps: BTreeMap<PathBuf, FileStamp> = order.into_iter().collect();
        let keep = |file: CheckedFile| {
            let stamp = stamps.get(&file.path).copied().flatten();
            (file.path.clone(), (stamp, file))
        };
        self.files = checked.into_iter().map(keep).collect();
    }
}

fn stamp(path: &Path) -> FileStamp {
    let data = path.metadata().ok()?;
    Some((data.modified().ok()?, data.len()))
}

fn print_gone(path: &Path, output: &mut CommandOutput) {
    let name = path.display().to_string();
    if output.is_json() {
        output.json_line(&json!({ "file": name, "gone": true }));
    } else {
        output.line(format_args!("{BAD}gone{BAD:#}  {}", sanitize(&name)));
    }
}
