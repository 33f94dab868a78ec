//! The text that is indexed for a capability, and the clauses of a query.

// How the weights were chosen: Recall@5 of the fused order on the tuning sets (`docs/search.md`,
// "Figures"). Name and description as equals instead of one text: API-Bank 82.9 to 83.8, ToolE
// multi 69.7 to 76.3, Azure commands 86.2 to 87.3.

/// How much each part of a capability counts in its vector.
const NAME_WEIGHT: f32 = 1.0;
const DESCRIPTION_WEIGHT: f32 = 1.0;
const PARAMETERS_WEIGHT: f32 = 0.2;
/// All intents together.
const INTENTS_WEIGHT: f32 = 1.0;
/// Example intents of one capability that count.
pub const MOST_INTENTS: usize = 20;
/// Clauses of one query that are looked at.
const MOST_CLAUSES: usize = 16;
/// Words a clause needs to be searched on its own.
const SHORTEST_CLAUSE: usize = 3;
/// Words after which another request begins.
const CONNECTIVES: [&str; 2] = ["then", "also"];
/// Labels of a hostname that say nothing about the service.
const EMPTY_LABELS: &str = "api apis app co com dev edu example gov http io localhost net org rest \
                            service services uk us www";

/// What an author says about a capability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Described<'a> {
    /// Its name, as an identifier.
    pub name: &'a str,
    /// What it does, in a sentence.
    pub description: &'a str,
    /// Name and description of each parameter; a description may be empty.
    pub parameters: &'a [(&'a str, &'a str)],
    /// Hostnames of its services, with or without a port.
    pub domains: &'a [&'a str],
    /// How somebody would ask for it; the first [`MOST_INTENTS`] count.
    pub intents: &'a [&'a str],
}

/// What a capability is found by. The two indexes want different amounts of it.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexText {
    /// For the vector: the parts and how much each counts, however long it is.
    pub dense: Vec<(String, f32)>,
    /// For the term index: everything, descriptions of parameters and words of hostnames too.
    pub sparse: String,
}

/// The index text of a capability.
///
/// The vector is made of a name, a description, names of parameters and intents as of equals,
/// because each says in its own way what it is for; run together into one text, a long description
/// would drown the name. Intents count as their mean. Were the nearest of them to decide, many
/// intents would bring a capability near to everything; with the mean, they dilute each other.
pub fn index_text(described: &Described<'_>) -> IndexText {
    let Described { name, description, parameters, domains, intents } = *described;
    let intents = &intents[..intents.len().min(MOST_INTENTS)];
    let name = split_name(name);
    let mut named = String::new();
    for (parameter, _) in parameters {
        push(&mut named, &split_name(parameter));
    }
    let mut sparse = name.clone();
    push(&mut sparse, description);
    push(&mut sparse, &named);
    for (_, description) in parameters {
        push(&mut sparse, description);
    }
    for label in domains.iter().flat_map(|domain| name_labels(domain)) {
        push(&mut sparse, label);
    }
    for intent in intents {
        push(&mut sparse, intent);
    }
    let mut dense = vec![
        (name, NAME_WEIGHT),
        (description.to_owned(), DESCRIPTION_WEIGHT),
        (named, PARAMETERS_WEIGHT),
    ];
    let each = INTENTS_WEIGHT / intents.len() as f32;
    dense.extend(intents.iter().map(|intent| ((*intent).to_owned(), each)));
    dense.retain(|(text, _)| !text.trim().is_empty());
    IndexText { dense, sparse }
}

/// The words of an identifier, with spaces between them and their case kept.
///
/// ```
/// # use registry::embed::split_name;
/// assert_eq!(split_name("ListDogBreeds"), "List Dog Breeds");
/// assert_eq!(split_name("HTTPServer2"), "HTTP Server 2");
/// assert_eq!(split_name("get_user-IDs"), "get user IDs");
/// ```
pub fn split_name(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut words = String::with_capacity(name.len() + 8);
    for (at, character) in characters.iter().enumerate() {
        if !character.is_alphanumeric() {
            push_space(&mut words);
            continue;
        }
        if at > 0 && begins_word(characters[at - 1], *character, &characters[at + 1..]) {
            push_space(&mut words);
        }
        words.push(*character);
    }
    words.truncate(words.trim_end().len());
    words
}

/// The parts of a query that ask for something of their own; empty when it asks for one thing.
///
/// Searching the clauses beside the whole query is what finds every capability of a request for
/// several. A query is cut after a word that ends in `.`, `!`, `?` or `;`, at line ends, at `and`
/// after a comma, and at `then` and `also`. Clauses shorter than three words are dropped, and no
/// more than sixteen are given.
///
/// ```
/// # use registry::embed::split_clauses;
/// let query = "Check the weather in Paris, and post it to Twitter";
/// assert_eq!(split_clauses(query), ["Check the weather in Paris,", "post it to Twitter"]);
/// assert!(split_clauses("pooch kinds").is_empty());
/// ```
pub fn split_clauses(query: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    for line in query.lines() {
        let mut open = Clause::default();
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

/// A clause that is being read: its place in the line and its number of words.
#[derive(Default)]
struct Clause {
    start: usize,
    end: usize,
    words: usize,
}

impl Clause {
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

/// Whether a new word of an identifier begins at `character`.
fn begins_word(before: char, character: char, after: &[char]) -> bool {
    let lower_next = after.first().is_some_and(|c| c.is_lowercase());
    if character.is_numeric() {
        // `Server2` is two words, `S3` and `HTTP2` are one.
        return before.is_lowercase();
    }
    if !character.is_uppercase() {
        return false;
    }
    if before.is_uppercase() {
        // `HTTPServer` ends an abbreviation, the plural in `userIDs` does not.
        let plural = after.first() == Some(&'s') && !after.get(1).is_some_and(|c| c.is_lowercase());
        return lower_next && !plural;
    }
    before.is_lowercase() || (before.is_numeric() && lower_next)
}

/// Parts of a hostname that may say what the service is about.
fn name_labels(domain: &str) -> impl Iterator<Item = &str> {
    let host = domain.split(':').next().unwrap_or(domain);
    host.split(['.', '-']).filter(|label| {
        label.chars().any(char::is_alphabetic)
            && !EMPTY_LABELS.split(' ').any(|empty| label.eq_ignore_ascii_case(empty))
    })
}

fn push(text: &mut String, more: &str) {
    let more = more.trim();
    if !more.is_empty() && !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

fn push_space(text: &mut String) {
    if !text.is_empty() && !text.ends_with(' ') {
        text.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_name(name: &str, expected: &str) {
        assert_eq!(split_name(name), expected, "{name:?}");
    }

    #[test]
    fn identifiers_become_words() {
        check_name("ListDogBreeds", "List Dog Breeds");
        check_name("HTTPServer2", "HTTP Server 2");
        check_name("getUserIDs", "get User IDs");
        check_name("GetURLsByTag", "Get URLs By Tag");
        check_name("S3Bucket", "S3 Bucket");
        check_name("2FACode", "2FA Code");
        check_name("snake_case-and.dots", "snake case and dots");
        check_name("__private__", "private");
        check_name("ÉtatDuColis", "État Du Colis");
        check_name("already split", "already split");
        check_name("", "");
        check_name("_-", "");
    }

    #[track_caller]
    fn check_clauses(query: &str, expected: &[&str]) {
        assert_eq!(split_clauses(query), expected, "{query:?}");
    }

    #[test]
    fn a_request_for_several_things_is_cut() {
        check_clauses(
            "Check the weather in Paris, and post it to Twitter",
            &["Check the weather in Paris,", "post it to Twitter"],
        );
        check_clauses(
            "Book a flight to Rome. Then find me a hotel! Also rent a car",
            &["Book a flight to Rome.", "find me a hotel!", "rent a car"],
        );
        check_clauses(
            "one line here\nanother line there",
            &["one line here", "another line there"],
        );
        check_clauses(
            "He said \"get me out.\" What now, my friend?",
            &["He said \"get me out.\"", "What now, my friend?"],
        );
    }

    #[test]
    fn a_single_request_is_left_whole() {
        check_clauses("pooch kinds", &[]);
        check_clauses("What is the weather in Paris?", &[]);
        check_clauses("the version 1.5 of api.example.com and its size", &[]);
        check_clauses("  ", &[]);
        check_clauses("", &[]);
    }

    #[test]
    fn short_clauses_are_dropped() {
        check_clauses("Hello there! Show me the weather.", &["Show me the weather."]);
        check_clauses("Why? How? When?", &[]);
    }

    #[test]
    fn clauses_are_bounded() {
        assert_eq!(split_clauses(&"do this now. ".repeat(1000)).len(), MOST_CLAUSES);
    }

    #[test]
    fn the_index_text_holds_what_a_query_may_name() {
        let text = index_text(&Described {
            name: "GetRiverLevel",
            description: "Latest level at a gauge",
            parameters: &[("stationId", "number of the gauge"), ("unit", "")],
            domains: &["api.pegel-online.example:8443", "127.0.0.1"],
            intents: &["how high is the Rhine", "is there a flood"],
        });
        let dense: Vec<_> =
            text.dense.iter().map(|(text, weight)| (text.as_str(), *weight)).collect();
        assert_eq!(
            dense,
            [
                ("Get River Level", 1.0),
                ("Latest level at a gauge", 1.0),
                ("station Id unit", 0.2),
                ("how high is the Rhine", 0.5),
                ("is there a flood", 0.5),
            ]
        );
        assert_eq!(
            text.sparse,
            "Get River Level Latest level at a gauge station Id unit number of the gauge pegel online \
             how high is the Rhine is there a flood"
        );
    }

    #[test]
    fn intents_are_bounded() {
        let intents = ["one more"; 100];
        let text =
            index_text(&Described { name: "Tool", intents: &intents, ..Described::default() });
        assert_eq!(text.dense.len(), 1 + MOST_INTENTS);
        assert_eq!(text.sparse.matches("one more").count(), MOST_INTENTS);
    }
}
