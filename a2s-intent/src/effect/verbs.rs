//! The verbs of `data/verbs.txt` with their inflected forms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::Effect;
use crate::intent_text::{TextToken, TokenKind};
use crate::word_similarity::singular;

static VERBS: LazyLock<VerbTable> =
    LazyLock::new(|| VerbTable::from_text(include_str!("../../data/verbs.txt")));

/// Words that begin an object after a verb.
const OBJECT_STARTS: [&str; 30] = [
    "a", "an", "the", "my", "our", "your", "his", "her", "its", "their", "this", "that", "these",
    "those", "it", "them", "me", "us", "him", "you", "some", "all", "any", "every", "each",
    "another", "one", "two", "three", "everyone",
];
/// The number of words after a verb in which a product of it is named.
const WORDS_TO_PRODUCT: usize = 6;

/// The form of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerbForm {
    /// `book`
    Base,
    /// `books`
    Third,
    /// `booking`
    Gerund,
}

/// A form of a verb, and the effect that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verb {
    /// None when the words look like a verb and do not show an effect.
    pub(super) effect: Option<Effect>,
    pub(super) form: VerbForm,
    /// True when the word is a noun as often, and no object follows.
    pub(super) in_doubt: bool,
    /// True when the verb can have a product as its object, and no effect.
    makes_product: bool,
}

struct VerbTable {
    verbs: BTreeMap<String, Verb>,
    products: BTreeSet<String>,
}

impl VerbTable {
    fn from_text(text: &str) -> Self {
        let mut table = Self { verbs: BTreeMap::new(), products: BTreeSet::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((class, words)) = line.split_once(':') else { continue };
            let effect = Effect::ALL.into_iter().find(|effect| effect.as_str() == class);
            for word in words.split_whitespace() {
                if class == "product" {
                    table.products.insert(word.to_owned());
                } else {
                    table.add(word, effect);
                }
            }
        }
        table
    }

    /// Adds the forms of a verb. The first class of a form wins.
    fn add(&mut self, entry: &str, effect: Option<Effect>) {
        let verb = entry.trim_end_matches(['?', '*']);
        let (in_doubt, makes_product) = (entry.ends_with('?'), entry.ends_with('*'));
        let (first, rest) = verb.split_once('_').unwrap_or((verb, ""));
        for (form, word) in inflect(first) {
            let key = format!("{word} {}", rest.replace('_', " "));
            let verb = Verb { effect, form, in_doubt, makes_product };
            self.verbs.entry(key.trim_end().to_owned()).or_insert(verb);
        }
    }
}

/// Returns the forms of a verb by the rules of spelling. After a vowel and a consonant there are two
/// gerunds, such as `getting` and `geting`; the wrong one does no harm.
fn inflect(verb: &str) -> Vec<(VerbForm, String)> {
    let is_vowel = |letter: char| "aeiou".contains(letter);
    let mut reversed = verb.chars().rev();
    let (last, before) = (reversed.next().unwrap_or('-'), reversed.next().unwrap_or('-'));
    let has_sibilant = ["s", "x", "z", "ch", "sh"].iter().any(|end| verb.ends_with(end));
    let third = match verb.strip_suffix('y') {
        Some(stem) if !is_vowel(before) => format!("{stem}ies"),
        _ if has_sibilant => format!("{verb}es"),
        _ => format!("{verb}s"),
    };
    let stem = verb.strip_suffix('e').filter(|_| before != 'e').unwrap_or(verb);
    let mut forms = vec![
        (VerbForm::Base, verb.to_owned()),
        (VerbForm::Third, third),
        (VerbForm::Gerund, format!("{stem}ing")),
    ];
    if is_vowel(before) && !is_vowel(last) {
        forms.push((VerbForm::Gerund, format!("{verb}{last}ing")));
    }
    forms
}

/// Returns the verb at a position. In a text, an object after a noun such as `book` makes it a verb.
pub(super) fn verb_at(words: &[TextToken<'_>], at: usize) -> Option<Verb> {
    let mut text = word_at(words, at)?.to_owned();
    let mut found = VERBS.verbs.get(&text).map(|verb| (*verb, at + 1));
    for next in at + 1..at + 3 {
        let Some(word) = word_at(words, next) else { break };
        text = format!("{text} {word}");
        found = VERBS.verbs.get(&text).map(|verb| (*verb, next + 1)).or(found);
    }
    let (mut verb, next) = found?;
    verb.in_doubt &= !begins_object(words, next);
    let is_product = verb.makes_product && names_product(words, next);
    verb.effect = verb.effect.filter(|_| !is_product);
    Some(verb)
}

/// Returns the word at a position in lower case.
pub(super) fn word_at<'w>(words: &'w [TextToken<'_>], at: usize) -> Option<&'w str> {
    words.get(at).filter(|word| word.kind == TokenKind::Word).map(|word| word.norm.as_str())
}

fn begins_object(words: &[TextToken<'_>], at: usize) -> bool {
    match words.get(at).map(|word| word.kind) {
        Some(TokenKind::Quote(..)) => true,
        Some(TokenKind::Word) => {
            word_at(words, at).is_some_and(|word| OBJECT_STARTS.contains(&word))
        }
        _ => false,
    }
}

/// Returns true when the object at a position is a thing that can be made without a change anywhere.
fn names_product(words: &[TextToken<'_>], at: usize) -> bool {
    let ends =
        |word: &&str| ["of", "for", "to", "in", "on", "with", "about", "from"].contains(word);
    (at..at + WORDS_TO_PRODUCT)
        .map_while(|at| word_at(words, at))
        .take_while(|word| !ends(word))
        .any(|word| VERBS.products.contains(&singular(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verb: &str, third: &str, gerund: &str) {
        let forms = inflect(verb);
        assert!(forms.contains(&(VerbForm::Third, third.to_owned())), "{forms:?}");
        assert!(forms.contains(&(VerbForm::Gerund, gerund.to_owned())), "{forms:?}");
    }

    #[test]
    fn verbs_are_inflected_by_rule() {
        check("book", "books", "booking");
        check("delete", "deletes", "deleting");
        check("search", "searches", "searching");
        check("notify", "notifies", "notifying");
        check("buy", "buys", "buying");
        check("get", "gets", "getting");
        check("see", "sees", "seeing");
    }

    #[test]
    fn each_line_of_the_file_names_a_class() {
        let text = include_str!("../../data/verbs.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let classes: Vec<_> = lines.filter_map(|line| Some(line.split_once(':')?.0)).collect();
        let effects = ["read", "create", "change", "delete", "buy", "send"];
        assert_eq!(classes, [&effects[..], &["unclear", "product"]].concat());
        for class in effects {
            assert!(
                VERBS.verbs.values().any(|verb| verb.effect.is_some_and(|e| e.as_str() == class))
            );
        }
    }
}
