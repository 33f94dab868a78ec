//! Currencies by code, symbol and name, from the tables of `iso_currency`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use iso_currency::{Currency, IntoEnumIterator};
use serde_json::json;

use super::country::currencies_of;
use super::mention::{Mention, phrase};
use crate::intent_text::{TextToken, TokenKind};
use crate::pattern::number_of;

/// The maximum number of words of a name.
const MOST_WORDS: usize = 5;

/// Currencies in use, by name.
struct CurrencyTable {
    /// The codes of full lower-case names: `japanese yen`.
    names: BTreeMap<String, &'static str>,
    /// The currencies with a name that begins or ends with a word: `yen`, `pound`.
    nouns: BTreeMap<String, Vec<Currency>>,
    /// The currencies with a symbol that is not a letter.
    symbols: BTreeMap<String, Vec<Currency>>,
}

static TABLE: LazyLock<CurrencyTable> = LazyLock::new(|| {
    let mut table =
        CurrencyTable { names: BTreeMap::new(), nouns: BTreeMap::new(), symbols: BTreeMap::new() };
    for currency in Currency::iter().filter(|currency| is_in_use(*currency)) {
        let name = currency.name().to_lowercase();
        let words: Vec<&str> = name.split(' ').collect();
        let is_place = words.len() > 2 || !currencies_of(words[0]).is_empty();
        let ends = if is_place { &[] } else { &words[..1] };
        for noun in ends.iter().chain(words.last().filter(|_| words.len() > 1)) {
            table.nouns.entry((*noun).to_owned()).or_default().push(currency);
        }
        table.names.insert(name, currency.code());
        let symbol = currency.symbol().symbol;
        if !symbol.contains(char::is_alphanumeric) {
            table.symbols.entry(symbol).or_default().push(currency);
        }
    }
    table
});

/// Returns true when people pay with a currency.
fn is_in_use(currency: Currency) -> bool {
    currency.is_superseded().is_none() && !currency.is_fund() && !currency.is_special()
}

/// Returns the only currency, or the one that more than twice as many countries use as any other.
///
/// Thus a dollar is the United States dollar, while a peso or a franc can be several.
fn choose_common(currencies: &[Currency]) -> Option<&'static str> {
    let mut counted: Vec<(usize, &str)> =
        currencies.iter().map(|currency| (currency.used_by().len(), currency.code())).collect();
    counted.sort_unstable();
    let (most, code) = counted.pop()?;
    let next = counted.pop().map_or(0, |(count, _)| count);
    (counted.is_empty() && next == 0 || most > 2 * next).then_some(code)
}

/// Returns the singular forms that a word may have, and the word itself.
fn singulars(word: &str) -> impl Iterator<Item = &str> {
    [Some(word), word.strip_suffix('s')].into_iter().flatten()
}

/// Returns the code of a currency with a full name, or with a country before its noun.
fn find_by_name(name: &str) -> Option<&'static str> {
    singulars(name).find_map(|name| {
        let by_country = || {
            let (country, noun) = name.rsplit_once(' ')?;
            let known = TABLE.nouns.get(noun)?;
            let codes = currencies_of(&country.replace('.', ""));
            let mut used =
                known.iter().filter(|currency| codes.iter().any(|code| code == currency.code()));
            used.next().filter(|_| used.next().is_none()).map(|currency| currency.code())
        };
        TABLE.names.get(name).copied().or_else(by_country)
    })
}

/// Finds the currencies that words name.
pub(super) fn find_currencies(words: &[TextToken<'_>]) -> Vec<Mention> {
    let is_loud = words.iter().all(|word| !word.text.contains(char::is_lowercase));
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let named = find_at(words, at, is_loud && words.len() > 3);
        let Some((end, code, own_amount)) = named else {
            at += 1;
            continue;
        };
        let before = at.checked_sub(1).and_then(|before| number_of(&words.get(before)?.norm));
        found.push(Mention { words: at..end, value: json!(code), amount: own_amount.or(before) });
        at = end;
    }
    found
}

type FoundCurrency = (usize, &'static str, Option<serde_json::Value>);

/// Returns the end, the code and the amount of a currency at a word.
fn find_at(words: &[TextToken<'_>], at: usize, is_loud: bool) -> Option<FoundCurrency> {
    let word = words.get(at).filter(|word| word.kind == TokenKind::Word)?;
    let longest = MOST_WORDS.min(words.len() - at);
    let full = (2..=longest).rev().find_map(|length| {
        let name = phrase(words.get(at..at + length)?)?;
        Some((at + length, find_by_name(&name)?, None))
    });
    if full.is_some() {
        return full;
    }
    if !is_loud && let Some(currency) = Currency::from_code(word.text).filter(|c| is_in_use(*c)) {
        return Some((at + 1, currency.code(), None));
    }
    let number = word.text.trim_matches(|c: char| !c.is_ascii_digit());
    let symbol = word.text.replacen(number, "", 1);
    if let Some(currencies) = TABLE.symbols.get(if number.is_empty() { word.text } else { &symbol })
    {
        return Some((at + 1, choose_common(currencies)?, number_of(number)));
    }
    let noun = singulars(&word.norm).find_map(|noun| TABLE.nouns.get(noun))?;
    is_noun(words, at).then_some((at + 1, choose_common(noun)?, None))
}

/// Returns true when a word is used as a noun here: "100 euros", "to the yen", but not "who won" or "the real
/// rate".
fn is_noun(words: &[TextToken<'_>], at: usize) -> bool {
    const BEFORE: [&str; 15] = [
        "to", "into", "in", "from", "of", "for", "the", "a", "an", "and", "or", "convert", "per",
        "between", "many",
    ];
    const AFTER: [&str; 12] =
        ["to", "into", "in", "from", "and", "or", "is", "are", "for", "worth", "please", "against"];
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let is_introduced = before.is_none_or(|word| {
        word.kind != TokenKind::Word
            || BEFORE.contains(&word.norm.as_str())
            || number_of(&word.norm).is_some()
    });
    let goes_on = words
        .get(at + 1)
        .is_some_and(|word| word.kind == TokenKind::Word && !AFTER.contains(&word.norm.as_str()));
    is_introduced && !goes_on
}
