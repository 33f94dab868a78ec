//! Selects the words of a value among its candidates: removes the words around a value, and marks words
//! that only refer to something.

use serde_json::Value;

use super::pattern_match::{CueWord, PatternMatch};
use super::value_parser::{has_choices, takes_list, takes_text_only};
use crate::intent_text::{TextToken, TokenKind};

/// The words that mean a value, or that only refer to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueSpan {
    /// The index of the first word, and the index after the last one.
    pub(super) words: (usize, usize),
    /// The kind of word before it.
    pub(super) cue: CueWord,
    /// True when it is one quoted text.
    quoted: bool,
    /// True when it only refers to something: `it`, `the forecast`.
    pub(super) refers_back: bool,
}

/// Words that may stand between a pattern and a quoted text.
const BEFORE_QUOTE: [&str; 36] = [
    "it",
    "them",
    "this",
    "that",
    "the",
    "a",
    "an",
    "to",
    "of",
    "is",
    "are",
    "with",
    "everyone",
    "text",
    "sentence",
    "phrase",
    "word",
    "words",
    "message",
    "tweet",
    "title",
    "called",
    "named",
    "titled",
    "following",
    "saying",
    "says",
    "say",
    "reading",
    "term",
    "city",
    "town",
    "topic",
    "book",
    "song",
    "name",
];
/// Words at the end of a sentence that belong to nothing.
const COURTESY: [&str; 9] = ["please", "thanks", "thank", "you", "too", "and", "or", "&", "asap"];
/// Lower-case words that a name does not continue after.
const FUNCTION_WORDS: [&str; 54] = [
    "with",
    "using",
    "via",
    "through",
    "by",
    "from",
    "to",
    "into",
    "onto",
    "on",
    "as",
    "about",
    "in",
    "at",
    "for",
    "if",
    "because",
    "so",
    "but",
    "when",
    "while",
    "whether",
    "than",
    "that",
    "which",
    "who",
    "where",
    "is",
    "are",
    "was",
    "were",
    "will",
    "would",
    "be",
    "has",
    "have",
    "had",
    "does",
    "do",
    "did",
    "can",
    "could",
    "should",
    "may",
    "might",
    "looks",
    "look",
    "like",
    "saying",
    "says",
    "including",
    "right",
    "worth",
    "today's",
];
/// Words that refer to a person or a thing.
const PRONOUNS: [&str; 24] = [
    "it",
    "this",
    "that",
    "them",
    "these",
    "those",
    "him",
    "her",
    "me",
    "us",
    "you",
    "everyone",
    "everybody",
    "someone",
    "somebody",
    "anyone",
    "people",
    "all",
    "something",
    "anything",
    "everything",
    "there",
    "here",
    "one",
];
/// Words for the receivers of a message.
const ADDRESSEES: [&str; 9] =
    ["me", "us", "him", "her", "them", "everyone", "everybody", "people", "all"];
/// Possessive words, which refer to something mentioned before or to the speaker.
const POSSESSIVES: [&str; 6] = ["its", "their", "his", "my", "our", "your"];
/// Words that begin the mention of a thing, as opposed to a quotation.
const DETERMINERS: [&str; 13] = [
    "the", "a", "an", "this", "that", "these", "those", "some", "any", "every", "each", "her", "no",
];
/// Verbs that make a few words a text of their own.
const VERBS: [&str; 15] = [
    "is", "are", "was", "were", "will", "has", "have", "can", "isn't", "aren't", "needs", "need",
    "works", "rocks", "rules",
];
/// Expressions of time that may follow a name.
const TIMES: [&str; 48] = [
    "now",
    "today",
    "tomorrow",
    "tonight",
    "yesterday",
    "currently",
    "soon",
    "later",
    "noon",
    "midnight",
    "morning",
    "afternoon",
    "evening",
    "night",
    "day",
    "days",
    "hour",
    "hours",
    "minute",
    "minutes",
    "week",
    "weeks",
    "weekend",
    "month",
    "months",
    "year",
    "years",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "moment",
    "midday",
];
/// Words that may stand before a time.
const BEFORE_TIME: [&str; 13] = [
    "the", "this", "next", "last", "an", "a", "few", "couple", "of", "coming", "these", "right",
    "early",
];

impl ValueSpan {
    /// Returns the words of the value that a match may contain, if any words are left.
    pub(super) fn from_match(
        words: &[TextToken<'_>],
        pattern_match: &PatternMatch,
        schema: &Value,
    ) -> Option<Self> {
        let (start, mut end) = pattern_match.value_words;
        let lead = pattern_match.cue;
        let is_list = takes_list(schema);
        if pattern_match.quote && !is_list {
            let quote = end.checked_sub(1)?;
            let between = words.get(start..quote)?;
            let is_filler = |word: &TextToken<'_>| BEFORE_QUOTE.contains(&word.norm.as_str());
            // After a verb such as "check", words before a quoted text say what the text is.
            if lead == CueWord::Speech || between.iter().all(is_filler) {
                return Some(Self {
                    words: (quote, end),
                    cue: lead,
                    quoted: true,
                    refers_back: false,
                });
            }
            end = quote;
        }
        let mut phrase = Self { words: (start, end), cue: lead, quoted: false, refers_back: false };
        let is_break = |word: &TextToken<'_>| matches!(word.kind, TokenKind::Break(_));
        phrase.trim(words, is_break);
        let outright = phrase;
        phrase.trim(words, |word| is_break(word) || COURTESY.contains(&word.norm.as_str()));
        phrase.cut_addressee(words);
        if lead == CueWord::Name {
            // `key: or` names a value, though elsewhere `or` would belong to nothing.
            return phrase.non_empty().or_else(|| outright.non_empty());
        }
        match lead {
            _ if is_list => phrase.cut_name(words, false),
            CueWord::Preposition => phrase.cut_name(words, takes_text_only(schema)),
            CueWord::Speech => phrase.cut_text(words),
            CueWord::Other | CueWord::Name => phrase.cut_copula(words),
        }
        let is_article = |word: &TextToken<'_>| ["the", "a", "an"].contains(&word.norm.as_str());
        if phrase.of_words(words).iter().all(is_article) {
            return None;
        }
        if !has_choices(schema) {
            let shouts = !words.iter().any(|word| word.text.contains(char::is_lowercase));
            phrase.refers_back |= refers_back(phrase.of_words(words), shouts) && !is_list;
        }
        phrase.non_empty()
    }

    /// The priority class: first a value with its name, then a quoted value, then the rest.
    pub(super) fn class(&self) -> u8 {
        match (self.cue, self.quoted) {
            (CueWord::Name, _) => 0,
            (_, true) => 1,
            (_, false) => 2,
        }
    }

    /// True when it is one quoted text.
    pub(super) fn is_quoted(&self) -> bool {
        self.quoted
    }

    /// Returns the words of the span.
    pub(super) fn of_words<'w, 's>(&self, words: &'w [TextToken<'s>]) -> &'w [TextToken<'s>] {
        words.get(self.words.0..self.words.1).unwrap_or_default()
    }

    /// Its location in the sentence, in bytes, without quotation marks.
    pub(super) fn byte_range(&self, words: &[TextToken<'_>]) -> Option<(usize, usize)> {
        let own = self.of_words(words);
        let (first, last) = (own.first()?, own.last()?);
        match (self.quoted, first.kind) {
            (true, TokenKind::Quote(start, end)) => Some((start, end)),
            _ => Some((first.start, last.end)),
        }
    }

    fn non_empty(self) -> Option<Self> {
        (self.words.0 < self.words.1).then_some(self)
    }

    /// Cuts "to me" and "for us" off the end: they say who asks.
    fn cut_addressee(&mut self, words: &[TextToken<'_>]) {
        if let [_, .., to, person] = self.of_words(words)
            && ["to", "for"].contains(&to.norm.as_str())
            && ["me", "us"].contains(&person.norm.as_str())
        {
            self.words.1 -= 2;
        }
    }

    fn trim(&mut self, words: &[TextToken<'_>], goes: impl Fn(&TextToken<'_>) -> bool) {
        while let Some(last) = self.of_words(words).last()
            && goes(last)
        {
            self.words.1 -= 1;
        }
    }

    /// Cuts a name before a word that does not continue it, and before a time. Where only text is accepted,
    /// a time alone is not a name.
    fn cut_name(&mut self, words: &[TextToken<'_>], text_only: bool) {
        let own = self.of_words(words);
        let is_function = |word: &TextToken<'_>| {
            FUNCTION_WORDS.contains(&word.norm.as_str()) && !word.is_capitalised()
        };
        if let Some(at) = own.iter().skip(1).position(is_function) {
            self.words.1 = self.words.0 + 1 + at;
        }
        if !text_only {
            return;
        }
        let own = self.of_words(words);
        let is_time = |word: &TextToken<'_>| TIMES.contains(&word.norm.as_str());
        let is_number = |word: &TextToken<'_>| word.norm.chars().all(|c| c.is_ascii_digit());
        let leads_time = |word: &TextToken<'_>| {
            BEFORE_TIME.contains(&word.norm.as_str())
                || super::value_parser::number_of(&word.norm).is_some()
        };
        let is_year = matches!(own, [only] if only.norm.len() == 4 && is_number(only));
        if is_year || own.iter().all(|word| is_time(word) || leads_time(word)) {
            self.words.1 = self.words.0;
            return;
        }
        while self.of_words(words).last().is_some_and(&is_time) {
            self.words.1 -= 1;
            self.trim(words, |word| {
                BEFORE_TIME.contains(&word.norm.as_str()) && !word.is_capitalised()
            });
        }
    }

    /// Removes the addressee from the beginning of a text for another person.
    fn cut_text(&mut self, words: &[TextToken<'_>]) {
        let norm = |own: &[TextToken<'_>], at: usize| -> String {
            own.get(at).map(|word| word.norm.clone()).unwrap_or_default()
        };
        let own = self.of_words(words);
        let goes_on = own.len() > 1 && !FUNCTION_WORDS.contains(&norm(own, 1).as_str());
        if ADDRESSEES.contains(&norm(own, 0).as_str()) && (goes_on || norm(own, 1) == "that") {
            self.words.0 += 1;
        }
        let own = self.of_words(words);
        if own.len() > 2 && norm(own, 0) == "that" {
            self.words.0 += 1;
        }
        let own = self.of_words(words);
        let first = norm(own, 0);
        let is_thing = DETERMINERS.contains(&first.as_str())
            && own.len() <= 3
            && !own.iter().any(|word| VERBS.contains(&word.norm.as_str()) || is_past(word));
        let is_parenthetical = FUNCTION_WORDS.contains(&first.as_str())
            && own.first().is_some_and(|word| !word.is_capitalised())
            && !VERBS.contains(&first.as_str());
        self.refers_back = is_thing || is_parenthetical;
    }

    /// Removes the verb before the value: `topic is garden`, `song called Garden`.
    fn cut_copula(&mut self, words: &[TextToken<'_>]) {
        let own = self.of_words(words);
        let is_copula = own.first().is_some_and(|word| {
            ["is", "are", "called", "named", "titled"].contains(&word.norm.as_str())
        });
        if is_copula && own.len() > 1 {
            self.words.0 += 1;
        }
    }
}

/// Returns true when a word looks like a verb in the past tense, so that the words are a statement: `The
/// build failed`.
fn is_past(word: &TextToken<'_>) -> bool {
    word.norm.len() > 4 && word.norm.ends_with("ed")
}

/// Returns true when words only refer to something mentioned before, or to a person. In a sentence that is
/// not entirely in upper case, `US` and `IT` are codes.
fn refers_back(own: &[TextToken<'_>], shouts: bool) -> bool {
    let norm = |at: usize| own.get(at).map_or("", |word| word.norm.as_str());
    let is_code = !shouts
        && own
            .first()
            .is_some_and(|word| word.text.len() > 1 && word.text.chars().all(char::is_uppercase));
    let ends = own.len() == 1 || FUNCTION_WORDS.contains(&norm(1)) && !VERBS.contains(&norm(1));
    !is_code && ((PRONOUNS.contains(&norm(0)) && ends) || POSSESSIVES.contains(&norm(0)))
}
