//! `a2s fmt`: documents in one layout, with their comments and the same content.

use std::path::Path;

use a2s_authoring::{FormatError, format_document};
use serde_json::json;
use similar::TextDiff;

use super::document;
use crate::cli::FmtArgs;
use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode};
use crate::output::{BAD, CommandOutput, DIM, GOOD, WARN, count};

/// The result of formatting a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormatOutcome {
    /// The layout is correct.
    Good,
    /// The file was rewritten, or would be.
    Changed,
    /// The file could not be formatted.
    Failed,
}

pub(super) fn fmt(arguments: &FmtArgs, output: &mut CommandOutput) -> Result<(), CliError> {
    let is_stdin = |path: &Path| path == Path::new("-");
    if arguments.files.iter().any(|file| is_stdin(file)) {
        if arguments.files.len() > 1 {
            return Err(CliError::invalid_argument("standard input cannot be combined with files"));
        }
        return fmt_stdin(arguments, output);
    }
    let mut outcomes = Vec::new();
    for found in document::find(&arguments.files)? {
        let outcome = match found.error {
            None => fmt_file(&found.path, arguments, output),
            Some(error) => Err(CliError::file_error(&found.path, &error)),
        };
        outcomes.push(outcome.unwrap_or_else(|failure| {
            output.print_error(&failure);
            FormatOutcome::Failed
        }));
    }
    let number = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let (changed, failed) = (number(FormatOutcome::Changed), number(FormatOutcome::Failed));
    let only_look = arguments.check || arguments.diff;
    if !output.is_json() {
        let done = if only_look { "would change" } else { "changed" };
        let files = count(outcomes.len(), "file");
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        output.line(format_args!("{DIM}{files}, {changed} {done}{failed}{DIM:#}"));
    }
    if failed > 0 || (arguments.check && changed > 0) {
        return Err(CliError::already_printed(CliExitCode::Bad));
    }
    Ok(())
}

fn fmt_stdin(arguments: &FmtArgs, output: &mut CommandOutput) -> Result<(), CliError> {
    let path = Path::new("-");
    let source = document::read(path)?;
    let Some(formatted) = format(path, &source, output) else {
        return Err(CliError::already_printed(CliExitCode::Bad));
    };
    let changed = formatted.as_bytes() != source.as_slice();
    if arguments.diff {
        print_diff("standard input", &source, &formatted, output);
    } else if output.is_json() {
        report(path, changed, false, output);
    } else if !arguments.check {
        output.raw(&formatted);
    }
    if arguments.check && changed {
        Err(CliError::already_printed(CliExitCode::Bad))
    } else {
        Ok(())
    }
}

fn fmt_file(
    path: &Path,
    arguments: &FmtArgs,
    output: &mut CommandOutput,
) -> Result<FormatOutcome, CliError> {
    let source = document::read(path)?;
    let Some(formatted) = format(path, &source, output) else { return Ok(FormatOutcome::Failed) };
    if formatted.as_bytes() == source.as_slice() {
        if output.is_json() {
            report(path, false, false, output);
        }
        return Ok(FormatOutcome::Good);
    }
    let write = !arguments.check && !arguments.diff;
    if write {
        document::write(path, formatted.as_bytes())?;
    }
    if arguments.diff && !output.is_json() {
        print_diff(&path.display().to_string(), &source, &formatted, output);
    } else {
        report(path, true, write, output);
    }
    Ok(FormatOutcome::Changed)
}

/// Returns the formatted text; on failure it prints the reason and returns none.
fn format(path: &Path, source: &[u8], output: &mut CommandOutput) -> Option<String> {
    let error = match format_document(source) {
        Ok(formatted) => return Some(formatted),
        Err(error) => error,
    };
    let name = path.display().to_string();
    let FormatError::Unreadable(diagnostics) = error else {
        let message = format!("{name}: {error}; the file is unchanged");
        output.print_error(
            &CliError::new(CliExitCode::Bad, BAD_ARGUMENT, message)
                .with_hint("Format the file by hand, and please report the problem."),
        );
        return None;
    };
    if output.is_json() {
        output.json_line(&json!({ "file": name, "issues": diagnostics }));
        return None;
    }
    output.line(format_args!("{BAD}bad {BAD:#}  {name}"));
    output.print_diagnostics(&name, source, &diagnostics);
    None
}

fn report(path: &Path, changed: bool, written: bool, output: &mut CommandOutput) {
    let name = path.display();
    if output.is_json() {
        let file = name.to_string();
        output.json_line(&json!({ "file": file, "changed": changed, "written": written }));
    } else if written {
        output.line(format_args!("{GOOD}fmt {GOOD:#}  {name}"));
    } else {
        output.line(format_args!("{WARN}fmt {WARN:#}  {name}{DIM}  would change{DIM:#}"));
    }
}

fn print_diff(name: &str, before: &[u8], after: &str, output: &mut CommandOutput) {
    let before = String::from_utf8_lossy(before);
    let diff = TextDiff::from_lines(before.as_ref(), after);
    let shown = diff.unified_diff().header(name, name).to_string();
    for line in shown.lines() {
        match line.chars().next() {
            Some('+') => output.line(format_args!("{GOOD}{line}{GOOD:#}")),
            Some('-') => output.line(format_args!("{BAD}{line}{BAD:#}")),
            _ => output.line(format_args!("{line}")),
        }
    }
}
