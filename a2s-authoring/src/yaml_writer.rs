//! A JSON value as YAML that people like to read.

use std::fmt::Write as _;

use a2s::tree;
use serde_json::Value;

/// Writes `value` as YAML 1.2 in block style, its members in their order.
///
/// Text of several lines becomes a block where that is exact, and a string is quoted where a reader
/// of YAML 1.2 or 1.1 would take it for something else.
///
/// Reading the text gives the value again, for every value that a document may hold. A value that
/// no document may hold is written as JSON.
///
/// ```
/// let value = serde_json::json!({"steps": [{"id": "a", "on": "no", "text": "one\ntwo\n"}]});
/// let text = a2s_authoring::write_yaml(&value);
/// assert_eq!(text, "steps:\n  - id: a\n    \"on\": \"no\"\n    text: |\n      one\n      two\n");
/// assert_eq!(a2s::parse_value(text.as_bytes()), Ok(value));
/// ```
#[must_use]
pub fn write_yaml(value: &Value) -> String {
    match block_style(value).filter(|text| reads_as(text, value)) {
        Some(text) => text,
        None => write_json(value),
    }
}

/// Writes `value` as JSON, one member per line.
#[must_use]
pub fn write_json(value: &Value) -> String {
    // `{:#}` of a `Value` is indented JSON and cannot fail. Such characters occur only in strings;
    // YAML, which also reads JSON, rejects them raw.
    let unprintable =
        |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}');
    let mut text = String::new();
    for c in format!("{value:#}\n").chars() {
        if unprintable(c) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

fn block_style(value: &Value) -> Option<String> {
    let options = serde_saphyr::ser_options! {
        indent_step: 2,
        compact_list_indent: false,
        // Folding would break long lines at spaces; the text stays as it is.
        min_fold_chars: usize::MAX,
        folded_wrap_chars: usize::MAX,
    };
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, value, options).ok()?;
    // Blank lines of a text get its indentation, which is invisible.
    let is_blank = |line: &str| line.ends_with(' ') && line.trim().is_empty();
    if text.lines().any(is_blank) {
        let bare = |line| if is_blank(line) { "" } else { line };
        let trimmed = text.lines().map(bare).collect::<Vec<_>>().join("\n") + "\n";
        if reads_as(&trimmed, value) {
            return Some(trimmed);
        }
    }
    Some(text)
}

/// Returns true when `text` parses to `value`, apart from the size limits of documents.
fn reads_as(text: &str, value: &Value) -> bool {
    match tree::parse_tree(text.as_bytes()) {
        (Some(root), diagnostics) => diagnostics.is_empty() && root.to_value() == *value,
        // Larger than a document may be: nothing to compare with.
        (None, diagnostics) => diagnostics.iter().all(|d| d.code == a2s::error_code::TOO_LARGE.id),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    /// Strings out of the pieces that make YAML hard.
    fn text() -> impl Strategy<Value = String> {
        let pieces = [
            "yes",
            "No",
            "on",
            "null",
            "~",
            "true",
            "1:30",
            "017",
            "0x1F",
            "1.0",
            "1e3",
            ".5",
            "<<",
            "=",
            "2001-01-01",
            "-",
            "?",
            ":",
            ": ",
            " #",
            "#",
            "&a",
            "*a",
            "!t",
            "%d",
            "@",
            "`",
            "|",
            ">",
            "'",
            "\"",
            "\\",
            "{",
            "}",
            "[",
            "]",
            ",",
            "${x}",
            "---",
            "...",
            " ",
            "  ",
            "\t",
            "\n",
            "\n\n",
            "\r",
            "\r\n",
            "a",
            "b c",
            "é",
            "😀",
            "\u{85}",
            "\u{a0}",
            "\u{2028}",
            "\u{feff}",
            "\u{7f}",
            "\u{1}",
            "\u{fffe}",
            "$.data[0].id",
            "long words and more words ",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..6)
            .prop_map(|pieces| pieces.concat())
    }

    fn value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-(1i64 << 53) + 1..1 << 53).prop_map(Value::from),
            (-1e6..1e6f64).prop_map(Value::from),
            any::<f64>()
                .prop_filter("no document holds it", |f| f.is_finite()
                    && (f.fract() != 0.0 || f.abs() < 1e15))
                .prop_map(Value::from),
            text().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((text(), inner), 0..5)
                    .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_reads_as_the_value(value in value()) {
            let text = write_yaml(&value);
            prop_assert_eq!(a2s::parse_value(text.as_bytes()), Ok(value.clone()), "{}", text);
            prop_assert_eq!(a2s::parse_value(write_json(&value).as_bytes()), Ok(value));
        }

        #[test]
        fn block_style_itself_is_exact(value in value()) {
            let text = block_style(&value);
            prop_assert!(text.as_deref().is_some_and(|text| reads_as(text, &value)), "{:?}", text);
        }
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        for text in ["yes", "no", "on", "Off", "1:30", "017", "1.0", "2001-01-01", "null", "~", ""]
        {
            let written = write_yaml(&json!({ "a": text }));
            assert!(written.starts_with("a: \"") || written.starts_with("a: '"), "{written}");
        }
        for text in ["a b", "$.data[0].id", "/breeds/{id}", "it's", "sha256:00ff", "a-b"] {
            assert_eq!(write_yaml(&json!({ "a": text })), format!("a: {text}\n"));
        }
    }

    #[test]
    fn blank_lines_are_blank() {
        assert_eq!(write_yaml(&json!({"a": "b\n\nc\n"})), "a: |\n  b\n\n  c\n");
    }

    #[test]
    fn long_lines_stay_whole() {
        let long = "word ".repeat(60) + "end";
        assert!(write_yaml(&json!({ "a": long })).contains(&long));
    }
}
