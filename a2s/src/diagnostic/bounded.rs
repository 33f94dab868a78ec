//! A list of diagnostics that stays small whatever the document is.

use super::{Diagnostic, DiagnosticSeverity};
use crate::error_code;

/// The most diagnostics of one document, not counting the one that reports the number of further ones.
pub(crate) const MAX_DIAGNOSTICS: usize = 100;
/// The maximum size of the diagnostics of one document as JSON, in bytes.
const MAX_JSON_BYTES: usize = 200 << 10;
/// The maximum length of a message and of a hint, in characters.
const MAX_MESSAGE_CHARS: usize = 1_000;
/// The maximum number of segments of a path that are shown in full.
const MAX_SEGMENTS: usize = 40;
/// The maximum length of one name in a path, in characters.
pub(crate) const MAX_NAME_CHARS: usize = 100;
/// The maximum length of a path, in characters.
const MAX_PATH_CHARS: usize = 1_000;

/// The diagnostics of one document: the first ones in full, the others only as a count.
///
/// When the list is full, an error replaces a warning. So a list without errors means a document without
/// errors.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticList {
    kept: Vec<Diagnostic>,
    json_bytes: usize,
    errors: usize,
    dropped_errors: usize,
    dropped_warnings: usize,
}

impl DiagnosticList {
    /// Adds a diagnostic, or counts it when the list is full.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let is_error = diagnostic.is_error();
        let diagnostic = bounded(diagnostic);
        let bytes = json_bytes(&diagnostic);
        while is_error && !self.has_room(bytes) && self.drop_warning() {}
        if self.has_room(bytes) {
            self.errors += usize::from(is_error);
            self.json_bytes += bytes;
            self.kept.push(diagnostic);
        } else if is_error {
            self.count_error();
        } else {
            self.dropped_warnings += 1;
        }
    }

    /// Counts an error that does not fit into the list. Checks call it when [`Self::is_full`] returns true
    /// and the message alone is expensive.
    pub(crate) fn count_error(&mut self) {
        self.errors += 1;
        self.dropped_errors += 1;
    }

    /// Returns true when the list does not take further errors.
    pub(crate) fn is_full(&self) -> bool {
        self.dropped_errors > 0
    }

    /// Returns the number of errors so far, listed or not.
    pub(crate) fn error_count(&self) -> usize {
        self.errors
    }

    /// Returns true when the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.dropped_errors + self.dropped_warnings == 0
    }

    /// Returns the listed diagnostics.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }

    /// Returns the listed diagnostics, so that the caller can complete them.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Diagnostic> {
        self.kept.iter_mut()
    }

    /// The listed diagnostics in the order of the text, and one that reports the number of further ones.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.kept.sort_by(|a, b| a.position.cmp(&b.position).then(a.code.cmp(&b.code)));
        self.kept.dedup();
        self.into_vec()
    }

    /// The listed diagnostics in the order of their discovery, and one that reports the number of further
    /// ones.
    pub(crate) fn into_vec(mut self) -> Vec<Diagnostic> {
        let more = match (self.dropped_errors, self.dropped_warnings) {
            (0, 0) => return self.kept,
            (errors, 0) => format!("and {errors} more errors"),
            (0, warnings) => format!("and {warnings} more warnings"),
            (errors, warnings) => format!("and {errors} more errors and {warnings} more warnings"),
        };
        let position = self.kept.last().map(|last| last.position).unwrap_or_default();
        let last = Diagnostic::error(error_code::TOO_MANY_FINDINGS, ("", position), more);
        self.kept.push(if self.dropped_errors > 0 { last } else { last.into_warning() });
        self.kept
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.kept.len() < MAX_DIAGNOSTICS && self.json_bytes + bytes <= MAX_JSON_BYTES
    }

    /// Drops the last warning. Returns true when there was one.
    fn drop_warning(&mut self) -> bool {
        let last =
            self.kept.iter().rposition(|known| known.severity == DiagnosticSeverity::Warning);
        let Some(last) = last else { return false };
        let warning = self.kept.remove(last);
        self.json_bytes = self.json_bytes.saturating_sub(json_bytes(&warning));
        self.dropped_warnings += 1;
        true
    }
}

impl From<Diagnostic> for DiagnosticList {
    fn from(diagnostic: Diagnostic) -> Self {
        let mut one = Self::default();
        one.push(diagnostic);
        one
    }
}

/// Shortens every text of a diagnostic to its maximum length.
fn bounded(mut diagnostic: Diagnostic) -> Diagnostic {
    cut(&mut diagnostic.message, MAX_MESSAGE_CHARS);
    if let Some(hint) = &mut diagnostic.hint {
        cut(hint, MAX_MESSAGE_CHARS);
    }
    for related in &mut diagnostic.related {
        cut(&mut related.message, MAX_MESSAGE_CHARS / 4);
    }
    if let Some(path) = cut_path(&diagnostic.path) {
        diagnostic.path = path;
    }
    diagnostic
}

/// Shortens `text` to `limit` characters.
fn cut(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    if let Some((end, _)) = text.char_indices().nth(limit) {
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
}

/// Returns `path` without its middle when it has too many segments or characters, otherwise `None`.
fn cut_path(path: &str) -> Option<String> {
    let starts: Vec<usize> = path.match_indices(['.', '[']).map(|(at, _)| at).collect();
    if starts.len() < MAX_SEGMENTS && path.len() <= MAX_PATH_CHARS {
        return None;
    }
    let beginning = starts.get(MAX_SEGMENTS / 2).copied().unwrap_or(path.len());
    let end = starts.len().saturating_sub(MAX_SEGMENTS / 4).max(MAX_SEGMENTS / 2);
    let mut beginning = path[..beginning].to_owned();
    let mut end = starts.get(end).map_or("", |at| &path[*at..]).to_owned();
    cut(&mut beginning, MAX_PATH_CHARS / 2);
    cut(&mut end, MAX_PATH_CHARS / 4);
    if end.is_empty() && beginning.len() == path.len() {
        return None;
    }
    if beginning.ends_with('…') || end.is_empty() {
        return Some(beginning + &end);
    }
    Some(format!("{beginning}…{end}"))
}

/// Returns the maximum size of the diagnostic as JSON, in bytes.
fn json_bytes(diagnostic: &Diagnostic) -> usize {
    let escaped = |text: &str| {
        text.bytes()
            .map(|byte| match byte {
                b'"' | b'\\' => 2,
                0..0x20 => 6,
                _ => 1,
            })
            .sum::<usize>()
    };
    let related: usize = diagnostic.related.iter().map(|one| escaped(&one.message) + 60).sum();
    escaped(&diagnostic.message)
        + escaped(&diagnostic.path)
        + diagnostic.hint.as_deref().map_or(0, escaped)
        + related
        + 160
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::SourcePosition;

    fn finding(n: usize) -> Diagnostic {
        let position = SourcePosition { line: n, column: 1 };
        Diagnostic::error(
            error_code::BAD_VALUE,
            (format!("a[{n}]"), position),
            format!("wrong {n}"),
        )
    }

    #[test]
    fn the_first_hundred_are_listed_and_the_others_counted() {
        let mut found = DiagnosticList::default();
        (1..=150).for_each(|n| found.push(finding(n)));
        assert!(found.is_full() && found.error_count() == 150);
        let listed = found.into_sorted();
        assert_eq!(listed.len(), MAX_DIAGNOSTICS + 1);
        assert_eq!(listed[100].message, "and 50 more errors");
        assert!(listed[100].is_error() && listed[100].code == "A2S008");
    }

    #[test]
    fn an_error_takes_the_place_of_a_warning() {
        let mut found = DiagnosticList::default();
        (1..=120).for_each(|n| found.push(finding(n).into_warning()));
        found.push(finding(500));
        let listed = found.into_sorted();
        assert!(listed.iter().any(|one| one.is_error() && one.message == "wrong 500"));
        assert_eq!(listed[100].message, "and 21 more warnings");
        assert!(!listed[100].is_error());
    }

    #[test]
    fn messages_and_paths_are_cut_and_the_whole_is_bounded() {
        let mut found = DiagnosticList::default();
        for n in 0..200 {
            let path = (0..64).map(|_| format!("[{:?}]", "é".repeat(100))).collect::<String>();
            let message = "\u{1}".repeat(100_000);
            let position = SourcePosition { line: n, column: 1 };
            found.push(Diagnostic::error(error_code::BAD_VALUE, (path, position), message));
        }
        let listed = found.into_sorted();
        assert!(listed.iter().all(|one| one.message.chars().count() <= MAX_MESSAGE_CHARS + 1));
        assert!(listed.iter().all(|one| one.path.chars().count() <= MAX_PATH_CHARS));
        assert!(serde_json::to_vec(&listed).unwrap().len() <= 256 << 10);
        assert!(listed.last().unwrap().message.starts_with("and "));
    }
}
