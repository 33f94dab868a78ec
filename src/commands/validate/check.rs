//! Files as they are checked: alone, many at a time, then against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2s::{
    Capability, CapabilityName, DependencyIndex, DependencyInterface, Diagnostic, Digest, Document,
    VersionInfo,
};
use a2s_api::FindabilityReport;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use super::super::document::{self, FoundFile};
use crate::cli_error::CliError;

/// The number of files from which the command shows a progress bar.
const PROGRESS_FROM: usize = 50;

/// The codes of missing versions.
const MISSING_VERSION_CODES: [&str; 2] = ["A2S062", "A2S063"];

/// A checked file.
#[derive(Debug)]
pub(super) struct CheckedFile {
    pub(super) path: PathBuf,
    /// The content of the file; kept only for remarks about it, and for the registry.
    pub(super) source: Vec<u8>,
    pub(super) result: Result<CompiledFile, CliError>,
    /// Remarks without a position in the file.
    pub(super) notes: Vec<String>,
    /// The report of the registry about the document, when it was asked.
    pub(super) findability: Option<FindabilityReport>,
    /// The digest of the file's bytes.
    bytes: Digest,
}

/// The result of compiling a file.
#[derive(Debug)]
pub(super) struct CompiledFile {
    /// The name as it is in the file.
    pub(super) name: Option<String>,
    pub(super) digest: Option<Digest>,
    /// The diagnostics of the file alone.
    own_diagnostics: Vec<Diagnostic>,
    /// The same, and the diagnostics that come from the other files.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The version and the interface for the other files, when it is a document.
    index_entry: Option<(CapabilityName, VersionInfo, Arc<DependencyInterface>)>,
    /// The document, when it has dependencies.
    document: Option<Document>,
}

/// Checks each file separately, on all processors. With `keep_sources`, it keeps the content of each file.
pub(super) fn check(files: Vec<FoundFile>, keep_sources: bool) -> Vec<CheckedFile> {
    let progress = if files.len() >= PROGRESS_FROM {
        let bar = ProgressBar::new(files.len() as u64);
        match ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    } else {
        ProgressBar::hidden()
    };
    let check = |found: FoundFile| {
        let checked = match found.error {
            Some(error) => {
                CheckedFile::unreadable(CliError::file_error(&found.path, &error), found.path)
            }
            None => CheckedFile::read(found.path, keep_sources),
        };
        progress.inc(1);
        checked
    };
    let checked = files.into_par_iter().map(check).collect();
    progress.finish_and_clear();
    checked
}

impl CheckedFile {
    /// Reads a file and checks it.
    fn read(path: PathBuf, keep_source: bool) -> Self {
        match document::read(&path) {
            Ok(source) => Self::from_source(path, source, keep_source),
            Err(failure) => Self::unreadable(failure, path),
        }
    }

    fn unreadable(failure: CliError, path: PathBuf) -> Self {
        let bytes = Digest::of_bytes(failure.message.as_bytes());
        let (source, notes) = (Vec::new(), Vec::new());
        Self { path, source, result: Err(failure), notes, findability: None, bytes }
    }

    fn from_source(path: PathBuf, mut source: Vec<u8>, keep_source: bool) -> Self {
        let bytes = Digest::of_bytes(&source);
        let compilation = a2s::compile(&source);
        let shelved = compilation.document.as_ref().map(|document| {
            let capability = document.capability();
            let version = capability.version.clone();
            let checksum = document.digest();
            let listing = VersionInfo { version, checksum, yanked: false, deprecated: None };
            (
                capability.name.clone(),
                listing,
                Arc::new(DependencyInterface::from_capability(capability)),
            )
        });
        let document =
            compilation.document.filter(|document| !document.capability().dependencies.is_empty());
        if !keep_source && document.is_none() && compilation.diagnostics.is_empty() {
            source = Vec::new();
        }
        let compiled = CompiledFile {
            name: compilation.name,
            digest: compilation.digest,
            own_diagnostics: compilation.diagnostics.clone(),
            diagnostics: compilation.diagnostics,
            index_entry: shelved,
            document,
        };
        Self { path, source, result: Ok(compiled), notes: Vec::new(), findability: None, bytes }
    }

    /// Returns the name of the file.
    pub(super) fn file(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the name of the capability, if it is a valid one.
    pub(super) fn name(&self) -> Option<CapabilityName> {
        CapabilityName::new(self.result.as_ref().ok()?.name.as_deref()?).ok()
    }

    /// The document, when it has dependencies.
    pub(super) fn document(&self) -> Option<&Document> {
        self.result.as_ref().ok()?.document.as_ref()
    }

    /// Returns true when the file is a document without errors.
    pub(super) fn is_valid(&self) -> bool {
        self.result.as_ref().is_ok_and(|compiled| {
            compiled.index_entry.is_some() && !compiled.diagnostics.iter().any(Diagnostic::is_error)
        })
    }

    /// Returns true when another check of the same file found the same.
    pub(super) fn has_same_content(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.result.is_ok() == other.result.is_ok()
    }

    /// Returns the validity, the diagnostics and the notes of the file.
    pub(super) fn report(&self) -> (bool, Vec<Diagnostic>, Vec<String>) {
        let diagnostics = self
            .result
            .as_ref()
            .map_or_else(|_| Vec::new(), |compiled| compiled.diagnostics.clone());
        (self.is_valid(), diagnostics, self.notes.clone())
    }

    /// Makes the file available to the others.
    pub(super) fn add_to_index(&self, index: &mut DependencyIndex) {
        if let Ok(CompiledFile { index_entry: Some((name, listing, unit)), .. }) = &self.result {
            index.add_versions(name, [listing.clone()]);
            index.add_interface(listing.checksum, Arc::clone(unit));
        }
    }

    /// Returns true when versions of its dependencies are missing.
    pub(super) fn lacks_versions(&self) -> bool {
        self.result.as_ref().is_ok_and(|compiled| {
            compiled
                .diagnostics
                .iter()
                .any(|found| MISSING_VERSION_CODES.contains(&found.code.as_str()))
        })
    }

    /// Checks the file against the known versions. The result replaces the earlier one.
    pub(super) fn check_dependencies(&mut self, index: &DependencyIndex, notes: Vec<String>) {
        self.notes = notes;
        let Ok(compiled) = &mut self.result else { return };
        compiled.diagnostics.clone_from(&compiled.own_diagnostics);
        if let Some(document) = &compiled.document {
            let found = index.check_dependencies(document.capability());
            compiled.diagnostics.extend(a2s::add_positions(&self.source, found));
            compiled.diagnostics.sort_by_key(|diagnostic| diagnostic.position);
        }
    }
}

/// Returns notes about files that contain the same version of a capability with different content.
pub(super) fn find_conflicts(checked: &[CheckedFile]) -> BTreeMap<usize, Vec<String>> {
    let mut first = BTreeMap::new();
    let mut notes = BTreeMap::<usize, Vec<String>>::new();
    for (index, file) in checked.iter().enumerate() {
        let Ok(CompiledFile { index_entry: Some((name, listing, _)), .. }) = &file.result else {
            continue;
        };
        let (earlier, checksum) =
            *first.entry((name, &listing.version)).or_insert((index, listing.checksum));
        if checksum != listing.checksum {
            let other: &Path = &checked[earlier].path;
            notes.entry(index).or_default().push(format!(
                "{} is also {name} {}, with other content: only one of them can be published",
                other.display(),
                listing.version
            ));
        }
    }
    notes
}

/// Returns notes about the dependencies of `capability` that are unknown here. `own` are the names of all
/// files, including files with errors.
pub(super) fn unknown_dependencies(
    index: &DependencyIndex,
    capability: &Capability,
    own: &BTreeSet<CapabilityName>,
) -> Vec<String> {
    let needs = index.missing_dependencies(&capability.dependencies);
    let notes = needs.iter().map(|need| {
        let name = need.name();
        if own.contains(name) {
            format!("`{name}` was not checked: it has errors itself")
        } else {
            format!("`{name}` was not checked: it is not one of these files (--registry also searches the registry)")
        }
    });
    notes.collect()
}
