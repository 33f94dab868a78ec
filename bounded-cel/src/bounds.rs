//! The bounds of a text, counted without a parser.

use std::fmt;

/// The maximum depth of nested brackets.
pub const MAX_NESTING: usize = 8;

/// The maximum counts of an expression, beside [`MAX_NESTING`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of operators.
    pub operators: usize,
    /// The number of `.` and `[`.
    pub selections: usize,
    /// The number of characters in operators, of opening brackets and of `.`.
    pub symbols: usize,
}

/// The reason why a text is not parsed. Its words follow the name of the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Its brackets are nested deeper than [`MAX_NESTING`].
    TooNested,
    /// It exceeds another bound.
    TooMany {
        /// The bound.
        most: usize,
        /// The name of the counted parts.
        what: &'static str,
    },
    /// It is not CEL.
    Syntax {
        /// CEL's words for the first error.
        message: String,
        /// True when a string has no end.
        has_open_string: bool,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooNested => write!(f, "has more than {MAX_NESTING} nested brackets"),
            Self::TooMany { most, what } => write!(f, "has more than {most} {what}"),
            Self::Syntax { has_open_string: true, .. } => {
                f.write_str("has a string without an end")
            }
            Self::Syntax { message, .. } => write!(f, "is not CEL: {message}"),
        }
    }
}

impl std::error::Error for ParseError {}

impl Bounds {
    /// Checks the tokens of a text. Returns true when a string has no end.
    pub(crate) fn check(self, source: &str) -> Result<bool, ParseError> {
        let (mut nesting, mut operators, mut selections, mut symbols) = (0_usize, 0, 0, 0);
        let mut has_open_string = false;
        let mut rest = source;
        while !rest.is_empty() {
            let (token, text) = Token::first(rest);
            match token {
                Token::Opening => {
                    nesting += 1;
                    symbols += 1;
                    selections += usize::from(text == "[");
                }
                Token::Closing => nesting = nesting.saturating_sub(1),
                Token::Dot => {
                    symbols += 1;
                    selections += 1;
                }
                Token::Operator => {
                    symbols += text.len();
                    operators += 1;
                }
                Token::OpenString => has_open_string = true,
                Token::String | Token::Comment | Token::Other => {}
            }
            if MAX_NESTING < nesting {
                return Err(ParseError::TooNested);
            }
            for (count, most, what) in [
                (operators, self.operators, "operators"),
                (selections, self.selections, "selections"),
                (symbols, self.symbols, "symbols"),
            ] {
                if most < count {
                    return Err(ParseError::TooMany { most, what });
                }
            }
            rest = &rest[text.len()..];
        }
        Ok(has_open_string)
    }
}

/// The kinds of tokens that the bounds distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A string of any form, with its prefix when it is raw.
    String,
    /// A string that its line or the text ends.
    OpenString,
    /// A comment to the end of its line.
    Comment,
    /// An opening bracket.
    Opening,
    /// A closing bracket.
    Closing,
    /// The `.` of a selection or a number.
    Dot,
    /// An operator.
    Operator,
    /// A word, or any other character.
    Other,
}

impl Token {
    /// Returns the first token of a text, which is empty only when the text is.
    #[must_use]
    pub fn first(text: &str) -> (Self, &str) {
        let Some(first) = text.chars().next() else { return (Self::Other, text) };
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let word = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let is_raw = ["r", "br", "rb"].contains(&text[..word].to_ascii_lowercase().as_str());
        let (token, length) = match first {
            _ if text[word..].starts_with(['"', '\'']) && (word == 0 || is_raw) => {
                match string_length(&text[word..], is_raw) {
                    Ok(length) => (Self::String, word + length),
                    Err(length) => (Self::OpenString, word + length),
                }
            }
            _ if 0 < word => (Self::Other, word),
            _ if text.starts_with("//") => (Self::Comment, text.find('\n').unwrap_or(text.len())),
            '(' | '[' | '{' => (Self::Opening, 1),
            ')' | ']' | '}' => (Self::Closing, 1),
            '.' => (Self::Dot, 1),
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '!' | '=' | '&' | '|' | '?' => {
                let two = ["==", "!=", "<=", ">=", "&&", "||"];
                (Self::Operator, if two.iter().any(|two| text.starts_with(two)) { 2 } else { 1 })
            }
            other => (Self::Other, other.len_utf8()),
        };
        (token, &text[..length])
    }
}

/// Returns the length of the string literal at the start, including its quotes, or as an error that
/// of a literal without an end.
fn string_length(source: &str, is_raw: bool) -> Result<usize, usize> {
    let is_triple = source.starts_with("\"\"\"") || source.starts_with("'''");
    let quote = &source[..if is_triple { 3 } else { 1 }];
    let mut place = quote.len();
    while let Some(c) = source[place..].chars().next() {
        if source[place..].starts_with(quote) {
            return Ok(place + quote.len());
        }
        if matches!(c, '\n' | '\r') && !is_triple {
            break;
        }
        place += c.len_utf8();
        if c == '\\' && !is_raw {
            place += source[place..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Err(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_end_where_cel_ends_them() {
        for (text, token, first) in [
            ("'a\\'b' + 1", Token::String, "'a\\'b'"),
            (r"r'\' + 1", Token::String, r"r'\'"),
            ("bR\"\"\"a\n\"b\"\"\"c", Token::String, "bR\"\"\"a\n\"b\"\"\""),
            ("b'a'", Token::Other, "b"),
            ("'a\n'", Token::OpenString, "'a"),
            ("'a\\", Token::OpenString, "'a\\"),
            ("// it's\n'", Token::Comment, "// it's"),
            ("/ 2", Token::Operator, "/"),
            ("<= 2", Token::Operator, "<="),
            ("é1'", Token::Other, "é1"),
            ("", Token::Other, ""),
        ] {
            assert_eq!(Token::first(text), (token, first), "{text}");
        }
    }
}
