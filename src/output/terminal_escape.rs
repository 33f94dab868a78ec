//! Foreign text on a terminal: its characters, without their effects.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest foreign text in a line.
const MAX_LENGTH: usize = 400;

/// Makes a text safe for a terminal: on one line, without control characters, with a limited length.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    shorten(text, MAX_LENGTH)
}

/// Makes a text safe like [`sanitize`], with at most `most` characters.
pub(crate) fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    let cut = text.char_indices().nth(most).map(|(at, _)| at);
    if cut.is_none() && !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown: String = text[..cut.unwrap_or(text.len())].chars().map(visible_char).collect();
    if cut.is_some() {
        shown.push('…');
    }
    Cow::Owned(shown)
}

/// Returns a character that is visible and has no effect.
pub(crate) fn visible_char(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        c if is_unsafe(c) => '\u{fffd}',
        c => c,
    }
}

/// Returns true when a character has an effect on a terminal or on the order of the text, or is invisible.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Escapes control characters that got into a line of this program from other sources; styles and line ends
/// stay.
pub(super) fn disarm(line: &str) -> Cow<'_, str> {
    if !line.chars().any(|c| is_unsafe(c) && c != '\n') {
        return Cow::Borrowed(line);
    }
    let mut safe = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let styled = style_length(rest);
        if styled > 0 {
            safe.push_str(&rest[..styled]);
            rest = &rest[styled..];
            continue;
        }
        safe.push(if c == '\n' { c } else { visible_char(c) });
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(safe)
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
    if !json.chars().any(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_unsafe(c) {
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
        assert_eq!(sanitize("Wetter für 東京 🌦"), "Wetter für 東京 🌦");
        assert_eq!(sanitize("a\u{1b}[2Jb\nc\td\u{7f}"), "a␛[2Jb␊c d␡");
        assert_eq!(sanitize("x\u{9b}31m\u{202e}y\u{e0041}"), "x\u{fffd}31m\u{fffd}y\u{fffd}");
        assert_eq!(shorten("äöüß", 4), "äöüß");
        assert_eq!(shorten("äöüßx", 4), "äöüß…");
    }

    #[test]
    fn styles_stay_and_other_sequences_do_not() {
        let styled = "\u{1b}[1m\u{1b}[38;5;12mgood\u{1b}[0m\nnext";
        assert_eq!(disarm(styled), styled);
        assert_eq!(disarm("\u{1b}[1mA\u{1b}[2JB\u{1b}]0;title\u{7}"), "\u{1b}[1mA␛[2JB␛]0;title␇");
        assert_eq!(disarm("\u{1b}[31"), "␛[31");
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a": "x\u{85}\u{7f}\u{202e}\u{e0041}\u{1b}é"});
        let text = value.to_string();
        let escaped = escape_json(&text);
        assert!(!escaped.chars().any(is_unsafe), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
