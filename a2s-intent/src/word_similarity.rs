//! Words of names, descriptions and requests, in a form that can be compared.

use std::collections::BTreeSet;

/// Words that do not show the intent.
const INTENT_STOP_WORDS: [&str; 52] = [
    "about", "agent", "all", "and", "any", "are", "but", "can", "could", "data", "does", "find",
    "for", "from", "get", "give", "given", "has", "have", "how", "into", "its", "let", "list",
    "make", "may", "need", "not", "one", "our", "out", "please", "post", "say", "send", "show",
    "some", "tell", "that", "the", "their", "them", "this", "use", "user", "want", "what", "when",
    "which", "with", "you", "your",
];

/// Names that do not show the meaning of a value. Two equal names of this list are weak evidence.
pub const GENERIC_NAMES: [&str; 44] = [
    "body",
    "code",
    "content",
    "count",
    "data",
    "date",
    "dates",
    "day",
    "days",
    "description",
    "found",
    "id",
    "items",
    "key",
    "kind",
    "language",
    "level",
    "limit",
    "link",
    "message",
    "name",
    "names",
    "number",
    "numbers",
    "options",
    "order",
    "query",
    "result",
    "results",
    "section",
    "status",
    "text",
    "time",
    "title",
    "titles",
    "topic",
    "type",
    "url",
    "value",
    "values",
    "when",
    "word",
    "words",
    "year",
];
/// Names of inputs that accept any text.
pub const CONTENT_INPUTS: [&str; 11] = [
    "text",
    "message",
    "content",
    "body",
    "note",
    "comment",
    "caption",
    "announcement",
    "sentence",
    "status",
    "post",
];
/// Names of outputs with the main content of a capability, the most likely first.
pub const MAIN_OUTPUTS: [&str; 14] = [
    "text",
    "summary",
    "message",
    "joke",
    "quote",
    "sentence",
    "answer",
    "explanation",
    "translation",
    "content",
    "report",
    "result",
    "headline",
    "description",
];
/// Verbs at the beginning of the names of capabilities that change something.
pub const CHANGING_VERBS: [&str; 24] = [
    "post", "send", "share", "publish", "notify", "push", "announce", "tweet", "write", "create",
    "update", "delete", "remove", "add", "set", "upload", "reach", "warn", "alert", "order",
    "book", "buy", "pay", "save",
];
/// Words that do not show the subject of a text.
const STOP_WORDS: [&str; 46] = [
    "a", "an", "the", "of", "in", "on", "at", "for", "to", "from", "by", "with", "and", "or", "as",
    "its", "is", "are", "be", "it", "that", "this", "one", "two", "such", "what", "which", "how",
    "whose", "each", "all", "any", "get", "gets", "list", "lists", "find", "finds", "name",
    "current", "when", "where", "so", "than", "only", "code",
];

/// Returns the words of an identifier in lower case.
#[must_use]
pub fn words_of_name(name: &str) -> Vec<String> {
    a2s::split_name(name).to_lowercase().split(' ').map(str::to_owned).collect()
}

/// The words of a text that show its subject, in the singular.
#[must_use]
pub fn words_of_text(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| word.len() > 1).map(str::to_lowercase);
    words.filter(|word| !STOP_WORDS.contains(&word.as_str())).map(|word| singular(&word)).collect()
}

/// The singular of a word, guessed from its ending: good enough to compare two words.
#[must_use]
pub fn singular(word: &str) -> String {
    let stem = match word {
        _ if word.len() <= 3 || word.ends_with("ss") => None,
        _ if word.ends_with("ies") => word.strip_suffix("ies").map(|stem| format!("{stem}y")),
        _ if ["ches", "shes", "xes", "sses"].iter().any(|end| word.ends_with(end)) => {
            word.strip_suffix("es").map(str::to_owned)
        }
        _ => word.strip_suffix('s').map(str::to_owned),
    };
    stem.unwrap_or_else(|| word.to_owned())
}

/// Returns true when two lists of words are the same, apart from singular and plural.
#[must_use]
pub fn are_same_words(one: &[String], other: &[String]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| singular(one) == singular(other))
}

/// The words that show the intent, in one form for singular and plural.
#[must_use]
pub fn content_words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let words = words
        .filter(|word| word.chars().count() > 2 && !INTENT_STOP_WORDS.contains(&word.as_str()));
    words.map(|word| word.strip_suffix('s').unwrap_or(&word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_in_the_singular() {
        for (plural, one) in [
            ("cities", "city"),
            ("classes", "class"),
            ("boxes", "box"),
            ("gas", "gas"),
            ("rates", "rate"),
        ] {
            assert_eq!(singular(plural), one);
        }
        assert!(are_same_words(&words_of_name("cityNames"), &words_of_name("city_name")));
        assert_eq!(words_of_text("Name of the cities, such as Oslo"), ["city", "oslo"]);
    }
}
