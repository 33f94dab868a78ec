//! Documents as the user names them: files, folders and standard input.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Larger files are not read: no document is that large, and the compiler says so from the size.
const MAX_READ: u64 = 2 << 20;
/// The deepest folder that is looked into.
const MAX_FOLDERS: usize = 32;

/// Reads a document; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut source = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_READ).read_to_end(&mut source)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_READ).read_to_end(&mut source))
    };
    read.map_err(|error| Failure::file(path, &error))?;
    Ok(source)
}

/// The files that are meant: a folder means every document below it, in order of name.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            expand_folder(path, 0, &mut files)?;
            if files.len() == before {
                let message = format!("{} has no .yaml, .yml or .json file", path.display());
                return Err(
                    Failure::argument(message).with_hint("Name a folder with documents, or files.")
                );
            }
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn expand_folder(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::file(folder, &error);
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(fail)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(fail)?;
    entries.sort();
    for entry in entries {
        // A link could lead back up; what it leads to is named by whoever wants it.
        let link = entry.symlink_metadata().is_ok_and(|data| data.is_symlink());
        if entry.is_dir() && !link && depth < MAX_FOLDERS {
            expand_folder(&entry, depth + 1, files)?;
        } else if entry.is_file()
            && entry
                .extension()
                .and_then(|extension| extension.to_str())
                .is_some_and(|extension| matches!(extension, "yaml" | "yml" | "json"))
        {
            files.push(entry);
        }
    }
    Ok(())
}

/// The media type that a document travels under.
pub(super) fn media_type(source: &[u8]) -> &'static str {
    match source.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') if serde_json::from_slice::<serde::de::IgnoredAny>(source).is_ok() => {
            "application/json"
        }
        _ => a2s::api::YAML,
    }
}
