//! Extracts a capability's inputs from a sentence, by its `patterns`.
//!
//! The rules, which `docs/language.md` ("Patterns") explains to users:
//!
//! 1. The words of a pattern match whole words of the sentence, in any case; a verb may end in `-ing`.
//!    The first pattern of a parameter that gives a value counts.
//! 2. A value ends at punctuation, at the beginning of another pattern or request, and at the end of the
//!    sentence. The value after a preposition is a name, which also ends before a word such as `on` or
//!    `is`.
//! 3. A quoted text is a value as it is, with any content.
//! 4. `name: value` and `name=value` give a value to any input, even to one without patterns.
//! 5. A value has the input's type and fits its schema; otherwise there is no value. A missing value can
//!    be asked for; a wrong one would be used.
//! 6. Words that only refer to something (`it`, `the forecast` to be tweeted) are not a value.

mod pattern_match;
mod value_parser;
mod value_span;

use a2s::InputField;
use serde_json::{Map, Value};

use crate::intent_text::{find_request_starts, tokenize};

pub(crate) use value_parser::{fits, number_of, takes_list, takes_text_only};

use pattern_match::{PatternMatch, find_matches};
use value_span::ValueSpan;

/// The longest sentence that is read, in bytes; the rest is ignored.
const MAX_SENTENCE: usize = 16 << 10;
/// The maximum number of possible positions of one input that are examined closely.
const MAX_ATTEMPTS: usize = 10;

/// The words of a sentence at the position of an input's value.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractedInput<'s> {
    /// The name of the input.
    pub name: String,
    /// The words: a part of the sentence, without its quotation marks when it is quoted.
    pub text: &'s str,
    /// The value of the words; `None` when they only refer to something mentioned before, or do not fit the
    /// input.
    pub value: Option<Value>,
    /// True when they are quoted.
    pub quoted: bool,
}

/// Finds these inputs in a sentence: at most one match for each, in the order of the inputs.
///
/// The time is bounded: only the first 16 KiB and 2,000 words of a sentence and the first 1,000 patterns of
/// the inputs count, and a pattern has at most 16 words on a side.
///
/// ```
/// # use a2s::InputField;
/// # use a2s_intent::extract_inputs;
/// let field = |name, patterns: &[&str]| -> InputField {
///     serde_json::from_value(serde_json::json!({
///         "name": name, "required": true, "patterns": patterns, "schema": {"type": "string"}
///     })).expect("a field")
/// };
/// let fields = [
///     field("location", &["in *", "for *", "at *"]),
///     field("message", &["say *", "tweet *", "post *"]),
/// ];
/// let sentence = "What's the weather like in Paris, and can you tweet it saying 'Weather update:'?";
/// let found = extract_inputs(sentence, &fields);
/// assert_eq!(found[0].value, Some("Paris".into()));
/// assert_eq!(found[1].value, Some("Weather update:".into()));
///
/// // `it` refers to something else: there is no message.
/// let found = extract_inputs("get the weather in Oslo and tweet it", &fields);
/// assert_eq!(found[0].text, "Oslo");
/// assert_eq!((found[1].text, &found[1].value), ("it", &None));
/// ```
#[must_use]
pub fn extract_inputs<'s>(sentence: &'s str, fields: &[InputField]) -> Vec<ExtractedInput<'s>> {
    let sentence = truncate_sentence(sentence);
    let is_name = |text: &str| fields.iter().any(|field| field.name.eq_ignore_ascii_case(text));
    let words = tokenize(sentence, &is_name);
    let begins = find_request_starts(&words);
    let phrases = find_matches(&words, &begins, fields).into_iter().filter_map(|pattern_match| {
        let phrase = ValueSpan::from_match(
            &words,
            &pattern_match,
            &fields.get(pattern_match.field)?.schema,
        )?;
        Some((pattern_match, phrase))
    });
    let mut phrases: Vec<(PatternMatch, ValueSpan)> = phrases.collect();
    // Values given by name come before quoted values, and these before all other values.
    phrases.sort_by_key(|(pattern_match, phrase)| {
        (phrase.class(), pattern_match.field, pattern_match.rank, pattern_match.value_words)
    });
    let mut found: Vec<Option<ExtractedInput<'s>>> = vec![None; fields.len()];
    let mut tried = vec![0; fields.len()];
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (pattern_match, phrase) in &phrases {
        let index = pattern_match.field;
        let (Some(field), Some(slot)) = (fields.get(index), found.get_mut(index)) else { continue };
        let is_known = slot.as_ref().is_some_and(|found| found.value.is_some());
        if is_known || tried[index] == MAX_ATTEMPTS {
            continue;
        }
        tried[index] += 1;
        let Some((start, end)) = phrase.byte_range(&words) else { continue };
        if taken.iter().any(|(from, to)| start < *to && *from < end) {
            continue;
        }
        let (text, value) = value_parser::convert(sentence, &words, phrase, &field.schema);
        taken.extend(value.is_some().then_some((start, end)));
        if value.is_some() || slot.is_none() {
            let quoted = phrase.is_quoted();
            *slot = Some(ExtractedInput { name: field.name.clone(), text, value, quoted });
        }
    }
    found.into_iter().flatten().collect()
}

/// Returns the inputs of a capability that a sentence contains: the values of [`extract_inputs`] by name.
#[must_use]
pub fn extract_values(sentence: &str, fields: &[InputField]) -> Map<String, Value> {
    let found = extract_inputs(sentence, fields).into_iter();
    found.filter_map(|found| Some((found.name, found.value?))).collect()
}

/// Returns the part of a sentence that is read.
pub(crate) fn truncate_sentence(sentence: &str) -> &str {
    &sentence[..sentence.floor_char_boundary(MAX_SENTENCE)]
}

#[cfg(test)]
mod tests;
