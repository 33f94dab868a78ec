//! Documents as the user names them: files, folders and standard input.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use a2s::{Diagnostic, Document};
use serde_json::json;

use crate::cli_error::{CliError, CliExitCode};
use crate::output::{BAD, CommandOutput, sanitize};

/// The maximum number of bytes that the command reads of a file: documents are smaller, and the compiler
/// reports the error from the size.
const MAX_READ: u64 = 2 << 20;
/// The maximum depth of folders to search.
const MAX_FOLDERS: usize = 32;

/// Reads a document; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut source = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().take(MAX_READ).read_to_end(&mut source)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_READ).read_to_end(&mut source))
    };
    read.map_err(|error| CliError::file_error(path, &error))?;
    Ok(source)
}

/// Reads and compiles a document; `-` is standard input. It prints the problems of the document.
///
/// # Errors
/// The document cannot be read, or has errors.
pub(super) fn open(
    path: &Path,
    output: &mut CommandOutput,
) -> Result<(Vec<u8>, Document), CliError> {
    let source = read(path)?;
    let compilation = a2s::compile(&source);
    match compilation.document {
        Some(document) => Ok((source, document)),
        None => {
            let name = path.display().to_string();
            Err(report_invalid(&name, &source, &compilation.diagnostics, output))
        }
    }
}

/// Prints the errors of an invalid file.
pub(super) fn report_invalid(
    file: &str,
    source: &[u8],
    found: &[Diagnostic],
    output: &mut CommandOutput,
) -> CliError {
    if output.is_json() {
        output.json_line(&json!({ "file": file, "valid": false, "issues": found }));
    } else {
        output.line(format_args!("{BAD}bad{BAD:#}   {}", sanitize(file)));
        output.print_diagnostics(
            file,
            source,
            found.iter().filter(|diagnostic| diagnostic.is_error()),
        );
    }
    CliError::already_printed(CliExitCode::Bad)
}

/// A file that the arguments name, or a path that could not be searched.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// The reason why the path cannot be read.
    pub(super) error: Option<io::Error>,
}

/// Finds the files that the arguments name: a folder means every document below it, in order of name. The
/// result contains each file once, even if several arguments name it.
pub(super) fn find_all(paths: &[PathBuf]) -> Vec<FoundFile> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            find_in(path, 0, &mut found);
        } else {
            found.push(FoundFile { path: path.clone(), error: None });
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|found| seen.insert(found.path.clone()));
    found
}

/// Finds files like [`find_all`], and requires that each folder has at least one document.
///
/// # Errors
/// Fails when a folder has no document.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<FoundFile>, CliError> {
    let found = find_all(paths);
    let is_empty = |folder: &Path| !found.iter().any(|found| found.path.starts_with(folder));
    match paths.iter().find(|path| is_empty(path)) {
        None => Ok(found),
        Some(empty) => {
            let message = format!("{} has no .yaml, .yml or .json file", empty.display());
            Err(CliError::invalid_argument(message)
                .with_hint("Use a folder with documents, or files."))
        }
    }
}

/// Finds files like [`find`], and requires that all of them can be read.
///
/// # Errors
/// Fails when a folder has no document, or cannot be read.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let open = |found: FoundFile| match found.error {
        None => Ok(found.path),
        Some(error) => Err(CliError::file_error(&found.path, &error)),
    };
    find(paths)?.into_iter().map(open).collect()
}

/// Finds every document below a folder. It does not follow links to folders, which could lead back up: the
/// user can name their targets. It leaves out hidden files, which belong to other programs.
fn find_in(folder: &Path, depth: usize, found: &mut Vec<FoundFile>) {
    let entries = std::fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()
    });
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            found.push(FoundFile { path: folder.to_owned(), error: Some(error) });
            return;
        }
    };
    entries.sort();
    for path in entries.into_iter().filter(|path| !is_hidden(path)) {
        let is_link = path.symlink_metadata().is_ok_and(|data| data.is_symlink());
        match path.metadata() {
            Ok(data) if data.is_dir() => {
                if !is_link && depth < MAX_FOLDERS {
                    find_in(&path, depth + 1, found);
                }
            }
            Ok(data) if data.is_file() && is_document(&path) => {
                found.push(FoundFile { path, error: None });
            }
            // A link into nothing, or in a circle.
            Err(error) if is_document(&path) => found.push(FoundFile { path, error: Some(error) }),
            Ok(_) | Err(_) => {}
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Returns true when a file is a document, by its name.
pub(super) fn is_document(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| matches!(extension, "yaml" | "yml" | "json"))
}

/// Writes a file; the old text stays until the new text is complete.
///
/// # Errors
/// Fails when the file cannot be written.
pub(super) fn write(path: &Path, text: &[u8]) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".a2s-new");
    let new = folder.unwrap_or_else(|| Path::new(".")).join(name);
    let old = std::fs::metadata(path);
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true);
    // Until it has the permissions of the old file: that one may be private.
    #[cfg(unix)]
    if old.is_ok() {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text)?;
        if let Ok(old) = old {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&new, path)).map_err(|error| {
        // The half-written copy is of no use to anyone.
        let _ = std::fs::remove_file(&new);
        CliError::file_error(path, &error)
    })
}

/// Returns the media type for sending a document.
pub(super) fn media_type(source: &[u8]) -> &'static str {
    match source.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') if serde_json::from_slice::<serde::de::IgnoredAny>(source).is_ok() => {
            "application/json"
        }
        _ => a2s_api::YAML,
    }
}
