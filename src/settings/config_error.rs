//! Errors of the TOML file, without its content: a value may be a password, or an
//! address that has one. Pure.

use std::ops::Range;

/// The minimum length of a word that counts as a part of a value.
const MIN_WORD_LENGTH: usize = 4;
/// Words of many addresses that reveal nothing about one.
const COMMON_WORDS: [&str; 2] = ["http", "https"];

/// Describes the error at the span of the text with its position: `LINE:COLUMN: message`.
pub(super) fn describe_error(message: &str, span: Option<Range<usize>>, text: &str) -> String {
    let (place, fault) = match span {
        Some(span) => (format_position(text, span.start), text.get(span).unwrap_or(text)),
        None => (String::new(), text),
    };
    format!("{place}{}", without_values(message, fault))
}

/// Returns the line and column, both counted from 1.
fn format_position(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!("{line}:{column}: ")
}

/// Removes the value from an error message; `fault` is the text that contains the value.
fn without_values(message: &str, fault: &str) -> String {
    let message = message.trim().replace('\n', " ");
    // The value comes before the expected one, and names of keys are not values.
    for kind in ["invalid type", "invalid value", "invalid length", "unknown variant"] {
        if message.starts_with(kind) {
            let expected = message.rfind(", expected ").and_then(|at| message.get(at..));
            return format!("{kind}{}", expected.unwrap_or_default());
        }
    }
    let names_keys = ["unknown field", "missing field", "duplicate field", "duplicate key"];
    if names_keys.iter().any(|kind| message.starts_with(kind)) {
        return message;
    }
    let value = fault.trim_matches(['"', '\'']);
    let message =
        if value.len() < MIN_WORD_LENGTH { message } else { message.replace(value, "…") };
    let repeats =
        significant_words(&message).any(|word| significant_words(fault).any(|other| word == other));
    if repeats { "this value cannot be used".to_owned() } else { message }
}

fn significant_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.len() >= MIN_WORD_LENGTH && !COMMON_WORDS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::super::SettingsFile;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(SettingsFile::parse(text).unwrap_err(), expected);
    }

    #[test]
    fn a_fault_is_told_with_its_place_and_without_values() {
        check(
            "log = 'info'\ndatabase = \"postgres://me:xq7zvk@db",
            "2:36: invalid basic string, expected `\"`",
        );
        let unquoted = "string values must be quoted, expected literal string";
        check("database = postgres://me:xq7zvk@db\n", &format!("1:12: {unquoted}"));
        check("database = 4711", "1:12: invalid type, expected a string");
        check("log = 'info'\n  listen = 'xq7zvk'", "2:12: invalid socket address syntax");
        check("registry = 'xq7zvk'", "1:12: relative URL without a base: \"…\"");
        let choice = "write `builtin`, `off` or an http(s) URL";
        check("guardian = 'xq7zvk'", &format!("1:12: {choice}"));
        check("guardian = 'http//xq7zvk'", &format!("1:12: {choice}"));
        check("log-format = 'xq7zvk'", "1:14: unknown variant, expected `text` or `json`");
        check("[agent]\nregistries = [{token = 'xq7zvk'}]", "2:15: missing field `url`");
        check("log = 'xq7zvk'\nlog = 'other'", "2:1: duplicate key");
    }

    /// Whatever is wrong with a file, and wherever: a character that is missing, or one too many.
    #[test]
    fn no_fault_tells_a_secret() {
        let good = "database = \"postgres://me:xq7zvk@db/a2s\"\n[embedder]\nkey = 'xq7zvk'\n\
                    [agent]\npeers = [{url = 'http://xq7zvk@a.example', token = 'xq7zvk'}]\n\
                    [[guardian]]\nurl = 'https://b.example/?key=xq7zvk'\ntoken = '''xq7zvk'''\n";
        assert!(SettingsFile::parse(good).is_ok());
        let mut faults = 0;
        for at in 0..good.len() {
            let (before, rest) = good.split_at(at);
            let missing = format!("{before}{}", &rest[1..]);
            let more = ["'", "\"", "=", "[", "{", "}", "\n", "\\", ",", "#", "5"];
            let more = more.iter().map(|one| format!("{before}{one}{rest}"));
            for text in more.chain([missing, before.to_owned()]) {
                let Err(told) = SettingsFile::parse(&text) else { continue };
                let pieces = ["xq7z", "q7zv", "7zvk"];
                assert!(!pieces.iter().any(|piece| told.contains(piece)), "{told}\n{text}");
                faults += 1;
            }
        }
        assert!(faults > 1_000, "{faults}");
    }
}
