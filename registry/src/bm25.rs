//! Words as sparse vectors, so that the dot product of a query and a document is their BM25 score
//! once the engine has multiplied in the rarity of each word.

use std::collections::BTreeMap;

use rust_stemmers::{Algorithm, Stemmer};

use a2s::split_name;

/// The BM25 parameter for the saturation of repeated words.
const K1: f32 = 1.2;
/// The discount of long documents, 0 to 1.
const B: f32 = 0.75;
/// The usual number of terms of an index text. In the tuning sets it is 22 with parameters and 12 without.
/// It is a constant, so the vector of a document does not depend on other documents.
const TYPICAL_LENGTH: f32 = 20.0;
/// The maximum number of terms of a query that count.
const MAX_QUERY_TERMS: usize = 256;
/// The maximum number of terms of a document that count.
const MAX_TERMS: usize = 8192;

/// English words that carry no meaning for a search.
const STOP_WORDS: [&str; 62] = [
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but",
    "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i",
    "if", "in", "into", "is", "it", "its", "let", "like", "m", "me", "my", "need", "of", "on",
    "or", "our", "please", "s", "so", "t", "that", "the", "their", "them", "then", "there", "this",
    "to", "want", "was", "we", "with", "would", "you", "your",
];

/// The weights of terms. A term is its 32-bit FNV-1a hash. The indices are in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseVector {
    /// Hashes of the terms.
    pub indices: Vec<u32>,
    /// The weights of the terms.
    pub values: Vec<f32>,
}

impl SparseVector {
    pub(crate) fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Returns the weight of a term, by its hash.
    pub(crate) fn weight(&self, term: u32) -> Option<f32> {
        self.values.get(self.indices.binary_search(&term).ok()?).copied()
    }
}

/// Returns the vector of a document: BM25 without the rarity of the words.
pub(crate) fn document_vector(text: &str) -> SparseVector {
    let mut counts: BTreeMap<u32, f32> = BTreeMap::new();
    let mut length = 0.0;
    for term in terms(text).into_iter().take(MAX_TERMS) {
        *counts.entry(hash(&term)).or_default() += 1.0;
        length += 1.0;
    }
    let discount = K1 * (1.0 - B + B * length / TYPICAL_LENGTH);
    let (indices, values) = counts
        .into_iter()
        .map(|(term, count)| (term, count * (K1 + 1.0) / (count + discount)))
        .unzip();
    SparseVector { indices, values }
}

/// Returns the vector of a query: each different term once.
pub fn query_vector(text: &str) -> SparseVector {
    let mut indices: Vec<u32> =
        terms(text).iter().map(|term| hash(term)).take(MAX_QUERY_TERMS).collect();
    indices.sort_unstable();
    indices.dedup();
    let values = vec![1.0; indices.len()];
    SparseVector { indices, values }
}

/// Returns the rarity of a term that `with` of `all` points have, as the engines compute it.
pub(crate) fn rarity(all: usize, with: usize) -> f32 {
    let (all, with) = (all as f32, with as f32);
    ((all - with + 0.5) / (with + 0.5)).ln_1p()
}

/// Returns the stems of the words of a text. Identifiers are split into words.
pub(crate) fn terms(text: &str) -> Vec<String> {
    words_with_terms(text).into_iter().map(|(_, term)| term).collect()
}

/// Returns the words of a text in lower case, each with its stem, without words that carry no meaning.
pub(crate) fn words_with_terms(text: &str) -> Vec<(String, String)> {
    let stemmer = Stemmer::create(Algorithm::English);
    split_name(text)
        .split(' ')
        .map(str::to_lowercase)
        .filter(|word| !word.is_empty() && STOP_WORDS.binary_search(&word.as_str()).is_err())
        .map(|word| {
            let term = stemmer.stem(&word).into_owned();
            (word, term)
        })
        .collect()
}

/// Hashes a term with FNV-1a. The function must never change, because the hashes are stored.
fn hash(term: &str) -> u32 {
    term.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text), expected, "{text}");
    }

    #[test]
    fn identifiers_are_taken_apart_and_words_stemmed() {
        check("ListDogBreeds", &["list", "dog", "breed"]);
        check("get_user_ids for the weather", &["get", "user", "id", "weather"]);
        check("What's the weather like in Paris?", &["what", "weather", "pari"]);
        check("…  the of", &[]);
    }

    #[test]
    fn repeated_words_count_more_with_a_bound() {
        let weight = |text: &str| {
            let vector = document_vector(text);
            let at = vector.indices.iter().position(|i| *i == hash("dog")).unwrap();
            vector.values[at]
        };
        assert!(weight("dog dog") > weight("dog cat"));
        assert!(weight(&"dog ".repeat(1000)) < K1 + 1.0);
        assert!(weight(&format!("dog {}", "cat ".repeat(100))) < weight("dog cat"));
    }

    #[test]
    fn indices_ascend_and_are_unique() {
        for vector in [query_vector("b a b c a d e f g"), document_vector("b a b c a d e f g")] {
            assert!(vector.indices.is_sorted_by(|a, b| a < b));
            assert_eq!(vector.indices.len(), vector.values.len());
        }
    }

    #[test]
    fn hashes_are_those_of_the_published_fnv_vectors() {
        assert_eq!(hash(""), 0x811c_9dc5);
        assert_eq!(hash("a"), 0xe40c_292c);
        assert_eq!(hash("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }
}
