//! JSON texts of services, read with more tolerance than the standard asks for.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// The replacement of a lone surrogate; it has the length of the escape.
const REPLACEMENT: &[u8] = br"\ufffd";

/// Reads a JSON text, with or without a byte order mark. Half of a surrogate pair, which services write
/// that cut texts by UTF-16 units (RFC 8259, section 8.2), becomes U+FFFD.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let text = without_mark(text);
    serde_json::from_slice(text).or_else(|error| match replace_lone_surrogates(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(replaced) => serde_json::from_slice(&replaced),
    })
}

/// Returns true when a JSON text contains half of a surrogate pair.
pub(crate) fn has_lone_surrogate(text: &[u8]) -> bool {
    matches!(replace_lone_surrogates(text), Cow::Owned(_))
}

fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Replaces the escapes of lone surrogates. A backslash occurs only inside strings of JSON.
fn replace_lone_surrogates(text: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += found;
        let unit = |at: usize| escaped_unit(text.get(at..)?);
        at += match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                if let Some(escape) = replaced.to_mut().get_mut(at..at + 6) {
                    escape.copy_from_slice(REPLACEMENT);
                }
                6
            }
            Some(_) => 6,
            // A backslash and the character that it escapes.
            None => 2,
        };
    }
    replaced
}

/// Returns the UTF-16 unit of an escape such as `\ud83d` at the start of a text.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (text, expected) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\uDE00x""#, "\u{fffd}x"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\\ud83d\ude00""#, "\\ud83d\u{fffd}"),
            (r#""\\\ud83d""#, "\\\u{fffd}"),
        ] {
            assert_eq!(parse_json::<Value>(text.as_bytes()).unwrap(), json!(expected), "{text}");
            assert!(has_lone_surrogate(text.as_bytes()), "{text}");
        }
        for text in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00fc""#, "\"\u{feff}\""] {
            assert!(!has_lone_surrogate(text.as_bytes()), "{text}");
        }
        assert_eq!(parse_json::<Value>(b"\xef\xbb\xbf{}").unwrap(), json!({}));
    }

    #[test]
    fn other_errors_stay() {
        for text in [r#"{"a": NaN}"#, "1e400", r#""\ud83""#, r#""\ud83d"#, "\"\\", r#"\ud83d"#] {
            assert!(parse_json::<Value>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
