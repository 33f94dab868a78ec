//! A remark about a text, with the part of the text that it is about.

use std::ops::Range;

use a2s::{Diagnostic, DiagnosticSeverity, SourcePosition};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::terminal_escape::{sanitize, shorten, visible_chars};

/// The maximum number of shown characters of a line.
const MAX_SHOWN: usize = 120;
/// The most characters of a line before the marked location.
const MAX_BEFORE: usize = 40;
/// The longest path that is shown next to a location.
const MAX_LABEL: usize = 80;
/// The maximum number of lines that are searched for the end of a multi-line text.
const MAX_BLOCK: usize = 400;
/// The distance, in lines, up to which a line next to a shown line is shown, too.
const NEAR: usize = 1;

/// A text, for excerpts in diagnostics.
pub(crate) struct SourceExcerpts<'t> {
    file: String,
    lines: Vec<&'t str>,
}

/// A part of a line, in characters from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineSpan {
    line: usize,
    columns: Range<usize>,
}

impl<'t> SourceExcerpts<'t> {
    /// Splits `text`, which came from `file`, into lines.
    pub(crate) fn new(file: &str, text: &'t str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        Self { file: sanitize(file).into_owned(), lines: lines.collect() }
    }

    /// Formats the diagnostic for a person.
    pub(crate) fn render(&self, diagnostic: &Diagnostic, colored: bool) -> String {
        let level = match diagnostic.severity {
            DiagnosticSeverity::Error => Level::ERROR,
            DiagnosticSeverity::Warning => Level::WARNING,
        };
        let title =
            level.primary_title(sanitize(&diagnostic.message)).id(sanitize(&diagnostic.code));
        let mut group = Group::with_title(title);
        let (mut marks, mut is_whole) = (Vec::new(), true);
        if let Some(place) = self.find_span(diagnostic) {
            let (line, column) = (place.line + 1, place.columns.start + 1);
            marks.push((place, AnnotationKind::Primary, shorten(&diagnostic.path, MAX_LABEL)));
            for related in &diagnostic.related {
                let Some(place) = self.word_at(related.position) else { continue };
                marks.push((place, AnnotationKind::Context, shorten(&related.message, MAX_LABEL)));
            }
            let (first, source, spans) = self.cut_lines(marks.iter().map(|(place, ..)| place));
            is_whole = marks.iter().all(|(place, ..)| !self.is_long(place.line));
            let annotations = marks
                .iter()
                .zip(spans)
                .map(|((_, kind, label), span)| kind.span(span).label(label.as_ref()));
            let snippet = Snippet::source(source).line_start(first + 1).annotations(annotations);
            group = if is_whole {
                group.element(snippet.path(self.file.as_str()))
            } else {
                // The column is that in the file, not that in the part of the line.
                let origin = Origin::path(self.file.as_str()).line(line).char_column(column);
                group.element(origin).element(snippet)
            };
        }
        if let Some(hint) = &diagnostic.hint {
            group = group.element(Level::HELP.message(sanitize(hint)));
        }
        let renderer = if colored { Renderer::styled() } else { Renderer::plain() };
        let rendered = renderer.render(&[group]);
        if is_whole { rendered } else { without_second_origin(&rendered) }
    }

    /// Returns the exact span: the template that the message is about, or else the word at this position.
    fn find_span(&self, diagnostic: &Diagnostic) -> Option<LineSpan> {
        let word = self.word_at(diagnostic.position)?;
        Some(self.find_template(&word, &diagnostic.message).unwrap_or(word))
    }

    /// Returns the scalar or key that begins at a position, or the rest of a list or mapping.
    fn word_at(&self, position: SourcePosition) -> Option<LineSpan> {
        let line = position.line.checked_sub(1)?;
        let text = *self.lines.get(line)?;
        let column = position.column.saturating_sub(1).min(text.chars().count());
        let (before, rest) = split_at(text, column);
        let length = word_length(rest, is_in_flow(before)).max(1);
        Some(LineSpan { line, columns: column..column + length })
    }

    /// Finds the template that a message names in backticks, at or after `start`: in the same line, or in
    /// the lines of a block below it.
    fn find_template(&self, start: &LineSpan, message: &str) -> Option<LineSpan> {
        let named = message.split_once("`${")?.1.split_once('`')?.0;
        let named = named.strip_suffix('}').unwrap_or(named).trim();
        let indent = |line: &str| line.chars().take_while(|c| *c == ' ').count();
        let own = indent(self.lines.get(start.line)?);
        for (index, text) in self.lines.iter().enumerate().skip(start.line).take(MAX_BLOCK) {
            let (mut column, mut rest) = (0, *text);
            if index == start.line {
                let (before, behind) = split_at(text, start.columns.start);
                column = before.chars().count();
                rest = split_at(behind, start.columns.len()).0;
            } else if !text.trim().is_empty() && indent(text) <= own {
                return None;
            }
            while let Some(at) = rest.find("${") {
                column += rest[..at].chars().count();
                rest = &rest[at..];
                let inside = rest[2..].split_once('}').map(|(inside, _)| inside);
                let found = inside.map_or("", str::trim);
                // An unclosed template has no name: the rest of the word is wrong.
                let closed = if named.is_empty() { inside.is_none() } else { found == named };
                if closed {
                    let length = match inside {
                        Some(inside) => inside.chars().count() + 3,
                        None => rest.trim_end_matches(['"', '\'']).chars().count(),
                    };
                    return Some(LineSpan { line: index, columns: column..column + length });
                }
                column += 2;
                rest = &rest[2..];
            }
        }
        None
    }

    /// Returns the lines from the first to the last of `places`, each cut around its location, and the
    /// locations in the result. Lines without a remark are left empty: they are not shown.
    fn cut_lines<'p>(
        &self,
        places: impl Iterator<Item = &'p LineSpan> + Clone,
    ) -> (usize, String, Vec<Range<usize>>) {
        let first = places.clone().map(|place| place.line).min().unwrap_or(0);
        let last = places.clone().map(|place| place.line).max().unwrap_or(0);
        let mut source = String::new();
        let mut starts = Vec::new();
        for line in first..=last {
            // One line has one window, around its first place.
            let own = places.clone().filter(|place| place.line == line);
            let from = own.map(|place| place.columns.start).min();
            let near = places.clone().any(|place| place.line.abs_diff(line) <= NEAR);
            let start = source.len();
            let window = match from {
                Some(column) => self.window(line, column, &mut source),
                None if near => self.window(line, 0, &mut source),
                None => 0..0,
            };
            source.push('\n');
            starts.push((start, window));
        }
        let spans = places
            .map(|place| {
                let (start, window) = &starts[place.line - first];
                let line = &source[*start..];
                let line = line.split_once('\n').map_or(line, |(line, _)| line);
                // The mark of the text cut off in front is a character too.
                let cut = usize::from(window.start > 0);
                let byte = |column: usize| {
                    let column = column.clamp(window.start, window.end) - window.start + cut;
                    start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
                };
                let span = byte(place.columns.start)..byte(place.columns.end);
                // There is something to point at even where a line is empty.
                span.start..span.end.max(span.start)
            })
            .collect();
        (first, source, spans)
    }

    fn is_long(&self, line: usize) -> bool {
        self.lines.get(line).is_some_and(|line| line.chars().nth(MAX_SHOWN).is_some())
    }

    /// Writes the part of a line around `column`, and returns the range of this part.
    fn window(&self, line: usize, column: usize, source: &mut String) -> Range<usize> {
        let Some(text) = self.lines.get(line) else { return 0..0 };
        let mut letters = visible_chars(text);
        let from = if self.is_long(line) { column.saturating_sub(MAX_BEFORE) } else { 0 };
        if from > 0 {
            letters.nth(from - 1);
            source.push('…');
        }
        let mut shown = 0;
        for letter in letters.by_ref().take(MAX_SHOWN) {
            // Tabs get their width when the excerpt is laid out.
            source.push(letter);
            shown += 1;
        }
        if letters.next().is_some() {
            source.push('…');
        }
        from..from + shown
    }
}

/// Removes the line with the origin of a snippet without a file from an excerpt.
fn without_second_origin(rendered: &str) -> String {
    let is_origin = |line: &&str| anstream::adapter::strip_str(line).to_string().trim() == ":::";
    rendered.lines().filter(|line| !is_origin(line)).collect::<Vec<_>>().join("\n")
}

/// Splits a text before a character.
fn split_at(text: &str, column: usize) -> (&str, &str) {
    text.split_at(text.char_indices().nth(column).map_or(text.len(), |(at, _)| at))
}

/// Returns true when a location is inside `{}` or `[]`, by the text before it on its line.
fn is_in_flow(before: &str) -> bool {
    let mut depth = 0_usize;
    let mut quote = None;
    for c in before.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth > 0
}

/// Returns the length of the scalar, key, list or mapping at the start of `rest`, in characters.
fn word_length(rest: &str, in_flow: bool) -> usize {
    let letters = || rest.chars();
    let end = match letters().next() {
        None => return 0,
        Some('"') => {
            let mut escaped = false;
            letters().skip(1).position(|c| {
                let closes = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            })
        }
        Some('\'') => letters().skip(1).position(|c| c == '\''),
        Some(open @ ('{' | '[')) => {
            let close = if open == '{' { '}' } else { ']' };
            let mut depth = 0_usize;
            letters().skip(1).position(|c| {
                if c == close && depth == 0 {
                    return true;
                }
                depth += usize::from(c == open);
                depth -= usize::from(c == close);
                false
            })
        }
        Some(_) => {
            let bytes = rest.char_indices().find(|&(at, c)| {
                let after = rest[at + c.len_utf8()..].chars().next();
                let ends = after.is_none_or(char::is_whitespace);
                match c {
                    ':' => ends || in_flow && after == Some(','),
                    ',' | '}' | ']' => in_flow,
                    ' ' | '\t' => after == Some('#'),
                    _ => false,
                }
            });
            let word = &rest[..bytes.map_or(rest.len(), |(at, _)| at)];
            return word.trim_end().chars().count();
        }
    };
    end.map_or_else(|| rest.trim_end().chars().count(), |end| end + 2)
}

#[cfg(test)]
mod tests;
