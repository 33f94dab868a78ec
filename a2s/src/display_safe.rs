//! Foreign text, made fit to be shown: one line, bounded, nothing that moves the cursor or stays unseen.

use icu_properties::CodePointSetData;
use icu_properties::props::{DefaultIgnorableCodePoint, Emoji};

/// Returns the first `limit` characters of `text` on one line, without control characters and without
/// characters that change the display of the text around them. An ellipsis shows that text was left out.
#[must_use]
pub fn to_single_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut shown = 0;
    let mut is_gap = false;
    for (c, is_hidden) in mark_hidden(text) {
        if c.is_whitespace() {
            is_gap = !line.is_empty();
            continue;
        }
        if is_hidden || is_substitute(c) {
            continue;
        }
        if limit <= shown + usize::from(is_gap) {
            line.push('…');
            break;
        }
        if is_gap {
            line.push(' ');
            shown += 1;
            is_gap = false;
        }
        line.push(c);
        shown += 1;
    }
    line
}

/// Returns true when a character of foreign text is shown, even if only as a gap.
#[must_use]
pub fn is_displayable(c: char) -> bool {
    c.is_whitespace() || !(is_invisible(c) || is_substitute(c))
}

/// Pairs each character of a text with true when it is hidden: it has no shape of its own, or it changes
/// the display of the text around it. Tabs and ends of lines are hidden, too.
///
/// Writing needs some of these characters next to others: a joiner in words of Persian or Hindi, and the
/// selector that makes an emoji of a character. In these positions they are not hidden.
pub fn mark_hidden(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut previous = None;
    text.chars().map(move |c| {
        let is_hidden = is_invisible(c) && !previous.is_some_and(|before| belongs_to(before, c));
        previous = Some(c);
        (c, is_hidden)
    })
}

/// Returns true for control characters, separators of lines, and all characters that Unicode lets a display
/// ignore: joiners, marks of direction, selectors, fillers and tags.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
        || (!c.is_ascii() && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c))
}

/// Returns true when an invisible character has a meaning directly after another one.
fn belongs_to(before: char, c: char) -> bool {
    match c {
        // No joiner follows another: a sequence of them would be a hidden text.
        '\u{200c}' | '\u{200d}' => {
            !before.is_ascii() && (before == '\u{fe0f}' || !is_invisible(before))
        }
        '\u{fe0e}' | '\u{fe0f}' => CodePointSetData::new::<Emoji>().contains(before),
        _ => false,
    }
}

/// Returns true for the characters that stand for something that is not text.
fn is_substitute(c: char) -> bool {
    matches!(c, '\u{fffc}' | '\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_on_one_line_and_within_bounds() {
        assert_eq!(to_single_line("  a\r\n\t b\u{1b}[2J\u{202e}c ", 20), "a b[2Jc");
        assert_eq!(to_single_line("abc", 3), "abc");
        assert_eq!(to_single_line("abcd", 3), "abc…");
        assert_eq!(to_single_line("ab cd", 3), "ab…");
        assert_eq!(to_single_line("\u{fffd}\0", 3), "");
        assert_eq!(to_single_line("a\u{e0165}\u{3164}\u{ad}b", 9), "ab");
    }

    #[test]
    fn every_character_without_a_shape_is_hidden() {
        let invisible = [
            0x00, 0x1b, 0x7f, 0x85, 0x9b, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x180e,
            0x200b, 0x200e, 0x2028, 0x202e, 0x2060, 0x2066, 0x206a, 0x3164, 0xfe00, 0xfe0f, 0xfeff,
            0xffa0, 0xfff9, 0x1d173, 0xe0001, 0xe0041, 0xe007f, 0xe0080, 0xe0100, 0xe01ef, 0xe01f0,
        ];
        for c in invisible.map(|c| char::from_u32(c).unwrap()) {
            let text = format!("a{c}b");
            let hidden: Vec<_> = mark_hidden(&text).filter(|(_, is_hidden)| *is_hidden).collect();
            assert_eq!(hidden, [(c, true)], "{text:?}");
        }
    }

    #[test]
    fn characters_that_writing_needs_are_not_hidden() {
        let check = |text: &str, expected: bool| {
            let is_hidden = mark_hidden(text).any(|(_, is_hidden)| is_hidden);
            assert_eq!(is_hidden, expected, "{text:?}");
        };
        check("Wetter für 東京 🌦\u{fe0f} 1\u{fe0f}\u{20e3} ✔\u{fe0e}", false);
        check("👩\u{200d}🚒 ❤\u{fe0f}\u{200d}🔥", false);
        check("می\u{200c}خواهم क्\u{200d}ष", false);
        check("a\u{200d}b", true);
        check("ی\u{200c}\u{200d}\u{200c}", true);
        check("🌦\u{fe0f}\u{fe0f}", true);
        check("葛\u{e0100}", true);
    }
}
