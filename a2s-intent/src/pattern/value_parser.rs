//! Words as values of a type. What does not fit a schema is no value.

use a2s::JsonTypes;
use regex::RegexBuilder;
use serde_json::{Number, Value, json};

use super::pattern_match::CueWord;
use super::value_span::ValueSpan;
use crate::intent_text::{TextToken, TokenKind};

/// The most words that may be dropped from the end of a name to make it fit.
const MOST_SHORTER: usize = 8;
/// The maximum number of words in one choice of an enumeration.
const MOST_CHOICE_WORDS: usize = 5;
/// The depth to which alternatives of a schema are followed.
const MAX_DEPTH: usize = 4;
/// The maximum size of a compiled `pattern` of a schema, in bytes.
const MAX_REGEX: usize = 1 << 18;
/// The limit up to which integers are exact in JSON.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
const NUMBERS: [&str; 13] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
];

/// Returns true when an input accepts only a list.
pub(crate) fn takes_list(schema: &Value) -> bool {
    let kinds = JsonTypes::from_schema(schema).without(JsonTypes::NULL);
    kinds == JsonTypes::ARRAY
}

/// Returns true when an input accepts any text, and only text.
pub(crate) fn takes_text_only(schema: &Value) -> bool {
    let kinds = JsonTypes::from_schema(schema).without(JsonTypes::NULL);
    let is_date = schema.get("format").and_then(Value::as_str).is_some_and(|f| f.contains("date"));
    !has_choices(schema)
        && !is_date
        && kinds.overlaps(JsonTypes::STRING)
        && (kinds == JsonTypes::STRING || kinds == JsonTypes::ANY.without(JsonTypes::NULL))
}

/// Returns true when an input accepts only certain values.
pub(super) fn has_choices(schema: &Value) -> bool {
    schema.get("enum").is_some() || schema.get("const").is_some()
}

/// Returns the words of a phrase that mean a value, and the value. Without a value, it returns the whole
/// phrase.
pub(super) fn convert<'s>(
    sentence: &'s str,
    words: &[TextToken<'s>],
    phrase: &ValueSpan,
    schema: &Value,
) -> (&'s str, Option<Value>) {
    let (start, end) = phrase.byte_range(words).unwrap_or_default();
    let whole = sentence.get(start..end).unwrap_or_default();
    if phrase.refers_back {
        return (whole, None);
    }
    let own = phrase.of_words(words);
    if phrase.is_quoted() {
        return (whole, of_text(whole, schema));
    }
    if takes_list(schema) {
        return (whole, list_of(sentence, own, schema));
    }
    let is_name = phrase.cue != CueWord::Speech;
    match of_words(sentence, own, is_name, schema) {
        Some((text, value)) => (text, Some(value)),
        None => (whole, None),
    }
}

/// Converts a complete text to a value.
fn of_text(text: &str, schema: &Value) -> Option<Value> {
    let kinds = JsonTypes::from_schema(schema);
    if let Some(choice) = choose(text, schema) {
        return Some(choice);
    }
    let texts = || kinds.overlaps(JsonTypes::STRING).then(|| json!(text));
    let numbers =
        || number_of(&text.trim().to_lowercase()).filter(|_| kinds.overlaps(JsonTypes::NUMBER));
    let truths = || truth_of(text).filter(|_| kinds.overlaps(JsonTypes::BOOLEAN));
    let others = || {
        let wanted = kinds.overlaps(JsonTypes::ARRAY.or(JsonTypes::OBJECT));
        serde_json::from_str::<Value>(text)
            .ok()
            .filter(|value| wanted && (value.is_object() || value.is_array()))
    };
    let ways: [&dyn Fn() -> Option<Value>; 4] = [&texts, &numbers, &truths, &others];
    ways.iter().find_map(|way| way().filter(|value| fits(value, schema, 0)))
}

/// Finds the words that are a value: all of them where any text is a value, otherwise the first ones that
/// fit.
fn of_words<'s>(
    sentence: &'s str,
    own: &[TextToken<'s>],
    may_shorten: bool,
    schema: &Value,
) -> Option<(&'s str, Value)> {
    let slice = |words: &[TextToken<'s>]| sentence.get(words.first()?.start..words.last()?.end);
    let kinds = JsonTypes::from_schema(schema);
    let is_article = |word: &&TextToken<'_>| ["the", "a", "an"].contains(&word.norm.as_str());
    let bare = own.get(own.iter().take_while(is_article).count()..).unwrap_or_default();
    if has_choices(schema) {
        let longest = bare.len().min(MOST_CHOICE_WORDS);
        return (1..=longest).rev().find_map(|length| {
            let text = slice(bare.get(..length)?)?;
            Some((text, choose(text, schema)?))
        });
    }
    if kinds.overlaps(JsonTypes::STRING) {
        let whole = slice(own)?;
        let value = json!(whole);
        if fits(&value, schema, 0) {
            return Some((whole, value));
        }
        let firsts = match (may_shorten, schema.get("pattern").or_else(|| schema.get("format"))) {
            (false, _) => 0..0,
            (true, None) => 0..1,
            // Of "100 EUR" the code is meant.
            (true, Some(_)) => 0..MOST_SHORTER,
        };
        return firsts.filter_map(|first| own.get(first..)).find_map(|own| {
            (1..=own.len().min(MOST_SHORTER)).rev().find_map(|length| {
                let text = slice(own.get(..length)?)?;
                let value = json!(text);
                fits(&value, schema, 0).then_some((text, value))
            })
        });
    }
    // "the next 3" comes before "days"; "5 books" follows "at most".
    [bare.first(), own.last()].into_iter().flatten().find_map(|word| {
        let text = word.text;
        let value = number_of(&word.norm)
            .filter(|_| kinds.overlaps(JsonTypes::NUMBER))
            .or_else(|| truth_of(text).filter(|_| kinds.overlaps(JsonTypes::BOOLEAN)))?;
        fits(&value, schema, 0).then_some((text, value))
    })
}

/// Reads a list of items with commas or `and` between them.
fn list_of(sentence: &str, own: &[TextToken<'_>], schema: &Value) -> Option<Value> {
    let any = json!({});
    let item_schema = schema.get("items").unwrap_or(&any);
    let divides = |word: &TextToken<'_>| match word.kind {
        TokenKind::Break(_) => true,
        TokenKind::Quote(..) => false,
        TokenKind::Word => ["and", "or", "&", "plus"].contains(&word.norm.as_str()),
    };
    let mut items: Vec<Value> = Vec::new();
    for item in own.split(divides).filter(|item| !item.is_empty()) {
        if let [TextToken { kind: TokenKind::Quote(start, end), .. }] = item {
            items.push(of_text(sentence.get(*start..*end)?, item_schema)?);
            continue;
        }
        let text = sentence.get(item.first()?.start..item.last()?.end)?;
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
        match parts.as_slice() {
            [_] => items.push(of_words(sentence, item, true, item_schema)?.1),
            parts => {
                for part in parts {
                    items.push(of_text(part, item_schema)?);
                }
            }
        }
    }
    // Numbers are numbers where nothing is said of the items.
    let numbers: Option<Vec<Value>> = items
        .iter()
        .map(|item| number_of(item.as_str().filter(|_| *item_schema == any)?))
        .collect();
    let list = Value::Array(numbers.unwrap_or(items));
    (list != json!([]) && fits(&list, schema, 0)).then_some(list)
}

/// Returns the choice that a text names, in upper or lower case and with or without separators.
fn choose(text: &str, schema: &Value) -> Option<Value> {
    let only;
    let choices = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(choices)), _) => choices.as_slice(),
        (_, Some(value)) => {
            only = [value.clone()];
            &only
        }
        _ => return None,
    };
    let bare = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let written = |choice: &Value| match choice {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let exact = choices.iter().find(|choice| written(choice) == text);
    let close = || choices.iter().find(|choice| bare(&written(choice)) == bare(text));
    let named = exact.or_else(close).filter(|choice| !choice.is_null())?;
    (!bare(text).is_empty()).then(|| named.clone())
}

/// Returns the number that a word represents: `5`, `-2.5`, `1,000`, `48.85°`, `three`.
pub(crate) fn number_of(word: &str) -> Option<Value> {
    if let Some(number) = NUMBERS.iter().position(|name| *name == word) {
        return Some(json!(number));
    }
    let bare = word.trim_end_matches(['°', '%', '+']).trim_start_matches(['$', '€', '£', '+']);
    let digits = if is_grouped(bare) { bare.replace(',', "") } else { bare.to_owned() };
    let begins =
        digits.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = digits.parse().ok().filter(|_| begins)?;
    if number.fract() == 0.0 {
        // Within these bounds nothing is cut off.
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number within bounds")]
        return (number.abs() <= MAX_SAFE).then(|| json!(number as i64));
    }
    Number::from_f64(number).map(Value::Number)
}

/// Returns true when commas separate groups of three digits.
fn is_grouped(text: &str) -> bool {
    let mut groups = text.trim_start_matches('-').split(',');
    let is_group = |group: &str| group.chars().all(|c| c.is_ascii_digit());
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len())
        && is_group(first)
        && groups.all(|group| group.len() == 3 && is_group(group))
}

fn truth_of(word: &str) -> Option<Value> {
    match word.to_lowercase().as_str() {
        "true" | "yes" | "on" => Some(Value::Bool(true)),
        "false" | "no" | "off" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Returns true when a value fits a schema, according to the keywords that matter for a value from words.
pub(crate) fn fits(value: &Value, schema: &Value, depth: usize) -> bool {
    if !JsonTypes::from_schema(schema).contains(JsonTypes::from_value(value)) {
        return false;
    }
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let choices = schema.get("enum").and_then(Value::as_array);
    let chosen = choices.is_none_or(|choices| choices.contains(value))
        && schema.get("const").is_none_or(|only| only == value);
    let within = match value {
        Value::Number(given) => given.as_f64().is_none_or(|given| {
            number("minimum").is_none_or(|least| given >= least)
                && number("maximum").is_none_or(|most| given <= most)
                && number("exclusiveMinimum").is_none_or(|least| given > least)
                && number("exclusiveMaximum").is_none_or(|most| given < most)
        }),
        Value::String(text) => fits_text(text, schema),
        Value::Array(items) => {
            let length = items.len() as f64;
            number("minItems").is_none_or(|least| length >= least)
                && number("maxItems").is_none_or(|most| length <= most)
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => true,
    };
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
    let fits_one = alternatives.is_none_or(|alternatives| {
        depth >= MAX_DEPTH || alternatives.iter().any(|schema| fits(value, schema, depth + 1))
    });
    chosen && within && fits_one
}

fn fits_text(text: &str, schema: &Value) -> bool {
    let length = text.chars().count() as f64;
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = number("minLength").is_none_or(|least| length >= least);
    let most = number("maxLength").is_none_or(|most| length <= most);
    // A pattern that is none here is for the service to decide.
    let pattern = schema.get("pattern").and_then(Value::as_str).is_none_or(|pattern| {
        let regex = RegexBuilder::new(pattern).size_limit(MAX_REGEX).build();
        regex.map_or(true, |regex| regex.is_match(text))
    });
    let is_date = |text: &str| text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10;
    let format = match schema.get("format").and_then(Value::as_str) {
        Some("date") => is_date(text),
        Some("date-time") => text.parse::<jiff::Timestamp>().is_ok(),
        Some("uuid") => text.parse::<uuid::Uuid>().is_ok(),
        Some("uri" | "url") => text.contains("://") && !text.contains(char::is_whitespace),
        Some("email") => text.contains('@') && !text.contains(char::is_whitespace),
        _ => true,
    };
    least && most && pattern && format
}
