//! Coreference: a request points at something that an earlier request said or gives.

use crate::word_similarity;

/// Words that refer to an earlier request.
const PRONOUNS: [&str; 8] = ["it", "them", "this", "that", "these", "those", "its", "their"];
/// Words before a thing that the request refers to.
const DETERMINERS: [&str; 7] = ["the", "its", "their", "this", "that", "these", "those"];
/// Words at which the name of a thing ends.
const THING_ENDS: [&str; 25] = [
    "in", "on", "at", "to", "for", "of", "with", "as", "by", "and", "or", "via", "from", "into",
    "about", "is", "are", "was", "saying", "that", "then", "please", "topic", "worth", "who",
];
/// Subjects of a clause. The name of a thing ends at them, too.
const SUBJECTS: [&str; 8] = ["it", "they", "he", "she", "we", "i", "you", "there"];
/// The maximum number of words in the name of a thing.
const MAX_THING_WORDS: usize = 3;

/// The references in a request to earlier requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coreferences {
    /// The word that refers to the complete earlier result: `it`.
    pub pronoun: Option<String>,
    /// The things that the request refers to: the words after `the`, `its` and the like.
    pub things: Vec<Vec<String>>,
}

/// Words at the beginning of a message that continues a conversation.
const CONTINUATIONS: [&str; 4] = ["and", "also", "then", "again"];
/// Beginnings of two words of such a message.
const CONTINUING_PAIRS: [[&str; 2]; 4] =
    [["what", "about"], ["how", "about"], ["same", "for"], ["what", "if"]];
/// Words that refer to a place, a time or a thing of an earlier message.
const BACKWARD_WORDS: [&str; 3] = ["there", "same", "again"];

/// Returns true when a message continues an earlier one: "and tomorrow?", "what about the wind there?".
///
/// ```
/// # use a2s_intent::coreference::continues_conversation;
/// assert!(continues_conversation("And the air quality?"));
/// assert!(continues_conversation("how warm is it there"));
/// assert!(!continues_conversation("weather in Oslo"));
/// assert!(!continues_conversation("is there a book about bees"));
/// ```
#[must_use]
pub fn continues_conversation(text: &str) -> bool {
    let words = unquoted_words(text);
    let begins = match words.as_slice() {
        [first, second, ..] => {
            CONTINUATIONS.contains(&first.as_str())
                || CONTINUING_PAIRS.contains(&[first.as_str(), second.as_str()])
        }
        _ => false,
    };
    // "Is there a book" asks for something new.
    let refers_back = |(at, word): (usize, &String)| {
        let is_question = at > 0 && ["is", "are"].contains(&words[at - 1].as_str());
        BACKWARD_WORDS.contains(&word.as_str()) && !(word == "there" && is_question)
    };
    begins || words.iter().enumerate().any(refers_back)
}

impl Coreferences {
    /// Finds the references in `text`, without its quoted texts.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let words = unquoted_words(text);
        let mut references = Self::default();
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).map_or("", String::as_str);
            let is_determiner = DETERMINERS.contains(&word.as_str());
            let thing = if is_determiner { leading_thing(&words[at + 1..]) } else { Vec::new() };
            // "That it rains" and "this evening" point at nothing that came before.
            let is_pronoun = PRONOUNS.contains(&word.as_str())
                && match word.as_str() {
                    "that" | "this" | "these" | "those" => {
                        next.is_empty() || THING_ENDS.contains(&next)
                    }
                    "it" => !matches!(next, "is" | "will" | "rains" | "was"),
                    _ => true,
                };
            if is_pronoun && references.pronoun.is_none() {
                references.pronoun = Some(word.clone());
            }
            if !thing.is_empty() {
                references.things.push(thing);
            }
        }
        references
    }
}

/// Returns the thing at the beginning of these words.
fn leading_thing(words: &[String]) -> Vec<String> {
    let goes_on =
        |word: &&String| !THING_ENDS.contains(&word.as_str()) && !SUBJECTS.contains(&word.as_str());
    words.iter().take(MAX_THING_WORDS).take_while(goes_on).cloned().collect()
}

/// Returns the words of a phrase without the determiner: `capital` of "its capital".
#[must_use]
pub fn named_thing(text: &str) -> Option<Vec<String>> {
    let words = unquoted_words(text);
    let first = words.first().filter(|word| DETERMINERS.contains(&word.as_str()))?;
    let thing = leading_thing(words.get(1..)?);
    (!thing.is_empty() && !first.is_empty()).then_some(thing)
}

/// Returns the words of a text in lower case, without quoted texts.
fn unquoted_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut quote: Option<char> = None;
    for chunk in text.split_whitespace() {
        let closes = |mark: char| chunk.trim_end_matches(['.', ',', '!', '?', ';']).ends_with(mark);
        if let Some(mark) = quote {
            quote = Some(mark).filter(|mark| !closes(*mark));
            continue;
        }
        let opened = chunk.chars().next().and_then(|first| match first {
            '"' | '\'' => Some(first),
            '“' => Some('”'),
            '„' => Some('“'),
            '«' => Some('»'),
            '‘' => Some('’'),
            _ => None,
        });
        if let Some(mark) = opened {
            quote = Some(mark).filter(|mark| chunk.chars().count() == 1 || !closes(*mark));
            continue;
        }
        let word = chunk.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        words.extend((!word.is_empty()).then_some(word));
    }
    words
}

/// Returns true when the first words of a thing, or all of them, are the whole name of an output.
#[must_use]
pub fn names_output(thing: &[String], output: &str) -> bool {
    let name = word_similarity::words_of_name(output);
    (1..=thing.len()).any(|length| {
        thing.get(..length).is_some_and(|thing| word_similarity::are_same_words(thing, &name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, pronoun: Option<&str>, things: &[&str]) {
        let references = Coreferences::from_text(text);
        assert_eq!(references.pronoun.as_deref(), pronoun, "{text}");
        let found: Vec<String> = references.things.iter().map(|thing| thing.join(" ")).collect();
        assert_eq!(found, things, "{text}");
    }

    #[test]
    fn what_a_request_points_at_is_found() {
        check("tweet it", Some("it"), &[]);
        check("share it on Twitter", Some("it"), &[]);
        check("get the weather in its capital", Some("its"), &["weather", "capital"]);
        check("send the summary to topic x", None, &["summary"]);
        check("tweet 'it is the end'", None, &[]);
        check("say that it is late", None, &[]);
        check("draw a chart of the temperatures", None, &["temperatures"]);
        check("", None, &[]);
    }

    #[test]
    fn a_thing_names_an_output_whole() {
        let thing = |text: &str| named_thing(text).unwrap();
        assert!(names_output(&thing("its capital"), "capital"));
        assert!(names_output(&thing("the temperatures today"), "temperature"));
        assert!(!names_output(&thing("the capital letter"), "letter"));
        assert!(!names_output(&thing("the wind"), "wind_speed"));
        assert_eq!(named_thing("Paris"), None);
    }
}
