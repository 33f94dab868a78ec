//! Finding what must not be seen: e-mail addresses, card numbers, keys, and patterns of a policy.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};

use super::expression::regex_error_message;

/// The pattern that a redaction searches for.
#[derive(Clone, Debug)]
pub(super) enum RedactionPattern {
    /// E-mail addresses.
    Email,
    /// Numbers of payment cards: 13 to 19 digits with the right check digit.
    Card,
    /// API keys, tokens and private keys of well-known forms.
    Key,
    /// A pattern of the policy.
    Regex(Regex),
}

static EMAIL: LazyLock<Regex> =
    LazyLock::new(|| compile_regex(r"[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+"));

/// Runs of digits, as they are grouped on cards and in forms.
static DIGITS: LazyLock<Regex> = LazyLock::new(|| compile_regex(r"[0-9](?:[ .-]?[0-9]){12,}"));

static KEY: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(
        r"(?x)
        -----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z0-9\ ]*PRIVATE\ KEY-----|\z)
        | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}
        | \bgh[pousr]_[A-Za-z0-9]{20,}
        | \bgithub_pat_[A-Za-z0-9_]{20,}
        | \bglpat-[A-Za-z0-9_-]{16,}
        | \bxox[a-z]-[A-Za-z0-9-]{10,}
        | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
        | \bAIza[A-Za-z0-9_-]{30,}
        | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
        | \b(?i:bearer|basic)\s+[A-Za-z0-9._~+/-]{12,}=*
        ",
    )
});

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}

impl RedactionPattern {
    /// Compiles a pattern of a policy. The engine is linear in the text; the size of the program is
    /// bounded.
    ///
    /// # Errors
    /// A sentence that describes the problem.
    pub(super) fn from_regex(pattern: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(pattern)
            .size_limit(1 << 20)
            .build()
            .map_err(|e| format!("is not a pattern: {}", regex_error_message(&e)))?;
        if regex.is_match("") {
            return Err("matches the empty text, so it would match everywhere".to_owned());
        }
        Ok(Self::Regex(regex))
    }

    /// Returns the text with every match replaced, borrowed if there is no match.
    pub(super) fn redact<'t>(&self, text: &'t str, replacement: &str) -> Cow<'t, str> {
        let whole = |_: &Captures<'_>| replacement.to_owned();
        match self {
            // The pattern tries every word of a text; most texts have nothing that it could end with.
            Self::Email if !text.contains('@') => Cow::Borrowed(text),
            Self::Email => EMAIL.replace_all(text, whole),
            Self::Card => {
                DIGITS.replace_all(text, |run: &Captures<'_>| redact_cards(&run[0], replacement))
            }
            Self::Key => KEY.replace_all(text, whole),
            Self::Regex(regex) => regex.replace_all(text, whole),
        }
    }
}

/// Replaces the card numbers in a run of digits. A card may be next to other digits, so every stretch of
/// the run that begins and ends with a group is tried, the longest first.
fn redact_cards(run: &str, replacement: &str) -> String {
    let is_digit = |place: usize| run.as_bytes().get(place).is_some_and(u8::is_ascii_digit);
    let starts_group = |place: usize| is_digit(place) && (place == 0 || !is_digit(place - 1));
    let ends_group = |place: usize| !is_digit(place) && is_digit(place - 1);
    let mut out = String::new();
    let mut place = 0;
    while place < run.len() {
        let card = starts_group(place)
            .then(|| {
                // 19 digits with a separator before each but the first.
                let furthest = run.len().min(place + 37);
                (place + 13..=furthest)
                    .rev()
                    .find(|&end| ends_group(end) && is_card(&run[place..end]))
            })
            .flatten();
        match card {
            Some(end) => {
                out.push_str(replacement);
                place = end;
            }
            None => {
                out.push_str(&run[place..=place]);
                place += 1;
            }
        }
    }
    out
}

/// Returns true for 13 to 19 digits with the right check digit (ISO/IEC 7812).
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let doubled = |(place, digit): (usize, &u32)| match (place % 2, digit * 2) {
        (0, _) => *digit,
        (_, twice @ 0..=9) => twice,
        (_, twice) => twice - 9,
    };
    let sum: u32 = digits.iter().rev().enumerate().map(doubled).sum();
    (13..=19).contains(&digits.len())
        && sum.is_multiple_of(10)
        && digits.iter().any(|&digit| digit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &RedactionPattern, text: &str, expected: &str) {
        assert_eq!(pattern.redact(text, "[x]"), expected);
    }

    #[test]
    fn every_address_goes() {
        check(
            &RedactionPattern::Email,
            "to ada@example.org, Bob.O'Neil+x@mail.example.co.uk!",
            "to [x], [x]!",
        );
        check(&RedactionPattern::Email, "<mailto:JÖRG@müller.example>", "<mailto:[x]>");
        check(&RedactionPattern::Email, "at example.org and @home", "at example.org and @home");
    }

    #[test]
    fn cards_go_and_other_numbers_stay() {
        check(&RedactionPattern::Card, "4111 1111 1111 1111", "[x]");
        check(
            &RedactionPattern::Card,
            "pay 5500-0000-0000-0004 or 340000000000009.",
            "pay [x] or [x].",
        );
        check(&RedactionPattern::Card, "4111 1111 1111 1112", "4111 1111 1111 1112");
        check(&RedactionPattern::Card, "order 12345678", "order 12345678");
        check(&RedactionPattern::Card, "0000 0000 0000 0000", "0000 0000 0000 0000");
    }

    #[test]
    fn digits_beside_a_card_do_not_hide_it() {
        check(&RedactionPattern::Card, "1234 4111111111111111", "1234 [x]");
        check(&RedactionPattern::Card, "4111111111111111 12/29", "[x] 12/29");
        check(&RedactionPattern::Card, "99 4111 1111 1111 1111 123", "99 [x] 123");
        check(&RedactionPattern::Card, "4111111111111111 5500000000000004", "[x] [x]");
    }

    #[test]
    fn keys_of_known_forms_go() {
        for key in [
            "sk-abcdefghijklmnopqrstuvwx",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "AKIAABCDEFGHIJKLMNOP",
            "xoxb-1234567890-abc",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln",
            "Bearer abcdef0123456789",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nwithout an end",
        ] {
            check(&RedactionPattern::Key, &format!("use {key}"), "use [x]");
        }
        check(
            &RedactionPattern::Key,
            "skiing in April, the bearer of news",
            "skiing in April, the bearer of news",
        );
    }

    #[test]
    fn a_pattern_that_matches_everywhere_is_refused() {
        assert!(RedactionPattern::from_regex("a*").is_err());
        assert!(RedactionPattern::from_regex("(").is_err());
        check(&RedactionPattern::from_regex(r"ACME-\d+").unwrap(), "ACME-1, ACME-22", "[x], [x]");
    }
}
