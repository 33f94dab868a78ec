//! Foreign text, made fit to be shown: one line, bounded, nothing that moves the cursor.

/// Returns the first `limit` characters of `text` on one line, without control characters and without
/// characters that change the display of the text around them. An ellipsis shows that text was left out.
#[must_use]
pub fn to_single_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut shown = 0;
    let mut is_gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_gap = !line.is_empty();
            continue;
        }
        if !is_displayable(c) {
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
    c.is_whitespace() || !(c.is_control() || is_invisible(c))
}

/// Returns true for joiners, direction marks, separators, and the replacement character for bytes that are
/// not text.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffd}'
    )
}

/// Returns true when a character controls direction, or is invisible and changes the display. The two
/// joiners do not count, because many scripts need them in words.
pub(crate) fn is_format_control(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0001}'..='\u{e007f}'
    )
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
    }
}
