//! Dates and years, read with the names that `jiff` knows.

use std::ops::Range;

use jiff::civil::{Date, Weekday};
use jiff::fmt::strtime;
use jiff::{Span, ToSpan};
use serde_json::json;

use super::mention::{Mention, is_separator, phrase};
use crate::intent_text::{TextToken, TokenKind};

/// The maximum number of words of a date.
const MOST_WORDS: usize = 4;
/// Years that a number can mean.
const YEARS: std::ops::RangeInclusive<i64> = 1_800..=2_199;
/// The maximum number of years of a range.
const MAX_YEARS: i64 = 50;
/// Forms of a date with its year.
const COMPLETE: [&str; 6] =
    ["%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%d of %B %Y"];
/// Forms of a date without a year.
const YEARLESS: [&str; 5] = ["%d %B", "%d %b", "%B %d", "%b %d", "%d of %B"];
/// Words that say that a sentence is about the past: a day without a year is not the next one there.
const PAST: [&str; 10] =
    ["was", "were", "did", "had", "last", "past", "since", "ago", "happened", "previous"];

/// Finds the days that words name. `today` is the current date.
pub(super) fn find_dates(words: &[TextToken<'_>], today: Date) -> Vec<Mention> {
    let is_past = words.iter().any(|word| PAST.contains(&word.norm.as_str()));
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let longest = MOST_WORDS.min(words.len() - at);
        let named = (1..=longest).rev().find_map(|length| {
            let text = join_date(words.get(at..at + length)?)?;
            let before = at.checked_sub(1).map_or("", |before| words[before].norm.as_str());
            let date = read_complete(&text)
                .or_else(|| read_relative(&text, today))
                .or_else(|| read_next(&text, today).filter(|_| !is_past && before != "next"))?;
            Some((length, date))
        });
        let length = named.map_or(1, |(length, _)| length);
        found.extend(named.map(|(length, date)| Mention {
            words: at..at + length,
            value: json!(date.to_string()),
            amount: None,
        }));
        at += length;
    }
    found
}

/// Finds the years that words name: `in 2027`, `next year`, and each of "2026 and 2027" after such a word.
pub(super) fn find_years(words: &[TextToken<'_>], today: Date) -> Vec<Mention> {
    const BEFORE: [&str; 8] = ["in", "of", "for", "year", "years", "during", "since", "until"];
    let mut found: Vec<Mention> = Vec::new();
    for at in 0..words.len() {
        let relative =
            words.get(at..at + 2).and_then(phrase).and_then(|text| match text.as_str() {
                "this year" => Some(0),
                "next year" => Some(1),
                "last year" => Some(-1),
                _ => None,
            });
        if let Some(year) = relative {
            let year = i64::from(today.year()) + year;
            found.push(Mention { words: at..at + 2, value: json!(year), amount: None });
            continue;
        }
        let year = words[at].text.parse::<i64>().ok().filter(|year| YEARS.contains(year));
        let before = words.get(at.saturating_sub(2)..at).unwrap_or_default();
        let follows = |word: &TextToken<'_>| {
            found.last().is_some_and(|last| {
                is_separator(word) && last.words.end + 2 >= at && last.words.end < at
            })
        };
        let is_introduced = before.last().is_some_and(|word| {
            follows(word)
                || BEFORE.contains(&word.norm.as_str())
                || word.is_capitalised()
                    && before.len() == 2
                    && BEFORE.contains(&before[0].norm.as_str())
        });
        if let Some((range, years)) =
            year.filter(|_| is_introduced).and_then(|from| find_year_range(words, at, from))
        {
            found.push(Mention { words: range, value: json!(years), amount: None });
            continue;
        }
        if found.last().is_some_and(|last| last.words.contains(&at)) {
            continue;
        }
        // "of 2027 books" counts books.
        let ends = words.get(at + 1).is_none_or(|next| {
            next.kind != TokenKind::Word
                || is_separator(next)
                || ["in", "for", "please"].contains(&next.norm.as_str())
        });
        if let Some(year) = year.filter(|_| words[at].text.len() == 4 && is_introduced && ends) {
            found.push(Mention { words: at..at + 1, value: json!(year), amount: None });
        }
    }
    found
}

/// Returns the years from one year through another: `2026 to 2028`.
fn find_year_range(
    words: &[TextToken<'_>],
    at: usize,
    from: i64,
) -> Option<(Range<usize>, Vec<i64>)> {
    const THROUGH: [&str; 6] = ["through", "to", "until", "till", "-", "–"];
    words.get(at + 1).filter(|word| THROUGH.contains(&word.norm.as_str()))?;
    let to = words.get(at + 2)?.text.parse::<i64>().ok().filter(|year| YEARS.contains(year))?;
    (from < to && to - from < MAX_YEARS).then(|| (at..at + 3, (from..=to).collect()))
}

/// Returns true when two words are a duration, such as "5 days".
pub(super) fn is_duration(words: &[TextToken<'_>]) -> bool {
    phrase(words).is_some_and(|text| text.parse::<Span>().is_ok())
}

/// Returns true when a word is the name of a day or month.
pub(super) fn is_calendar_word(word: &str) -> bool {
    ["%A", "%B"].iter().any(|form| strtime::parse(form, word).is_ok())
}

/// Returns words as a date is written, without commas and the ends of ordinal numbers.
fn join_date(words: &[TextToken<'_>]) -> Option<String> {
    let is_edge_break =
        |word: Option<&TextToken<'_>>| word.is_none_or(|word| word.kind != TokenKind::Word);
    if is_edge_break(words.first()) || is_edge_break(words.last()) {
        return None;
    }
    let mut parts = Vec::new();
    for word in words {
        match word.kind {
            TokenKind::Break(',') => {}
            TokenKind::Break(_) | TokenKind::Quote(..) => return None,
            TokenKind::Word => {
                let ordinal =
                    ["st", "nd", "rd", "th"].iter().find_map(|end| word.norm.strip_suffix(end));
                let number = ordinal.filter(|text| text.parse::<u8>().is_ok());
                parts.push(number.unwrap_or(&word.norm));
            }
        }
    }
    Some(parts.join(" "))
}

fn read_complete(text: &str) -> Option<Date> {
    let date = COMPLETE.iter().find_map(|form| strtime::parse(form, text).ok()?.to_date().ok())?;
    YEARS.contains(&i64::from(date.year())).then_some(date)
}

fn read_relative(text: &str, today: Date) -> Option<Date> {
    match text {
        "today" => Some(today),
        "tomorrow" => today.tomorrow().ok(),
        "yesterday" => today.yesterday().ok(),
        _ => None,
    }
}

/// Reads a day without a year, or a day of the week, as the next one.
fn read_next(text: &str, today: Date) -> Option<Date> {
    let in_year = |form: &&str| {
        let parsed = strtime::parse(form, text).ok()?;
        let (month, day) = (parsed.month()?, parsed.day()?);
        let date = |year| Date::new(year, month, day).ok();
        date(today.year())
            .filter(|date| *date >= today)
            .or_else(|| date(today.year().checked_add(1)?))
    };
    let of_week = || {
        let weekday: Weekday = strtime::parse("%A", text).ok()?.weekday()?;
        // "Friday" on a Friday can be today or a week later.
        let days = i64::from(today.weekday().until(weekday));
        today.checked_add(days.days()).ok().filter(|_| days > 0)
    };
    YEARLESS.iter().find_map(in_year).or_else(of_week)
}
