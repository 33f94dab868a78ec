//! Foreign text on a terminal: its characters, without their effects.

use std::borrow::Cow;
use std::fmt::Write as _;

use a2s::mark_hidden;

/// The longest foreign text in a line.
const MAX_LENGTH: usize = 400;

/// Makes a text safe for a terminal: on one line, without control characters, with a limited length.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    shorten(text, MAX_LENGTH)
}

/// Makes a text safe like [`sanitize`], with at most `most` characters.
pub(crate) fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    let cut = text.char_indices().nth(most).map(|(at, _)| at);
    if cut.is_none() && !has_hidden(text) {
        return Cow::Borrowed(text);
    }
    let mut shown: String = visible_chars(&text[..cut.unwrap_or(text.len())])
        .map(|c| if c == '\t' { ' ' } else { c })
        .collect();
    if cut.is_some() {
        shown.push('…');
    }
    Cow::Owned(shown)
}

/// Returns the characters of a text, with a picture in place of each that has an effect. Tabs stay.
pub(crate) fn visible_chars(text: &str) -> impl Iterator<Item = char> {
    mark_hidden(text).map(|(c, is_hidden)| match c {
        '\t' => c,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ if is_hidden => '\u{fffd}',
        _ => c,
    })
}

fn has_hidden(text: &str) -> bool {
    mark_hidden(text).any(|(_, is_hidden)| is_hidden)
}

/// Escapes the control characters that got into a line of this program from other sources, ends of lines
/// among them: a line stays one line. Styles stay.
pub(super) fn disarm_line(line: &str) -> Cow<'_, str> {
    if !has_hidden(line) {
        return Cow::Borrowed(line);
    }
    let mut safe = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let style = style_length(rest);
        // A text ends where the next style may begin.
        let end = || rest.char_indices().skip(1).find(|(_, c)| *c == '\u{1b}').map(|(at, _)| at);
        let end = if style > 0 { style } else { end().unwrap_or(rest.len()) };
        let (part, after) = rest.split_at(end);
        if style > 0 {
            safe.push_str(part);
        } else {
            safe.extend(visible_chars(part).map(|c| if c == '\t' { ' ' } else { c }));
        }
        rest = after;
    }
    Cow::Owned(safe)
}

/// Escapes like [`disarm_line`] a text of this program that may have several lines.
pub(super) fn disarm(text: &str) -> Cow<'_, str> {
    if !text.contains('\n') {
        return disarm_line(text);
    }
    let lines: Vec<_> = text.split('\n').map(disarm_line).collect();
    Cow::Owned(lines.join("\n"))
}

/// Returns the length of the escape sequence at the start of a text, if it only sets a style.
fn style_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    match rest.find(|c: char| !(c.is_ascii_digit() || c == ';')) {
        Some(end) if rest[end..].starts_with('m') => 2 + end + 1,
        _ => 0,
    }
}

/// Escapes every control character in JSON; the meaning of the JSON stays the same.
pub(super) fn escape_json(json: &str) -> Cow<'_, str> {
    if !has_hidden(json) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for (c, is_hidden) in mark_hidden(json) {
        if is_hidden {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string never fails.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_and_does_nothing() {
        assert_eq!(sanitize("Wetter für 東京 🌦\u{fe0f}"), "Wetter für 東京 🌦\u{fe0f}");
        assert_eq!(sanitize("a\u{1b}[2Jb\nc\td\u{7f}"), "a␛[2Jb␊c d␡");
        assert_eq!(sanitize("x\u{9b}31m\u{202e}y\u{e0041}"), "x\u{fffd}31m\u{fffd}y\u{fffd}");
        assert_eq!(sanitize("x\u{e0165}\u{3164}\u{ad}"), "x\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(shorten("äöüß", 4), "äöüß");
        assert_eq!(shorten("äöüßx", 4), "äöüß…");
    }

    #[test]
    fn styles_stay_and_other_sequences_do_not() {
        let styled = "\u{1b}[1m\u{1b}[38;5;12mgood\u{1b}[0m\nnext";
        assert_eq!(disarm(styled), styled);
        assert_eq!(disarm("\u{1b}[1mA\u{1b}[2JB\u{1b}]0;title\u{7}"), "\u{1b}[1mA␛[2JB␛]0;title␇");
        assert_eq!(disarm("\u{1b}[31"), "␛[31");
        assert_eq!(disarm_line("\u{1b}[1mA\u{1b}[0m\r\n0.99\tB"), "\u{1b}[1mA\u{1b}[0m␍␊0.99 B");
    }

    #[test]
    fn json_means_the_same() {
        let value =
            serde_json::json!({"a": "x\u{85}\u{7f}\u{202e}\u{e0041}\u{1b}é🌦\u{fe0f}\u{ad}"});
        let text = value.to_string();
        let escaped = escape_json(&text);
        assert!(!has_hidden(&escaped), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
