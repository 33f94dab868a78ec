//! Mentions of entities in a sentence, and the fields that take them.

use std::ops::Range;

use a2s::InputField;
use serde_json::Value;

use super::field_kind::{FieldKind, name_words};
use crate::intent_text::{TextToken, TokenKind};
use crate::pattern::{number_of, takes_list};

/// An entity that a sentence names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mention {
    /// The indices of its words.
    pub(super) words: Range<usize>,
    /// Its value: a code, a date or a number.
    pub(super) value: Value,
    /// The amount before a currency.
    pub(super) amount: Option<Value>,
}

impl Mention {
    /// Returns a mention for each of its values.
    pub(super) fn split(&self) -> Vec<Self> {
        match &self.value {
            Value::Array(values) => {
                values.iter().map(|value| Self { value: value.clone(), ..self.clone() }).collect()
            }
            _ => vec![self.clone()],
        }
    }
}

/// Returns the words of a range as one lower-case text; nothing when it contains a quote or punctuation.
pub(super) fn phrase(words: &[TextToken<'_>]) -> Option<String> {
    let norms: Option<Vec<&str>> = words
        .iter()
        .map(|word| (word.kind == TokenKind::Word).then_some(word.norm.as_str()))
        .collect();
    let text = norms?.join(" ");
    Some(text.strip_suffix("'s").unwrap_or(&text).to_owned())
}

/// Returns true when a word or mark stands between the items of a list.
pub(super) fn is_separator(word: &TextToken<'_>) -> bool {
    match word.kind {
        TokenKind::Break(mark) => mark == ',',
        TokenKind::Quote(..) => false,
        TokenKind::Word => ["and", "or", "&"].contains(&word.norm.as_str()),
    }
}

/// Assigns mentions of one kind to the open fields of this kind.
///
/// The word before a mention decides where a field has this word in its name or at the end of the text
/// before the `*` of a pattern. After that, a mention that is left goes to the field that is left when
/// there is one of each.
pub(super) fn assign_mentions<'f>(
    words: &[TextToken<'_>],
    mentions: Vec<Mention>,
    mut fields: Vec<(&'f InputField, FieldKind)>,
) -> Vec<(&'f InputField, Value)> {
    let mut groups = group_mentions(words, mentions);
    let mut assigned = Vec::new();
    let cues: Vec<Option<&str>> = groups.iter().map(|group| cue_before(words, group)).collect();
    let chosen: Vec<Option<usize>> = cues.iter().map(|cue| find_field(&fields, (*cue)?)).collect();
    let is_clear = |at: usize| {
        chosen[at].is_some() && chosen.iter().filter(|other| **other == chosen[at]).count() == 1
    };
    for (at, group) in groups.iter().enumerate().filter(|(at, _)| is_clear(*at)) {
        let field = chosen[at].and_then(|field| fields.get(field));
        let value = field.and_then(|(field, kind)| Some((*field, kind.convert(field, group)?)));
        assigned.extend(value);
    }
    // When several mentions name one field, it is not clear which one is meant.
    let disputed = |at: usize| chosen[at].is_some() && !is_clear(at);
    fields.retain(|(field, _)| assigned.iter().all(|(taken, _)| taken.name != field.name));
    if (0..groups.len()).any(disputed) {
        return assigned;
    }
    let mut chosen = chosen.into_iter();
    groups.retain(|_| chosen.next().flatten().is_none());
    if let [first, second] = groups.as_slice()
        && let Some(pair) =
            assign_amount(first, second, &fields).or_else(|| assign_list(first, second, &fields))
    {
        assigned.extend(pair);
    } else if let ([group], [(field, kind)]) = (groups.as_slice(), fields.as_slice()) {
        assigned.extend(kind.convert(field, group).map(|value| (*field, value)));
    }
    assigned
}

/// Gives the currency with an amount to the field that is named `from`, and the other one to the other
/// field.
fn assign_amount<'f>(
    first: &[Mention],
    second: &[Mention],
    fields: &[(&'f InputField, FieldKind)],
) -> Option<[(&'f InputField, Value); 2]> {
    let has_amount = |group: &[Mention]| group.iter().any(|mention| mention.amount.is_some());
    let (given, wanted) = match (has_amount(first), has_amount(second)) {
        (true, false) => (first, second),
        (false, true) => (second, first),
        _ => return None,
    };
    let is_source = |field: &InputField| name_words(&field.name).iter().any(|word| word == "from");
    let (source, target) = match fields {
        [one, two] if is_source(one.0) && !is_source(two.0) => (one, two),
        [one, two] if is_source(two.0) && !is_source(one.0) => (two, one),
        _ => return None,
    };
    let given = source.1.convert(source.0, given)?;
    Some([(source.0, given), (target.0, target.1.convert(target.0, wanted)?)])
}

/// Gives several entities to the field that takes a list, and a single one to the other field.
fn assign_list<'f>(
    first: &[Mention],
    second: &[Mention],
    fields: &[(&'f InputField, FieldKind)],
) -> Option<[(&'f InputField, Value); 2]> {
    let (single, several) = match (first.len(), second.len()) {
        (1, 2..) => (first, second),
        (2.., 1) => (second, first),
        _ => return None,
    };
    let (one, list) = match fields {
        [one, two] if takes_list(&two.0.schema) && !takes_list(&one.0.schema) => (one, two),
        [one, two] if takes_list(&one.0.schema) && !takes_list(&two.0.schema) => (two, one),
        _ => return None,
    };
    let value = one.1.convert(one.0, single)?;
    Some([(one.0, value), (list.0, list.1.convert(list.0, several)?)])
}

/// Joins the items of each list ("euros, yen and pounds") to one group, without repetitions.
fn group_mentions(words: &[TextToken<'_>], mentions: Vec<Mention>) -> Vec<Vec<Mention>> {
    let mut groups: Vec<Vec<Mention>> = Vec::new();
    for mention in mentions {
        if groups.iter().flatten().any(|known| known.value == mention.value) {
            continue;
        }
        let end = groups.last().and_then(|group| group.last()).map(|last| last.words.end);
        let between = end.and_then(|end| words.get(end..mention.words.start));
        let goes_on = between.is_some_and(|between| {
            !between.is_empty() && between.len() <= 2 && between.iter().all(is_separator)
        });
        match groups.last_mut().filter(|_| goes_on) {
            Some(group) => group.push(mention),
            None => groups.push(vec![mention]),
        }
    }
    groups
}

/// Returns the word before a group, without articles and amounts.
fn cue_before<'w>(words: &'w [TextToken<'_>], group: &[Mention]) -> Option<&'w str> {
    let before = words.get(..group.first()?.words.start)?;
    let is_skipped = |word: &TextToken<'_>| {
        ["the", "a", "an"].contains(&word.norm.as_str()) || number_of(&word.norm).is_some()
    };
    let word = before.iter().rev().find(|word| !is_skipped(word))?;
    (word.kind == TokenKind::Word).then_some(word.norm.as_str())
}

/// Returns the index of the only field that a cue names.
fn find_field(fields: &[(&InputField, FieldKind)], cue: &str) -> Option<usize> {
    let is_cue = |field: &InputField| {
        let ends = |pattern: &String| {
            let before = pattern.split('*').next().unwrap_or_default();
            before.split_whitespace().last().is_some_and(|word| word.eq_ignore_ascii_case(cue))
        };
        name_words(&field.name).iter().any(|word| word == cue) || field.patterns.iter().any(ends)
    };
    let mut named = (0..fields.len()).filter(|at| is_cue(fields[*at].0));
    named.next().filter(|_| named.next().is_none())
}

/// Returns the value of an array or of its items.
pub(super) fn shape_value(field: &InputField, mut values: Vec<Value>) -> Option<Value> {
    if takes_list(&field.schema) {
        return Some(Value::Array(values));
    }
    values.pop().filter(|_| values.is_empty())
}
