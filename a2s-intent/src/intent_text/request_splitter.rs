//! The beginnings of requests, by a few English words.

use super::tokenizer::{TextToken, TokenKind};

/// Words that may begin a request before its verb, when more words follow.
const OPENERS: [&str; 24] = [
    "please",
    "can",
    "could",
    "would",
    "will",
    "finally",
    "afterwards",
    "what",
    "how",
    "who",
    "where",
    "when",
    "which",
    "why",
    "is",
    "are",
    "does",
    "do",
    "i",
    "i'd",
    "let",
    "let's",
    "then",
    "also",
];

/// Verbs that always ask for something after `and`.
const VERBS: [&str; 46] = [
    "announce",
    "broadcast",
    "calculate",
    "check",
    "compare",
    "compute",
    "convert",
    "create",
    "define",
    "describe",
    "draw",
    "email",
    "explain",
    "fetch",
    "find",
    "generate",
    "get",
    "give",
    "inform",
    "introduce",
    "list",
    "look",
    "make",
    "notify",
    "post",
    "prepare",
    "proofread",
    "publish",
    "push",
    "quote",
    "reach",
    "remind",
    "save",
    "search",
    "send",
    "share",
    "show",
    "summarise",
    "summarize",
    "tell",
    "translate",
    "tweet",
    "update",
    "upload",
    "warn",
    "write",
];

/// Verbs that are nouns as often ("law and order"): they ask for something when an object follows.
const PERHAPS_VERBS: [&str; 24] = [
    "add", "alert", "ask", "book", "buy", "call", "forward", "mail", "message", "open", "order",
    "plan", "play", "print", "put", "read", "reply", "report", "run", "say", "schedule", "start",
    "text", "use",
];

/// Words that begin the object of a verb, or an adverb to it.
const OBJECTS: [&str; 41] = [
    "it",
    "them",
    "this",
    "that",
    "these",
    "those",
    "me",
    "us",
    "him",
    "her",
    "you",
    "the",
    "a",
    "an",
    "my",
    "our",
    "your",
    "its",
    "their",
    "his",
    "every",
    "everyone",
    "everybody",
    "all",
    "some",
    "any",
    "each",
    "to",
    "on",
    "in",
    "at",
    "for",
    "about",
    "via",
    "with",
    "what",
    "how",
    "if",
    "whether",
    "up",
    "out",
];

/// Returns true when the word at a position asks for something. It must be in lower case: a capitalised
/// word is part of a name.
pub(super) fn begins_request(words: &[TextToken<'_>], at: usize) -> bool {
    let Some(word) = words.get(at).filter(|word| word.kind == TokenKind::Word) else {
        return false;
    };
    let norm = word.norm.as_str();
    if word.is_capitalised() && norm != "i" && norm != "i'd" {
        return false;
    }
    let next = words.get(at + 1);
    let has_more = next.is_some_and(|next| !matches!(next.kind, TokenKind::Break(_)));
    let has_object = next.is_some_and(|next| match next.kind {
        TokenKind::Quote(..) => true,
        TokenKind::Break(_) => false,
        TokenKind::Word => OBJECTS.contains(&next.norm.as_str()),
    });
    VERBS.contains(&norm)
        || (OPENERS.contains(&norm) && has_more)
        || (PERHAPS_VERBS.contains(&norm) && has_object)
}
