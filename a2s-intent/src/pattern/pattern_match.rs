//! The matches of patterns in a sentence, and how far what stands in the place of `*` can reach.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{InputField, split_name};

use crate::intent_text::{TextToken, TokenKind};

/// The most patterns of all inputs, and the most inputs with names, that are searched for.
const MAX_PATTERNS: usize = 1_000;
/// The maximum number of matches that are examined, from the start of the sentence.
const MAX_MATCHES: usize = 4_000;
/// The maximum number of words of a pattern, on each side of its `*`.
const MAX_PATTERN_WORDS: usize = 16;

/// A position in a sentence that matches a pattern, or where the name of an input comes before a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PatternMatch {
    /// The index of the input.
    pub(super) field: usize,
    /// The rank of the pattern among the patterns of the input; its name comes before all of them.
    pub(super) rank: usize,
    /// The kind of word before the value.
    pub(super) cue: CueWord,
    /// The range of words that may belong to the value; the end is exclusive.
    pub(super) value_words: (usize, usize),
    /// The number of words that the pattern has before its `*`.
    before: usize,
    /// True when a quoted text ends the value.
    pub(super) quote: bool,
}

/// The kind of word before a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CueWord {
    /// The name of the input.
    Name,
    /// A verb whose object is a text: `say *`.
    Speech,
    /// A preposition: `in *`.
    Preposition,
    /// Any other word, or no word.
    Other,
}

/// Words that a name follows.
const PREPOSITIONS: [&str; 18] = [
    "in", "at", "for", "from", "to", "of", "near", "around", "into", "with", "between", "by",
    "and", "versus", "vs", "than", "via", "within",
];
/// Verbs whose object is a text for another person to read.
const SPEECH: [&str; 21] = [
    "say",
    "saying",
    "says",
    "tweet",
    "post",
    "share",
    "announce",
    "tell",
    "notify",
    "message",
    "write",
    "send",
    "publish",
    "text",
    "push",
    "broadcast",
    "reply",
    "warn",
    "check",
    "proofread",
    "translate",
];

/// A pattern as words.
struct WordPattern {
    field: usize,
    rank: usize,
    cue: CueWord,
    before: Vec<usize>,
    after: Vec<usize>,
}

/// The numbers of the words in patterns. Numbers are cheap to compare.
#[derive(Default)]
struct WordInterner(BTreeMap<String, usize>);

impl WordInterner {
    fn intern(&mut self, word: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(word.to_owned()).or_insert(next)
    }

    /// The pattern words that match a word of a sentence: the word itself, and the verb that it is a form
    /// of.
    fn word_ids(&self, word: &TextToken<'_>) -> Vec<usize> {
        let norm = word.norm.as_str();
        let mut forms = vec![norm.to_owned()];
        if let Some(stem) = norm.strip_suffix("ing").filter(|stem| stem.len() >= 3) {
            forms.push(stem.to_owned());
            forms.push(format!("{stem}e"));
            let mut letters = stem.chars().rev();
            if let (Some(last), Some(other)) = (letters.next(), letters.next())
                && last == other
            {
                forms.push(stem[..stem.len() - last.len_utf8()].to_owned());
            }
        }
        forms.iter().filter_map(|form| self.0.get(form).copied()).collect()
    }
}

impl WordPattern {
    /// Returns the match whose value is at `value_words`.
    fn to_match(&self, value_words: (usize, usize), before: usize, quote: bool) -> PatternMatch {
        let Self { field, rank, cue, .. } = *self;
        PatternMatch { field, rank, cue, value_words, before, quote }
    }
}

/// Finds every position that matches a pattern of these inputs, or the name of one of them.
pub(super) fn find_matches(
    words: &[TextToken<'_>],
    begins: &[bool],
    fields: &[InputField],
) -> Vec<PatternMatch> {
    let mut book = WordInterner::default();
    let patterns = read_patterns(fields, &mut book);
    let numbers: Vec<Vec<usize>> = words
        .iter()
        .map(|word| if word.kind == TokenKind::Word { book.word_ids(word) } else { Vec::new() })
        .collect();
    let meets = |pattern: &[usize], at: usize| {
        let place = numbers.get(at..at + pattern.len());
        place.is_some_and(|place| place.iter().zip(pattern).all(|(word, n)| word.contains(n)))
    };
    let mut met: Vec<(&WordPattern, usize, usize)> = Vec::new();
    let mut trailing: Vec<(&WordPattern, usize)> = Vec::new();
    'words: for at in 0..words.len() {
        for pattern in &patterns {
            if met.len() + trailing.len() == MAX_MATCHES {
                break 'words;
            }
            if pattern.before.is_empty() {
                trailing.extend((at > 0 && meets(&pattern.after, at)).then_some((pattern, at)));
            } else if meets(&pattern.before, at) {
                let star = skip_opening(words, at + pattern.before.len());
                met.push((pattern, at, star));
            }
        }
    }
    let named = find_names(words, fields);
    let reach = SpanLimit {
        words,
        begins,
        starts: met.iter().map(|(_, at, _)| *at).collect(),
        stars: met.iter().map(|(_, _, star)| *star).collect(),
        names: named.iter().map(|(_, at, _)| *at).collect(),
    };
    let mut matches: Vec<PatternMatch> = Vec::new();
    for (pattern, _, star) in met {
        let before = pattern.before.len();
        let mut see = |star: usize, (end, quote): (usize, bool)| {
            matches.push(pattern.to_match((star, end), before, quote));
        };
        let items = takes_list(fields.get(pattern.field));
        let (end, quote) = reach.end_of(star, items, true);
        if pattern.after.is_empty() {
            see(star, (end, quote));
        } else if let Some(after) = (star + 1..=end).find(|at| meets(&pattern.after, *at)) {
            see(star, (after, false));
        }
        // "Post the following: …": the text follows the colon.
        if pattern.cue == CueWord::Speech
            && words.get(end).is_some_and(|w| w.kind == TokenKind::Break(':'))
        {
            let star = skip_opening(words, end);
            see(star, reach.end_of(star, items, true));
        }
    }
    matches.extend(trailing.into_iter().map(|(pattern, at)| {
        let quote = words.get(at - 1).is_some_and(|word| matches!(word.kind, TokenKind::Quote(..)));
        pattern.to_match((reach.start_of(at), at), 0, quote)
    }));
    for (field, _, star) in named {
        let (end, quote) = reach.end_of(star, takes_list(fields.get(field)), false);
        let star = (star, end);
        matches.push(PatternMatch {
            field,
            rank: 0,
            cue: CueWord::Name,
            value_words: star,
            before: usize::MAX,
            quote,
        });
    }
    keep_longest(matches)
}

/// Keeps the longest match when patterns of several inputs end at the same word: `of *` loses against
/// `ministry of *`.
fn keep_longest(mut matches: Vec<PatternMatch>) -> Vec<PatternMatch> {
    let mut longest: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for pattern_match in &matches {
        let most = longest
            .entry(pattern_match.value_words.0)
            .or_insert((pattern_match.before, pattern_match.field));
        if pattern_match.before > most.0 {
            *most = (pattern_match.before, pattern_match.field);
        }
    }
    matches.retain(|pattern_match| {
        longest.get(&pattern_match.value_words.0).is_none_or(|(before, field)| {
            pattern_match.before == *before
                || pattern_match.field == *field
                || pattern_match.before == 0
        })
    });
    matches
}

fn read_patterns(fields: &[InputField], book: &mut WordInterner) -> Vec<WordPattern> {
    let mut patterns = Vec::new();
    for (field, about) in fields.iter().enumerate() {
        for (rank, text) in about.patterns.iter().enumerate() {
            if patterns.len() == MAX_PATTERNS {
                return patterns;
            }
            let Some((before, after)) = text.split_once('*') else { continue };
            let before = words_of(before);
            let after = words_of(after);
            if before.len() > MAX_PATTERN_WORDS || after.len() > MAX_PATTERN_WORDS {
                continue;
            }
            if before.is_empty() && after.is_empty() {
                continue;
            }
            let lead = match before.last().map(String::as_str) {
                Some(last) if PREPOSITIONS.contains(&last) => CueWord::Preposition,
                Some(last) if SPEECH.contains(&last) => CueWord::Speech,
                _ => CueWord::Other,
            };
            let mut number = |words: Vec<String>| -> Vec<usize> {
                words.iter().map(|word| book.intern(word)).collect()
            };
            let (before, after) = (number(before), number(after));
            patterns.push(WordPattern { field, rank: rank + 1, cue: lead, before, after });
        }
    }
    patterns
}

/// Splits a part of a pattern into words, in the same way as a sentence.
fn words_of(text: &str) -> Vec<String> {
    let words = crate::intent_text::tokenize(text, &|_| false);
    words.into_iter().filter(|word| word.kind == TokenKind::Word).map(|word| word.norm).collect()
}

fn takes_list(field: Option<&InputField>) -> bool {
    field.is_some_and(|field| super::value_parser::takes_list(&field.schema))
}

/// Skips a colon and an opening bracket before a value.
fn skip_opening(words: &[TextToken<'_>], mut at: usize) -> usize {
    while words
        .get(at)
        .is_some_and(|word| matches!(word.kind, TokenKind::Break(':' | '=' | '(' | '[')))
    {
        at += 1;
    }
    at
}

/// Finds the names of inputs before a colon or `=`: the input, the position of the name, and the position
/// of the value.
fn find_names(words: &[TextToken<'_>], fields: &[InputField]) -> Vec<(usize, usize, usize)> {
    let assigns = |word: &TextToken<'_>| matches!(word.kind, TokenKind::Break(':' | '='));
    let places: Vec<usize> = (1..words.len()).filter(|at| assigns(&words[*at])).collect();
    let mut named = Vec::new();
    for (index, field) in fields.iter().enumerate().take(MAX_PATTERNS) {
        let apart = split_name(&field.name).to_lowercase();
        let apart: Vec<&str> = apart.split(' ').collect();
        for at in &places {
            let last = &words[at - 1];
            let whole = last.kind == TokenKind::Word && last.text.eq_ignore_ascii_case(&field.name);
            let first = if whole { at - 1 } else { at.saturating_sub(apart.len()) };
            let is_apart = || {
                let place = &words[first..*at];
                place.len() == apart.len() && place.iter().zip(&apart).all(|(w, part)| w.is(part))
            };
            if (whole || is_apart()) && named.len() < MAX_MATCHES {
                named.push((index, first, skip_opening(words, *at)));
            }
        }
    }
    named
}

/// The positions that limit the extent of a value.
struct SpanLimit<'r, 's> {
    words: &'r [TextToken<'s>],
    /// True for each word at which a request begins.
    begins: &'r [bool],
    /// The positions where patterns begin, and where the values after them begin.
    starts: BTreeSet<usize>,
    stars: BTreeSet<usize>,
    /// The positions where names before a colon begin.
    names: BTreeSet<usize>,
}

impl SpanLimit<'_, '_> {
    /// The end of a value that begins at `star`, and true when a quoted text ends it. A list of items
    /// continues after commas.
    fn end_of(&self, star: usize, items: bool, at_patterns: bool) -> (usize, bool) {
        let mut at = star;
        while let Some(word) = self.words.get(at) {
            let begins = at > star && self.begins.get(at) == Some(&true);
            let is_start = at_patterns && self.starts.contains(&at);
            if begins || is_start || self.names.contains(&at) {
                break;
            }
            match word.kind {
                TokenKind::Quote(..) if !items => return (at + 1, true),
                TokenKind::Word | TokenKind::Quote(..) => {}
                TokenKind::Break(',' | '[' | '{') if items => {}
                TokenKind::Break(_) => break,
            }
            at += 1;
        }
        (at, false)
    }

    /// The beginning of a value that ends before `end`.
    fn start_of(&self, end: usize) -> usize {
        let mut start = end;
        while let Some(before) = start.checked_sub(1) {
            if matches!(self.words[before].kind, TokenKind::Break(_)) {
                break;
            }
            start = before;
            let quoted = self.words[start].kind != TokenKind::Word;
            let is_first = self.begins.get(start) == Some(&true) || self.stars.contains(&start);
            if is_first || quoted {
                break;
            }
        }
        start
    }
}
