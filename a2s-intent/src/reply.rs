//! The parser of a reply to a question. Pure.

use crate::pattern::extract_inputs;
use a2s::InputField;
use serde_json::{Map, Value};

/// Courtesies before an answer, in lower case. More than one may follow each other.
const COURTESIES: [&str; 26] = [
    "yes",
    "yeah",
    "yep",
    "sure",
    "ok",
    "okay",
    "please",
    "of course",
    "thanks",
    "thank you",
    "hmm",
    "well",
    "could you",
    "can you",
    "would you",
    "will you",
    "just",
    "let it say",
    "make it say",
    "say",
    "mention",
    "write",
    "put",
    "use",
    "that",
    "add",
];
/// Replies that refuse.
const REFUSALS: [&str; 13] = [
    "no",
    "nope",
    "no thanks",
    "no thank you",
    "nothing",
    "cancel",
    "stop",
    "never mind",
    "nevermind",
    "forget it",
    "quit",
    "abort",
    "don't",
];

/// Replies that consent.
const CONSENTS: [&str; 13] = [
    "yes",
    "y",
    "yeah",
    "yep",
    "sure",
    "ok",
    "okay",
    "please",
    "yes please",
    "please do",
    "go ahead",
    "do it",
    "try it",
];

/// The maximum number of words of a reply that names a choice. A longer one is a new request.
const MAX_CHOICE_WORDS: usize = 6;
/// Words for a choice by its number.
const NUMBER_WORDS: [&[&str]; 4] = [
    &["1", "first", "former", "1st"],
    &["2", "second", "latter", "2nd"],
    &["3", "third", "3rd"],
    &["4", "fourth", "4th"],
];

/// Returns true when the reply refuses to answer.
#[must_use]
pub fn is_refusal(reply: &str) -> bool {
    REFUSALS.contains(&normalize_words(reply).as_str())
}

/// Returns true when the reply is a consent and has no other content.
#[must_use]
pub fn is_consent(reply: &str) -> bool {
    CONSENTS.contains(&normalize_words(reply).as_str())
}

/// Returns the index of the choice that a reply names, by a part of its name or by its number. None when it
/// names none or several. A bare consent takes the first.
///
/// ```
/// # use a2s_intent::reply::read_choice;
/// let names = ["GetWeather", "GetForecast"];
/// assert_eq!(read_choice("the second one, please", names), Some(1));
/// assert_eq!(read_choice("the forecast", names), Some(1));
/// assert_eq!(read_choice("tell me a joke", names), None);
/// ```
#[must_use]
pub fn read_choice<'n>(reply: &str, names: impl IntoIterator<Item = &'n str>) -> Option<usize> {
    let reply = normalize_words(reply);
    if CONSENTS.contains(&reply.as_str()) {
        return Some(0);
    }
    let said: Vec<&str> = reply.split(' ').collect();
    if said.len() > MAX_CHOICE_WORDS {
        return None;
    }
    let numbered = NUMBER_WORDS.iter().position(|words| words.iter().any(|w| said.contains(w)));
    let names: Vec<_> = names.into_iter().map(words_of_choice).collect();
    // A word that several names have tells nothing.
    let is_named = |index: usize| {
        names[index].iter().any(|word| {
            said.contains(&word.as_str())
                && names.iter().enumerate().all(|(at, other)| at == index || !other.contains(word))
        })
    };
    let mut named = (0..names.len()).filter(|index| is_named(*index));
    match (named.next(), named.next()) {
        (Some(index), None) => Some(index),
        (None, _) => numbered.filter(|index| *index < names.len()),
        (Some(_), Some(_)) => None,
    }
}

/// The words of a name in lower case, and the complete name.
fn words_of_choice(name: &str) -> Vec<String> {
    let words = normalize_words(&a2s::split_name(name));
    words.split(' ').map(str::to_owned).chain([name.to_lowercase()]).collect()
}

/// Returns the words of a text in lower case, with one space between them.
pub(crate) fn normalize_words(reply: &str) -> String {
    let words: Vec<_> = reply.split(|c: char| !c.is_alphanumeric() && c != '\'').collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase()
}

/// Reads the values in a reply: values that patterns find or that are named. If there is one requested
/// input and no such value, it takes the complete reply.
#[must_use]
pub fn read_values(reply: &str, asked: &[InputField]) -> Map<String, Value> {
    let mut values = Map::new();
    for found in extract_inputs(reply, asked) {
        if let Some(value) = found.value {
            values.insert(found.name, value);
        }
    }
    let [field] = asked else { return values };
    if !values.contains_key(&field.name)
        && let Some(value) = to_value(strip_courtesies(reply), &field.schema)
    {
        values.insert(field.name.clone(), value);
    }
    values
}

/// A reply without its courtesies, and without quotes around the whole text.
fn strip_courtesies(reply: &str) -> &str {
    let mut text = reply.trim();
    while let Some(rest) = COURTESIES.iter().find_map(|courtesy| strip_courtesy(text, courtesy)) {
        text = rest;
    }
    let asks = text.len() < reply.trim().len();
    // "Could you mention it's late?" is a question, and "it's late" is none.
    let text = if asks { text.trim_end_matches('?').trim_end() } else { text };
    let pairs = [('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('«', '»'), ('„', '“')];
    let quoted = pairs.iter().find_map(|(open, close)| {
        text.strip_prefix(*open)?.strip_suffix(*close).filter(|inner| !inner.is_empty())
    });
    quoted.unwrap_or(text)
}

/// The text after a courtesy at the beginning; none when there is none.
fn strip_courtesy<'t>(text: &'t str, courtesy: &str) -> Option<&'t str> {
    let begins = text.get(..courtesy.len())?.eq_ignore_ascii_case(courtesy);
    let rest = text.get(courtesy.len()..).filter(|_| begins)?;
    if rest.starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '’') {
        return None;
    }
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ",.!:;".contains(c));
    (!rest.is_empty()).then_some(rest)
}

/// Converts a text to a value of the type in the schema, if possible; the plan checks the other rules.
fn to_value(text: &str, schema: &Value) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.is_empty() || kinds.contains(&"string") {
        return Some(text.into());
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let kind = match &value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
    fits.then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(name: &str, patterns: &[&str], kind: &str) -> InputField {
        InputField {
            name: name.to_owned(),
            required: true,
            description: None,
            patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            schema: json!({ "type": kind }),
            default: None,
            secret: false,
        }
    }

    #[track_caller]
    fn check(reply: &str, fields: &[InputField], expected: &Value) {
        assert_eq!(Value::Object(read_values(reply, fields)), *expected, "{reply}");
    }

    #[test]
    fn a_choice_is_named_or_numbered() {
        let names = ["GetWeather", "GetForecast", "GetAirQuality"];
        for (reply, expected) in [
            ("2", Some(1)),
            ("the first one", Some(0)),
            ("GetForecast", Some(1)),
            ("air quality please", Some(2)),
            ("yes", Some(0)),
            ("weather or forecast", None),
            ("get", None),
            ("4", None),
            ("what is the weather in Paris in the next two days", None),
        ] {
            assert_eq!(read_choice(reply, names), expected, "{reply}");
        }
    }

    #[test]
    fn a_reply_to_one_question_is_the_value_without_its_courtesies() {
        let message = [field("message", &["say *", "tweet *", "post *"], "string")];
        check("Hello from the park", &message, &json!({"message": "Hello from the park"}));
        check(
            "Yes please. Could you mention it's for a weekend picnic?",
            &message,
            &json!({"message": "it's for a weekend picnic"}),
        );
        check("say 'Weather update:'", &message, &json!({"message": "Weather update:"}));
        check("“See you there?”", &message, &json!({"message": "See you there?"}));
        check("Use sunscreen?", &message, &json!({"message": "sunscreen"}));
        check("Yesterday was fine", &message, &json!({"message": "Yesterday was fine"}));
        check("yes", &message, &json!({"message": "yes"}));
    }

    #[test]
    fn a_reply_has_the_type_that_is_asked_for_or_says_nothing() {
        let days = [field("days", &[], "integer")];
        check("3", &days, &json!({"days": 3}));
        check("three and a half", &days, &json!({}));
        check("2.5", &days, &json!({}));
        check("please, 3", &days, &json!({"days": 3}));
    }

    #[test]
    fn a_reply_to_several_questions_names_what_it_gives() {
        let both = [field("city", &["in *"], "string"), field("days", &[], "integer")];
        check("in Oslo", &both, &json!({"city": "Oslo"}));
        check("days: 3, city: Oslo", &both, &json!({"city": "Oslo", "days": 3}));
        check("whatever", &both, &json!({}));
    }

    #[test]
    fn a_consent_says_yes_and_nothing_else() {
        for reply in ["yes", "Yes, please!", "OK.", "go ahead"] {
            assert!(is_consent(reply), "{reply}");
        }
        for reply in ["yes, but not today", "no", "list dog breeds", ""] {
            assert!(!is_consent(reply), "{reply}");
        }
    }

    #[test]
    fn a_refusal_is_no_value() {
        for reply in ["no", "No, thanks.", "Never mind!", "cancel"] {
            assert!(is_refusal(reply), "{reply}");
        }
        for reply in ["no rain today", "nothing beats Oslo", "yes"] {
            assert!(!is_refusal(reply), "{reply}");
        }
    }
}
