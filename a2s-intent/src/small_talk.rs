//! Small talk: messages that do not ask for a capability.

use crate::reply::{is_refusal, normalize_words};

/// The maximum number of bytes of a message that can be small talk.
const MAX_MESSAGE: usize = 200;

/// The phrases of each kind, and the courtesies.
const PHRASES: &str = include_str!("../data/small_talk.txt");

/// The kind of a message that does not ask for a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallTalk {
    /// The user asks for help: "help".
    Help,
    /// The user asks for the abilities of the agent: "what can you do?"
    Abilities,
    /// The user says thanks.
    Thanks,
    /// The user greets: "hi".
    Greeting,
    /// The user cancels or refuses: "never mind".
    Cancel,
}

/// Returns the kind of small talk when the complete message is small talk. A reply to a question is the subject
/// of [`crate::reply`]: there, "no" is a refusal.
///
/// ```
/// # use a2s_intent::small_talk::{SmallTalk, small_talk};
/// assert_eq!(small_talk("Thanks a lot!"), Some(SmallTalk::Thanks));
/// assert_eq!(small_talk("cancel my order"), None);
/// ```
#[must_use]
pub fn small_talk(message: &str) -> Option<SmallTalk> {
    if message.len() > MAX_MESSAGE {
        return None;
    }
    let message = normalize_words(&message.replace('’', "'"));
    let mut text = message.as_str();
    loop {
        if let Some(found) = find_phrase(text) {
            return Some(found);
        }
        text = strip_courtesy(text)?;
    }
}

/// Returns the kind of small talk that is exactly this text.
fn find_phrase(text: &str) -> Option<SmallTalk> {
    let kinds = [
        (SmallTalk::Help, "help"),
        (SmallTalk::Abilities, "abilities"),
        (SmallTalk::Thanks, "thanks"),
        (SmallTalk::Greeting, "greeting"),
        (SmallTalk::Cancel, "cancel"),
    ];
    let found = kinds.iter().find(|(_, name)| phrases_of(name).any(|phrase| phrase == text));
    found.map(|(kind, _)| *kind).or_else(|| is_refusal(text).then_some(SmallTalk::Cancel))
}

/// Returns the phrases on a line of the file.
fn phrases_of(name: &str) -> impl Iterator<Item = &'static str> {
    let phrases = PHRASES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    phrases.into_iter().flat_map(|phrases| phrases.split("; "))
}

/// Returns a text without a courtesy at its beginning or its end. None when there is none.
fn strip_courtesy(text: &str) -> Option<&str> {
    phrases_of("courtesy").find_map(|courtesy| {
        let after = text.strip_prefix(courtesy).and_then(|rest| rest.strip_prefix(' '));
        after.or_else(|| text.strip_suffix(courtesy)?.strip_suffix(' '))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(expected: Option<SmallTalk>, messages: &[&str]) {
        let found = messages.iter().map(|message| (*message, small_talk(message)));
        let wrong: Vec<_> = found.filter(|(_, found)| *found != expected).collect();
        assert_eq!(wrong, []);
    }

    #[test]
    fn a_message_that_is_only_small_talk_is_recognized() {
        check(
            Some(SmallTalk::Help),
            &[
                "help",
                "Help!",
                "/help",
                "HELP ME PLEASE",
                "hi, can you help me?",
                "I need some help.",
            ],
        );
        check(
            Some(SmallTalk::Abilities),
            &[
                "what can you do?",
                "What can I ask",
                "Hello! What can you do for me?",
                "so who are you",
            ],
        );
        check(
            Some(SmallTalk::Thanks),
            &[
                "thanks a lot!",
                "Thank you",
                "ok, thanks",
                "Great, thank you very much 🙏",
                "thanks, bye",
            ],
        );
        check(
            Some(SmallTalk::Greeting),
            &["hi", "Hello there!", "hey agent", "Good morning.", "hi, how are you?", "what’s up"],
        );
        check(
            Some(SmallTalk::Cancel),
            &["cancel", "Never mind.", "stop!", "please stop", "no, thanks", "oh, forget about it"],
        );
    }

    #[test]
    fn a_request_is_not_small_talk() {
        check(
            None,
            &[
                "help me find a concert",
                "can you help me with my grammar",
                "cancel my order",
                "cancel the tweet please",
                "thanks, and what's the weather in Paris",
                "stop the music",
                "hi, list dog breeds",
                "what can you do about the weather",
                "who are you talking about",
                "nothing but the truth",
                "hide the picture",
                "say hello",
                "thank you notes",
                "yes",
                "ok",
                "please",
                "bye",
                "",
                " ?! ",
            ],
        );
        check(None, &["hi ".repeat(1_000).as_str()]);
    }

    #[test]
    fn phrases_are_written_as_messages_are_compared() {
        for line in PHRASES.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (_, phrases) = line.split_once(": ").unwrap();
            for phrase in phrases.split("; ") {
                assert_eq!(phrase, normalize_words(phrase));
            }
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read(message in ".*", words in prop::collection::vec(
            prop::sample::select(phrases_of("courtesy").collect::<Vec<_>>()), 0..20))
        {
            let _ = small_talk(&message);
            let _ = small_talk(&words.join(" "));
        }
    }
}
