//! Output on standard output and standard error, for people and for machines.

mod live_region;
mod source_snippet;
mod table;
mod terminal_escape;
mod wrap;

use std::collections::BTreeSet;
use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal as _, Write as _};

use a2s::Diagnostic;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use serde::Serialize;

use crate::cli_error::CliError;

pub(crate) use live_region::{LiveRegion, TerminalSize};
pub(crate) use source_snippet::SourceExcerpts;
pub(crate) use terminal_escape::{sanitize, shorten};

/// The maximum number of codes in the hint at the end.
const MAX_NAMED: usize = 6;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// The use of colours on the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    Auto,
    Always,
    Never,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    stdout: AutoStream<io::Stdout>,
    stderr: AutoStream<io::Stderr>,
    json: bool,
    colored: bool,
    terminal: bool,
    /// The codes of the remarks that were printed.
    printed_codes: BTreeSet<String>,
    /// Set when the reader of the output is gone.
    is_closed: bool,
}

impl CommandOutput {
    pub(crate) fn new(json: bool, color: ColorMode) -> Self {
        let choice = match color {
            ColorMode::Auto => ColorChoice::Auto,
            ColorMode::Always => ColorChoice::Always,
            ColorMode::Never => ColorChoice::Never,
        };
        let stdout = AutoStream::new(io::stdout(), choice);
        let colored = !matches!(stdout.current_choice(), ColorChoice::Never);
        let stderr = AutoStream::new(io::stderr(), choice);
        let terminal = io::stdout().is_terminal();
        Self {
            stdout,
            stderr,
            json,
            colored,
            terminal,
            printed_codes: BTreeSet::new(),
            is_closed: false,
        }
    }

    /// Returns true when the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Returns true when a person watches.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal && !self.json
    }

    /// Prints a line for a person, which ends at its end only: no text in it begins another one. A closed
    /// output (`| head`) is not an error.
    pub(crate) fn line(&mut self, line: Arguments<'_>) {
        let line = line.to_string();
        let line = terminal_escape::disarm_line(&line);
        match self.terminal {
            true => self.write(&wrap::wrap(&line, TerminalSize::now().width)),
            false => self.write(&line),
        }
    }

    fn write(&mut self, line: &str) {
        let written = writeln!(self.stdout, "{line}").and_then(|()| self.stdout.flush());
        self.is_closed |= written.is_err();
    }

    /// Prints the lines of a text of this program.
    pub(crate) fn lines(&mut self, text: &str) {
        for line in text.split('\n') {
            self.line(format_args!("{line}"));
        }
    }

    /// Returns true when the reader of the output is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Prints one JSON value on its own line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.write(&terminal_escape::escape_json(&text)),
            Err(error) => self.note(format_args!("cannot print the result as JSON: {error}")),
        }
    }

    /// Prints a JSON Schema: on many lines for a person, on one for a machine.
    pub(crate) fn print_schema(&mut self, schema: &serde_json::Value) {
        if self.json {
            self.json_line(schema);
        } else {
            self.raw(&format!("{schema:#}\n"));
        }
    }

    /// Prints raw text, such as a document: unchanged to a file, with escaped control characters on a
    /// terminal.
    pub(crate) fn raw(&mut self, text: &str) {
        let shown = if self.terminal { terminal_escape::disarm(text) } else { text.into() };
        let _ = self.stdout.write_all(shown.as_bytes());
        let _ = self.stdout.flush();
    }

    /// Prints a line that is not part of the result to standard error.
    pub(crate) fn note(&mut self, line: Arguments<'_>) {
        let line = line.to_string();
        let line = terminal_escape::disarm_line(&line);
        let line = match io::stderr().is_terminal() {
            true => wrap::wrap(&line, TerminalSize::now().width),
            false => line,
        };
        let _ = writeln!(self.stderr, "{line}");
    }

    /// Prints the error of the command: to standard error for a person, as JSON for a machine.
    pub(crate) fn print_error(&mut self, failure: &CliError) {
        if failure.is_printed {
            return;
        }
        if self.json {
            self.json_line(&failure.to_json());
            return;
        }
        self.note(format_args!("{BAD}error[{}]{BAD:#}: {}", failure.code, failure.message));
        for diagnostic in &failure.diagnostics {
            self.note(format_args!("  {diagnostic}"));
            if let Some(hint) = &diagnostic.hint {
                self.note(format_args!("    {DIM}help:{DIM:#} {hint}"));
            }
        }
        if let Some(hint) = failure.hint.as_deref().filter(|_| failure.diagnostics.is_empty()) {
            self.note(format_args!("  {DIM}help:{DIM:#} {hint}"));
        }
    }

    /// Prints diagnostics, each with the relevant part of the text.
    pub(crate) fn print_diagnostics<'d>(
        &mut self,
        file: &str,
        source: impl AsRef<[u8]>,
        diagnostics: impl IntoIterator<Item = &'d Diagnostic>,
    ) {
        let text = String::from_utf8_lossy(source.as_ref());
        let excerpts = SourceExcerpts::new(file, &text);
        for diagnostic in diagnostics {
            self.printed_codes.insert(diagnostic.code.clone());
            let rendered = excerpts.render(diagnostic, self.colored);
            self.lines(&format!("{rendered}\n"));
        }
    }

    /// Prints the command that explains the printed diagnostics.
    pub(crate) fn print_explain_hint(&mut self) {
        let codes: Vec<String> = std::mem::take(&mut self.printed_codes).into_iter().collect();
        let (Some(first), false) = (codes.first(), self.json) else { return };
        if codes.len() == 1 {
            self.line(format_args!("{DIM}`a2s explain {first}` shows details.{DIM:#}"));
            return;
        }
        let more = if codes.len() > MAX_NAMED { ", …" } else { "" };
        let named = codes[..codes.len().min(MAX_NAMED)].join(", ");
        self.line(format_args!("{DIM}`a2s explain CODE` shows details: {named}{more}{DIM:#}"));
    }
}

/// Formats a count with its noun: `1 step`, `3 steps`.
pub(crate) fn count<N>(number: N, noun: &str) -> impl Display
where
    N: Copy + Display + PartialEq + From<u8>,
{
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}
