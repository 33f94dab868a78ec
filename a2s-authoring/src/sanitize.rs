//! Foreign text on its way into a document or onto a terminal: one line, bounded, nothing hidden.

/// Returns `text` as one line of at most `most` characters. Removes control characters, characters that
/// reorder or hide text, and HTML tags. Each run of white space becomes one space.
pub(crate) fn clean_line(text: &str, most: usize) -> String {
    // Text beyond this is cut off anyway; tags and spaces may use up a part of it.
    let shown = text.chars().take(most.saturating_mul(8).max(4_096));
    shorten(&a2s::to_single_line(&without_tags(&shown.collect::<String>()), usize::MAX), most)
}

/// Returns a description as one line; `None` when it has no content.
pub(crate) fn description(text: &str, most: usize) -> Option<String> {
    let line = clean_line(text, most);
    let says = line.chars().any(char::is_alphanumeric);
    (says && !a2s::is_placeholder(&line)).then_some(line)
}

/// Returns the first sentence of `text`, as one line of at most `most` characters.
pub(crate) fn sentence(text: &str, most: usize) -> String {
    let paragraph = text.trim_start().split("\n\n").next().unwrap_or_default();
    let whole = clean_line(paragraph, paragraph.len().min(4 * most));
    let end = whole.match_indices(". ").find(|(at, _)| {
        // `e.g. ` and `v1. ` end no sentence.
        let word = whole[..*at].rsplit(' ').next().unwrap_or_default();
        word.chars().count() > 3 && !word.contains('.')
    });
    let first = end.map_or(whole.as_str(), |(at, _)| &whole[..at]);
    shorten(first.trim_end_matches('.'), most)
}

/// Shortens `text` to at most `most` characters, between words if possible.
fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    let end = kept.rfind(' ').filter(|end| *end > kept.len() / 2).unwrap_or(kept.len());
    format!("{}…", kept[..end].trim_end_matches([' ', ',', ';', ':', '.']))
}

/// Removes from `text` everything that looks like an HTML tag.
fn without_tags(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let inside = &rest[1..];
        let begins = inside.trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
        match inside.find(['<', '>']) {
            Some(end) if begins && end <= LONGEST && inside[end..].starts_with('>') => {
                kept.push(' ');
                rest = &inside[end + 1..];
            }
            _ => {
                kept.push('<');
                rest = inside;
            }
        }
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_one_visible_line() {
        let check =
            |text: &str, expected: &str| assert_eq!(clean_line(text, 20), expected, "{text:?}");
        check("  a\r\n b\t\u{1b}[31mred\u{7f} ", "a b [31mred");
        check("left\u{202e}thgir\u{200b}", "leftthgir");
        check("so\u{e0165}\u{3164}ft\u{ad}", "soft");
        check("<p>Hello <b>you</b></p>", "Hello you");
        check("a < b and c > d", "a < b and c > d");
        check("one two three four five six", "one two three four…");
        check(&"ä".repeat(30), &format!("{}…", "ä".repeat(19)));
        check("", "");
    }

    #[test]
    fn the_first_sentence_ends_at_its_full_stop() {
        let check = |text, expected: &str| assert_eq!(sentence(text, 60), expected, "{text:?}");
        check("Gets a user. Needs a token.", "Gets a user");
        check("Gets users, e.g. admins. More.", "Gets users, e.g. admins");
        check("Gets a user\n\nIn detail", "Gets a user");
        check("Gets\na user.", "Gets a user");
    }
}
