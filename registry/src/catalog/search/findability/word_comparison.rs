//! The words that tell capabilities apart. Pure.

use std::collections::BTreeSet;

use a2s::CapabilityName;

use crate::bm25::{terms, words_with_terms};
use crate::documents::HitSummary;

/// The maximum number of words in a list.
const MAX_WORDS: usize = 8;
/// Words that ask for something and do not describe it.
const QUESTION_WORDS: [&str; 16] = [
    "find", "get", "give", "now", "show", "tell", "us", "what", "when", "where", "which", "who",
    "whose", "why", "will", "won",
];

/// The words that describe a capability: its name, its description and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DescribedWords {
    /// The words with their stems, in order.
    words: Vec<(String, String)>,
    stems: BTreeSet<String>,
}

impl DescribedWords {
    pub(super) fn new(name: &CapabilityName, summary: &HitSummary) -> Self {
        let parameters = summary.parameters.iter().flat_map(|parameter| {
            [parameter.name.as_str(), parameter.description.as_deref().unwrap_or_default()]
        });
        let texts = [name.as_str(), &summary.description].into_iter().chain(parameters);
        let words: Vec<_> = texts.flat_map(words_with_terms).collect();
        let stems = words.iter().map(|(_, stem)| stem.clone()).collect();
        Self { words, stems }
    }

    /// Returns the words that none of `others` has. Empty without others.
    pub(super) fn find_distinct_words(&self, others: &[Self]) -> Vec<String> {
        if others.is_empty() {
            return Vec::new();
        }
        let is_common = |stem: &str| others.iter().any(|other| other.stems.contains(stem));
        take_words(self.words.iter().cloned(), is_common)
    }
}

/// Returns the words of a text that do not describe the capability. `values` are inputs of an example: a
/// description need not contain them.
pub(super) fn find_missing_words(
    text: &str,
    described: &DescribedWords,
    values: &str,
) -> Vec<String> {
    let values: BTreeSet<_> = terms(values).into_iter().collect();
    let is_known = |stem: &str| described.stems.contains(stem) || values.contains(stem);
    take_words(words_with_terms(text).into_iter(), is_known)
}

/// Returns the first words without those to leave out, each stem once.
fn take_words(
    words: impl Iterator<Item = (String, String)>,
    is_left_out: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let is_kept = |(word, stem): &(String, String)| {
        word.chars().any(char::is_alphabetic)
            && QUESTION_WORDS.binary_search(&word.as_str()).is_err()
            && !is_left_out(stem)
            && seen.insert(stem.clone())
    };
    words.filter(is_kept).map(|(word, _)| word).take(MAX_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use a2s::Complexity;

    use super::*;

    fn described(name: &str, description: &str) -> DescribedWords {
        let summary = HitSummary {
            description: description.to_owned(),
            domains: Vec::new(),
            complexity: Complexity::Low,
            parameters: Vec::new(),
            permissions: Vec::new(),
            read_only: true,
        };
        DescribedWords::new(&name.parse().unwrap(), &summary)
    }

    #[test]
    fn missing_words_are_those_of_the_text_alone() {
        let breeds = described("ListDogBreeds", "Retrieves a list of dog breeds");
        let missing =
            |text: &str, values: &str| find_missing_words(text, &breeds, values).join(" ");
        assert_eq!(missing("Which pooches are dogs, and what Pooch breed?", ""), "pooches");
        assert_eq!(missing("dogs of Paris in 2026", r#""Paris""#), "");
        assert_eq!(missing(&"one two six ten red tan sky ice fog ".repeat(9), "").len(), 31);
    }

    #[test]
    fn distinct_words_are_those_that_no_other_has() {
        let breeds = described("ListDogBreeds", "Retrieves the breeds of dogs");
        let kennels = described("ListDogKennels", "Retrieves the kennels of dogs");
        assert_eq!(breeds.find_distinct_words(std::slice::from_ref(&kennels)), ["breeds"]);
        assert_eq!(kennels.find_distinct_words(&[breeds.clone(), kennels.clone()]), [""; 0]);
        assert_eq!(breeds.find_distinct_words(&[]), [""; 0]);
    }

    #[test]
    fn question_words_are_sorted() {
        assert!(QUESTION_WORDS.is_sorted());
    }
}
