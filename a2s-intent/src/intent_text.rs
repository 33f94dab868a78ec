//! The text of an intent: its words and its requests.
//!
//! This module knows little of any language. White space and punctuation separate words, quoted text is one
//! piece, and a few English words mark the start of another request. The time is proportional to the length
//! of the sentence, and only the first [`MAX_WORDS`] words count.

mod request_splitter;
mod tokenizer;

pub(crate) use tokenizer::{TextToken, TokenKind, tokenize};

use request_splitter::begins_request;

/// The maximum number of words of a sentence that are read.
pub(crate) const MAX_WORDS: usize = 2_000;
/// The maximum number of clauses of one query.
const MOST_CLAUSES: usize = 16;
/// The minimum number of words of a clause that is searched separately.
const SHORTEST_CLAUSE: usize = 3;
/// Words after which another request begins.
const CONNECTIVES: [&str; 2] = ["then", "also"];
/// Greetings and fillers at the start of a sentence.
const GREETINGS: [&str; 11] =
    ["hi", "hello", "hey", "ok", "okay", "well", "yes", "please", "thanks", "thank", "so"];
/// Words after "I am" that make a sentence a request.
const SEEKING: [&str; 5] = ["looking", "searching", "trying", "wondering", "interested"];

/// The parts of a query that a search handles separately; empty when it asks for one thing.
///
/// A search for the clauses, in addition to the whole query, finds every capability when a request needs
/// several. A query is split after a word that ends in `.`, `!`, `?` or `;`, at line ends, at `and` after a
/// comma, and at `then` and `also`. Clauses shorter than three words are dropped, and at most sixteen are
/// returned. The quality of search was measured with these rules.
///
/// ```
/// # use a2s_intent::split_clauses;
/// let query = "Check the weather in Paris, and post it to Twitter";
/// assert_eq!(split_clauses(query), ["Check the weather in Paris,", "post it to Twitter"]);
/// assert!(split_clauses("pooch kinds").is_empty());
/// ```
#[must_use]
pub fn split_clauses(query: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    for line in query.lines() {
        let mut open = ClauseSpan::default();
        let mut at = 0;
        for chunk in line.split_inclusive(char::is_whitespace) {
            let word = chunk.trim_end();
            let end = at + word.len();
            if is_connective(word, open.of(line)) {
                clauses.push(open.close(line));
            } else if !word.is_empty() {
                open.extend(at, end);
                if ends_sentence(word) {
                    clauses.push(open.close(line));
                }
            }
            at += chunk.len();
        }
        clauses.push(open.close(line));
    }
    clauses.retain(|(_, words)| *words > 0);
    if clauses.len() < 2 {
        return Vec::new();
    }
    clauses.retain(|(_, words)| *words >= SHORTEST_CLAUSE);
    clauses.truncate(MOST_CLAUSES);
    clauses.into_iter().map(|(clause, _)| clause).collect()
}

/// The requests in a sentence, in their order; the sentence itself when it is one.
///
/// In addition to the split points of [`split_clauses`], a request begins at `and` before a verb that asks
/// for something ("… and share it on Twitter"), and at a comma before one. Quoted text is never split, and
/// neither are names such as Trinidad and Tobago. Greetings are not requests. A statement ("I'm planning a
/// picnic in Central Park.") is not a request when there are others. At most sixteen are returned.
///
/// ```
/// # use a2s_intent::split_requests;
/// let sentence = "Check the forecast for Trinidad and Tobago and tweet it.";
/// assert_eq!(split_requests(sentence), ["Check the forecast for Trinidad and Tobago", "tweet it"]);
/// ```
#[must_use]
pub fn split_requests(sentence: &str) -> Vec<&str> {
    let words = tokenize(sentence, &|_| false);
    let begins = find_request_starts(&words);
    let mut clauses: Vec<&[TextToken<'_>]> = Vec::new();
    let mut start = 0;
    for (at, begins) in begins.iter().enumerate() {
        if *begins {
            clauses.extend(words.get(start..at));
            start = at;
        }
    }
    clauses.extend(words.get(start..));
    let mut clauses: Vec<_> = clauses.into_iter().map(strip).filter(|c| !c.is_empty()).collect();
    if clauses.iter().any(|clause| !is_statement(clause)) {
        clauses.retain(|clause| !is_statement(clause));
    }
    clauses.truncate(MOST_CLAUSES);
    let slice = |clause: &[TextToken<'_>]| {
        let (first, last) = (clause.first()?, clause.last()?);
        sentence.get(first.start..last.end)
    };
    clauses.into_iter().filter_map(slice).collect()
}

/// One flag for each word: true when a request begins there.
pub(crate) fn find_request_starts(words: &[TextToken<'_>]) -> Vec<bool> {
    let begins = |at: usize| {
        let Some(word) = words.get(at) else { return false };
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        match before.map(|before| before.kind) {
            Some(TokenKind::Break('.' | '!' | '?' | ';' | '\n')) => return true,
            // `, and` and a thing asks for it, too: "the weather, and the exchange rate".
            Some(TokenKind::Break(',')) if word.is("and") => {
                let next = words.get(at + 1).map_or("", |next| next.norm.as_str());
                return matches!(next, "the" | "a" | "an") || begins_request(words, at + 1);
            }
            Some(TokenKind::Break(',')) if begins_request(words, at) && !is_listed(words, at) => {
                return true;
            }
            _ => {}
        }
        word.kind == TokenKind::Word
            && (CONNECTIVES.contains(&word.norm.as_str())
                || (word.is("and") && begins_request(words, at + 1)))
    };
    (0..words.len()).map(begins).collect()
}

/// Returns true when a word after a comma is one of several in a list ("bold, check, italic and list"), or
/// the name before a colon.
fn is_listed(words: &[TextToken<'_>], at: usize) -> bool {
    let next = words.get(at + 1).map(|next| next.kind);
    matches!(next, None | Some(TokenKind::Break(',' | ':')))
}

/// Returns a clause without the connectives, greetings and punctuation around it.
fn strip<'w, 's>(mut clause: &'w [TextToken<'s>]) -> &'w [TextToken<'s>] {
    let is_lead = |word: &TextToken<'_>| {
        let norm = word.norm.as_str();
        matches!(word.kind, TokenKind::Break(_))
            || ["and", "but"].contains(&norm)
            || CONNECTIVES.contains(&norm)
            || GREETINGS.contains(&norm)
    };
    while let Some((first, rest)) = clause.split_first()
        && is_lead(first)
    {
        clause = rest;
    }
    while let Some((last, rest)) = clause.split_last()
        && (matches!(last.kind, TokenKind::Break(_)) || last.is("and"))
    {
        clause = rest;
    }
    clause
}

/// Returns true when a clause is a statement and asks for nothing: "I'm planning a picnic".
fn is_statement(clause: &[TextToken<'_>]) -> bool {
    let norm = |at: usize| clause.get(at).map_or("", |word| word.norm.as_str());
    let next = match (norm(0), norm(1)) {
        ("i'm" | "we're", next) => next,
        ("i" | "we", "am" | "are") => norm(2),
        _ => return false,
    };
    !SEEKING.contains(&next)
}

/// A clause that is being read: its range in the line, and its number of words.
#[derive(Default)]
struct ClauseSpan {
    start: usize,
    end: usize,
    words: usize,
}

impl ClauseSpan {
    fn of<'l>(&self, line: &'l str) -> &'l str {
        &line[self.start..self.end]
    }

    fn extend(&mut self, start: usize, end: usize) {
        if self.words == 0 {
            self.start = start;
        }
        self.end = end;
        self.words += 1;
    }

    fn close<'l>(&mut self, line: &'l str) -> (&'l str, usize) {
        let Self { start, end, words } = std::mem::take(self);
        (&line[start..end], words)
    }
}

fn is_connective(word: &str, before: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    CONNECTIVES.iter().any(|connective| bare.eq_ignore_ascii_case(connective))
        || (before.ends_with(',') && bare.eq_ignore_ascii_case("and"))
}

fn ends_sentence(word: &str) -> bool {
    word.trim_end_matches(['"', '\'', ')', ']']).ends_with(['.', '!', '?', ';'])
}

#[cfg(test)]
mod tests;
