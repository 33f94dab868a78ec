//! Values that no table knows: numbers, names of repositories, lists of names and quoted texts.

use a2s::{InputField, JsonTypes};
use serde_json::{Value, json};

use super::date::{is_calendar_word, is_duration};
use super::field_kind::{item_schema, name_words};
use super::mention::is_separator;
use crate::intent_text::{TextToken, TokenKind};
use crate::pattern::{fits, number_of, takes_list, takes_text_only};

/// The minimum length of the names of an owner and a repository that no word introduces: "and/or" is none.
const MIN_NAME: usize = 3;
/// Words between the name of a number and the number: "magnitude of at least 4".
const FILLERS: [&str; 6] = ["of", "is", "at", "least", "most", "than"];

/// Returns the owner and the name of the only repository in a sentence: `rust-lang/rust` or its address.
pub(super) fn find_repository(words: &[TextToken<'_>]) -> Option<(String, String)> {
    const BEFORE: [&str; 9] =
        ["of", "for", "in", "from", "about", "repo", "repository", "project", "to"];
    let mut found = words.iter().enumerate().filter_map(|(at, word)| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let is_introduced = word.text.contains("://")
            || words.len() == 1
            || before.is_some_and(|word| BEFORE.contains(&word.norm.as_str()));
        let is_clear = |(owner, name): &(String, String)| {
            is_introduced || owner.len() >= MIN_NAME && name.len() >= MIN_NAME
        };
        split_repository(word.text).filter(|found| word.kind == TokenKind::Word && is_clear(found))
    });
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Returns the owner and the repository of `owner/repository`, or of its address.
pub(super) fn split_repository(text: &str) -> Option<(String, String)> {
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let path = match address {
        Some(address) => address.split_once('/')?.1.trim_end_matches('/'),
        None => text,
    };
    let (owner, name) = path.split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_plain = |part: &str| {
        let mark = |c: char| matches!(c, '-' | '_' | '.');
        part.contains(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || mark(c))
    };
    (is_plain(owner) && is_plain(name)).then(|| (owner.to_owned(), name.to_owned()))
}

/// Returns the only field with one of these words in its name, among text fields.
pub(super) fn find_text_field<'f>(
    fields: &'f [InputField],
    names: &[&str],
) -> Option<&'f InputField> {
    find_named_field(fields.iter().filter(|field| takes_text_only(&field.schema)), names)
}

/// Returns the only field with one of these words in its name.
pub(super) fn find_named_field<'f>(
    fields: impl IntoIterator<Item = &'f InputField>,
    names: &[&str],
) -> Option<&'f InputField> {
    let mut named = fields.into_iter().filter(|field| is_named(field, names));
    named.next().filter(|_| named.next().is_none())
}

/// Returns true when a field has one of these words in its name.
pub(super) fn is_named(field: &InputField, names: &[&str]) -> bool {
    name_words(&field.name).iter().any(|word| names.contains(&word.as_str()))
}

/// Returns the number for a field, if exactly one number stands beside a word of the field's name.
///
/// `is_taken` returns true for words that belong to other values.
pub(super) fn find_number(
    words: &[TextToken<'_>],
    field: &InputField,
    is_taken: &dyn Fn(usize) -> bool,
) -> Option<Value> {
    let kinds = JsonTypes::from_schema(&field.schema).without(JsonTypes::NULL);
    if kinds == JsonTypes::ANY.without(JsonTypes::NULL)
        || !JsonTypes::NUMBER.overlaps(kinds)
        || kinds.overlaps(JsonTypes::STRING)
    {
        return None;
    }
    let names = name_words(&field.name);
    let counts = names.iter().any(|word| ["limit", "count"].contains(&word.as_str()));
    let mut found = (0..words.len()).filter_map(|at| {
        let number = number_of(&words[at].norm).filter(|_| !is_taken(at))?;
        (is_named_at(words, at, &names) || (counts && is_count(words, at))).then_some(number)
    });
    let number = found.next()?;
    (found.all(|other| other == number) && fits(&number, &field.schema, 0)).then_some(number)
}

/// Returns true when a word of a field's name stands beside a number: "magnitude 4", "4 days".
fn is_named_at(words: &[TextToken<'_>], at: usize, names: &[String]) -> bool {
    let is_name = |word: &TextToken<'_>| {
        let same = |name: &String| {
            let forms = [word.norm.strip_suffix('s'), Some(word.norm.as_str())];
            let bare = name.strip_suffix('s').unwrap_or(name);
            name.len() > 2 && forms.contains(&Some(bare)) || *name == word.norm && name.len() > 2
        };
        word.kind == TokenKind::Word && names.iter().any(same)
    };
    let before = words[..at].iter().rev().take(4);
    let before = before.skip_while(|word| FILLERS.contains(&word.norm.as_str()));
    before.take(1).any(is_name) || words.get(at + 1).is_some_and(is_name)
}

/// Returns true when a number counts the things that are asked for: "the 5 strongest earthquakes".
fn is_count(words: &[TextToken<'_>], at: usize) -> bool {
    const BEFORE: [&str; 10] =
        ["the", "top", "first", "last", "latest", "list", "show", "find", "get", "me"];
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let after = words.get(at + 1..words.len().min(at + 4)).unwrap_or_default();
    let things = after.iter().take_while(|word| word.kind == TokenKind::Word);
    before.is_some_and(|word| BEFORE.contains(&word.norm.as_str()))
        && number_of(&words[at].norm).is_some_and(|number| number.as_u64() > Some(1))
        && things.clone().any(|word| word.norm.ends_with('s') && word.norm.len() > 3)
        && !words.get(at..at + 2).is_some_and(is_duration)
}

/// Returns the items of the only list of names: "Athens, Cairo or Tunis".
pub(super) fn find_name_list(
    words: &[TextToken<'_>],
    field: &InputField,
    is_taken: &dyn Fn(usize) -> bool,
) -> Option<Value> {
    let item = item_schema(field);
    if !takes_list(&field.schema) || !JsonTypes::from_schema(item).overlaps(JsonTypes::STRING) {
        return None;
    }
    let is_name = |at: usize| {
        words.get(at).is_some_and(|word| word.kind == TokenKind::Word && word.is_capitalised())
            && !is_taken(at)
    };
    let mut lists: Vec<Vec<Value>> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let start = at;
        let mut items: Vec<(usize, usize)> = Vec::new();
        while is_name(at) {
            let first = at;
            while is_name(at) {
                at += 1;
            }
            items.push((first, at));
            let separators =
                words[at..].iter().take(2).take_while(|word| is_separator(word)).count();
            at += if is_name(at + separators) { separators } else { 0 };
        }
        at += usize::from(at == start);
        // The first word of a sentence is always capitalised.
        let is_certain = start > 0 || items.first().is_some_and(|(_, end)| *end == 1);
        let texts = items.iter().map(|(first, end)| {
            words[*first..*end].iter().map(|word| word.text).collect::<Vec<_>>().join(" ")
        });
        if items.len() > 1 {
            let texts: Vec<String> = texts.collect();
            let last = items.last().map_or(at, |(_, end)| *end);
            let is_list = is_certain
                && !joins_words(words, start, last)
                && !texts.iter().any(|text| is_calendar_word(text));
            lists.push(texts.into_iter().filter(|_| is_list).map(Value::String).collect());
        }
    }
    let list = lists.pop().filter(|list| lists.is_empty() && list.len() > 1)?;
    let fits_all = list.iter().all(|value| fits(value, item, 0));
    Some(Value::Array(list)).filter(|list| fits_all && fits(list, &field.schema, 0))
}

/// Returns true when small words join a list to other names: "Rio de Janeiro, Paris", "Paris and Rio de
/// Janeiro".
fn joins_words(words: &[TextToken<'_>], start: usize, end: usize) -> bool {
    const AFTER: [&str; 8] = ["in", "on", "at", "for", "with", "to", "from", "by"];
    let is_small = |word: &TextToken<'_>| word.kind == TokenKind::Word && !word.is_capitalised();
    let before = match words.get(..start) {
        // The first word of a sentence is always capitalised.
        Some([_, .., first, second]) => is_small(second) && first.is_capitalised(),
        _ => false,
    };
    let after = match words.get(end..) {
        Some([first, second, ..]) => {
            is_small(first) && second.is_capitalised() && !AFTER.contains(&first.norm.as_str())
        }
        _ => false,
    };
    before || after
}

/// Returns true when a field takes any text, so that quoted words can be its value.
pub(super) fn takes_quoted_text(field: &InputField) -> bool {
    const CODES: [&str; 5] = ["id", "key", "code", "token", "url"];
    field.required
        && field.default.is_none()
        && !field.secret
        && takes_text_only(&field.schema)
        && ["pattern", "format"].iter().all(|keyword| field.schema.get(keyword).is_none())
        && !name_words(&field.name).iter().any(|word| CODES.contains(&word.as_str()))
}

/// Returns the only quoted text of a sentence, if it fits a field.
pub(super) fn find_quoted_text(
    sentence: &str,
    words: &[TextToken<'_>],
    field: &InputField,
    is_taken: &dyn Fn(usize) -> bool,
) -> Option<Value> {
    let mut quotes = words.iter().enumerate().filter_map(|(at, word)| match word.kind {
        TokenKind::Quote(start, end) => Some((at, sentence.get(start..end)?)),
        TokenKind::Word | TokenKind::Break(_) => None,
    });
    let (at, text) = quotes.next()?;
    let value = json!(text);
    (quotes.next().is_none() && !is_taken(at) && fits(&value, &field.schema, 0)).then_some(value)
}
