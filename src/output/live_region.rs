//! Lines at the end of a terminal that are drawn again in place.
//!
//! The cursor stays below them, so the program leaves a complete picture, however it ends.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anstream::adapter::strip_str;
use console::{Term, measure_text_width};

use super::{CommandOutput, terminal_escape};

/// The rows and columns of a terminal that does not report its size.
const DEFAULT_SIZE: (u16, u16) = (24, 80);

/// The region with the lines that were written last.
#[derive(Debug, Default)]
pub(crate) struct LiveRegion {
    /// The number of columns of each line.
    widths: Vec<usize>,
}

/// The size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    /// The number of visible lines.
    pub(crate) height: usize,
    /// The number of usable columns: the last column is not used, because terminals differ there.
    pub(crate) width: usize,
}

impl TerminalSize {
    /// Returns the current size of the terminal.
    pub(crate) fn now() -> Self {
        let (rows, columns) = Term::stdout().size_checked().unwrap_or(DEFAULT_SIZE);
        Self {
            height: usize::from(rows.saturating_sub(1)),
            width: usize::from(columns.saturating_sub(1)),
        }
    }
}

impl CommandOutput {
    /// Returns true when lines can be drawn again: a person watches, on a terminal that has a cursor to
    /// move.
    pub(crate) fn is_live(&self) -> bool {
        let named = std::env::var_os("TERM");
        self.is_terminal() && named.is_some_and(|name| !name.is_empty() && name != "dumb")
    }
}

impl LiveRegion {
    /// Writes lines in place of those before.
    pub(crate) fn paint(
        &mut self,
        lines: &[String],
        size: TerminalSize,
        output: &mut CommandOutput,
    ) {
        let shown: Vec<_> = lines.iter().map(|line| terminal_escape::disarm_line(line)).collect();
        let mut text = self.go_back(size);
        for line in &shown {
            let line = if output.colored { line.to_string() } else { strip_str(line).to_string() };
            // Writing to a string never fails.
            let _ = writeln!(text, "{line}\u{1b}[K");
        }
        text.push_str("\u{1b}[J");
        self.widths = shown.iter().map(|line| measure_text_width(line)).collect();
        output.write_to_terminal(&text);
    }

    /// Removes the lines, to free the space for other output.
    pub(crate) fn erase(&mut self, size: TerminalSize, output: &mut CommandOutput) {
        if !self.widths.is_empty() {
            let text = self.go_back(size) + "\u{1b}[J";
            self.widths.clear();
            output.write_to_terminal(&text);
        }
    }

    /// Moves the cursor to the beginning of the lines. A terminal that became narrower has wrapped them
    /// into more rows; the cursor cannot reach rows above the top of the screen.
    fn go_back(&self, size: TerminalSize) -> String {
        let columns = size.width + 1;
        let rows: usize = self.widths.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        match rows.min(size.height) {
            0 => String::new(),
            rows => format!("\r\u{1b}[{rows}A"),
        }
    }
}

impl CommandOutput {
    /// Writes text that moves the cursor. Call it only when the output is a terminal.
    fn write_to_terminal(&mut self, text: &str) {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        self.is_closed |= written.is_err();
    }
}
