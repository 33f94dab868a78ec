//! The layout of documents: stable, with every comment, and never another content.

mod order;

use a2s::{Diagnostic, tree};
use serde_json::Value;

use super::yaml_writer::write_json;

/// The maximum width of a list or mapping in flow style, in characters.
const WIDTH: usize = 100;
/// The maximum number of formatting rounds. A layout that still changes after them is an error.
const ROUNDS: usize = 6;
/// The stack size of the formatter, in bytes. The formatter recurses for each level of nesting.
const STACK: usize = 16 << 20;

/// The reason why a document was not formatted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The text is not a document; contains its diagnostics.
    #[error("the text cannot be parsed")]
    Unreadable(Vec<Diagnostic>),
    /// The compiler can read the document, but the formatter cannot.
    #[error("the layout cannot be formatted: {0}")]
    NotUnderstood(String),
    /// The formatted text would have another meaning, so it is not used.
    #[error("formatting would change the content of the document")]
    WouldChange,
    /// The text still changes after many rounds of formatting.
    #[error("the layout keeps changing on repeated formatting")]
    Unstable,
}

/// Formats a document: indentation, blank lines and quotes in one style, fields in the order of the
/// language.
///
/// Comments stay next to the lines that they belong to, and JSON stays JSON. The function compares the
/// content before it returns the text, so the checksum is the same.
///
/// # Errors
/// Fails when the text cannot be read, or when the layout cannot be changed without changing the content.
pub fn format_document(source: &[u8]) -> Result<String, FormatError> {
    let content = match tree::parse_tree(source) {
        (Some(root), diagnostics) if diagnostics.is_empty() => root.to_value(),
        (_, diagnostics) => return Err(FormatError::Unreadable(diagnostics)),
    };
    let text = String::from_utf8_lossy(source).replace("\r\n", "\n");
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') && serde_json::from_str::<Value>(text).is_ok() {
        return Ok(write_json(&order::order_value(content)));
    }
    let mut last = text.to_owned();
    for _ in 0..ROUNDS {
        let next = format_layout(&last, &content)?;
        if next == last {
            return Ok(next);
        }
        last = next;
    }
    Err(FormatError::Unstable)
}

fn format_layout(text: &str, content: &Value) -> Result<String, FormatError> {
    let ordered = order::order_lines(text).filter(|ordered| has_content(ordered, content));
    // Fields stay where they are when their order means something, as it does with aliases.
    let text = ordered.as_deref().unwrap_or(text);
    let options = options();
    let formatted = stacker::grow(STACK, || pretty_yaml::format_text(text, &options))
        .map_err(|error| FormatError::NotUnderstood(error.to_string()))?;
    if has_content(&formatted, content) { Ok(formatted) } else { Err(FormatError::WouldChange) }
}

fn options() -> pretty_yaml::config::FormatOptions {
    let mut options = pretty_yaml::config::FormatOptions::default();
    options.layout.print_width = WIDTH;
    options.language.brace_spacing = false;
    options
}

/// Returns true when `text` is a document with this content.
fn has_content(text: &str, content: &Value) -> bool {
    match tree::parse_tree(text.as_bytes()) {
        (Some(root), diagnostics) => diagnostics.is_empty() && root.to_value() == *content,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str) {
        let formatted = format_document(before.as_bytes()).unwrap();
        assert_eq!(formatted, after);
        assert_eq!(format_document(formatted.as_bytes()).as_deref(), Ok(after), "not stable");
    }

    #[test]
    fn fields_take_the_order_of_the_language_with_their_comments() {
        check(
            "# About the file.\n\n# its name\nname: X # said aloud\n\na2s: 1.0.0\nx-own: 1\n# runs\nexecution:\n    steps:\n    -   output_mapping: {a: '$.a'}\n        # which one\n        id: a\n        task:\n            b: 1\n    type: sequence\nversion: '1.0'\n",
            "# About the file.\n\na2s: 1.0.0\n\n# its name\nname: X # said aloud\nversion: \"1.0\"\n# runs\nexecution:\n  type: sequence\n  steps:\n    # which one\n    - id: a\n      task:\n        b: 1\n      output_mapping: {a: \"$.a\"}\nx-own: 1\n",
        );
    }

    #[test]
    fn branches_and_caught_steps_are_ordered_too() {
        check(
            "execution:\n  steps:\n    - type: condition\n      if_true:\n        steps:\n          - use: B\n            type: capability\n            id: b\n      catch:\n        steps:\n          - format: OpenAPI\n            id: c\n      condition: x\n      id: a\n",
            "execution:\n  steps:\n    - id: a\n      type: condition\n      condition: x\n      if_true:\n        steps:\n          - id: b\n            type: capability\n            use: B\n      catch:\n        steps:\n          - id: c\n            format: OpenAPI\n",
        );
    }

    #[test]
    fn aliases_keep_fields_where_they_are() {
        check(
            "output: &o {a: 1}\nname: X\nx-copy: *o\n",
            "name: X\noutput: &o {a: 1}\nx-copy: *o\n",
        );
        check(
            "x-first: &o {a: 1}\nname: X\noutput: *o\n",
            "x-first: &o {a: 1}\nname: X\noutput: *o\n",
        );
    }

    #[test]
    fn what_belongs_to_a_text_is_left_alone() {
        check(
            "name: |\n    # no comment\n\n      deep\na2s: >-\n    folded\n    text\n",
            "a2s: >-\n  folded\n  text\nname: |\n  # no comment\n\n    deep\n",
        );
    }

    #[test]
    fn json_stays_json() {
        check(
            "{\"name\": \"X\", \"a2s\":\"1.0.0\", \"execution\": {\"steps\": [{\"id\": \"a\"}]}}",
            "{\n  \"a2s\": \"1.0.0\",\n  \"name\": \"X\",\n  \"execution\": {\n    \"steps\": [\n      {\n        \"id\": \"a\"\n      }\n    ]\n  }\n}\n",
        );
    }

    #[test]
    fn line_endings_and_byte_order_marks_go() {
        check("\u{feff}a2s: 1.0.0\r\nname: X\r\n", "a2s: 1.0.0\nname: X\n");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for source in ["a: [1", "a: 1\na: 2", "a: !x 1"] {
            assert!(matches!(
                format_document(source.as_bytes()),
                Err(FormatError::Unreadable(diagnostics)) if !diagnostics.is_empty()
            ));
        }
    }

    /// Lines of YAML that fit together often enough.
    fn document() -> impl Strategy<Value = String> {
        let lines = [
            "name: X",
            "a2s: 1.0.0 # why",
            "# note",
            "  # deeper",
            "",
            "version: '1.0'",
            "domains: [a.b,   c.d]",
            "domains:",
            "  - a",
            "  -   b # c",
            "execution:",
            "  type: sequence",
            "  steps:",
            "    - id: a",
            "      format: X",
            "    -   use: y",
            "        id: b",
            "      task: {a: {b: [1,2]}}",
            "    # between",
            "x-text: |",
            "  some",
            "   text",
            "",
            "x-fold: >+",
            "  folded",
            "  line",
            "",
            "x-quoted: \"a",
            "  b\"",
            "output: {a: \"${b}\"}",
            "x-a: &a {b: 1}",
            "x-b: *a",
            "'x-c' : 'it''s'",
            "? x-d",
            ": 1",
            "-",
            "x-e:   ~",
            "\t",
            "x-long: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccccccccccccccc]",
        ];
        proptest::collection::vec(proptest::sample::select(lines.to_vec()), 0..14)
            .prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

        /// Formatting ends, is stable, and changes no content; or it refuses and says why.
        #[test]
        fn the_layout_comes_to_rest_and_the_content_stays(source in document()) {
            if let Ok(formatted) = format_document(source.as_bytes()) {
                let before = a2s::parse_value(source.as_bytes());
                prop_assert_eq!(a2s::parse_value(formatted.as_bytes()), before);
                let again = format_document(formatted.as_bytes());
                prop_assert_eq!(again, Ok(formatted));
                // No comment is lost.
                let comments = |text: &str| text.matches(['#']).count();
                let formatted = format_document(source.as_bytes()).unwrap_or_default();
                prop_assert_eq!(comments(&source), comments(&formatted));
            }
        }

        /// The formatter accepts every text that the writer produces.
        #[test]
        fn formatting_never_fails_on_what_is_written(names in proptest::collection::vec("[a-z${}#: ]{1,8}", 1..6)) {
            let value: serde_json::Map<String, Value> =
                names.iter().map(|name| (name.clone(), Value::from(name.as_str()))).collect();
            let text = crate::write_yaml(&Value::from(value));
            prop_assert!(format_document(text.as_bytes()).is_ok(), "{}", text);
        }
    }
}
