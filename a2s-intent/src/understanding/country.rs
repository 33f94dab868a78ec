//! Countries by name, from the tables of `keshvar`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use keshvar::CountryIterator;
use serde_json::json;

use super::mention::{Mention, phrase};
use crate::intent_text::{TextToken, TokenKind};

/// The maximum number of words of a name.
const MOST_WORDS: usize = 8;

/// Names, codes and currencies of countries.
struct CountryTable {
    /// The two-letter code of each lower-case name; none when several countries have the name.
    codes: BTreeMap<String, Option<String>>,
    /// The two-letter code of each lower-case nationality; none when several countries have it.
    nationalities: BTreeMap<String, Option<String>>,
    /// The three-letter code of each two-letter code.
    alpha3: BTreeMap<String, String>,
    /// The codes of the currencies of countries, by lower-case name, nationality or two-letter code.
    currencies: BTreeMap<String, Vec<String>>,
}

static TABLE: LazyLock<CountryTable> = LazyLock::new(|| {
    let mut table = CountryTable {
        codes: BTreeMap::new(),
        nationalities: BTreeMap::new(),
        alpha3: BTreeMap::new(),
        currencies: BTreeMap::new(),
    };
    let mut others: Vec<(String, String)> = Vec::new();
    let mut nationalities: Vec<(String, String)> = Vec::new();
    for country in CountryIterator::new() {
        let code = country.alpha2().to_string();
        table.alpha3.insert(code.clone(), country.alpha3().to_string());
        let names = country.unofficial_name_list().iter().map(|name| name.to_lowercase());
        let names: Vec<String> = names.chain([country.iso_long_name().to_lowercase()]).collect();
        let short = country.iso_short_name().to_lowercase();
        let nationality = country.maybe_nationality().map(str::to_lowercase);
        let keys = names.iter().cloned().chain(nationality).chain([code.to_lowercase()]);
        for key in keys {
            let known = table.currencies.entry(key).or_default();
            let currency = country.currency_code().to_string();
            if !known.contains(&currency) {
                known.push(currency);
            }
        }
        table.codes.insert(short, Some(code.clone()));
        others.extend(names.into_iter().map(|name| (name, code.clone())));
        // Territories share the nationality of their states.
        let nationality = country.maybe_nationality().filter(|_| country.un_member());
        nationalities.extend(nationality.map(|name| (name.to_lowercase(), code.clone())));
    }
    let official = table.codes.clone();
    for (name, code) in others.into_iter().filter(|(name, _)| !official.contains_key(name)) {
        insert_code(&mut table.codes, name, &code);
    }
    for (name, code) in nationalities {
        if !table.codes.contains_key(&name) {
            insert_code(&mut table.nationalities, name, &code);
        }
    }
    table
});

/// Adds a name of a country; none of several countries with this name is meant.
fn insert_code(codes: &mut BTreeMap<String, Option<String>>, name: String, code: &str) {
    let known = codes.entry(name).or_insert_with(|| Some(code.to_owned()));
    if known.as_deref() != Some(code) {
        *known = None;
    }
}

/// Returns the three-letter code of a country with this two-letter code.
pub(super) fn alpha3_of(code: &str) -> Option<&'static str> {
    TABLE.alpha3.get(code).map(String::as_str)
}

/// Returns the codes of the currencies of the countries with this name, nationality or two-letter code.
pub(super) fn currencies_of(name: &str) -> &'static [String] {
    TABLE.currencies.get(name).map_or(&[], Vec::as_slice)
}

/// Finds the countries that words name, by the longest name at each place.
pub(super) fn find_countries(words: &[TextToken<'_>]) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let longest = MOST_WORDS.min(words.len() - at);
        let named = (1..=longest).rev().find_map(|length| {
            let name = phrase(&words[at..at + length])?;
            let end = at + length;
            let code = match TABLE.codes.get(&name) {
                Some(code) => code.clone()?,
                None => TABLE
                    .nationalities
                    .get(&name)
                    .filter(|_| is_adjective(words, at, end))?
                    .clone()?,
            };
            is_alone(words, at, end).then_some((length, code))
        });
        let length = named.as_ref().map_or(1, |(length, _)| *length);
        found.extend(named.map(|(length, code)| Mention {
            words: at..at + length,
            value: json!(code),
            amount: None,
        }));
        at += length;
    }
    found
}

/// Returns true when words say of what follows that it belongs to a country: "French holidays", but not "in
/// French".
fn is_adjective(words: &[TextToken<'_>], start: usize, end: usize) -> bool {
    let is_plain = |word: &TextToken<'_>| word.kind == TokenKind::Word && !word.is_capitalised();
    let before = start.checked_sub(1).and_then(|before| words.get(before));
    words.get(end).is_some_and(is_plain)
        && !before.is_some_and(|word| ["in", "to", "into"].contains(&word.norm.as_str()))
}

/// Returns true when words are no part of a longer name, such as Michael Jordan or New Mexico.
///
/// A name in lower case counts after a preposition only: turkey is also a bird.
fn is_alone(words: &[TextToken<'_>], start: usize, end: usize) -> bool {
    let is_name = |word: &&TextToken<'_>| word.kind == TokenKind::Word && word.is_capitalised();
    let before = start.checked_sub(1).and_then(|before| words.get(before));
    let joins_before = start > 1 && before.as_ref().is_some_and(is_name);
    let is_shown = words[start..end].iter().any(|word| word.is_capitalised());
    let follows_in = before.is_some_and(|word| word.is("in"));
    // In a sentence of capitals, capitals say nothing.
    let is_loud = words.iter().all(|word| !word.text.contains(char::is_lowercase));
    let joins_after = words.get(end).as_ref().is_some_and(is_name);
    (is_loud || !(joins_before || joins_after))
        && (is_shown || follows_in || words.len() == end - start)
}
