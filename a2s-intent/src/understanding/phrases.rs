//! Values that words before them introduce: coordinates, topics and messages.

use std::ops::Range;

use a2s::InputField;
use serde_json::{Value, json};

use super::date::is_calendar_word;
use super::free::is_named;
use crate::intent_text::{TextToken, TokenKind};
use crate::pattern::number_of;

/// Words before a topic.
const TOPIC_CUES: [&str; 4] = ["about", "regarding", "concerning", "on"];
/// Words in the names of fields that take a topic.
const TOPIC_NAMES: [&str; 9] =
    ["query", "topic", "subject", "words", "keyword", "keywords", "term", "terms", "search"];
/// Words before a message.
const MESSAGE_CUES: [&str; 2] = ["that", "saying"];
/// Words in the names of fields that take a message.
const MESSAGE_NAMES: [&str; 5] = ["message", "text", "content", "body", "note"];
/// Words at which a topic ends.
const TOPIC_ENDS: [&str; 6] = ["please", "and", "for", "from", "in", "only"];
/// The maximum number of words of a topic.
const MAX_TOPIC_WORDS: usize = 8;

/// Returns the latitude and the longitude of the only position in a sentence: `36.7, -4.4` or `52.5 north,
/// 13.4 east`. Numbers without directions need a decimal point.
pub(super) fn find_position(words: &[TextToken<'_>]) -> Option<(f64, f64)> {
    let mut found = (0..words.len()).filter_map(|at| {
        let (first, is_first_marked, next) =
            read_degrees(words, at, &["north", "n"], &["south", "s"])?;
        let is_joined = |word: &&TextToken<'_>| {
            word.kind == TokenKind::Break(',') || word.is("and") || word.is("/")
        };
        let next = next + usize::from(words.get(next).as_ref().is_some_and(is_joined));
        let (second, is_second_marked, _) =
            read_degrees(words, next, &["east", "e"], &["west", "w"])?;
        let is_decimal = |at: usize| words.get(at).is_some_and(|word| word.norm.contains('.'));
        let is_position = is_first_marked && is_second_marked
            || !is_first_marked && !is_second_marked && is_decimal(at) && is_decimal(next);
        let is_on_earth = first.abs() <= 90.0 && second.abs() <= 180.0;
        (is_position && is_on_earth).then_some((first, second))
    });
    found.next().filter(|_| found.next().is_none())
}

/// Reads a number and its direction. Returns the signed degrees, whether a direction follows, and the index
/// after them.
fn read_degrees(
    words: &[TextToken<'_>],
    at: usize,
    positive: &[&str],
    negative: &[&str],
) -> Option<(f64, bool, usize)> {
    let degrees = number_of(words.get(at)?.norm.trim_end_matches('°'))?.as_f64()?;
    let direction = words.get(at + 1).map_or("", |word| word.norm.as_str());
    if positive.contains(&direction) {
        Some((degrees, true, at + 2))
    } else if negative.contains(&direction) {
        Some((-degrees, true, at + 2))
    } else {
        Some((degrees, false, at + 1))
    }
}

/// Returns the topic for a field that takes one, with its words: `sailing` in "novels on sailing".
pub(super) fn find_topic(
    words: &[TextToken<'_>],
    field: &InputField,
) -> Option<(Value, Range<usize>)> {
    if !is_named(field, &TOPIC_NAMES) {
        return None;
    }
    let is_topic = |cue: usize| {
        let after = words.get(cue + 1);
        // "On Friday" and "on the 5th" are times.
        let is_time = after.is_none_or(|word| {
            is_calendar_word(word.text) || number_of(&word.norm).is_some() || word.norm == "the"
        });
        !(words[cue].is("on") && is_time)
    };
    let cue = find_only(words, &TOPIC_CUES).filter(|cue| is_topic(*cue))?;
    let has_article =
        words.get(cue + 1).is_some_and(|word| ["the", "a", "an"].contains(&word.norm.as_str()));
    let start = cue + 1 + usize::from(has_article);
    let goes_on = |word: &&TextToken<'_>| {
        word.kind == TokenKind::Word && !TOPIC_ENDS.contains(&word.norm.as_str())
    };
    let count = words.get(start..)?.iter().take_while(goes_on).count();
    let topic =
        words.get(start..start + count).filter(|_| (1..=MAX_TOPIC_WORDS).contains(&count))?;
    let topic: Vec<_> = topic.iter().map(|word| word.text).collect();
    Some((json!(topic.join(" ")), start..start + count))
}

/// Returns the message for a field that takes one: the rest of the sentence after `that`, `saying` or a
/// colon.
pub(super) fn find_message(
    sentence: &str,
    words: &[TextToken<'_>],
    field: &InputField,
) -> Option<(Value, Range<usize>)> {
    if !is_named(field, &MESSAGE_NAMES) {
        return None;
    }
    let colon = words.iter().position(|word| word.kind == TokenKind::Break(':'));
    let cue = colon.or_else(|| find_only(words, &MESSAGE_CUES)).filter(|cue| *cue > 0)?;
    let message = sentence.get(words.get(cue + 1)?.start..)?.trim();
    (!message.is_empty()).then(|| (json!(message), cue + 1..words.len()))
}

/// Returns the index of the only word among these.
fn find_only(words: &[TextToken<'_>], cues: &[&str]) -> Option<usize> {
    let is_cue = |(_, word): &(usize, &TextToken<'_>)| {
        word.kind == TokenKind::Word && cues.contains(&word.norm.as_str())
    };
    let mut found = words.iter().enumerate().filter(is_cue);
    let (index, _) = found.next()?;
    found.next().is_none().then_some(index)
}
