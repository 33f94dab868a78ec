//! `a2s validate`: every mistake of every file.

use std::path::PathBuf;

use a2s::Diagnostic;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::document;
use crate::failure::{Exit, Failure};
use crate::output::{BAD, DIM, GOOD, Output, WARN, count};

/// Past so many files a person wants to see how far it is.
const PROGRESS_FROM: usize = 50;

pub(super) fn validate(paths: &[PathBuf], output: &mut Output) -> Result<(), Failure> {
    let files = document::expand(paths)?;
    let progress = if output.is_terminal() && files.len() >= PROGRESS_FROM {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}");
        let bar = ProgressBar::new(files.len() as u64);
        style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
    } else {
        ProgressBar::hidden()
    };
    let (mut bad, mut warnings) = (0, 0);
    for file in &files {
        let source = document::read(file)?;
        let compilation = a2s::compile(&source);
        let valid = compilation.document.is_some();
        bad += usize::from(!valid);
        warnings += compilation.diagnostics.iter().filter(|d| !d.is_error()).count();
        progress.inc(1);
        progress.suspend(|| report(file, &source, &compilation, output));
    }
    progress.finish_and_clear();
    if !output.is_json() {
        let files = count(files.len(), "file");
        let warnings = count(warnings, "warning");
        if bad == 0 {
            output.line(format_args!("{GOOD}good{GOOD:#}  {files}, {warnings}"));
        } else {
            output.line(format_args!("{BAD}bad{BAD:#}   {bad} of {files}, {warnings}"));
        }
    }
    if bad == 0 { Ok(()) } else { Err(Failure::told(Exit::Bad)) }
}

fn report(
    file: &std::path::Path,
    source: &[u8],
    compilation: &a2s::Compilation,
    output: &mut Output,
) {
    let name = file.display().to_string();
    let valid = compilation.document.is_some();
    if output.is_json() {
        output.json_line(&json!({
            "file": name,
            "valid": valid,
            "name": compilation.name,
            "checksum": compilation.digest,
            "issues": compilation.diagnostics,
        }));
        return;
    }
    let errors = compilation.diagnostics.iter().filter(|d| d.is_error()).count();
    let (style, word) = match (valid, compilation.diagnostics.is_empty()) {
        (true, true) => (GOOD, "good"),
        (true, false) => (WARN, "good"),
        (false, _) => (BAD, "bad "),
    };
    let remarks = match (errors, compilation.diagnostics.len() - errors) {
        (0, 0) => String::new(),
        (0, warnings) => format!("  {}", count(warnings, "warning")),
        (errors, 0) => format!("  {}", count(errors, "error")),
        (errors, warnings) => {
            format!("  {}, {}", count(errors, "error"), count(warnings, "warning"))
        }
    };
    output.line(format_args!("{style}{word}{style:#}  {name}{DIM}{remarks}{DIM:#}"));
    let text = String::from_utf8_lossy(source);
    let text = text.trim_start_matches('\u{feff}');
    let show = |diagnostic: &Diagnostic| output.diagnostic(&name, text, diagnostic);
    compilation.diagnostics.iter().for_each(show);
}
