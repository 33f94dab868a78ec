//! A sentence as words, quoted texts and punctuation, each with its place.

use super::MAX_WORDS;

/// A token of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextToken<'s> {
    /// Its start and end, in bytes of the sentence.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The token as written.
    pub(crate) text: &'s str,
    /// The token in lower case, with `'` for every apostrophe.
    pub(crate) norm: String,
    pub(crate) kind: TokenKind,
}

/// The kind of a piece of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word, a number, an address.
    Word,
    /// A quoted text, with the start and the end of its content.
    Quote(usize, usize),
    /// Punctuation, or the end of a line.
    Break(char),
}

impl TextToken<'_> {
    /// Returns true when it is this word, given in lower case.
    pub(crate) fn is(&self, norm: &str) -> bool {
        self.kind == TokenKind::Word && self.norm == norm
    }

    /// Returns true when it begins with an upper-case letter.
    pub(crate) fn is_capitalised(&self) -> bool {
        self.text.chars().next().is_some_and(char::is_uppercase)
    }
}

/// Words after which `'s` is short for `is`; after other words it is a possessive.
const SHORTENED: [&str; 9] = ["what", "who", "where", "how", "when", "that", "there", "here", "it"];
/// Words that are written with a full stop.
const ABBREVIATIONS: [&str; 14] =
    ["st", "mt", "ft", "dr", "mr", "mrs", "ms", "jr", "sr", "prof", "vs", "no", "sta", "ste"];
/// The opening quotation marks, each with its closing marks.
const QUOTES: [(char, &[char]); 12] = [
    ('"', &['"']),
    ('\'', &['\'']),
    ('`', &['`']),
    ('“', &['”', '“']),
    ('„', &['“', '”']),
    ('”', &['”']),
    ('‘', &['’', '‘']),
    ('‚', &['‘', '’']),
    ('«', &['»']),
    ('»', &['«']),
    ('「', &['」']),
    ('『', &['』']),
];

/// Splits a sentence into tokens. `is_name` returns true when a text before a colon is a name: `city:Paris`
/// is a name and its value, but `https://…` and `10:30` are words.
pub(crate) fn tokenize<'s>(
    sentence: &'s str,
    is_name: &dyn Fn(&str) -> bool,
) -> Vec<TextToken<'s>> {
    let mut reader = TextTokenizer { sentence, at: 0, words: Vec::new(), unclosed: [false; 12] };
    while reader.words.len() < MAX_WORDS && reader.skip_space() {
        reader.read_piece(is_name);
    }
    reader.words
}

struct TextTokenizer<'s> {
    sentence: &'s str,
    at: usize,
    words: Vec<TextToken<'s>>,
    /// The quotation marks that are not closed from here on: each failed search happens only once.
    unclosed: [bool; 12],
}

impl<'s> TextTokenizer<'s> {
    fn rest(&self) -> &'s str {
        &self.sentence[self.at..]
    }

    /// Skips white space, and adds a line end as a token. Returns true when another token follows.
    fn skip_space(&mut self) -> bool {
        let rest = self.rest();
        let space = &rest[..rest.len() - rest.trim_start().len()];
        if let Some(end) = space.find('\n').filter(|_| !self.words.is_empty()) {
            self.push(self.at + end, self.at + end + 1, TokenKind::Break('\n'));
        }
        self.at += space.len();
        self.at < self.sentence.len()
    }

    fn push(&mut self, start: usize, end: usize, kind: TokenKind) {
        let text = &self.sentence[start..end];
        let norm = match kind {
            TokenKind::Word => text.to_lowercase().replace('’', "'"),
            TokenKind::Quote(..) | TokenKind::Break(_) => String::new(),
        };
        self.words.push(TextToken { start, end, text, norm, kind });
    }

    fn read_piece(&mut self, is_name: &dyn Fn(&str) -> bool) {
        if self.read_quote() {
            return;
        }
        let chunk = self.rest().split(char::is_whitespace).next().unwrap_or_default();
        let mut letters = chunk.chars();
        let Some(first) = letters.next() else { return };
        if breaks_before(first, letters.next()) {
            self.push(self.at, self.at + first.len_utf8(), TokenKind::Break(first));
            self.at += first.len_utf8();
            return;
        }
        let chunk = until_assignment(chunk, is_name);
        let word = without_punctuation(chunk, &self.rest()[chunk.len()..]);
        let end = self.at + word.len();
        self.push_word(end);
        self.at = end;
        if word.is_empty() {
            self.at += first.len_utf8();
        }
    }

    /// Adds a word. A contraction such as `what's` becomes two words.
    fn push_word(&mut self, end: usize) {
        let text = &self.sentence[self.at..end];
        if text.is_empty() {
            return;
        }
        let short = ["'s", "’s"].iter().find_map(|s| text.strip_suffix(s));
        match short.filter(|word| SHORTENED.contains(&word.to_lowercase().as_str())) {
            Some(word) => {
                let middle = self.at + word.len();
                self.push(self.at, middle, TokenKind::Word);
                self.push(middle, end, TokenKind::Word);
                if let Some(last) = self.words.last_mut() {
                    "is".clone_into(&mut last.norm);
                }
            }
            None => self.push(self.at, end, TokenKind::Word),
        }
    }

    /// Reads a quoted text if one starts here and ends later. Returns true when it did.
    fn read_quote(&mut self) -> bool {
        let rest = self.rest();
        let mut letters = rest.chars();
        let (Some(open), Some(next)) = (letters.next(), letters.next()) else { return false };
        let Some(kind) = QUOTES.iter().position(|(mark, _)| *mark == open) else { return false };
        if self.unclosed[kind] || next.is_whitespace() {
            return false;
        }
        let closing = QUOTES[kind].1;
        let is_apostrophe = |mark: char| matches!(mark, '\'' | '’' | '‘');
        let inside = open.len_utf8();
        let found = rest[inside..].char_indices().find(|(at, mark)| {
            let after = rest[inside + at + mark.len_utf8()..].chars().next();
            closing.contains(mark)
                // An apostrophe inside a word closes nothing.
                && !(is_apostrophe(*mark) && after.is_some_and(char::is_alphanumeric))
        });
        let Some((length, mark)) = found else {
            self.unclosed[kind] = true;
            return false;
        };
        if is_apostrophe(open) && rest[inside..inside + length].eq_ignore_ascii_case("n") {
            // In rock 'n' roll nothing is quoted.
            return false;
        }
        let start = self.at + inside;
        let end = start + length + mark.len_utf8();
        self.push(self.at, end, TokenKind::Quote(start, start + length));
        self.at = end;
        true
    }
}

/// Returns true when a character is punctuation at the beginning of a piece.
fn breaks_before(first: char, next: Option<char>) -> bool {
    match first {
        '.' | '-' => !next.is_some_and(char::is_alphanumeric),
        '–' | '—' | '…' | '¿' | '¡' | '=' => true,
        _ => matches!(first, ',' | ';' | ':' | '!' | '?' | '(' | ')' | '[' | ']' | '{' | '}'),
    }
}

/// A chunk up to an assigning `=`, or an assigning colon after a name.
fn until_assignment<'c>(chunk: &'c str, is_name: &dyn Fn(&str) -> bool) -> &'c str {
    let Some(at) = chunk.find(['=', ':']) else { return chunk };
    let (name, rest) = chunk.split_at(at);
    let is_plain = |name: &str| {
        name.starts_with(char::is_alphabetic)
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    };
    let is_quoted =
        || rest.chars().nth(1).is_some_and(|c| QUOTES.iter().any(|(mark, _)| *mark == c));
    if is_plain(name) && (rest.starts_with('=') || is_name(name) || is_quoted()) {
        name
    } else {
        chunk
    }
}

/// Returns a chunk without the punctuation at its end. `rest` is the text of the sentence after the chunk.
fn without_punctuation<'c>(chunk: &'c str, rest: &str) -> &'c str {
    let mut word = chunk;
    while let Some(last) = word.chars().next_back() {
        let without = &word[..word.len() - last.len_utf8()];
        let goes = match last {
            ',' | ';' | ':' | '!' | '?' | '…' | '"' | '”' | '»' => true,
            '.' => !(without.len() + 1 == chunk.len() && is_abbreviation(without, rest)),
            ')' => !without.contains('('),
            ']' => !without.contains('['),
            '}' => !without.contains('{'),
            _ => false,
        };
        if !goes {
            break;
        }
        word = without;
    }
    word
}

/// Returns true when a full stop after a word belongs to it: `St. Louis`, `H. P. Lovecraft`, `D.C.`
fn is_abbreviation(word: &str, rest: &str) -> bool {
    let goes_on = rest.trim_start().starts_with(char::is_alphanumeric);
    let has_stop = word.contains('.') && word.split('.').all(|part| part.chars().count() == 1);
    let mut letters = word.chars();
    let is_initial = letters.next().is_some_and(char::is_uppercase) && letters.next().is_none();
    let is_known = ABBREVIATIONS.contains(&word.to_lowercase().as_str());
    // With `no.` a number goes on, and nothing else.
    let is_number = !word.eq_ignore_ascii_case("no")
        || rest.trim_start().starts_with(|c: char| c.is_ascii_digit());
    has_stop || (goes_on && (is_initial || (is_known && is_number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sentence: &str, expected: &[&str]) {
        let words = tokenize(sentence, &|name| name == "city");
        let shown: Vec<_> = words
            .iter()
            .map(|word| match word.kind {
                TokenKind::Word => word.text.to_owned(),
                TokenKind::Quote(start, end) => format!("<{}>", &sentence[start..end]),
                TokenKind::Break(c) => format!("|{}", c.escape_default()),
            })
            .collect();
        assert_eq!(shown, expected, "{sentence:?}");
    }

    #[test]
    fn words_quotes_and_punctuation_are_told_apart() {
        check("In Paris, please!", &["In", "Paris", "|,", "please", "|!"]);
        check("say 'it's raining': now", &["say", "<it's raining>", "|:", "now"]);
        check("the dogs' food isn't his", &["the", "dogs'", "food", "isn't", "his"]);
        check("rock 'n' roll", &["rock", "'n'", "roll"]);
        check("“a b” „c“ ‘d e’ «f» \"", &["<a b>", "<c>", "<d e>", "<f>"]);
        check(
            "city:Paris at 10:30 on https://a.b/?c=d.",
            &["city", "|:", "Paris", "at", "10:30", "on", "https://a.b/?c=d", "|."],
        );
        check("code=DE text:'a b'", &["code", "|=", "DE", "text", "|:", "<a b>"]);
        check(
            "St. Louis, D.C. and No. It",
            &["St.", "Louis", "|,", "D.C.", "and", "No", "|.", "It"],
        );
        check("No. 5 by H. P. Lovecraft", &["No.", "5", "by", "H.", "P.", "Lovecraft"]);
        check(
            "what's Paris's 5.5°?\nA -3 – b",
            &["what", "'s", "Paris's", "5.5°", "|?", "|\\n", "A", "-3", "|\\u{2013}", "b"],
        );
        check(
            "f(x) (a b) [1, 2] .net .",
            &["f(x)", "|(", "a", "b", "|)", "|[", "1", "|,", "2", "|]", ".net", "|."],
        );
        check("", &[]);
        check(" \n ", &[]);
    }

    #[test]
    fn reading_is_bounded() {
        assert_eq!(tokenize(&"a ".repeat(10 * MAX_WORDS), &|_| true).len(), MAX_WORDS);
        // Each of these could look for its end to the end of the text.
        let hostile = "'a “b „c ‘d «e `f ".repeat(100_000);
        assert!(tokenize(&hostile, &|_| true).len() <= MAX_WORDS);
    }
}
