//! The report about checked files, for people and for machines.

use a2s::Diagnostic;
use serde_json::json;

use super::super::findability;
use super::check::CheckedFile;
use crate::output::{BAD, CommandOutput, DIM, GOOD, WARN, count as counted, sanitize};

/// The numbers of files by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileCounts {
    pub(super) files: usize,
    pub(super) bad: usize,
    pub(super) warnings: usize,
}

pub(super) fn count(checked: &[CheckedFile]) -> FileCounts {
    let mut counts = FileCounts { files: checked.len(), ..FileCounts::default() };
    for file in checked {
        counts.bad += usize::from(!file.is_valid());
        counts.warnings += diagnostics(file).iter().filter(|d| !d.is_error()).count();
    }
    counts
}

impl FileCounts {
    /// Converts the counts to JSON.
    pub(super) fn to_json(self) -> serde_json::Value {
        let Self { files, bad, warnings } = self;
        json!({ "files": files, "valid": files - bad, "invalid": bad, "warnings": warnings })
    }
}

/// Prints the full report about a file; with `quiet`, only the errors.
pub(super) fn print(file: &CheckedFile, quiet: bool, output: &mut CommandOutput) {
    if quiet && file.is_valid() {
        return;
    }
    if output.is_json() {
        output.json_line(&to_json(file));
        return;
    }
    print_verdict(file, quiet, output);
    let name = file.file();
    if let Err(failure) = &file.result {
        output.line(format_args!("  {BAD}{}{BAD:#}: {}", failure.code, sanitize(&failure.message)));
        output.line(format_args!(""));
        return;
    }
    let shown = diagnostics(file).iter().filter(|d| !quiet || d.is_error());
    output.print_diagnostics(&name, &file.source, shown);
    if let Some(report) = &file.findability {
        findability::print(report, false, output);
    }
    if file.notes.is_empty() || quiet {
        return;
    }
    for note in &file.notes {
        output.line(format_args!("  {DIM}note:{DIM:#} {}", sanitize(note)));
    }
    output.line(format_args!(""));
}

/// Prints the result of a file in one line; with `quiet`, it counts only the errors.
pub(super) fn print_verdict(file: &CheckedFile, quiet: bool, output: &mut CommandOutput) {
    let all: Vec<_> = diagnostics(file).iter().filter(|d| !quiet || d.is_error()).collect();
    let errors = all.iter().filter(|d| d.is_error()).count();
    let (style, word) = match (file.is_valid(), all.is_empty()) {
        (true, true) => (GOOD, "good"),
        (true, false) => (WARN, "good"),
        (false, _) => (BAD, "bad "),
    };
    let remarks = match (errors, all.len() - errors) {
        (0, 0) => String::new(),
        (0, warnings) => format!("  {}", counted(warnings, "warning")),
        (errors, 0) => format!("  {}", counted(errors, "error")),
        (errors, warnings) => {
            format!("  {}, {}", counted(errors, "error"), counted(warnings, "warning"))
        }
    };
    let name = file.file();
    output.line(format_args!("{style}{word}{style:#}  {}{DIM}{remarks}{DIM:#}", sanitize(&name)));
}

/// Prints the summary of all files.
pub(super) fn print_counts(counts: &FileCounts, quiet: bool, output: &mut CommandOutput) {
    if output.is_json() {
        output.json_line(&json!({ "summary": counts.to_json() }));
    } else if !quiet {
        output.line(format_args!("{}", summarize(counts)));
    }
}

/// Summarizes the results of all files.
pub(super) fn summarize(counts: &FileCounts) -> String {
    let files = counted(counts.files, "file");
    let warnings = counted(counts.warnings, "warning");
    if counts.bad == 0 {
        format!("{GOOD}good{GOOD:#}  {files}, {warnings}")
    } else {
        format!("{BAD}bad{BAD:#}   {} of {files}, {warnings}", counts.bad)
    }
}

pub(super) fn to_json(file: &CheckedFile) -> serde_json::Value {
    let mut line = json!({ "file": file.file(), "valid": file.is_valid() });
    match &file.result {
        Ok(compiled) => {
            line["name"] = json!(compiled.name);
            line["checksum"] = json!(compiled.digest);
            line["issues"] = json!(compiled.diagnostics);
        }
        Err(failure) => line["error"] = failure.to_json()["error"].take(),
    }
    if !file.notes.is_empty() {
        line["notes"] = json!(file.notes);
    }
    if let Some(report) = &file.findability {
        line["findability"] = json!(report);
    }
    line
}

fn diagnostics(file: &CheckedFile) -> &[Diagnostic] {
    file.result.as_ref().map_or(&[], |compiled| &compiled.diagnostics)
}
