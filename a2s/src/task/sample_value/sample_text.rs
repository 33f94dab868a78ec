//! Texts made up from schemas.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value};

/// The maximum length of a sample text, in characters.
const MAX_CHARS: usize = 10_000;
/// The maximum nesting depth of a supported pattern.
const MAX_NESTING: u32 = 50;
/// The maximum length of a supported pattern, in bytes.
const MAX_PATTERN: usize = 2_000;

/// Returns a sample text for a location called `name`.
pub(super) fn make(schema: &Map<String, Value>, name: &str) -> String {
    let format = schema.get("format").and_then(Value::as_str).and_then(of_format);
    let pattern = schema.get("pattern").and_then(Value::as_str);
    let text = pattern.and_then(of_pattern).or_else(|| format.map(str::to_owned));
    let mut text = text.unwrap_or_else(|| name.to_owned());
    let bound = |key: &str| {
        let bound = schema.get(key).and_then(Value::as_u64);
        bound.map(|bound| usize::try_from(bound).unwrap_or(usize::MAX))
    };
    let length = text.chars().count();
    if let Some(least) = bound("minLength").filter(|least| length < *least) {
        let filler = text.chars().last().unwrap_or('x');
        text.extend(std::iter::repeat_n(filler, least.min(MAX_CHARS).saturating_sub(length)));
    }
    match bound("maxLength").filter(|most| length > *most) {
        Some(most) => text.chars().take(most).collect(),
        None => text,
    }
}

fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "date" => "2026-06-01",
        "date-time" => "2026-06-01T12:00:00Z",
        "time" => "12:00:00Z",
        "duration" => "PT1H",
        "uri" | "url" | "uri-reference" | "iri" => "https://example.com/",
        "email" | "idn-email" => "somebody@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ip" | "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uuid" => "01234567-89ab-4def-8123-456789abcdef",
        "byte" => "QUJD",
        _ => return None,
    })
}

/// Returns the shortest text that matches a pattern, with the simplest characters; `None` when the pattern
/// is not supported, for example because of look-around.
fn of_pattern(pattern: &str) -> Option<String> {
    if pattern.len() > MAX_PATTERN {
        return None;
    }
    // `\d` and its like are ASCII in JSON Schema; the generated text is so in any case.
    let mut parser = ParserBuilder::new().nest_limit(MAX_NESTING).build();
    let pattern = parser.parse(&pattern.replace("\\/", "/")).ok()?;
    let mut text = String::new();
    write(&pattern, &mut text).then_some(text)
}

/// Writes the shortest match. Returns false when there is none, or when it is too long.
fn write(pattern: &Hir, text: &mut String) -> bool {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(literal) => {
                text.push_str(literal);
                text.len() <= MAX_CHARS
            }
            Err(_) => false,
        },
        HirKind::Class(class) => match simplest(class) {
            Some(simplest) => {
                text.push(simplest);
                true
            }
            None => false,
        },
        // What may be empty stays so, however often it is repeated.
        HirKind::Repetition(again) if again.sub.properties().minimum_len() == Some(0) => true,
        HirKind::Repetition(again) => {
            (0..again.min).all(|_| write(&again.sub, text) && text.len() <= MAX_CHARS)
        }
        HirKind::Capture(capture) => write(&capture.sub, text),
        HirKind::Concat(parts) => parts.iter().all(|part| write(part, text)),
        HirKind::Alternation(choices) => {
            let length = |choice: &&Hir| choice.properties().minimum_len().unwrap_or(usize::MAX);
            choices.iter().min_by_key(length).is_some_and(|choice| write(choice, text))
        }
    }
}

/// Returns a character of a class: a letter or digit, if there is one.
fn simplest(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    let contains = |c: &char| class.iter().any(|range| (range.start()..=range.end()).contains(c));
    let first = class.iter().next().map(|range| range.start());
    ('a'..='z').chain('A'..='Z').chain('0'..='9').chain('!'..='~').find(contains).or(first)
}
