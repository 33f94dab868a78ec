//! The effects that a sentence asks for, and those of a capability.
//!
//! [`wanted_effect`] reads the verb of a request, and [`CapabilityEffects`] the verbs of a capability. A
//! [`contradiction`] is certain: in doubt there is no effect, and no contradiction. The verbs are in
//! `data/verbs.txt`.

mod verbs;

use std::collections::BTreeSet;
use std::fmt;

use crate::intent_text::{TextToken, TokenKind, split_requests, tokenize};
use verbs::{Verb, VerbForm, verb_at, word_at};

/// The maximum number of bytes of a description that are read.
const MAX_DESCRIPTION: usize = 2_000;

/// Words before a request that do not change it.
const FILLERS: [&str; 24] = [
    "please", "pls", "plz", "kindly", "just", "now", "then", "also", "hey", "hi", "hello", "ok",
    "okay", "so", "and", "but", "first", "finally", "quickly", "well", "yes", "thanks", "there",
    "to",
];
/// Beginnings of requests. A verb follows them.
const OPENERS: [&str; 32] = [
    "can you",
    "could you",
    "would you",
    "will you",
    "can we",
    "could we",
    "can i",
    "could i",
    "may i",
    "i want to",
    "i want you to",
    "i wanna",
    "i would like to",
    "i would like you to",
    "i'd like to",
    "i'd like you to",
    "i'd love to",
    "i need to",
    "i need you to",
    "i wish to",
    "we want to",
    "we need to",
    "we'd like to",
    "help me",
    "help us",
    "let's",
    "let us",
    "go ahead and",
    "is it possible to",
    "would it be possible to",
    "i'm trying to",
    "would you mind",
];
/// Words that begin a question.
const QUESTIONS: [&str; 9] =
    ["what", "which", "who", "whose", "where", "when", "why", "how", "what's"];
/// Words that begin a question when a subject follows.
const AUXILIARIES: [&str; 14] = [
    "is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "will", "would",
    "should", "am",
];
const SUBJECTS: [&str; 19] = [
    "i", "you", "he", "she", "it", "we", "they", "there", "the", "a", "an", "any", "this", "that",
    "these", "those", "my", "our", "your",
];
/// Beginnings of questions that ask for instructions: the person may want the effect itself.
const INSTRUCTIONS: [&str; 9] = [
    "how do",
    "how can",
    "how to",
    "how could",
    "how would",
    "how should",
    "where can",
    "where do",
    "why not",
];
/// Words after which another clause can begin.
const JOINS: [&str; 6] = ["and", "or", "then", "also", "please", "but"];
/// The maximum number of words of an opener.
const OPENER_WORDS: usize = 5;

/// The effect of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Finds, calculates or shows something, and changes nothing.
    Read,
    /// Makes something that stays.
    Create,
    /// Changes something that exists.
    Change,
    /// Deletes, removes or cancels something.
    Delete,
    /// Buys, books or pays.
    Buy,
    /// Sends or publishes a message.
    Send,
}

impl Effect {
    const ALL: [Self; 6] =
        [Self::Read, Self::Create, Self::Change, Self::Delete, Self::Buy, Self::Send];

    /// The effect as a verb: `delete`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Buy => "buy",
            Self::Send => "send",
        }
    }

    /// Returns true when a request for this effect is surely not for a capability with only the other.
    const fn excludes(self, other: Self) -> bool {
        match self {
            Self::Read => matches!(other, Self::Delete | Self::Buy),
            Self::Create | Self::Buy => matches!(other, Self::Read | Self::Delete),
            // A program can delete the old thing and make a new one.
            Self::Change => matches!(other, Self::Read),
            // An update can delete a part.
            Self::Delete => matches!(other, Self::Read | Self::Create | Self::Buy | Self::Send),
            // To send something that was found, a plan needs a capability that reads.
            Self::Send => matches!(other, Self::Delete),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The effects of a capability, as far as its name and its description show them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityEffects(BTreeSet<Effect>);

impl CapabilityEffects {
    /// Reads the effects from the first verb of a name (`PostTweet` or `post_tweet`), and from the first verb
    /// of a description and those that `and` joins to it. `read_only` is true when no request of the
    /// capability changes anything. A capability that is not read-only, and whose verbs do not show a change,
    /// can have any effect.
    #[must_use]
    pub fn new(name: &str, description: &str, read_only: bool) -> Self {
        let name = a2s::split_name(name);
        let name = words_of(&name);
        let description = &description[..description.floor_char_boundary(MAX_DESCRIPTION)];
        let description = words_of(description);
        let mut effects: BTreeSet<Effect> = certain_effect(verb_at(&name, 0)).into_iter().collect();
        effects.extend(described_effects(&description));
        let is_unclear =
            |words| verb_at(words, 0).is_some_and(|verb| !verb.in_doubt && verb.effect.is_none());
        if read_only {
            effects.insert(Effect::Read);
        } else if effects.iter().all(|effect| *effect == Effect::Read)
            || is_unclear(&name)
            || is_unclear(&description)
        {
            effects.extend(Effect::ALL);
        }
        Self(effects)
    }
}

impl fmt::Display for CapabilityEffects {
    /// Writes the effects in the third person: `reads and sends`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() == Effect::ALL.len() {
            return f.write_str("can have any effect");
        }
        for (at, effect) in self.0.iter().enumerate() {
            write!(f, "{}{effect}s", if at == 0 { "" } else { " and " })?;
        }
        Ok(())
    }
}

/// Returns true when a capability surely does something else than the wanted effect.
///
/// ```
/// # use a2s_intent::effect::{CapabilityEffects, contradiction, wanted_effect};
/// let tweet = CapabilityEffects::new("PostTweet", "Posts a text as a tweet on Twitter", false);
/// let wanted = wanted_effect("delete my tweet").unwrap();
/// assert!(contradiction(wanted, &tweet));
/// assert_eq!(format!("{wanted}; PostTweet {tweet}"), "delete; PostTweet sends");
/// ```
#[must_use]
pub fn contradiction(wanted: Effect, does: &CapabilityEffects) -> bool {
    does.0.iter().all(|effect| wanted.excludes(*effect))
}

/// Returns the effect that a sentence asks for. None in doubt, and when it asks for several.
///
/// ```
/// # use a2s_intent::effect::{Effect, wanted_effect};
/// assert_eq!(wanted_effect("Could you please cancel my order?"), Some(Effect::Delete));
/// assert_eq!(wanted_effect("books about dragons"), None);
/// ```
#[must_use]
pub fn wanted_effect(sentence: &str) -> Option<Effect> {
    let requests = split_requests(sentence);
    let effects = requests.iter().filter_map(|request| request_effect(&words_of(request)));
    let effects: BTreeSet<Effect> = effects.collect();
    let wanted = effects.first().copied().filter(|_| effects.len() == 1)?;
    let words = words_of(sentence);
    let has_other = (0..words.len()).any(|at| contains_other_effect(&words, at, wanted));
    (!has_other).then_some(wanted)
}

/// Returns the effect that one request asks for.
fn request_effect(words: &[TextToken<'_>]) -> Option<Effect> {
    let (start, opener) = skip_openers(words);
    if opener.is_none() && begins_question(words, start)? {
        return Some(Effect::Read);
    }
    let verb = verb_at(words, start)?;
    let form = match opener.as_deref() {
        Some("would you mind") => VerbForm::Gerund,
        _ => VerbForm::Base,
    };
    // "Book recommendations" are nouns, but "can you book flights" has a verb.
    verb.effect.filter(|_| verb.form == form && (opener.is_some() || !verb.in_doubt))
}

/// Returns true when the word at a position is a verb of another effect: "find a hotel and book it". A verb that
/// reads is often a part of the object ("delete what you find"): it counts only where a request can begin.
fn contains_other_effect(words: &[TextToken<'_>], at: usize, wanted: Effect) -> bool {
    let is_other = |verb: &Verb| verb.form != VerbForm::Third && verb.effect != Some(wanted);
    let Some(verb) = verb_at(words, at).filter(is_other) else { return false };
    match verb.effect {
        None | Some(Effect::Read) => !verb.in_doubt && is_joined(words, at),
        Some(_) => !verb.in_doubt,
    }
}

/// Skips the words before the verb of a request. Returns its position, and the last opener.
fn skip_openers(words: &[TextToken<'_>]) -> (usize, Option<String>) {
    let (mut at, mut opener) = (0, None);
    loop {
        let is_filler = match words.get(at).map(|word| word.kind) {
            Some(TokenKind::Break(mark)) => mark == ',' || at == 0,
            _ => word_at(words, at).is_some_and(|word| FILLERS.contains(&word)),
        };
        if is_filler {
            at += 1;
        } else if let Some((found, length)) = opener_at(words, at) {
            at += length;
            opener = Some(found);
        } else {
            return (at, opener);
        }
    }
}

/// Returns the longest opener at a position, and its number of words.
fn opener_at(words: &[TextToken<'_>], at: usize) -> Option<(String, usize)> {
    let starts: Vec<&str> = (at..at + OPENER_WORDS).map_while(|at| word_at(words, at)).collect();
    (1..=starts.len()).rev().find_map(|length| {
        let text = starts.get(..length)?.join(" ");
        OPENERS.contains(&text.as_str()).then_some((text, length))
    })
}

/// Returns true when a question begins at a position. None when the question asks for instructions.
fn begins_question(words: &[TextToken<'_>], at: usize) -> Option<bool> {
    let Some(first) = word_at(words, at) else { return Some(false) };
    let next = word_at(words, at + 1).unwrap_or_default();
    if INSTRUCTIONS.contains(&format!("{first} {next}").as_str()) {
        return None;
    }
    Some(QUESTIONS.contains(&first) || (AUXILIARIES.contains(&first) && SUBJECTS.contains(&next)))
}

/// Returns the effects of a description: those of its first word, and of the verbs in the same form that `and`,
/// `or` or a comma join to it. When the first word is not a verb, each verb counts.
fn described_effects(words: &[TextToken<'_>]) -> BTreeSet<Effect> {
    let first = verb_at(words, 0).filter(|verb| !verb.in_doubt);
    let fits = |at: usize, verb: &Verb| {
        first.is_none_or(|first| first.form == verb.form && is_joined(words, at))
    };
    let verbs = (0..words.len()).filter_map(|at| verb_at(words, at).filter(|verb| fits(at, verb)));
    let (in_doubt, certain): (Vec<_>, Vec<_>) = verbs.partition(|verb| verb.in_doubt);
    let mut effects: BTreeSet<Effect> = certain.iter().filter_map(|verb| verb.effect).collect();
    // A second effect makes a contradiction less likely. It does not have to be certain.
    if !effects.is_empty() {
        effects.extend(in_doubt.iter().filter_map(|verb| verb.effect));
    }
    effects
}

/// Returns true when a clause can begin at a position.
fn is_joined(words: &[TextToken<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    before.is_none_or(|before| match before.kind {
        TokenKind::Break(_) => true,
        TokenKind::Word => JOINS.contains(&before.norm.as_str()),
        TokenKind::Quote(..) => false,
    })
}

/// Returns the tokens of a text.
fn words_of(text: &str) -> Vec<TextToken<'_>> {
    tokenize(text, &|_| false)
}

/// Returns the effect of a word that is surely a verb.
fn certain_effect(verb: Option<Verb>) -> Option<Effect> {
    verb.filter(|verb| !verb.in_doubt)?.effect
}

#[cfg(test)]
mod tests;
