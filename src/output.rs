//! What a person or a machine reads on standard output and standard error.

use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal as _, Write as _};

use a2s::{Diagnostic, Severity};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::Color;
use crate::failure::Failure;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// Where a command prints.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: AutoStream<io::Stdout>,
    stderr: AutoStream<io::Stderr>,
    json: bool,
    colored: bool,
    terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool, color: Color) -> Self {
        let choice = match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        let stdout = AutoStream::new(io::stdout(), choice);
        let colored = !matches!(stdout.current_choice(), ColorChoice::Never);
        let stderr = AutoStream::new(io::stderr(), choice);
        Self { stdout, stderr, json, colored, terminal: io::stdout().is_terminal() }
    }

    /// Whether JSON is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person watches.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal && !self.json
    }

    /// Prints a line for a person. A reader that went away (`| head`) is no error.
    pub(crate) fn line(&mut self, line: Arguments<'_>) {
        let _ = writeln!(self.stdout, "{line}");
        let _ = self.stdout.flush();
    }

    /// Prints one JSON value on a line of its own.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(format_args!("{text}")),
            Err(error) => self.note(format_args!("cannot print the answer as JSON: {error}")),
        }
    }

    /// Prints raw text, such as a document.
    pub(crate) fn raw(&mut self, text: &str) {
        let _ = self.stdout.write_all(text.as_bytes());
        let _ = self.stdout.flush();
    }

    /// Prints a line that is no result on standard error.
    pub(crate) fn note(&mut self, line: Arguments<'_>) {
        let _ = writeln!(self.stderr, "{line}");
    }

    /// Says why the command ends badly: on standard error for a person, as JSON for a machine.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if failure.told {
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

    /// Prints a diagnostic with the part of the text it is about.
    pub(crate) fn diagnostic(&mut self, file: &str, text: &str, diagnostic: &Diagnostic) {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(&diagnostic.message).id(&diagnostic.code);
        let mut group = Group::with_title(title);
        if diagnostic.position.line > 0 {
            let span = span_of(text, diagnostic);
            group = group.element(
                Snippet::source(text)
                    .path(file)
                    .annotation(AnnotationKind::Primary.span(span).label(&diagnostic.path)),
            );
        }
        if let Some(hint) = &diagnostic.hint {
            group = group.element(Level::HELP.message(hint));
        }
        let renderer = if self.colored { Renderer::styled() } else { Renderer::plain() };
        let rendered = renderer.render(&[group]);
        self.line(format_args!("{rendered}\n"));
    }
}

/// The bytes of the word at the place of a diagnostic, or of the rest of the line.
fn span_of(text: &str, diagnostic: &Diagnostic) -> std::ops::Range<usize> {
    let start_of_line: usize = text
        .split_inclusive('\n')
        .take(diagnostic.position.line.saturating_sub(1))
        .map(str::len)
        .sum();
    let line = text[start_of_line..].lines().next().unwrap_or_default();
    let column = diagnostic.position.column.saturating_sub(1);
    let within = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let rest = &line[within..];
    let end = match rest.find(": ") {
        Some(colon) if !rest.starts_with(['"', '\'', '{', '[']) => colon,
        _ => rest.trim_end().trim_end_matches(':').len(),
    };
    let start = start_of_line + within;
    start..start + end.max(usize::from(!rest.is_empty()))
}

/// A count with its noun: `1 step`, `3 steps`.
pub(crate) fn count(number: usize, noun: &str) -> impl Display {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}
