//! Rows below headings.

use console::{measure_text_width, truncate_str};

use super::{CommandOutput, DIM, TerminalSize};

/// The number of columns between two cells.
const GAP: usize = 2;

impl CommandOutput {
    /// Prints rows with aligned cells, and with a heading when a person watches. A row may have fewer cells
    /// than there are headings. On a terminal, text without space at the end is cut.
    pub(crate) fn table<const N: usize>(&mut self, headings: [&str; N], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let mut widths = headings.map(|heading| if self.is_terminal() { heading.len() } else { 0 });
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        if self.is_terminal() {
            let cells = headings.map(str::to_owned).to_vec();
            self.line(format_args!("{DIM}{}{DIM:#}", join(&cells, &widths)));
        }
        let room = if self.is_terminal() { TerminalSize::now().width } else { usize::MAX };
        for row in rows {
            let line = join(row, &widths);
            self.line(format_args!("{}", truncate_str(&line, room, "…")));
        }
    }
}

/// Joins the cells of a row, with padding except after the last cell that is not empty.
fn join(cells: &[String], widths: &[usize]) -> String {
    let last = cells.iter().rposition(|cell| measure_text_width(cell) > 0).unwrap_or(0);
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate().take(last + 1) {
        line.push_str(cell);
        if at < last {
            let filled = measure_text_width(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(filled) + GAP));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_one_another_whatever_their_style() {
        let widths = [5, 3, 4];
        let row = |cells: [&str; 3]| join(&cells.map(str::to_owned), &widths);
        assert_eq!(row(["one", "two", "x"]), "one    two  x");
        assert_eq!(row(["\u{1b}[1mone\u{1b}[0m", "", "x"]), "\u{1b}[1mone\u{1b}[0m         x");
        assert_eq!(row(["one", "", "\u{1b}[1m\u{1b}[0m"]), "one");
    }
}
