//! Long lines on a terminal, broken between words. Pure.

use std::borrow::Cow;

use anstream::adapter::strip_str;
use console::measure_text_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// The additional indentation of a continued line.
const HANGING_INDENT: &str = "  ";
/// The minimum width for wrapping, in columns; narrower text is hard to read.
const MIN_WIDTH: usize = 20;

/// Wraps a line into lines of at most `width` columns. Continuation lines are indented. A longer word, such
/// as a digest, is not split.
pub(super) fn wrap(line: &str, width: usize) -> Cow<'_, str> {
    if line.contains('\n') || width < MIN_WIDTH || measure_text_width(line) <= width {
        return Cow::Borrowed(line);
    }
    let plain = strip_str(line).to_string();
    let mut indent: String = plain.chars().map_while(continued_indent).collect();
    indent.push_str(HANGING_INDENT);
    if measure_text_width(&indent) * 2 > width {
        return Cow::Borrowed(line);
    }
    let text = line.trim_start_matches(' ');
    let options = Options::new(width)
        .initial_indent(&line[..line.len() - text.len()])
        .subsequent_indent(&indent)
        .break_words(false)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    Cow::Owned(textwrap::fill(text, options))
}

/// Returns the character below a character of an indentation in the next line; none after the indentation.
fn continued_indent(c: char) -> Option<char> {
    match c {
        ' ' | '└' | '─' | '╰' => Some(' '),
        '│' | '├' => Some('│'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(wrap(line, 24), expected);
    }

    #[test]
    fn lines_are_broken_between_words_and_go_on_below_their_text() {
        check("short enough", "short enough");
        check("  one two three four five six", "  one two three four\n    five six");
        check(
            "│ ├─ Compatible with: api.example.com",
            "│ ├─ Compatible with:\n│ │    api.example.com",
        );
        let digest = format!("  {}", "0".repeat(64));
        check(&digest, &digest);
        check(
            "\u{1b}[1mnot found\u{1b}[0m at that address",
            "\u{1b}[1mnot found\u{1b}[0m at that\n  address",
        );
        assert_eq!(wrap("one two three four five six", 5), "one two three four five six");
    }
}
